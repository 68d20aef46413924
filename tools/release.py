"""`make release`: changelog, version, commit, tag and what is published, of a clean main; pushes nothing."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import click

from tools.build import ROOT, BuildFailed, build

BRANCH = "main"
CHANGELOG = Path("CHANGELOG.md")
_UNRELEASED = "## [Unreleased]\n"
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
# File -> lines in it that have the version: the one that it is defined in, and those that have to repeat it.
_VERSIONED = {
    Path("src/reconciler/__init__.py"): (r'__version__ = "([^"]+)"',),
    Path("deploy/helm/zonewright/Chart.yaml"): (r"version: (\S+)", r'appVersion: "([^"]+)"'),
    Path("docs/operating/installing.md"): (
        r"git checkout v(\S+) && .*",
        r"\S+ install --no-deps --no-index \S*zonewright-(\d[\d.]*\d)-py3-none-any\.whl",
    ),
}
_DEFINED_IN = Path("src/reconciler/__init__.py")


class NotReleasable(Exception):
    """What has to be done before a release; nothing was changed."""


def changed_changelog(text: str, version: str, on: date) -> str:
    """A changelog in which what was not released is that version's.

    Raises: NotReleasable when there is nothing.
    """
    before, heading, after = text.partition(_UNRELEASED)
    if not heading:
        raise NotReleasable(f"{CHANGELOG} has no line `{_UNRELEASED.strip()}`")
    body = re.split(r"^## ", after, maxsplit=1, flags=re.MULTILINE)[0]
    if not re.search(r"^- ", body, re.MULTILINE):
        raise NotReleasable(f"{CHANGELOG} has nothing under `{_UNRELEASED.strip()}`: say what users notice")
    return f"{before}{heading}\n## [{version}] - {on.isoformat()}\n{after}"


def changed_version(text: str, lines: Sequence[str], version: str) -> str:
    """A file in which each of these lines has another version; they are patterns whose group is it."""
    for line in lines:
        text, count = re.subn(
            rf"^{line}$",
            lambda found: found[0].replace(found[1], version),
            text,
            flags=re.MULTILINE,
        )
        if count != 1:
            raise NotReleasable(f"there are {count} lines `{line}`, and one is expected")
    return text


def parsed(version: str) -> tuple[int, int, int]:
    """The parts of a version (Semantic Versioning, without pre-releases). Raises NotReleasable."""
    if (found := _VERSION.fullmatch(version)) is None:
        raise NotReleasable(f"`{version}` is no version: expected three numbers, as in 0.2.0")
    major, minor, patch = map(int, found.groups())
    return major, minor, patch


class Repository:
    """The working tree of a repository."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, *arguments: str) -> str:
        """What a command says. Raises NotReleasable."""
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotReleasable(f"git {arguments[0]}: {done.stderr.strip()}")
        return done.stdout.strip()

    def require_releasable(self, version: str) -> None:
        """Raises NotReleasable: another branch, changes that are not committed, no version or an old one."""
        wanted = parsed(version)
        if (branch := self.git("rev-parse", "--abbrev-ref", "HEAD")) != BRANCH:
            raise NotReleasable(f"this is the branch `{branch}`: releases are made of `{BRANCH}`")
        if changed := self.git("status", "--porcelain"):
            raise NotReleasable(f"commit or remove what has changed first:\n{changed}")
        if (released := max(self._released(), default=None)) is not None and wanted <= released:
            raise NotReleasable(f"`{version}` is not newer than {_text(released)}, which is released")
        current = re.search(_VERSIONED[_DEFINED_IN][0], (self.root / _DEFINED_IN).read_text("utf-8"))
        if current is not None and wanted < parsed(current[1]):
            raise NotReleasable(f"`{version}` is older than {current[1]}, the version of this tree")

    def _released(self) -> Iterator[tuple[int, int, int]]:
        for tag in self.git("tag", "--list", "v*").splitlines():
            if _VERSION.fullmatch(tag[1:]):
                yield parsed(tag[1:])

    def release(self, version: str, on: date) -> list[Path]:
        """Make a release; the files that it is published as.

        They are built of the commit, so that anybody can build the same; one whose build fails is undone.

        Raises: NotReleasable, BuildFailed; nothing is changed then.
        """
        self.require_releasable(version)
        written = {CHANGELOG: changed_changelog((self.root / CHANGELOG).read_text("utf-8"), version, on)}
        for file, lines in _VERSIONED.items():
            written[file] = changed_version((self.root / file).read_text("utf-8"), lines, version)
        before = self.git("rev-parse", "HEAD")
        try:
            for file, text in written.items():
                (self.root / file).write_text(text, "utf-8")
            self.git("commit", "--quiet", "--message", f"Release {version}", "--", *map(str, written))
            made = build(self.root, self.root / "dist")
            self.git("tag", "--annotate", f"v{version}", "--message", f"zonewright {version}")
        except BaseException:
            self.git("reset", "--quiet", "--hard", before)
            raise
        return made


def _text(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))


@click.command()
@click.argument("version")
@click.option(
    "--date",
    "on",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The day in the changelog; today, in UTC, without it.",
)
def main(version: str, on: datetime | None) -> None:
    """Release VERSION (as in 0.2.0) of a clean main."""
    try:
        made = Repository(ROOT).release(version, (on or datetime.now(UTC)).date())
    except (NotReleasable, BuildFailed) as refusal:
        raise click.ClickException(str(refusal)) from None
    for each in made:
        click.echo(f"made  {each.relative_to(ROOT)}")
    click.echo(
        f"made  the commit `Release {version}` and the tag v{version}; nothing is pushed\n\n"
        "Next:\n"
        "  .ci/run\n"
        f"  git push --atomic origin {BRANCH} v{version}\n"
        "  publish the four files of dist/, and requirements/service.txt with them\n"
        "  podman build -f deploy/container/Containerfile"
        f" --build-arg VERSION={version} --build-arg REVISION=$(git rev-parse v{version})"
        f" --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct v{version}) -t zonewright:{version} .\n\n"
        f"To undo it before that: git tag --delete v{version} && git reset --hard HEAD^"
    )


if __name__ == "__main__":
    main()

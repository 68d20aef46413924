"""`make build`: wheel, source, bill of materials and checksums; the same commit gives the same bytes."""

import hashlib
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from tools.sbom import bill_of_materials

ROOT = Path(__file__).resolve().parents[1]
LOCK = Path("requirements/service.txt")
CHECKSUMS = "SHA256SUMS"


class BuildFailed(Exception):
    """The builder's own words."""


def build(root: Path, into: Path) -> list[Path]:
    """Build a working tree.

    Args:
        into: a folder; what it had before is removed.
    Returns: wheel, source, bill of materials and the checksums of these, in that order.
    Raises: BuildFailed.
    """
    at = committed_at(root)
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", into.resolve()],
        cwd=root,
        env=os.environ | {"SOURCE_DATE_EPOCH": str(int(at.timestamp()))},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildFailed(done.stdout + done.stderr)
    (wheel,), (source,) = into.glob("*.whl"), into.glob("*.tar.gz")
    bill = into / f"{source.name.removesuffix('.tar.gz')}.cdx.json"
    bill.write_text(bill_of_materials(wheel, (root / LOCK).read_text("utf-8"), at=at), "utf-8")
    made = [wheel, source, bill]
    checksums = into / CHECKSUMS
    checksums.write_text("".join(f"{_digest(each)}  {each.name}\n" for each in made))
    return [*made, checksums]


def committed_at(root: Path) -> datetime:
    """When the newest commit was made; all times in what is built are that. 1980 without git."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=root, capture_output=True, text=True, check=False
    )
    return datetime.fromtimestamp(int(done.stdout) if done.returncode == 0 else 315532800, UTC)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@click.command()
@click.argument("into", type=click.Path(path_type=Path, file_okay=False))
def main(into: Path) -> None:
    """Build the working tree INTO a folder, which is emptied first."""
    try:
        made = build(ROOT, into)
    except BuildFailed as failure:
        raise click.ClickException(str(failure)) from None
    click.echo((into / CHECKSUMS).read_text(), nl=False)
    click.echo(f"{made[-1]} has the checksums: sha256sum --check {CHECKSUMS}")


if __name__ == "__main__":
    main()

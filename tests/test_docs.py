"""The documents are true: every setting, every link, every command of make, and the locks."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from annotated_types import Ge, Le
from pydantic.fields import FieldInfo

from runtime.domain.oauth.exchange_steps import Step
from runtime.services.readiness import DATABASE_SECONDS, STATE_SECONDS
from runtime.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def settings_table() -> str:
    """The table of settings, as docs/configuration.md has it."""
    lines = ["| Setting | Default | Meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = (
            ""
            if field.default is None
            else f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"
        )
        lines.append(f"| `ZONED_{name.upper()}` | {default} | {field.description}{_bounds(field)} |")
    return "\n".join(lines)


def _bounds(field: FieldInfo) -> str:
    """The least and the greatest value, where a setting has them; that it is not negative goes without."""
    least = next((each.ge for each in field.metadata if isinstance(each, Ge)), 0)
    greatest = next((each.le for each in field.metadata if isinstance(each, Le)), None)
    if greatest is not None:
        return f"; {least} to {greatest}"
    return f"; at least {least}" if least else ""


def test_every_setting_is_documented():
    """The table is what the settings say of themselves, word for word."""
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    assert f"<!-- settings -->\n{settings_table()}\n<!-- /settings -->" in text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path):
    """A relative link names a file or directory that is there."""
    targets = re.findall(r"\]\(([^)#:]+)\)", document.read_text("utf-8"))
    assert [target for target in targets if not (document.parent / target).exists()] == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    lines = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", lines, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_to_a_section_name_a_heading_that_is_there(document: Path):
    """The part of a link behind `#` is the anchor of a heading of the page that it leads to."""
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text("utf-8"))
    pages = [(document.parent / target if target else document, anchor) for target, anchor in links]
    assert [(page.name, anchor) for page, anchor in pages if anchor not in anchors(page)] == []


def drawn_paths(tree: str) -> Iterator[str]:
    """The paths in a drawing of the tree: a name ends with `/` or `.py`, and two columns are one level."""
    above: list[str] = []
    for line in tree.splitlines():
        level, names = (len(line) - len(line.lstrip())) // 2, re.match(r"[\w./]+(?:, [\w./]+)*", line.strip())
        if level > 5 or names is None or not re.search(r"(/|\.py)$", names[0]):
            continue
        for name in names[0].split(", "):
            yield "".join([*above[:level], name])
        above = [*above[:level], name]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_file_that_a_document_names_is_there(document: Path):
    """A path of the source, the tests, the schemas or the examples leads to a file or a directory.

    Paths in the changelog are those of their release, and MIGRATION stands for the name of a new file.
    """
    if document.name == "CHANGELOG.md":
        return
    text = document.read_text("utf-8")
    named = set(re.findall(r"`((?:src|tests|schemas|examples|docs)/[\w./-]+)`", text))
    named |= {f"src/runtime/{path}" for path in re.findall(r"`(services/[\w./-]+)`", text)}
    trees = re.findall(r"^```text\n(src/.*?)^```$", text, re.MULTILINE | re.DOTALL)
    named |= {path for tree in trees for path in drawn_paths(tree)}
    named -= {"src/runtime/domain/kinds/contact.py"} | {path for path in named if "MIGRATION" in path}
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_every_page_is_in_the_index():
    """Whoever is new is led to few of them, and whoever looks for one finds it."""
    for index in (ROOT / "docs" / "README.md", ROOT / "docs" / "operating" / "README.md"):
        linked = set(re.findall(r"\]\((\w[\w-]*\.md)\)", index.read_text("utf-8")))
        assert linked == {path.name for path in index.parent.glob("*.md")} - {index.name}
    assert "(docs/README.md)" in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["guards", "limits", "threats"])
def test_a_page_to_look_things_up_says_how_to_read_it(name: str):
    """Before the first table: what it is for, whom it is for, and one row in words."""
    begin = (ROOT / "docs" / f"{name}.md").read_text("utf-8").partition("\n## ")[0]
    points = re.findall(r"^\*\*(.+?)\*\*", begin, re.MULTILINE)
    assert points[:3] == ["What it is for.", "Who needs it.", "How to read a row."]


def test_the_makefile_has_what_the_documents_name():
    """`make something` in a document is a target."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name
        for document in DOCUMENTS
        for name in re.findall(r"(?:`|^)make ([a-z]+(?:-[a-z]+)*)", document.read_text("utf-8"), re.MULTILINE)
    }
    assert named
    assert named <= targets


def test_continuous_integration_runs_every_test():
    """`make test` and `make test-long` leave nothing between them, and `.ci/run` runs both."""
    recipes = re.findall(
        r"^([a-z-]+):.*\n\t\$\(BIN\)/python -m pytest (.+)$", (ROOT / "Makefile").read_text(), re.M
    )
    selections = {target: re.findall(r"-m (?:'(.+?)'|(\S+))", options) for target, options in recipes}
    steps = re.findall(r"^step (\S+)$", (ROOT / ".ci" / "run").read_text("utf-8"), re.M)

    assert selections == {"test": [("not long", "")], "test-long": [("", "long")]}
    assert set(selections) < set(steps)


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.name)
def test_locks_pin_by_hash_and_name_no_address(lock: Path):
    """What is installed is fixed by version and hash; where it comes from is the installer's own business."""
    text = lock.read_text("utf-8")
    assert "://" not in text
    assert not re.search(r"^\s*-(?!-hash=)", text, re.MULTILINE)
    entries = re.split(r"\n(?=\S)", text.strip())
    assert [entry for entry in entries if not re.match(r"\S+==\S+ .*--hash=sha256:", entry, re.DOTALL)] == []


@pytest.mark.parametrize(
    "place", ["Makefile", "deploy/container/Containerfile", "docs/operating/installing.md"]
)
def test_a_lock_is_installed_as_it_is(place: str):
    """By hash, and without a look at dependencies: pip prefers their newer releases, which no lock names."""
    text = (ROOT / place).read_text("utf-8").replace("\\\n", " ")
    installs = re.findall(r"install [^&\n]*-r \S*requirements/[^&\n]*", text)
    assert installs
    assert [each for each in installs if not {"--require-hashes", "--no-deps"} <= set(each.split())] == []


def test_the_table_of_steps_has_every_step():
    """By number and name, as records show them."""
    rows = re.findall(
        r"^\| (\d+) \| `(\w+)` \|", (ROOT / "docs" / "refusals.md").read_text("utf-8"), re.MULTILINE
    )
    assert [(int(number), name) for number, name in rows] == [(step.value, step.label) for step in Step]


def test_the_deadlines_of_readiness_are_those_of_the_guide():
    """The timeout of a balancer's check is chosen by them."""
    text = (ROOT / "docs" / "operating" / "health.md").read_text("utf-8")
    [row] = re.findall(r"^\| deadline of the service \| (.+) \| \|$", text, re.MULTILINE)
    assert row == f"at once | {DATABASE_SECONDS:g} seconds for the database, {STATE_SECONDS:g} for Redis"

"""docs/threats.md and the tests that prove its rows."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
THREATS = ROOT / "docs" / "threats.md"

# What the service could already face when it first ran; these rows never lose their tests.
ALWAYS = frozenset({1, 2, *range(10, 18), 26, 27})


def marked() -> dict[int, list[str]]:
    """Row number -> the test files that carry its mark."""
    found: dict[int, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "threat":
                for argument in node.args:
                    assert isinstance(argument, ast.Constant), f"{file}:{node.lineno} marks no plain number"
                    found.setdefault(argument.value, []).append(str(file.relative_to(ROOT)))
    return found


def rows() -> list[int]:
    """The numbers of the table's rows, in order."""
    return [int(number) for number in re.findall(r"^\| (\d+) \|", THREATS.read_text("utf-8"), re.MULTILINE)]


def test_rows_are_numbered_from_one_without_a_gap():
    """A number is a name: rows are only ever added at the end."""
    assert rows() == list(range(1, len(rows()) + 1))
    assert len(rows()) >= 36


def test_every_mark_names_a_row():
    """`@pytest.mark.threat(n)` means row n of the table."""
    assert marked().keys() <= set(rows())


def test_rows_the_service_already_faces_have_tests():
    """The attacks on what exists today are proven to fail."""
    assert not ALWAYS - marked().keys()


def test_the_document_lists_what_is_proven():
    """Readers see which rows have tests, and the list is true."""
    listed = re.search(r"<!-- proven -->\n(.*?)\n<!-- /proven -->", THREATS.read_text("utf-8"), re.DOTALL)
    assert listed is not None
    assert listed[1] == ", ".join(str(number) for number in sorted(marked()))

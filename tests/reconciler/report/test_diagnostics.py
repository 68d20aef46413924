"""Excerpts of manifests on terminals of any width: the caret stays below its place."""

import pytest

from reconciler.manifests import Diagnostic
from reconciler.report.diagnostics import diagnostic_block
from reconciler.terminal import plain

LINE = "spec: {name: Agent, description: Answers mail, redirect_uris: [https://agent.example/cb], nme: x}"


def shown(excerpt: str, marked: str, columns: int) -> tuple[str, str]:
    """The lines of the excerpt and of its carets, on a terminal of that width."""
    begin = excerpt.index(marked)
    mark = (begin, begin + len(marked))
    found = Diagnostic("a.yaml", 12, begin + 1, begin + 1, "unknown-member", "unknown", excerpt, mark)
    _, line, carets = map(plain, diagnostic_block(found, "a.yaml", columns=columns))
    return line, carets


@pytest.mark.parametrize("columns", [40, 80, 100, 120])
@pytest.mark.parametrize("marked", ["spec", "Answers", "nme"])
def test_the_caret_is_below_its_place(columns: int, marked: str) -> None:
    """No line is wider than the terminal, which would wrap it."""
    line, carets = shown(LINE, marked, columns)

    assert max(len(line), len(carets)) <= columns
    assert line[carets.index("^") :].startswith(marked)
    assert carets.count("^") == len(marked)


def test_a_line_that_fits_is_shown_whole() -> None:
    """Nothing is cut that need not be."""
    assert shown(LINE, "nme", 120)[0] == f"  12 | {LINE}"
    assert shown(LINE, "nme", 80)[0].startswith("  12 | ...")


def test_wide_and_escaped_characters_take_their_columns() -> None:
    """As the terminal shows them: two columns each here, and four of an escape."""
    line, carets = shown(f"{'名' * 60}\x1b nme: x", "nme", 80)

    assert line.count("名") < 35
    before = line[: line.index("nme")].replace("名", "名 ").replace("\x1b", "\\x1b")
    assert carets.index("^") == len(before)

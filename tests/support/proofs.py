"""What the marks on the tests prove, and the parts of docs/ that are written from them.

`python -m tests.support.proofs` writes those parts again; tests compare them.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.standards import STANDARDS, Standard

ROOT = Path(__file__).resolve().parent.parent.parent
THREATS = ROOT / "docs" / "threats.md"
STANDARDS_PAGE = ROOT / "docs" / "standards.md"


@dataclass(frozen=True)
class Proof:
    """A test that carries a mark: its file, and its name; none for a mark of a whole file."""

    file: str
    test: str


def marked(mark: str) -> dict[Any, list[Proof]]:
    """Argument of `@pytest.mark.<mark>(...)` -> the tests that carry it, by file and place in it."""
    found: dict[Any, list[Proof]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        name = str(file.relative_to(ROOT))
        for test, call in _calls(ast.parse(file.read_text("utf-8")), mark):
            for argument in call.args:
                assert isinstance(argument, ast.Constant), f"{name}:{call.lineno} marks no plain value"
                found.setdefault(argument.value, []).append(Proof(name, test))
    return found


def _calls(tree: ast.AST, mark: str, test: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Every use of a mark, with the function or class it stands on."""
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else test
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == mark:
            yield test, node
        yield from _calls(node, mark, inner)


def proven_threats() -> str:
    """The rows of docs/threats.md that have tests."""
    return ", ".join(str(number) for number in sorted(marked("threat")))


def standards_table() -> str:
    """The table of docs/standards.md."""
    proofs = marked("standard")
    lines = ["| Standard | What a zone holds to | Status | Proven by |", "|---|---|---|---|"]
    lines += [_line(standard, proofs.get(standard.name, [])) for standard in STANDARDS]
    return "\n".join(lines)


def _line(standard: Standard, proofs: list[Proof]) -> str:
    files: dict[str, list[str]] = {}
    for proof in proofs:
        tests = files.setdefault(proof.file, [])
        if proof.test and proof.test not in tests:
            tests.append(proof.test)
    shown = "<br>".join(
        f"[{Path(file).stem}](../{file})" + "".join(f" `{test}`" for test in tests)
        for file, tests in files.items()
    )
    status = ("refused" if standard.refused else "served") if proofs else "not served"
    name = f"[{standard.name}]({standard.address}) {standard.title}".rstrip()
    return f"| {name} | {standard.held} | {status} | {shown} |"


def between(text: str, mark: str) -> str:
    """What a document has between `<!-- mark -->` and `<!-- /mark -->`. Raises LookupError."""
    found = re.search(_marked_part(mark), text, re.DOTALL)
    if found is None:
        raise LookupError(mark)
    return found[1]


def _marked_part(mark: str) -> str:
    return rf"(?<=<!-- {mark} -->\n)(.*?)(?=\n<!-- /{mark} -->)"


def write() -> None:
    """Write the parts that follow from the marks."""
    for page, mark, part in (
        (THREATS, "proven", proven_threats()),
        (STANDARDS_PAGE, "standards", standards_table()),
    ):
        text = page.read_text("utf-8")
        replaced = re.sub(_marked_part(mark), lambda _found, part=part: part, text, count=1, flags=re.DOTALL)
        page.write_text(replaced, "utf-8")


if __name__ == "__main__":
    write()

"""Marks on tests, and the parts of docs/ that are generated from them and from the code.

`python -m tests.support.proofs` writes those parts again; tests compare them.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.deviations import DEVIATIONS
from tests.support.messages import CATALOGUE, catalogue
from tests.support.standards import STANDARDS, Standard

from runtime.quotas.document import document

ROOT = Path(__file__).resolve().parent.parent.parent
THREATS = ROOT / "docs" / "threats.md"
LIMITS_PAGE = ROOT / "docs" / "limits.md"
STANDARDS_PAGE = ROOT / "docs" / "standards.md"
DEVIATIONS_PAGE = ROOT / "docs" / "deviations.md"


@dataclass(frozen=True)
class Proof:
    """A test that carries a mark: its file, and its name; none for a mark of a whole file."""

    file: str
    test: str


@cache
def marked(mark: str) -> Mapping[Any, Sequence[Proof]]:
    """Argument of `@pytest.mark.<mark>(...)` -> the tests that carry it, by file and place in it."""
    found: dict[Any, list[Proof]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text, name = file.read_text("utf-8"), str(file.relative_to(ROOT))
        if f".{mark}(" not in text:
            continue
        for test, call in _calls(ast.parse(text), mark):
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


def threats() -> dict[int, list[str]]:
    """Each row of docs/threats.md -> the letters of its attacks, in their order."""
    found: dict[int, list[str]] = {}
    for row, letter in re.findall(
        r"^(?:### (\d+)\. |- \(([a-z]+)\) )", THREATS.read_text("utf-8"), re.MULTILINE
    ):
        if row:
            assert int(row) not in found, f"row {row} stands twice in {THREATS.name}"
            found[int(row)] = []
        else:
            found[list(found)[-1]].append(letter)
    return found


def attacks() -> list[str]:
    """Every attack of docs/threats.md by its name, as in `7ab`."""
    return [f"{row}{letter}" for row, letters in threats().items() for letter in letters]


def not_proven() -> dict[str, str]:
    """Each attack that docs/threats.md says has no test -> why."""
    part = between(THREATS.read_text("utf-8"), "not proven")
    found: dict[str, str] = {}
    for name, reason in re.findall(r"^- `([^`]+)`: (.+)$", part, re.MULTILINE):
        assert name not in found, f"{name} is listed twice as not proven"
        found[name] = reason
    return found


def proven_threats() -> str:
    """The list in docs/threats.md of the tests that prove each attack: a line for a row and a file."""
    rows: dict[int, dict[str, dict[str, list[str]]]] = {}
    for name, proofs in marked("threat").items():
        for proof in proofs:
            row, letter = split(name)
            rows.setdefault(row, {}).setdefault(proof.file, {}).setdefault(proof.test, []).append(letter)
    lines = []
    for row, files in sorted(rows.items()):
        for file, tests in sorted(files.items()):
            told = ", ".join(
                f"`{test}` {' '.join(sorted(set(letters), key=in_order))}" for test, letters in tests.items()
            )
            lines.append(f"- {row}, [{Path(file).stem}](../{file}): {told}")
    return "\n".join(lines)


def split(name: str) -> tuple[int, str]:
    """Row and letter of an attack. Raises ValueError for what is no name of one."""
    found = re.fullmatch(r"(\d+)([a-z]+)", str(name))
    if found is None:
        raise ValueError(f"`{name}` names no attack; a mark looks like `7ab`")
    return int(found[1]), found[2]


def in_order(letter: str) -> tuple[int, str]:
    """After `z` comes `aa`."""
    return len(letter), letter


def standards_table() -> str:
    """The table of docs/standards.md."""
    proofs = marked("standard")
    lines = ["| Standard | What a zone holds to | Status | Proven by |", "|---|---|---|---|"]
    lines += [_line(standard, proofs.get(standard.name, [])) for standard in STANDARDS]
    return "\n".join(lines)


def deviations_table() -> str:
    """The table of docs/deviations.md."""
    proofs = marked("deviation")
    lines = ["| Part | Specification | Service | Reason | Proven by |", "|---|---|---|---|---|"]
    lines += [
        f"| {each.part} | {each.specified} | {each.behaviour} | {each.reason} "
        f"| {_listed(proofs.get(each.name, []))} |"
        for each in DEVIATIONS
    ]
    return "\n".join(lines)


def _listed(proofs: Sequence[Proof]) -> str:
    """Tests by file, as a cell of a table."""
    files: dict[str, list[str]] = {}
    for proof in proofs:
        tests = files.setdefault(proof.file, [])
        if proof.test and proof.test not in tests:
            tests.append(proof.test)
    return "<br>".join(
        f"[{Path(file).stem}](../{file})" + "".join(f" `{test}`" for test in tests)
        for file, tests in files.items()
    )


def _line(standard: Standard, proofs: Sequence[Proof]) -> str:
    shown = _listed(proofs)
    status = ("refused" if standard.refused else "served") if proofs else "not served"
    name = f"[{standard.name}]({standard.address}) {standard.title}".rstrip()
    if (draft := standard.draft) is not None:
        name += f", draft {draft.revision} of {draft.published.isoformat()}"
        if draft.looked is not None:
            name += f" (no newer revision found on {draft.looked.isoformat()})"
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
        (DEVIATIONS_PAGE, "deviations", deviations_table()),
    ):
        text = page.read_text("utf-8")
        replaced = re.sub(_marked_part(mark), lambda _found, part=part: part, text, count=1, flags=re.DOTALL)
        page.write_text(replaced, "utf-8")
    LIMITS_PAGE.write_text(document(), "utf-8")
    CATALOGUE.write_text(catalogue(), "utf-8")


if __name__ == "__main__":
    write()

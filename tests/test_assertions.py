"""No loop does nothing but assert: such a fact is one comparison of collections, or a parameter of the test.

A loop that drives something step by step may assert on the way.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def _only_asserts(statements: Iterable[ast.stmt]) -> bool:
    """Tell whether statements assert, under conditions or not, and do nothing else."""
    return all(
        isinstance(each, ast.Assert)
        or (isinstance(each, ast.If | ast.For) and _only_asserts([*each.body, *each.orelse]))
        for each in statements
    )


def _assertion_loops(tree: ast.AST) -> Iterator[int]:
    """Lines of loops that only assert."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor) and _only_asserts(node.body):
            yield node.lineno


def test_no_loop_does_nothing_but_assert() -> None:
    """It would end at the first element that is wrong, and hold where there is none."""
    found = {
        str(path.relative_to(TESTS)): list(_assertion_loops(ast.parse(path.read_text("utf-8"))))
        for path in TESTS.rglob("*.py")
    }

    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("assert each", [1]),
        ("if each: assert each > 1", [1]),
        ("total += each; assert total < 9", []),
        ("assert ask(each); told.append(each)", []),
    ],
)
def test_what_the_check_finds(body: str, lines: list[int]) -> None:
    """A loop that changes nothing between its assertions."""
    assert list(_assertion_loops(ast.parse(f"for each in known:\n    {body}"))) == lines

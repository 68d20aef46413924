"""No test sleeps for luck, and none asserts how long something took."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.waiting import working_at_most

TESTS = Path(__file__).parent
# What a soak shows is what minutes do; its pauses are those of the people that it plays.
_MODULES = [
    path
    for path in sorted(TESTS.rglob("*.py"))
    if path.relative_to(TESTS).parts[0] != "soak" and path != TESTS / "support" / "waiting.py"
]
_CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time"}


def _called(node: ast.AST) -> str:
    """The last name of what a call calls: `sleep` of `time.sleep(1)`."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _sleeps(tree: ast.AST) -> Iterator[int]:
    """Lines that sleep; a turn of the event loop, `sleep(0)`, is no time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) == "sleep":
            seconds = node.args[0] if node.args else None
            if not (isinstance(seconds, ast.Constant) and seconds.value == 0):
                yield node.lineno


def _timed(tree: ast.AST) -> Iterator[int]:
    """Lines that assert something of a clock's reading."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and any(_called(each) in _CLOCKS for each in ast.walk(node.test)):
            yield node.lineno


@pytest.mark.parametrize("path", _MODULES, ids=lambda path: str(path.relative_to(TESTS)))
def test_a_module_waits_for_conditions(path: Path) -> None:
    """By `tests.support.waiting`: for a condition with a deadline, or for the time that a fact is about."""
    tree = ast.parse(path.read_text("utf-8"))

    assert list(_sleeps(tree)) == []
    assert list(_timed(tree)) == []


@pytest.mark.parametrize(
    "line", ["time.sleep(1)", "sleep(0.1)", "await asyncio.sleep(seconds)", "assert monotonic() - began < 3"]
)
def test_what_the_check_finds(line: str) -> None:
    """A sleep by either name, and a comparison with a clock."""
    tree = ast.parse(f"async def test():\n    {line}")

    assert [*_sleeps(tree), *_timed(tree)] == [2]


def _ordinary() -> int:
    return sum(range(200_000))


def _without_end() -> None:
    while True:
        _ordinary()


def test_work_that_is_ordinary_is_done() -> None:
    """A bound that is told by the work itself holds on every machine."""
    assert working_at_most(20, _ordinary, as_much_as=_ordinary) == _ordinary()


def test_work_that_does_not_end_is_stopped() -> None:
    """After so many times what is ordinary."""
    with pytest.raises(AssertionError, match="more than 2 times the work"):
        working_at_most(2, _without_end, as_much_as=_ordinary)


def test_work_of_others_meanwhile_is_forgiven() -> None:
    """Threads of the same process work at times: what is stopped once may be ordinary."""
    others = iter([_without_end])

    assert working_at_most(20, lambda: next(others, _ordinary)(), as_much_as=_ordinary)

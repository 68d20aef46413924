"""Nothing that a request says makes a cache grow without end: held against the code as text."""

import ast
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
FILES = sorted(SOURCE.rglob("*.py"))

# What there are only as many of as the code has: what is remembered for each ends by itself.
_FEW = {"Kind", "Verb"}
_GROWING = {"dict", "list", "set", "defaultdict", "OrderedDict", "deque", "Counter", "WeakKeyDictionary"}

# Containers of modules that functions write to -> what bounds them. It only ever gets shorter.
BOUNDED = {
    "runtime.services.management.authentication.callers._noted": "an LRUCache of 10,000 keys",
    "runtime.services.management.authentication.callers._background": "tasks under way",
    "runtime.services.management.changesets.concurrency_limits._taken": "changesets under way",
    "runtime.services.time_slices._turns": "one for an event loop",
}


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def _named(node: ast.expr) -> str:
    """The last part of a name: `cache` of `functools.cache`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_unbounded(node: ast.expr) -> bool:
    """Whether this makes a cache without a bound: `cache`, or `lru_cache` of none."""
    if _named(node) == "cache":
        return True
    if isinstance(node, ast.Call) and _named(node.func) == "lru_cache":
        sizes = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "maxsize")]
        return any(not (isinstance(size, ast.Constant) and isinstance(size.value, int)) for size in sizes)
    return False


def _is_of_few(annotation: ast.expr | None) -> bool:
    """Whether a parameter can only be one of what the code itself has: a kind, a verb, a class."""
    if isinstance(annotation, ast.Subscript):
        return _named(annotation.value) == "type"
    return annotation is not None and _named(annotation) in _FEW


def unbounded_caches(tree: ast.AST) -> Iterator[int]:
    """Lines with a cache that has no bound, and is keyed by something there is no end of."""
    harmless: set[ast.expr] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            is_closed = node.args.vararg is None and node.args.kwarg is None
            if is_closed and all(_is_of_few(each.annotation) for each in arguments):
                harmless.update(node.decorator_list)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (
                each.lineno for each in node.decorator_list if _is_unbounded(each) and each not in harmless
            )
        elif isinstance(node, ast.Call) and _is_unbounded(node.func):
            yield node.lineno


def growing_containers(tree: ast.Module) -> Iterator[str]:
    """Names of a module that stand for an empty container, which something is put into later."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_empty(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (_named(each) for each in targets)


def _is_empty(node: ast.expr) -> bool:
    if isinstance(node, ast.Dict):
        return not node.keys
    if isinstance(node, ast.List | ast.Set):
        return not node.elts
    if not isinstance(node, ast.Call):
        return False
    made = node.func.value if isinstance(node.func, ast.Subscript) else node.func
    if _named(made).endswith("Cache"):  # one of cachetools: listed, too, with its size
        return True
    return _named(made) in _GROWING and not (node.args and _named(made) not in ("defaultdict",))


@pytest.mark.threat("41h")
@pytest.mark.parametrize("path", FILES, ids=_module)
def test_a_cache_keyed_by_input_has_a_bound(path: Path) -> None:
    """`@cache` is for functions of nothing, or of what the code has few of; all others say how many."""
    assert list(unbounded_caches(ast.parse(path.read_text("utf-8")))) == []


@pytest.mark.threat("41h")
def test_a_module_collects_nothing_without_a_bound() -> None:
    """A container of a module lives as long as the process: each is in the table, with what bounds it."""
    found = {
        f"{_module(path)}.{name}"
        for path in FILES
        for name in growing_containers(ast.parse(path.read_text("utf-8")))
    }
    assert found == set(BOUNDED)


def test_what_the_check_allows() -> None:
    """It lets through what is bounded, and only that."""
    good = """
@cache
def a(): ...
@functools.cache
def b(kind: Kind, verb: Verb, model: type[Entity]): ...
@lru_cache(maxsize=8)
def c(text: str): ...
@lru_cache
def d(text: str): ...
e = lru_cache(maxsize=2048)(d)
"""
    assert list(unbounded_caches(ast.parse(good))) == []


@pytest.mark.parametrize(
    "bad",
    [
        "@cache\ndef a(text: str): ...",
        "@cache\ndef a(kind: Kind, text: str): ...",
        "@cache\ndef a(*kinds: Kind): ...",
        "@cache\ndef a(kind): ...",
        "@functools.cache\nasync def a(text: str): ...",
        "@lru_cache(maxsize=None)\ndef a(text: str): ...",
        "@lru_cache(None)\ndef a(text: str): ...",
        "@lru_cache(maxsize=SIZE)\ndef a(text: str): ...",
        "b = cache(a)",
        "b = lru_cache(maxsize=None)(a)",
        "class A:\n    @cache\n    def a(self, text: str): ...",
    ],
)
def test_what_the_check_finds(bad: str) -> None:
    """A cache whose keys are texts, or any number of values, has no bound."""
    assert list(unbounded_caches(ast.parse(bad)))


def test_containers_that_grow_are_found() -> None:
    """Each by its name, whatever it is made of."""
    grows = "a = {}\nb: dict[str, int] = {}\nc = set()\nd = defaultdict(list)\ne = OrderedDict[str, int]()"
    assert list(growing_containers(ast.parse(grows))) == ["a", "b", "c", "d", "e"]
    assert list(growing_containers(ast.parse("a = {1: 2}\nb = set(a)\nc = frozenset()\nd = ()"))) == []


def test_what_grows_without_a_bound_is_what_the_check_is_for() -> None:
    """A cache without a bound keeps all that it was asked; with one it keeps that many."""
    unbounded, bounded = cache(str.upper), lru_cache(maxsize=8)(str.upper)
    assert not [
        number for number in range(1_500) if unbounded(f"grant-{number}") != bounded(f"grant-{number}")
    ]

    assert unbounded.cache_info().currsize == 1_500
    assert bounded.cache_info().currsize == 8

"""Memory of a process: every container that can be reached from its parts and its modules."""

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from cachetools import Cache

Container = dict | list | set | deque | Cache

# What stands as it was made: definitions, settings and values.
_FIXED = ("runtime.cli.", "runtime.contract.", "runtime.domain.", "runtime.settings.", "runtime.quotas.")


def remembered(*roots: Any) -> dict[str, list[Container]]:
    """Module, class and attribute -> the containers there, of every object of ours that *roots* lead to."""
    found: dict[str, list[Container]] = {}
    for owner in _objects([*roots, *_globals()]):
        place = f"{type(owner).__module__}.{type(owner).__qualname__}"
        for name, value in _attributes(owner):
            if isinstance(value, Container) and not place.startswith(_FIXED):
                found.setdefault(f"{place}.{name}", []).append(value)
    return found


def _globals() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.startswith("runtime."):
            yield from vars(module).values()


def _objects(roots: Iterable[Any]) -> Iterator[Any]:
    """Each object of a class of ours, once."""
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict | Cache):
            waiting.extend(each.values())
        elif isinstance(each, list | set | deque | tuple):
            waiting.extend(each)
        elif type(each).__module__.startswith("runtime."):
            yield each
            waiting.extend(value for _, value in _attributes(each))


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    names = set(getattr(owner, "__dict__", ()))
    for cls in type(owner).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        names.update([slots] if isinstance(slots, str) else slots)
    for name in names:
        if not name.startswith("__") and hasattr(owner, name):
            yield name, getattr(owner, name)

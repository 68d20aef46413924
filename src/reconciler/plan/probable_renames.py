"""Finds pairs that look like a rename: one object is deleted and a similar one is created beside it.

An object is identified by its manifest's name. With another name it is another object, and nothing that was
issued for the old one is carried over, unless the manifest lists the old name in `lifecycle.previous_names`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from reconciler.kinds import Kinds

from .model import Action, Op, ProbableRename

MOST_COMPARED = 10_000  # pairs of one kind in one zone; of more, only those with equal content are found
_Content = Mapping[str, str]
"""Path -> the value as canonical JSON, without the handle."""


def find_probable_renames(actions: Iterable[Action], kinds: Kinds) -> tuple[ProbableRename, ...]:
    """Such pairs, by kind, zone and name: equal content first, then nearly equal; none that is ambiguous."""
    beside: dict[tuple[str, str], tuple[list[Action], list[Action]]] = defaultdict(lambda: ([], []))
    for action in actions:
        if action.op in (Op.DELETE, Op.CREATE) and not action.deleted:
            beside[action.kind, action.zone or ""][action.op is Op.CREATE].append(action)
    found = [
        _rename(old, new, kinds)
        for (kind, _), (gone, made) in sorted(beside.items())
        if gone and made
        for old, new in _pairs(gone, made, _handle(kind, kinds))
    ]
    return tuple(sorted(found, key=lambda each: (each.kind, each.zone or "", each.before)))


def _handle(kind: str, kinds: Kinds) -> str | None:
    known = kinds.by_name.get(kind)
    return known.handle if known is not None else None


def _pairs(
    gone: Sequence[Action], made: Sequence[Action], handle: str | None
) -> Iterator[tuple[Action, Action]]:
    old = {n: content for n, each in enumerate(gone) if (content := _content(each, handle))}
    new = {n: content for n, each in enumerate(made) if (content := _content(each, handle))}
    for one, other in [*_equal(old, new)]:
        yield gone[one], made[other]
        del old[one], new[other]
    if len(old) * len(new) <= MOST_COMPARED:
        for one, other in _similar(old, new):
            yield gone[one], made[other]


def _content(action: Action, handle: str | None) -> _Content:
    return {
        each.path: orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
        for each in action.changes
        if each.path != handle
        and (value := _comparable(each.before if action.op is Op.DELETE else each.after)) not in (None, [])
    }


def _comparable(value: Any) -> Any:
    """A value without the version of a secret, which the two have by different names."""
    return {"secret": True} if isinstance(value, dict) and value.keys() & {"secret", "version"} else value


def _equal(old: Mapping[int, _Content], new: Mapping[int, _Content]) -> Iterator[tuple[int, int]]:
    """Pairs with equal content, where only one on each side has it."""
    by_content: dict[tuple[tuple[str, str], ...], tuple[list[int], list[int]]]
    by_content = defaultdict(lambda: ([], []))
    for side, contents in enumerate((old, new)):
        for number, content in contents.items():
            by_content[tuple(sorted(content.items()))][side].append(number)
    for before, after in by_content.values():
        if len(before) == len(after) == 1:
            yield before[0], after[0]


def _similar(old: Mapping[int, _Content], new: Mapping[int, _Content]) -> Iterator[tuple[int, int]]:
    """Pairs that differ in a third of their members at most, each the other's only best match."""
    best_new = {one: _best(content, new) for one, content in old.items()}
    best_old = {other: _best(content, old) for other, content in new.items()}
    for one, other in best_new.items():
        if other is not None and best_old[other] == one:
            yield one, other


def _best(content: _Content, others: Mapping[int, _Content]) -> int | None:
    """The only one that differs least, where that is little enough."""
    differing = {number: len(_differing(content, other)) for number, other in others.items()}
    least = min(differing.values(), default=0)
    best = [number for number, count in differing.items() if count == least]
    if len(best) != 1:
        return None
    return best[0] if 3 * least <= len(content.keys() | others[best[0]].keys()) else None


def _differing(one: _Content, other: _Content) -> list[str]:
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


def _rename(old: Action, new: Action, kinds: Kinds) -> ProbableRename:
    handle = _handle(old.kind, kinds)
    keeps = handle is not None and old.handle is not None and old.handle != new.handle
    kind = kinds.by_name.get(old.kind)
    settable = handle is not None and kind is not None and handle in kind.spec.members
    named = keeps and settable
    differing = _differing(_content(old, handle), _content(new, handle))
    return ProbableRename(
        old.kind,
        old.zone,
        old.name,
        new.name,
        new.reason,
        tuple(differing),
        handle if named else None,
        old.handle if named else None,
        is_fixed=bool(named and kind and handle and kind.leaf(handle).fixed),
    )

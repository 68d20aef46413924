"""Solves the assignment problem (minimum-cost matching), for manifests that compete for entities."""

from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from typing import TypeVar

W = TypeVar("W", bound=Hashable)
O = TypeVar("O", bound=Hashable)  # noqa: E741 - what is offered
Cost = tuple[int, ...]  # compared from the left; all of one length


def assign(offers: Mapping[W, Mapping[O, Cost]]) -> dict[W, O]:
    """A maximum matching of minimum cost: manifest -> entity, for those that get one.

    As many as possible are assigned, at the least total cost. The same input, in the same order, gives the
    same result.

    Args:
        offers: manifest -> the entities that it could get, and the cost of each.
    """
    found: dict[W, O] = {}
    for component in _components(offers):
        found.update(_assigned({each: offers[each] for each in component}))
    return found


def _components(offers: Mapping[W, Mapping[O, Cost]]) -> Iterator[list[W]]:
    """The connected components: those that compete, directly or through others."""
    wanted_by: dict[O, list[W]] = {}
    for each, offered in offers.items():
        for one in offered:
            wanted_by.setdefault(one, []).append(each)
    seen: set[W] = set()
    for first in offers:
        if first in seen:
            continue
        seen.add(first)
        component, waiting = [], deque([first])
        while waiting:
            each = waiting.popleft()
            component.append(each)
            for one in offers[each]:
                rivals = [rival for rival in wanted_by.pop(one, ()) if rival not in seen]
                seen.update(rivals)
                waiting.extend(rivals)
        yield component


def _assigned(offers: Mapping[W, Mapping[O, Cost]]) -> dict[W, O]:
    """Successive cheapest augmenting paths: after each, the assignment of that size costs least."""
    given: dict[O, W] = {}
    while (path := _cheapest_path(offers, given)) is not None:
        given.update({one: each for each, one in path})
    return {each: one for one, each in given.items()}


def _cheapest_path(offers: Mapping[W, Mapping[O, Cost]], given: Mapping[O, W]) -> list[tuple[W, O]] | None:
    """The assignments to change so that one more is assigned; None when there is no way. Bellman-Ford."""
    has = {each: one for one, each in given.items()}
    reached: dict[W, Cost] = {}
    last: dict[O, W] = {}  # the assignment on the path so far
    best: dict[O, Cost] = {}
    for each in offers:
        if each not in has:
            reached[each] = ()
    waiting = deque(reached)
    while waiting:
        each = waiting.popleft()
        for one, cost in offers[each].items():
            if has.get(each) == one:
                continue
            so_far = _sum(reached[each], cost)
            if one in best and best[one] <= so_far:
                continue
            best[one], last[one] = so_far, each
            rival = given.get(one)
            if rival is not None:
                reached[rival] = _sum(so_far, tuple(-part for part in offers[rival][one]))
                if rival not in waiting:
                    waiting.append(rival)
    free = [one for one in best if one not in given]
    if not free:
        return None
    path, at = [], min(free, key=lambda one: best[one])
    while True:
        each = last[at]
        path.append((each, at))
        if each not in has:
            return path
        at = has[each]


def _sum(one: Cost, other: Cost) -> Cost:
    return tuple(a + b for a, b in zip(one, other, strict=True)) if one else other

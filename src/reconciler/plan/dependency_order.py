"""Topological order of the manifests: each after those that it depends on."""

from collections import defaultdict
from collections.abc import Sequence, Set
from heapq import heapify, heappop, heappush


def dependency_order(needs: Sequence[Set[int]]) -> list[int]:
    """A stable topological order of positions: each after its dependencies. Cycles are broken at the lowest.

    Args:
        needs: position -> the positions it depends on. Of those that wait for a cycle, the lowest comes
            first.
    """
    users: dict[int, list[int]] = defaultdict(list)
    for position, needed in enumerate(needs):
        for each in needed:
            users[each].append(position)
    missing = [len(needed) for needed in needs]
    ready = [position for position, count in enumerate(missing) if not count]
    heapify(ready)
    found: dict[int, None] = {}
    lowest = 0  # all before it are placed
    while len(found) < len(needs):
        while lowest in found:
            lowest += 1
        position = heappop(ready) if ready else lowest
        if position in found:
            continue
        found[position] = None
        for user in users[position]:
            missing[user] -= 1
            if missing[user] == 0:
                heappush(ready, user)
    return list(found)

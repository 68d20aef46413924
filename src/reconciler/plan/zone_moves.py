"""Marks pairs that look like a move between zones: deleted in one and created anew in the other."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from .model import Action, Op


def with_zone_moves(actions: Sequence[Action]) -> list[Action]:
    """The same actions with `moved_from` and `moved_to` set for each such pair, and for no other."""
    marked = [replace(each, moved_from=None, moved_to=None) for each in actions]
    gone: dict[tuple[str, str], list[int]] = defaultdict(list)
    made: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, action in enumerate(marked):
        if action.zone is not None and action.op in (Op.DELETE, Op.CREATE):
            (gone if action.op is Op.DELETE else made)[action.kind, action.name].append(index)
    for place in gone.keys() & made.keys():
        if len(gone[place]) == len(made[place]) == 1:
            old, new = gone[place][0], made[place][0]
            marked[old] = replace(marked[old], moved_to=marked[new].zone)
            marked[new] = replace(marked[new], moved_from=marked[old].zone)
    return marked

"""The cascade of deletions: what the server deletes or ends along with them, counted in a dry run.

It is shown beside a plan and is no part of its digest: people sign in all day, and the plan stays the same.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from reconciler.output_documents import CascadeDocument

from .matching import SnapshotIndex
from .model import Action


@dataclass(frozen=True, slots=True)
class Cascade:
    """What one deletion deletes or ends besides its object.

    Attributes:
        takes_along: sort -> how many of it: sessions, users, whatever there is.
        in_use: it is a client or a credential, and was used within the last thirty days.
    """

    takes_along: Mapping[str, int]
    in_use: bool = False


Cascades = Mapping[tuple[str, str], Cascade]
"""Kind and id of what is deleted -> its cascade."""


def cascade_of(action: Action, cascades: Cascades) -> Cascade | None:
    """The cascade of what an action deletes; None where it deletes nothing or nothing was counted."""
    return cascades.get((action.kind, action.id)) if action.destroys and action.id is not None else None


def cascade_json(action: Action, cascade: Cascade) -> CascadeDocument:
    """The cascade as a JSON object."""
    return {"object": action.title, "takes_along": dict(cascade.takes_along), "in_use": cascade.in_use}


def count_cascaded(index: SnapshotIndex, zone_id: str, gone: Set[str]) -> int:
    """How many objects in a zone go with it that are not deleted by themselves."""
    within = index.in_zone.get(zone_id, ())
    return sum(each.id not in gone and each.owner_type != "platform" for each in within)

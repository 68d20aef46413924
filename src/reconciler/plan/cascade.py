"""What goes or ends with entities that are deleted, as the server counts it when a plan is tried out.

It is told beside a plan and is no part of it: people sign in all day, and the plan stays the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.output_documents import LossDocument

from .model import Action


@dataclass(frozen=True, slots=True)
class Cascade:
    """What one deletion takes along.

    Attributes:
        takes_along: sort -> how many of it: sessions, users, whatever there is.
        in_use: it is a client or a credential, and was used within the last thirty days.
    """

    takes_along: Mapping[str, int]
    in_use: bool = False


Cascades = Mapping[tuple[str, str], Cascade]
"""Kind and id of what is deleted -> what goes with it."""


def cascade_of(action: Action, losses: Cascades) -> Cascade | None:
    """What goes with what an action deletes."""
    return losses.get((action.kind, action.id)) if action.destroys and action.id is not None else None


def cascade_json(action: Action, loss: Cascade) -> LossDocument:
    """A loss as a JSON object."""
    return {"object": action.title, "takes_along": dict(loss.takes_along), "in_use": loss.in_use}

"""What goes or ends with entities that are deleted, as the server counts it when a plan is tried out.

It is told beside a plan and is no part of it: people sign in all day, and the plan stays the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.documents import LossDocument

from .model import Action


@dataclass(frozen=True, slots=True)
class Loss:
    """What one deletion takes along.

    Attributes:
        takes_along: sort -> how many of it: sessions, users, whatever there is.
        in_use: it is a client or a credential, and was used within the last thirty days.
    """

    takes_along: Mapping[str, int]
    in_use: bool = False


Losses = Mapping[tuple[str, str], Loss]
"""Kind and id of what is deleted -> what goes with it."""


def loss_of(action: Action, losses: Losses) -> Loss | None:
    """What goes with what an action deletes."""
    return losses.get((action.kind, action.id)) if action.destroys and action.id is not None else None


def loss_json(action: Action, loss: Loss) -> LossDocument:
    """A loss as a JSON object."""
    return {"object": action.title, "takes_along": dict(loss.takes_along), "in_use": loss.in_use}

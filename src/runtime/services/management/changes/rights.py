"""Who may do what of a changeset: asked of every operation before anything is looked up.

So nobody learns from a refusal what they may not see: by whom something is owned, which name is taken, when
something has changed. Each operation asks again where it knows the zone.
"""

from dataclasses import replace

from runtime.contract.changes import Op, Operation
from runtime.domain.kinds import BY_NAME, ZONE, Verb
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import Caller
from runtime.services.management.changes.receipts import SUBJECT

VERBS: dict[Op, Verb] = {
    "create": Verb.CREATE,
    "update": Verb.UPDATE,
    "adopt": Verb.UPDATE,
    "rename": Verb.UPDATE,
    "release": Verb.UPDATE,
    "delete": Verb.DELETE,
}


def acting(caller: Caller, *, dry_run: bool) -> Caller:
    """Who the operations run as. Raises NotFound, Forbidden for those who send no changesets."""
    permissions.require(caller.roles_anywhere, SUBJECT, Verb.RETRIEVE if dry_run else Verb.CREATE)
    return replace(caller, only_tries=True) if dry_run else caller


def require(caller: Caller, operation: Operation) -> None:
    """Raise NotFound for a kind that the caller does not see, Forbidden for what they may do nowhere."""
    kind = BY_NAME[operation.kind]
    roles = caller.roles_anywhere if kind.zoned or kind is ZONE else caller.roles_in(None)
    permissions.require(roles, kind.operations, VERBS[operation.op])

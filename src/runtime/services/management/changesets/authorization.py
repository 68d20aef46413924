"""Phase: authorize. Every operation is checked against the caller's roles before anything is looked up.

So nobody learns from an error what they may not see: by whom something is owned, which name is taken, when
something has changed. Each operation checks again where it knows the zone.
"""

from dataclasses import replace

from runtime.contract.changes import Op
from runtime.domain.errors import Forbidden, Problem
from runtime.domain.kinds import BY_NAME, ZONE, Verb
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import Caller
from runtime.services.management.changesets.changeset import CreateOperation, PackedChangeset, PackedOperation
from runtime.services.management.changesets.receipts import SUBJECT

VERBS: dict[Op, Verb] = {
    "create": Verb.CREATE,
    "update": Verb.UPDATE,
    "adopt": Verb.UPDATE,
    "rename": Verb.UPDATE,
    "release": Verb.UPDATE,
    "delivered": Verb.UPDATE,
    "delete": Verb.DELETE,
}


def acting_caller(caller: Caller, *, dry_run: bool) -> Caller:
    """Who the operations run as. Raises NotFound, Forbidden for those who send no changesets."""
    permissions.require(caller.roles_anywhere, SUBJECT, Verb.RETRIEVE if dry_run else Verb.CREATE)
    return replace(caller, is_dry_run=True) if dry_run else caller


def require_credential_scope(caller: Caller, changeset: PackedChangeset) -> None:
    """Raise Forbidden for a changeset of another owner, or about another zone, than the credential is for.

    Whether such a zone is there makes no difference.
    """
    owner = caller.scope.owner
    if owner not in (None, changeset.owner):
        message = f"this credential is bound to the owner `{owner}`, not to `{changeset.owner}`"
        raise Forbidden(message, problems=[Problem(Forbidden.code, message, "owner")])
    if caller.scope.zones is None:
        return
    for index, operation in enumerate(changeset.operations):
        if message := _out_of_bounds(caller, operation):
            raise Forbidden(message, problems=[Problem(Forbidden.code, message, f"operations[{index}]")])


def _out_of_bounds(caller: Caller, operation: PackedOperation) -> str:
    """Why an operation is none for a caller who is bound to zones; nothing for one that may be."""
    kind = BY_NAME.get(operation.kind)
    if kind is None:
        return ""  # told as what it is, a moment later
    if kind is ZONE:
        zone_id = operation.id
    elif kind.zoned:
        zone_id = operation.zone.id if operation.zone is not None else None
    else:
        return f"this credential is bound to zones, and {kind.one} belongs to the organization"
    if kind is ZONE and isinstance(operation, CreateOperation):
        return "this credential is bound to existing zones: it cannot create a zone"
    if zone_id is not None and not caller.scope.reaches(zone_id):
        return f"this credential is not bound to zone `{zone_id}`"
    return ""


def require_operation(caller: Caller, operation: PackedOperation) -> None:
    """Raise NotFound for a kind that the caller does not see, Forbidden for what they may do nowhere."""
    kind = BY_NAME[operation.kind]
    roles = caller.roles_anywhere if kind.zoned or kind is ZONE else caller.roles_in(None)
    permissions.require(roles, kind.operations, VERBS[operation.op])

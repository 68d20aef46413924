"""The `permissions` member of answers: what requests with the credential of this request would be allowed.

It is read from the table of permissions; what an operation asks besides is asked of that operation.
"""

from runtime.domain.kinds import ORGANIZATION, Entity, Kind
from runtime.domain.kinds.base import Permissions
from runtime.domain.kinds.values import OwnerType
from runtime.domain.kinds.zone import Zone
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import Caller
from runtime.services.management.organizations import organizations


def of_entity(caller: Caller, kind: Kind, entity: Entity) -> Permissions:
    """What a caller may do with an entity, and with what is right below it.

    A token of the home organization lists the others that its user acts for, and does nothing else there:
    that takes a token of theirs.
    """
    if kind is ORGANIZATION and entity.id != caller.organization_id:
        elsewhere = dict.fromkeys(("read", "update", "delete"), False)
        (own,) = of_kind(caller, kind, below=False).values()
        return {kind.operations: {**own, **elsewhere}}
    changeable = getattr(entity, "owner_type", OwnerType.CUSTOMER) is not OwnerType.PLATFORM
    zone = entity if isinstance(entity, Zone) else None
    return _map(caller, kind, permissions.children_of(kind), zone, changeable=changeable)


def of_kind(caller: Caller, kind: Kind, *, below: bool = True) -> Permissions:
    """What a caller may do with a kind, in the whole organization.

    Args:
        below: with the kinds right below it, too.
    """
    return _map(caller, kind, permissions.children_of(kind) if below else [], None)


def _map(
    caller: Caller, kind: Kind, children: list[str], zone: Zone | None, *, changeable: bool = True
) -> Permissions:
    found = permissions.permission_map(
        caller.roles_in(zone), kind.operations, children, changeable=changeable
    )
    if kind is ORGANIZATION:
        found[kind.operations]["create"] = organizations.may_create(caller)
    return found

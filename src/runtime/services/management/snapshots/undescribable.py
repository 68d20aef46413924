"""Objects in a snapshot that no manifest can describe: secrets in vaults, members of zones, credentials.

They are listed in the last line, and are never planned.
"""

from collections.abc import Collection, Mapping
from typing import Any

from runtime.domain.kinds import ORGANIZATION_USER, SECRET, SERVICE_ACCOUNT_CREDENTIAL, Verb
from runtime.domain.kinds.organization import Organization
from runtime.services.management.access import permissions
from runtime.services.management.members.zone_members import MEMBER, MEMBERS
from runtime.services.management.snapshots.active_policies import last_change
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import changes
from runtime.storage.sql import undescribable as storage
from runtime.storage.sql.undescribable import UndescribableRecord

AT_MOST = 500  # of each kind in a snapshot


async def undescribable_in(
    unit: UnitOfWork, organization: Organization, slugs: Mapping[str, str], owner: str | None, *, names: bool
) -> dict[str, Any]:
    """Members for the last line: `undescribable`, and in `undescribable_truncated` the kinds with more of it.

    Args:
        slugs: the zones to look in: id -> slug.
        owner: only credentials of service accounts that it manages; None for those of all.
        names: tell who has written it last.
    """
    found = await _found(unit, organization, slugs, owner)
    kept = {kind: each[:AT_MOST] for kind, each in found.items()}
    ids = [each.id for several in kept.values() for each in several]
    written = await changes.last_changes(unit.conn, organization.id, ids) if names and ids else {}
    with_addresses = _lists(unit, ORGANIZATION_USER.operations)
    told: dict[str, Any] = {}
    for kind, several in kept.items():
        for each in several:
            line = _told(kind, each, slugs, with_addresses=with_addresses)
            if (last := written.get(each.id)) is not None:
                line["last_change"] = last_change(last)
            told.setdefault("undescribable", []).append(line)
    if cut := [kind for kind, several in found.items() if len(several) > AT_MOST]:
        told["undescribable_truncated"] = cut
    return told


async def _found(
    unit: UnitOfWork, organization: Organization, zone_ids: Collection[str], owner: str | None
) -> dict[str, list[UndescribableRecord]]:
    """Kind -> what the caller may list of it, one more than is told where there is more."""
    conn, limit = unit.conn, AT_MOST + 1
    found: dict[str, list[UndescribableRecord]] = {}
    if _lists(unit, SECRET.operations):
        found[SECRET.name] = await storage.secrets(conn, organization.id, zone_ids, limit=limit)
    if _lists(unit, MEMBERS) and (own := organization.zone_id) is not None:
        found[MEMBER] = await storage.members(conn, organization.id, own, zone_ids, limit=limit)
    if _lists(unit, SERVICE_ACCOUNT_CREDENTIAL.operations):
        several = await storage.credentials(conn, organization.id, owner, limit=limit)
        found[SERVICE_ACCOUNT_CREDENTIAL.name] = several
    return found


def _lists(unit: UnitOfWork, subject: str) -> bool:
    return permissions.allows(unit.caller.roles_in(None), subject, Verb.LIST)


def _told(
    kind: str, found: UndescribableRecord, slugs: Mapping[str, str], *, with_addresses: bool
) -> dict[str, Any]:
    """One of them. A person goes by the address with those alone who may list the organization's users."""
    name = found.name if found.person_id is None or with_addresses else None
    told: dict[str, Any] = {
        "kind": kind,
        "id": found.id,
        "zone_id": found.zone_id,
        "zone": slugs[found.zone_id] if found.zone_id is not None else None,
        "name": name or found.person_id or found.id,
    }
    if found.of is not None:
        told["of"] = found.of
    if found.role is not None:
        told["role"] = found.role
    return told

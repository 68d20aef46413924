"""Users: created by sign-in, managed here."""

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.domain.errors import Conflict
from runtime.domain.kinds import PROVIDER, USER, Entity, Kind, Verb
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.role import FederationCredential, User, UserCredential
from runtime.domain.kinds.values import OrganizationRole, OrganizationStatus, UserStatus
from runtime.services import epochs
from runtime.services.management import entities, token_revocation
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.people import sessions
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import accountability, directory, organization_users
from runtime.storage.sql import entities as storage

_DEFAULT_SOURCE = ("user",)


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of users; `filter[groups]` and `filter[role]` look at memberships and direct assignments."""
    scope = await entities.scope_of(unit, USER, parents)
    entities.require(unit, USER, Verb.LIST, scope)
    zone_id = scope["zone_id"]
    more = []
    if group_ids := query.special.get("filter[groups]"):
        more.append(directory.in_groups(group_ids, zone_id))
    if roles := query.special.get("filter[role]"):
        more.append(directory.holds_role(roles, zone_id))
    listed = await entities.page(unit, USER, scope, query, *more)
    source = query.special.get("role_source", _DEFAULT_SOURCE)[0]
    return listed.with_items(await expanded(unit, zone_id, listed.items, query.expands, source))


async def retrieve(
    unit: UnitOfWork,
    kind: Kind,
    parents: Parents,
    entity_id: str,
    expands: frozenset[str] = frozenset(),
    *,
    role_source: str = "user",
) -> Entity:
    """The user, with groups and roles when they are asked."""
    found = await entities.retrieve(unit, USER, parents, entity_id)
    return (await expanded(unit, parents["zone_id"], [found], expands, role_source))[0]


async def update(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Change a user. Disabling ends their sessions; a new address counts as not verified.

    Where the zone says so, it ends the applications that nobody else is accountable for.
    """
    scope, before = await entities.for_change(unit, USER, parents, entity_id, Verb.UPDATE)
    zone = await entities.zone_of(unit, scope["zone_id"])
    if before.external and zone.external_sync_enabled:
        raise Conflict(f"User `{before.id}` is kept by an external directory")
    after = await entities.patched(unit, USER, scope, before, patch)
    if after == before:
        return before
    if after.identifier != before.identifier:
        await _require_no_account(unit, before, "renamed")
    if after.status is not before.status and after.status is UserStatus.DISABLED:
        await _require_another_admin(unit, before)
    if after.email.lower() != before.email.lower():
        after = after.model_copy(update={"email_verified": False})
        await organization_users.change_email(unit.conn, before.organization_id, before.id, after.email)
    return await store(unit, before, after)


async def store(unit: UnitOfWork, before: User, after: User) -> User:
    """Keep another version of a user: what is cached is out of date, and sessions of a disabled one end."""
    after = after.model_copy(update={"epoch": before.epoch + 1})
    await unit.next_revision()
    if after.status is UserStatus.DISABLED:
        await _end_sessions(unit, before)
    unit.epochs.add(epochs.user_key(before.id), after.epoch)
    stored = await entities.change(unit, USER, {"zone_id": before.zone_id}, before, after)
    if after.status is UserStatus.DISABLED and before.status is not UserStatus.DISABLED:
        owned = await accountability.of_user(unit.conn, before.zone_id, before.id)
        await token_revocation.revoke_ended(unit, before.zone_id, owned)
    return stored


async def delete(unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str) -> None:
    """Remove a user with credentials, grants, sessions, memberships and assignments.

    Applications that the user is accountable for go on naming the id, until they are changed.
    """
    _, before = await entities.for_change(unit, USER, parents, entity_id, Verb.DELETE)
    await unit.next_revision()
    await _require_no_account(unit, before, "deleted")
    await remove(unit, before)


async def remove(unit: UnitOfWork, user: User) -> None:
    """Take a user away whom the caller may take away."""
    await unit.next_revision()
    await _end_sessions(unit, user)
    unit.epochs.add(epochs.user_key(user.id), user.epoch + 1)
    owned = await accountability.of_user(unit.conn, user.zone_id, user.id)  # while the memberships are there
    await entities.remove(unit, USER, {"zone_id": user.zone_id}, user)
    await token_revocation.revoke_ended(unit, user.zone_id, owned)


async def _require_no_account(unit: UnitOfWork, user: User, what: str) -> None:
    """Refuse to take away, or to rename, whom an organization knows by that name. Raises Conflict."""
    if found := await organization_users.of_zone_user(unit.conn, user.organization_id, user.id):
        raise Conflict(
            f"User `{user.id}` acts for the organization and cannot be {what}; "
            f"delete OrganizationUser `{found.id}` first"
        )


async def _require_another_admin(unit: UnitOfWork, user: User) -> None:
    """Refuse to disable whom an organization needs: nobody else could administrate it. Raises Conflict."""
    await unit.next_revision()
    found = await organization_users.of_zone_user(unit.conn, user.organization_id, user.id)
    if found is None or (found.role, found.status) != (OrganizationRole.ADMIN, OrganizationStatus.ACTIVE):
        return
    if not await organization_users.count_other_admins(unit.conn, user.organization_id, found.id):
        raise Conflict(f"User `{user.id}` is the last active `org_admin`: make another one first")


async def _end_sessions(unit: UnitOfWork, user: User) -> None:
    ended = await directory.end_sessions(unit.conn, user.id, zone_id=user.zone_id, now=unit.now)
    await sessions.announce_ended_sessions(unit, ended, user.zone_id)


async def expanded(
    unit: UnitOfWork,
    zone_id: str,
    users: Sequence[Entity],
    expands: frozenset[str],
    role_source: str = "user",
) -> list[Entity]:
    """The users with what was asked about them, one query for each expand value however many users."""
    ids = [user.id for user in users]
    told: dict[str, dict[str, Any]] = {one: {} for one in ids}
    if not ids:
        return []
    conn = unit.conn
    if "groups" in expands:
        groups = await directory.groups_of(conn, ids, zone_id=zone_id)
        _tell(told, "groups", {one: groups.get(one, []) for one in ids})
    if "role-assignments" in expands:
        roles: dict[str, list[Any]] = {one: [] for one in ids}
        for assigned in await directory.roles_of(conn, ids, zone_id=zone_id, source=role_source):
            roles[assigned.user_id].append(assigned.told)
        _tell(told, "role_assignments", roles)
    if not expands.isdisjoint(("credentials", "credentials.provider")):
        credentials = await _credentials(unit, zone_id, ids, with_provider="credentials.provider" in expands)
        _tell(told, "credentials", {one: credentials.get(one, []) for one in ids})
    for value, count in (
        ("grant_count", directory.count_grants),
        ("session_count", directory.count_sessions),
    ):
        if value in expands:
            counts = await count(conn, ids, zone_id=zone_id)
            _tell(told, value, {one: counts.get(one, 0) for one in ids})
    return [user.model_copy(update=told[user.id]) for user in users]


def _tell(told: dict[str, dict[str, Any]], member: str, values: Mapping[str, Any]) -> None:
    for user_id, value in values.items():
        told[user_id][member] = value


async def _credentials(
    unit: UnitOfWork, zone_id: str, user_ids: Sequence[str], *, with_provider: bool
) -> dict[str, list[UserCredential]]:
    credentials = await directory.credentials_of(unit.conn, user_ids, zone_id=zone_id)
    if not with_provider:
        return credentials
    federated = [
        one for many in credentials.values() for one in many if isinstance(one, FederationCredential)
    ]
    wanted = {one.provider_id for one in federated if one.provider_id is not None}
    found = await storage.many(unit.conn, PROVIDER, sorted(wanted), within={"zone_id": zone_id})
    providers: dict[str | None, Provider] = {provider.id: provider for provider in found}
    return {
        user_id: [_with_provider(one, providers) for one in many] for user_id, many in credentials.items()
    }


def _with_provider(one: UserCredential, providers: Mapping[str | None, Provider]) -> UserCredential:
    if not isinstance(one, FederationCredential):
        return one
    return one.model_copy(update={"provider": providers.get(one.provider_id)})

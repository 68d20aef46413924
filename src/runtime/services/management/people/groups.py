"""Groups and their members, which are users or invited e-mail addresses."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from runtime.contract.answers import GroupMember
from runtime.domain import cache_tags
from runtime.domain.errors import Conflict, Forbidden, NotFound, ValidationFailed
from runtime.domain.identifiers import slug_of, with_suffix
from runtime.domain.kinds import GROUP, USER, Entity, Kind, Verb
from runtime.domain.kinds.role import Group
from runtime.services.management import credential_scope, entities, token_revocation
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import accountability, changes, directory
from runtime.storage.sql import entities as storage

MEMBERS = "group_members"
Known = tuple[str, str, bool]  # user id, address in lower case, whether it is verified


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of groups, with what was asked to be expanded."""
    listed = await entities.list_(unit, GROUP, parents, query)
    return listed.with_items(await _expanded(unit, parents["zone_id"], listed.items, query.expands))


async def retrieve(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, expands: frozenset[str] = frozenset()
) -> Entity:
    """The group, with what was asked to be expanded."""
    found = await entities.retrieve(unit, GROUP, parents, entity_id)
    return (await _expanded(unit, parents["zone_id"], [found], expands))[0]


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Make a group. Without an identifier it gets one from its name, with a suffix when that is taken."""
    scope = await entities.scope_of(unit, GROUP, parents)
    entities.require(unit, GROUP, Verb.CREATE, scope)
    identifier = body.get("identifier")
    if identifier is None:
        await unit.next_revision()
        identifier = slug_of(body["name"])
        while await storage.find_by(unit.conn, GROUP, "identifier", identifier, within=scope):
            identifier = with_suffix(slug_of(body["name"]))
    made = await entities.new_entity(unit, GROUP, scope, body, identifier=identifier)
    return await entities.add(unit, GROUP, made)


async def update(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Change a group that no external directory keeps."""
    scope, before = await _own(unit, parents, entity_id, GROUP.operations, Verb.UPDATE)
    after = await entities.patched(unit, GROUP, scope, before, patch)
    return await entities.change(unit, GROUP, scope, before, after)


async def delete(unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str) -> None:
    """Remove a group that no external directory keeps, with its memberships and assignments."""
    scope, before = await _own(unit, parents, entity_id, GROUP.operations, Verb.DELETE)
    await entities.remove(unit, GROUP, scope, before)
    await _revoke_ended(unit, before)


async def delete_many(unit: UnitOfWork, kind: Kind, parents: Parents, ids: Sequence[str]) -> None:
    """Remove groups as `delete` does."""
    scope = await entities.scope_of(unit, GROUP, parents)
    found = await storage.many(unit.conn, GROUP, ids, within=scope)
    for group in found:
        await _require_own(unit, scope, group, GROUP.operations, Verb.DELETE)
    await entities.remove(unit, GROUP, scope, *found)
    await _revoke_ended(unit, *found)


async def _revoke_ended(unit: UnitOfWork, *groups: Group) -> None:
    """Revoke tokens of the applications that groups are accountable for, where nobody active is left."""
    for zone_id in {group.zone_id for group in groups}:
        owned = await accountability.of_groups(unit.conn, zone_id, [group.id for group in groups])
        await token_revocation.revoke_ended(unit, zone_id, owned)


async def _own(
    unit: UnitOfWork, parents: Parents, group_id: str, subject: str, verb: Verb
) -> tuple[dict[str, str], Group]:
    """The scope, and a group that the caller may change in that respect."""
    scope = await entities.scope_of(unit, GROUP, parents)
    found = await storage.get(unit.conn, GROUP, group_id, within=scope)
    await _require_own(unit, scope, found, subject, verb)
    return scope, found


async def _require_own(unit: UnitOfWork, scope: Parents, group: Group, subject: str, verb: Verb) -> None:
    entities.require(unit, subject, verb, scope)
    if group.external:
        raise Forbidden(f"Group `{group.id}` is kept by an external directory")
    await credential_scope.refuse_others(unit, GROUP, group)


async def _expanded(
    unit: UnitOfWork, zone_id: str, groups: Sequence[Entity], expands: frozenset[str]
) -> list[Entity]:
    ids = [group.id for group in groups]
    counts: Mapping[str, int] = {}
    roles: Mapping[str, list[str]] = {}
    if "member_count" in expands and ids:
        counts = await directory.count_members(unit.conn, ids, zone_id=zone_id)
    if "roles" in expands and ids:
        roles = await directory.group_roles(unit.conn, ids, zone_id=zone_id)
    return [
        group.model_copy(update={"member_count": counts.get(group.id, 0), "roles": roles.get(group.id, [])})
        for group in groups
    ]


# --- members


async def list_members(unit: UnitOfWork, parents: Parents, group_id: str, query: ListQuery) -> Listed:
    """One page of a group's members, in the order in which the users came to the zone."""
    scope = await entities.scope_of(unit, GROUP, parents)
    await storage.get(unit.conn, GROUP, group_id, within=scope)
    entities.require(unit, MEMBERS, Verb.LIST, scope)
    zone_id = scope["zone_id"]
    listed = await entities.page(unit, USER, scope, query, directory.in_group(group_id, zone_id))
    since = await directory.joined_at(
        unit.conn, group_id, [user.id for user in listed.items], zone_id=zone_id
    )
    members = [GroupMember(created_at=since[user.id], user=user, user_id=user.id) for user in listed.items]
    # Positions are those of the users that the page was made of.
    return replace(listed, items=members, paged=tuple(listed.items))


async def add_member(unit: UnitOfWork, parents: Parents, group_id: str, user_id: str) -> GroupMember:
    """Make a user a member. Raises ValidationFailed for a user of another zone, Conflict for a member."""
    scope, group = await _own(unit, parents, group_id, MEMBERS, Verb.CREATE)
    zone_id = scope["zone_id"]
    await unit.next_revision()
    found = await storage.many(unit.conn, USER, [user_id], within=scope)
    if not found:
        raise ValidationFailed.of("user_id", f"no User with the id `{user_id}` exists in the zone")
    user = found[0]
    if await directory.joined_at(unit.conn, group_id, [user_id], zone_id=zone_id):
        raise Conflict(f"User `{user_id}` is a member of this group already")
    await directory.join(unit.conn, group_id, [user_id], zone_id=zone_id, now=unit.now)
    await _record(unit, "add", group, after={"user_id": user_id})
    return GroupMember(created_at=unit.now, user=user, user_id=user_id)


async def remove_member(unit: UnitOfWork, parents: Parents, group_id: str, user_id: str) -> None:
    """End a membership. Raises NotFound when there is none."""
    scope, group = await _own(unit, parents, group_id, MEMBERS, Verb.DELETE)
    await unit.next_revision()
    if not await directory.leave(unit.conn, group_id, user_id, zone_id=scope["zone_id"]):
        raise NotFound(f"there is no User `{user_id}`")
    await _record(unit, "remove", group, before={"user_id": user_id})
    await _revoke_ended(unit, group)


async def emails(unit: UnitOfWork, group: Group) -> list[str]:
    """The addresses of a group's members and of those invited to it, in lower case, sorted."""
    present, invited = await _members(unit, group)
    return sorted(set(present.values()) | invited)


async def set_members(
    unit: UnitOfWork,
    group: Group,
    wanted_emails: Iterable[str],
    *,
    is_empty: bool = False,
    known: Callable[[Collection[str]], Awaitable[Iterable[Known]]] | None = None,
) -> None:
    """Make the people with these addresses, and nobody else, the members of a group.

    Whoever is not known to the zone, or has not verified the address, joins once they have.

    Args:
        is_empty: the group is known to have no members, and to invite nobody.
        known: looks up users of the zone by address; by itself, the operation asks for this group alone.
    """
    await entities.require_in(unit, MEMBERS, Verb.CREATE, group.zone_id)
    if group.external:
        raise Forbidden(f"Group `{group.id}` is kept by an external directory")
    zone_id = group.zone_id
    wanted = {email.lower() for email in wanted_emails}
    present, invited = ({}, set()) if is_empty else await _members(unit, group)
    missing = wanted - set(present.values())
    known = known or partial(directory.users_by_email, unit.conn, zone_id=zone_id)
    joining = {user_id: email for user_id, email, verified in await known(missing) if verified}
    pending = missing - set(joining.values())
    leaving = [user_id for user_id, email in present.items() if email not in wanted]
    if not (joining or leaving or pending != invited):
        return
    await unit.next_revision()
    await directory.join(unit.conn, group.id, sorted(joining), zone_id=zone_id, now=unit.now)
    for user_id in leaving:
        await directory.leave(unit.conn, group.id, user_id, zone_id=zone_id)
    await directory.invite(unit.conn, group.id, sorted(pending - invited), zone_id=zone_id, now=unit.now)
    await directory.disinvite(unit.conn, group.id, invited - pending, zone_id=zone_id)
    before = sorted(set(present.values()) | invited)
    told = {"before": {"members": before}, "after": {"members": sorted(wanted)}}
    await _record(unit, "set", group, **told, user_ids=[*joining, *leaving])
    if leaving:
        await _revoke_ended(unit, group)


async def _members(unit: UnitOfWork, group: Group) -> tuple[dict[str, str], set[str]]:
    """The members of a group by their id, and who is invited; addresses in lower case."""
    found = await directory.member_emails(unit.conn, group.id, zone_id=group.zone_id)
    present = {user_id: email.lower() for user_id, email in found.items()}
    return present, await directory.invited(unit.conn, group.id, zone_id=group.zone_id)


async def _record(
    unit: UnitOfWork,
    what: str,
    group: Group,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    user_ids: Collection[str] | None = None,
) -> None:
    """Record a change of members.

    Args:
        user_ids: who joins or leaves, where the record does not say it by their id.
    """
    # A plan that was made before may not overwrite the members it has not seen.
    revision = await unit.next_revision()
    if group.revision != revision:
        await changes.touch(unit.conn, GROUP, group.id, zone_id=group.zone_id, revision=revision)
    tags = None if user_ids is None else cache_tags.members_changed(user_ids)
    action = f"{MEMBERS}.{what}"
    await unit.record(action, GROUP.name, group.id, group.zone_id, before=before, after=after, tags=tags)

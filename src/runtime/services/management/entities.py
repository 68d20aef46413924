"""List, create, retrieve, update and delete, for any kind: permission, then rules, then storage.

Kinds that differ have a module of their own with functions of the same signatures; `operations` says which
function serves which kind.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from sqlalchemy import ColumnElement

from runtime.contract.bodies import apply_patch, refusal
from runtime.domain.errors import Forbidden, NotFound, ValidationFailed
from runtime.domain.identifiers import new_id, slug_of, with_suffix
from runtime.domain.kinds import BY_NAME, ORGANIZATION, ROLE, ZONE, Entity, Kind, Verb
from runtime.domain.kinds.base import ZoneEntity
from runtime.domain.kinds.marks import Mark
from runtime.domain.kinds.organization import Organization
from runtime.domain.kinds.values import OwnerType
from runtime.domain.kinds.zone import Zone
from runtime.services import address_bound_secrets, zone_keys
from runtime.services.management import credential_scope, token_revocation
from runtime.services.management.access import permissions
from runtime.services.management.listing import UNREAD, Listed, ListQuery, Position
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.management.unit_of_work.epoch_updates import MOST_TAGS
from runtime.storage.sql import changes, directory, ownership
from runtime.storage.sql import entities as storage
from runtime.storage.sql.directory import any_text

Parents = Mapping[str, str]
_SLUGS_ONE_BY_ONE = 5
_TO_SEAL = b""
E_ = TypeVar("E_", bound=Entity)


# --- what operations share


async def organization_of(unit: UnitOfWork, id_or_label: str) -> Organization:
    """The caller's organization, by id or by label. Raises NotFound for any other."""
    organization = await storage.get(unit.conn, ORGANIZATION, unit.organization_id, within={})
    if id_or_label not in (organization.id, organization.label):
        raise NotFound(f"there is no Organization `{id_or_label}`")
    return organization


async def zone_of(unit: UnitOfWork, zone_id: str) -> Zone:
    """The zone, if it belongs to the caller's organization. Raises NotFound."""
    if (known := unit.cache.zones.get(zone_id)) is not None:
        return known
    credential_scope.require_reach(unit, ZONE, zone_id)
    zone = await storage.get(unit.conn, ZONE, zone_id, within={"organization_id": unit.organization_id})
    unit.cache.zones[zone_id] = zone
    return zone


async def scope_of(unit: UnitOfWork, kind: Kind, parents: Parents) -> dict[str, str]:
    """What every query for entities of that kind is limited to: the ids of its parents, each seen to exist.

    Raises: NotFound, when a parent does not exist or is not the caller's, or when the caller's roles do
        not see the kind at all.
    """
    zone = await zone_of(unit, parents["zone_id"]) if kind.zoned else None
    if not permissions.sees(unit.caller.roles_in(zone), kind.operations):
        raise NotFound(f"`{kind.operations}` is not visible to the caller")
    if kind.parent is None:
        return {"organization_id": unit.organization_id}
    if kind.parent is ORGANIZATION:
        return {"organization_id": (await organization_of(unit, parents["organization_id"])).id}
    if kind.parent is ZONE:
        return {"zone_id": (await zone_of(unit, parents["zone_id"])).id}
    scope = await scope_of(unit, kind.parent, parents)
    member = kind.parent.id_member
    await storage.get(unit.conn, kind.parent, parents[member], within=scope)
    return {**scope, member: parents[member]}


def require(unit: UnitOfWork, subject: Kind | str, verb: Verb, scope: Parents) -> None:
    """Raise Forbidden when the caller may not do that with entities of that kind, in that scope.

    Args:
        subject: the kind, or the row of the permission table.
        scope: as `scope_of` gave it; the roles that count are those in its zone.
    """
    zone_id = scope.get("zone_id")
    zone = None if zone_id is None else unit.cache.zones[zone_id]
    row = subject if isinstance(subject, str) else subject.operations
    permissions.require(unit.caller.roles_in(zone), row, verb)


async def require_in(unit: UnitOfWork, subject: Kind | str, verb: Verb, zone_id: str) -> None:
    """As `require`, for what was looked up without `scope_of`. Raises NotFound, Forbidden."""
    require(unit, subject, verb, {"zone_id": (await zone_of(unit, zone_id)).id})


def require_for(unit: UnitOfWork, kind: Kind, entity: Entity, verb: Verb, scope: Parents) -> None:
    """Raise Forbidden when the caller may not do that with this entity: a zone is its own scope."""
    if isinstance(entity, Zone):
        credential_scope.require_reach(unit, kind, entity.id)
        permissions.require(unit.caller.roles_in(entity), kind.operations, verb)
    else:
        require(unit, kind, verb, scope)


def refuse_platform_owned(kind: Kind, entity: Entity) -> None:
    """Raise Forbidden for what the service manages itself."""
    if getattr(entity, "owner_type", OwnerType.CUSTOMER) is OwnerType.PLATFORM:
        raise Forbidden(f"{kind.name} `{entity.id}` is managed by the service and cannot be changed")


async def require_in_zone(
    unit: UnitOfWork, kind: Kind, zone_id: str, ids: Collection[str], *, field: str
) -> None:
    """Raise ValidationFailed unless all of these are entities of that kind in that zone.

    One text for what does not exist and for what belongs to somebody else.
    """
    unknown = [one for one in dict.fromkeys(ids) if (zone_id, kind.name, one) not in unit.cache.existing]
    if not unknown:
        return
    found = {
        entity.id for entity in await storage.many(unit.conn, kind, unknown, within={"zone_id": zone_id})
    }
    for one in unknown:
        if one not in found:
            raise ValidationFailed.of(field, f"no {kind.name} with the id `{one}` exists in the zone")
        unit.cache.existing.add((zone_id, kind.name, one))


async def check_references(
    unit: UnitOfWork, kind: Kind, zone_id: str, values: Mapping[str, Any], before: Entity | None = None
) -> None:
    """Check the ids of other entities that a body sets. Raises ValidationFailed, Forbidden.

    Args:
        before: what is changed: whose what it names already is makes no difference.
    """
    for name, member in kind.members().items():
        value = values.get(name)
        if member.ref is None or value is None or member.has(Mark.INPUT):
            continue
        ids, of = _listed(value), BY_NAME[member.ref.kind]
        await require_in_zone(unit, of, zone_id, ids, field=name)
        named = _listed(getattr(before, name, None))
        await credential_scope.refuse_references(
            unit, kind, name, of, [one for one in ids if one not in named]
        )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


async def free_slug(unit: UnitOfWork, kind: Kind, scope: Parents, name: str) -> str:
    """A slug for that name that nothing of the kind has yet in the scope.

    A unit that makes many entities asks for all the taken ones at once, and keeps the count itself.
    """
    key = (kind.name, *scope.values())
    asked = unit.cache.slugs_asked[key] = unit.cache.slugs_asked.get(key, 0) + 1
    if asked == _SLUGS_ONE_BY_ONE:
        unit.cache.slugs[key] = await changes.slugs(unit.conn, kind, within=scope)
    slug, taken = slug_of(name), unit.cache.slugs.get(key)
    if taken is not None:
        while slug in taken:
            slug = with_suffix(slug_of(name))
        taken.add(slug)
        return slug
    while await storage.find_by(unit.conn, kind, "slug", slug, within=scope) is not None:
        slug = with_suffix(slug_of(name))
    return slug


def without_secrets(kind: Kind, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with something in place of each secret: what it is sealed for is known afterwards."""
    return {**values, **dict.fromkeys(_secrets(kind, values), _TO_SEAL)}


async def with_secrets(unit: UnitOfWork, kind: Kind, entity: E_, values: Mapping[str, Any]) -> E_:
    """The entity with the secrets of a body, sealed for the place and the addresses that it has."""
    given = _secrets(kind, values)
    if not given:
        return entity
    sealer = await zone_keys.sealer(unit.services.data_keys, unit.conn, cast(ZoneEntity, entity).zone_id)
    done = {
        name: address_bound_secrets.seal(sealer, kind, entity, name, value) for name, value in given.items()
    }
    return entity.model_copy(update=done)


def _secrets(kind: Kind, values: Mapping[str, Any]) -> dict[str, str]:
    return {name: values[name] for name in sealed_members(kind) if isinstance(values.get(name), str)}


@cache
def sealed_members(kind: Kind) -> frozenset[str]:
    """The names of the members that are secrets."""
    return frozenset(name for name, member in kind.members().items() if member.has(Mark.SEALED))


async def new_entity(
    unit: UnitOfWork, kind: Kind[E_], scope: Parents, body: Mapping[str, Any], **decided: Any
) -> E_:
    """The entity that a body describes, not stored yet: ids, times, slug and seals filled in.

    Args:
        decided: members that the operation decides, the class to choose among variants included (`type`).
    """
    # First of all, so that nobody else of the organization writes between the checks and the insert.
    revision = await unit.next_revision()
    entity_id = decided.pop("id", None) or new_id()
    members = kind.members()
    zone_id = scope.get("zone_id")
    if zone_id is not None:
        await check_references(unit, kind, zone_id, body)
    values = {
        name: value
        for name, value in without_secrets(kind, body).items()
        if name in members and not members[name].has(Mark.INPUT)
    }
    if "slug" in members and "slug" not in decided:
        decided["slug"] = await free_slug(unit, kind, scope, str(body.get("name") or body.get("identifier")))
    values |= {
        "organization_id": unit.organization_id,
        **scope,
        "id": entity_id,
        "created_at": unit.now,
        "updated_at": unit.now,
        "revision": revision,
        **decided,
    }
    model = kind.variant(values["type"]) if kind.variants else kind.entity
    known = model.model_fields
    try:
        made = model.model_validate({name: value for name, value in values.items() if name in known})
    except ValidationError as invalid:
        raise refusal(invalid, model) from None
    return await with_secrets(unit, kind, made, body)


async def add(unit: UnitOfWork, kind: Kind, entity: E_) -> E_:
    """Store a new entity and record it.

    Raises: Conflict when a unique value is taken; Forbidden for a part of what another configuration manages.
    """
    await credential_scope.refuse_part(unit, kind, entity)
    await storage.insert(unit.conn, kind, entity)
    return await record_created(unit, kind, entity)


async def record_created(unit: UnitOfWork, kind: Kind, entity: E_) -> E_:
    """Record an entity that something else has stored in the unit."""
    if (zone_id := getattr(entity, "zone_id", None)) is not None:
        unit.cache.existing.add((zone_id, kind.name, entity.id))
    await unit.write(kind, f"{kind.operations}.create", None, entity)
    return entity


async def change(
    unit: UnitOfWork, kind: Kind, scope: Parents, before: E_, after: E_, *, action: str = "update"
) -> E_:
    """Store another version of an entity and record it; nothing at all when nothing differs.

    Raises: as `store`.
    """
    if after == before:
        return before
    after = await store(unit, kind, scope, before, after)
    await unit.write(kind, f"{kind.operations}.{action}", before, after)
    return after


async def store(unit: UnitOfWork, kind: Kind, scope: Parents, before: E_, after: E_) -> E_:
    """Store another version of an entity, which the caller records.

    Raises: Conflict; ValidationFailed, also where a secret would follow an address that it was not given for.
    """
    address_bound_secrets.refuse_new_addresses(kind, before, after)
    after = after.model_copy(update={"updated_at": unit.now, "revision": await unit.next_revision()})
    await storage.replace(unit.conn, kind, after, within=scope)
    await token_revocation.rename(unit, before, after)
    return after


async def remove(unit: UnitOfWork, kind: Kind, scope: Parents, *before: Entity) -> None:
    """Remove entities and record it; what was issued to them is told to be revoked."""
    if not before:
        return
    await unit.next_revision()
    for one in before:
        await token_revocation.revoke(unit, kind, one)
    gone = [one.id for one in before]
    if kind is ROLE and not unit.dry_run:
        zone_id = scope["zone_id"]
        holders = await directory.role_holders(unit.conn, gone, zone_id=zone_id, limit=MOST_TAGS + 1)
        unit.epochs.zone_changed(zone_id, holders)
    await unit.tombstones.add(await storage.remove_many(unit.conn, kind, gone, within=scope))
    for one in before:
        unit.cache.existing.discard((scope.get("zone_id", ""), kind.name, one.id))
        await unit.write(kind, f"{kind.operations}.delete", one, None)


async def store_archived(unit: UnitOfWork, kind: Kind, scope: Parents, before: E_, after: E_) -> E_:
    """Store what is archived by now and record it: no configuration manages it any more."""
    done = await change(unit, kind, scope, before, after, action="archive")
    await unit.tombstones.add(await ownership.give_up(unit.conn, unit.organization_id, kind, before.id))
    return done


# --- the operations


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of the entities of that kind below these parents."""
    scope = await scope_of(unit, kind, parents)
    require(unit, kind, Verb.LIST, scope)
    reached = unit.caller.scope.zones if kind is ZONE else None
    only = [] if reached is None else [storage.Equals("id", sorted(reached))]
    return await page(unit, kind, scope, query, *only)


async def page(
    unit: UnitOfWork,
    kind: Kind,
    scope: Parents,
    query: ListQuery,
    *more: ColumnElement[bool] | storage.Condition,
) -> Listed:
    """One page of what a query admits, below a scope that has been checked."""
    where: list[storage.Condition] = [
        storage.Equals(member, tuple(values)) for member, values in query.filters.items()
    ]
    where += [storage.SqlCondition(any_text(kind, search.members, search.texts)) for search in query.searches]
    where += [storage.SqlCondition(one) if isinstance(one, ColumnElement) else one for one in more]
    found = await storage.page(
        unit.conn,
        kind,
        within=scope,
        where=where,
        sort=query.sort,
        descending=query.descending,
        limit=query.limit,
        after=await _read_position(unit, kind, scope, query.sort, query.after, "after"),
        before=await _read_position(unit, kind, scope, query.sort, query.before, "before"),
        total=query.total,
    )
    return Listed(list(found.items), found.has_next, found.has_previous, found.total)


async def _read_position(
    unit: UnitOfWork, kind: Kind, scope: Parents, sort: str, position: Position | None, name: str
) -> Position | None:
    """The position with its value, which a cursor leaves out when it is long."""
    if position is None or position.value is not UNREAD:
        return position
    found = await storage.find_by(unit.conn, kind, "id", position.id, within=scope)
    if found is None:
        message = "the object that this cursor points to no longer exists: start again from the first page"
        raise ValidationFailed.of(name, message)
    return storage.position(found, sort)


async def create(unit: UnitOfWork, kind: Kind[E_], parents: Parents, body: Mapping[str, Any]) -> E_:
    """Make an entity from a checked body. Raises NotFound, Forbidden, ValidationFailed, Conflict."""
    scope = await scope_of(unit, kind, parents)
    require(unit, kind, Verb.CREATE, scope)
    return await add(unit, kind, await new_entity(unit, kind, scope, body))


async def retrieve(
    unit: UnitOfWork, kind: Kind[E_], parents: Parents, entity_id: str, expands: frozenset[str] = frozenset()
) -> E_:
    """The entity with that id below these parents. Raises NotFound."""
    scope = await scope_of(unit, kind, parents)
    entity = await storage.get(unit.conn, kind, entity_id, within=scope)
    require_for(unit, kind, entity, Verb.RETRIEVE, scope)
    return entity


async def for_change(
    unit: UnitOfWork, kind: Kind[E_], parents: Parents, entity_id: str, verb: Verb
) -> tuple[dict[str, str], E_]:
    """The scope, and an entity that the caller may change. Raises NotFound, Forbidden."""
    scope = await scope_of(unit, kind, parents)
    entity = await storage.get(unit.conn, kind, entity_id, within=scope)
    await _require_change(unit, kind, scope, entity, verb)
    return scope, entity


async def for_deletion(
    unit: UnitOfWork, kind: Kind[E_], parents: Parents, ids: Sequence[str]
) -> tuple[dict[str, str], list[E_]]:
    """The scope, and those of these entities that are there, if they may be deleted. Raises Forbidden."""
    scope = await scope_of(unit, kind, parents)
    found = await storage.many(unit.conn, kind, ids, within=scope)
    for entity in found:
        await _require_change(unit, kind, scope, entity, Verb.DELETE)
    return scope, found


async def _require_change(unit: UnitOfWork, kind: Kind, scope: Parents, entity: Entity, verb: Verb) -> None:
    require_for(unit, kind, entity, verb, scope)
    refuse_platform_owned(kind, entity)
    await credential_scope.refuse_others(unit, kind, entity)
    if verb is Verb.UPDATE:
        await credential_scope.refuse_lent(unit, kind, entity)


async def update(
    unit: UnitOfWork, kind: Kind[E_], parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> E_:
    """Change an entity as a checked patch says. Raises NotFound, Forbidden, ValidationFailed, Conflict."""
    scope, before = await for_change(unit, kind, parents, entity_id, Verb.UPDATE)
    return await change(unit, kind, scope, before, await patched(unit, kind, scope, before, patch))


async def patched(unit: UnitOfWork, kind: Kind, scope: Parents, before: E_, patch: Mapping[str, Any]) -> E_:
    """What a checked patch makes of an entity, references checked and secrets sealed; not stored yet."""
    zone_id = scope.get("zone_id")
    if zone_id is not None:
        await check_references(unit, kind, zone_id, patch, before)
    after = apply_patch(kind, before, {**without_secrets(kind, patch), **_chosen_again(kind, patch)})
    return await with_secrets(unit, kind, after, patch)


def _chosen_again(kind: Kind, patch: Mapping[str, Any]) -> dict[str, None]:
    """What a patch clears besides: what had been lost of the references that it sets, to null too."""
    references = [kind.members()[name].ref for name in patch if name in kind.members()]
    return {ref.deleted: None for ref in references if ref is not None and ref.deleted is not None}


async def delete(unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str) -> None:
    """Remove an entity and what the database keeps below it. Raises NotFound, Forbidden."""
    scope, before = await for_change(unit, kind, parents, entity_id, Verb.DELETE)
    await remove(unit, kind, scope, before)


async def delete_many(unit: UnitOfWork, kind: Kind, parents: Parents, ids: Sequence[str]) -> None:
    """Remove entities as `delete` does, in statements for many; what is gone already stays so."""
    scope, found = await for_deletion(unit, kind, parents, ids)
    await remove(unit, kind, scope, *found)

"""Secrets of other entities: encrypted for their row; showing a value is audited."""

from collections.abc import Mapping
from typing import Any

from runtime.contract.secrets import SecretWithData
from runtime.domain.errors import Conflict, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import RESOURCE, SECRET, Entity, Kind, Verb
from runtime.domain.kinds.secret import Secret
from runtime.domain.kinds.values import OwnerType
from runtime.services import secret_values, zone_keys
from runtime.services.management import credential_scope, entities
from runtime.services.management.entities import Parents
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import entities as storage
from runtime.storage.sql import secret_owners

MAX_SECRETS = 1_000  # of a zone: they are listed without pages


async def list_(
    unit: UnitOfWork, parents: Parents, *, entity_id: str | None, type_: str | None, owner_type: str | None
) -> list[Entity]:
    """The secrets of a zone without their values, oldest first. Raises ValidationFailed."""
    scope = await entities.scope_of(unit, SECRET, parents)
    entities.require(unit, SECRET, Verb.LIST, scope)
    if owner_type is not None and type_ is None:
        raise ValidationFailed.of("type", "is required with `owner_type`")
    where: list[storage.Condition] = []
    if entity_id is not None:
        where.append(storage.Equals("entity_id", (entity_id,)))
    if type_ is not None:
        where.append(storage.Equals("type", (type_,)))
    if owner_type is not None:
        where.append(storage.SqlCondition(secret_owners.managed_by(OwnerType(owner_type), scope["zone_id"])))
    return [one async for one in storage.all_of(unit.conn, SECRET, within=scope, where=where)]


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Keep a secret for an entity of the zone. Raises ValidationFailed."""
    scope = await entities.scope_of(unit, SECRET, parents)
    entities.require(unit, SECRET, Verb.CREATE, scope)
    zone_id = scope["zone_id"]
    if body.get("zone_id", zone_id) != zone_id:
        raise ValidationFailed.of("zone_id", "must be the zone in the path")
    await unit.next_revision()  # from here on nobody takes the owner away, or adds another
    if await storage.count(unit.conn, SECRET, within=scope) >= MAX_SECRETS:
        raise Conflict(f"a zone keeps at most {MAX_SECRETS} secrets")
    if not await secret_owners.exists(unit.conn, body["entity_id"], zone_id=zone_id):
        raise ValidationFailed.of(
            "entity_id",
            f"no application, resource, provider or user `{body['entity_id']}` exists in the zone",
        )
    secret_id = new_id()
    decided = {
        "id": secret_id,
        "type": body["data"]["type"],
        "data": await _sealed(unit, zone_id, secret_id, body["data"]),
        "resource_identifier": await _resource_identifier(unit, zone_id, body["entity_id"]),
    }
    return await entities.add(unit, SECRET, await entities.new_entity(unit, SECRET, scope, body, **decided))


async def reveal(unit: UnitOfWork, parents: Parents, secret_id: str) -> SecretWithData:
    """A secret with its value. The audit trail says who has seen which version, and when."""
    found = await entities.retrieve(unit, SECRET, parents, secret_id)
    await credential_scope.refuse_others(unit, SECRET, found)
    data = await _opened(unit, found)
    told = {"entity_id": found.entity_id, "name": found.name, "version": found.version}
    await unit.audit_read("secrets.retrieve", SECRET.name, found.id, found.zone_id, values=told)
    shown = {name: getattr(found, name) for name in SecretWithData.model_fields if name != "data"}
    return SecretWithData.model_validate({**shown, "data": data})


async def update(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Change a secret. Only another value makes another version.

    A value that is given, the present one too, is for the resource as it is called now.
    """
    scope, _ = await entities.for_change(unit, SECRET, parents, entity_id, Verb.UPDATE)
    await unit.next_revision()  # read again: two changes at once must come to two versions
    before = await storage.get(unit.conn, SECRET, entity_id, within=scope)
    changes = dict(patch)
    if (data := changes.pop("data", None)) is not None:
        changes |= await _replaced(unit, before, data)
        changes["resource_identifier"] = await _resource_identifier(unit, before.zone_id, before.entity_id)
    after = await entities.patched(unit, SECRET, scope, before, changes)
    return await entities.change(unit, SECRET, scope, before, after)


async def _replaced(unit: UnitOfWork, before: Secret, data: Mapping[str, Any]) -> dict[str, Any]:
    """What a new value changes; nothing when it is the present one."""
    if data["type"] != before.type:
        raise ValidationFailed.of("data.type", f"cannot change: it is `{before.type}`")
    if data == await _opened(unit, before):
        return {}
    sealed = await _sealed(unit, before.zone_id, before.id, data)
    return {"data": sealed, "version": before.version + 1}


async def _resource_identifier(unit: UnitOfWork, zone_id: str, entity_id: str) -> str | None:
    """What the resource is called that a secret belongs to; None for one of something else."""
    found = await storage.many(unit.conn, RESOURCE, [entity_id], within={"zone_id": zone_id})
    return found[0].identifier if found else None


async def _sealed(unit: UnitOfWork, zone_id: str, secret_id: str, data: Mapping[str, Any]) -> bytes:
    sealer = await zone_keys.sealer(unit.services.data_keys, unit.conn, zone_id)
    return secret_values.seal(sealer, secret_id, data)


async def _opened(unit: UnitOfWork, secret: Secret) -> dict[str, Any]:
    sealer = await zone_keys.sealer(unit.services.data_keys, unit.conn, secret.zone_id)
    return secret_values.unseal(sealer, secret.id, secret.data)

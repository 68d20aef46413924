"""Policy schema versions of a zone: built into the service, one of them the zone's default."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from runtime.domain.errors import NotFound
from runtime.domain.kinds import ZONE, Verb
from runtime.domain.kinds.policy import PolicySchema
from runtime.domain.kinds.values import SchemaStatus
from runtime.domain.policy import schema
from runtime.services.management import credential_scope, entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery, Position
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import bindings

SCHEMAS = "policy_schemas"


async def list_(unit: UnitOfWork, parents: Parents, query: ListQuery) -> Listed:
    """One page of the versions, newest first unless asked otherwise."""
    zone_id = await _zone_id(unit, parents, Verb.LIST)
    default = await bindings.schema_version(unit.conn, zone_id=zone_id)
    shown = [_told(version, default, _notation(query.special)) for version in schema.VERSIONS]
    if wanted := query.special.get("filter[default]"):
        shown = [one for one in shown if one.is_default is (wanted[0] == "true")]
    shown.sort(key=lambda one: one.version, reverse=query.descending)
    page, has_next, has_previous = _page(shown, query)
    edges = (_position(page[0]), _position(page[-1])) if page else None
    return Listed(page, has_next, has_previous, len(shown) if query.total else None, edges=edges)


def _position(shown: PolicySchema) -> Position:
    return Position(None, shown.version)


def _page(shown: Sequence[PolicySchema], query: ListQuery) -> tuple[list[PolicySchema], bool, bool]:
    """The part of a short list that a query asks for."""
    versions = [one.version for one in shown]
    start, end = 0, len(shown)
    if query.after is not None and query.after.id in versions:
        start = versions.index(query.after.id) + 1
    if query.before is not None and query.before.id in versions:
        end = versions.index(query.before.id)
        start = max(0, end - query.limit)
    end = min(end, start + query.limit)
    return list(shown[start:end]), end < len(shown), start > 0


async def retrieve(
    unit: UnitOfWork, parents: Parents, version: str, *, notation: str | None = None
) -> PolicySchema:
    """One version. Raises NotFound."""
    zone_id = await _zone_id(unit, parents, Verb.RETRIEVE)
    _require_known(version)
    default = await bindings.schema_version(unit.conn, zone_id=zone_id)
    return _told(version, default, notation or "json")


async def set_default(unit: UnitOfWork, parents: Parents, version: str) -> PolicySchema:
    """Let new texts of a zone be written against that version. Raises NotFound, Forbidden."""
    zone_id = await _zone_id(unit, parents, Verb.RETRIEVE)
    _require_known(version)
    entities.require(unit, SCHEMAS, Verb.UPDATE, {"zone_id": zone_id})
    await credential_scope.refuse_others_of(unit, ZONE, zone_id)
    before = await bindings.schema_version(unit.conn, zone_id=zone_id)
    if before != version:
        await unit.next_revision()
        await bindings.set_schema_version(unit.conn, version, zone_id=zone_id)
        await unit.record(
            f"{SCHEMAS}.set_default",
            ZONE.name,
            zone_id,
            zone_id,
            before={"policy_schema_version": before},
            after={"policy_schema_version": version},
        )
    return _told(version, version, "json")


async def _zone_id(unit: UnitOfWork, parents: Parents, verb: Verb) -> str:
    await entities.require_in(unit, SCHEMAS, verb, parents["zone_id"])
    return parents["zone_id"]


def _require_known(version: str) -> None:
    if version not in schema.VERSIONS:
        raise NotFound(f"there is no Schema `{version}`")


def _notation(special: Mapping[str, Sequence[str]]) -> str:
    return next(iter(special.get("format", ())), "json")


def _told(version: str, default: str, notation: str) -> PolicySchema:
    published = datetime.fromisoformat(version).replace(tzinfo=UTC)
    found = schema.get(version)
    return PolicySchema(
        version=version,
        cedar_schema=found.text if notation == "cedar" else None,
        cedar_schema_json=schema.as_json(version) if notation == "json" else None,
        created_at=published,
        is_default=version == default,
        status=SchemaStatus.ACTIVE,
        updated_at=published,
    )

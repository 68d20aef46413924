"""Values that plans are made from and consist of, for tests of one function without a server."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from tests.reconciler.factories import OWNER

from reconciler.kinds import Entity, Ownership, Snapshot, Tombstone, Write, load_kinds
from reconciler.plan import Action, FieldChange, Plan
from reconciler.plan.model import NO_MANIFEST, Op
from reconciler.plan.operations import Operation

OTHER = "acme/other"
ZONE_ID = "zone00000000000000000001"
ANN = Write("2026-01-02T03:04:05Z", "user ann")
NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)  # 30 days after the decisions of `decision_impact` begin


def record(
    name: str = "it",
    *,
    owner: str = OWNER,
    fields: Iterable[str] = (),
    applied: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
    protect: bool = False,
    undelivered: bool = False,
) -> Ownership:
    """An ownership record; the fields are those that were applied, unless others are said."""
    values = dict(applied or {})
    return Ownership(
        owner, name, frozenset(fields or values), values, dict(versions or {}), protect, undelivered
    )


def entity(
    kind: str,
    entity_id: str,
    spec: Mapping[str, Any] | None = None,
    *,
    owned: Ownership | None = None,
    zone_id: str | None = ZONE_ID,
    **more: Any,
) -> Entity:
    """An entity of the snapshot; what is in no zone by its kind is in none."""
    found, values = load_kinds().by_name[kind], dict(spec or {})
    within = zone_id if found.zoned else None
    told = {
        "zone": "workforce" if within else None,
        "handle": values.get(found.handle) if found.handle else None,
        "owner_type": "customer",
        "secrets_set": frozenset(),
        "revision": 1,
    }
    return Entity(kind=kind, id=entity_id, zone_id=within, spec=values, ownership=owned, **{**told, **more})


def a_zone(name: str = "workforce", *, zone_id: str = ZONE_ID, owner: str | None = OWNER) -> Entity:
    """A zone that somebody manages, or nobody."""
    owned = record(name, owner=owner) if owner is not None else None
    return entity("Zone", zone_id, {"name": name, "slug": f"{name}-slug"}, owned=owned)


def snapshot(*entities: Entity, revision: int = 1, tombstones: Iterable[Tombstone] = ()) -> Snapshot:
    """Everything of an organization."""
    return Snapshot("org1", revision, entities, tuple(tombstones))


def tombstone(
    kind: str, entity_id: str, name: str, *, owner: str = OWNER, zone_id: str | None = ZONE_ID
) -> Tombstone:
    """That somebody has deleted what an owner managed."""
    return Tombstone(kind, entity_id, zone_id, owner, name, ANN)


def action(
    op: Op,
    kind: str = "Group",
    name: str = "staff",
    *changes: FieldChange,
    zone: str | None = "workforce",
    entity_id: str | None = None,
    **more: Any,
) -> Action:
    """An action as a plan has it: what is created has no id, and what is deleted no manifest."""
    reason = NO_MANIFEST if op is Op.DELETE else f"{kind}.yaml:1"
    known = entity_id if entity_id is not None or op is Op.CREATE else f"{kind}-{name}"
    within = zone if load_kinds().by_name[kind].zoned else None
    return Action(op=op, kind=kind, zone=within, name=name, id=known, reason=reason, changes=changes, **more)


def plan(*actions: Action, operations: Iterable[Operation] = (), **more: Any) -> Plan:
    """A plan of these actions and operations."""
    told: dict[str, Any] = {
        "tool_version": "test",
        "owner": OWNER,
        "organization_id": "org1",
        "server": "https://id.example",
        "base_revision": 1,
        "source": {},
        "owned": {},
        "manifest_count": 1,
    }
    return Plan(actions=actions, operations=tuple(operations), **{**told, **more})


def decision_impact(**members: Any) -> dict[str, Any]:
    """What a dry run answers about the decisions of one zone: some requests would be refused."""
    whole = {
        "user": "ada",
        "user_email": "ada@acme.example",
        "application": "billing-agent",
        "resource": "https://api.example",
        "actors": ["billing-agent", "chat"],
        "decisions": 30,
        "last_at": "2026-11-20T08:00:00Z",
        "refused_by": "policy",
        "before": [{"policy": "default-user-grants", "rule": "0"}],
        "after": [{"policy": "payments", "rule": "only-finance"}],
    }
    in_part = {
        "user": "bob",
        "user_email": "bob@acme.example",
        "application": "billing-agent",
        "resource": "https://ledger.example",
        "actors": ["billing-agent"],
        "scopes": ["write"],
        "decisions": 10,
        "last_at": "2026-11-27T16:00:00Z",
        "refused_by": "policy",
        "before": [{"policy": "default-user-grants", "rule": "0"}],
        "after": [{"policy": "ledger", "rule": "no-writing"}],
    }
    examples = [whole, in_part]
    return {
        "zone_id": "z1",
        "since": "2026-10-29T12:00:00Z",
        "complete": True,
        "recorded": 100_000,
        "replayed": 99_210,
        "reproduced": 99_100,
        "not_replayed": {"gone": 700, "too_many": 90},
        "unrecorded": ["acr", "scopes"],
        "loses": {
            "decisions": 42,
            "of_scopes": 12,
            "users": 3,
            "applications": 1,
            "resources": 2,
            "examples": examples,
        },
        "gains": {
            "decisions": 0,
            "of_scopes": 0,
            "users": 0,
            "applications": 0,
            "resources": 0,
            "examples": [],
        },
        **members,
    }

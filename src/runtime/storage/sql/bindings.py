"""Policy set bindings: which policy set version is active where; a bound version is not archived."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.values import PolicySetMode, PolicyTargetType
from runtime.storage.sql.batches import among, batches
from runtime.storage.sql.tables import METADATA, TABLES

_bindings = METADATA.tables["policy_set_bindings"]
_internals = METADATA.tables["zone_internals"]
_sets = TABLES["PolicySet"]
_versions = TABLES["PolicySetVersion"]
_policies = TABLES["Policy"]
_texts = TABLES["PolicyVersion"]


@dataclass(frozen=True, slots=True)
class PolicySetBinding:
    """A policy set version at work: `active` decides, `shadow` is only recorded."""

    policy_set_id: str
    policy_set_version_id: str
    version: int
    mode: str
    target_type: str
    target_id: str


@dataclass(frozen=True, slots=True)
class ActivePolicySet:
    """A policy set version that decides in its zone, beside the latest of its set.

    Attributes:
        entries: (policy, policy version) of the version that decides, in order.
        latest_policies: the policies of the latest version, in order.
    """

    zone_id: str
    policy_set_id: str
    policy_set_version_id: str
    version: int
    latest_version: int
    entries: tuple[tuple[str, str], ...]
    latest_policies: list[str]


@dataclass(frozen=True, slots=True)
class ActivePolicyText:
    """A policy version that is part of what decides; `latest_version`, `absent_names` are its policy's."""

    policy_id: str
    name: str
    version: int
    latest_version: int
    cedar: str
    is_latest: bool
    absent_names: Sequence[str] | None = None


async def of_sets(conn: AsyncConnection, set_ids: Collection[str], *, zone_id: str) -> list[PolicySetBinding]:
    """The bindings of these policy sets."""
    if not set_ids:
        return []
    return await _read(conn, zone_id, _bindings.c.policy_set_id.in_(set_ids))


async def of_target(
    conn: AsyncConnection, target_type: str, target_id: str, *, zone_id: str
) -> list[PolicySetBinding]:
    """What is bound to a target."""
    return await _read(
        conn, zone_id, and_(_bindings.c.target_type == target_type, _bindings.c.target_id == target_id)
    )


async def _read(conn: AsyncConnection, zone_id: str, wanted: ColumnElement[bool]) -> list[PolicySetBinding]:
    found = await conn.execute(
        select(
            _bindings.c.policy_set_id,
            _bindings.c.policy_set_version_id,
            _versions.c.version,
            _bindings.c.mode,
            _bindings.c.target_type,
            _bindings.c.target_id,
        )
        .join(
            _versions,
            and_(
                _versions.c.zone_id == _bindings.c.zone_id,
                _versions.c.id == _bindings.c.policy_set_version_id,
            ),
        )
        .where(_bindings.c.zone_id == zone_id, wanted)
    )
    return [PolicySetBinding(**row) for row in found.mappings()]


async def bind(
    conn: AsyncConnection,
    *,
    zone_id: str,
    target_type: str,
    target_id: str,
    mode: str,
    policy_set_id: str,
    policy_set_version_id: str,
    now: datetime,
) -> None:
    """Put a version to work on a target, in place of the one that works there in that mode."""
    target = {"zone_id": zone_id, "target_type": target_type, "target_id": target_id, "mode": mode}
    bound = {"policy_set_id": policy_set_id, "policy_set_version_id": policy_set_version_id}
    swapped = await conn.execute(
        update(_bindings)
        .where(*(_bindings.c[name] == value for name, value in target.items()))
        .values(**bound, created_at=now)
    )
    if not swapped.rowcount:
        await conn.execute(insert(_bindings).values(**target, **bound, created_at=now))


async def unbind(conn: AsyncConnection, policy_set_id: str, *, zone_id: str, mode: str) -> bool:
    """Take a policy set off every target in that mode; tell whether it was on one."""
    gone = await conn.execute(
        delete(_bindings).where(
            _bindings.c.zone_id == zone_id,
            _bindings.c.policy_set_id == policy_set_id,
            _bindings.c.mode == mode,
        )
    )
    return bool(gone.rowcount)


def is_active(zone_id: str) -> ColumnElement[bool]:
    """The condition that a policy set has an active binding."""
    return _sets.c.id.in_(
        select(_bindings.c.policy_set_id).where(_bindings.c.zone_id == zone_id, _bindings.c.mode == "active")
    )


async def bound_entries(conn: AsyncConnection, *, zone_id: str) -> set[tuple[str, str]]:
    """(policy id, policy version id) of everything that is at work in a zone."""
    found = await conn.scalars(
        select(_versions.c.manifest)
        .join(
            _bindings,
            and_(
                _versions.c.zone_id == _bindings.c.zone_id,
                _versions.c.id == _bindings.c.policy_set_version_id,
            ),
        )
        .where(_bindings.c.zone_id == zone_id)
    )
    return {
        (entry["policy_id"], entry["policy_version_id"])
        for manifest in found
        for entry in manifest["entries"]
    }


async def active_policy_sets(conn: AsyncConnection, zone_ids: Collection[str]) -> list[ActivePolicySet]:
    """What decides in these zones, by policy set."""
    latest = _versions.alias("latest")
    found = await conn.execute(
        select(
            _bindings.c.zone_id,
            _bindings.c.policy_set_id,
            _bindings.c.policy_set_version_id,
            _versions.c.version,
            _versions.c.manifest,
            latest.c.version.label("latest_version"),
            latest.c.manifest.label("latest_manifest"),
        )
        .join(
            _versions,
            and_(
                _versions.c.zone_id == _bindings.c.zone_id,
                _versions.c.id == _bindings.c.policy_set_version_id,
            ),
        )
        .join(_sets, and_(_sets.c.zone_id == _bindings.c.zone_id, _sets.c.id == _bindings.c.policy_set_id))
        .join(latest, and_(latest.c.zone_id == _sets.c.zone_id, latest.c.id == _sets.c.latest_version_id))
        .where(
            among(_bindings.c.zone_id, zone_ids),
            _bindings.c.mode == PolicySetMode.ACTIVE.value,
            _bindings.c.target_type == PolicyTargetType.ZONE.value,
        )
        .order_by(_bindings.c.zone_id)
    )
    return [
        ActivePolicySet(
            row.zone_id,
            row.policy_set_id,
            row.policy_set_version_id,
            row.version,
            row.latest_version,
            tuple((entry["policy_id"], entry["policy_version_id"]) for entry in row.manifest["entries"]),
            [entry["policy_id"] for entry in row.latest_manifest["entries"]],
        )
        for row in found
    ]


async def texts_of(
    conn: AsyncConnection, active_policy_sets: Iterable[ActivePolicySet]
) -> dict[str, ActivePolicyText]:
    """The texts of everything that decides: policy version -> text."""
    wanted = {(each.zone_id, version_id) for each in active_policy_sets for _, version_id in each.entries}
    found: dict[str, ActivePolicyText] = {}
    for batch in batches(sorted(wanted)):  # by zone: a batch is of few
        rows = await conn.execute(
            select(
                _texts.c.id,
                _texts.c.policy_id,
                _policies.c.name,
                _texts.c.version,
                _policies.c.latest_version,
                _texts.c.cedar_raw.label("cedar"),
                _policies.c.absent_names,
                (_policies.c.latest_version_id == _texts.c.id).label("is_latest"),
            )
            .join(
                _policies,
                and_(_policies.c.zone_id == _texts.c.zone_id, _policies.c.id == _texts.c.policy_id),
            )
            .where(
                _texts.c.zone_id.in_({zone_id for zone_id, _ in batch}),
                _texts.c.id.in_([version_id for _, version_id in batch]),
            )
        )
        for row in rows.mappings():
            values = {name: row[name] for name in ActivePolicyText.__dataclass_fields__}
            found[row["id"]] = ActivePolicyText(**{**values, "is_latest": bool(values["is_latest"])})
    return found


@dataclass(frozen=True, slots=True)
class VersionedPolicy:
    """The policy that a version is of, and the version's number."""

    policy_id: str
    name: str
    version: int


async def policies_of_versions(
    conn: AsyncConnection, zone_id: str, version_ids: Iterable[str]
) -> dict[str, VersionedPolicy]:
    """The policy of each of these versions, by the version's id; those that are gone are left out."""
    found: dict[str, VersionedPolicy] = {}
    for batch in batches(sorted(set(version_ids))):
        rows = await conn.execute(
            select(_texts.c.id, _texts.c.version, _policies.c.id.label("policy_id"), _policies.c.name)
            .join(
                _policies, and_(_policies.c.id == _texts.c.policy_id, _policies.c.zone_id == _texts.c.zone_id)
            )
            .where(_texts.c.zone_id == zone_id, _texts.c.id.in_(batch))
        )
        found.update((row.id, VersionedPolicy(row.policy_id, row.name, row.version)) for row in rows)
    return found


async def schema_version(conn: AsyncConnection, *, zone_id: str) -> str:
    """The zone's default version of the policy schema."""
    found = await conn.scalar(
        select(_internals.c.policy_schema_version).where(_internals.c.zone_id == zone_id)
    )
    return str(found)


async def set_schema_version(conn: AsyncConnection, version: str, *, zone_id: str) -> None:
    """Choose the zone's default version of the policy schema."""
    await conn.execute(
        update(_internals).where(_internals.c.zone_id == zone_id).values(policy_schema_version=version)
    )

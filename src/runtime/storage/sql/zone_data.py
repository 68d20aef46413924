"""Zone queries by zone id: epochs, signing keys and their writes, clients, resources, active policies.

Every query names the zone. Entities come out, or small values where no kind covers what is asked.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import (
    BindParameter,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.engine import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import NotFound
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    PROVIDER,
    RESOURCE,
    ZONE,
    Kind,
)
from runtime.domain.kinds.application import (
    ANY_SUBJECT,
    Application,
    PasswordCredential,
    PublicCredential,
    PublicKeyCredential,
    TokenCredential,
    UrlCredential,
)
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.zone_settings import ZoneSettings
from runtime.storage.sql.batches import among
from runtime.storage.sql.tables import METADATA, TABLES

Credential = PasswordCredential | PublicCredential | PublicKeyCredential | UrlCredential | TokenCredential

_zones = TABLES["Zone"]
_credentials = TABLES[APPLICATION_CREDENTIAL.name]
_resources = TABLES["Resource"]
_providers = TABLES["Provider"]
_users = TABLES["User"]
_assignments = TABLES["RoleAssignment"]
_policy_versions = TABLES["PolicyVersion"]
_set_versions = TABLES["PolicySetVersion"]
_internals = METADATA.tables["zone_internals"]
_keys = METADATA.tables["zone_keys"]
_dependencies = METADATA.tables["application_dependencies"]
_bindings = METADATA.tables["policy_set_bindings"]

# Written as in the indexes, so that these are used.
_IS_WORKLOAD = _credentials.c.type == literal_column("'token'")
_IS_NO_WORKLOAD = _credentials.c.type != literal_column("'token'")

# Statements of the hot path are made once: making one costs as much as running it.
_ZONE: BindParameter[str] = bindparam("zone")


@dataclass(frozen=True, slots=True)
class ZoneInternals:
    """What a zone keeps to itself."""

    zone_id: str
    organization_id: str
    data_key_wrapped: bytes
    access_token_algorithm: str
    epoch: int
    policy_schema_version: str
    settings: ZoneSettings | None = None
    denials: int = 0
    former_tokens_end_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A signing key at rest, with the instants of its life."""

    kid: str
    algorithm: str
    private_sealed: bytes
    public_jwk: Mapping[str, str]
    publish_at: datetime
    activate_at: datetime
    retire_at: datetime | None
    remove_at: datetime | None


@dataclass(frozen=True, slots=True)
class ActivePolicies:
    """The version of the policy set bound to a zone, and its policies' texts in order."""

    schema_version: str
    policies: tuple[tuple[str, str | None, Mapping[str, Any] | None], ...]


_ZONE_EPOCHS = select(_internals.c.epoch, _internals.c.denials).where(_internals.c.zone_id == _ZONE)


async def zone_epochs(conn: AsyncConnection, zone_id: str) -> tuple[int, int] | None:
    """The epoch of a zone, and how many single tokens of it were revoked; None without such a zone."""
    row = (await conn.execute(_ZONE_EPOCHS, {"zone": zone_id})).one_or_none()
    return (row.epoch, row.denials) if row else None


async def zone(conn: AsyncConnection, zone_id: str) -> tuple[Zone, ZoneInternals] | None:
    """A zone with what it keeps to itself."""
    internals = (
        (await conn.execute(select(_internals).where(_internals.c.zone_id == zone_id)))
        .mappings()
        .one_or_none()
    )
    row = (await conn.execute(select(_zones).where(_zones.c.id == zone_id))).mappings().one_or_none()
    if row is None or internals is None:
        return None
    kept = dict(internals)
    written = kept.pop("switches")  # the column's older name
    kept["settings"] = ZoneSettings.model_validate(written) if written else None
    return ZONE.read(dict(row)), ZoneInternals(**kept)


async def zone_with_slug(conn: AsyncConnection, slug: str, issuer: str) -> str | None:
    """The id of the zone of that slug whose issuer is exactly this."""
    rows = await conn.execute(select(_zones.c.id, _zones.c.protocols).where(_zones.c.slug == slug))
    return next((row.id for row in rows if row.protocols["oauth2"]["issuer"] == issuer), None)


async def zones_named(conn: AsyncConnection, id_or_slug: str) -> list[str]:
    """The ids of the zones with that id, or else with that slug in whatever organization."""
    rows = await conn.execute(
        select(_zones.c.id)
        .where(or_(_zones.c.id == id_or_slug, _zones.c.slug == id_or_slug))
        .order_by(_zones.c.id)
    )
    found = list(rows.scalars())
    return [id_or_slug] if id_or_slug in found else found


async def every(conn: AsyncConnection) -> list[str]:
    """The ids of all zones, in order."""
    return list(await conn.scalars(select(_zones.c.id).order_by(_zones.c.id)))


async def keys(conn: AsyncConnection, zone_id: str) -> list[StoredKey]:
    """All keys of a zone, oldest first."""
    rows = await conn.execute(
        select(*(column for column in _keys.c if column.name != "zone_id"))
        .where(_keys.c.zone_id == zone_id)
        .order_by(_keys.c.activate_at, _keys.c.kid)
    )
    return [StoredKey(**row) for row in rows.mappings()]


async def organization_of_zone(conn: AsyncConnection, zone_id: str) -> str:
    """The id of the organization that a zone belongs to. Raises NotFound."""
    found: str | None = await conn.scalar(select(_zones.c.organization_id).where(_zones.c.id == zone_id))
    if found is None:
        raise NotFound(f"there is no zone `{zone_id}`")
    return found


async def zone_of_key(conn: AsyncConnection, kid: str) -> str | None:
    """The id of the zone that a key of that id belongs to."""
    found: str | None = await conn.scalar(select(_keys.c.zone_id).where(_keys.c.kid == kid))
    return found


async def keys_due(conn: AsyncConnection, activated_before: datetime, *, limit: int) -> list[tuple[str, str]]:
    """Zones and algorithms whose newest key signs since before that, the longest first."""
    newest = func.max(_keys.c.activate_at)
    rows = await conn.execute(
        select(_keys.c.zone_id, _keys.c.algorithm)
        .group_by(_keys.c.zone_id, _keys.c.algorithm)
        .having(newest <= activated_before)
        .order_by(newest)
        .limit(limit)
    )
    return [(row.zone_id, row.algorithm) for row in rows]


async def newest_activation(conn: AsyncConnection, zone_id: str, algorithm: str) -> datetime | None:
    """When the newest key of that algorithm signs, or has begun to."""
    found: datetime | None = await conn.scalar(
        select(func.max(_keys.c.activate_at)).where(
            _keys.c.zone_id == zone_id, _keys.c.algorithm == algorithm
        )
    )
    return found


async def forgettable_keys(
    conn: AsyncConnection, removed_before: datetime, *, limit: int
) -> list[tuple[str, str]]:
    """Zone and kid of keys that were taken out of the set before that, the longest ago first."""
    rows = await conn.execute(
        select(_keys.c.zone_id, _keys.c.kid)
        .where(_keys.c.remove_at <= removed_before)
        .order_by(_keys.c.remove_at, _keys.c.kid)
        .limit(limit)
    )
    return [(row.zone_id, row.kid) for row in rows]


async def forget_key(conn: AsyncConnection, zone_id: str, kid: str) -> str | None:
    """Forget a key; its algorithm, or None when it is gone already."""
    gone = await conn.execute(
        delete(_keys).where(_keys.c.zone_id == zone_id, _keys.c.kid == kid).returning(_keys.c.algorithm)
    )
    found: str | None = gone.scalar_one_or_none()
    return found


async def add_internals(conn: AsyncConnection, internals: ZoneInternals) -> None:
    """Keep what a new zone keeps to itself."""
    await conn.execute(
        insert(_internals).values(
            zone_id=internals.zone_id,
            organization_id=internals.organization_id,
            data_key_wrapped=internals.data_key_wrapped,
            access_token_algorithm=internals.access_token_algorithm,
            epoch=internals.epoch,
            policy_schema_version=internals.policy_schema_version,
        )
    )


async def add_key(conn: AsyncConnection, zone_id: str, key: StoredKey) -> None:
    """Keep a new key."""
    await conn.execute(
        insert(_keys).values(
            kid=key.kid,
            zone_id=zone_id,
            algorithm=key.algorithm,
            private_sealed=key.private_sealed,
            public_jwk=dict(key.public_jwk),
            publish_at=key.publish_at,
            activate_at=key.activate_at,
            retire_at=key.retire_at,
            remove_at=key.remove_at,
        )
    )


async def retire_keys(
    conn: AsyncConnection, zone_id: str, algorithm: str, *, retire_at: datetime, remove_at: datetime
) -> None:
    """Give every key of that algorithm an end, unless it has an earlier one already."""
    await conn.execute(
        update(_keys)
        .where(
            _keys.c.zone_id == zone_id,
            _keys.c.algorithm == algorithm,
            or_(_keys.c.remove_at.is_(None), _keys.c.remove_at > remove_at),
        )
        .values(retire_at=retire_at, remove_at=remove_at)
    )


async def use_algorithm(conn: AsyncConnection, zone_id: str, algorithm: str) -> None:
    """Sign the zone's access tokens with that algorithm from now on."""
    await conn.execute(
        update(_internals).where(_internals.c.zone_id == zone_id).values(access_token_algorithm=algorithm)
    )


async def set_zone_settings(conn: AsyncConnection, zone_id: str, settings: ZoneSettings) -> None:
    """Store the settings of a zone; those at their default are left out."""
    written = settings.model_dump(mode="json", exclude_defaults=True)
    await conn.execute(
        update(_internals).where(_internals.c.zone_id == zone_id).values(switches=written or None)
    )


async def bump_zone(conn: AsyncConnection, zone_id: str) -> int:
    """Put what is cached of a zone out of date; the new epoch, to be published after the commit."""
    return _bumped(
        await conn.scalar(
            update(_internals)
            .where(_internals.c.zone_id == zone_id)
            .values(epoch=_internals.c.epoch + 1)
            .returning(_internals.c.epoch)
        )
    )


async def bump_user(conn: AsyncConnection, zone_id: str, user_id: str) -> int:
    """Put everything that is cached of a user out of date; the new epoch."""
    return _bumped(
        await conn.scalar(
            update(_users)
            .where(_users.c.zone_id == zone_id, _users.c.id == user_id)
            .values(epoch=_users.c.epoch + 1)
            .returning(_users.c.epoch)
        )
    )


async def client(
    conn: AsyncConnection, zone_id: str, client_id: str
) -> tuple[Sequence[Credential], Application] | None:
    """The credentials that go by that client id, newest first, and their application.

    There are two of them at most, and then both have a password. A workload goes by its credential's id.
    Nobody chooses that one, so it comes before a name that somebody may have given to another credential
    afterwards.
    """
    rows = (await conn.execute(_clients(zone_id, client_id))).mappings().all()
    if not rows:
        return None
    workload = next((row for row in rows if row["id"] == client_id), None)
    chosen = [workload] if workload is not None else sorted(rows, key=_age, reverse=True)
    found = await _with_owner(conn, chosen[0])
    return None if found is None else ([_credential(row) for row in chosen], found[1])


async def credentials_of(
    conn: AsyncConnection, zone_id: str, application_ids: Collection[str]
) -> list[Credential]:
    """All credentials of these applications, the oldest first."""
    found = await conn.execute(
        select(_credentials)
        .where(_credentials.c.zone_id == zone_id, among(_credentials.c.application_id, application_ids))
        .order_by(_credentials.c.created_at, _credentials.c.id)
    )
    return [_credential(row) for row in found.mappings()]


async def client_exists(conn: AsyncConnection, zone_id: str, client_id: str) -> bool:
    """Tell whether a credential goes by that client id; as much work as `client` has with an unknown one."""
    return (await conn.execute(_clients(zone_id, client_id))).first() is not None


async def workloads(
    conn: AsyncConnection, zone_id: str, subject: str
) -> list[tuple[Credential, Application]]:
    """The `token` credentials for that subject and for any, each with its application."""
    rows = await conn.execute(
        select(_credentials).where(
            _credentials.c.zone_id == zone_id,
            _IS_WORKLOAD,
            _credentials.c.identifier.in_((subject, ANY_SUBJECT)),
        )
    )
    found = [await _with_owner(conn, row) for row in rows.mappings().all()]
    return [each for each in found if each is not None]


async def application(conn: AsyncConnection, zone_id: str, application_id: str) -> Application | None:
    """The application of that id."""
    found = await _one(conn, APPLICATION, zone_id, "id", application_id)
    return found if isinstance(found, Application) else None


async def application_named(conn: AsyncConnection, zone_id: str, identifier: str) -> Application | None:
    """The application of that identifier."""
    found = await _one(conn, APPLICATION, zone_id, "identifier", identifier)
    return found if isinstance(found, Application) else None


async def provider(conn: AsyncConnection, zone_id: str, provider_id: str) -> Provider | None:
    """The provider of that id."""
    found = await _one(conn, PROVIDER, zone_id, "id", provider_id)
    return found if isinstance(found, Provider) else None


async def resource(conn: AsyncConnection, zone_id: str, resource_id: str) -> Resource | None:
    """The resource of that id."""
    found = await _one(conn, RESOURCE, zone_id, "id", resource_id)
    return found if isinstance(found, Resource) else None


async def resources_of(conn: AsyncConnection, zone_id: str, application_id: str) -> tuple[Resource, ...]:
    """The resources that an application provides."""
    rows = await conn.execute(
        select(_resources).where(
            _resources.c.zone_id == zone_id, _resources.c.application_id == application_id
        )
    )
    return tuple(RESOURCE.read(dict(row)) for row in rows.mappings())


async def resources_named(
    conn: AsyncConnection, zone_id: str, *, exact: Collection[str], prefixes: Collection[str]
) -> list[Resource]:
    """The resources registered under one of these identifiers, or as a prefix under one of those."""
    rows = await conn.execute(
        select(_resources).where(
            _resources.c.zone_id == zone_id,
            or_(
                _resources.c.identifier.in_(exact),
                and_(_resources.c.prefix.is_(True), _resources.c.identifier.in_(prefixes)),
            ),
        )
    )
    found = [RESOURCE.read(dict(row)) for row in rows.mappings()]
    return [each for each in found if isinstance(each, Resource)]


async def dependencies(conn: AsyncConnection, zone_id: str, application_id: str) -> frozenset[str]:
    """Ids of the resources that an application declares as dependencies."""
    rows = await conn.execute(
        select(_dependencies.c.resource_id).where(
            _dependencies.c.zone_id == zone_id, _dependencies.c.application_id == application_id
        )
    )
    return frozenset(rows.scalars())


async def application_roles(conn: AsyncConnection, zone_id: str, application_id: str) -> tuple[str, ...]:
    """Identifiers of the roles an application holds in the whole zone."""
    rows = await conn.execute(
        select(_assignments.c.role_identifier).where(
            _assignments.c.zone_id == zone_id,
            _assignments.c.principal_type == "application",
            _assignments.c.principal_id == application_id,
            _assignments.c.scope_id.is_(None),
        )
    )
    return tuple(sorted(set(rows.scalars())))


async def active_policies(conn: AsyncConnection, zone_id: str) -> ActivePolicies | None:
    """The policies that decide in a zone; None when no set is bound."""
    bound = (
        await conn.execute(
            select(_set_versions.c.schema_version, _set_versions.c.manifest)
            .join(_bindings, _bindings.c.policy_set_version_id == _set_versions.c.id)
            .where(
                _bindings.c.zone_id == zone_id,
                _bindings.c.target_type == "zone",
                _bindings.c.target_id == zone_id,
                _bindings.c.mode == "active",
                _set_versions.c.zone_id == zone_id,
            )
        )
    ).one_or_none()
    return None if bound is None else await _texts(conn, zone_id, bound.schema_version, bound.manifest)


async def policies_of(conn: AsyncConnection, zone_id: str, set_version_id: str) -> ActivePolicies | None:
    """The policies of a policy set version; None when it is gone."""
    found = (
        await conn.execute(
            select(_set_versions.c.schema_version, _set_versions.c.manifest).where(
                _set_versions.c.zone_id == zone_id, _set_versions.c.id == set_version_id
            )
        )
    ).one_or_none()
    return None if found is None else await _texts(conn, zone_id, found.schema_version, found.manifest)


async def _texts(
    conn: AsyncConnection, zone_id: str, schema_version: str, manifest: Mapping[str, Any]
) -> ActivePolicies:
    ids = [entry["policy_version_id"] for entry in manifest["entries"]]
    rows = await conn.execute(
        select(_policy_versions.c.id, _policy_versions.c.cedar_raw, _policy_versions.c.cedar_json).where(
            _policy_versions.c.zone_id == zone_id, _policy_versions.c.id.in_(ids)
        )
    )
    texts = {row.id: (row.id, row.cedar_raw, row.cedar_json) for row in rows}
    return ActivePolicies(schema_version, tuple(texts[each] for each in ids if each in texts))


def _clients(zone_id: str, client_id: str) -> Select[Any]:
    by_id = and_(_credentials.c.id == client_id, _IS_WORKLOAD)
    by_name = and_(_credentials.c.identifier == client_id, _IS_NO_WORKLOAD)
    return select(_credentials).where(_credentials.c.zone_id == zone_id, or_(by_id, by_name))


def _age(row: RowMapping) -> tuple[datetime, str]:
    return row["created_at"], row["id"]


def _credential(row: RowMapping) -> Credential:
    return cast(Credential, APPLICATION_CREDENTIAL.read(dict(row)))


async def _with_owner(conn: AsyncConnection, row: RowMapping) -> tuple[Credential, Application] | None:
    credential = _credential(row)
    owner = await application(conn, credential.zone_id, credential.application_id)
    return (credential, owner) if owner else None


async def _one(conn: AsyncConnection, kind: Kind, zone_id: str, member: str, value: str) -> Any:
    table = TABLES[kind.name]
    found = await conn.execute(select(table).where(table.c.zone_id == zone_id, table.c[member] == value))
    row = found.mappings().one_or_none()
    return kind.read(dict(row)) if row else None


def _bumped(epoch: Any) -> int:
    return int(epoch) if epoch is not None else 0

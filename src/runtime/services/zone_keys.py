"""A zone's keys: the data key that seals what it keeps, and the signing keys with their lives.

The instants are decided when a key is made and stored with it, never worked out from settings of the day,
so the JWK set always holds what some verifier may still need.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import cast

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.key_encryption import KeyEncryption
from runtime.adapters.keys.sealing import SealBroken, Sealer, new_data_key
from runtime.adapters.keys.signing import Algorithm, SigningKey, VerificationKey
from runtime.adapters.keys.wrapping import Binding, KeyRefused, KeyUnreachable
from runtime.domain.errors import NotFound, Unavailable, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.values import rfc3339
from runtime.domain.kinds.zone import EncryptionKeyAwsKmsConfig
from runtime.domain.policy import schema
from runtime.services.clock import NODES_APART
from runtime.services.data_keys import DataKeys, HeldKey, binding_of
from runtime.storage.sql import zone_data as storage
from runtime.storage.sql.database import Database
from runtime.storage.sql.zone_data import StoredKey, ZoneInternals

DEFAULT_ALGORITHM: Algorithm = "RS256"
ALGORITHMS: tuple[Algorithm, ...] = ("RS256", "ES256")
# A new key is published this long before it signs: three times what verifiers may cache the JWK set.
PUBLISHED_BEFORE = timedelta(minutes=15)
# A retired key stays published for the longest life that a token may have.
KEPT_AFTER = timedelta(days=366)
# For key rings alone: a zone that is read has a connection to the database until its ring is there.
_THREADS = ThreadPoolExecutor(2, thread_name_prefix="key-rings")


@dataclass(frozen=True)
class KeyRing:
    """A zone's keys at one moment.

    Attributes:
        verification: kid -> key; what tokens of this zone may be signed with.
        signing: algorithm -> the key that signs now.
        published: the members of the JWK set, newest last.
        changes_at: when another moment's ring would differ; None when no change is planned.
    """

    verification: dict[str, VerificationKey]
    signing: dict[str, SigningKey]
    published: tuple[dict[str, str], ...]
    changes_at: datetime | None

    def until(self, instant: datetime | None) -> "KeyRing":
        """The ring, to be looked at again at that instant at the latest."""
        known = [each for each in (self.changes_at, instant) if each is not None]
        return replace(self, changes_at=min(known, default=None))


async def make(algorithms: Sequence[Algorithm] = ALGORITHMS) -> dict[Algorithm, SigningKey]:
    """One signing key of each algorithm. An RSA key takes a noticeable fraction of a second."""
    return {each: await asyncio.to_thread(SigningKey.generate, each) for each in algorithms}


@dataclass(frozen=True)
class PreparedZone:
    """What a zone that is going to be made begins with: made before the transaction, because it takes long.

    Attributes:
        zone_id: the id that the zone gets: its data key is wrapped for it.
        arn: the zone's own key-encryption key, None for the service's.
        stored: the data key, wrapped.
        signing: a signing key of each algorithm.
        held: of a dry run: its data key, which is held no longer than this.
    """

    zone_id: str
    arn: str | None
    stored: bytes = field(repr=False)
    sealer: Sealer
    signing: Mapping[Algorithm, SigningKey] = field(repr=False)
    held: HeldKey | None = None


@dataclass(frozen=True)
class KeyChange:
    """A zone's data key, wrapped with another key-encryption key before the transaction that says so.

    Attributes:
        arn: the zone's own key from then on; None for the service's.
        before, after: the data key as it was stored, and is going to be.
    """

    arn: str | None
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)


# What came of trying a key-encryption key: why it may not be used, or is not available; None where it may.
KeyTrial = ValidationFailed | Unavailable | None


@dataclass(frozen=True)
class PreparedKeys:
    """What was wrapped before a transaction.

    Attributes:
        new_zones: of zones that it makes.
        changes: zone id -> what changes.
        trials: ARN of a zone's own key, or None for the service's -> what came of it; for a dry run.
    """

    new_zones: Sequence[PreparedZone] = ()
    changes: Mapping[str, KeyChange] = field(default_factory=dict)
    trials: Mapping[str | None, KeyTrial] = field(default_factory=dict)


async def prepare(
    keys: KeyEncryption,
    data_keys: DataKeys,
    *,
    arn: str | None = None,
) -> PreparedZone:
    """The id and the keys of a zone that is going to be made. The key that wraps is tried in both directions.

    Raises: ValidationFailed, Unavailable.
    """
    zone_id, data_key = new_id(), new_data_key()
    stored = await wrapped(keys, data_key, binding_of(zone_id), arn=arn)
    sealer = data_keys.hold(zone_id, stored, data_key)
    return PreparedZone(zone_id, arn, stored, sealer, await make())


async def prepare_trial(
    data_keys: DataKeys, *, arn: str | None, algorithms: Sequence[Algorithm]
) -> PreparedZone:
    """The same of a zone that a dry run makes. No key wraps its data key: it is never stored.

    Args:
        algorithms: of the signing keys that it needs; another would take long to make, for nothing.
    """
    zone_id = new_id()
    held = data_keys.hold_for_trial(zone_id, new_data_key())
    return PreparedZone(zone_id, arn, held.stored, held.sealer, await make(algorithms), held)


async def wrapped(keys: KeyEncryption, data_key: bytes, binding: Binding, *, arn: str | None) -> bytes:
    """A data key, wrapped with a zone's own key or the service's, which has opened it again.

    Raises:
        ValidationFailed: the zone's key may not be used: by the settings, or as its service says.
        Unavailable: its service cannot be reached.
    """
    try:
        stored = await keys.wrap(data_key, binding, arn=arn)
        if await keys.unwrap(stored, binding) != data_key:
            raise SealBroken("another data key was returned")
    except KeyUnreachable as failure:
        raise Unavailable("the encryption key cannot be tried: try again", internal=str(failure)) from failure
    except (KeyRefused, SealBroken) as failure:
        if arn is None:
            raise Unavailable("the service's encryption key is refused", internal=str(failure)) from failure
        raise ValidationFailed.of("encryption_key.arn", _refusal(str(failure))) from failure
    return stored


def _refusal(reason: str) -> str:
    return reason if reason.startswith("is ") else f"cannot be used: {reason}"


def arn_of(key: EncryptionKeyAwsKmsConfig | None) -> str | None:
    """The ARN of a zone's own key."""
    return None if key is None else key.arn


async def create_zone_keys(
    conn: AsyncConnection, prepared: PreparedZone, *, organization_id: str, now: datetime
) -> None:
    """Give a new zone its data key and its signing keys."""
    zone_id = prepared.zone_id
    await storage.add_internals(
        conn,
        ZoneInternals(
            zone_id, organization_id, prepared.stored, DEFAULT_ALGORITHM, 1, schema.current().version
        ),
    )
    past = now - NODES_APART
    for key in prepared.signing.values():
        await storage.add_key(conn, zone_id, _stored(key, prepared.sealer, publish_at=past, activate_at=past))


async def sealer(data_keys: DataKeys, conn: AsyncConnection, zone_id: str) -> Sealer:
    """The sealer of a zone's secrets, inside the caller's transaction.

    Raises: NotFound; DataKeyUnavailable where the data key is not held, and a service would have to be asked.
    """
    found = await storage.zone(conn, zone_id)
    if found is None:
        raise NotFound(f"there is no Zone `{zone_id}`")
    return data_keys.opened(zone_id, found[1].data_key_wrapped).sealer


async def listed(database: Database, zone_id: str) -> list[StoredKey]:
    """Every key that a zone has or had, oldest first, with the instants of its life."""
    async with database.querying() as conn:
        return await storage.keys(conn, zone_id)


def life(key: StoredKey, now: datetime) -> tuple[str, str]:
    """What a key does at *now*, and until when."""
    stages = (
        ("published", key.activate_at),
        ("signs", key.retire_at),
        ("verifies", key.remove_at),
    )
    for stage, until in stages:
        if until is None:
            return stage, "until it is rotated"
        if now < until:
            return stage, f"until {rfc3339(until)}"
    return "removed", f"since {rfc3339(key.remove_at or now)}"


async def add_next(
    conn: AsyncConnection, zone_id: str, zone_sealer: Sealer, key: SigningKey, *, now: datetime, at_once: bool
) -> None:
    """Keep the next key of a zone, and give the others of its algorithm their end.

    Args:
        at_once: it signs now, and the others are worth nothing any more.
    """
    past = now - NODES_APART  # on every node
    activate_at = past if at_once else now + PUBLISHED_BEFORE
    remove_at = past if at_once else activate_at + KEPT_AFTER
    await storage.retire_keys(conn, zone_id, key.algorithm, retire_at=activate_at, remove_at=remove_at)
    await storage.add_key(conn, zone_id, _stored(key, zone_sealer, publish_at=past, activate_at=activate_at))


def key_ring(
    stored: list[StoredKey], zone_sealer: Sealer, parsed: dict[str, SigningKey], now: datetime
) -> KeyRing:
    """The keys of a zone that count at *now*.

    Args:
        parsed: kid -> key that was opened before; what is opened here is added, because opening an RSA key
            costs as much as signing with it.
    """
    verification: dict[str, VerificationKey] = {}
    signing: dict[str, SigningKey] = {}
    published: list[dict[str, str]] = []
    for each in stored:
        if each.publish_at > now or (each.remove_at is not None and each.remove_at <= now):
            continue
        if each.kid not in parsed:
            parsed[each.kid] = _open(each, zone_sealer)
        key = parsed[each.kid]
        verification[each.kid] = VerificationKey.of(key)
        published.append(key.public_jwk)
        if each.activate_at <= now and (each.retire_at is None or each.retire_at > now):
            signing[each.algorithm] = key
    instants = [
        instant
        for each in stored
        for instant in (each.publish_at, each.activate_at, each.retire_at, each.remove_at)
        if instant is not None and instant > now
    ]
    return KeyRing(verification, signing, tuple(published), min(instants, default=None))


async def open_ring(
    stored: list[StoredKey], zone_sealer: Sealer, parsed: dict[str, SigningKey], now: datetime
) -> KeyRing:
    """The same, opened in a thread that no other work holds."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_THREADS, key_ring, stored, zone_sealer, parsed, now)


def _stored(
    key: SigningKey, zone_sealer: Sealer, *, publish_at: datetime, activate_at: datetime
) -> StoredKey:
    return StoredKey(
        kid=key.kid,
        algorithm=key.algorithm,
        private_sealed=zone_sealer.seal(key.to_pem(), bound_to=_private_key_place(key.kid)),
        public_jwk=key.public_jwk,
        publish_at=publish_at,
        activate_at=activate_at,
        retire_at=None,
        remove_at=None,
    )


def _open(stored: StoredKey, zone_sealer: Sealer) -> SigningKey:
    pem = zone_sealer.open(stored.private_sealed, bound_to=_private_key_place(stored.kid))
    return SigningKey.from_pem(pem, cast(Algorithm, stored.algorithm))


def _private_key_place(kid: str) -> str:
    return f"zone_keys/{kid}/private_sealed"

"""Changes of the key that wraps a zone's data key: what is wrapped before a transaction, and kept in it."""

from collections.abc import Mapping
from typing import Any

from runtime.adapters.keys.sealing import SealBroken, new_data_key
from runtime.adapters.keys.wrapping import KeyRefused, KeyUnreachable
from runtime.contract.bodies import apply_patch
from runtime.domain.errors import Conflict, Unavailable, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ZONE, Kind, Verb
from runtime.domain.kinds.zone import EncryptionKeyAwsKmsConfig, Zone
from runtime.services import zone_keys
from runtime.services.container import Services
from runtime.services.data_keys import binding_of
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import Caller
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.zone_keys import KeyChange, KeyTrial, PreparedKeys, PreparedZone
from runtime.storage.sql import wrapped_keys, zone_data

_MEMBER = "encryption_key"


async def for_new_zones(services: Services, body: Mapping[str, Any], number: int) -> list[PreparedZone]:
    """The keys of so many zones, each wrapped with the key that the body of a create names.

    Raises: ValidationFailed for a key that may not be used; Unavailable.
    """
    keys, data_keys, arn = services.key_encryption, services.data_keys, arn_in(body)
    return [await zone_keys.prepare(keys, data_keys, arn=arn) for _ in range(number)]


def arn_in(body: Mapping[str, Any]) -> str | None:
    """The ARN of the key that the body of a create names."""
    own = body.get(_MEMBER)
    return own["arn"] if own else None


async def trial(services: Services, arn: str | None) -> KeyTrial:
    """What comes of wrapping a data key with a key, and unwrapping it."""
    try:
        await zone_keys.wrapped(services.key_encryption, new_data_key(), binding_of(new_id()), arn=arn)
    except (ValidationFailed, Unavailable) as refusal:
        return refusal
    return None


def wanted(zone: Zone, patch: Mapping[str, Any] | None) -> EncryptionKeyAwsKmsConfig | None:
    """The key that a zone has once it is patched."""
    if patch is None or _MEMBER not in patch:
        return zone.encryption_key
    return apply_patch(ZONE, zone, {_MEMBER: patch[_MEMBER]}).encryption_key


async def for_update(
    services: Services, caller: Caller, kind: Kind, zone_id: str, patch: Mapping[str, Any] | None
) -> PreparedKeys | None:
    """The data key of a zone, wrapped with the key that a patch gives it; nothing where it gives it none.

    Raises: ValidationFailed for a key that may not be used; Unavailable, also for the present key.
    """
    if kind is not ZONE or patch is None or _MEMBER not in patch:
        return None
    change = await _change(services, caller, zone_id, patch)
    return PreparedKeys(changes={zone_id: change}) if change is not None else None


async def _change(
    services: Services, caller: Caller, zone_id: str, patch: Mapping[str, Any]
) -> KeyChange | None:
    if not permissions.allows(caller.roles_anywhere, ZONE.operations, Verb.UPDATE):
        return None  # who may not change the zone is refused in the transaction
    async with services.database.querying() as conn:
        found = await zone_data.zone(conn, zone_id)
    if found is None or found[0].organization_id != caller.organization_id:
        return None
    zone, internals = found
    after = wanted(zone, patch)
    if after == zone.encryption_key:
        return None
    keys, binding, before = services.key_encryption, binding_of(zone_id), internals.data_key_wrapped
    try:
        data_key = await keys.unwrap(before, binding)
    except (KeyRefused, KeyUnreachable, SealBroken) as failure:
        raise Unavailable(
            "the present encryption key of this zone is not available", internal=f"zone {zone_id}: {failure}"
        ) from failure
    arn = zone_keys.arn_of(after)
    return KeyChange(arn, before, await zone_keys.wrapped(keys, data_key, binding, arn=arn))


def require_usable(unit: UnitOfWork, arn: str | None) -> None:
    """Raise what came of trying a key before a dry run."""
    if (refusal := unit.key_trials.get(arn)) is not None:
        raise refusal


async def carry_out(unit: UnitOfWork, before: Zone, after: Zone) -> None:
    """Keep a zone's data key as it is wrapped with the key that the zone has now.

    A dry run has tried the key before, with another data key.

    Raises: Conflict; in a dry run ValidationFailed, Unavailable.
    """
    if before.encryption_key == after.encryption_key:
        return
    arn = zone_keys.arn_of(after.encryption_key)
    if unit.dry_run:
        require_usable(unit, arn)
        is_kept = arn in unit.key_trials
    else:
        change = unit.key_changes.get(after.id)
        is_kept = (
            change is not None
            and change.arn == arn
            and await wrapped_keys.replace_of_zone(unit.conn, after.id, change.before, change.after)
        )
    if not is_kept:
        raise Conflict("the encryption key of this zone was changed meanwhile: send the request again")

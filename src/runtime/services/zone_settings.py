"""Settings of a zone that operators change with `zoned zone set`.

Most are outside the management API. One is a member of the zone, too: operators set it for zones that the API
does not change, those of the platform.
"""

from typing import Any, get_args

from pydantic import ValidationError

from runtime.domain.errors import NotFound, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION, ZONE
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.zone_settings import ZoneSettings
from runtime.services.container import Services
from runtime.services.management import entities, token_revocation
from runtime.services.management.access.caller import SERVICE, Actor
from runtime.services.management.unit_of_work import UnitOfWork, unit_of_work
from runtime.storage.sql import accountability
from runtime.storage.sql import entities as entity_storage
from runtime.storage.sql import zone_data as storage

_WORDS = {"on": True, "off": False}
SUSPENDING = "require_active_accountable"  # suspends applications when it is turned on
_MEMBER = "strict_assertion_audience"  # of the zone's `protocols.oauth2`


async def set_zone_setting(
    services: Services, zone_id: str, name: str, value: str, *, by: Actor = SERVICE
) -> None:
    """Set one setting of a zone; the others stay.

    Args:
        name: as in `ZoneSettings`, or `strict_assertion_audience`; with hyphens or underscores.
        value: `on`, `off`, or one of the setting's values.
    Raises: ValidationFailed for an unknown setting or value; NotFound.
    """
    member = name.replace("-", "_")
    if member not in (names := {*ZoneSettings.model_fields, _MEMBER}):
        known = ", ".join(sorted(each.replace("_", "-") for each in names))
        raise ValidationFailed.of(name, f"is not a zone setting; the settings are {known}")
    async with services.database.querying() as conn:
        organization_id = await storage.organization_of_zone(conn, zone_id)
    async with unit_of_work(services, by.within(organization_id), new_id()) as unit:
        await unit.lock_organization()
        found = await storage.zone(unit.conn, zone_id)
        if found is None:
            raise NotFound(f"there is no zone `{zone_id}`")
        zone, internals = found
        if member == _MEMBER:
            await _set_member(unit, zone, name, value)
        else:
            before = internals.settings or ZoneSettings()
            await _set_setting(unit, zone_id, before, _changed(before, name, value), member)


async def suspended_applications(services: Services, zone_id: str) -> list[str]:
    """The identifiers of the applications that nobody active is accountable for, where that suspends them."""
    async with services.database.reading() as conn:
        ended = await accountability.ended(conn, zone_id)
        found = await entity_storage.many(conn, APPLICATION, ended, within={"zone_id": zone_id})
    return sorted(each.identifier for each in found)


async def _set_member(unit: UnitOfWork, zone: Zone, name: str, value: str) -> None:
    if value not in _WORDS:
        raise ValidationFailed.of(name, f"cannot be `{value}`; allowed: {_values(bool)}")
    oauth2 = zone.protocols.oauth2.model_copy(update={_MEMBER: _WORDS[value]})
    after = zone.model_copy(update={"protocols": zone.protocols.model_copy(update={"oauth2": oauth2})})
    await entities.change(unit, ZONE, {"organization_id": zone.organization_id}, zone, after)


def _changed(before: ZoneSettings, name: str, value: str) -> ZoneSettings:
    """The settings with another value of one. Raises ValidationFailed."""
    member = name.replace("-", "_")
    try:
        return ZoneSettings.model_validate({**before.model_dump(), member: _WORDS.get(value, value)})
    except ValidationError:
        allowed = _values(ZoneSettings.model_fields[member].annotation)
        raise ValidationFailed.of(name, f"cannot be `{value}`; allowed: {allowed}") from None


async def _set_setting(
    unit: UnitOfWork, zone_id: str, before: ZoneSettings, after: ZoneSettings, member: str
) -> None:
    if after == before:
        return
    await storage.set_zone_settings(unit.conn, zone_id, after)
    old, new = ({member: each.model_dump(mode="json")[member]} for each in (before, after))
    await unit.record("zones.set_switch", ZONE.name, zone_id, zone_id, before=old, after=new)
    if after.require_active_accountable and not before.require_active_accountable:
        await token_revocation.revoke_ended(unit, zone_id)


def _values(annotation: Any) -> str:
    return " or ".join(f"`{word}`" for word in get_args(annotation) or tuple(_WORDS))

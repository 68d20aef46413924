"""Settings of a zone that operators change with `zoned zone set`, outside the management API."""

from typing import get_args

from pydantic import ValidationError

from runtime.domain.errors import NotFound, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ZONE
from runtime.domain.oauth.zone_settings import ZoneSettings
from runtime.services.container import Services
from runtime.services.management import token_revocation
from runtime.services.management.access.caller import SERVICE, Actor
from runtime.services.management.unit_of_work import unit_of_work
from runtime.storage.sql import zone_data as storage

_WORDS = {"on": True, "off": False}


async def set_zone_setting(
    services: Services, zone_id: str, name: str, value: str, *, by: Actor = SERVICE
) -> ZoneSettings:
    """Set one setting of a zone; returns all of them as they are afterwards.

    Args:
        name: as in `ZoneSettings`, with hyphens or underscores.
        value: `on`, `off`, or one of the setting's values.
    Raises: ValidationFailed for an unknown setting or value; NotFound.
    """
    member = name.replace("-", "_")
    if member not in ZoneSettings.model_fields:
        known = ", ".join(sorted(each.replace("_", "-") for each in ZoneSettings.model_fields))
        raise ValidationFailed.of(name, f"is not a zone setting; the settings are {known}")
    async with services.database.querying() as conn:
        organization_id = await storage.organization_of_zone(conn, zone_id)
    async with unit_of_work(services, by.within(organization_id), new_id()) as unit:
        await unit.lock_organization()
        found = await storage.zone(unit.conn, zone_id)
        if found is None:
            raise NotFound(f"there is no zone `{zone_id}`")
        before = found[1].settings or ZoneSettings()
        try:
            after = ZoneSettings.model_validate({**before.model_dump(), member: _WORDS.get(value, value)})
        except ValidationError:
            raise ValidationFailed.of(name, f"cannot be `{value}`; allowed: {_values(member)}") from None
        if after != before:
            await storage.set_zone_settings(unit.conn, zone_id, after)
            old, new = ({member: each.model_dump(mode="json")[member]} for each in (before, after))
            await unit.record("zones.set_switch", ZONE.name, zone_id, zone_id, before=old, after=new)
            if after.require_active_accountable and not before.require_active_accountable:
                await token_revocation.revoke_ended(unit, zone_id)
    return after


def _values(member: str) -> str:
    words = get_args(ZoneSettings.model_fields[member].annotation) or tuple(_WORDS)
    return " or ".join(f"`{word}`" for word in words)

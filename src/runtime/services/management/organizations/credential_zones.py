"""The zones that a new credential is limited to: existing ones of the organization."""

from collections.abc import Iterable, Sequence

from runtime.domain.errors import NotFound, ValidationFailed
from runtime.domain.kinds import ZONE
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import changes, entities


async def check(unit: UnitOfWork, zones: Sequence[str] | None) -> None:
    """Raise ValidationFailed for an id without a zone in the organization."""
    if zones is None:
        return
    within = {"organization_id": unit.organization_id}
    found = {each.id for each in await entities.many(unit.conn, ZONE, list(zones), within=within)}
    for index, zone_id in enumerate(zones):
        if zone_id not in found:
            raise ValidationFailed.of(
                f"zones[{index}]", f"no Zone with the id `{zone_id}` exists in the organization"
            )


def ordered(zones: Iterable[str] | None) -> list[str] | None:
    """The ids as they are kept: each once."""
    return None if zones is None else sorted(set(zones))


async def resolve_zones(unit: UnitOfWork, zones: Sequence[str]) -> list[str] | None:
    """The ids of zones that are given by id or slug; None for none. Raises NotFound."""
    if not zones:
        return None
    known = await changes.zones(unit.conn, unit.organization_id)
    by_slug = {slug: zone_id for zone_id, slug in known.items()}
    for zone in zones:
        if zone not in known and zone not in by_slug:
            raise NotFound(f"there is no Zone `{zone}`")
    return [zone if zone in known else by_slug[zone] for zone in zones]

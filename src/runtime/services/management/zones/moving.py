"""Moves a zone to another address: a new issuer, and the former one answered for a while.

Operators do it on a node. No request can: whoever chooses a zone's address chooses where its users type their
passwords and where its clients send their secrets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import urlsplit

from runtime.domain.errors import NotFound, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import PROVIDER, ZONE
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.values import OwnerType
from runtime.domain.kinds.zone import Zone, moved
from runtime.domain.oauth.resources import is_issuer
from runtime.domain.provider_issuers import issuer_of
from runtime.domain.zone_addresses import (
    FormerIssuer,
    SentTo,
    host_pattern,
    is_downgrade,
    new_issuer,
    origin_of,
)
from runtime.services.container import Services
from runtime.services.jobs.turns import in_turn
from runtime.services.management import entities
from runtime.services.management.access.caller import SERVICE, Actor
from runtime.services.management.unit_of_work import UnitOfWork, unit_of_work
from runtime.services.management.zones import zones
from runtime.storage.sql import entities as entity_storage
from runtime.storage.sql import names, zone_addresses, zone_data
from runtime.storage.sql.zone_addresses import AddressUse

JOB = "addresses"
KEPT_FORMER = timedelta(days=30)
_MOST_ENDED = 1_000  # in one run


@dataclass(frozen=True, slots=True)
class Move:
    """What a move of a zone comes to.

    Attributes:
        before, after: the zone, with all of its addresses.
        ends_at: until when the former address is answered; None until it is ended by command.
        provider: that signs the zone's users in, and has to know the new addresses; None where it does not.
        named_by: zone id and identifier of providers, in any zone, that name the former issuer.
    """

    before: Zone
    after: Zone
    ends_at: datetime | None
    provider: Provider | None
    named_by: Sequence[tuple[str, str]]

    @property
    def is_downgrade(self) -> bool:
        """Whether tokens and passwords travel in clear from then on."""
        return is_downgrade(issuer_at_present(self.before), issuer_at_present(self.after))

    @property
    def differs_by_scheme_alone(self) -> bool:
        """Whether only a proxy can tell to which of the two a request was sent."""
        new = urlsplit(issuer_at_present(self.after)).netloc
        return SentTo(None, new).is_at(issuer_at_present(self.before))


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of a zone, and who asked at the former ones."""

    issuer: str
    former: Sequence[FormerIssuer]
    uses: Sequence[AddressUse]


async def every_zone(services: Services) -> list[str]:
    """The ids of all zones, in order."""
    async with services.database.reading() as conn:
        return await zone_data.every(conn)


async def move(
    services: Services,
    zone_id: str,
    to: str | None,
    *,
    ends_at: datetime | None,
    dry_run: bool = False,
    by: Actor = SERVICE,
) -> Move | None:
    """Move a zone; None where it is at that address already.

    Args:
        to: the new address: an origin, or the whole issuer; None for the one that the settings give.
        ends_at: until when the former address is answered; None until `end`.
        dry_run: only look what it would come to; every check is made.
    Raises: ValidationFailed for an address that cannot be the zone's; Conflict for one that is, or was,
        another zone's; NotFound.
    """
    async with services.database.querying() as conn:
        organization_id = await zone_data.organization_of_zone(conn, zone_id)
    if dry_run:
        async with services.database.reading() as conn:
            unit = UnitOfWork(
                conn, by.within(organization_id), services, services.clock(), new_id(), dry_run=True
            )
            return await _planned(unit, zone_id, to, ends_at)
    async with unit_of_work(services, by.within(organization_id), new_id()) as unit:
        await unit.lock_organization()
        planned = await _planned(unit, zone_id, to, ends_at)
        if planned is not None:
            await _carry_out(unit, planned)
    return planned


async def end(
    services: Services, zone_id: str, issuer: str | None = None, *, by: Actor = SERVICE
) -> list[str]:
    """Answer the former addresses of a zone no more; which those were.

    Args:
        issuer: only this one, or that of this origin; None for all.
    Raises: NotFound, also where no former address is answered.
    """
    async with services.database.querying() as conn:
        organization_id = await zone_data.organization_of_zone(conn, zone_id)
    async with unit_of_work(services, by.within(organization_id), new_id()) as unit:
        await unit.lock_organization()
        former = await zone_addresses.former(unit.conn, zone_id)
        ending = [
            each.issuer
            for each in former
            if each.is_answered(unit.now) and issuer in (None, each.issuer, origin_of(each.issuer))
        ]
        if not ending:
            which = f" `{issuer}`" if issuer else ""
            raise NotFound(f"the zone has no former address{which} that is answered")
        for each in ending:
            await _end(unit, zone_id, each, unit.now)
    return ending


async def end_due(services: Services) -> int:
    """Record the end of every former address whose time is over; how many. They are refused since then.

    Raises: Unavailable, in the end, where organizations were passed over.
    """
    now = services.clock()
    async with services.database.querying() as conn:
        waiting = await zone_addresses.due(conn, now=now, limit=_MOST_ENDED)
    done = 0
    with in_turn(services, JOB) as turns:
        for zone_id, issuer, ended_at in waiting:
            try:
                async with services.database.querying() as conn:
                    organization_id = await zone_data.organization_of_zone(conn, zone_id)
            except NotFound:
                continue  # the zone is gone meanwhile, and its addresses with it
            work = partial(_end_due, services, organization_id, zone_id, issuer, ended_at)
            done += await turns.take(organization_id, work) or False
    return done


async def _end_due(
    services: Services, organization_id: str, zone_id: str, issuer: str, ended_at: datetime
) -> bool:
    """Record the end of a former address; False where it is none any more."""
    async with unit_of_work(services, SERVICE.within(organization_id), new_id()) as unit:
        await unit.lock_organization()
        still = {each.issuer for each in await zone_addresses.former(unit.conn, zone_id)}
        if issuer not in still:
            return False
        await _end(unit, zone_id, issuer, ended_at)
    return True


async def listed(services: Services, zone_id: str) -> Addresses:
    """The addresses of a zone, with who asked at former ones, the latest first. Raises NotFound."""
    async with services.database.reading() as conn:
        found = await zone_data.zone(conn, zone_id)
        if found is None:
            raise NotFound(f"there is no zone `{zone_id}`")
        former = await zone_addresses.former(conn, zone_id)
        return Addresses(issuer_at_present(found[0]), former, await zone_addresses.uses(conn, zone_id))


async def elsewhere(services: Services) -> int:
    """How many zones there are, where none of them stands at the address that the settings give it; or 0."""
    async with services.database.reading() as conn:
        found = 0
        async for zone in entity_storage.all_of(conn, ZONE, within={}):
            given = zones.issuer_of_settings(services.settings, zone_id=zone.id, slug=zone.slug)
            if issuer_at_present(zone) == given:
                return 0
            found += 1
    return found


async def unrecorded_ends(services: Services) -> int:
    """How many former addresses have ended an hour ago or longer, without a record of it."""
    async with services.database.querying() as conn:
        before = services.clock() - timedelta(hours=1)
        return len(await zone_addresses.due(conn, now=before, limit=_MOST_ENDED))


def issuer_at_present(zone: Zone) -> str:
    """The issuer that is stored with a zone."""
    return str(zone.protocols.oauth2.issuer)


async def _planned(unit: UnitOfWork, zone_id: str, to: str | None, ends_at: datetime | None) -> Move | None:
    found = await zone_data.zone(unit.conn, zone_id)
    if found is None:
        raise NotFound(f"there is no zone `{zone_id}`")
    zone, settings = found[0], unit.services.settings
    given = to or zones.issuer_of_settings(settings, zone_id=zone.id, slug=zone.slug)
    try:
        issuer = new_issuer(issuer_at_present(zone), given)
    except ValueError as refusal:
        raise ValidationFailed.of("to", f"`{given}` {refusal}") from None
    if issuer == issuer_at_present(zone):
        return None
    await _require_free(unit, zone, issuer)
    return Move(
        zone,
        moved(zone, issuer),
        ends_at,
        await _provider(unit, zone),
        await zone_addresses.providers_of(unit.conn, issuer_at_present(zone)),
    )


async def _require_free(unit: UnitOfWork, zone: Zone, issuer: str) -> None:
    """Check that nobody else goes, or went, by an issuer. Raises ValidationFailed."""
    settings = unit.services.settings
    if issuer == origin_of(settings.public_url):
        raise ValidationFailed.of("to", f"`{issuer}` is the address of the service itself")
    hosts = host_pattern(settings.zone_url_template, settings.public_url)
    named = hosts.match(urlsplit(issuer).netloc) if hosts else None
    if named is not None and "{zone_id}" in settings.zone_url_template and named[1] != zone.id:
        raise ValidationFailed.of("to", f"`{issuer}` is an address that a zone with another id has")
    holder = await names.zone_of_issuer(unit.conn, issuer)
    if holder not in (None, zone.id):
        raise ValidationFailed.of(
            "to", f"`{issuer}` is, or was, the issuer of another zone; it cannot be used again"
        )
    for identifier in await zone_addresses.resource_identifiers(unit.conn, zone.id):
        if is_issuer(identifier, issuer):
            raise ValidationFailed.of("to", f"`{issuer}` is the identifier of a resource of the zone")
    async for provider in entity_storage.all_of(unit.conn, PROVIDER, within={"zone_id": zone.id}):
        if isinstance(provider, Provider) and issuer in (provider.identifier, issuer_of(provider)):
            raise ValidationFailed.of("to", f"`{issuer}` is the issuer of a provider of the zone")


async def _provider(unit: UnitOfWork, zone: Zone) -> Provider | None:
    if zone.user_identity_provider_id is None:
        return None
    found = await entity_storage.get(
        unit.conn, PROVIDER, zone.user_identity_provider_id, within={"zone_id": zone.id}
    )
    return found if isinstance(found, Provider) else None


async def _carry_out(unit: UnitOfWork, planned: Move) -> None:
    zone, former = planned.before, issuer_at_present(planned.before)
    issuer = issuer_at_present(planned.after)
    await zone_addresses.take_back(unit.conn, zone.id, issuer)  # where it moves back
    await zone_addresses.add(unit.conn, zone.id, FormerIssuer(former, unit.now, planned.ends_at))
    await entities.change(
        unit, ZONE, {"organization_id": zone.organization_id}, zone, planned.after, action="move"
    )
    if zone.owner_type is OwnerType.PLATFORM:  # only people of a home zone act for organizations
        await zone_addresses.rename_accounts(unit.conn, former, issuer)


async def _end(unit: UnitOfWork, zone_id: str, issuer: str, ended_at: datetime) -> None:
    await zone_addresses.end(unit.conn, zone_id, issuer, ends_at=ended_at)
    await unit.record("zones.end_move", ZONE.name, zone_id, zone_id, before={"issuer": issuer}, after=None)

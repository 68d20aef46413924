"""The zone cache of a process: loads zones, reloads one when its epoch moves, evicts beyond a bound."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from math import inf
from time import monotonic
from weakref import WeakValueDictionary

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.sealing import KeyEncryption
from runtime.adapters.keys.signing import SigningKey
from runtime.domain.errors import NotFound, Unavailable
from runtime.services import cache_sizes, epochs, zone_keys
from runtime.services.bounded_cache import BoundedCache
from runtime.services.epochs import Epochs
from runtime.services.zones.cached_zone import CachedZone
from runtime.services.zones.policies import PolicyCache
from runtime.settings import Settings
from runtime.storage.sql import revocations
from runtime.storage.sql import zone_data as storage
from runtime.storage.sql.database import Database

RECENT_SECONDS = 1.0
_AWAY_SECONDS = 60.0


class Zones:
    """The cached zones of this process, each until its epoch moves."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime],
        epochs: Epochs,
        key_encryption: KeyEncryption,
        settings: Settings,
    ) -> None:
        self._database = database
        self._clock = clock
        self._epochs = epochs
        self._key_encryption = key_encryption
        self._settings = settings
        self._zones: BoundedCache[CachedZone] = BoundedCache(cache_sizes.ZONES)
        self._parsed_keys: BoundedCache[dict[str, SigningKey]] = BoundedCache(cache_sizes.ZONES)
        self._loading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by zones being read
        self._policies = PolicyCache()
        self._ids_by_slug: BoundedCache[str] = BoundedCache(cache_sizes.ZONES)

    def held(self, zone_id: str) -> CachedZone | None:
        """A zone as it was right when it was made: for those who compare its epoch before they answer."""
        zone = self._zones.get(zone_id)
        return zone if zone and self._is_current(zone) else None

    async def get(self, zone_id: str) -> CachedZone:
        """The zone as it stands now. Raises NotFound."""
        held = self.held(zone_id)
        if held is not None:
            asked_at = monotonic()
            names = [epochs.zone_key(zone_id), epochs.denials_key(zone_id)]
            (epoch, denials), _ = await self._epochs.published(names)
            if held.is_as_new_as(epoch, denials):
                held.checked_at = asked_at
                return held
        return await self.refresh(zone_id)

    async def recent(self, zone_id: str) -> CachedZone:
        """The zone as it stood a second ago at most, or a minute while nobody can tell. Raises NotFound.

        For what is public, and kept for minutes by those who read it.
        """
        held = self.held(zone_id)
        age = monotonic() - held.checked_at if held is not None else inf
        if held is not None and age < RECENT_SECONDS:
            return held
        try:
            return await self.get(zone_id)
        except Unavailable:
            if held is not None and age < _AWAY_SECONDS:
                return held
            raise

    def invalidate(self, zone_id: str) -> None:
        """Look again before the next answer: this process has just changed the zone."""
        if (held := self._zones.get(zone_id)) is not None:
            held.checked_at = -inf

    async def refresh(self, zone_id: str) -> CachedZone:
        """The zone as the database has it now. Raises NotFound."""
        await self._epochs.begin()
        async with self._loading.setdefault(zone_id, asyncio.Lock()):
            asked_at, era = monotonic(), self._epochs.era
            async with self._database.reading() as conn:
                found = await storage.zone_epochs(conn, zone_id)
                zone = self.held(zone_id)
                if zone is None or found is None or zone.epoch != found[0]:
                    zone = await self._load(conn, zone_id, era)
                elif zone.denials != found[1]:
                    denied = await revocations.denied(conn, zone_id, now=self._clock())
                    zone.denials, zone.denied = denied
            if zone is None:
                if (gone := self._zones.pop(zone_id, None)) is not None:
                    self._ids_by_slug.pop(gone.entity.slug, None)
                self._parsed_keys.pop(zone_id, None)
                raise NotFound(f"there is no zone `{zone_id}`")
            zone.checked_at = asked_at
        read = {epochs.zone_key(zone_id): zone.epoch, epochs.denials_key(zone_id): zone.denials}
        await self._epochs.remember(read)
        return zone

    async def apart(self, zone_id: str) -> CachedZone:
        """A zone for one request alone, as the database has it for this task. Raises NotFound."""
        await self._epochs.begin()
        async with self._database.reading() as conn:
            zone = await self._read(conn, zone_id, self._epochs.era)
        if zone is None:
            raise NotFound(f"there is no zone `{zone_id}`")
        zone.is_apart = True
        return zone

    async def locate(self, slug: str) -> str:
        """The id of the zone whose issuer is the template filled with that slug. Raises NotFound."""
        settings = self._settings
        issuer = settings.zone_url_template.format(public_url=settings.public_url, zone_id="", slug=slug)
        found = self._ids_by_slug.get(slug)
        if found is None:
            async with self._database.querying() as conn:
                found = await storage.zone_with_slug(conn, slug, issuer)
            if found is None:
                raise NotFound("there is no such zone")
            self._ids_by_slug[slug] = found
        return found

    async def find_id(self, id_or_slug: str) -> str:
        """The id of the zone an operator names by id or slug. Raises NotFound; also for an ambiguous slug."""
        async with self._database.querying() as conn:
            found = await storage.zones_named(conn, id_or_slug)
        if not found:
            raise NotFound(f"there is no zone `{id_or_slug}`")
        if len(found) > 1:
            raise NotFound(
                f"{len(found)} zones have the slug `{id_or_slug}`: name one by its id, {', '.join(found)}"
            )
        return found[0]

    def _is_current(self, zone: CachedZone) -> bool:
        is_due = zone.valid_until is not None and zone.valid_until <= self._clock()
        return zone.is_followed() and not is_due

    async def _load(self, conn: AsyncConnection, zone_id: str, era: int) -> CachedZone | None:
        """A zone read anew, kept from now on; None when there is no such zone."""
        zone = await self._read(conn, zone_id, era)
        if zone is not None:
            self._zones[zone_id] = zone
        return zone

    async def _read(self, conn: AsyncConnection, zone_id: str, era: int) -> CachedZone | None:
        found = await storage.zone(conn, zone_id)
        if found is None:
            return None
        zone, internals = found
        stored = await storage.keys(conn, zone_id)
        sealer = zone_keys.open_sealer(self._key_encryption, internals)
        parsed = self._parsed_keys.setdefault(zone.id, {})
        now = self._clock()
        ring = await asyncio.to_thread(zone_keys.key_ring, stored, sealer, parsed, now)
        denied = await revocations.denied(conn, zone_id, now=now)
        return CachedZone(
            self._database, self._epochs, self._policies, zone, internals, sealer, ring, denied, era
        )

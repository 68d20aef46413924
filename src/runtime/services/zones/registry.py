"""The zone registry of a process: loads zones, caches them, and reloads one when its epoch has changed."""

import asyncio
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime
from math import inf
from time import monotonic
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.signing import SigningKey
from runtime.domain.errors import NotFound, Unavailable
from runtime.domain.identifiers import ID_LENGTH
from runtime.domain.zone_addresses import SentTo, chosen
from runtime.services import cache_sizes, epochs, zone_keys
from runtime.services.bounded_cache import BoundedCache
from runtime.services.data_keys import DataKeys
from runtime.services.epochs import Epochs
from runtime.services.zones.asked_address import ASKED
from runtime.services.zones.cached_zone import CachedZone
from runtime.services.zones.denied_tokens import DeniedTokens
from runtime.services.zones.policies import PolicyCache
from runtime.services.zones.tagged_cache import ChangeHistory
from runtime.settings import Settings
from runtime.storage.sql import names, zone_addresses, zone_changes
from runtime.storage.sql import zone_data as storage
from runtime.storage.sql.database import Database

RECENT_SECONDS = 1.0
WATCH_SECONDS = 0.5  # between looks for deleted zones
_AWAY_SECONDS = 60.0
_IDS = re.compile(rf"[0-9a-z]{{{ID_LENGTH}}}")
_MOST_CHANGES = 1_000  # that a zone is followed over; after more it is read again


class ZoneRegistry:
    """Loads zones and caches each until its epoch changes."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime],
        epochs: Epochs,
        data_keys: DataKeys,
        settings: Settings,
    ) -> None:
        self._database = database
        self._clock = clock
        self._epochs = epochs
        self._data_keys = data_keys
        data_keys.on_end = self.forget
        self._settings = settings
        self._zones: BoundedCache[CachedZone] = BoundedCache(cache_sizes.ZONES)
        self._parsed_keys: BoundedCache[dict[str, SigningKey]] = BoundedCache(cache_sizes.ZONES)
        self._loading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by zones being read
        self._policies = PolicyCache()
        self._ids_by_slug: BoundedCache[str] = BoundedCache(cache_sizes.ZONES)
        self._ids_by_issuer: BoundedCache[str] = BoundedCache(cache_sizes.ZONES)
        self._watching: asyncio.Task[None] | None = None

    def cached(self, zone_id: str) -> CachedZone | None:
        """The cached zone without revalidation: the caller compares its epoch. None when it is not cached.

        As every look-up, it gives the zone as it answers at the address that the present request was sent to.
        """
        zone = self._cached(zone_id)
        if zone is None or not zone.former:
            return zone
        try:
            return _as_asked(zone)
        except NotFound:  # that address has ended: whoever asks for the zone is told so
            return None

    async def get(self, zone_id: str) -> CachedZone:
        """The zone, revalidated by its epoch. Raises NotFound."""
        cached = self._cached(zone_id)
        if cached is not None:
            names = epochs.zone_key(zone_id), epochs.denials_key(zone_id)
            (epoch, denials), _ = await self._epochs.latest(names)
            if cached.is_as_new_as(epoch, denials):
                cached.checked_at = self._epochs.read_at  # that reading vouches for it, and may be older
                return _as_asked(cached)
        return await self.refresh(zone_id)

    async def recent(self, zone_id: str) -> CachedZone:
        """The zone, at most a second old; a minute while epochs are unavailable. Raises NotFound.

        For public documents, which clients cache for minutes.
        """
        cached = self._cached(zone_id)
        age = monotonic() - cached.checked_at if cached is not None else inf
        if cached is not None and age < RECENT_SECONDS:
            return _as_asked(cached)
        try:
            return await self.get(zone_id)
        except Unavailable:
            if cached is not None and age < _AWAY_SECONDS:
                return _as_asked(cached)
            raise

    def changed(self, zone_id: str, epoch: int | None, tags: Collection[str] | None) -> None:
        """Follow a change that this process has just committed, or revalidate the zone on the next access.

        Args:
            epoch: that the change made; None for one that leaves it.
            tags: that it changes; None for everything.
        """
        held = self._zones.get(zone_id)
        if held is None:
            return
        history = held.history
        if tags is None or held.epoch != history.epoch or epoch != history.epoch + 1:
            held.checked_at = -inf
            return
        history.add(epoch, tags)
        self._zones[zone_id] = held.later()

    async def refresh(self, zone_id: str) -> CachedZone:
        """The zone as the database has it: read again as far as its epoch tells. Raises NotFound.

        Those who ask while another one reads are answered by one reading, which begins afterwards.
        """
        return _as_asked(await self._refreshed(zone_id))

    async def _refreshed(self, zone_id: str) -> CachedZone:
        await self._epochs.begin()
        waits_since = monotonic()
        async with self._loading.setdefault(zone_id, asyncio.Lock()):
            if (zone := self._cached(zone_id)) is not None and zone.checked_at >= waits_since:
                return zone
            asked_at = monotonic()
            zone = await self._data_keys.with_loaded(lambda: self._reread(zone_id))
            if zone is None:
                self._data_keys.forget(zone_id)
                raise NotFound(f"there is no zone `{zone_id}`")
            zone.checked_at = asked_at
        read = {epochs.zone_key(zone_id): zone.epoch, epochs.denials_key(zone_id): zone.denied.count}
        await self._epochs.remember(read)
        return zone

    async def _reread(self, zone_id: str) -> CachedZone | None:
        """The zone as the database has it; None when there is none. Raises DataKeyNotLoaded."""
        generation = self._epochs.generation
        async with self._database.reading() as conn:
            found = await storage.zone_epochs(conn, zone_id)
            history = await self._followed(conn, zone_id, found)
            zone = self._cached(zone_id)
            if zone is None or found is None or history is None:
                zone = await self._load(conn, zone_id, generation, history)
            elif zone.epoch != history.epoch:
                zone = self._zones[zone_id] = zone.later()
            if zone is not None and found is not None:
                await zone.denied.read(conn, zone_id, found[1], now=self._clock())
        return zone

    def start(self) -> None:
        """Look for deleted zones from now on, in the background."""
        self._watching = asyncio.create_task(self._watch(), name="deleted zones")

    async def stop(self) -> None:
        """End that."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
            self._watching = None
        self._policies.close()

    async def drop_deleted(self) -> None:
        """Keep nothing of zones that were deleted, nor of those that would have to be read again anyway.

        A zone that nobody asks for any more would stay in memory with its keys.
        """
        held = list(self._zones.values())
        for zone in held:
            if not zone.is_followed():
                self._data_keys.forget(zone.id)
        moved = [
            zone for zone in held if self._epochs.has_moved(epochs.zone_key(zone.id), zone.confirmed_epoch)
        ]
        if not moved:
            return
        async with self._database.querying() as conn:
            for zone in moved:
                if (found := await storage.zone_epochs(conn, zone.id)) is None:
                    self._data_keys.forget(zone.id)
                else:
                    zone.confirmed_epoch = found[0]

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            with suppress(Unavailable, DBAPIError, OSError):  # which other work tells of
                if self._zones:
                    await self._epochs.observe()
                    await self.drop_deleted()

    def forget(self, zone_id: str) -> None:
        """Keep nothing of a zone that is gone, or whose data key may not be used any more."""
        if (gone := self._zones.pop(zone_id, None)) is not None:
            self._ids_by_slug.pop(gone.entity.slug, None)
        self._parsed_keys.pop(zone_id, None)

    async def uncached(self, zone_id: str, *, is_tried: bool = False) -> CachedZone:
        """The zone read from the database for one request, and not cached.

        Args:
            is_tried: it is that of a dry run, whose policies are not cached either.
        Raises: NotFound.
        """
        await self._epochs.begin()
        policies = self._policies.apart() if is_tried else None

        async def read() -> CachedZone | None:
            async with self._database.reading() as conn:
                return await self._read(conn, zone_id, self._epochs.generation, policies=policies)

        zone = await self._data_keys.with_loaded(read)
        if zone is None:
            raise NotFound(f"there is no zone `{zone_id}`")
        zone.is_uncached = True
        return _as_asked(zone)

    async def locate(self, slug: str, sent_to: SentTo) -> str:
        """The id of the zone with that slug in its issuer URL, now or before a move. Raises NotFound."""
        settings = self._settings
        issuer = settings.zone_url_template.format(public_url=settings.public_url, zone_id="", slug=slug)
        path = urlsplit(issuer).path
        if not sent_to.is_at(issuer):  # a former address comes before whoever has the slug here
            with suppress(NotFound):
                return await self.find_at(sent_to, path)
        try:
            return await self._with_slug(slug, issuer)
        except NotFound:
            return await self.find_at(sent_to, path)

    async def _with_slug(self, slug: str, issuer: str) -> str:
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
            raise NotFound(
                f"no zone has the id or slug `{id_or_slug}`; a slug is made of the zone's `name`, not of its"
                " manifest's"
            )
        if len(found) > 1:
            raise NotFound(
                f"{len(found)} zones have the slug `{id_or_slug}`: name one by its id, {', '.join(found)}"
            )
        return found[0]

    async def find_at(self, sent_to: SentTo, path: str) -> str:
        """The id of the zone that has, or had, an issuer of that origin and path. Raises NotFound.

        An issuer is of one zone for ever; whether it is still answered there, the zone tells.
        """
        schemes = (sent_to.scheme,) if sent_to.scheme else ("https", "http")
        issuers = [sent_to.issuer(scheme, path) for scheme in schemes]
        for issuer in issuers:
            if (held := self._ids_by_issuer.get(issuer)) is not None:
                return held
        async with self._database.querying() as conn:
            for issuer in issuers:
                found = await names.zone_of_issuer(conn, issuer)
                if found is not None and await storage.zone_epochs(conn, found) is not None:
                    self._ids_by_issuer[issuer] = found
                    return found
        raise NotFound("there is no such zone")

    def tenant_of(self, partition: str) -> str:
        """Whose a share of outbound requests is: the organization of the zone that it names first, if known.

        What strangers ask for is apart, as in the name of the share: they hold up nothing else.
        """
        if (named := _IDS.search(partition)) is None:
            return partition
        zone = self._zones.get(named[0])
        return partition[: named.start()] + (named[0] if zone is None else zone.organization_id)

    def _cached(self, zone_id: str) -> CachedZone | None:
        zone = self._zones.get(zone_id)
        return zone if zone and self._is_current(zone) else None

    def _is_current(self, zone: CachedZone) -> bool:
        is_due = zone.valid_until is not None and zone.valid_until <= self._clock()
        return zone.is_followed() and not is_due and zone.data_key.is_usable()

    async def _followed(
        self, conn: AsyncConnection, zone_id: str, found: tuple[int, int] | None
    ) -> ChangeHistory | None:
        """The history of the cached zone, brought up to the epoch that was found; None when that cannot be:
        somebody has written who did not say what, or the epoch went back with its database.
        """
        held = self._zones.get(zone_id)
        if held is None or found is None or held.has_missed_changes():
            return None
        history, known, epoch = held.history, held.history.epoch, found[0]
        if not 0 <= epoch - known <= _MOST_CHANGES:
            return None
        if epoch > known:
            changes = await zone_changes.between(conn, zone_id, known, epoch)
            if len(changes) != epoch - known:
                return None
            for at, tags in changes:
                if at > history.epoch:  # this process may have committed one meanwhile
                    history.add(at, tags)
        return history

    async def _load(
        self, conn: AsyncConnection, zone_id: str, generation: int, history: ChangeHistory | None
    ) -> CachedZone | None:
        """The zone read from the database, and cached; None when there is none."""
        zone = await self._read(conn, zone_id, generation, history)
        if zone is not None:
            self._zones[zone_id] = zone
        return zone

    def _denied(self, zone_id: str, count: int) -> DeniedTokens:
        """What is known of the zone's revoked tokens, for one who has to have that many.

        What others go by is not brought up to date here: they may have seen a later state of the database.
        """
        held = self._zones.get(zone_id)
        if held is None or not held.is_followed():
            return DeniedTokens()
        return held.denied if held.denied.count == count else held.denied.copy()

    async def _read(
        self,
        conn: AsyncConnection,
        zone_id: str,
        generation: int,
        history: ChangeHistory | None = None,
        policies: PolicyCache | None = None,
    ) -> CachedZone | None:
        found = await storage.zone(conn, zone_id)
        if found is None:
            return None
        zone, internals = found
        stored = await storage.keys(conn, zone_id)
        former = await zone_addresses.former(conn, zone_id)
        data_key = self._data_keys.opened(zone_id, internals.data_key_wrapped)
        if policies is None:
            parsed = self._parsed_keys.setdefault(zone.id, {})
        else:  # of a dry run, which leaves nothing behind
            parsed = dict(self._parsed_keys.get(zone.id) or {})
        now = self._clock()
        ring = await zone_keys.open_ring(stored, data_key.sealer, parsed, now)
        answered = [each for each in former if each.is_answered(now)]
        ends = [each.ends_at for each in answered if each.ends_at is not None]
        ring = ring.until(min(ends, default=None))
        denied = self._denied(zone_id, internals.denials)
        await denied.read(conn, zone_id, internals.denials, now=now)
        if history is not None and history.epoch != internals.epoch:
            history = None  # somebody has written meanwhile
        return CachedZone(
            self._database,
            self._epochs,
            policies or self._policies,
            zone,
            internals,
            data_key,
            ring,
            denied,
            generation,
            history,
            former,
            frozenset(each.issuer for each in answered),
        )


def _as_asked(zone: CachedZone) -> CachedZone:
    """The zone as it answers at the address that the present request was sent to. Raises NotFound."""
    asked = ASKED.get()
    if not zone.former or asked is None or asked.zone_id != zone.id:
        return zone
    issuer = chosen(zone.issuer, zone.former, asked.sent_to)
    asked.former = None if issuer == zone.issuer else issuer
    return zone.at(issuer)

"""The unwrapped data keys of zones in this process, each for as long as its key-encryption key may be used.

A key of this machine opens them whenever a zone is read. A key-management service is asked when a zone is
first used, and again every few minutes while it is: once the service refuses, the zone's data key is dropped
with everything that was opened with it, and the zone answers 503. A service that cannot be reached decides
nothing: the data key is held for a while longer. Nobody waits for such a service inside a transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import TypeVar
from weakref import WeakValueDictionary

from runtime import metrics
from runtime.adapters.keys.key_encryption import KeyEncryption
from runtime.adapters.keys.sealing import SealBroken, Sealer
from runtime.adapters.keys.wrapping import Binding, KeyRefused, KeyUnreachable, WrappedKey
from runtime.domain.errors import Unavailable
from runtime.logs import log, throttled_warnings
from runtime.services import cache_sizes
from runtime.services.bounded_cache import BoundedCache
from runtime.settings import Settings
from runtime.storage.sql import wrapped_keys as storage
from runtime.storage.sql.database import Database

_NO_KEY = "none"  # in place of the name of a key: what is stored under it is opened by none
T = TypeVar("T")

# How long a service is left alone after it could not be reached, and one zone's key after a refusal.
UNREACHABLE_SECONDS, REFUSED_SECONDS = 5.0, 10.0
_AT_ONCE = 8  # checks at a time
_ROUNDS_A_CHECK = 10
_TRIES = 3  # of a reading during which keys are replaced


class DataKeyUnavailable(Unavailable):
    """A zone's data key cannot be unwrapped now, so nothing of the zone can be read."""


class DataKeyNotLoaded(DataKeyUnavailable):
    """A key-management service has to be asked first, outside of the transaction.

    Attributes:
        zone_id, stored: for `DataKeys.load`.
    """

    def __init__(self, zone_id: str, stored: bytes) -> None:
        super().__init__("the encryption key of this zone is being loaded: try again")
        self.zone_id, self.stored = zone_id, stored


@dataclass(slots=True, weakref_slot=True)
class HeldKey:
    """A zone's data key, unwrapped.

    Attributes:
        stored: as it is wrapped, in the database.
        checked_at: when its service has unwrapped it the last time, on the monotonic clock.
        usable_until: the end of its use, unless it is checked again before.
        is_used: since it was checked.
    """

    zone_id: str
    stored: bytes = field(repr=False)
    sealer: Sealer
    checked_at: float = -inf
    usable_until: float = inf
    is_used: bool = True

    def is_usable(self) -> bool:
        """Tell whether it may be used, and note that it is."""
        self.is_used = True
        return self.usable_until == inf or monotonic() < self.usable_until


@dataclass(frozen=True, slots=True)
class _Failure:
    until: float
    error: Exception
    stored: bytes = field(default=b"", repr=False)


class DataKeys:
    """Opens the data keys of zones, and holds those that a key-management service has unwrapped."""

    def __init__(self, key_encryption: KeyEncryption, settings: Settings) -> None:
        self._key_encryption = key_encryption
        self._check_seconds = float(settings.encryption_key_check_seconds)
        self._grace_seconds = float(settings.encryption_key_grace_seconds)
        self._held: BoundedCache[HeldKey] = BoundedCache(cache_sizes.DATA_KEYS)
        self._tried: WeakValueDictionary[str, HeldKey] = WeakValueDictionary()  # of dry runs under way
        self._refused: BoundedCache[_Failure] = BoundedCache(cache_sizes.DATA_KEYS)  # by zone
        self._unreachable: BoundedCache[_Failure] = BoundedCache(cache_sizes.DATA_KEYS)  # by key
        self._loading: dict[str, asyncio.Task[HeldKey]] = {}
        self._checking: asyncio.Task[None] | None = None
        self.on_end: Callable[[str], None] = lambda zone_id: None

    # --- use

    def opened(self, zone_id: str, stored: bytes) -> HeldKey:
        """A zone's data key, without waiting for anything. Raises DataKeyNotLoaded, SealBroken."""
        data_key = self._key_encryption.opened(stored, binding_of(zone_id))
        if data_key is not None:
            return HeldKey(zone_id, stored, Sealer(data_key))
        held = self._held.get(zone_id) or self._tried.get(zone_id)
        if held is None or held.stored != stored or not held.is_usable():
            raise DataKeyNotLoaded(zone_id, stored)
        return held

    async def load(self, zone_id: str, stored: bytes) -> HeldKey:
        """A zone's data key, unwrapped by its service where it is not held. Raises DataKeyUnavailable.

        Those who want the same one wait for one answer.
        """
        with suppress(DataKeyNotLoaded):
            return self.opened(zone_id, stored)
        if (task := self._loading.get(zone_id)) is None:
            task = self._loading[zone_id] = asyncio.create_task(self._load(zone_id, stored))
            task.add_done_callback(lambda _: self._loading.pop(zone_id, None))
        held = await asyncio.shield(task)
        return held if held.stored == stored else await self._load(zone_id, stored)

    async def with_loaded(self, work: Callable[[], Awaitable[T]]) -> T:
        """What *work* returns; it is run again after a data key was loaded that it lacked.

        Raises: DataKeyUnavailable.
        """
        for _ in range(_TRIES):
            try:
                return await work()
            except DataKeyNotLoaded as missing:
                await self.load(missing.zone_id, missing.stored)
        return await work()

    async def preload(self, database: Database, zone_ids: Collection[str]) -> None:
        """Load the data keys of zones before a transaction begins that may need them; none where that fails.

        What needs one that is not there is refused then.
        """
        if not self._key_encryption.waits or not zone_ids:
            return
        async with database.querying() as conn:
            found = await storage.of_zones(conn, zone_ids)
        await asyncio.gather(
            *(self.load(zone_id, stored) for zone_id, stored in found.items()), return_exceptions=True
        )

    def hold(self, zone_id: str, stored: bytes, data_key: bytes) -> Sealer:
        """Hold the data key of a zone that is being made; its sealer."""
        sealer = Sealer(data_key)
        if self._key_encryption.opened(stored, binding_of(zone_id)) is None:
            self._held[zone_id] = self._fresh(zone_id, stored, sealer)
        return sealer

    def hold_for_trial(self, zone_id: str, data_key: bytes) -> HeldKey:
        """Hold the data key of a zone that comes to nothing, for as long as somebody has what is returned.

        So what is tried puts no data key of anybody else out of the cache.
        """
        stored = WrappedKey(_NO_KEY, zone_id.encode()).stored
        held = self._tried[zone_id] = HeldKey(zone_id, stored, Sealer(data_key))
        return held

    def forget(self, zone_id: str) -> None:
        """Hold the data key of a zone no longer: the zone is gone, or its key may not be used."""
        held = self._held.pop(zone_id, None)
        if held is not None:
            held.usable_until = -inf
        self._refused.pop(zone_id, None)
        self.on_end(zone_id)

    async def _load(self, zone_id: str, stored: bytes) -> HeldKey:
        known = self._held.get(zone_id)
        if known is not None and known.stored != stored:
            known = None
        try:
            data_key = await self._unwrapped(zone_id, stored)
        except KeyUnreachable as failure:
            if known is not None and self._extend(known):
                return known
            raise _unavailable(zone_id, failure) from failure
        except (KeyRefused, SealBroken) as failure:
            throttled_warnings.warn(
                "the encryption key of a zone is refused: the zone answers 503",
                reason=str(failure),
                about=zone_id,
                zone_id=zone_id,
            )
            raise _unavailable(zone_id, failure) from failure
        held = self._held[zone_id] = self._fresh(zone_id, stored, Sealer(data_key))
        return held

    async def _unwrapped(self, zone_id: str, stored: bytes) -> bytes:
        """What the key's service answers; or what it answered a moment ago, where that was no key."""
        refused = self._refused.get(zone_id)
        if refused is not None and refused.stored == stored and monotonic() < refused.until:
            raise refused.error
        name = WrappedKey.read(stored).key
        if (failure := self._unreachable.get(name)) is not None and monotonic() < failure.until:
            raise failure.error
        try:
            data_key = await self._key_encryption.unwrap(stored, binding_of(zone_id))
        except KeyUnreachable as error:
            self._unreachable[name] = _Failure(monotonic() + UNREACHABLE_SECONDS, error)
            raise
        except (KeyRefused, SealBroken) as error:
            self.forget(zone_id)
            self._refused[zone_id] = _Failure(monotonic() + REFUSED_SECONDS, error, stored)
            raise
        self._unreachable.pop(name, None)
        return data_key

    def _fresh(self, zone_id: str, stored: bytes, sealer: Sealer) -> HeldKey:
        now = monotonic()
        return HeldKey(zone_id, stored, sealer, now, now + 2 * self._check_seconds, is_used=True)

    def _extend(self, held: HeldKey) -> bool:
        """Hold a data key longer that cannot be checked; False once its grace is over."""
        held.usable_until = held.checked_at + self._check_seconds + self._grace_seconds
        return monotonic() < held.usable_until

    # --- in the background

    def start(self) -> None:
        """Check what is held from now on, in the background."""
        if self._key_encryption.waits:
            self._checking = asyncio.create_task(self._run(), name="data keys")

    async def stop(self) -> None:
        """End the checks."""
        if self._checking is not None:
            self._checking.cancel()
            with suppress(asyncio.CancelledError):
                await self._checking
            self._checking = None

    async def check(self) -> None:
        """Ask for each key that is due whether it may be used. One that nobody has used since is dropped."""
        due = monotonic() - self._check_seconds
        waiting = [held for held in self._held.values() if held.checked_at <= due]
        for held in [each for each in waiting if not each.is_used]:
            self.forget(held.zone_id)
        used = [each for each in waiting if each.is_used]
        for first in range(0, len(used), _AT_ONCE):
            await asyncio.gather(*(self._check(held) for held in used[first : first + _AT_ONCE]))
        self._measure()

    async def _check(self, held: HeldKey) -> None:
        try:
            await self._unwrapped(held.zone_id, held.stored)
        except KeyUnreachable as failure:
            throttled_warnings.warn(
                "an encryption key cannot be checked: it is used for a while longer", reason=str(failure)
            )
            if not self._extend(held):
                self.forget(held.zone_id)
        except (KeyRefused, SealBroken) as failure:
            log.warning(
                "an encryption key is refused: its zone is no longer served",
                zone_id=held.zone_id,
                reason=str(failure),
            )
        else:
            now = monotonic()
            held.checked_at, held.usable_until, held.is_used = now, now + 2 * self._check_seconds, False

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._check_seconds / _ROUNDS_A_CHECK)
            await self.check()

    def _measure(self) -> None:
        overdue = monotonic() - 1.5 * self._check_seconds
        held = list(self._held.values())
        unreachable = sum(each.checked_at < overdue for each in held)
        states: Mapping[str, int] = {"held": len(held) - unreachable, "unreachable": unreachable}
        for state, number in states.items():
            metrics.DATA_KEYS.labels(state).set(number)


def binding_of(zone_id: str) -> Binding:
    """What the data key of a zone is bound to."""
    return Binding(f"zone_internals/{zone_id}/data_key_wrapped", {"zone": zone_id})


def binding_of_secret(name: str) -> Binding:
    """What a secret is bound to that all processes of the service share."""
    return Binding(f"service_secrets/{name}", {"service_secret": name})


def _unavailable(zone_id: str, failure: Exception) -> DataKeyUnavailable:
    return DataKeyUnavailable(
        "the encryption key of this zone is not available", internal=f"zone {zone_id}: {failure}"
    )

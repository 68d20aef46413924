"""Revalidation by epochs: are the cached zone, session and user current? One read of short-lived state.

A request may begin on the zone as this process knows it. When the round trip finds that something newer was
published, nothing that was concluded counts, a refusal included, and the request is worked on once more.

In a zone that is written to all the time there is always something newer. Such a request then reads all that
it needs at one instant after it came: the answer was right then, whatever is written meanwhile.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from runtime.domain.errors import OAuthError, TemporarilyUnavailable
from runtime.logs import throttled_warnings
from runtime.services import epochs
from runtime.services.authority.subject_tokens import refused
from runtime.services.container import Services
from runtime.services.zones import CachedZone, SessionRoot
from runtime.storage.sql import session_roots

T = TypeVar("T")

_ATTEMPTS = 3  # on what requests share, before one reads all of it for itself


class StaleZone(Exception):
    """What was concluded does not count: the zone has changed since it was cached, or time has passed."""


class CachedRoot(NamedTuple):
    """The root of a chain before the round trip; None where an application acts on its own behalf.

    Attributes:
        is_fresh: it comes from the database just now.
    """

    root: SessionRoot | None
    is_fresh: bool


async def cached_root(zone: CachedZone, session_id: str | None) -> CachedRoot:
    """The root that stands behind a session. Raises InvalidGrant when that is gone."""
    if session_id is None:
        return CachedRoot(None, is_fresh=False)
    held = zone.session_roots.cached(session_id)
    if held is not None:
        return CachedRoot(held, is_fresh=False)
    found = await zone.session_roots.read(session_id)
    if found is None:
        raise refused("the session no longer exists")
    return CachedRoot(found, is_fresh=True)


async def revalidate(
    services: Services, zone: CachedZone, cached: CachedRoot, *, key: str | None = None
) -> tuple[SessionRoot | None, bytes | None]:
    """The root as it stands now, and what is kept under *key*; asks the database where an epoch is unknown.

    Afterwards the cached zone has every denial that was published before. Raises: StaleZone; Unavailable when
    neither the short-lived state nor the database can tell.
    """
    root = cached.root
    names = zone.epoch_names if root is None else zone.epoch_names + root.epoch_names
    published, kept = await services.epochs.latest(names, also=key)
    if zone.is_uncached:
        return root, kept
    zone_epoch, denials = published[:2]
    if not zone.is_followed() or zone_epoch is None or denials is None or denials > zone.denied.count:
        if await services.zones.refresh(zone.id) is not zone:
            raise StaleZone
    elif zone_epoch > zone.epoch:
        raise StaleZone
    if root is not None:
        root = await _standing(services, zone, root, published[2:4], is_fresh=cached.is_fresh)
    return root, kept


async def _standing(
    services: Services, zone: CachedZone, root: SessionRoot, published: list[int | None], *, is_fresh: bool
) -> SessionRoot | None:
    """The root as it stands: the one at hand when nothing newer was published; None when it is gone."""
    session_epoch, user_epoch = published
    current = root
    if session_epoch is None or user_epoch is None:
        if not is_fresh:
            async with services.database.querying() as conn:
                stored = await session_roots.root_epochs(
                    conn, zone.id, root.session.id, root.principal.user.id
                )
            is_fresh = stored == root.epochs
    elif session_epoch <= root.session.epoch and user_epoch <= root.principal.user.epoch:
        return root
    else:
        is_fresh = False
    if not is_fresh:
        found = await zone.session_roots.read(root.session.id)
        if found is None:
            return None
        current = found
    read = {
        epochs.session_key(current.session.id): current.session.epoch,
        epochs.user_key(current.principal.user.id): current.principal.user.epoch,
    }
    await services.epochs.remember(read)
    return current


async def catch_up(services: Services, stale: CachedZone) -> None:
    """Read a zone that has changed, unless somebody has already. Raises NotFound when it is gone."""
    if services.zones.cached(stale.id) is stale:
        await services.zones.refresh(stale.id)


async def on_current_zone(
    services: Services, zone_id: str, attempt: Callable[[CachedZone], Awaitable[T]], *, may_repeat: bool
) -> T:
    """What *attempt* makes of the zone as it stands.

    Args:
        attempt: raises StaleZone when it has found out that the zone has changed.
        may_repeat: the request may be worked on more than once, so it may begin on the zone as it is known
            here. A refusal that was concluded from a zone that has changed since does not count either. Where
            it may not be, *attempt* does not ask whether the zone has changed.
    Raises: what *attempt* raises; TemporarilyUnavailable; NotFound for an unknown zone.
    """
    if not may_repeat:
        return await attempt(await services.zones.get(zone_id))
    for _ in range(_ATTEMPTS):
        held = services.zones.cached(zone_id)
        zone = held or await services.zones.get(zone_id)
        try:
            return await attempt(zone)
        except StaleZone:
            await catch_up(services, zone)
        except OAuthError:
            if held is None or await services.zones.get(zone_id) is zone:
                raise
    return await _at_one_instant(services, zone_id, attempt)


async def _at_one_instant(
    services: Services, zone_id: str, attempt: Callable[[CachedZone], Awaitable[T]]
) -> T:
    """What *attempt* makes of the zone as the database has it at one instant, after what was published."""
    (published, _), _ = await services.epochs.latest((epochs.zone_key(zone_id), epochs.denials_key(zone_id)))
    async with services.database.at_one_instant():
        zone = await services.zones.uncached(zone_id)
        if published is None or published <= zone.epoch:
            try:
                return await attempt(zone)
            except StaleZone:
                raise TemporarilyUnavailable("what the request depends on has just changed") from None
    reason = f"the published epoch of zone {zone_id} is ahead of the database; it expires within a minute"
    throttled_warnings.warn("not available", reason=reason)
    raise TemporarilyUnavailable(
        "please try again shortly", internal="the published epoch is ahead of the database"
    )

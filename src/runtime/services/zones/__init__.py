"""Zones as the OAuth endpoints see them: read when needed, cached until the zone's epoch changes.

A cached zone holds only what somebody asked for, so a zone with a hundred thousand entities costs no more
than one with ten. A management write bumps the zone's epoch and says what it is about; the next look at the
zone then makes a new view of it, which shares all of the caches that this is not about (`tagged_cache`).
Nothing that is missing is remembered, so what is new is seen at once wherever it was asked for before.
"""

from runtime.services.zones.asked_address import ASKED, AskedAddress
from runtime.services.zones.cached_zone import CachedZone, ZoneCache
from runtime.services.zones.policies import Policies
from runtime.services.zones.principals import SessionRoot
from runtime.services.zones.registry import ZoneRegistry
from runtime.services.zones.tagged_cache import ChangeHistory, Tagged, TaggedCache, collect, collecting

__all__ = [
    "ASKED",
    "AskedAddress",
    "CachedZone",
    "ChangeHistory",
    "Policies",
    "SessionRoot",
    "Tagged",
    "TaggedCache",
    "ZoneCache",
    "ZoneRegistry",
    "collect",
    "collecting",
]

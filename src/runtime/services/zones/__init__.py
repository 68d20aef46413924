"""Zones as the OAuth endpoints see them: read when needed, cached until the zone's epoch changes.

A cached zone holds only what somebody asked for, so a zone with a hundred thousand entities costs no more
than one with ten. A management write bumps the zone's epoch; the next look at it then starts a new one.
Nothing that is missing is remembered, so what is new is seen at once wherever it was asked for before.
"""

from runtime.services.zones.cached_zone import CachedZone, ZoneCache
from runtime.services.zones.policies import Policies
from runtime.services.zones.principals import SessionRoot
from runtime.services.zones.registry import ZoneRegistry

__all__ = ["CachedZone", "Policies", "SessionRoot", "ZoneCache", "ZoneRegistry"]

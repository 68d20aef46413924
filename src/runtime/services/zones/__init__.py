"""What the zone endpoints know about a zone: a view of it, made once an epoch and filled as it is asked.

A view holds only what somebody asked for, so a zone with a hundred thousand entities costs no more than
one with ten. A management write bumps the zone's epoch; the next look at the zone then starts a new view.
Nothing that is missing is remembered, so what is new is seen at once wherever it was asked for before.
"""

from runtime.services.zones.people import SessionRoot
from runtime.services.zones.policies import Policies
from runtime.services.zones.view import ZoneView
from runtime.services.zones.views import Zones

__all__ = ["Policies", "SessionRoot", "ZoneView", "Zones"]

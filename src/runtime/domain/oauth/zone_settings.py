"""Settings of one zone that operators set with `zoned zone set`; the management API has no member for them.

A zone without any has the defaults.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class ZoneSettings(BaseModel):
    """The settings of a zone, each with its default.

    Attributes:
        grant_missing_error: the error for an application that the user has not authorized yet; some clients
            wait for `insufficient_authorization`. Spec: zone interface, section 5.
        require_dpop_nonce: accept only DPoP proofs with a nonce of this server, so that none can be made
            ahead of time. Spec: RFC 9449 section 8.
        require_active_accountable: end applications whose accountable user is not an active user of the zone,
            or whose accountable group has no active member. Applications without either are not concerned.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    grant_missing_error: Literal["access_denied", "insufficient_authorization"] = "access_denied"
    require_dpop_nonce: bool = False
    require_active_accountable: bool = False


DEFAULTS = ZoneSettings()

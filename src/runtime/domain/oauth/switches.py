"""How a zone departs from the usual, where the management API has no member for it.

Operators set these with `zoned zone set`; a zone without any has the defaults.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Switches(BaseModel):
    """The switches of a zone.

    Attributes:
        strict_assertion_audience: take client assertions for the issuer alone, as the successor of RFC 7523
            has it; else for the token endpoint too, which widespread clients write.
        grant_missing_error: what an application hears that the user has not authorized yet; some clients
            wait for `insufficient_authorization`. Spec: zone interface, section 5.
        require_dpop_nonce: take only proofs of possession that carry a nonce of ours, so that none can be
            made ahead of time. Spec: RFC 9449 section 8.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    strict_assertion_audience: bool = False
    grant_missing_error: Literal["access_denied", "insufficient_authorization"] = "access_denied"
    require_dpop_nonce: bool = False


DEFAULTS = Switches()

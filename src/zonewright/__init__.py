"""For resource servers and agents of a zone: verify its access tokens, exchange them for the next resource.

Installed with `pip install zonewright[verify]`. `Verifier` checks tokens; `zonewright.asgi`,
`zonewright.sanic`, `zonewright.mcp` and `zonewright.fastmcp` put it into a server; `ExchangeClient` exchanges
a request's token.
"""

from zonewright.access_token import AccessToken, ChainActor
from zonewright.dpop import InProcessReplayCache, ReplayCache
from zonewright.errors import (
    DpopRefused,
    ExchangeRefused,
    MissingToken,
    RequestMalformed,
    RequestRefused,
    ScopeRequired,
    TokenRefused,
    UserAuthorizationRequired,
    ZoneMisconfigured,
    ZoneUnreachable,
    ZonewrightError,
)
from zonewright.exchange import ExchangeClient, ExchangedToken
from zonewright.verifier import Verifier

__all__ = [
    "AccessToken",
    "ChainActor",
    "DpopRefused",
    "ExchangeClient",
    "ExchangeRefused",
    "ExchangedToken",
    "InProcessReplayCache",
    "MissingToken",
    "ReplayCache",
    "RequestMalformed",
    "RequestRefused",
    "ScopeRequired",
    "TokenRefused",
    "UserAuthorizationRequired",
    "Verifier",
    "ZoneMisconfigured",
    "ZoneUnreachable",
    "ZonewrightError",
]

"""For servers on the public MCP library: its token verifier, and the error that shows a connect link.

    server = MCPServer("Notes", token_verifier=McpTokens(verifier), auth=AuthSettings(...))

A tool that exchanges the request's token raises `connect_required(error)` where the user has to connect
first: the client then shows the link (URL elicitation, MCP 2025-11-25). With `zonewright.asgi.RetryLater`
around the server's ASGI application, requests are answered 503 while the zone cannot be reached.
"""

from uuid import uuid4

from mcp.server.auth.provider import AccessToken as McpAccessToken
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types import ElicitRequestURLParams

from zonewright.errors import RequestRefused, UserAuthorizationRequired
from zonewright.verifier import Verifier


class McpTokens:
    """The MCP library's `TokenVerifier`. It is given no proof, so tokens bound to a key are refused."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier

    async def verify_token(self, token: str) -> McpAccessToken | None:
        """The token as the library knows it; None when it is refused. Raises ZoneUnreachable."""
        try:
            verified = await self._verifier.verify(token)
        except RequestRefused:
            return None
        return McpAccessToken(
            token=token,
            client_id=verified.client_id,
            scopes=sorted(verified.scopes),
            expires_at=verified.expires_at,
            resource=verified.audience,
            subject=verified.subject,
            claims=dict(verified.claims),
        )


def connect_required(refused: UserAuthorizationRequired) -> UrlElicitationRequiredError:
    """What a tool raises so that the client shows the connect link to its user.

    The link is in the data of the error alone: servers log messages. A server on FastMCP needs
    `zonewright.fastmcp.ConnectLinks` besides.
    """
    asked = ElicitRequestURLParams(
        mode="url", message=refused.description, url=refused.error_uri, elicitation_id=str(uuid4())
    )
    return UrlElicitationRequiredError([asked], refused.description)

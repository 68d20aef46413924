"""For servers on FastMCP: connect links reach the client.

    server = FastMCP("Notes", middleware=[ConnectLinks()])
    app = ProtectedResource(server.http_app(path="/mcp"), verifier)

`zonewright.asgi.ProtectedResource` verifies the tokens, and `request_token()` is the one of a tool's request.
Where the user has to connect first, a tool raises `zonewright.mcp.connect_required(error)`.
"""

from typing import Any

from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_http_request
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp.shared.exceptions import UrlElicitationRequiredError

from zonewright.access_token import AccessToken
from zonewright.asgi import access_token


class ConnectLinks(Middleware):
    """Answers with the error that `connect_required` makes. FastMCP answers with a tool's error instead.

    The client would then find no link in it that it can show (URL elicitation, MCP 2025-11-25).
    """

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Call the tool. Raises UrlElicitationRequiredError."""
        try:
            return await call_next(context)
        except ToolError as error:
            if isinstance(error.__cause__, UrlElicitationRequiredError):
                raise error.__cause__ from None
            raise


def request_token() -> AccessToken:
    """The verified token of the request that calls the tool. Raises RuntimeError outside of one."""
    return access_token(get_http_request().scope)

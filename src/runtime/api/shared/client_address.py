"""The client's IP address, which rate limits count by and sessions record."""

from sanic.request import Request

from runtime.settings import Settings


def address_of(request: Request) -> str:
    """The sender's IP address: the connection's, or what the proxies that the settings count say it is.

    Only what the outermost of them wrote counts: further left in `X-Forwarded-For` the sender writes.
    """
    settings: Settings = request.app.ctx.settings
    return str(request.client_ip if settings.proxies else request.ip).strip("[]")

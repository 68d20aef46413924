"""The client's IP address, which rate limits count by and sessions record."""

from sanic.request import Request

from runtime.settings import Settings


def scheme_of(request: Request) -> str | None:
    """Whether the sender asked with `http` or `https`, as the proxies that the settings count say; or None.

    Nobody else can tell: TLS ends in front of this service.
    """
    settings: Settings = request.app.ctx.settings
    return str(request.forwarded["proto"]) if settings.proxies and "proto" in request.forwarded else None


def address_of(request: Request) -> str:
    """The sender's IP address: the connection's, or what the proxies that the settings count say it is.

    Only what the outermost of them wrote counts: further left in `X-Forwarded-For` the sender writes.
    """
    settings: Settings = request.app.ctx.settings
    return str(request.client_ip if settings.proxies else request.ip).strip("[]")

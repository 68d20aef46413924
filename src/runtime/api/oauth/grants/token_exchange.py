"""Token exchange. Spec: RFC 8693; zone interface, section 6."""

from typing import TYPE_CHECKING, Any

from runtime.domain.errors import UnauthorizedClient
from runtime.domain.oauth.exchange import read_request
from runtime.services.exchange import pipeline
from runtime.services.parties import require_application

if TYPE_CHECKING:
    from runtime.api.oauth.token import TokenContext


async def grant(context: "TokenContext") -> dict[str, Any]:
    """A token for one resource, on the authority of the subject token's user."""
    client = require_application(context.client)
    if client.is_public:
        raise UnauthorizedClient("a public client may not exchange tokens")
    request = read_request(context.form, context.resources, context.audiences)
    return await pipeline.exchange(
        context.parts,
        context.view,
        client,
        request,
        now=context.now,
        decision=context.decision,
        jkt=context.jkt,
    )

"""HTTP handlers of invitations by token: preview without authentication, acceptance by a signed-in user."""

from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.management.answering import send
from runtime.api.oauth.dpop_headers import presented_of
from runtime.api.shared.client_address import address_of
from runtime.api.shared.headers import header_of
from runtime.api.shared.request_ids import check_client_request_id, request_id_of
from runtime.contract.answers import part_answer
from runtime.services.management.members import acceptance


async def retrieve(request: Request, token: str) -> HTTPResponse:
    """What the invitation says."""
    check_client_request_id(request, uuid=False)
    found = await acceptance.preview(request.app.ctx.services, token, address=address_of(request))
    return send(part_answer(found))


async def accept(request: Request, token: str) -> HTTPResponse:
    """Accept, as the user whose token is sent, or as whoever reads the invited address."""
    check_client_request_id(request, uuid=False)
    services = request.app.ctx.services
    address = f"{services.settings.public_url}{request.path}"
    presented = presented_of(request, address)
    guest = await acceptance.guest_of(services, header_of(request, "authorization"), presented)
    done = await acceptance.accept(
        services, token, guest, address=address_of(request), request_id=request_id_of(request)
    )
    return send(part_answer(done))

"""The token endpoint for service accounts. Spec: RFC 6749 sections 2.3.1, 4.4 and 5."""

import orjson
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.errors import NO_STORE, as_oauth_error, oauth_error_response
from runtime.api.shared.client_address import address_of
from runtime.api.shared.headers import header_of
from runtime.api.shared.request_ids import request_id_of
from runtime.contract.answers import part_answer
from runtime.domain.errors import InvalidClient, InvalidRequest, ServiceError, UnsupportedGrantType
from runtime.domain.oauth.forms import read_form
from runtime.services.clients import basic_credentials
from runtime.services.management.organizations.service_accounts import issue_token


async def create_token(request: Request) -> HTTPResponse:
    """Exchange a service account's client id and secret, in the body or by HTTP Basic, for a bearer token."""
    try:
        client_id, secret, basic = _credentials(request)
        token = await issue_token(
            request.app.ctx.services,
            client_id,
            secret,
            address=address_of(request),
            request_id=request_id_of(request),
            basic=basic,
        )
    except ServiceError as refusal:
        return oauth_error_response(as_oauth_error(refusal, request_id_of(request)))
    return HTTPResponse(orjson.dumps(part_answer(token)), headers=NO_STORE, content_type="application/json")


def _credentials(request: Request) -> tuple[str, str, bool]:
    """The client id, its secret, and whether they came by HTTP Basic."""
    if request.query_string:
        raise InvalidRequest("send the parameters in the body, not in the query")
    form = read_form(request.body, request.headers.get("content-type")).values
    grant_type = form.get("grant_type")
    if grant_type is None:
        raise InvalidRequest("`grant_type` is required")
    if grant_type != "client_credentials":
        raise UnsupportedGrantType("only `client_credentials` is served here")
    authorization = header_of(request, "authorization")
    if authorization is None:
        client_id, secret = form.get("client_id"), form.get("client_secret")
        if client_id is None or secret is None:
            raise InvalidClient()
        return client_id, secret, False
    if "client_secret" in form:
        raise InvalidRequest("authenticate in one way only")
    readings = basic_credentials(authorization)
    if not readings or form.get("client_id", readings[0][0]) != readings[0][0]:
        raise InvalidClient(basic=True)
    return *readings[0], True

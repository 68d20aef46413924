"""The authorization endpoint. Spec: RFC 6749 section 4.1.1, RFC 9207, RFC 8707; OpenID Connect Core 3.1.2."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api import pages
from runtime.api.oauth.addresses import bind_zone_route
from runtime.api.oauth.browser import answering_pages, browser_of, follow
from runtime.api.oauth.forms import CONTENT_TYPE
from runtime.domain.errors import BadLink, OAuthError, TemporarilyUnavailable, Unavailable
from runtime.domain.kinds.user_agent import Registration
from runtime.services.parties import Client
from runtime.services.parts import Parts
from runtime.services.sign_in import beginnings, flow, pushed, requests
from runtime.services.sign_in.flow import Step
from runtime.services.sign_in.requests import Parameters, ReturnAddress
from runtime.services.zones import ZoneView

_MAX_BYTES = 64 * 1024
_FRAMES = ("iframe", "frame", "fencedframe", "embed", "object")  # Spec: Fetch Metadata, section 2.1


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the authorization endpoint of every zone."""
    bind_zone_route(app, authorize, "/oauth/authorize", methods=("GET", "POST"))


@answering_pages
async def authorize(request: Request, parts: Parts, view: ZoneView) -> HTTPResponse:
    """Begin a sign-in: a redirect that goes on or says what is wrong, a page when nobody can be answered.

    Anybody can register a client and send people to it by a request that is wrong on purpose. So a site that
    nobody here has checked is not gone to before its user has been asked.
    Spec: RFC 9700 section 4.11.2.
    """
    browser = browser_of(request, view)
    try:
        parameters = await pushed.unfold(parts, view, read_parameters(request))
        client, address = await requests.recognise(parts, view, parameters)
    except BadLink:
        await beginnings.admit(parts, view, "", browser.address)
        raise
    try:
        wanted = await requests.check(parts, view, parameters, client=client, address=address)
        step = await flow.begin(parts, view, wanted, browser)
    except OAuthError as failure:
        await beginnings.admit(parts, view, client.client_id, browser.address)
        return _refused(request, parts, view, client, address, failure)
    except Unavailable:
        return _refused(
            request, parts, view, client, address, TemporarilyUnavailable("please try again shortly")
        )
    return follow(step, parts, view)


def _refused(
    request: Request,
    parts: Parts,
    view: ZoneView,
    client: Client,
    address: ReturnAddress,
    refusal: OAuthError,
) -> HTTPResponse:
    """The refusal, told to the client, or to the person at the browser, who may go on to the client.

    In a frame there is nobody to tell it to, for no page of ours shows there, and nobody is led away by one.
    So a client that asks silently (`prompt=none`) gets its answer. Spec: OpenID Connect Core section 3.1.2.6.
    """
    site = urlsplit(address.redirect_uri)
    framed = request.headers.get("sec-fetch-dest") in _FRAMES
    if client.registration is Registration.MANAGED or site.scheme != "https" or framed:
        return follow(Step(address.refusal(refusal)), parts, view)
    onward = pages.Onward(client.name, site.netloc, address.refusal(refusal))
    return pages.error(view, refusal, onward=onward)


def read_parameters(request: Request) -> Parameters:
    """The parameters of the query, or of the form that came instead. Raises BadLink."""
    encoded = request.query_string
    if request.method == "POST":
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != CONTENT_TYPE:
            raise BadLink("the request is not a form")
        encoded = request.body.decode("utf-8", "replace")
    if len(encoded) > _MAX_BYTES:
        raise BadLink("the request is too long")
    try:
        pairs = parse_qsl(encoded, keep_blank_values=True, errors="strict", max_num_fields=200)
    except ValueError:
        raise BadLink("the request cannot be read") from None
    return Parameters(pairs)

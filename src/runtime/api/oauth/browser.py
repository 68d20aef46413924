"""Shared by the browser endpoints: cookies of one zone, the form's origin check, redirects of the login flow.

Two cookies: one for who is signed in, one for which browser started a sign-in. Each has the zone in its name
and the zone's path as its path, so that zones on one host stay apart.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from urllib.parse import urlsplit

from sanic.request import Request
from sanic.response import HTTPResponse, text

from runtime.api import pages
from runtime.api.oauth.errors import told_away
from runtime.api.oauth.zone_routes import ZoneHandler
from runtime.api.shared.client_address import address_of
from runtime.api.shared.request_ids import request_id_of
from runtime.domain.errors import (
    ForgedForm,
    InvalidRequest,
    NotFound,
    OAuthError,
    PageError,
    TooManyTries,
    Unavailable,
)
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.domain.oauth.forms import Form, read_form
from runtime.services.authority.browser_sessions import Browser
from runtime.services.authorization.interactions import INTERACTION_SECONDS
from runtime.services.authorization.next_step import NextStep
from runtime.services.container import Services
from runtime.services.decision_log import REFUSED, Decision, recorded_request
from runtime.services.zones import CachedZone

_FRAMES = ("iframe", "frame", "fencedframe", "embed", "object")  # Spec: Fetch Metadata, section 2.1
ViewHandler = Callable[[Request, Services, CachedZone], Awaitable[HTTPResponse]]


def answering_pages(handler: ViewHandler) -> ZoneHandler:
    """A handler of a zone's endpoint whose refusals are told to a person, on a page."""

    @wraps(handler)
    async def answer(request: Request, zone_id: str) -> HTTPResponse:
        services: Services = request.app.ctx.services
        try:
            zone = await services.zones.get(zone_id)
        except NotFound:
            return pages.nowhere()
        except Unavailable as failure:
            return _away(request, failure, None)
        decision = Decision(
            zone.organization_id,
            zone.id,
            services.clock(),
            request_id_of(request),
            event=_event_of(request),
            outcome=None,
        )
        try:
            with recorded_request(decision):
                return await _recorded(handler, request, services, zone, decision)
        except TooManyTries as refusal:
            return pages.error(zone, refusal, headers={"Retry-After": str(refusal.retry_after_seconds)})
        except InvalidRequest as refusal:
            return pages.error(zone, refusal, is_of_form=getattr(request.ctx, "has_own_form", False))
        except (PageError, OAuthError) as refusal:
            return pages.error(zone, refusal)
        except Unavailable as failure:
            return _away(request, failure, zone)

    return answer


def _event_of(request: Request) -> DecisionEvent:
    """What the page is called in records: the last part of its route, which no sender writes."""
    assert request.route is not None  # noqa: S101 - what answers a page was found by its route
    return DecisionEvent(request.route.path.rpartition("/")[2].replace("-", "_"))


async def _recorded(
    handler: ViewHandler, request: Request, services: Services, zone: CachedZone, decision: Decision
) -> HTTPResponse:
    """What a handler answers, once it is recorded what the request came to."""
    try:
        answer = await handler(request, services, zone)
    except (PageError, OAuthError) as refusal:
        decision.refuse(refusal)
        services.decisions.record_sampled(decision, address=address_of(request))
        raise
    if decision.outcome == REFUSED:
        services.decisions.record_sampled(decision, address=address_of(request))
    elif decision.is_made:
        services.decisions.record(decision)
    return answer


def _away(request: Request, failure: Unavailable, zone: CachedZone | None) -> HTTPResponse:
    """What it is that does not answer is for those who run the service."""
    told_away(request, failure)
    return pages.away(zone)


def browser_of(request: Request, zone: CachedZone) -> Browser:
    """The browser a request comes from."""
    return Browser(
        session=_cookie(request, _name(zone, "session")),
        pre_login=_cookie(request, _name(zone, "started")),
        address=address_of(request),
        is_framed=request.headers.get("sec-fetch-dest") in _FRAMES,
    )


def follow(step: NextStep, services: Services, zone: CachedZone) -> HTTPResponse:
    """The answer that takes a browser further, or the page that asks whether to. 303: no form is sent on."""
    if step.asks is not None:
        onward = pages.ContinueLink(step.asks.application, step.asks.site, step.location, step.form)
        response = pages.error(zone, step.asks.refusal, onward=onward)
    elif step.form is not None:
        response = pages.form_post(zone, step.location, step.form)
    else:
        response = text("", status=303, headers={"Location": step.location, **pages.PRIVATE})
    if step.session is not None:
        _set(response, zone, "session", step.session, services.settings.session_lifetime_seconds)
    if step.pre_login is not None:
        _set(response, zone, "started", step.pre_login, INTERACTION_SECONDS * 4)
    return response


def forget_session(response: HTTPResponse, zone: CachedZone) -> None:
    """Take the cookie back that says who is signed in."""
    _set(response, zone, "session", "", 0)


def read_own_form(request: Request, zone: CachedZone) -> Form:
    """A form that one of this zone's own pages sent. Raises ForgedForm for another origin, InvalidRequest.

    A page that hides its address sends `Origin: null`, and so may a foreign one: then the browser's own word
    on where the request comes from counts, and always the form's token.
    """
    origin = request.headers.get("origin", "null")
    parts = urlsplit(zone.issuer)
    foreign = origin not in ("null", f"{parts.scheme}://{parts.netloc}")
    if foreign or request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise ForgedForm("this form was sent from another site; go back to the application and try again")
    request.ctx.has_own_form = True
    return read_form(request.body, request.headers.get("content-type"))


def _cookie(request: Request, name: str) -> str | None:
    value = request.cookies.get(name)
    return value if value and len(value) <= 200 else None


def _set(response: HTTPResponse, zone: CachedZone, what: str, value: str, max_age: int) -> None:
    address = urlsplit(zone.issuer)
    response.add_cookie(
        _name(zone, what),
        value,
        path=address.path or "/",
        max_age=max_age,
        httponly=True,
        samesite="Lax",
        secure=address.scheme == "https",
    )


def _name(zone: CachedZone, what: str) -> str:
    prefix = "__Secure-" if zone.issuer.startswith("https:") else ""
    return f"{prefix}zw_{what}_{zone.id}"

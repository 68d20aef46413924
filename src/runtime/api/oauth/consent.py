"""The page that asks a user whether an application may act for them."""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api import pages
from runtime.api.oauth.addresses import bind_zone_route
from runtime.api.oauth.browser import answering_pages, browser_of, follow, read_own_form
from runtime.domain.errors import InvalidRequest
from runtime.services.authorization import interactions
from runtime.services.login import flow
from runtime.services.parts import Parts
from runtime.services.zones import ZoneView


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the consent page of every zone."""
    bind_zone_route(app, show_consent, "/oauth/consent")
    bind_zone_route(app, consent, "/oauth/consent", methods=("POST",))
    bind_zone_route(app, show_connect, "/oauth/connect")


@answering_pages
async def show_consent(request: Request, parts: Parts, view: ZoneView) -> HTTPResponse:
    """What the application asks for, in words, and where the answer goes."""
    browser = browser_of(request, view)
    handle = request.args.get("request")
    interaction = await interactions.find(parts, view.id, handle, browser.pre_login)
    question, user = await flow.consent_question(parts, view, interaction, browser)
    return pages.page(
        view,
        "consent",
        question=question,
        user=user,
        handle=handle,
        form_token=interactions.new_form(parts, view.id, handle, "consent"),
    )


@answering_pages
async def consent(request: Request, parts: Parts, view: ZoneView) -> HTTPResponse:
    """Take the user's decision, once."""
    browser = browser_of(request, view)
    form = read_own_form(request, view).values
    handle = form.get("request", "")
    token = form.get("form_token")
    await interactions.take_form(parts, view.id, handle, "consent", token, address=browser.address)
    interaction = await interactions.find(parts, view.id, handle, browser.pre_login)
    if form.get("decision") not in ("allow", "deny"):
        raise InvalidRequest("the form says neither yes nor no")
    allowed = form.get("decision") == "allow"
    return follow(await flow.decide(parts, view, handle, interaction, browser, allowed=allowed), parts, view)


@answering_pages
async def show_connect(request: Request, parts: Parts, view: ZoneView) -> HTTPResponse:
    """What a refused application's `error_uri` leads a user to: only a sign-in there can ask them.

    What the address names is looked up by nobody, so that it tells nobody what a zone has, and puts no words
    of a stranger's on the page.
    """
    return pages.page(view, "connect")

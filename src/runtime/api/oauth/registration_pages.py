"""Registration on the zone's own pages: openly where the zone allows it, else with an invitation.

An application's sign-in can lead here, and so does the mail of an invitation: then no application waits,
nobody is signed in, and a page says what comes next.
"""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api import pages
from runtime.api.oauth.browser import answering_pages, browser_of, follow, read_own_form
from runtime.api.oauth.sign_in_reasons import SignInReason, reason_of
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.api.pages import Mistake
from runtime.domain.errors import BadLink, ValidationFailed
from runtime.services.authority import admission
from runtime.services.authority.credential_rules import MIN_PASSWORD_CHARS
from runtime.services.authorization import interactions
from runtime.services.authorization.interactions import PendingLogin
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.login import flow
from runtime.services.login import invitation_registration as invitations
from runtime.services.login import password as local
from runtime.services.login.invitation_registration import Invitee
from runtime.services.zones import CachedZone

_MAX_TOKEN_CHARS = 100


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the registration page of every zone."""
    bind_zone_route(app, show_sign_up, "/oauth/sign-up")
    bind_zone_route(app, sign_up, "/oauth/sign-up", methods=("POST",))


@answering_pages
async def show_sign_up(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """The page on which people register themselves."""
    handle, token = request.args.get("request"), request.args.get("invitation")
    if token is not None and len(token) > _MAX_TOKEN_CHARS:
        raise BadLink("the e-mail address is not the one that was invited")
    if handle is None and token is not None:
        return await _show_without_application(services, zone, token)
    if token is None:
        admission.require_local(zone.entity)
    interaction = await interactions.find(services, zone.id, handle, browser_of(request, zone).pre_login)
    if token is not None:
        known_as = invitations.remembered(services, token)
        interaction = await interactions.remember_invitation(
            services, zone.id, str(handle), interaction, known_as
        )
    return await _page(services, zone, str(handle), interaction, await _who(services, zone, interaction))


@answering_pages
async def sign_up(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """Register, and be signed in where an application waits for that."""
    browser = browser_of(request, zone)
    form = read_own_form(request, zone).values
    if "request" not in form and "invitation" in form:
        return await _register_without_application(services, zone, form, browser.address)
    handle = form.get("request", "")
    interaction = await interactions.find(services, zone.id, handle, browser.pre_login)
    token = form.get("form_token")
    await interactions.consume_form_token(
        services, zone.id, handle, "sign-up", token, address=browser.address
    )
    who = await _who(services, zone, interaction)
    email, password = form.get("email", ""), form.get("password", "")
    try:
        if who is not None:
            user = await invitations.register(services, zone, who, password, address=browser.address)
        else:
            user = await local.register(services, zone, email, password, address=browser.address)
    except ValidationFailed as failure:
        current_decision().refuse(failure)
        return await _page(
            services, zone, handle, interaction, who, email=email, mistake=pages.mistake_of(failure)
        )
    step = await flow.complete_password_login(services, zone, handle, interaction, user, browser)
    return follow(step, services, zone)


async def _who(services: Services, zone: CachedZone, interaction: PendingLogin) -> Invitee | None:
    """Who is invited; None where registration is open and nobody needs to be. Raises SignInRefused."""
    admission.require_local(zone.entity)
    if interaction.request.invitation is not None:
        return await invitations.find(services, zone, interaction.request.invitation)
    admission.require_open_registration(zone.entity)
    return None


async def _show_without_application(services: Services, zone: CachedZone, token: str) -> HTTPResponse:
    who = await invitations.find(services, zone, invitations.remembered(services, token))
    if zone.entity.user_identity_provider_id is not None:
        return pages.page(zone, "invited", who=who, through_provider=True)
    return await _form(services, zone, who, token)


async def _register_without_application(
    services: Services, zone: CachedZone, form: Any, address: str
) -> HTTPResponse:
    admission.require_local(zone.entity)
    token = form["invitation"]
    known_as = invitations.remembered(services, token)
    form_token = form.get("form_token")
    await interactions.consume_form_token(services, zone.id, known_as, "sign-up", form_token, address=address)
    who = await invitations.find(services, zone, known_as)
    try:
        await invitations.register(services, zone, who, form.get("password", ""), address=address)
    except ValidationFailed as failure:
        current_decision().refuse(failure)
        return await _form(services, zone, who, token, mistake=pages.mistake_of(failure))
    return pages.page(zone, "invited", who=who, through_provider=False)


async def _page(
    services: Services,
    zone: CachedZone,
    handle: str,
    interaction: PendingLogin,
    who: Invitee | None,
    *,
    email: str | None = None,
    mistake: Mistake | None = None,
) -> HTTPResponse:
    """The form, in the course of a sign-in to an application."""
    asked = interaction.request
    return pages.page(
        zone,
        "sign-up",
        status=400 if mistake else 200,
        reason=await reason_of(services, zone, interaction),
        handle=handle,
        invitation=None,
        form_token=interactions.new_form_token(services, zone.id, handle, "sign-up"),
        who=who,
        email=email if email is not None else asked.login_hint or "",
        mistake=mistake,
        min_password_chars=MIN_PASSWORD_CHARS,
    )


async def _form(
    services: Services, zone: CachedZone, who: Invitee, token: str, *, mistake: Mistake | None = None
) -> HTTPResponse:
    """The form, for somebody who comes from the mail of an invitation."""
    known_as = invitations.remembered(services, token)
    return pages.page(
        zone,
        "sign-up",
        status=400 if mistake else 200,
        reason=SignInReason(),
        handle=None,
        invitation=token,
        form_token=interactions.new_form_token(services, zone.id, known_as, "sign-up"),
        who=who,
        email=who.email,
        mistake=mistake,
        min_password_chars=MIN_PASSWORD_CHARS,
    )

"""The account page of a user: connected applications, grants, stored keys, sessions; each can be revoked."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api import pages
from runtime.api.oauth.browser import answering_pages, browser_of, follow, read_own_form
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.api.pages import Mistake
from runtime.domain.errors import ValidationFailed
from runtime.services.account import reconnection, withdrawal
from runtime.services.account.overview import overview
from runtime.services.authority import browser_sessions
from runtime.services.authority.browser_sessions import Browser, SignedInUser
from runtime.services.authority.credential_rules import MIN_PASSWORD_CHARS
from runtime.services.authorization import interactions
from runtime.services.authorization.next_step import NextStep
from runtime.services.authorization.requests import ZonePageRequest
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.login import flow, password
from runtime.services.login.password import WrongPassword
from runtime.services.vault import static_credentials
from runtime.services.zones import CachedZone

# What a button of the page is named -> what it ends, and what the page says afterwards.
_ENDING = {
    "application": (withdrawal.application, "The application no longer has access."),
    "grant": (withdrawal.grant, "Permission withdrawn. Every application has to ask you again."),
    "disconnect": (
        withdrawal.grant,
        "The account is disconnected. An application that wants to use it has to ask you again.",
    ),
    "session": (withdrawal.session, "The session has ended."),
}
_PAGE = ZonePageRequest(page="account")
_CHANGED = "Your password is changed. You are signed out in every other browser."
_WRONG = Mistake("current_password", "Wrong current password. Check it and try again.")
_STORED = "The key is stored. An application uses it when you allow that application to."
# What was done before the page is shown again -> what it says of it.
_DONE = {"store": _STORED, "change": _CHANGED, **{name: said for name, (_, said) in _ENDING.items()}}


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the account page of every zone."""
    bind_zone_route(app, show_account, "/account")
    bind_zone_route(app, change_account, "/account", methods=("POST",))


@answering_pages
async def show_account(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """What there is, to who is signed in; others sign in first."""
    browser = browser_of(request, zone)
    signed_in = await browser_sessions.current(services, zone, browser.session)
    if signed_in is None:
        return follow(await flow.start_page_login(services, zone, _PAGE, browser), services, zone)
    done = request.args.get("done", "")
    return await _page(services, zone, signed_in, done=_DONE.get(done))


@answering_pages
async def change_account(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """End what the button says, or store a credential, once; then the page as it is now."""
    form = read_own_form(request, zone).values
    browser = browser_of(request, zone)
    signed_in = await browser_sessions.current(services, zone, browser.session)
    if signed_in is None:
        return follow(await flow.start_page_login(services, zone, _PAGE, browser), services, zone)
    shown, token = form.get("identifier", ""), form.get("form_token")
    handle = _handle(signed_in.session.id, shown)
    await interactions.consume_form_token(
        services, zone.id, handle, "account", token, address=browser.address
    )
    if (resource_id := form.get("store")) is not None:
        credential = static_credentials.check(form.get("credential", ""))
        await static_credentials.store(
            services, zone, signed_in.user.id, resource_id, credential, shown=shown
        )
        return follow(NextStep(f"{_PAGE.address(zone.issuer)}?done=store"), services, zone)
    if (grant_id := form.get("reconnect")) is not None:
        connect_page = await reconnection.address(services, zone, signed_in, grant_id)
        return follow(NextStep(connect_page or _PAGE.address(zone.issuer)), services, zone)
    if "change" in form:
        return await _change_password(services, zone, signed_in, form, browser)
    for name, (end, _) in _ENDING.items():
        if (entity_id := form.get(name)) is not None:
            await end(services, zone, signed_in, entity_id)
            return follow(NextStep(f"{_PAGE.address(zone.issuer)}?done={name}"), services, zone)
    return follow(NextStep(_PAGE.address(zone.issuer)), services, zone)


async def _change_password(
    services: Services, zone: CachedZone, signed_in: SignedInUser, form: Mapping[str, str], browser: Browser
) -> HTTPResponse:
    """Replace the password of who knows the present one."""
    try:
        await password.change(
            services,
            zone,
            signed_in,
            current=form.get("current_password", ""),
            new=form.get("password", ""),
            address=browser.address,
        )
    except WrongPassword as refusal:
        current_decision().refuse(refusal)
        return await _page(services, zone, signed_in, mistake=_WRONG)
    except ValidationFailed as failure:
        current_decision().refuse(failure)
        return await _page(services, zone, signed_in, mistake=pages.mistake_of(failure))
    return follow(NextStep(f"{_PAGE.address(zone.issuer)}?done=change"), services, zone)


async def _page(
    services: Services,
    zone: CachedZone,
    signed_in: SignedInUser,
    *,
    done: str | None = None,
    mistake: Mistake | None = None,
) -> HTTPResponse:
    return pages.page(
        zone,
        "account",
        status=400 if mistake else 200,
        user=signed_in.user,
        found=await overview(services, zone, signed_in),
        done=done,
        mistake=mistake,
        min_password_chars=MIN_PASSWORD_CHARS,
        new_form_token=partial(_new_form_token, services, zone, signed_in.session.id),
    )


def _new_form_token(services: Services, zone: CachedZone, session_id: str, identifier: str = "") -> str:
    """A form's token; the form of a key has it for the identifier of the resource that it shows."""
    return interactions.new_form_token(services, zone.id, _handle(session_id, identifier), "account")


def _handle(session_id: str, identifier: str) -> str:
    return f"{session_id} {identifier}"

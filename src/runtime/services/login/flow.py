"""The sign-in flow, from a checked authorization request to the authorization code."""

from dataclasses import replace

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import (
    AccessDenied,
    BadLink,
    ConsentRequired,
    LoginRequired,
    OAuthError,
    UnmetAuthenticationRequirements,
)
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import OwnerType
from runtime.domain.oauth import redirect_uris
from runtime.services.authority import admission, browser_sessions
from runtime.services.authority.admission import PasswordSignIn, UpstreamSignIn
from runtime.services.authority.browser_sessions import Authentication, Browser, SignedInUser
from runtime.services.authorization import (
    authorization_codes,
    consent_prompt,
    interactions,
    next_step,
    requirements,
    throttling,
)
from runtime.services.authorization.authorization_codes import CodeGrant
from runtime.services.authorization.interactions import PendingLogin
from runtime.services.authorization.next_step import NextStep
from runtime.services.authorization.requests import AccountPageRequest, AuthorizationRequest
from runtime.services.client_types import Client
from runtime.services.clients import client_lookup
from runtime.services.container import Services
from runtime.services.login import upstream
from runtime.services.login.upstream import UpstreamAuthentication
from runtime.services.management.members import acceptance
from runtime.services.zones import CachedZone


async def start_authorization(
    services: Services, zone: CachedZone, request: AuthorizationRequest, browser: Browser
) -> NextStep:
    """The first step of a checked request. Raises OAuthError, to be told to the application."""
    signed_in = await browser_sessions.current(services, zone, browser.session)
    if signed_in is not None and requirements.are_met(request, signed_in, services.clock()):
        return await _go_on(services, zone, request, signed_in, browser)
    if "none" in request.prompts:
        raise LoginRequired("no session satisfies the request (`prompt=none`)")
    return await _sign_in(services, zone, request, browser)


async def start_account_login(services: Services, zone: CachedZone, browser: Browser) -> NextStep:
    """The first step of somebody who wants to see their account page. Raises OAuthError."""
    return await _sign_in(services, zone, AccountPageRequest(page="account"), browser)


async def complete_password_login(
    services: Services, zone: CachedZone, handle: str, interaction: PendingLogin, user: User, browser: Browser
) -> NextStep:
    """Go on after the right password."""
    now = services.clock()
    async with services.database.transaction() as conn:
        await admission.admit(conn, zone.entity, PasswordSignIn(user), now=now)
        signed_in, cookie = await browser_sessions.open_session(
            conn,
            services,
            zone,
            user,
            Authentication(at=now, amr=("pwd",)),
            started_by=await started_by(zone, interaction),
            previous_cookie=browser.session,
        )
    return await _after_sign_in(services, zone, handle, interaction, signed_in, browser, cookie)


async def complete_upstream_login(
    services: Services, zone: CachedZone, back: UpstreamAuthentication, browser: Browser
) -> NextStep:
    """Go on after the provider has said who it is.

    A provider that was asked for a recent sign-in and does not say when it was may have gone by an old one:
    then it is asked once more, for a sign-in that happens now.

    Raises: SignInRefused; OAuthError when the provider cannot be asked again.
    """
    if back.authenticated_at is None and back.interaction.request.max_age is not None:
        again = upstream.start_upstream_login(
            services, zone, back.provider, back.handle, back.interaction, prove=True
        )
        return NextStep(await again)
    now = services.clock()
    how = Authentication(
        at=back.authenticated_at,
        amr=tuple(each for each in back.claims.get("amr") or () if isinstance(each, str))[:10]
        if isinstance(back.claims.get("amr"), list)
        else (),
        acr=back.identity.acr,
        provider_id=back.provider.id,
        issuer=back.identity.issuer,
        subject=back.identity.subject,
        claims=back.claims,
        id_token=back.id_token,
    )
    async with services.epochs.transaction() as (conn, bumped):
        by = UpstreamSignIn(back.provider, back.identity.issuer, back.identity.subject, back.claims)
        admitted = await admission.admit(conn, zone.entity, by, now=now)
        signed_in, cookie = await browser_sessions.open_session(
            conn,
            services,
            zone,
            admitted.user,
            how,
            started_by=await started_by(zone, back.interaction),
            previous_cookie=browser.session,
        )
        bumped.update(admitted.epochs)
    return await _after_sign_in(services, zone, back.handle, back.interaction, signed_in, browser, cookie)


async def consent_prompt_of(
    services: Services, zone: CachedZone, interaction: PendingLogin, browser: Browser
) -> tuple[consent_prompt.ConsentPrompt, User]:
    """What to ask, and whom. Raises BadLink when that user is not signed in here any more."""
    signed_in = await _asked_user(services, zone, interaction, browser)
    request = _authorization(interaction)
    return await consent_prompt.build_prompt(
        services, zone, request, await _client(zone, request)
    ), signed_in.user


async def complete_consent(
    services: Services,
    zone: CachedZone,
    handle: str,
    interaction: PendingLogin,
    browser: Browser,
    *,
    allowed: bool,
) -> NextStep:
    """Go on after the user's answer, which counts once. Raises BadLink."""
    signed_in = await _asked_user(services, zone, interaction, browser)
    request = _authorization(interaction)
    client = await _client(zone, request)
    await interactions.finish(services, zone.id, handle)
    if not allowed:  # the page has named the site that the answer goes to
        return NextStep(
            request.return_address(zone.issuer).refusal(AccessDenied("the user denied the request"))
        )
    await consent_prompt.record(services, zone, request, client, signed_in.user)
    return await _code(services, zone, request, signed_in)


async def refuse_authorization(
    services: Services, zone: CachedZone, interaction: PendingLogin, error: OAuthError, browser: Browser
) -> NextStep:
    """The step that tells the application of a sign-in that came to nothing. Raises the error without one."""
    if isinstance(interaction.request, AccountPageRequest):
        raise error
    client = await _client(zone, interaction.request)
    address = interaction.request.return_address(zone.issuer)
    return await next_step.refused(services, zone, client, address, error, browser)


async def started_by(zone: CachedZone, interaction: PendingLogin) -> str:
    """The name of who wants the user signed in: an application, or the zone. Raises BadLink."""
    request = interaction.request
    return (
        zone.entity.name if isinstance(request, AccountPageRequest) else (await _client(zone, request)).name
    )


def account_address(zone: CachedZone) -> str:
    """Where users see what they allowed."""
    return f"{zone.issuer}/account"


def page_address(zone: CachedZone, page: str, handle: str) -> str:
    """Where a page of an interaction stands."""
    return f"{zone.issuer}/oauth/{page}?request={handle}"


async def _after_sign_in(
    services: Services,
    zone: CachedZone,
    handle: str,
    interaction: PendingLogin,
    signed_in: SignedInUser,
    browser: Browser,
    cookie: str,
) -> NextStep:
    """The interaction ends here; a question that is left to ask makes one of its own.

    Somebody who is invited to the organization, and has signed in to its own zone, has accepted by that.
    """
    if zone.entity.owner_type is OwnerType.PLATFORM:
        await acceptance.accept_by_address(services, zone, signed_in.user, new_id())
    await interactions.finish(services, zone.id, handle)
    request = interaction.request
    if isinstance(request, AccountPageRequest):
        return NextStep(account_address(zone), session=cookie)
    try:
        requirements.require_met(request, signed_in, services.clock())
        step = await _go_on(services, zone, request, signed_in, browser)
    except OAuthError as error:
        client, address = await _client(zone, request), request.return_address(zone.issuer)
        step = await next_step.refused(services, zone, client, address, error, signed_in.user)
    return replace(step, session=cookie)


async def _sign_in(
    services: Services, zone: CachedZone, request: AuthorizationRequest | AccountPageRequest, browser: Browser
) -> NextStep:
    """Send the user to where they sign in. Raises OAuthError."""
    provider = await zone.user_provider()
    if provider is None and request.acr_values:
        raise UnmetAuthenticationRequirements("password sign-in satisfies none of the requested `acr_values`")
    pre_login = browser.pre_login or new_secret()
    handle, interaction = await _start(services, zone, request, browser, pre_login, session_id=None)
    if provider is not None:
        location = await upstream.start_upstream_login(services, zone, provider, handle, interaction)
    else:
        location = page_address(zone, "sign-in", handle)
    return NextStep(location, pre_login=pre_login)


async def _go_on(
    services: Services,
    zone: CachedZone,
    request: AuthorizationRequest,
    signed_in: SignedInUser,
    browser: Browser,
) -> NextStep:
    """Ask the user if that is due, else hand out the code. Raises ConsentRequired."""
    client = await _client(zone, request)
    if not await consent_prompt.is_needed(services, zone, request, client, signed_in.user):
        return await _code(services, zone, request, signed_in)
    if "none" in request.prompts:
        raise ConsentRequired("the user has not consented to this request (`prompt=none`)")
    pre_login = browser.pre_login or new_secret()
    handle, _ = await _start(services, zone, request, browser, pre_login, session_id=signed_in.session.id)
    return NextStep(page_address(zone, "consent", handle), pre_login=pre_login)


async def _code(
    services: Services, zone: CachedZone, request: AuthorizationRequest, signed_in: SignedInUser
) -> NextStep:
    grant = CodeGrant(
        client_id=request.client_id,
        party_id=request.party_id,
        redirect_uri=request.redirect_uri,
        scopes=request.scopes,
        resources=request.resources,
        nonce=request.nonce,
        challenge=request.challenge,
        jkt=request.jkt,
        session_id=signed_in.session.id,
        user_id=signed_in.user.id,
        issued_at=services.clock(),
    )
    code = await authorization_codes.issue(services, zone.id, grant)
    return NextStep(request.return_address(zone.issuer).with_code(code))


async def _start(
    services: Services,
    zone: CachedZone,
    request: AuthorizationRequest | AccountPageRequest,
    browser: Browser,
    pre_login: str,
    *,
    session_id: str | None,
) -> tuple[str, PendingLogin]:
    client_id = "" if isinstance(request, AccountPageRequest) else request.client_id
    await throttling.admit(services, zone, client_id, browser.address)
    interaction = PendingLogin(
        request=request,
        browser=interactions.browser_of(services, pre_login),
        created_at=services.clock(),
        session_id=session_id,
    )
    return await interactions.start(services, zone.id, interaction), interaction


async def _asked_user(
    services: Services, zone: CachedZone, interaction: PendingLogin, browser: Browser
) -> SignedInUser:
    signed_in = await browser_sessions.current(services, zone, browser.session)
    if signed_in is None or signed_in.session.id != interaction.session_id:
        raise BadLink(
            "you are not signed in as the user who was asked to consent; go back to the application"
        )
    return signed_in


def _authorization(interaction: PendingLogin) -> AuthorizationRequest:
    if isinstance(interaction.request, AccountPageRequest):
        raise BadLink("this sign-in has nothing to consent to; go back to the application and try again")
    return interaction.request


async def _client(zone: CachedZone, request: AuthorizationRequest) -> Client:
    """The client of a request that was checked before. Raises BadLink when it is not what it was then."""
    client = await client_lookup.find_unchanged(zone, request.client_id, request.party_id)
    if client is None or not redirect_uris.allows(client.redirect_uris, request.redirect_uri):
        raise BadLink(
            "the application or its redirect URI is no longer registered; go back to the application"
        )
    return client

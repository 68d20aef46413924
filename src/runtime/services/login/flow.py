"""The sign-in flow, from a checked authorization request to the user's session.

What follows it, consent and the authorization code, is `authorization.consent_flow`.
"""

from dataclasses import replace

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import (
    LoginRequired,
    OAuthError,
    UnmetAuthenticationRequirements,
)
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import OwnerType
from runtime.domain.oauth.decision_events import DecisionOutcome
from runtime.services.authority import admission, browser_sessions
from runtime.services.authority.admission import PasswordSignIn, UpstreamSignIn
from runtime.services.authority.browser_sessions import Authentication, Browser, SignedInUser
from runtime.services.authorization import (
    consent_flow,
    interactions,
    next_step,
    requirements,
)
from runtime.services.authorization.interactions import PendingLogin
from runtime.services.authorization.next_step import NextStep, page_address
from runtime.services.authorization.requests import AuthorizationRequest, ZonePageRequest
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
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
        return await consent_flow.require_consent(services, zone, request, signed_in, browser)
    if "none" in request.prompts:
        raise LoginRequired("no session satisfies the request (`prompt=none`)")
    return await _sign_in(services, zone, request, browser)


async def start_page_login(
    services: Services, zone: CachedZone, request: ZonePageRequest, browser: Browser
) -> NextStep:
    """The first step of somebody who wants to see a page of the zone. Raises OAuthError."""
    return await _sign_in(services, zone, request, browser)


async def complete_password_login(
    services: Services,
    zone: CachedZone,
    handle: str,
    interaction: PendingLogin,
    user: User,
    browser: Browser,
    *,
    password_hash: str | None = None,
) -> NextStep:
    """Go on after the right password.

    Args:
        password_hash: what it was compared with; None for somebody who has just registered.
    Raises: SignInRefused, also where the password was replaced since.
    """
    now, application = services.clock(), await started_by(zone, interaction)
    async with services.database.transaction(tenant=zone.organization_id) as conn:
        await admission.admit(conn, zone.entity, PasswordSignIn(user, password_hash), now=now)
        signed_in, cookie = await browser_sessions.open_session(
            conn,
            services,
            zone,
            user,
            Authentication(at=now, amr=("pwd",)),
            started_by=application,
            previous_cookie=browser.session,
        )
    return await _after_sign_in(services, zone, handle, interaction, signed_in, browser, cookie)


async def complete_upstream_login(
    services: Services, zone: CachedZone, authentication: UpstreamAuthentication, browser: Browser
) -> NextStep:
    """Go on after the provider has said who it is.

    A provider that was asked for a recent sign-in and does not say when it was may have gone by an old one:
    then it is asked once more, for a sign-in that happens now.

    Raises: SignInRefused; OAuthError when the provider cannot be asked again.
    """
    if authentication.authenticated_at is None and authentication.interaction.request.max_age is not None:
        again = upstream.start_upstream_login(
            services,
            zone,
            authentication.provider,
            authentication.handle,
            authentication.interaction,
            prove=True,
        )
        return NextStep(await again)
    now = services.clock()
    how = Authentication(
        at=authentication.authenticated_at,
        amr=tuple(each for each in authentication.claims.get("amr") or () if isinstance(each, str))[:10]
        if isinstance(authentication.claims.get("amr"), list)
        else (),
        acr=authentication.identity.acr,
        provider_id=authentication.provider.id,
        issuer=authentication.identity.issuer,
        subject=authentication.identity.subject,
        claims=authentication.claims,
        id_token=authentication.id_token,
    )
    application = await started_by(zone, authentication.interaction)
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        by = UpstreamSignIn(
            authentication.provider,
            authentication.identity.issuer,
            authentication.identity.subject,
            authentication.claims,
        )
        admitted = await admission.admit(conn, zone.entity, by, now=now)
        signed_in, cookie = await browser_sessions.open_session(
            conn,
            services,
            zone,
            admitted.user,
            how,
            started_by=application,
            previous_cookie=browser.session,
        )
        bumped.update(admitted.epochs)
    return await _after_sign_in(
        services, zone, authentication.handle, authentication.interaction, signed_in, browser, cookie
    )


async def refuse_authorization(
    services: Services, zone: CachedZone, interaction: PendingLogin, error: OAuthError, browser: Browser
) -> NextStep:
    """The step that tells the application of a sign-in that came to nothing. Raises the error without one."""
    if isinstance(interaction.request, ZonePageRequest):
        raise error
    client = await interactions.client_of(zone, interaction.request)
    address = interaction.request.return_address(zone.issuer)
    return await next_step.refused(services, zone, client, address, error, browser)


async def started_by(zone: CachedZone, interaction: PendingLogin) -> str:
    """The name of who wants the user signed in: an application, or the zone. Raises BadLink."""
    request = interaction.request
    return (
        zone.entity.name
        if isinstance(request, ZonePageRequest)
        else (await interactions.client_of(zone, request)).name
    )


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

    Somebody who is invited to the organization, and has signed in to its home zone, has accepted by that.
    """
    decision = current_decision()
    decision.user_id = signed_in.user.id
    decision.succeed(DecisionOutcome.SIGNED_IN)
    if zone.entity.owner_type is OwnerType.PLATFORM:
        await acceptance.accept_by_address(services, zone, signed_in.user, new_id())
    await interactions.finish(services, zone.id, handle)
    request = interaction.request
    if isinstance(request, ZonePageRequest):
        return NextStep(request.address(zone.issuer), session=cookie)
    try:
        requirements.require_met(request, signed_in, services.clock())
        step = await consent_flow.require_consent(services, zone, request, signed_in, browser)
    except OAuthError as error:
        client, address = await interactions.client_of(zone, request), request.return_address(zone.issuer)
        step = await next_step.refused(services, zone, client, address, error, signed_in.user)
    return replace(step, session=cookie)


async def _sign_in(
    services: Services, zone: CachedZone, request: AuthorizationRequest | ZonePageRequest, browser: Browser
) -> NextStep:
    """Send the user to where they sign in. Raises OAuthError."""
    provider = await zone.user_provider()
    if provider is None and request.acr_values:
        raise UnmetAuthenticationRequirements("password sign-in satisfies none of the requested `acr_values`")
    pre_login = browser.pre_login or new_secret()
    handle, interaction = await interactions.start(services, zone, request, browser, pre_login)
    if provider is not None:
        location = await upstream.start_upstream_login(services, zone, provider, handle, interaction)
    else:
        location = page_address(zone, "sign-in", handle)
    return NextStep(location, pre_login=pre_login)

"""The consent flow: sends the user to the consent page where consent is needed, and takes their answer.

Without a question left to ask, and after a yes, the application gets its authorization code.
"""

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import AccessDenied, BadLink, ConsentRequired
from runtime.domain.kinds.role import User
from runtime.services.authority import browser_sessions
from runtime.services.authority.browser_sessions import Browser, SignedInUser
from runtime.services.authorization import authorization_codes, consent_decision, consent_prompt, interactions
from runtime.services.authorization.authorization_codes import CodeGrant
from runtime.services.authorization.interactions import PendingLogin
from runtime.services.authorization.next_step import NextStep, answering, page_address
from runtime.services.authorization.requests import AuthorizationRequest, ZonePageRequest
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.zones import CachedZone


async def require_consent(
    services: Services,
    zone: CachedZone,
    request: AuthorizationRequest,
    signed_in: SignedInUser,
    browser: Browser,
) -> NextStep:
    """The consent page if the user has to be asked, else the authorization code. Raises ConsentRequired."""
    client = await interactions.client_of(zone, request)
    if not await consent_decision.is_needed(services, zone, request, client, signed_in.user):
        return await _issue_code(services, zone, request, signed_in)
    if "none" in request.prompts:
        raise ConsentRequired("the user has not consented to this request (`prompt=none`)")
    pre_login = browser.pre_login or new_secret()
    handle, _ = await interactions.start(
        services, zone, request, browser, pre_login, session_id=signed_in.session.id
    )
    return NextStep(page_address(zone, "consent", handle), pre_login=pre_login)


async def find_prompt(
    services: Services, zone: CachedZone, interaction: PendingLogin, browser: Browser
) -> tuple[consent_prompt.ConsentPrompt, User]:
    """What the consent page shows, and to whom. Raises BadLink where that user is not signed in any more."""
    signed_in = await _prompted_user(services, zone, interaction, browser)
    request = _authorization_request(interaction)
    client = await interactions.client_of(zone, request)
    return await consent_prompt.build_prompt(services, zone, request, client), signed_in.user


async def complete_consent(
    services: Services,
    zone: CachedZone,
    handle: str,
    interaction: PendingLogin,
    browser: Browser,
    *,
    allowed: bool,
) -> NextStep:
    """Record the user's decision, which counts once, and return to the application. Raises BadLink."""
    signed_in = await _prompted_user(services, zone, interaction, browser)
    request = _authorization_request(interaction)
    client = await interactions.client_of(zone, request)
    await interactions.finish(services, zone.id, handle)
    if not allowed:  # the page has named the site that the answer goes to
        refusal = AccessDenied("the user denied the request")
        current_decision().refuse(refusal)
        return answering(request.return_address(zone.issuer).refusal(refusal))
    await consent_decision.record(services, zone, request, client, signed_in.user)
    return await _issue_code(services, zone, request, signed_in)


async def _issue_code(
    services: Services, zone: CachedZone, request: AuthorizationRequest, signed_in: SignedInUser
) -> NextStep:
    """The step that takes an authorization code to the application. Spec: RFC 6749 section 4.1.2."""
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
    decision = current_decision()
    decision.user_id = signed_in.user.id
    if not decision.is_made:  # a sign-in that a code follows at once is recorded as what it is
        decision.issue()
    return answering(request.return_address(zone.issuer).with_code(code))


async def _prompted_user(
    services: Services, zone: CachedZone, interaction: PendingLogin, browser: Browser
) -> SignedInUser:
    """The user whose session was asked for consent. Raises BadLink where another session is current."""
    signed_in = await browser_sessions.current(services, zone, browser.session)
    if signed_in is None or signed_in.session.id != interaction.session_id:
        raise BadLink(
            "you are not signed in as the user who was asked to consent; go back to the application"
        )
    current_decision().user_id = signed_in.user.id
    return signed_in


def _authorization_request(interaction: PendingLogin) -> AuthorizationRequest:
    if isinstance(interaction.request, ZonePageRequest):
        raise BadLink("this sign-in has nothing to consent to; go back to the application and try again")
    return interaction.request

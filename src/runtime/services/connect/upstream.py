"""Connecting an account: the authorization request to an outside provider, and its callback.

`state` is a random handle that works once, in the browser session that was redirected. The link and all
that the callback is checked against are stored under it, sealed. The callback comes to the redirect URI that
sign-in has, too; the `state` says which it is.

Spec: RFC 6749 section 4.1; RFC 7636; RFC 9207; OpenID Connect Core section 3.1.3.7 for whose account it is.
"""

from contextlib import suppress

from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import IntegrityError

from runtime.adapters.identity_providers.answers import ProviderRefused
from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.keys.sealing import SealBroken, new_secret
from runtime.adapters.outbound import OutboundFailed, OutboundRefused
from runtime.adapters.upstream_oauth.authorization_request import UpstreamAuthorizationRequest
from runtime.adapters.upstream_oauth.client_authentication import ASSERTION_ALGORITHM, signs_assertions
from runtime.adapters.upstream_oauth.token_response import RefusalKind, UpstreamRefusal, UpstreamTokens
from runtime.domain.errors import (
    AccessDenied,
    AccountNotConnected,
    AccountRefused,
    BadLink,
    CodeRefused,
    ConnectionFailed,
    InvalidRequest,
    OAuthError,
    ProviderFailed,
    ProviderUnavailable,
    TemporarilyUnavailable,
    UpstreamUnavailable,
)
from runtime.domain.kinds.provider import Provider
from runtime.domain.oauth import attenuation
from runtime.domain.oauth.attenuation import UpstreamScopes
from runtime.domain.provider_issuers import issuer_of
from runtime.services import epochs, state_values
from runtime.services.authority import browser_sessions
from runtime.services.authority.browser_sessions import Browser
from runtime.services.authority.connect_links import ConnectLink
from runtime.services.authorization import consent_decision, provider_requests
from runtime.services.authorization.next_step import NextStep
from runtime.services.authorization.requests import Parameters
from runtime.services.connect import outcomes, policies, requests
from runtime.services.connect.needs import Need, Requirement
from runtime.services.connect.outcomes import ConnectOutcome
from runtime.services.connect.requests import CheckedLink, ReturnAddress
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.vault import upstream_revocations, upstream_tokens
from runtime.services.zones import CachedZone
from runtime.storage.sql import users

CONNECTION_SECONDS = 900
_STATE_PREFIX = "c."  # a sign-in's `state` has no dot
_OPENID = "openid"
_LOST = (
    "this connection has expired, or was started in another browser; go back to the application and try again"
)
_CHANGED = "the provider was changed meanwhile; go back to the application and try again"
_ANOTHER = "the answer did not come from the provider that was asked"
_PROVIDER = "the provider"


class NothingGranted(AccessDenied):
    """The provider has issued tokens without any of the scopes that were requested."""


class PendingConnection(BaseModel):
    """A connection under way at a provider, stored under the hash of its `state`.

    Attributes:
        browser_session_id: the session that was asked, in which alone the callback counts.
        provider_revision: of the provider's configuration that the request was made with.
        scopes: requested for the resource.
        nonce: where the provider is to say whose account it is.
        uses_pkce, issuer, issuer_required: of the authorization request, `UpstreamAuthorizationRequest`.
    """

    model_config = ConfigDict(frozen=True)

    link: ConnectLink
    returns_to: ReturnAddress
    browser_session_id: str
    provider_id: str
    provider_revision: int
    scopes: frozenset[str]
    verifier: str
    nonce: str | None
    uses_pkce: bool
    issuer: str
    issuer_required: bool

    def admits_issuer(self, given: str | None) -> bool:
        """Tell whether an answer with this `iss` may be the provider's."""
        sent = UpstreamAuthorizationRequest("", self.uses_pkce, self.issuer, self.issuer_required)
        return sent.admits_issuer(given)


async def start_connection(
    services: Services, zone: CachedZone, asked: CheckedLink, provider: Provider, scopes: frozenset[str]
) -> str:
    """The provider's authorization endpoint, with the parameters of this connection. The link is used by it.

    Raises: ProviderUnavailable, with the link unused; BadLink for a link that is used.
    """
    current_decision().provider = provider.identifier
    settings = _settings(zone, provider)
    state, verifier = _STATE_PREFIX + new_secret(), new_secret()
    wanted = scopes | ({_OPENID} if await _signs_users_in(zone, provider) else frozenset())
    nonce = new_secret() if _OPENID in wanted else None
    sent = await services.upstream_oauth.authorization_request(
        settings,
        redirect_uri=provider_requests.redirect_uri(zone, provider),
        state=state,
        code_verifier=verifier,
        scopes=sorted(wanted),
        resource=asked.resource.identifier,
        parameters={"nonce": nonce} if nonce is not None else None,
    )
    if isinstance(sent, UpstreamRefusal):
        if sent.kind is RefusalKind.MISCONFIGURED:
            provider_requests.warn_of_configuration(provider)
        raise ProviderUnavailable(
            provider_requests.unavailable(
                _PROVIDER, status=sent.status, is_temporary=sent.kind is RefusalKind.TEMPORARY
            ),
            internal=sent.explanation,
        )
    pending = PendingConnection(
        link=asked.link,
        returns_to=asked.returns_to,
        browser_session_id=asked.signed_in.session.id,
        provider_id=provider.id,
        provider_revision=provider.revision,
        scopes=scopes,
        verifier=verifier,
        nonce=nonce,
        uses_pkce=sent.uses_pkce,
        issuer=sent.issuer,
        issuer_required=sent.issuer_required,
    )
    await requests.use(services, zone, asked.link)
    key = _key(services, zone, state)
    sealed = zone.sealer.seal(pending.model_dump_json().encode(), bound_to=key)
    await services.state.put_once(key, sealed, ttl_seconds=CONNECTION_SECONDS)
    return sent.url


def is_connection(parameters: Parameters) -> bool:
    """Tell whether a callback answers a connection, and not a sign-in. Raises InvalidRequest."""
    return (parameters.one("state") or "").startswith(_STATE_PREFIX)


async def handle_callback(
    services: Services, zone: CachedZone, parameters: Parameters, browser: Browser
) -> ConnectOutcome:
    """The end of a connection: the tokens and the application's consent are stored, in one transaction.

    Raises: BadLink for a state that is unknown, used, of another zone or another session, or where anything
        has ended that the link rests on; AccountRefused for the answer of another provider, before its code
        is used, and for somebody else's account; PolicyDenied, also before the code is used, and OAuthError
        where the application has named no place to hear of it.
    """
    try:
        state, issuer = parameters.one("state"), parameters.one("iss")
        code, error = parameters.one("code"), parameters.one("error")
        answered_by = parameters.one(provider_requests.ANSWERED_BY)
    except InvalidRequest as failure:
        raise BadLink(failure.detail) from None
    pending = await _pop(services, zone, state)
    signed_in = await browser_sessions.current(services, zone, browser.session)
    if signed_in is None or signed_in.session.id != pending.browser_session_id:
        raise BadLink(_LOST, internal="another session than the one that started it")
    asked = await requests.check(services, zone, pending.link, signed_in, pending.returns_to)
    provider = asked.provider
    if (
        provider is None
        or provider.id != pending.provider_id
        or provider.revision != pending.provider_revision
    ):
        raise BadLink(_CHANGED)
    current_decision().provider = provider.identifier
    if not pending.admits_issuer(issuer):
        raise AccountRefused(_ANOTHER, internal=repr(issuer)[:100])
    if not provider_requests.came_to_its_address(provider, answered_by):
        raise AccountRefused(_ANOTHER, internal="it came to the redirect URI of another provider")
    if error is not None or code is None:
        return _refused(zone, asked, provider, _refusal(error))
    needed = Requirement(Need.ACCOUNT, pending.scopes)
    if await policies.permitted(services, zone, asked, needed) is None:
        return policies.refused(zone, asked)
    settings = _settings(zone, provider)
    tokens = await _redeem(services, zone, asked, provider, settings, pending, code)
    if isinstance(tokens, UpstreamRefusal):
        return _refused(zone, asked, provider, _token_refusal(tokens))
    try:
        return await _connect(services, zone, asked, provider, settings, pending, tokens)
    except Exception as failure:  # whatever it is: nobody else has these tokens
        await _give_back(services, zone, asked, provider, tokens)
        if isinstance(failure, NothingGranted):
            return _refused(zone, asked, provider, failure)
        raise


async def _connect(
    services: Services,
    zone: CachedZone,
    asked: CheckedLink,
    provider: Provider,
    settings: ProviderSettings,
    pending: PendingConnection,
    tokens: UpstreamTokens,
) -> ConnectOutcome:
    """The connection that the tokens are for.

    Raises: BadLink, AccountRefused and NothingGranted where it is not made.
    """
    scopes = attenuation.limit_upstream(pending.scopes, tokens.scopes)
    if pending.scopes and not scopes.granted:
        raise NothingGranted("the provider granted none of the requested scopes")
    subject = await _subject(services, zone, settings, provider, pending, tokens)
    scopes = scopes._replace(beyond=scopes.beyond - {_OPENID})  # asked for to know whose account it is
    await _store(services, zone, asked, provider, pending, tokens, scopes, subject)
    return outcomes.finished(
        asked,
        outcomes.connected(zone, asked, scopes.granted, missing=scopes.missing, dropped=scopes.beyond),
    )


async def _give_back(
    services: Services, zone: CachedZone, asked: CheckedLink, provider: Provider, tokens: UpstreamTokens
) -> None:
    """Have the provider revoke what nothing here will use."""
    user_id = asked.signed_in.user.id
    with suppress(IntegrityError):  # the zone has gone, and with it whoever could be told to end them
        async with services.database.transaction(tenant=zone.organization_id) as conn:
            await upstream_revocations.enqueue_unused(conn, services.outbox, zone, provider, user_id, tokens)
    services.outbox.notify()


async def _store(
    services: Services,
    zone: CachedZone,
    asked: CheckedLink,
    provider: Provider,
    pending: PendingConnection,
    tokens: UpstreamTokens,
    scopes: UpstreamScopes,
    subject: str | None,
) -> None:
    user, now = asked.signed_in.user, services.clock()
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        # Whoever locks users too locks the provider first.
        if not await users.hold_provider(conn, provider):
            raise BadLink(_CHANGED)
        bumped.update(await epochs.bump_user(conn, zone.id, user.id))
        if not await users.hold_active(conn, user):
            raise BadLink(_LOST, internal="the user was disabled meanwhile")
        await requests.check_again(conn, zone, asked, now)
        if subject is not None:
            other = await users.find_by_subject(conn, zone_id=zone.id, issuer=pending.issuer, subject=subject)
            if other is not None and other.id != user.id:
                raise AccountRefused("this account belongs to another user of this zone; choose your own")
        await upstream_tokens.store_connected(
            conn,
            services,
            zone,
            user_id=user.id,
            resource=asked.resource,
            provider=provider,
            tokens=tokens,
            scopes=scopes,
            now=now,
        )
        endpoint = asked.returns_to.endpoint(zone.issuer)
        await consent_decision.record_consents(
            conn,
            zone,
            asked.client,
            user.id,
            {asked.resource.id: scopes.granted},
            endpoint.redirect_host if endpoint is not None else None,
            now=now,
        )


async def _redeem(
    services: Services,
    zone: CachedZone,
    asked: CheckedLink,
    provider: Provider,
    settings: ProviderSettings,
    pending: PendingConnection,
    code: str,
) -> UpstreamTokens | UpstreamRefusal:
    return await services.upstream_oauth.redeem_code(
        settings,
        code=code,
        redirect_uri=provider_requests.redirect_uri(zone, provider),
        code_verifier=pending.verifier if pending.uses_pkce else None,
        scopes=pending.scopes,
        resource=asked.resource.identifier,
        signing_key=zone.signing(ASSERTION_ALGORITHM) if signs_assertions(settings) else None,
    )


async def _subject(
    services: Services,
    zone: CachedZone,
    settings: ProviderSettings,
    provider: Provider,
    pending: PendingConnection,
    tokens: UpstreamTokens,
) -> str | None:
    """Whose account it is, in the provider's words; None where it does not say and nobody could know it by.

    Raises: AccountRefused when the zone's own users sign in at the issuer, and it does not say.
    """
    if pending.nonce is None or (tokens.id_token is None and not await _signs_users_in(zone, provider)):
        return None
    try:
        identity = await services.openid.identify(settings, tokens, nonce=pending.nonce, now=services.clock())
    except (ProviderRefused, OutboundRefused, OutboundFailed) as failure:
        provider_requests.warn_of_configuration(provider)
        told = provider_requests.unusable_answer(_PROVIDER)
        raise AccountRefused(told, internal=f"the ID token: {failure}") from None
    return identity.subject


async def _signs_users_in(zone: CachedZone, provider: Provider) -> bool:
    """Tell whether the zone's users are known by their accounts at this issuer."""
    signing_in = await zone.user_provider()
    return signing_in is not None and issuer_of(signing_in) == issuer_of(provider)


def _settings(zone: CachedZone, provider: Provider) -> ProviderSettings:
    """How to talk to the provider. Raises ProviderUnavailable where its secret is for other addresses."""
    try:
        return provider_requests.open_settings(zone, provider)
    except SealBroken:
        provider_requests.warn_of_configuration(provider)
        raise ProviderUnavailable(
            provider_requests.unavailable(_PROVIDER, status=None, is_temporary=False),
            internal="the secret was given for other addresses",
        ) from None


async def _pop(services: Services, zone: CachedZone, state: str | None) -> PendingConnection:
    if state is None:
        raise BadLink(_LOST)
    key = _key(services, zone, state)
    stored = await services.state.take(key)
    pending = state_values.read_sealed(PendingConnection, stored, zone.sealer, bound_to=key)
    if pending is None:
        raise BadLink(_LOST)
    return pending


def _refused(zone: CachedZone, asked: CheckedLink, provider: Provider, refusal: OAuthError) -> NextStep:
    """Tell the application, or the user, of a refusal, and administrators of a likely misconfiguration."""
    if isinstance(refusal, AccessDenied):
        what = "none of the scopes that" if isinstance(refusal, NothingGranted) else "no access that"
        page = AccountNotConnected(
            f"{provider.name} has granted {what} {asked.client.name} asks for, so your account there was not"
            " connected; go back to the application and try again, if that is not what you want"
        )
        return outcomes.refused(zone, asked, refusal, page=page)
    if not isinstance(refusal, ProviderFailed):
        return outcomes.refused(zone, asked, refusal)
    provider_requests.warn_of_configuration(provider)
    failed = ConnectionFailed(
        f"{provider.name} could not be connected. Its configuration in {zone.entity.name} may be wrong; tell"
        f" an administrator this request id: `{current_decision().request_id}`",
        internal=refusal.internal,
    )
    return outcomes.refused(zone, asked, refusal, page=failed)


def _refusal(error: str | None) -> OAuthError:
    """What the application is told of an error of the provider's authorization endpoint."""
    kind = provider_requests.refusal_kind(error)
    if kind is AccessDenied:
        return AccessDenied("the user or the provider denied access")
    if kind is TemporarilyUnavailable:
        return UpstreamUnavailable(
            "the provider is temporarily unavailable; try again shortly",
            internal=f"the authorization endpoint: `{error}`",
        )
    return provider_requests.provider_failed(
        error, "the provider answered the authorization request with an error"
    )


def _token_refusal(refusal: UpstreamRefusal) -> OAuthError:
    internal = f"the token endpoint: {refusal.explanation}"
    if refusal.kind is RefusalKind.TEMPORARY:
        return UpstreamUnavailable(
            "the provider is temporarily unavailable; try again shortly", internal=internal
        )
    if refusal.kind is RefusalKind.DEAD_GRANT:
        # Also what a code of somebody else's comes to: no reason to doubt the configuration.
        return CodeRefused(
            "the provider refused the authorization code; go back to the application and try again",
            internal=internal,
        )
    return ProviderFailed(
        "the provider issued no token; its configuration in the zone may be wrong", internal=internal
    )


def _key(services: Services, zone: CachedZone, state: str) -> str:
    return f"connection:{zone.id}:{services.hasher.hash(state).hex()}"

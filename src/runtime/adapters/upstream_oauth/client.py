"""The client of external OAuth 2.0 providers, driven by each provider's settings.

Outcomes are values: what a provider, the network or a configuration does wrong comes back as an
`UpstreamRefusal`. Nothing here is stored, and no secret is in a representation or a message.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil
from typing import Any

from runtime.adapters.identity_providers.answers import (
    Endpoints,
    ProviderRefused,
    endpoints_of,
    required,
)
from runtime.adapters.identity_providers.discovery import ProviderDiscovery
from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.keys.signing import SigningKey
from runtime.adapters.outbound import HttpAnswer, Outbound, OutboundBusy, OutboundFailed, OutboundRefused
from runtime.adapters.upstream_oauth import token_request
from runtime.adapters.upstream_oauth.authorization_request import (
    UpstreamAuthorizationRequest,
    authorization_url,
    require_web_address,
)
from runtime.adapters.upstream_oauth.circuit_breaker import UNCONDITIONAL, CircuitBreakers, Permit
from runtime.adapters.upstream_oauth.client_authentication import (
    AssertionSigner,
    authenticate_client,
    authentication_method,
)
from runtime.adapters.upstream_oauth.concurrency_limit import ProviderBusy, ProviderConcurrency
from runtime.adapters.upstream_oauth.revocation_request import (
    NOT_SUPPORTED,
    TokenTypeHint,
    UpstreamRevocation,
    failed_revocation,
    read_revocation_response,
    revocation,
)
from runtime.adapters.upstream_oauth.token_response import (
    MAX_RESPONSE_BYTES,
    RefusalKind,
    UpstreamRefusal,
    UpstreamTokens,
    read_token_response,
)
from runtime.domain.oauth import pkce

BUSY_RETRY_SECONDS = 1
WAIT_SECONDS = 5.0  # for a turn: of the provider, the zone, its tenant and all tenants together
UPSTREAM_TIMEOUT_SECONDS = 10.0  # of a request: some providers take their time to issue tokens
REFRESH_TIMEOUT_SECONDS = 20.0  # a provider that rotates has ended the former token, however late it answers


def _utc_now() -> datetime:
    return datetime.now(UTC)


class UpstreamOAuthClient:
    """Every external OAuth provider of every zone. One for a process.

    Args:
        outbound: its timeout is that of a request. A client of its own keeps slow providers away from the
            connections that other fetches use.
        clock: the time, for assertions and `Retry-After` dates.
    """

    def __init__(
        self,
        outbound: Outbound,
        *,
        clock: Callable[[], datetime] = _utc_now,
        breakers: CircuitBreakers | None = None,
        concurrency: ProviderConcurrency | None = None,
    ) -> None:
        self._outbound = outbound
        self._clock = clock
        self._discovery = ProviderDiscovery(outbound)
        self._breakers = CircuitBreakers() if breakers is None else breakers
        self._concurrency = concurrency or ProviderConcurrency(wait_seconds=WAIT_SECONDS)

    @property
    def open_circuits(self) -> int:
        """The number of providers that are not asked at present, or are asked on trial."""
        return self._breakers.not_closed

    async def authorization_request(
        self,
        settings: ProviderSettings,
        *,
        redirect_uri: str,
        state: str,
        code_verifier: str,
        scopes: Iterable[str] = (),
        resource: str | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> UpstreamAuthorizationRequest | UpstreamRefusal:
        """Where to send the browser, and how its way back is checked.

        Args:
            code_verifier: for PKCE; redeem with it when the request `uses_pkce`, and without it otherwise.
            parameters: this service's own, `login_hint` for example.
        """
        try:
            endpoints = await self._endpoints(settings)
            address = required(endpoints.authorization_endpoint, "authorization endpoint")
            url = authorization_url(
                settings,
                require_web_address(address, allow_http=self._outbound.allows_http),
                redirect_uri=redirect_uri,
                state=state,
                code_challenge=pkce.challenge_of(code_verifier) if endpoints.takes_pkce else None,
                scopes=scopes,
                resources=() if resource is None else (resource,),
                parameters=parameters,
            )
        except (ProviderRefused, OutboundRefused, OutboundFailed) as failure:
            return _refusal_of(failure)
        return UpstreamAuthorizationRequest(
            url, endpoints.takes_pkce, settings.issuer, issuer_required=endpoints.sends_issuer
        )

    async def redeem_code(
        self,
        settings: ProviderSettings,
        *,
        code: str,
        redirect_uri: str,
        code_verifier: str | None,
        scopes: Iterable[str] = (),
        resource: str | None = None,
        signing_key: SigningKey | None = None,
    ) -> UpstreamTokens | UpstreamRefusal:
        """The tokens for an authorization code, which counts as used whatever comes back.

        Args:
            code_verifier: None when the authorization request did not use PKCE.
            scopes: requested; what was granted when the provider does not say.
            signing_key: one that the zone publishes, for `private_key_jwt`.
        """
        fields = token_request.code_redemption(
            settings, code=code, redirect_uri=redirect_uri, code_verifier=code_verifier, resource=resource
        )
        answer = await self._token_endpoint(settings, fields, signing_key)
        if isinstance(answer, UpstreamRefusal):
            return answer
        return read_token_response(settings, answer, scopes=frozenset(scopes), now=self._clock())

    async def refresh(
        self,
        settings: ProviderSettings,
        *,
        refresh_token: str,
        scopes: Iterable[str] = (),
        resource: str | None = None,
        signing_key: SigningKey | None = None,
    ) -> UpstreamTokens | UpstreamRefusal:
        """New tokens for a refresh token.

        The provider may have rotated the token when the caller is cancelled here: whoever holds the lease of
        a grant shields this call and stores what it returns.

        Args:
            scopes: granted until now; what is granted still when the provider does not say.
        """
        fields = token_request.refresh(settings, refresh_token=refresh_token, resource=resource)
        answer = await self._token_endpoint(
            settings, fields, signing_key, timeout_seconds=REFRESH_TIMEOUT_SECONDS
        )
        if isinstance(answer, UpstreamRefusal):
            return answer
        granted = frozenset(scopes)
        return read_token_response(
            settings, answer, scopes=granted, refresh_token=refresh_token, now=self._clock()
        )

    async def request_own_token(
        self,
        settings: ProviderSettings,
        published: Mapping[str, Any],
        *,
        signing_key: SigningKey | None = None,
    ) -> UpstreamTokens | UpstreamRefusal:
        """A token of the zone's own (client credentials grant): shows whether the provider takes its secret.

        An open circuit does not keep this from being asked, and an answer closes it.

        Args:
            published: the provider's metadata as it is now, its issuer checked.
        """
        endpoints = endpoints_of(settings, published)
        fields = {"grant_type": "client_credentials"}
        try:
            address = required(endpoints.token_endpoint, "token endpoint")
            request = self._encoded(settings, endpoints, address, fields, signing_key)
        except ProviderRefused as refused:
            return _refusal_of(refused)
        answer = await self._send(settings, request, is_check=True)
        if isinstance(answer, UpstreamRefusal):
            return answer
        # Not somebody's grant: the token may stand where the standard has it.
        flat = replace(settings, token_response_access_token_pointer="access_token")
        return read_token_response(flat, answer, scopes=frozenset(), now=self._clock())

    async def revoke(
        self,
        settings: ProviderSettings,
        *,
        token: str,
        token_type_hint: TokenTypeHint,
        signing_key: SigningKey | None = None,
    ) -> UpstreamRevocation:
        """Revoke a token at the provider, where it has a revocation endpoint."""
        try:
            endpoints = await self._endpoints_for_revocation(settings)
            if endpoints.revocation_endpoint is None:
                return NOT_SUPPORTED
            fields = revocation(token, token_type_hint)
            request = self._encoded(settings, endpoints, endpoints.revocation_endpoint, fields, signing_key)
        except (ProviderRefused, OutboundRefused, OutboundFailed) as failure:
            return failed_revocation(_refusal_of(failure))
        answer = await self._send(settings, request)
        if isinstance(answer, UpstreamRefusal):
            return failed_revocation(answer)
        return read_revocation_response(settings, answer, now=self._clock())

    async def _token_endpoint(
        self,
        settings: ProviderSettings,
        fields: Mapping[str, str],
        signing_key: SigningKey | None,
        *,
        timeout_seconds: float | None = None,
    ) -> HttpAnswer | UpstreamRefusal:
        try:
            endpoints = await self._endpoints(settings)
            address = required(endpoints.token_endpoint, "token endpoint")
            request = self._encoded(settings, endpoints, address, fields, signing_key)
        except (ProviderRefused, OutboundRefused, OutboundFailed) as failure:
            return _refusal_of(failure)
        return await self._send(settings, request, timeout_seconds=timeout_seconds)

    def _encoded(
        self,
        settings: ProviderSettings,
        endpoints: Endpoints,
        address: str,
        fields: Mapping[str, str],
        signing_key: SigningKey | None,
    ) -> token_request.EncodedRequest:
        method = authentication_method(settings, endpoints.token_auth_methods)
        signer = AssertionSigner(self._clock(), signing_key)
        authentication = authenticate_client(settings, method, address, signer=signer)
        return token_request.encoded(settings, address, fields, authentication)

    async def _endpoints(self, settings: ProviderSettings) -> Endpoints:
        """Configured addresses, completed by published metadata where one that is needed is missing."""
        is_complete = settings.is_complete(needs_keys=False)
        return endpoints_of(settings, {} if is_complete else await self._discovery.oauth_metadata(settings))

    async def _endpoints_for_revocation(self, settings: ProviderSettings) -> Endpoints:
        is_complete = settings.is_complete(needs_keys=False)
        if settings.revocation_endpoint is not None and is_complete:
            return endpoints_of(settings, {})
        try:
            return endpoints_of(settings, await self._discovery.oauth_metadata(settings))
        except OutboundFailed as failed:
            if failed.temporary or failed.status is None or not is_complete:
                raise
        except ProviderRefused:
            if not is_complete:
                raise
        # Configured by hand, and publishing nothing of its own: it has the endpoints that are configured.
        return endpoints_of(settings, {})

    async def _send(
        self,
        settings: ProviderSettings,
        request: token_request.EncodedRequest,
        *,
        is_check: bool = False,
        timeout_seconds: float | None = None,
    ) -> HttpAnswer | UpstreamRefusal:
        """The answer, within the provider's limits; what it says of the provider's health is recorded."""
        zone_id, provider_id = settings.partition, settings.provider_id or settings.issuer
        try:
            async with self._concurrency.slot(zone_id, provider_id) as turn_until:
                permit = UNCONDITIONAL if is_check else self._breakers.admit(zone_id, provider_id)
                if not isinstance(permit, Permit):
                    return _temporary("circuit_open", permit)
                return await self._within_circuit(
                    request, (zone_id, provider_id), permit, turn_until, timeout_seconds=timeout_seconds
                )
        except ProviderBusy:
            return _temporary("busy", BUSY_RETRY_SECONDS)

    async def _within_circuit(
        self,
        request: token_request.EncodedRequest,
        provider: tuple[str, str],
        permit: Permit,
        turn_until: float,
        *,
        timeout_seconds: float | None,
    ) -> HttpAnswer | UpstreamRefusal:
        is_settled = False
        try:
            answer = await self._outbound.post(
                request.url,
                request.body,
                headers=request.headers,
                max_bytes=MAX_RESPONSE_BYTES,
                partition=" ".join(provider),
                timeout_seconds=timeout_seconds,
                certificate=request.certificate,
                turn_until=turn_until,
            )
            if answer.status == 429 or answer.status >= 500:
                seconds = answer.headers.get("retry-after", "").strip()
                retry_after = float(seconds) if seconds.isascii() and seconds.isdecimal() else None
                self._breakers.failed(*provider, permit, retry_after)
            else:
                self._breakers.succeeded(*provider)
            is_settled = True
            return answer
        except (OutboundBusy, OutboundRefused) as unasked:  # which says nothing of the provider's health
            return _refusal_of(unasked)
        except OutboundFailed as failed:
            self._breakers.failed(*provider, permit, None)
            is_settled = True
            return _refusal_of(failed)
        finally:
            if not is_settled:
                self._breakers.abandoned(*provider, permit)


def _refusal_of(failure: ProviderRefused | OutboundRefused | OutboundFailed) -> UpstreamRefusal:
    if isinstance(failure, OutboundBusy):
        return _temporary("busy", BUSY_RETRY_SECONDS)
    if isinstance(failure, OutboundFailed):
        kind = RefusalKind.TEMPORARY if failure.temporary else RefusalKind.MISCONFIGURED
        code = "unreachable" if failure.temporary else "invalid_response"
        return UpstreamRefusal(kind, code, status=failure.status)
    if isinstance(failure, OutboundRefused):
        return UpstreamRefusal(RefusalKind.MISCONFIGURED, "address_refused", detail=str(failure))
    detail = str(failure) if failure.code == "not_configured" else ""
    return UpstreamRefusal(RefusalKind.MISCONFIGURED, failure.code, detail=detail)


def _temporary(code: str, seconds: float) -> UpstreamRefusal:
    return UpstreamRefusal(RefusalKind.TEMPORARY, code, retry_after_seconds=max(1, ceil(seconds)))

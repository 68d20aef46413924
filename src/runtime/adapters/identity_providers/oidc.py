"""The client of external identity providers: discovery, authorization requests, and their token endpoint."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from runtime.adapters.identity_providers.answers import (
    Endpoints,
    ProviderIdentity,
    ProviderRefused,
    check_id_token,
    endpoints_of,
    identity_of,
    required,
    text_of,
)
from runtime.adapters.identity_providers.discovery import ProviderDiscovery
from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.keys.jose import CompactJws, InvalidJwt
from runtime.adapters.keys.remote import RemoteKeys
from runtime.adapters.outbound import Outbound, OutboundFailed
from runtime.adapters.upstream_oauth.authorization_request import authorization_url, with_query
from runtime.adapters.upstream_oauth.client_authentication import (
    AssertionSigner,
    authenticate_client,
    authentication_method,
)
from runtime.adapters.upstream_oauth.token_request import code_redemption, encoded
from runtime.adapters.upstream_oauth.token_response import (
    MAX_RESPONSE_BYTES,
    RefusalKind,
    UpstreamTokens,
    read_token_response,
)
from runtime.domain.oauth import pkce
from runtime.domain.oauth.logout import LOGOUT_TOKEN_TYPE, LogoutToken, read_logout_token

_BASE_SCOPES = ("openid", "profile", "email")


class OpenIDProviders:
    """Every outside provider of every zone; what they publish is remembered for five minutes."""

    def __init__(self, outbound: Outbound, keys: RemoteKeys) -> None:
        self._outbound = outbound
        self._keys = keys
        self._discovery = ProviderDiscovery(outbound)

    async def endpoints(self, settings: ProviderSettings, *, needs_keys: bool = False) -> Endpoints:
        """Where the provider is reached. Configured addresses come first; discovery fills in the rest.

        Args:
            needs_keys: discover unless the JWK set address is configured too.
        Raises: ProviderRefused when the published issuer is not byte for byte the configured one;
            OutboundRefused, OutboundFailed when discovery is needed and does not work.
        """
        found = (
            {} if settings.is_complete(needs_keys=needs_keys) else await self._discovery.metadata(settings)
        )
        return endpoints_of(settings, found)

    async def authorization_url(
        self,
        settings: ProviderSettings,
        *,
        redirect_uri: str,
        state: str,
        verifier: str,
        nonce: str | None,
        scopes: Iterable[str] = (),
        resources: Sequence[str] = (),
        login_hint: str | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> str:
        """Where to send the browser.

        Args:
            verifier: for PKCE, left out when the provider lists challenge methods without S256.
            nonce: for a sign-in, which adds the OpenID scopes; None asks for access only.
            resources: sent when the provider is configured to take them.
            parameters: `prompt`, `max_age`, `acr_values` and the like.
        Raises: ProviderRefused, OutboundRefused, OutboundFailed.
        """
        endpoints = await self.endpoints(settings)
        address = required(endpoints.authorization_endpoint, "authorization endpoint")
        wanted = [*(_BASE_SCOPES if nonce is not None else ()), *scopes]
        own = {**(parameters or {})}
        if nonce is not None:
            wanted += settings.openid_scopes
            own["nonce"] = nonce
        if login_hint:
            own["login_hint"] = login_hint
        return authorization_url(
            settings,
            address,
            redirect_uri=redirect_uri,
            state=state,
            code_challenge=pkce.challenge_of(verifier) if endpoints.takes_pkce else None,
            scopes=wanted,
            resources=resources,
            parameters=own,
        )

    async def check_callback(self, settings: ProviderSettings, issuer: str | None) -> None:
        """Check the `iss` a callback came with, before its code is used. Spec: RFC 9207 section 2.4.

        Raises: ProviderRefused when it is another issuer, or missing although the provider says it sends
            one.
        """
        if issuer is None:
            if not (await self.endpoints(settings)).sends_issuer:
                return
            raise ProviderRefused("issuer_mismatch", "the callback names no issuer")
        if issuer != settings.issuer:
            raise ProviderRefused("issuer_mismatch", "the callback names another issuer")

    async def redeem(
        self,
        settings: ProviderSettings,
        *,
        code: str,
        verifier: str,
        redirect_uri: str,
        resource: str | None = None,
        signer: AssertionSigner,
    ) -> UpstreamTokens:
        """The tokens for an authorization code.

        Args:
            resource: sent when the provider is configured to take one.
            signer: for the methods with an assertion or a certificate.
        Raises: ProviderRefused with the code of `UpstreamRefusal`; OutboundRefused, OutboundFailed.
        """
        endpoints = await self.endpoints(settings)
        address = required(endpoints.token_endpoint, "token endpoint")
        method = authentication_method(settings, endpoints.token_auth_methods)
        fields = code_redemption(
            settings,
            code=code,
            redirect_uri=redirect_uri,
            code_verifier=verifier if endpoints.takes_pkce else None,
            resource=resource,
        )
        authentication = authenticate_client(settings, method, address, signer=signer)
        request = encoded(settings, address, fields, authentication)
        answer = await self._outbound.post(
            request.url,
            request.body,
            headers=request.headers,
            max_bytes=MAX_RESPONSE_BYTES,
            partition=settings.partition,
            certificate=request.certificate,
        )
        result = read_token_response(settings, answer, scopes=frozenset())
        if isinstance(result, UpstreamTokens):
            return result
        if result.kind is RefusalKind.TEMPORARY:
            raise OutboundFailed(result.explanation, temporary=True, status=answer.status)
        raise ProviderRefused(result.code, result.explanation)

    async def identify(
        self, settings: ProviderSettings, tokens: UpstreamTokens, *, nonce: str, now: datetime
    ) -> ProviderIdentity:
        """Who signed in, from the verified ID token.

        Raises: ProviderRefused with `invalid_id_token`; OutboundRefused, OutboundFailed when keys are
            unavailable.
        Spec: OpenID Connect Core section 3.1.3.7.
        """
        client_id = required(settings.client_id, "client id")
        jwks_uri = await self._keys_address(settings)
        if tokens.id_token is None:
            raise ProviderRefused("invalid_id_token", "the provider sent no ID token")
        try:
            claims = await self._keys.verify(
                tokens.id_token,
                jwks_uri=jwks_uri,
                issuer=settings.issuer,
                audience=client_id,
                now=now,
                partition=settings.partition,
            )
            check_id_token(claims, client_id, nonce, tokens.access_token)
        except InvalidJwt as failure:
            raise ProviderRefused("invalid_id_token", str(failure)) from failure
        return identity_of(settings, claims)

    async def check_signature(self, settings: ProviderSettings, jws: CompactJws) -> None:
        """Check that the provider has signed an assertion. Of its claims nothing is looked at.

        Raises: InvalidJwt; ProviderRefused; OutboundRefused, OutboundFailed when keys are unavailable.
        """
        jwks_uri = await self._keys_address(settings)
        await self._keys.check_signature(jws, jwks_uri, partition=settings.partition, strict=True)

    async def userinfo(
        self, settings: ProviderSettings, tokens: UpstreamTokens, *, subject: str
    ) -> Mapping[str, Any]:
        """The claims of the userinfo endpoint, empty without one.

        Raises: ProviderRefused when they are about another subject; OutboundRefused, OutboundFailed.
        """
        address = (await self.endpoints(settings)).userinfo_endpoint
        if address is None:
            return {}
        fetched = await self._outbound.get_json_with_bearer(
            address, tokens.access_token, partition=settings.partition
        )
        if not isinstance(fetched.json, dict) or fetched.json.get("sub") != subject:
            raise ProviderRefused("invalid_response", "userinfo is about another subject")
        return fetched.json

    async def end_session_address(self, settings: ProviderSettings, query: Mapping[str, str]) -> str | None:
        """Where to send a browser that leaves the provider; None when the provider has no such place.

        Only discovery knows it, so a provider without published metadata has none.

        Raises: ProviderRefused, OutboundRefused, OutboundFailed.
        Spec: OpenID Connect RP-Initiated Logout section 2.1.
        """
        address = text_of(await self._discovery.metadata(settings), "end_session_endpoint")
        if address is None or urlsplit(address).scheme not in ("http", "https"):
            return None
        return with_query(address, {**query, "client_id": required(settings.client_id, "client id")})

    async def logout_token(self, settings: ProviderSettings, token: str, *, now: datetime) -> LogoutToken:
        """Which session the provider says has ended.

        Raises: ProviderRefused with `invalid_logout_token`; OutboundRefused, OutboundFailed when keys are
            unavailable.
        Spec: OpenID Connect Back-Channel Logout section 2.6.
        """
        client_id = required(settings.client_id, "client id")
        jwks_uri = await self._keys_address(settings)
        try:
            claims = await self._keys.verify(
                token,
                jwks_uri=jwks_uri,
                issuer=settings.issuer,
                audience=client_id,
                now=now,
                typ=LOGOUT_TOKEN_TYPE,
                partition=settings.partition,
            )
            return read_logout_token(claims)
        except (InvalidJwt, ValueError) as failure:
            raise ProviderRefused("invalid_logout_token", str(failure)) from failure

    async def _keys_address(self, settings: ProviderSettings) -> str:
        """Where the provider's keys are: nothing is discovered where that is configured."""
        jwks_uri = settings.jwks_uri or (await self.endpoints(settings, needs_keys=True)).jwks_uri
        return required(jwks_uri, "JWK set address")

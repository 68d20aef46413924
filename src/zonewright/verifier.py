"""Verifies access tokens of one zone for one resource, and builds the challenge for a refused request."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from zonewright import dpop
from zonewright.access_token import AccessToken
from zonewright.dpop import DpopProofs, ReplayCache
from zonewright.errors import (
    DpopRefused,
    MissingToken,
    RequestMalformed,
    RequestRefused,
    ScopeRequired,
    TokenRefused,
)
from zonewright.fetching import new_client
from zonewright.keys import ZoneKeys
from zonewright.metadata import ZoneMetadata
from zonewright.revocations import MAX_AGE_SECONDS, RevocationList
from zonewright.signatures import NotSigned, verified_claims

_TYPE = "at+jwt"  # RFC 9068 section 4
_MAX_TOKEN_CHARS = 16_384
_WELL_KNOWN = "/.well-known/oauth-protected-resource"


class Verifier:
    """Verifies tokens that *issuer* made for *resource*.

    Args:
        issuer: the zone's issuer, as its metadata has it.
        resource: the resource's identifier as registered in the zone: an absolute URL.
        former_issuers: issuers that the zone had before it was moved, while their tokens are still accepted.
            Keys, metadata and revocation list are those of *issuer*.
        scopes: what every request needs: the integrations require it, and challenges name it.
        scopes_supported: further scopes that the metadata offers: those that only some requests need.
        revocations: consult the zone's revocation list, so that a token that is revoked is refused within
            about *revocations_max_age_seconds*. Without it a token is accepted until it expires.
        replay: where used DPoP proofs are remembered; in this process when left out.
        leeway_seconds: by how much the clocks of zone and server may differ.
        http: a client to use; left out, one is made, and closed by `aclose`.
    """

    def __init__(
        self,
        issuer: str,
        resource: str,
        *,
        former_issuers: Sequence[str] = (),
        scopes: Sequence[str] = (),
        scopes_supported: Sequence[str] = (),
        revocations: bool = True,
        revocations_max_age_seconds: float = MAX_AGE_SECONDS,
        replay: ReplayCache | None = None,
        leeway_seconds: int = 5,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        if isinstance(former_issuers, str):
            raise TypeError("`former_issuers` must be a list of issuers, not one text")
        self.issuer, self.resource, self.scopes = issuer, resource, tuple(scopes)
        self.former_issuers = tuple(former_issuers)
        self.scopes_supported = tuple(dict.fromkeys([*scopes, *scopes_supported]))
        self._own_http = http is None
        self._http = http or new_client()
        self._keys = ZoneKeys(self._http, ZoneMetadata(self._http, issuer))
        self._revocations = (
            RevocationList(
                self._http,
                issuer,
                self._keys,
                max_age_seconds=revocations_max_age_seconds,
                leeway_seconds=leeway_seconds,
            )
            if revocations
            else None
        )
        self._proofs = DpopProofs(replay)
        self._leeway = leeway_seconds

    async def authenticate(
        self, authorization: str | Sequence[str] | None, *, method: str, url: str, proofs: Sequence[str] = ()
    ) -> AccessToken:
        """The access token of a request, verified, with its DPoP proof where it is bound to a key.

        Args:
            authorization: the request's `Authorization` header, or the values of all of them.
            url: the request's address as clients know it; never made from its Host header.
            proofs: the values of its `DPoP` headers.
        Raises: RequestRefused; ZoneUnreachable.
        """
        scheme, _, credentials = _only(authorization).partition(" ")
        if scheme.lower() not in ("bearer", "dpop") or not credentials.strip():
            raise MissingToken("the request has no access token")
        token = await self._verified(credentials.strip())
        if token.jkt is None:
            if scheme.lower() == "dpop":
                raise TokenRefused("the token is not bound to a key; send it as a bearer token")
            return token
        if scheme.lower() != "dpop":
            raise TokenRefused("the token is bound to a key; send it as `DPoP`, with a proof")
        if len(proofs) != 1:
            raise DpopRefused("the request must have exactly one DPoP proof")
        await self._proofs.check(proofs[0], method=method, url=url, token=credentials.strip(), jkt=token.jkt)
        return token

    async def verify(self, token: str) -> AccessToken:
        """A bearer token, verified. One that is bound to a key is refused: use `authenticate`.

        Raises: TokenRefused; ZoneUnreachable.
        """
        verified = await self._verified(token)
        if verified.jkt is not None:
            raise TokenRefused("the token is bound to a key, and no proof came with it")
        return verified

    async def _verified(self, token: str) -> AccessToken:
        verified = AccessToken.from_claims(await self._claims(token), raw=token)
        if verified.audience != self.resource:  # PyJWT accepts a list that contains it
            raise TokenRefused("the token is for another resource")
        if self._revocations is not None and await self._revocations.is_revoked(verified):
            raise TokenRefused("the token was revoked")
        return verified

    async def _claims(self, token: str) -> Mapping[str, Any]:
        if len(token) > _MAX_TOKEN_CHARS:
            raise TokenRefused("the token is too long")
        try:
            return await verified_claims(
                token,
                self._keys,
                typ=_TYPE,
                audience=self.resource,
                issuer=[self.issuer, *self.former_issuers],
                leeway=self._leeway,
                options={"require": ["iss", "sub", "aud", "exp", "iat", "jti", "client_id"]},
            )
        except NotSigned as failure:
            raise TokenRefused(f"the token cannot be verified: {failure}") from failure

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What this resource publishes about itself. Spec: RFC 9728 section 2."""
        offered = {"scopes_supported": list(self.scopes_supported)} if self.scopes_supported else {}
        return {
            "resource": self.resource,
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
            "dpop_signing_alg_values_supported": list(dpop.ALGORITHMS),
            **offered,
        }

    @property
    def metadata_path(self) -> str:
        """The path at which `metadata` is served. Spec: RFC 9728 section 3.1."""
        path = urlsplit(self.resource).path
        return _WELL_KNOWN + (path if path != "/" else "")

    @property
    def origin(self) -> str:
        """Scheme and authority of the resource, under which clients know this server."""
        parts = urlsplit(self.resource)
        return f"{parts.scheme}://{parts.netloc}"

    def challenge(self, refused: RequestRefused) -> str:
        """The `WWW-Authenticate` header of a refusal. Spec: RFC 6750 3, RFC 9449 7.1, RFC 9728 5.1.

        Its scopes are all that the request needs: those of every request, and those that were required of
        this one. Clients ask for exactly these, and a token without the former would be refused next.
        """
        scopes = self.scopes
        if isinstance(refused, ScopeRequired):
            scopes = tuple(dict.fromkeys([*scopes, *refused.scopes]))
            refused = ScopeRequired(scopes)
        scheme = "DPoP" if isinstance(refused, DpopRefused) else "Bearer"
        pairs = {"error": refused.error, "error_description": str(refused)} if refused.error else {}
        if scopes:
            pairs["scope"] = " ".join(scopes)
        if scheme == "DPoP":
            pairs["algs"] = " ".join(dpop.ALGORITHMS)
        pairs["resource_metadata"] = self.origin + self.metadata_path
        return f"{scheme} " + ", ".join(f'{name}="{_quoted(str(value))}"' for name, value in pairs.items())

    async def aclose(self) -> None:
        """Let go of connections."""
        if self._own_http:
            await self._http.aclose()


def _quoted(value: str) -> str:
    """The text as a quoted string takes it: printable ASCII, no quotes. Spec: RFC 9110 section 5.6.4."""
    return "".join(char if " " <= char <= "~" and char not in '"\\' else "'" for char in value)


def _only(authorization: str | Sequence[str] | None) -> str:
    """The one `Authorization` header of a request; empty without one. Raises RequestMalformed for several."""
    if authorization is None or isinstance(authorization, str):
        return authorization or ""
    if len(authorization) > 1:
        raise RequestMalformed("the request has more than one `Authorization` header")
    return authorization[0] if authorization else ""

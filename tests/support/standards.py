"""The standards that a zone implements, and related ones that it does not, as in docs/standards.md."""

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True)
class Draft:
    """The revision of an Internet-Draft that the service was compared with, and its date.

    `python -m tests.support.drafts` warns when it is old: then a newer one may say something else.

    Attributes:
        looked: when somebody last looked for a newer revision or an RFC, and found none; None for never.
    """

    name: str
    revision: str
    published: date
    looked: date | None = None

    @property
    def known(self) -> date:
        """The last day on which this was the newest, as far as anybody here knows."""
        return self.looked or self.published


@dataclass(frozen=True)
class Standard:
    """A standard.

    Attributes:
        name: what `@pytest.mark.standard(name)` says.
        held: what is implemented, in one sentence.
        address: URL of its text.
        refused: requests that use it are refused, and the marked tests prove that.
        draft: what it is while it is no standard yet.
    """

    name: str
    title: str
    held: str
    elsewhere: str = ""
    refused: bool = False
    draft: Draft | None = None

    @property
    def address(self) -> str:
        """URL of the standard's text."""
        if self.draft is not None:
            return f"https://datatracker.ietf.org/doc/{self.draft.name}/"
        return self.elsewhere or f"https://www.rfc-editor.org/rfc/rfc{self.name.removeprefix('RFC ')}"


_OPENID = "https://openid.net/specs"

STANDARDS = (
    Standard(
        "OAuth 2.1",
        "",
        "Authorization code, refresh and client credentials; no implicit and no password grant; "
        "a parameter sent twice is refused; a code works once",
        draft=Draft("draft-ietf-oauth-v2-1", "16", date(2026, 9, 3)),
    ),
    Standard(
        "RFC 6749", "OAuth 2.0", "Error codes, statuses and client authentication of the token endpoint"
    ),
    Standard(
        "RFC 6750",
        "Bearer tokens",
        "Tokens only in the `Authorization` header; challenges that name what is missing",
    ),
    Standard(
        "RFC 7009",
        "Token revocation",
        "A refresh token revokes its family; unknown tokens and tokens of other clients get the same 200",
    ),
    Standard("RFC 7515", "JWS", "The algorithm comes from the key record, never from the header"),
    Standard("RFC 7517", "JWK", "RSA and EC keys, public members only, with an `ETag`"),
    Standard(
        "RFC 7523",
        "Assertions",
        "`private_key_jwt` and workload tokens as client authentication, the JWT bearer grant",
    ),
    Standard(
        "Assertion audiences (rfc7523bis)",
        "",
        "The issuer is the only audience of client assertions, unless the zone also takes its token endpoint",
        draft=Draft("draft-ietf-oauth-rfc7523bis", "11", date(2026, 4, 28), looked=date(2026, 11, 27)),
    ),
    Standard(
        "RFC 7591",
        "Dynamic client registration",
        "The same metadata gives the same client; enabled by a setting of the zone",
    ),
    Standard("RFC 7636", "PKCE", "S256 only; a `code_verifier` without a challenge is refused"),
    Standard("RFC 7638", "JWK thumbprint", "The `kid` of every key"),
    Standard(
        "RFC 7662", "Introspection", 'For the audience of a token; every other answer is `{"active": false}`'
    ),
    Standard(
        "RFC 8252",
        "Native applications",
        "Loopback redirect URIs with any port; private-use schemes with a dot",
    ),
    Standard(
        "RFC 8414",
        "Server metadata",
        "All forms of the metadata URL (appended, inserted, the issuer with a slash at its end) have the "
        "same answer, whatever the `Host` header",
    ),
    Standard(
        "RFC 8693",
        "Token exchange",
        "One resource per exchange; `act` is always nested; scopes only narrow within a resource, and for "
        "another resource consent, grant and policy limit them",
    ),
    Standard(
        "RFC 8705",
        "Mutual TLS",
        "Client certificates at outside providers; the zone itself takes none, and binds tokens with DPoP",
    ),
    Standard(
        "RFC 8707",
        "Resource indicators",
        "Recorded in the authorization request, narrowed at the token endpoint",
    ),
    Standard("RFC 8725", "JWT best practice", "A `typ` for each class of token; all known forgeries fail"),
    Standard("RFC 9068", "JWT access tokens", "`at+jwt` with exactly one audience"),
    Standard(
        "RFC 9126",
        "Pushed authorization requests",
        "Authenticated as at the token endpoint, for the same audiences; used once",
    ),
    Standard("RFC 9207", "Issuer identification", "`iss` in every authorization response"),
    Standard(
        "RFC 9449",
        "DPoP",
        "Proofs are accepted once; bound access tokens, and bound refresh tokens of public clients",
    ),
    Standard(
        "RFC 9470",
        "Step-up authentication",
        "`acr_values` and `max_age` are sent to the provider and verified; both are essential",
    ),
    Standard(
        "RFC 9700", "Security best practice", "Exact redirect URIs, rotated refresh tokens, no referrer"
    ),
    Standard(
        "RFC 9728",
        "Protected resource metadata",
        "For the management API and its bundles; in every challenge",
    ),
    Standard(
        "OpenID Connect Core",
        "",
        "ID tokens with `nonce`, `auth_time` and `at_hash`; `prompt`, `max_age`, `id_token_hint`; userinfo",
        f"{_OPENID}/openid-connect-core-1_0.html",
    ),
    Standard(
        "OpenID Connect Discovery",
        "",
        "For each zone, and of the identity providers of zones",
        f"{_OPENID}/openid-connect-discovery-1_0.html",
    ),
    Standard(
        "OAuth 2.0 Form Post Response Mode",
        "",
        "`response_mode=form_post`: a page posts the response, under a content policy that names its script "
        "and the client's origin; `query` is the other mode",
        f"{_OPENID}/oauth-v2-form-post-response-mode-1_0.html",
    ),
    Standard(
        "OpenID Connect RP-Initiated Logout",
        "",
        "Exact `post_logout_redirect_uri`, only with a verified hint or client; without an ID token of the "
        "same session the user confirms",
        f"{_OPENID}/openid-connect-rpinitiated-1_0.html",
    ),
    Standard(
        "OpenID Connect Back-Channel Logout",
        "",
        "Received from a zone's provider, ends sessions and all tokens exchanged in them; sent to clients, "
        "and `offline_access` spares the refresh token alone",
        f"{_OPENID}/openid-connect-backchannel-1_0.html",
    ),
    Standard(
        "Client ID Metadata Document",
        "",
        "Fetched with SSRF protection if the allowlist permits it; a change withdraws consent",
        draft=Draft("draft-ietf-oauth-client-id-metadata-document", "02", date(2026, 7, 6)),
    ),
    Standard(
        "MCP authorization",
        "",
        "Revision 2026-07-28: metadata documents, registration for clients without one, authorization code, "
        "refresh and step-up with an unmodified client",
        "https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization",
    ),
    Standard(
        "RFC 9101",
        "Signed authorization requests",
        "`request`, and a `request_uri` that was not pushed, get an error; nothing is fetched",
        refused=True,
    ),
    Standard(
        "RFC 9396",
        "Rich authorization requests",
        "`authorization_details` would restrict the request, so it is never ignored",
        refused=True,
    ),
    Standard(
        "RFC 7592", "Client registration management", "Clients register again when their metadata changes"
    ),
    Standard(
        "RFC 8628",
        "Device flow",
        "No device codes; command line tools use a loopback redirect URI",
    ),
    Standard("RFC 9701", "Signed introspection responses", "Responses are plain JSON"),
    Standard(
        "Identity chaining",
        "",
        "Tokens of other authorization servers are accepted only in the JWT bearer grant",
        draft=Draft("draft-ietf-oauth-identity-chaining", "14", date(2026, 6, 2)),
    ),
    Standard(
        "Identity assertion grant (ID-JAG)",
        "",
        "Neither issued nor accepted, and not in the metadata",
        draft=Draft(
            "draft-ietf-oauth-identity-assertion-authz-grant",
            "04",
            date(2026, 5, 21),
            looked=date(2026, 11, 27),
        ),
    ),
    Standard(
        "OAuth actor profile",
        "",
        "Each level of `act` has `sub`, `iss`, `client_id` and `sub_profile`; the token has `sub_profile` "
        "of its `sub`",
        draft=Draft("draft-mcguinness-oauth-actor-profile", "01", date(2026, 10, 9)),
    ),
    Standard(
        "Transaction tokens",
        "",
        "Exchanged tokens name user and actors; there are no separate transaction tokens",
        draft=Draft("draft-ietf-oauth-transaction-tokens", "10", date(2026, 7, 6)),
    ),
    Standard(
        "Shared signals (SSF, CAEP)",
        "",
        "Revocations are published in the revocation list and sent by back-channel logout",
        f"{_OPENID}/openid-sharedsignals-framework-1_0.html",
    ),
    Standard("RFC 7644", "SCIM", "Users are created by sign-in, by invitation, or by an operator"),
)

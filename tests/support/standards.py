"""The standards that a zone speaks, and those near them that it does not, as docs/standards.md has them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Standard:
    """A standard.

    Attributes:
        name: what `@pytest.mark.standard(name)` says.
        held: what of it can be relied on here, in one sentence.
        address: where its text stands.
        refused: whoever asks for it is refused, and the marked tests prove that.
    """

    name: str
    title: str
    held: str
    elsewhere: str = ""
    refused: bool = False

    @property
    def address(self) -> str:
        """Where the text of the standard stands."""
        return self.elsewhere or f"https://www.rfc-editor.org/rfc/rfc{self.name.removeprefix('RFC ')}"


_OPENID = "https://openid.net/specs"
_DRAFTS = "https://datatracker.ietf.org/doc"

STANDARDS = (
    Standard(
        "OAuth 2.1",
        "",
        "Authorization code, refresh and client credentials; no implicit and no password grant; "
        "a parameter sent twice is refused; a code works once",
        "https://datatracker.ietf.org/doc/draft-ietf-oauth-v2-1/",
    ),
    Standard(
        "RFC 6749", "OAuth 2.0", "Error codes, statuses and client authentication of the token endpoint"
    ),
    Standard(
        "RFC 6750", "Bearer tokens", "Tokens in the header alone; challenges that tell what was missing"
    ),
    Standard(
        "RFC 7009",
        "Token revocation",
        "A refresh token ends its family; an unknown or foreign token is answered with 200 alike",
    ),
    Standard("RFC 7515", "JWS", "The algorithm comes from our key record, never from the header"),
    Standard("RFC 7517", "JWK", "RSA and EC keys, public members only, with an entity tag"),
    Standard(
        "RFC 7523",
        "Assertions",
        "`private_key_jwt` and workload tokens as client authentication, the JWT bearer grant",
    ),
    Standard(
        "RFC 7591", "Dynamic client registration", "The same metadata is the same client; a switch a zone"
    ),
    Standard("RFC 7636", "PKCE", "S256 only; a verifier nobody announced is refused"),
    Standard("RFC 7638", "JWK thumbprint", "The `kid` of every key"),
    Standard("RFC 7662", "Introspection", 'For the audience of a token; all else is `{"active": false}`'),
    Standard(
        "RFC 8252", "Native applications", "Loopback addresses with any port; private schemes with a dot"
    ),
    Standard(
        "RFC 8414", "Server metadata", "All four forms of the address answer alike, whatever the Host header"
    ),
    Standard(
        "RFC 8693",
        "Token exchange",
        "One resource an exchange; `act` always nested; scopes narrow within a resource, and for another one "
        "consent, grant and policy bound them",
    ),
    Standard("RFC 8707", "Resource indicators", "Recorded at authorize, narrowed at the token endpoint"),
    Standard(
        "RFC 8725", "JWT best practice", "A `typ` for each class of token; forgeries of every known form fail"
    ),
    Standard("RFC 9068", "JWT access tokens", "`at+jwt` with exactly one audience"),
    Standard(
        "RFC 9126",
        "Pushed authorization requests",
        "Authenticated as at the token endpoint, for the same audiences; used once",
    ),
    Standard("RFC 9207", "Issuer identification", "`iss` in every answer that goes back by redirect"),
    Standard(
        "RFC 9449", "DPoP", "Proofs used once; bound access tokens, and refresh tokens of public clients"
    ),
    Standard(
        "RFC 9470",
        "Step-up authentication",
        "`acr_values` and `max_age` are asked of the provider and verified; both are essential",
    ),
    Standard(
        "RFC 9700", "Security best practice", "Exact redirect addresses, rotated refresh tokens, no referrer"
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
        "Of each zone, and of the providers that sign its users in",
        f"{_OPENID}/openid-connect-discovery-1_0.html",
    ),
    Standard(
        "OpenID Connect RP-Initiated Logout",
        "",
        "Exact return addresses, only with a verified hint or client; without an ID token of the same "
        "sign-in the user is asked",
        f"{_OPENID}/openid-connect-rpinitiated-1_0.html",
    ),
    Standard(
        "OpenID Connect Back-Channel Logout",
        "",
        "Taken from a zone's provider, it ends sessions and every chain that began in them; told to clients",
        f"{_OPENID}/openid-connect-backchannel-1_0.html",
    ),
    Standard(
        "Client ID Metadata Document",
        "",
        "Fetched by a guarded client after the zone's allowlist; a change withdraws consent",
        "https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/",
    ),
    Standard(
        "MCP authorization",
        "",
        "Registration, metadata documents, code, refresh and step-up with an unmodified client",
        "https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization",
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
        "`authorization_details` would limit what is asked for, so it is never ignored",
        refused=True,
    ),
    Standard("RFC 7592", "Client registration management", "Clients register again when they change"),
    Standard(
        "RFC 8628",
        "Device flow",
        "There are no device codes; command line tools listen on a loopback address",
    ),
    Standard("RFC 8705", "Mutual TLS", "DPoP binds tokens to keys; TLS ends before the service"),
    Standard("RFC 9701", "Signed introspection answers", "Answers are JSON"),
    Standard(
        "Identity chaining",
        "",
        "Tokens of other authorization servers are not taken but for the JWT bearer grant",
        f"{_DRAFTS}/draft-ietf-oauth-identity-chaining/",
    ),
    Standard(
        "Identity assertion grant (ID-JAG)",
        "",
        "Neither issued nor taken, and not in the metadata",
        f"{_DRAFTS}/draft-ietf-oauth-identity-assertion-authz-grant/",
    ),
    Standard(
        "Transaction tokens",
        "",
        "Exchanged tokens say who acts for whom; there are no further ones",
        f"{_DRAFTS}/draft-ietf-oauth-transaction-tokens/",
    ),
    Standard(
        "Shared signals (SSF, CAEP)",
        "",
        "Revocations are told by the zone's own list and by back-channel logout",
        f"{_OPENID}/openid-sharedsignals-framework-1_0.html",
    ),
    Standard("RFC 7644", "SCIM", "Users come by signing in, by invitation, or from the operator"),
)

"""The deviations from the interface specification, as in docs/deviations.md."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Deviation:
    """A sentence of the specification that the service departs from on purpose.

    Attributes:
        name: what `@pytest.mark.deviation(name)` says.
        part: the heading of the specification that the sentence stands under.
        specified: what it says, in other words.
        behaviour: what the service does.
        reason: why.
    """

    name: str
    part: str
    specified: str
    behaviour: str
    reason: str


DEVIATIONS = (
    Deviation(
        "default-encryption-key",
        "Resources: Zone",
        "without `encryption_key` the default key of the cloud is used",
        "the key of the installation: a key file, unless settings name a key of AWS KMS or Vault",
        "the service runs without a cloud, and its default must not depend on one",
    ),
    Deviation(
        "plain-text",
        "Resources: Common",
        "names and descriptions are strings",
        "texts with HTML tags or control characters are refused",
        "they are shown on pages, in terminals and in logs",
    ),
    Deviation(
        "prefix-host",
        "Resources: Resource (identifier as a prefix)",
        "protocol and host have to match exactly",
        "the case of both, and the default port, make no difference",
        "RFC 3986 section 6.2: they are one address, whichever way it is written",
    ),
    Deviation(
        "order-of-checks",
        "Endpoints: Zone OAuth endpoints",
        "the user's authorization is checked before the application's dependency",
        "dependency and scopes are checked first",
        "nobody is asked to consent to what the application could not have afterwards",
    ),
    Deviation(
        "encryption-key",
        "Resources: Zone",
        "`encryption_key` names a key of a cloud key-management service",
        "the ARN of a key of AWS KMS that the operator allows (`ZONED_ZONE_ENCRYPTION_KEYS`); no alias",
        "a request must not choose where the service's credentials go, and an alias can be moved",
    ),
    Deviation(
        "directory",
        "Resources: User, Group",
        "groups with `external: true` are synchronized from a directory",
        "there is no synchronization: groups are made by the API, and have `external: false`",
        "users come from sign-in and invitations, groups from git; SCIM is not served",
    ),
    Deviation(
        "metadata-uri",
        "Resources: Application, Resource, Provider",
        "`docs_url` and `icon_url` are strings",
        "only absolute URIs of at most 2,048 characters",
        "pages link to them",
    ),
    Deviation(
        "native-https",
        "Resources: Resource (`application_type`)",
        "native clients have `localhost` URLs or URIs of a scheme of their own",
        "so it is for resources; a native client that registers itself may have https URLs, too",
        "RFC 8252 section 7.2: operating systems let applications claim https links",
    ),
    Deviation(
        "prefix-fragment",
        "Resources: Resource (identifier as a prefix)",
        "a prefix ends at path, query and fragment boundaries",
        "at path and query boundaries; a `resource` with a fragment is refused (`invalid_target`)",
        "RFC 8707 section 2 forbids fragments in resource indicators",
    ),
    Deviation(
        "token-type",
        "Resources: TokenResponse; Zone OAuth endpoints",
        "`token_type` is always `Bearer`",
        "`DPoP` for a token that is bound to the key of its holder",
        "RFC 9449 section 5: who does not know that a token is bound could not use it",
    ),
    Deviation(
        "open-operations",
        "Endpoints: conventions",
        "every management request has an API key",
        "reading and accepting an invitation take its token alone; getting a token for a service account "
        "takes the account's credential",
        "who is invited has no key yet, and the credential is there to get a token",
    ),
    Deviation(
        "lists-without-pages",
        "Endpoints: conventions",
        "lists have cursors",
        "the list of secrets is a plain array; the list of an organization's roles has one page",
        "clients of the interface expect both in this form",
    ),
    Deviation(
        "total-count",
        "Endpoints: Organizations",
        "`expand[]=total_count` counts in the list of identities only",
        "it counts in every list of a zone, too",
        "clients of the interface ask for it there",
    ),
    Deviation(
        "bundle-token",
        "Endpoints: Policy bundle",
        "a resource-scoped token identifies the user",
        "a token for the zone itself with the scope `policy_bundle`, for which the user is asked",
        "an application that a user's policies restrict must not be able to loosen them by itself",
    ),
    Deviation(
        "authorize-scope",
        "Endpoints: Zone OAuth endpoints",
        "`scope` is required in authorization requests",
        "without it `openid` is meant",
        "some clients send none (MCP), and RFC 6749 section 3.3 allows a default",
    ),
    Deviation(
        "authorize-state",
        "Endpoints: Zone OAuth endpoints",
        "`state` is required in authorization requests",
        "it may be left out",
        "PKCE protects against request forgery; OAuth 2.1 requires `state` only without it",
    ),
    Deviation(
        "pkce-public-clients",
        "Authentication",
        "a setting of the zone (`pkce_required`) enforces PKCE",
        "public clients need PKCE whatever the setting says",
        "RFC 9700 section 2.1.1: nothing else proves that the code is theirs",
    ),
    Deviation(
        "client-authentication",
        "Endpoints: Zone OAuth endpoints",
        "`client_id` and `client_secret` are in the body",
        "`Authorization: Basic` and client assertions are accepted, too; never two of them in one request",
        "RFC 6749 section 2.3.1 requires Basic, and credentials without a secret need assertions",
    ),
    Deviation(
        "no-refresh-token-by-exchange",
        "Endpoints: Zone OAuth endpoints",
        "an exchange may issue a refresh token",
        "it issues access tokens only; another `requested_token_type` is `invalid_request`",
        "a refresh token would outlive what the subject token rests on; another token is another exchange",
    ),
    Deviation(
        "malformed-subject-token",
        "Errors",
        "an invalid subject token is `invalid_grant`",
        "`invalid_request` where it is no JWS at all",
        "RFC 6749 section 5.2: the request is malformed, whatever is behind the token",
    ),
    Deviation(
        "empty-scope",
        "Endpoints: Zone OAuth endpoints",
        "tokens have a claim `scope`, and token responses a member `scope`",
        "both are left out where there are no scopes",
        "RFC 6749 has no empty scope, and libraries refuse one",
    ),
    Deviation(
        "cache-key",
        "What the service does; Limits",
        "exchanged tokens are cached by user, resource and scopes",
        "also by application, chain of actors, key and session",
        "an application would get a token that was made for another one",
    ),
    Deviation(
        "cache-lifetime",
        "Limits",
        "an entry of the cache lives as long as its token",
        "a token that ends within a minute is made again; within half of its lifetime, if that is shorter. "
        "Redis keeps one for a quarter of an hour, and so many a minute of an organization (`cached-tokens`)",
        "whoever gets a token has to be able to use it; Redis has room for all organizations",
    ),
    Deviation(
        "cache-eviction",
        "States and transitions",
        "tokens leave the cache when they expire, by revocation of the user, change of the application's "
        "scopes and rotation of keys",
        "with every change of what the exchange depends on in the zone, and of the user or session; every "
        "exchange is decided anew before a cached token is taken",
        "a policy, a consent or a dependency that has ended must count at the next exchange",
    ),
)

"""The value types that members of kinds share. Spec: `conventions` and `enums` of the management API."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from ipaddress import IPv6Address
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, StringConstraints

from runtime.domain.kinds.marks import Example

# No HTML tags, no control characters: such a string can be shown on a page or in a log without surprises.
# A tag begins with `<` and a letter, `/`, `!` or `?` (HTML, section 13.2.5.6), so `a < b` has none.
PLAIN_PATTERN = r"^(?:[^\x00-\x1f\x7f<]|<+[^\x00-\x1f\x7f<A-Za-z/!?])*<*$"

Id = Annotated[str, StringConstraints(min_length=1, max_length=255)]
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=255, pattern=PLAIN_PATTERN), Example("Calendar agent")
]
Identifier = Annotated[
    str,
    StringConstraints(min_length=1, max_length=2048, pattern=PLAIN_PATTERN),
    Example("https://calendar.acme.example"),
]
Description = Annotated[
    str,
    StringConstraints(max_length=2048, pattern=PLAIN_PATTERN),
    Example("Books meetings for whoever asks"),
]
RoleDescription = Annotated[str, StringConstraints(max_length=1000, pattern=PLAIN_PATTERN)]
Slug = Annotated[
    str,
    StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$"),
    Example("calendar-agent"),
]
RoleIdentifier = Annotated[
    str, StringConstraints(min_length=1, max_length=255, pattern=r"^[a-z0-9]+(?:[-_][a-z0-9]+)*$")
]
# The explicit id of a configuration set.
OwnerName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/@:-]*$"),
    Example("acme/identity"),
]
# The ids of the zones that a credential is bound to.
BoundZones = Annotated[list[Id], Field(min_length=1, max_length=100)]
Email = Annotated[
    str,
    StringConstraints(max_length=254, pattern=r"^[^@\s<>\x00-\x1f\x7f]+@[^@\s<>\x00-\x1f\x7f]+$"),
    Field(json_schema_extra={"x-caseless": True}),
    Example("ada@acme.example"),
]
# RFC 6749 section 3.3, without the angle brackets of HTML tags.
SCOPE_PATTERN = r"^[\x21\x23-\x3B\x3D\x3F-\x5B\x5D-\x7E]+$"
ScopeToken = Annotated[str, StringConstraints(min_length=1, max_length=2048, pattern=SCOPE_PATTERN)]


def _distinct(values: list[str]) -> list[str]:
    if len(set(values)) < len(values):
        twice = next(value for number, value in enumerate(values) if value in values[:number])
        raise ValueError(f"must not have `{twice}` twice")
    return values


Scopes = Annotated[
    list[ScopeToken],
    AfterValidator(_distinct),
    Field(json_schema_extra={"uniqueItems": True}),
    Example(["calendar.use"]),
]
# What is written has to be that, while what was stored before stays readable: the operation checks it.
WrittenScopes = Annotated[
    list[
        Annotated[
            str,
            Field(json_schema_extra={"minLength": 1, "maxLength": 2048, "pattern": SCOPE_PATTERN}),
        ]
    ],
    Field(json_schema_extra={"uniqueItems": True}),
]
NonEmpty = Annotated[str, StringConstraints(min_length=1, max_length=2048, pattern=PLAIN_PATTERN)]


# RFC 3986 appendix A. What a reader of another library would not take for a URI is refused here already.
_PIECE = r"(?:[A-Za-z0-9._~!$&'()*+,;=@:-]|%[0-9A-Fa-f]{2})"
_AUTHORITY = r"(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?(\[[^\[\]]*\]|[^\[\]:@/?#]*)(?::[0-9]*)?"
_URI = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.-]*:(?://{_AUTHORITY}(?:/{_PIECE}*)*|/?{_PIECE}+(?:/{_PIECE}*)*|/)"
    rf"(?:\?(?:{_PIECE}|[/?])*)?(?:#(?:{_PIECE}|[/?])*)?"
)


def _absolute(value: str) -> str:
    found = _URI.fullmatch(value)
    if found is None or not _is_host(found[1] or ""):
        raise ValueError("must be an absolute URI")
    return value


def _is_host(host: str) -> bool:
    """Tell whether that may stand for a host: an IPv6 address in brackets, or a name."""
    if not host.startswith("["):
        return re.fullmatch(rf"(?:(?![:@]){_PIECE})*", host) is not None
    try:
        return not IPv6Address(host[1:-1]).scope_id
    except ValueError:
        return False


Uri = Annotated[
    str,
    StringConstraints(
        max_length=2048,
        pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:(?:/|/{0,3}[!$-.0-;=@-\[\]_a-z~][!#-;=?-\[\]_a-z~]*)$",
    ),
    AfterValidator(_absolute),
    Field(json_schema_extra={"format": "uri"}),
]


def _utc(value: datetime) -> datetime:
    if value.tzinfo is UTC:  # as all of storage
        return value
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def rfc3339(value: datetime) -> str:
    """A time as it stands on the wire: RFC 3339, UTC, `Z`."""
    return value.isoformat().replace("+00:00", "Z")


Timestamp = Annotated[
    datetime, AfterValidator(_utc), PlainSerializer(rfc3339, return_type=str, when_used="json")
]


class Part(BaseModel):
    """An object inside an entity. Unknown members are refused: a typo in git must not pass silently.

    Attributes:
        example: the whole object as OpenAPI shows it, where its members depend on one another.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    example: ClassVar[Mapping[str, Any] | None] = None


_NULL: dict[str, Any] = {"type": "null"}


def together(given: list[str], absent: list[str]) -> dict[str, Any]:
    """The JSON Schema of a body that has some members, and others not or as null."""
    values = {**{name: {"not": _NULL} for name in given}, **dict.fromkeys(absent, _NULL)}
    return {"required": given, "properties": values}


MIN_SECONDS, MAX_SECONDS = (
    60,
    10 * 366 * 86_400,
)  # that a key or a credential can last, when it is to end by itself


class CredentialLifetime(Part):
    """How long a new key or credential is valid; without it, until it is deleted."""

    expires_in_seconds: Annotated[int, Field(ge=MIN_SECONDS, le=MAX_SECONDS), Example(2_592_000)] | None = (
        None
    )


class OwnerType(StrEnum):
    """Who manages an entity: `platform` ones cannot be changed through the API."""

    PLATFORM = "platform"
    CUSTOMER = "customer"


class OrganizationRole(StrEnum):
    """What an organization's user or key may do."""

    ADMIN = "org_admin"
    MEMBER = "org_member"
    VIEWER = "org_viewer"


class ServiceAccountRole(StrEnum):
    """The permissions of a service account's credential: all of the account's, or only reading."""

    WHOLE = "service_account"
    VIEWER = "org_viewer"


class ZoneRole(StrEnum):
    """What a member of a zone may do there."""

    MANAGER = "zone_manager"
    VIEWER = "zone_viewer"


class OrganizationStatus(StrEnum):
    """`disabled` organization users cannot authenticate."""

    ACTIVE = "active"
    DISABLED = "disabled"


class InvitationStatus(StrEnum):
    """The status of an invitation; `expired` follows from `expires_at`."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    EXPIRED = "expired"
    REVOKED = "revoked"


class IdentityStatus(StrEnum):
    """The status of a user, or of an invitation."""

    ACTIVE = "active"
    DISABLED = "disabled"
    PENDING = "pending"
    ACCEPTED = "accepted"
    EXPIRED = "expired"
    REVOKED = "revoked"


class IdentityType(StrEnum):
    """The type of an entry in the list of identities."""

    USER = "user"
    INVITATION = "invitation"


class Consent(StrEnum):
    """Whether an application needs the user's consent."""

    IMPLICIT = "implicit"
    REQUIRED = "required"


class ApplicationTrait(StrEnum):
    """What an application is in addition to a client."""

    GATEWAY = "gateway"
    MCP_PROVIDER = "mcp-provider"
    UNIFIED_GATEWAY = "unified-gateway"
    MCP_SERVER = "mcp-server"
    AI_AGENT = "ai-agent"


class ApplicationType(StrEnum):
    """Which redirect rules hold: `native` for localhost and private schemes, `web` for https."""

    NATIVE = "native"
    WEB = "web"


class ProviderType(StrEnum):
    """An `external` identity provider, or one of the two built into every zone."""

    EXTERNAL = "external"
    SERVICE_VAULT = "service-vault"
    SERVICE_STS = "service-sts"


class TokenEndpointAuthMethod(StrEnum):
    """How a client authenticates at a token endpoint.

    Spec: RFC 7591 section 2, OpenID Connect Core section 9, RFC 8705 sections 2.1.1 and 2.2.1.
    """

    CLIENT_SECRET_BASIC = "client_secret_basic"
    CLIENT_SECRET_POST = "client_secret_post"
    CLIENT_SECRET_JWT = "client_secret_jwt"
    PRIVATE_KEY_JWT = "private_key_jwt"
    TLS_CLIENT_AUTH = "tls_client_auth"
    SELF_SIGNED_TLS_CLIENT_AUTH = "self_signed_tls_client_auth"
    NONE = "none"


class TokenRequestFormat(StrEnum):
    """How the body of a token request is encoded: `form` is the standard's (RFC 6749 section 4.1.3)."""

    FORM = "form"
    JSON = "json"


class CredentialType(StrEnum):
    """The discriminator of application credentials."""

    TOKEN = "token"
    PASSWORD = "password"
    PUBLIC_KEY = "public-key"
    URL = "url"
    PUBLIC = "public"


class UserStatus(StrEnum):
    """`disabled` users cannot authenticate."""

    ACTIVE = "active"
    DISABLED = "disabled"


class SessionStatus(StrEnum):
    """The status of a session; `expired` follows from `expires_at`."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class SessionType(StrEnum):
    """The subject of a session: a user, or an application without a user."""

    USER = "user"
    APPLICATION = "application"


class GrantStatus(StrEnum):
    """The status of a delegated grant; `expired` follows from `expires_at`."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class SecretType(StrEnum):
    """The type of a secret: a token, or a user name and password."""

    TOKEN = "token"
    PASSWORD = "password"


class PrincipalType(StrEnum):
    """What a role can be assigned to."""

    USER = "user"
    APPLICATION = "application"
    GROUP = "group"


class PolicyTargetType(StrEnum):
    """What a policy set binds to: a whole zone, or one user."""

    ZONE = "zone"
    USER = "user"


class PolicySetMode(StrEnum):
    """The mode of a bound policy set: `active` decides, `shadow` is only recorded."""

    ACTIVE = "active"
    SHADOW = "shadow"


class SchemaStatus(StrEnum):
    """The status of a policy schema; an `archived` one accepts no new policy versions."""

    ACTIVE = "active"
    DEPRECATED = "deprecated"
    ARCHIVED = "archived"


class Metadata(Part):
    """Links shown with a name. An update with null or `{}` removes the whole object."""

    docs_url: Uri | None = None
    icon_url: Uri | None = None

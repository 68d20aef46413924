"""Sessions and delegated grants: what signing in and consenting leave behind, to be looked at and ended."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from runtime.domain.kinds.application import Application
from runtime.domain.kinds.base import Kind, Listing, PageShape, Verb, ZoneEntity
from runtime.domain.kinds.marks import Embed, Example, Mark
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.queries import ACTIVE_ONLY, Query, values_of
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.domain.kinds.user_agent import UserAgent
from runtime.domain.kinds.values import GrantStatus, Id, Part, SessionStatus, SessionType, Timestamp
from runtime.domain.kinds.zone import ZONE

_NEVER = datetime(9999, 12, 31, tzinfo=UTC)
_REFRESH_TOKEN_SET = (
    "Whether a refresh token is kept that the provider accepts, as far as is known: false once the grant is "
    "revoked, and once the provider has refused the token."
)
_REFRESHED_AT = "The last refresh since the account was connected; left out before the first one."
_ENDED_ONLY = frozenset({Verb.LIST, Verb.RETRIEVE, Verb.UPDATE, Verb.DELETE})


class SessionMetadata(Part):
    """The application or user agent that started a session."""

    name: Annotated[str, Example("Calendar agent")]


class Session(ZoneEntity):
    """A sign-in, or what an application gets tokens by: while it is active, its tokens are.

    A user who signs in has a session in the browser, and below it one for each application or client that
    gets tokens for the user: its `parent_id` is the session in the browser. An application that gets tokens
    on its own behalf has a session without a user (`session_type` `application`). Revoking a session ends
    those below it, and the tokens of all of them. `session_data` has the claims of the ID token that the user
    signed in with; without a user, claims about the application: of a workload those of its token.
    """

    session_type: Annotated[SessionType, Mark.SERVER]
    active: Annotated[bool, Mark.DERIVED, Example(True)] = False
    application: Annotated[Application | None, Mark.DERIVED, Embed("application_id")] = None
    application_id: Annotated[Id | None, Mark.SERVER] = None
    authenticated_at: Annotated[Timestamp | None, Mark.SERVER] = None
    expires_at: Annotated[Timestamp, Mark.SERVER]
    issuer: Annotated[str | None, Mark.SERVER, Example("https://acme.zones.example")] = None
    metadata: Annotated[SessionMetadata | None, Mark.SERVER] = None
    parent_id: Annotated[
        Id | None, Mark.SERVER
    ]  # null on a browser session until a later one takes its place
    provider_id: Annotated[Id | None, Mark.SERVER] = None
    session_data: Annotated[dict[str, Any] | None, Mark.SERVER, Example({"email": "ada@acme.example"})] = None
    status: Annotated[SessionStatus, Mark.SERVER]  # an update takes `revoked` alone
    subject: Annotated[str | None, Mark.SERVER, Example("ada")] = None
    user: Annotated[User | None, Mark.DERIVED, Embed("user_id")] = None
    user_agent: Annotated[UserAgent | None, Mark.DERIVED, Embed("user_agent_id")] = None
    user_agent_id: Annotated[Id | None, Mark.SERVER] = None
    user_id: Annotated[Id | None, Mark.SERVER] = None
    acr: Annotated[str | None, Mark.INTERNAL] = None
    amr: Annotated[list[str] | None, Mark.INTERNAL] = None
    browser_session_id: Annotated[Id | None, Mark.INTERNAL] = None
    client_id: Annotated[str | None, Mark.INTERNAL] = None
    cookie_hash: Annotated[bytes | None, Mark.INTERNAL] = None
    epoch: Annotated[int, Mark.INTERNAL] = 1
    provider_subject: Annotated[str | None, Mark.INTERNAL] = None
    provider_session: Annotated[str | None, Mark.INTERNAL] = None
    provider_id_token: Annotated[bytes | None, Mark.INTERNAL] = None

    @field_validator("session_type", mode="before")
    @classmethod
    def _whose(cls, stored: Any) -> Any:
        """What is stored is how a session came to be: by a user's sign-in, or by an application alone."""
        if stored == "client_credentials":
            return SessionType.APPLICATION
        return SessionType.USER if stored in ("browser", "application", "offline") else stored

    @field_validator("metadata", mode="before")
    @classmethod
    def _named(cls, stored: Any) -> Any:
        return stored or None


class DelegatedGrant(ZoneEntity):
    """A user's consent to access to a resource on the user's behalf, with tokens of a provider."""

    active: Annotated[bool, Mark.DERIVED, Example(True)] = False
    expires_at: Annotated[Timestamp, Mark.SERVER]  # the last day there is, where none was set
    provider: Annotated[Provider | None, Mark.DERIVED, Embed("provider_id")] = None
    provider_id: Annotated[Id, Mark.SERVER]
    refresh_token_set: Annotated[bool, Mark.SERVER, Field(description=_REFRESH_TOKEN_SET)]
    refreshed_at: Annotated[Annotated[Timestamp, Field(description=_REFRESHED_AT)] | None, Mark.SERVER] = None
    resource: Annotated[Resource | None, Mark.DERIVED, Embed("resource_id")] = None
    resource_id: Annotated[Id, Mark.SERVER]
    scopes: Annotated[list[str], Mark.SERVER, Example(["calendar.use"])]
    status: Annotated[GrantStatus, Mark.SERVER]  # an update takes `revoked` alone
    user: Annotated[User | None, Mark.DERIVED, Embed("user_id")] = None
    user_id: Annotated[Id, Mark.SERVER]
    epoch: Annotated[int, Mark.INTERNAL] = 1

    @field_validator("expires_at", mode="before")
    @classmethod
    def _some_day(cls, stored: Any) -> Any:
        return _NEVER if stored is None else stored


class RevocationBody(Part):
    """Revokes a session or a delegated grant; this cannot be undone."""

    status: Literal["revoked"]


SESSION = Kind(
    entity=Session,
    collection="sessions",
    operations="sessions",
    parent=ZONE,
    verbs=_ENDED_ONLY,
    listing=Listing(
        envelope=PageShape.ZONE,
        plain={"user_id": "user_id"},
        more=(
            Query("status", values=values_of(SessionStatus), about="the current status"),
            ACTIVE_ONLY,
            Query(
                "session_type",
                values=values_of(SessionType),
                about="`user`: sessions of users; `application`: sessions of applications without a user",
            ),
            Query(
                "include_nested",
                values=("true",),
                about="include the application sessions below browser sessions",
            ),
        ),
    ),
    bodies={Verb.UPDATE: RevocationBody},
)

DELEGATED_GRANT = Kind(
    entity=DelegatedGrant,
    collection="delegated-grants",
    operations="delegated_grants",
    parent=ZONE,
    verbs=_ENDED_ONLY,
    listing=Listing(
        envelope=PageShape.ZONE,
        plain={"user_id": "user_id", "resource_id": "resource_id"},
        more=(
            Query("status", values=values_of(GrantStatus), about="the current status"),
            ACTIVE_ONLY,
            Query("sort", values=("created_at",), about="a leading `-` means descending"),
        ),
    ),
    bodies={Verb.UPDATE: RevocationBody},
)

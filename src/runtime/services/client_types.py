"""The types of clients: an application with a credential, or a user agent without one.

Both have the same properties, so that signing users in makes no difference between them. What a user agent
may never do takes an `ApplicationClient`, and `require_application` is the only way to one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from runtime.domain.errors import UnauthorizedClient
from runtime.domain.kinds.application import Application, ApplicationOAuth2
from runtime.domain.kinds.user_agent import Registration, UserAgent
from runtime.domain.kinds.values import Consent, CredentialType
from runtime.domain.oauth.entity_profiles import EntityProfile, profile_of
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.zone_data import Credential

ID_TOKEN_ALGORITHM = "RS256"  # unless a client's metadata asks for another


@dataclass(frozen=True)
class ApplicationClient:
    """An application as it authenticates: with one of its credentials.

    A zone caches clients until they change, so what is derived here is derived once.

    Attributes:
        other_secret: the same client with its other password credential, where two share the client id.
        workload_claims: of the token that a workload has just authenticated with.
    """

    credential: Credential
    application: Application
    other_secret: "ApplicationClient | None" = None
    workload_claims: Mapping[str, object] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def client_id(self) -> str:
        """The client id on the wire; a workload goes by its credential's id, for subjects repeat."""
        is_workload = self.credential.type == CredentialType.TOKEN
        return self.credential.id if is_workload else self.credential.identifier

    @cached_property
    def is_public(self) -> bool:
        """Tell whether it cannot keep a secret, so that anyone may claim to be it."""
        return self.credential.type == CredentialType.PUBLIC

    @cached_property
    def client_ref(self) -> ClientRef:
        """Whose consents, sessions and refresh families its users' are."""
        return ClientRef(application_id=self.application.id)

    @property
    def identifier(self) -> str:
        """What policies and chains call it."""
        return self.application.identifier

    @cached_property
    def profile(self) -> EntityProfile | None:
        """Whether it is a service or an AI agent, as `act` says."""
        return profile_of(self.application.traits)

    @property
    def name(self) -> str:
        """What people call it."""
        return self.application.name

    @property
    def description(self) -> str | None:
        """What it says of itself to the people it asks."""
        return self.application.description

    @property
    def redirect_uris(self) -> Sequence[str]:
        """Where the browser may be sent back to."""
        return (self._oauth2.redirect_uris if self._oauth2 else None) or []

    @property
    def post_logout_redirect_uris(self) -> Sequence[str]:
        """Where the browser may be sent after signing out."""
        return (self._oauth2.post_logout_redirect_uris if self._oauth2 else None) or []

    @property
    def _oauth2(self) -> ApplicationOAuth2 | None:
        return self.application.protocols.oauth2 if self.application.protocols else None

    @property
    def consent(self) -> Consent:
        """Whether users are asked before it acts for them."""
        return self.application.consent

    @property
    def registration(self) -> Registration:
        """How it came to be known."""
        return Registration.MANAGED

    @property
    def may_refresh(self) -> bool:
        """Whether its sign-ins come with a refresh token."""
        return True

    @property
    def id_token_algorithm(self) -> str:
        """What its ID tokens are signed with."""
        return ID_TOKEN_ALGORITHM

    @property
    def facts_key(self) -> str:
        """Stands for what policies know of it, which is remembered: the credential counts among that."""
        return self.credential.id

    @cached_property
    def cache_tags(self) -> frozenset[str]:
        """The tags of what decisions are made from that are about it."""
        named = {self.client_id, self.identifier, self.credential.id, self.application.id}
        return frozenset(named | ({self.other_secret.credential.id} if self.other_secret else set()))


@dataclass(frozen=True, slots=True)
class UserAgentClient:
    """A client that registered itself. It has no authority of its own, and its users are always asked."""

    user_agent: UserAgent

    @property
    def client_id(self) -> str:
        """The client id on the wire."""
        return self.user_agent.identifier

    @property
    def is_public(self) -> bool:
        """Tell whether it cannot keep a secret, so that anyone may claim to be it."""
        return self.user_agent.client_metadata.token_endpoint_auth_method == "none"

    @property
    def client_ref(self) -> ClientRef:
        """Whose consents, sessions and refresh families its users' are."""
        return ClientRef(user_agent_id=self.user_agent.id)

    @property
    def identifier(self) -> str:
        """What policies call it."""
        return self.user_agent.identifier

    @property
    def profile(self) -> EntityProfile | None:
        """Nothing: nobody here knows what has registered itself. Spec: an unclassified actor."""
        return None

    @property
    def name(self) -> str:
        """What it calls itself: anybody may take any name."""
        return self.user_agent.name

    @property
    def description(self) -> str | None:
        """Nothing: what a client says of itself to the people it asks is for its owner to write."""
        return None

    @property
    def redirect_uris(self) -> Sequence[str]:
        """Where the browser may be sent back to."""
        return self.user_agent.client_metadata.redirect_uris

    @property
    def post_logout_redirect_uris(self) -> Sequence[str]:
        """Where the browser may be sent after signing out."""
        return self.user_agent.client_metadata.post_logout_redirect_uris or ()

    @property
    def consent(self) -> Consent:
        """Whether users are asked before it acts for them: always."""
        return Consent.REQUIRED

    @property
    def registration(self) -> Registration:
        """How it came to be known."""
        return self.user_agent.registration

    @property
    def may_refresh(self) -> bool:
        """Whether its sign-ins come with a refresh token: when it has said that it uses such."""
        return "refresh_token" in self.user_agent.client_metadata.grant_types

    @property
    def id_token_algorithm(self) -> str:
        """What its ID tokens are signed with."""
        return self.user_agent.client_metadata.id_token_signed_response_alg or ID_TOKEN_ALGORITHM

    @property
    def facts_key(self) -> str:
        """Stands for what policies know of it, which is remembered: a document may name another method."""
        return f"{self.user_agent.id} {self.user_agent.client_metadata.token_endpoint_auth_method}"

    @property
    def cache_tags(self) -> frozenset[str]:
        """The tags of what decisions are made from that are about it."""
        return frozenset({self.user_agent.id, self.client_id})


Client = ApplicationClient | UserAgentClient


def is_known(client: Client) -> bool:
    """Tell whether this is an application that the zone's people made, and that has proved itself.

    Of an authenticated client. Anybody can claim to be a public one, and register another.
    """
    return not client.is_public and client.registration is Registration.MANAGED


def require_application(client: Client) -> ApplicationClient:
    """The client, if somebody here manages it. Raises UnauthorizedClient for one that registered itself."""
    if isinstance(client, ApplicationClient):
        return client
    raise UnauthorizedClient(
        "a client that registered itself may only use the grant types `authorization_code` and"
        " `refresh_token`"
    )


def require_confidential(client: Client) -> ApplicationClient:
    """The client, if somebody here manages it and it has proved itself. Raises UnauthorizedClient.

    What an application gets by itself, or for what somebody else vouches for, is not for whoever claims to be
    it.
    """
    application = require_application(client)
    if application.is_public:
        raise UnauthorizedClient(
            "a public client may only use the grant types `authorization_code` and `refresh_token`"
        )
    return application

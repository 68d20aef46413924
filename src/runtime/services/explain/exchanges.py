"""An exchange that is only tried: the chain as a subject token would give it, and the rules of a real one."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from runtime.domain.errors import OAuthError
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.claims import seconds
from runtime.domain.oauth.exchange import ExchangeRequest
from runtime.domain.oauth.exchange_steps import Step
from runtime.services.authority.subject_tokens import SubjectToken, prior_actors
from runtime.services.client_types import ApplicationClient
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.explain.participants import UnknownParticipant
from runtime.services.grants import client_credentials, token_exchange
from runtime.services.grants.authorized_exchanges import AuthorizedExchange
from runtime.services.grants.verified_chains import VerifiedChain, authority_of
from runtime.services.issuing import target_checks
from runtime.services.issuing.access_tokens import new_token_id
from runtime.services.zones import CachedZone, SessionRoot


class FurtherRefusal(NamedTuple):
    """What a step says that the exchange does not come to, because one before it refuses.

    Attributes:
        determining: names of the policy rules that decide.
    """

    step: Step
    refusal: OAuthError
    determining: tuple[str, ...] = ()


@dataclass
class Hop:
    """One exchange, as far as it got.

    Attributes:
        name: what the question calls the application.
        resource: None while it is not known, or there is none.
        scopes: those that are asked for; None for all.
        has_user: False for a token of the application's own.
        root: the sign-in, once it is known.
        next: the application that the token is to go to; None for the last hop, and while it is not known.
        decision: is filled in as that of a real exchange; its step is the one that refused.
        further: what else would refuse it.
        answer: what the application would be told of the refusal; None where that is the refusal itself.
    """

    name: str
    resource: "Resource | str | None"
    decision: Decision
    client: ApplicationClient | None = None
    authorized: AuthorizedExchange | None = None
    refusal: "OAuthError | UnknownParticipant | None" = None
    is_session_assumed: bool = False
    scopes: frozenset[str] | None = None
    has_user: bool = True
    root: SessionRoot | None = None
    next: Application | None = None
    further: list[FurtherRefusal] = field(default_factory=list)
    answer: OAuthError | None = None

    @property
    def refused_at(self) -> Step:
        """The step of a refused hop that refuses it."""
        return self.decision.step or Step.CLIENT

    def refused_by(self, further: FurtherRefusal) -> "Hop":
        """The hop as if nothing before that step had refused it."""
        decision = replace(self.decision, step=further.step, determining=further.determining)
        return replace(self, refusal=further.refusal, decision=decision)

    @property
    def resource_name(self) -> str | None:
        """The identifier of the resource, or what the question calls it."""
        return self.resource.identifier if isinstance(self.resource, Resource) else self.resource


async def chain_of(
    zone: CachedZone, client: ApplicationClient, root: SessionRoot, now: datetime
) -> VerifiedChain:
    """The chain that a sign-in at this application would begin. Raises InvalidGrant."""
    subject = SubjectToken(
        digest="",
        token_id=new_token_id(),
        sub=root.principal.user.identifier,
        audience=zone.issuer,
        client_id=client.client_id,
        scopes=frozenset(),
        session_id=root.session.id,
        actors=(),
        may_act=None,
        expires_at=seconds(root.session.expires_at),
        issued_at=seconds(now),
    )
    standing, authority = await authority_of(zone, subject, root, now)
    return VerifiedChain(subject, (), standing, authority)


async def try_exchange(
    services: Services,
    zone: CachedZone,
    hop: Hop,
    chain: VerifiedChain,
    now: datetime,
) -> AuthorizedExchange:
    """What the application would get. Raises OAuthError as an exchange does."""
    assert hop.client is not None  # noqa: S101 - it is found before
    named = hop.resource_name or ""
    request = ExchangeRequest(
        subject_token="", resource=named, audiences=(), scopes=hop.scopes, actor_token=None
    )
    target = hop.resource if isinstance(hop.resource, Resource) else None
    return await token_exchange.authorize(
        services, zone, hop.client, request, chain, target, now=now, decision=hop.decision
    )


async def try_own_token(services: Services, zone: CachedZone, hop: Hop, now: datetime) -> AuthorizedExchange:
    """What the application would get for itself. Raises OAuthError as a client credentials request does."""
    assert hop.client is not None  # noqa: S101 - it is found before
    await target_checks.require_principal(zone, hop.client)
    return await client_credentials.authorize(
        services, zone, hop.client, hop.resource_name or "", scopes=hop.scopes, now=now, decision=hop.decision
    )


async def with_token(
    zone: CachedZone, hop: Hop, receiver: ApplicationClient, chain: VerifiedChain, now: datetime
) -> VerifiedChain:
    """The chain as the token of a hop would hand it to the application that provides the resource.

    Raises: UnknownParticipant for a credential of the vault, which is no token of the zone.
    """
    authorized = hop.authorized
    assert authorized is not None  # noqa: S101 - only after an allowed hop
    assert hop.client is not None  # noqa: S101
    if authorized.credential is not None:
        raise UnknownParticipant(
            f"`{authorized.resource.identifier}` has credentials of the vault, which cannot be the subject"
            " token of an exchange",
            remedy=f"ask for a resource of `{receiver.identifier}` for which the zone issues tokens",
        )
    subject = replace(
        chain.subject,
        token_id=new_token_id(),
        audience=authorized.resource.identifier,
        client_id=hop.client.client_id,
        scopes=authorized.plan.scopes,
        actors=authorized.plan.actors,
        expires_at=seconds(authorized.plan.expires_at),
        issued_at=seconds(now),
    )
    before = await prior_actors(zone, receiver, subject)
    return replace(chain, subject=subject, before=before)

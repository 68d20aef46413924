"""Decides recorded requests anew, by the policies and entities of a zone as a connection has them.

The rules of a real exchange are asked: of dependencies, and of policies. What records do not tell is assumed:
that the application asks for all scopes of the resource, and that the user signed in when the request was
made, without an `acr`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.cedar import InvalidPolicy
from runtime.domain.kinds import RESOURCE, USER_AGENT
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.user_agent import UserAgent
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.domain.policy.context_usage import told_apart, used_attributes
from runtime.domain.policy.requests import PolicyRequest
from runtime.services.client_types import ApplicationClient, Client, UserAgentClient
from runtime.services.clients import client_lookup
from runtime.services.issuing import policy_decision
from runtime.services.issuing.policy_decision import Participants, PolicyPrincipal
from runtime.services.replay import zone_users
from runtime.services.replay.zone_records import RecordedDecisions, RecordedRequest
from runtime.services.replay.zone_users import Numbering, SeenUser
from runtime.services.time_slices import TimeSlice
from runtime.services.zones import CachedZone, Policies
from runtime.storage.sql import entities, zone_data
from runtime.storage.sql.zone_data import Credential

# The members of the context that records do not tell.
UNRECORDED = frozenset({"acr", "authenticated_at", "now", "scopes"})


class RefusedBy(StrEnum):
    """What refuses a request."""

    POLICY = "policy"
    DEPENDENCY = "dependency"
    SCOPE = "scope"  # which the resource does not offer
    # Nobody is there any more, or may act.
    USER = "user"
    APPLICATION = "application"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True)
class ReplayedDecision:
    """What a request comes to.

    Attributes:
        scopes: that may be issued; None when nothing may be.
        rules: names of the rules that decided, as the engine has them.
        forbidding: names of the rules that forbid scopes which are left out.
        refused_by: None where something may be issued.
    """

    scopes: frozenset[str] | None
    rules: tuple[str, ...] = ()
    forbidding: tuple[str, ...] = ()
    refused_by: RefusedBy | None = None


class Question(NamedTuple):
    """What a request comes down to: equal ones are decided alike, as long as its `Target` is the same.

    Attributes:
        principal: stands for all that policies know of it; of a user whom they do not tell from others, for
            groups and roles alone.
        target: the key of the client and the resource.
        at: when the user signed in; None where no rule looks at that.
    """

    event: DecisionEvent
    principal: str
    target: tuple[str, str]
    actors: tuple[str, ...]
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Target:
    """A client and the resource that it asks for.

    Attributes:
        key: stands for the two as they are in one state of the zone.
        participants: both as policies see them.
        told_apart: identifiers of the users whom rules about the resource may tell from others; None for any.
        reads: the members of the context that such rules look at; None for all.
    """

    key: tuple[str, str]
    client: Client
    resource: Resource
    is_dependency: bool
    participants: Participants
    told_apart: frozenset[str] | None
    reads: frozenset[str] | None

    @property
    def unrecorded(self) -> frozenset[str]:
        """The members of the context that rules look at, and that records do not tell."""
        return UNRECORDED if self.reads is None else self.reads & UNRECORDED

    def looks_at(self, name: str) -> bool:
        """Tell whether some rule looks at that member of the context."""
        return self.reads is None or name in self.reads


class AskedRequest(NamedTuple):
    """A recorded request with everybody whom it names."""

    target: Target
    authority: PolicyPrincipal
    question: Question


class ZoneDecisions:
    """A zone as a connection has it, to be asked about recorded requests.

    Attributes:
        policies: that decide in it.
        users: those that the requests name, by id; None for one who is not there. Those whom there was no
            time for are left out.
    """

    def __init__(
        self,
        zone: CachedZone,
        policies: Policies | None,
        now: datetime,
        *,
        users: Mapping[str, SeenUser | None],
        resources: Mapping[str, Resource],
        user_agents: Mapping[str, UserAgent],
        credentials: Mapping[str, Sequence[Credential]],
    ) -> None:
        """Args:
        zone: reads from that connection.
        now: policies may look at it.
        resources, user_agents: those that the requests name, by id.
        credentials: of the applications that they name, by application; the oldest first.
        """
        self.policies, self.users = policies, users
        self._zone, self._now = zone, now
        self._resources, self._user_agents, self._credentials = resources, user_agents, credentials
        self._targets: dict[_Named, Target | RefusedBy] = {}
        self._applications: dict[str, PolicyPrincipal | RefusedBy] = {}
        self._asked: dict[Question, AskedRequest] = {}
        self._decided: dict[Question, ReplayedDecision] = {}

    @classmethod
    async def read(
        cls,
        conn: AsyncConnection,
        zone: CachedZone,
        recorded: Iterable[RecordedDecisions],
        now: datetime,
        numbering: Numbering,
        time_slice: TimeSlice,
        *,
        seconds: float,
    ) -> "ZoneDecisions":
        """Read what the requests name.

        Args:
            numbering: of the facts about users, in all states of the zone.
            seconds: that may be spent.
        """
        asked, within = [each.request for each in recorded], {"zone_id": zone.id}
        resources = await entities.many(
            conn, RESOURCE, _ids(each.resource_id for each in asked), within=within
        )
        agents = await entities.many(
            conn, USER_AGENT, _ids(each.user_agent_id for each in asked), within=within
        )
        credentials: dict[str, list[Credential]] = {}
        application_ids = _ids(each.application_id for each in asked)
        for each in await zone_data.credentials_of(conn, zone.id, application_ids):
            credentials.setdefault(each.application_id, []).append(each)
        try:
            policies = await zone.policies()
        except InvalidPolicy:  # which refuses everything, and is told where it does
            policies = None
        # In the order of the requests, of which the most frequent are first.
        user_ids = list(dict.fromkeys(each.user_id for each in asked if each.user_id is not None))
        found = cls(
            zone,
            policies,
            now,
            users=await zone_users.read(conn, zone.id, user_ids, numbering, time_slice, seconds=seconds),
            resources={each.id: each for each in resources},
            user_agents={each.id: each for each in agents},
            credentials=credentials,
        )
        for request in asked:
            await found._resolve(request)
            await time_slice.yield_if_due()
        return found

    async def _resolve(self, request: RecordedRequest) -> None:
        """Find what `question` has to know of a request besides its user."""
        named = _named(request)
        if (target := self._targets.get(named)) is None:
            target = self._targets[named] = await self._target(request)
        if request.user_id is None and isinstance(target, Target):
            name = _actors(request, target)[-1]
            if name not in self._applications:
                self._applications[name] = await self._application(name)

    def question(self, request: RecordedRequest, at: datetime) -> AskedRequest | RefusedBy | None:
        """One of the requests with all that is known of everybody in it, or who of them is not there.

        Args:
            at: when it was made.

        Returns None for a request that takes too long.
        """
        target = self._targets[_named(request)]
        if isinstance(target, RefusedBy):
            return target
        actors = _actors(request, target)
        if request.user_id is not None:
            authority: PolicyPrincipal | RefusedBy | None = self._user(request.user_id, target)
        else:
            authority = self._applications[actors[-1]]
        if authority is None or isinstance(authority, RefusedBy):
            return authority
        signed_in = at if request.user_id is not None and target.looks_at("authenticated_at") else None
        question = Question(request.event, authority.key, target.key, actors, signed_in)
        if (asked := self._asked.get(question)) is None:
            if signed_in is not None:
                authority = authority._replace(authenticated_at=signed_in)
            asked = self._asked[question] = AskedRequest(target, authority, question)
        return asked

    async def decide(self, asked: AskedRequest) -> ReplayedDecision:
        """What a request for all scopes of the resource comes to."""
        if (known := self._decided.get(asked.question)) is None:
            scopes = frozenset(asked.target.resource.scopes or ())
            known = self._decided[asked.question] = await self.decide_anew(asked, scopes)
        return known

    async def decide_anew(self, asked: AskedRequest, scopes: frozenset[str]) -> ReplayedDecision:
        """What a request for these scopes comes to."""
        target, authority, question = asked
        if not target.is_dependency:
            return ReplayedDecision(None, refused_by=RefusedBy.DEPENDENCY)
        client, resource = target.client, target.resource
        if question.event is DecisionEvent.CLIENT_CREDENTIALS and isinstance(client, ApplicationClient):
            verdict = await policy_decision.decide_direct(
                self._zone, client, resource=resource, scopes=scopes, now=self._now
            )
        else:
            verdict = await policy_decision.decide_exchange(
                self._zone,
                client,
                authority,
                actors=question.actors,
                resource=resource,
                scopes=scopes,
                now=self._now,
            )
        refused_by = RefusedBy.POLICY if verdict.scopes is None else None
        return ReplayedDecision(verdict.scopes, verdict.determining, verdict.forbidding, refused_by)

    def policy_request(self, asked: AskedRequest, user: SeenUser) -> PolicyRequest:
        """What policies are asked about that user, who is one of those whom it stands for."""
        return policy_decision.exchange_question(
            asked.target.participants,
            PolicyPrincipal(user.seen, "", frozenset(), authenticated_at=asked.question.at),
            actors=asked.question.actors,
            scopes=frozenset(asked.target.resource.scopes or ()),
            now=self._now,
        )

    async def _target(self, request: RecordedRequest) -> Target | RefusedBy:
        if (client := await self._client(request)) is None:
            return RefusedBy.APPLICATION
        if (resource := self._resources.get(request.resource_id)) is None:
            return RefusedBy.RESOURCE
        reads = self.policies.reads if self.policies is not None else ()
        return Target(
            (client.facts_key, resource.id),
            client,
            resource,
            await client_lookup.may_request(self._zone, client, resource),
            await policy_decision.participants(self._zone, client, resource),
            told_apart(reads, resource.identifier),
            used_attributes(reads, resource.identifier),
        )

    async def _client(self, request: RecordedRequest) -> Client | None:
        """The client with the credential that it used, or another one of its own where that is gone."""
        if request.user_agent_id is not None:
            agent = self._user_agents.get(request.user_agent_id)
            return UserAgentClient(agent) if agent is not None else None
        application_id = request.application_id or ""
        credentials = self._credentials.get(application_id, ())
        application = await self._zone.applications.get(application_id) if credentials else None
        if application is None:
            return None
        used = next((each for each in credentials if each.id == request.credential_id), credentials[0])
        return ApplicationClient(used, application)

    async def _application(self, name: str) -> PolicyPrincipal | RefusedBy:
        """The authority of an application with which a chain began, or that asks for itself."""
        found = await self._zone.applications.by_identifier(name)
        if found is None:
            return RefusedBy.APPLICATION
        facts = await self._zone.applications.policy_facts(found)
        return PolicyPrincipal(facts, str(facts), frozenset())

    def _user(self, user_id: str, target: Target) -> PolicyPrincipal | RefusedBy | None:
        if user_id not in self.users:
            return None
        user = self.users[user_id]
        if user is None or not user.is_active:
            return RefusedBy.USER
        if user.is_too_large:
            return None
        is_apart = (
            target.told_apart is None
            or user.seen.identifier in target.told_apart
            or user.own_policies is not None  # whose rules were not looked into
        )
        key = f"user {user.own}" if is_apart else f"users {user.shared}"
        return PolicyPrincipal(user.seen, key, frozenset(), own_policies=user.own_policies)


_Named = tuple[str | None, ...]


def _named(request: RecordedRequest) -> _Named:
    """The client and the resource of a request, as its record names them."""
    return request[2:6]


def _actors(request: RecordedRequest, target: Target) -> tuple[str, ...]:
    """The chain, in which the asking application goes by its present name; records of sign-ins have none."""
    first = target.client.identifier
    is_same = request.actors and request.actors[0] == first
    return request.actors if is_same else (first, *request.actors[1:])


def _ids(named: Iterable[str | None]) -> list[str]:
    return sorted({each for each in named if each is not None})

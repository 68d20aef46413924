"""The policy decision: Cedar is asked once for all scopes, and for each only where that is denied.

The zone's policies decide. Where a user has made policies too, those are asked what the zone's allow: both
have to allow it, so a user's can only take away.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from runtime.adapters import cedar
from runtime.adapters.cedar import InvalidPolicy, PolicyDecision
from runtime.domain.errors import AccessDenied
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import CredentialType
from runtime.domain.policy import requests
from runtime.domain.policy.context_usage import used_attributes
from runtime.domain.policy.requests import PolicyRequest
from runtime.logs import log
from runtime.services import cache_sizes
from runtime.services.client_types import ApplicationClient, Client
from runtime.services.time_slices import TimeSlice
from runtime.services.zones import CachedZone, ChangeHistory, Policies, TaggedCache, ZoneCache
from runtime.services.zones.principals import Principal
from runtime.storage.sql.sessions import SessionRecord

POLICY_DENIED = "policy_denied"
_REMEMBERED_SECONDS = 30
# What differs between two requests of one user, application, chain and resource; time stands in every key.
_VARYING = frozenset({"scopes", "authenticated_at", "acr"})
Participants = tuple[requests.PolicyApplication, requests.PolicyResource]

PolicyRequestBuilder = Callable[[frozenset[str]], PolicyRequest]


class PolicyPrincipal(NamedTuple):
    """Whose authority is used.

    Attributes:
        principal: as policies see it.
        key: stands for the principal and all that is known of it, until any of that changes.
        cache_tags: of all that is known of it.
        authenticated_at, acr: of the user's session.
        own_policies: id of the policy set version that the user has made.
    """

    principal: requests.PolicyUser | requests.PolicyApplication
    key: str
    cache_tags: frozenset[str]
    authenticated_at: datetime | None = None
    acr: str | None = None
    own_policies: str | None = None

    @classmethod
    def of_user(cls, session: SessionRecord, user: Principal) -> "PolicyPrincipal":
        """A user with a session that stands."""
        return cls(
            user.policy_user,
            f"{user.user.id}\0{user.user.epoch}",
            user.cache_tags,
            session.authenticated_at,
            session.acr,
            user.own_policies,
        )


class PolicyVerdict(NamedTuple):
    """What policy allows.

    Attributes:
        scopes: of those asked for, the ones that may be issued; None when nothing may be.
        determining: names of the rules that decided.
        forbidding: names of the rules that forbid scopes which are left out.
        unpermitted: scopes that are left out because no rule permits them.
        is_for_any_scopes: whether the same rules decide so whatever scopes are asked for.
    """

    scopes: frozenset[str] | None
    determining: tuple[str, ...]
    forbidding: tuple[str, ...] = ()
    unpermitted: frozenset[str] = frozenset()
    is_for_any_scopes: bool = False


async def decide_exchange(
    zone: CachedZone,
    client: Client,
    authority: PolicyPrincipal,
    *,
    actors: tuple[str, ...],
    resource: Resource,
    scopes: frozenset[str],
    now: datetime,
) -> PolicyVerdict:
    """Whether the application may act for the principal at the resource, and with which of the scopes."""
    found = await participants(zone, client, resource)

    def question(wanted: frozenset[str]) -> PolicyRequest:
        return exchange_question(found, authority, actors=actors, scopes=wanted, now=now)

    return await _decide(zone, client, authority, actors, resource, scopes, now, question)


def exchange_question(
    participants: Participants,
    authority: PolicyPrincipal,
    *,
    actors: tuple[str, ...],
    scopes: frozenset[str],
    now: datetime,
) -> PolicyRequest:
    """What policies are asked when an application wants to act for a principal."""
    application, resource = participants
    return requests.exchange(
        authority.principal,
        application=application,
        actors=actors,
        resource=resource,
        scopes=scopes,
        now=now,
        authenticated_at=authority.authenticated_at,
        acr=authority.acr,
    )


async def decide_direct(
    zone: CachedZone, client: ApplicationClient, *, resource: Resource, scopes: frozenset[str], now: datetime
) -> PolicyVerdict:
    """Whether the application may reach the resource on its own behalf, and with which of the scopes."""
    asking, target = await participants(zone, client, resource)

    def question(wanted: frozenset[str]) -> PolicyRequest:
        return requests.direct(asking, resource=target, scopes=wanted, now=now)

    own = PolicyPrincipal(asking, "direct", client.cache_tags)
    return await _decide(zone, client, own, (), resource, scopes, now, question)


def valid_until(now: datetime) -> float:
    """Until when a decision that is made now holds, in seconds since 1970: policies may read the time."""
    return (int(now.timestamp()) // _REMEMBERED_SECONDS + 1) * _REMEMBERED_SECONDS


def denied() -> AccessDenied:
    """The refusal in the name of policy: no retry and nothing the user does will help."""
    return AccessDenied("denied by policy", reason=POLICY_DENIED)


class PolicyDecisionCache(ZoneCache):
    """What policies of a zone have decided, and what is asked of them.

    Attributes:
        decisions: by the facts that the policies look at.
        reads: resource id -> the circumstances that some rule about the resource looks at.
        participants: the client and the resource as policies see them.
    """

    outlives_changes = True

    def __init__(self, history: ChangeHistory) -> None:
        self.decisions: TaggedCache[PolicyDecision] = TaggedCache(cache_sizes.POLICY_DECISIONS, history)
        self.reads: TaggedCache[frozenset[str]] = TaggedCache(cache_sizes.POLICY_READS, history)
        self.participants: TaggedCache[Participants] = TaggedCache(cache_sizes.POLICY_PARTICIPANTS, history)


async def _decide(
    zone: CachedZone,
    client: Client,
    authority: PolicyPrincipal,
    actors: tuple[str, ...],
    resource: Resource,
    scopes: frozenset[str],
    now: datetime,
    question: PolicyRequestBuilder,
) -> PolicyVerdict:
    """Ask for all scopes together, then for each; what is left must be allowed together too."""
    policies = await _policies(zone, authority)
    if policies is None:
        return PolicyVerdict(None, ())
    # What a user's own rules look at is not worked out: one user asks too seldom for that to pay.
    reads = _VARYING if authority.own_policies else _looked_at(zone, policies[0], resource)
    period = int(now.timestamp()) // _REMEMBERED_SECONDS
    facts = [authority.key, client.facts_key, resource.id, str(period)]
    if "authenticated_at" in reads:
        facts.append(str(authority.authenticated_at))
    if "acr" in reads:
        facts.append(str(authority.acr))
    about = "\0".join((*facts, *actors))
    cache = zone.cache_of(PolicyDecisionCache)
    tags = authority.cache_tags | _tags_of_participants(client, resource)

    def ask(wanted: frozenset[str]) -> PolicyDecision:
        key = "\0".join((about, "", *sorted(wanted))) if "scopes" in reads else about
        held = cache.decisions.get(key)
        if held is None:
            held = _all_allow(policies, question(wanted))
            cache.decisions.keep(key, held, tags, as_of=zone.epoch)
        return held

    whole = ask(scopes)
    if whole.allowed:
        return PolicyVerdict(scopes, whole.determining, is_for_any_scopes="scopes" not in reads)
    if len(scopes) > 1 and "scopes" in reads:
        denied_by, time_slice = dict[str, tuple[str, ...]](), TimeSlice()
        for scope in scopes:
            await time_slice.yield_if_due()
            if not (decision := ask(frozenset({scope}))).allowed:
                denied_by[scope] = decision.determining
        allowed = frozenset(scopes - denied_by.keys())
        if allowed and (rest := ask(allowed)).allowed:
            forbidding = {name for names in denied_by.values() for name in names}
            unpermitted = frozenset(scope for scope, names in denied_by.items() if not names)
            return PolicyVerdict(allowed, rest.determining, tuple(sorted(forbidding)), unpermitted)
    return PolicyVerdict(None, whole.determining)


def _looked_at(zone: CachedZone, policies: Policies, resource: Resource) -> frozenset[str]:
    """Those of the circumstances that differ between requests which some rule about the resource looks at."""
    cache = zone.cache_of(PolicyDecisionCache).reads
    if (held := cache.get(resource.id)) is None:
        names = used_attributes(policies.reads, resource.identifier)
        held = _VARYING if names is None else names & _VARYING
        cache.keep(resource.id, held, {resource.id}, as_of=zone.epoch)
    return held


def _all_allow(policies: Sequence[Policies], asked: PolicyRequest) -> PolicyDecision:
    """The decision of several sets of which each must allow it: the first that does not, else all of them."""
    determining: tuple[str, ...] = ()
    for each in policies:
        decision = cedar.decide(each.compiled, asked)
        if not decision.allowed:
            return decision
        determining += decision.determining
    return PolicyDecision(True, determining, ())


async def _policies(zone: CachedZone, authority: PolicyPrincipal) -> list[Policies] | None:
    """The zone's policies, and those of the user who has some; None, which denies, when a set is missing.

    A set that cannot be read is as good as none.
    """
    try:
        found = [await zone.policies()]
        if authority.own_policies:
            found.append(await zone.own_policies(authority.own_policies))
    except InvalidPolicy as failure:
        log.error("a policy set cannot be read", zone_id=zone.id, reason=str(failure))
        return None
    sets = [each for each in found if each is not None]
    return sets if len(sets) == len(found) else None


async def participants(zone: CachedZone, client: Client, resource: Resource) -> Participants:
    """The asking client and the target, as policies see them."""
    key = f"{client.facts_key}\0{resource.id}"
    cache = zone.cache_of(PolicyDecisionCache).participants
    if (held := cache.get(key)) is not None:
        return held
    provided_by = resource.application_id
    made = (
        await _asking(zone, client, resource),
        requests.PolicyResource(
            resource.identifier,
            tuple(sorted(resource.scopes or ())),
            await zone.applications.policy_facts_of(provided_by) if provided_by else None,
        ),
    )
    cache.keep(key, made, _tags_of_participants(client, resource), as_of=zone.epoch)
    return made


def _tags_of_participants(client: Client, resource: Resource) -> frozenset[str]:
    provided_by = {resource.application_id} if resource.application_id else set()
    return client.cache_tags | {resource.id} | provided_by


async def _asking(zone: CachedZone, client: Client, resource: Resource) -> requests.PolicyApplication:
    """The asking application, with the one declared dependency that matters here.

    A client that registered itself declares nothing and holds no roles; rules know it by its registration.
    """
    if isinstance(client, ApplicationClient):
        facts = await zone.applications.policy_facts(client.application)
        return replace(facts, credential=client.credential.type.value, dependencies=(resource.identifier,))
    credential = CredentialType.PUBLIC if client.is_public else CredentialType.URL
    return requests.PolicyApplication(
        client.identifier, registration=client.registration.value, credential=credential.value
    )

"""Explains an exchange: permission, the chain of hops, and what decided each.

All is read from the database at one instant, past every cache. Nothing is written, no token is issued and no
provider is called. It takes a slot, and no longer than `EXPLANATION_SECONDS`: meanwhile the database
keeps the snapshot.
"""

import asyncio
from contextlib import suppress
from copy import copy
from datetime import datetime
from functools import partial
from itertools import zip_longest

from runtime.contract.decisions import ExplainBody, ExplainedHop, ExplainedStep, Explanation
from runtime.domain.errors import OAuthError, TooLarge, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import Verb
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.claims import names_of
from runtime.domain.oauth.exchange_steps import Step
from runtime.services.authority.subject_tokens import as_actor
from runtime.services.client_types import ApplicationClient
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.explain import further_refusals, remedies
from runtime.services.explain.exchanges import Hop, chain_of, try_exchange, try_own_token, with_token
from runtime.services.explain.participants import (
    Participants,
    UnknownParticipant,
    resource_between,
    session_root,
)
from runtime.services.grants import user_refusals
from runtime.services.grants.verified_chains import VerifiedChain
from runtime.services.management import entities
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import Caller
from runtime.services.management.changesets import concurrency_limits
from runtime.services.management.changesets.concurrency_limits import explanation_slot
from runtime.services.management.entities import Parents
from runtime.services.management.names import MayList
from runtime.services.management.policies import determining_policies
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.zones import CachedZone

SUBJECT = "explanations"
_OF_USERS = (Step.SESSION, Step.CHAIN)  # not of a token of the application's own
_SHOWN = tuple(range(Step.CLIENT, Step.POLICY + 1))


async def zone_of(unit: UnitOfWork, parents: Parents) -> Zone:
    """The zone to explain something in. Raises NotFound, Forbidden."""
    zone = await entities.zone_of(unit, parents["zone_id"])
    entities.require(unit, SUBJECT, Verb.RETRIEVE, {"zone_id": zone.id})
    return zone


async def explain(services: Services, caller: Caller, zone: Zone, asked: ExplainBody) -> Explanation:
    """Whether the application would get a token for the user, or for itself, now; hop by hop.

    Raises: ValidationFailed; RateLimited; TooLarge for a question that takes too long.
    """
    if asked.user is None and asked.via:
        raise ValidationFailed.of(
            "via",
            "needs `user`: without one it is a token of the application's own, which comes through no other",
        )
    seconds = concurrency_limits.EXPLANATION_SECONDS
    with explanation_slot(services, caller):
        try:
            async with asyncio.timeout(seconds):
                return await _explain(
                    services, zone, partial(permissions.may_list, caller.roles_in(zone)), asked
                )
        except TimeoutError:
            raise TooLarge(
                f"the explanation takes longer than {seconds:.0f} seconds; ask with fewer applications in"
                " `via` and fewer `scopes`"
            ) from None


async def _explain(services: Services, zone: Zone, may_list: MayList, asked: ExplainBody) -> Explanation:
    async with services.database.at_one_instant(apart=True):
        cached = await services.zones.uncached(zone.id)
        now = services.clock()
        participants = Participants(services, cached, may_list, now)
        unresolved = await participants.unresolved(asked)
        session_id, hops = await _hops(services, cached, participants, asked, now)
        told = [await _told(services, cached, each) for each in hops]
    return Explanation(
        at=now,
        allowed=all(each.allowed for each in told),
        user=asked.user,
        session=session_id,
        unresolved=unresolved,
        hops=told,
    )


async def _hops(
    services: Services, zone: CachedZone, participants: Participants, asked: ExplainBody, now: datetime
) -> tuple[str | None, list[Hop]]:
    """The session that was gone by, and the hops up to the first that is refused."""
    names = [*asked.via, asked.application]
    hops: list[Hop] = []
    session_id: str | None = None
    chain: VerifiedChain | None = None
    for name, next_name in zip_longest(names, names[1:]):
        decision = Decision(zone.organization_id, zone.id, now, new_id(), step=Step.CLIENT)
        hop = Hop(name, None, decision, has_user=asked.user is not None, root=chain.root if chain else None)
        hops.append(hop)
        if next_name is None and asked.scopes is not None:
            hop.scopes = frozenset(asked.scopes)
        try:
            hop.client = await participants.client(name)
            if asked.user is None:
                await _find_target(zone, participants, hop, asked, next_name)
                hop.authorized = await try_own_token(services, zone, hop, now)
                break
            decision.actors = names_of((as_actor(zone, hop.client), *(chain.before if chain else ())))
            if chain is None:
                decision.step = Step.SESSION
                user = await participants.user(asked.user)
                hop.root, session_id = await session_root(services, zone, hop.client, user, now)
                hop.is_session_assumed = session_id is None
                chain = await chain_of(zone, hop.client, hop.root, now)
            await _find_target(zone, participants, hop, asked, next_name)
            hop.authorized = await try_exchange(services, zone, hop, chain, now)
            if next_name is not None:
                chain = await with_token(zone, hop, await participants.client(next_name), chain, now)
        except (OAuthError, UnknownParticipant) as refusal:
            hop.refusal = refusal
            with suppress(UnknownParticipant):
                if next_name is not None:
                    hop.next = await participants.application(next_name)
                elif hop.resource is None:
                    hop.resource = await participants.resource(asked.resource)
            hop.further = await further_refusals.find(services, zone, hop, chain, now)
            if hop.client is not None and chain is not None and isinstance(refusal, OAuthError):
                hop.answer = await _answer(zone, hop, hop.client, chain, refusal, now)
            break
    return session_id, hops


async def _answer(
    zone: CachedZone,
    hop: Hop,
    client: ApplicationClient,
    chain: VerifiedChain,
    refusal: OAuthError,
    now: datetime,
) -> OAuthError:
    """What the application would be told: of the policies, where they refuse all the same."""
    resource = hop.resource if isinstance(hop.resource, Resource) else None
    untold = copy(hop.decision)
    return await user_refusals.answer_to(
        refusal, zone, client, chain, resource, hop.scopes, now=now, decision=untold
    )


async def _find_target(
    zone: CachedZone, participants: Participants, hop: Hop, asked: ExplainBody, next_name: str | None
) -> None:
    """What the hop is for: a resource of the next application, or at last the one of the question.

    Raises: UnknownParticipant.
    """
    hop.decision.step = Step.RESOURCE
    if next_name is None:
        hop.resource = asked.resource
        hop.resource = await participants.resource(asked.resource)
    elif hop.client is not None:
        hop.next = await participants.application(next_name)
        hop.resource = await resource_between(zone, hop.client, hop.next)


async def _told(services: Services, zone: CachedZone, hop: Hop) -> ExplainedHop:
    forbidding = hop.authorized.forbidding if hop.authorized is not None else ()
    left_out = hop.authorized.left_out if hop.authorized is not None else frozenset()
    unpermitted = hop.authorized.unpermitted if hop.authorized is not None else frozenset()
    refused = [] if hop.refusal is None else [hop, *map(hop.refused_by, hop.further)]
    determining = hop.decision.determining or tuple(name for each in hop.further for name in each.determining)
    async with services.database.querying() as conn:
        described = await determining_policies.describe(
            conn, zone.organization_id, zone.id, {*determining, *forbidding}
        )
    told = [
        remedy
        for each in refused
        for remedy in await remedies.of(
            services, zone, each, [described[name] for name in each.decision.determining]
        )
    ]
    answer = hop.answer or hop.refusal
    return ExplainedHop(
        application=hop.name,
        resource=hop.resource_name,
        allowed=hop.refusal is None,
        error=answer.code if answer is not None else None,
        reason=_reason(answer) if answer is not None else None,
        steps=_steps(hop),
        scopes=sorted(hop.authorized.plan.scopes) if hop.authorized is not None else [],
        actors=list(hop.decision.actors),
        policies=[described[name] for name in determining],
        left_out=sorted(left_out),
        left_out_by=[described[name] for name in forbidding],
        unpermitted=sorted(unpermitted),
        remedies=list(dict.fromkeys(told)),
    )


def _reason(refusal: OAuthError | UnknownParticipant) -> str:
    """Why, as decision records have it: more than the application would get to know."""
    named = refusal.members.get("reason") if isinstance(refusal, OAuthError) else None
    return refusal.internal or named or refusal.detail


def _steps(hop: Hop) -> list[ExplainedStep]:
    """The steps in the order of an exchange; the subject token is none, because nobody has shown one."""
    refused_at = hop.decision.step if hop.refusal is not None else None
    further = {each.step: each.refusal for each in hop.further}
    told = []
    for number in _SHOWN:
        if number == Step.SUBJECT_TOKEN or (not hop.has_user and number in _OF_USERS):
            continue
        step = ExplainedStep(step=number, name=Step(number).label, outcome="passed")
        if number == refused_at and hop.refusal is not None:
            step = step.model_copy(update={"outcome": "refused", "detail": _reason(hop.refusal)})
        elif number in further:
            detail = _reason(further[Step(number)])
            step = step.model_copy(update={"outcome": "also_refused", "detail": detail})
        elif refused_at is not None and number > refused_at:
            step = step.model_copy(update={"outcome": "not_reached"})
        elif number == Step.SESSION and hop.is_session_assumed:
            detail = (
                "the user has no active session at this application: one that begins now is assumed, and the"
                " user has to sign in there"
            )
            step = step.model_copy(update={"outcome": "assumed", "detail": detail})
        elif number == Step.SCOPES and hop.authorized is not None:
            step = step.model_copy(update={"detail": " ".join(sorted(hop.authorized.plan.scopes)) or None})
        told.append(step)
    return told

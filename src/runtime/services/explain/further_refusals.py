"""Further refusals: the steps behind the one that refused that would refuse, too.

Each is asked, with the rules of a real exchange, as if those before it had passed and the user had agreed to
everything; only where its answer does not hang on what is missing. What the exchange comes to is what the
first refusal says.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime

from runtime.domain.errors import OAuthError
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.exchange_steps import Step
from runtime.services.authority.consents import Allowance
from runtime.services.client_types import ApplicationClient
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.explain.exchanges import FurtherRefusal, Hop
from runtime.services.grants import client_credentials, token_exchange
from runtime.services.grants.verified_chains import VerifiedChain
from runtime.services.issuing import target_checks
from runtime.services.zones import CachedZone

Check = Callable[[], Awaitable[object]]
ScopeCheck = Callable[[frozenset[str] | None, Decision], Awaitable[object]]


async def find(
    services: Services, zone: CachedZone, hop: Hop, chain: VerifiedChain | None, now: datetime
) -> list[FurtherRefusal]:
    """What else would refuse a hop that is refused, in the order of the steps.

    Args:
        chain: what the exchange would go on from; None without a session, and for an own token.
    """
    client, resource = hop.client, hop.resource
    if not isinstance(resource, Resource):
        named = hop.resource_name
        return await _of_checks(
            hop, [(Step.RESOURCE, lambda: target_checks.require_resource(zone, named, None, ()))]
        )
    if client is None:
        return []
    checks: list[tuple[Step, Check]] = [
        (Step.DEPENDENCY, lambda: target_checks.require_dependency(zone, client, resource))
    ]
    if not hop.has_user:
        checks.append((Step.CONSENT, lambda: _own_tokens(zone, resource)))
    elif hop.root is not None:
        checks.append((Step.CONSENT, lambda: _authorization(services, zone, client, hop, resource, now)))
    found = await _of_checks(hop, checks)
    if not hop.has_user:
        # Without tokens of its own for the resource, the application has to ask for something else.
        is_for_itself = Step.CONSENT not in (hop.refused_at, *(each.step for each in found))
        own = _own_scopes(services, zone, client, resource, now) if is_for_itself else None
        return [*found, *(await _of_scopes(hop, own) if own else [])]
    if chain is None:
        return found
    return [*found, *await _of_scopes(hop, _scopes_of(services, zone, client, chain, resource, now))]


async def _of_checks(hop: Hop, checks: Sequence[tuple[Step, Check]]) -> list[FurtherRefusal]:
    """The refusals of checks that the exchange does not come to."""
    found = []
    for step, check in checks:
        # A scope that the resource does not have is refused before consent to it is asked for.
        if step > hop.refused_at or (step, hop.refused_at) == (Step.CONSENT, Step.SCOPES):
            try:
                await check()
            except OAuthError as refusal:
                found.append(FurtherRefusal(step, refusal))
    return found


async def _of_scopes(hop: Hop, check: ScopeCheck) -> list[FurtherRefusal]:
    """The refusals of scopes and policies.

    Where the requested scopes are refused, policies are asked about all that the resource has: what they
    refuse altogether, no other choice of scopes would get.
    """
    found: list[FurtherRefusal] = []
    for wanted in dict.fromkeys((hop.scopes, None)):
        decision = replace(hop.decision, step=Step.SCOPES, determining=())
        try:
            await check(wanted, decision)
        except OAuthError as refusal:
            step = decision.step or Step.SCOPES
            if step > hop.refused_at and step not in {each.step for each in found}:
                found.append(FurtherRefusal(step, refusal, decision.determining))
            if step is Step.SCOPES:
                continue
        break
    return found


def _own_tokens(zone: CachedZone, resource: Resource) -> Awaitable[None]:
    return target_checks.require_own_tokens(zone, resource, has_user=False)


def _authorization(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    hop: Hop,
    resource: Resource,
    now: datetime,
) -> Awaitable[object]:
    return token_exchange.require_authorization(
        services, zone, client, hop.root, resource, wanted=hop.scopes, now=now
    )


def _own_scopes(
    services: Services, zone: CachedZone, client: ApplicationClient, resource: Resource, now: datetime
) -> ScopeCheck:
    return lambda wanted, decision: client_credentials.authorize_scopes(
        services, zone, client, resource, wanted, now=now, decision=decision
    )


def _scopes_of(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    chain: VerifiedChain,
    resource: Resource,
    now: datetime,
) -> ScopeCheck:
    assumed = token_exchange.allowed_target(services, chain.root, resource, Allowance())
    return lambda wanted, decision: token_exchange.authorize_scopes(
        zone, client, wanted, chain, assumed, now=now, decision=decision
    )

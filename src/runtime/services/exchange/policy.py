"""What the zone's policies say, asked once for all scopes, and only when that is refused for each of them."""

from dataclasses import dataclass, replace
from datetime import datetime

from runtime.adapters import cedar
from runtime.adapters.cedar import CompiledPolicies, PolicyBroken
from runtime.domain.errors import AccessDenied
from runtime.domain.kinds.resource import Resource
from runtime.domain.policy import requests
from runtime.domain.policy.requests import PolicyRequest
from runtime.logs import log
from runtime.services.zones import Client, ZoneView

POLICY_DENIED = "policy_denied"
_REMEMBERED_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Verdict:
    """What policy allows.

    Attributes:
        scopes: of those asked for, the ones that may be issued; None when nothing may be.
        determining: names of the rules that decided.
    """

    scopes: frozenset[str] | None
    determining: tuple[str, ...]


async def decide_exchange(
    view: ZoneView,
    client: Client,
    principal: requests.User | requests.Application,
    *,
    principal_key: str,
    actors: tuple[str, ...],
    resource: Resource,
    scopes: frozenset[str],
    now: datetime,
    authenticated_at: datetime | None,
    acr: str | None,
) -> Verdict:
    """Whether the application may act for the principal at the resource, and with which of the scopes.

    Args:
        principal_key: stands for the principal and everything known of it, in the memory of decisions.
    """
    period = int(now.timestamp()) // _REMEMBERED_SECONDS
    key = "\0".join(
        (principal_key, client.credential.id, resource.id, *actors, "", *sorted(scopes), str(period))
    )
    held = view.decisions.get(key)
    if held is None:
        question = requests.exchange(
            principal,
            application=await _asking(view, client, resource),
            actors=actors,
            resource=await _target(view, resource),
            scopes=scopes,
            now=now,
            authenticated_at=authenticated_at,
            acr=acr,
        )
        held = await _verdict(view, question, scopes)
        view.decisions.put(key, held)
    verdict: Verdict = held
    return verdict


async def decide_direct(
    view: ZoneView, client: Client, *, resource: Resource, scopes: frozenset[str], now: datetime
) -> Verdict:
    """Whether the application may reach the resource on its own behalf, and with which of the scopes."""
    period = int(now.timestamp()) // _REMEMBERED_SECONDS
    key = "\0".join(("direct", client.credential.id, resource.id, *sorted(scopes), str(period)))
    held = view.decisions.get(key)
    if held is None:
        question = requests.direct(
            await _asking(view, client, resource),
            resource=await _target(view, resource),
            scopes=scopes,
            now=now,
        )
        held = await _verdict(view, question, scopes)
        view.decisions.put(key, held)
    verdict: Verdict = held
    return verdict


def denied() -> AccessDenied:
    """The refusal in the name of policy: no retry and nothing the user does will help."""
    return AccessDenied("policy does not allow this", reason=POLICY_DENIED)


async def _verdict(view: ZoneView, question: PolicyRequest, scopes: frozenset[str]) -> Verdict:
    try:
        policies = await view.policies()
    except PolicyBroken as failure:
        log.error("the active policy set cannot be read", zone_id=view.id, reason=str(failure))
        return Verdict(None, ())
    if policies is None:
        return Verdict(None, ())
    return _ask(policies, question, scopes)


def _ask(policies: CompiledPolicies, question: PolicyRequest, scopes: frozenset[str]) -> Verdict:
    """Ask for all scopes together, then for each; what is left must be allowed together too."""
    whole = cedar.decide(policies, question)
    if whole.allowed:
        return Verdict(scopes, whole.determining)
    if len(scopes) > 1:
        allowed = frozenset(
            scope for scope in scopes if cedar.decide(policies, question.with_scopes([scope])).allowed
        )
        if allowed and (rest := cedar.decide(policies, question.with_scopes(allowed))).allowed:
            return Verdict(allowed, rest.determining)
    return Verdict(None, whole.determining)


async def _asking(view: ZoneView, client: Client, resource: Resource) -> requests.Application:
    """The asking application, with the one declared dependency that matters here."""
    facts = await view.application_facts(client.application)
    return replace(facts, credential=client.credential.type.value, dependencies=(resource.identifier,))


async def _target(view: ZoneView, resource: Resource) -> requests.Resource:
    provider = await view.application(resource.application_id) if resource.application_id else None
    return requests.Resource(
        resource.identifier,
        tuple(sorted(resource.scopes or ())),
        provider.identifier if provider else None,
    )

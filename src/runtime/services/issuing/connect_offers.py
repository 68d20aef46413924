"""Connect offers: a refusal that asks for the user has a connect link only where policies would permit it.

They are asked before a link is handed out, when it is opened, and before anything is stored: nobody is asked
to authorize, and no account is connected for, what an exchange would refuse all the same.
"""

from datetime import datetime
from urllib.parse import urlencode

from runtime.domain.errors import OAuthError
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import ProviderType
from runtime.domain.oauth.exchange_steps import Step
from runtime.services.authority.connect_links import MissingAuthorization, new_link
from runtime.services.client_types import Client
from runtime.services.decision_log import Decision
from runtime.services.issuing import policy_decision
from runtime.services.issuing.policy_decision import PolicyPrincipal, PolicyVerdict
from runtime.services.zones import CachedZone


async def answer_to(
    refusal: OAuthError,
    zone: CachedZone,
    client: Client,
    authority: PolicyPrincipal,
    resource: Resource,
    missing: MissingAuthorization,
    *,
    scopes: frozenset[str],
    decision: Decision,
) -> OAuthError:
    """A refusal that asks for the user, with a link; in its place that of the policies, if these refuse.

    Where the link would be too long, the refusal stays as it is.

    Args:
        scopes: what the application would have once the user has authorized it.
        decision: is made that of the policies where these refuse.
    """
    is_account = await _type_of(zone, resource) is ProviderType.EXTERNAL
    verdict = await decide(
        zone,
        client,
        authority,
        actors=missing.actors,
        resource=resource,
        scopes=scopes,
        optional=scopes if is_account and missing.scopes is None else frozenset(),
        now=missing.now,
    )
    if verdict.scopes is None:
        decision.step, decision.determining = Step.POLICY, verdict.determining
        return policy_decision.denied()
    link = new_link(zone, client, resource, missing)
    if link is not None:
        refusal.members["error_uri"] = f"{zone.issuer}/oauth/connect?{urlencode({'link': link})}"
    return refusal


async def decide(
    zone: CachedZone,
    client: Client,
    authority: PolicyPrincipal,
    *,
    actors: tuple[str, ...],
    resource: Resource,
    scopes: frozenset[str],
    optional: frozenset[str] = frozenset(),
    now: datetime,
) -> PolicyVerdict:
    """What policies leave of the scopes that the user would authorize.

    A credential of the vault is handed out whole: without one of its scopes, nothing of it.

    Args:
        actors: everyone who acts in the chain, the client first.
        optional: scopes that a credential would be asked for, and need not have.
    """
    verdict = await policy_decision.decide_exchange(
        zone, client, authority, actors=actors, resource=resource, scopes=scopes, now=now
    )
    if verdict.scopes is None or scopes - verdict.scopes <= optional:
        return verdict
    if await _type_of(zone, resource) in (None, ProviderType.SERVICE_STS):
        return verdict
    return PolicyVerdict(None, verdict.forbidding)


async def _type_of(zone: CachedZone, resource: Resource) -> ProviderType | None:
    """The type of provider that issues what an exchange for the resource returns; None for the zone."""
    if resource.credential_provider_id is None:
        return None
    provider = await zone.providers.get(resource.credential_provider_id)
    return provider.type if provider is not None else None

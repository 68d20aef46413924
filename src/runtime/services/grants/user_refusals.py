"""Refusals of an exchange that its user could mend: with a connect link, or in the name of policy.

Where policies would refuse the exchange whatever the user does, they are what the application is told of.
"""

from datetime import datetime

from runtime.domain.errors import OAuthError
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.claims import names_of
from runtime.services.authority import consents
from runtime.services.authority.connect_links import MissingAuthorization
from runtime.services.authority.subject_tokens import as_actor
from runtime.services.client_types import ApplicationClient
from runtime.services.decision_log import Decision
from runtime.services.grants.verified_chains import VerifiedChain
from runtime.services.issuing import connect_offers
from runtime.services.zones import CachedZone


async def answer_to(
    refusal: OAuthError,
    zone: CachedZone,
    client: ApplicationClient,
    chain: VerifiedChain,
    resource: Resource | None,
    wanted: frozenset[str] | None,
    *,
    now: datetime,
    decision: Decision,
) -> OAuthError:
    """What the application is told of a refusal of the steps 6 to 12.

    Args:
        wanted: the scopes as requested; None when the request names none.
        decision: is made that of the policies where these refuse.
    """
    root = chain.root
    if root is None or resource is None or not consents.asks_for_user(refusal):
        return refusal
    decision.actors = names_of((as_actor(zone, client), *chain.before))
    return await connect_offers.answer_to(
        refusal,
        zone,
        client,
        chain.authority,
        resource,
        MissingAuthorization(root.session, wanted, decision.actors, now),
        scopes=_askable(chain, resource, wanted),
        decision=decision,
    )


def _askable(chain: VerifiedChain, resource: Resource, wanted: frozenset[str] | None) -> frozenset[str]:
    """The scopes of an exchange after the user has authorized all that it can be authorized for."""
    offered = frozenset(resource.scopes or ())
    if chain.subject.audience == resource.identifier:
        offered &= chain.subject.scopes
    return (offered if wanted is None else wanted & offered) or offered

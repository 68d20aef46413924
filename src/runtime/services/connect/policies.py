"""Policies and connect links: nobody authorizes what policies would refuse the application all the same."""

from dataclasses import replace

from runtime.domain.errors import PolicyDenied
from runtime.services.authorization.next_step import NextStep
from runtime.services.connect import outcomes
from runtime.services.connect.needs import Requirement
from runtime.services.connect.requests import CheckedLink
from runtime.services.container import Services
from runtime.services.issuing import connect_offers, policy_decision
from runtime.services.issuing.policy_decision import PolicyPrincipal
from runtime.services.zones import CachedZone


async def permitted(
    services: Services, zone: CachedZone, asked: CheckedLink, required: Requirement
) -> Requirement | None:
    """What the user may be asked for; None where policies would refuse the chain's exchange all the same.

    A provider is not asked for scopes that nobody has named and that policies leave out.
    """
    link = asked.link
    root = await zone.session_roots.read(link.session_id)
    if root is None:  # it has ended since the link was checked
        return None
    verdict = await connect_offers.decide(
        zone,
        asked.client,
        PolicyPrincipal.of_user(root.session, root.principal),
        actors=link.actors,
        resource=asked.resource,
        scopes=required.scopes,
        optional=required.optional,
        now=services.clock(),
    )
    outcomes.decision_of(asked).determining = verdict.determining
    if verdict.scopes is None:
        return None
    return replace(required, scopes=required.scopes - (required.optional - verdict.scopes))


def refused(zone: CachedZone, asked: CheckedLink) -> NextStep:
    """The redirect that tells the application. Raises PolicyDenied, for a page, without one."""
    return outcomes.refused(zone, asked, policy_decision.denied(), page=page())


def page() -> PolicyDenied:
    """What the user reads."""
    return PolicyDenied(
        "a policy does not let the application use this resource in your name; nothing was authorized"
    )

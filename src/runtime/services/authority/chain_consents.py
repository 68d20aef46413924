"""Consent along a delegation chain: the user still allows each client to use the resource of the next one.

A token says who acted, and not what the tokens before it were for. Whoever acts after another client has been
shown a token for a resource that it provides; of an application that provides several, any of them counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from runtime.domain.kinds.application import Application
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.user_agent import UserAgent
from runtime.domain.kinds.values import Consent
from runtime.services.authority import consents
from runtime.services.authority.subject_tokens import SubjectToken, find_actor, refused
from runtime.services.container import Services
from runtime.services.zones import CachedZone, SessionRoot
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.sessions import SessionRecord


@dataclass(frozen=True, slots=True)
class ChainClient:
    """A client that passed the user's authority on, and whether users are asked before it acts for them."""

    client_ref: ClientRef
    consent: Consent


async def require_chain_consents(
    services: Services, zone: CachedZone, subject: SubjectToken, root: SessionRoot, now: datetime
) -> None:
    """Check that the user still allows each step of a chain but the last: that is `require_audience_consent`.

    Raises: InvalidGrant.
    """
    if not subject.actors:
        return
    before = await _signed_in_to(zone, root.session)
    for actor in reversed(subject.actors):
        found = await find_actor(zone, actor.subject)
        if found is None:
            raise refused("a client in the actor chain no longer exists")
        link = _chain_client(found)
        if before is not None and before.client_ref != link.client_ref:
            provided = await zone.resources.provided_by(found.id)
            if not await _may_use(services, zone, before, root, provided, now):
                raise refused("the user has withdrawn consent that the actor chain depends on")
        before = link


def _chain_client(actor: Application | UserAgent) -> ChainClient:
    """Users are always asked before a client acts that has registered itself."""
    if isinstance(actor, UserAgent):
        return ChainClient(ClientRef(user_agent_id=actor.id), Consent.REQUIRED)
    return ChainClient(ClientRef(application_id=actor.id), actor.consent)


async def _may_use(
    services: Services,
    zone: CachedZone,
    client: ChainClient,
    root: SessionRoot,
    resources: Sequence[Resource],
    now: datetime,
) -> bool:
    """Tell whether the user lets a client use one of these."""
    for resource in resources:
        if (
            await consents.find_allowance(services, zone, client, root, resource, wanted=None, now=now)
            is not None
        ):
            return True
    return False


async def _signed_in_to(zone: CachedZone, session: SessionRecord) -> ChainClient | None:
    """The client whose sign-in a chain began with; None for a session that is no client's."""
    if session.user_agent_id is not None:
        return ChainClient(ClientRef(user_agent_id=session.user_agent_id), Consent.REQUIRED)
    if session.application_id is None:
        return None
    application = await zone.applications.get(session.application_id)
    if application is None:
        raise refused("the application that the user signed in to no longer exists")
    return _chain_client(application)

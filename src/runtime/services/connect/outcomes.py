"""The outcomes of a connect link: back to the application by redirect, or a page."""

from dataclasses import dataclass

from runtime.domain.errors import OAuthError, PageError
from runtime.domain.oauth.decision_events import DecisionEvent, DecisionOutcome
from runtime.services.authorization.next_step import NextStep, answering
from runtime.services.connect.requests import CheckedLink
from runtime.services.decision_log import Decision, current_decision
from runtime.services.zones import CachedZone

EVENT, CONNECTED = DecisionEvent.CONNECT, DecisionOutcome.CONNECTED


@dataclass(frozen=True, slots=True)
class Connected:
    """How a connection ended well.

    Attributes:
        application, resource: their names.
        scopes: what the application may do now.
        missing: scopes that were requested and not granted.
        dropped: scopes that were granted without being requested, and are not used.
        continue_to: where the application wants its user back.
    """

    application: str
    resource: str
    scopes: tuple[str, ...]
    missing: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    continue_to: str | None = None


ConnectOutcome = NextStep | Connected


def connected(
    zone: CachedZone,
    asked: CheckedLink,
    scopes: frozenset[str],
    *,
    missing: frozenset[str] = frozenset(),
    dropped: frozenset[str] = frozenset(),
) -> Connected:
    """What is said at the end."""
    endpoint = asked.returns_to.endpoint(zone.issuer)
    return Connected(
        application=asked.client.name,
        resource=asked.resource.name,
        scopes=tuple(sorted(scopes)),
        missing=tuple(sorted(missing)),
        dropped=tuple(sorted(dropped)),
        continue_to=endpoint.completed().location if endpoint is not None else None,
    )


def finished(asked: CheckedLink, done: Connected) -> ConnectOutcome:
    """Back to the application where it wants that, and where there is nothing that the user has to read."""
    decision_of(asked).succeed(CONNECTED)
    if done.continue_to is None or done.missing or done.dropped:
        return done
    return NextStep(done.continue_to)


def refused(
    zone: CachedZone, asked: CheckedLink, refusal: OAuthError, *, page: PageError | None = None
) -> NextStep:
    """The redirect that tells the application, whose site the page has named; without one it is raised.

    Args:
        page: what is raised then in its place: what the user reads.
    """
    decision_of(asked).refuse(refusal)
    endpoint = asked.returns_to.endpoint(zone.issuer)
    if endpoint is None:
        raise page or refusal
    return answering(endpoint.refusal(refusal))


def decision_of(asked: CheckedLink) -> Decision:
    """The decision of the request, about the user, the application and the resource of the link."""
    decision = current_decision()
    decision.event = EVENT
    decision.name_client(asked.client)
    decision.user_id, decision.resource_id = asked.link.user_id, asked.resource.id
    return decision

"""Consents and delegated grants: what a user allows a client to do, now.

Whoever asks what somebody may still do for a user asks here; nothing else reads consents to decide.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol
from urllib.parse import urlencode

from runtime.domain.errors import (
    AccessDenied,
    InsufficientAuthorization,
    InvalidScope,
    OAuthError,
    ServiceError,
)
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.domain.kinds.user_agent import Registration
from runtime.domain.kinds.values import Consent, ProviderType
from runtime.domain.lifetimes import ACTIVE, is_active
from runtime.domain.oauth.resources import RequestedResource
from runtime.domain.oauth.scopes import ALWAYS_ASKED
from runtime.services import cache_sizes
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.zones import CachedZone, ChangeHistory, SessionRoot, TaggedCache, ZoneCache
from runtime.storage.sql import consents as storage
from runtime.storage.sql import session_roots
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.consents import SIGN_IN, ConsentState
from runtime.storage.sql.session_roots import DelegatedGrantRecord

USER_AUTHORIZATION_REQUIRED = "user_authorization_required"


class ConsentClient(Protocol):
    """Whom a user gives their word to, and whether they are asked for it."""

    @property
    def client_ref(self) -> ClientRef:
        """Whose consents they are."""

    @property
    def consent(self) -> Consent:
        """Whether users are asked."""


class Allowance(NamedTuple):
    """What a user's word comes to at one resource.

    Attributes:
        scopes: what was consented to; None where consent is implied.
        ends_at: when the grant ends.
    """

    scopes: frozenset[str] | None = None
    ends_at: datetime | None = None

    def covers(self, scopes: frozenset[str]) -> bool:
        """Tell whether the user allows all of these."""
        return self.scopes is None or scopes <= self.scopes


def allowance(
    asker: ConsentClient, given: frozenset[str] | None, grants: Sequence[DelegatedGrantRecord], now: datetime
) -> Allowance | None:
    """What the user's word comes to at a resource; None when it was taken back, is over, or was never given.

    Every grant for the resource must stand, and bounds what was consented to; where the application asks for
    consent, consent must have been given.

    Args:
        given: the scopes consented to; None without consent.
        grants: those of the user for the resource.
    """
    if not all(is_active(grant, now) for grant in grants):
        return None
    ends_at = min((grant.expires_at for grant in grants if grant.expires_at), default=None)
    if asker.consent is Consent.IMPLICIT:
        return Allowance(None, ends_at)
    if given is None:
        return None
    return Allowance(given.intersection(*(grant.scopes for grant in grants)), ends_at)


def why_nothing_is_allowed(grants: Sequence[DelegatedGrantRecord], now: datetime) -> str:
    """Why `allowance` is None, for the record: a grant that has ended, else there is no consent.

    Args:
        grants: those of the user for the resource.
    """
    ended = [grant for grant in grants if not is_active(grant, now)]
    if not ended:
        return "the user has not consented, or has withdrawn the consent to this application"
    if any(grant.status != ACTIVE for grant in ended):
        return "the user's grant for the resource was revoked, by the user or an administrator"
    return "the user's grant for the resource has expired"


def allowance_of(
    asker: ConsentClient, agreed: ConsentState, resource_id: str, now: datetime
) -> Allowance | None:
    """The same, of all that there is of the user's word to a client."""
    given = agreed.given.get(resource_id)
    grants = [grant for grant in agreed.grants if grant.resource_id == resource_id]
    return allowance(asker, given.scopes if given is not None else None, grants, now)


async def require_allowance(
    services: Services,
    zone: CachedZone,
    client: Client,
    root: SessionRoot,
    resource: Resource,
    *,
    wanted: frozenset[str] | None,
    now: datetime,
) -> Allowance:
    """What the user allowed. Raises AccessDenied when that is nothing, or was withdrawn."""
    given, grants = await _consent_and_grants(services, zone, client, root, resource, wanted, now)
    found = allowance(client, given, grants, now)
    if found is None:
        raise authorization_required(
            zone,
            client,
            resource,
            internal=why_nothing_is_allowed(grants, now),
        )
    return found


async def find_allowance(
    services: Services,
    zone: CachedZone,
    asker: ConsentClient,
    root: SessionRoot,
    resource: Resource,
    *,
    wanted: frozenset[str] | None,
    now: datetime,
) -> Allowance | None:
    """What the user allowed; None when that is nothing, or was withdrawn.

    What is known under the user's present epoch counts as long as it suffices; before anything is refused or
    cut short the database is asked, so a user who has just agreed is not told to.
    """
    given, grants = await _consent_and_grants(services, zone, asker, root, resource, wanted, now)
    return allowance(asker, given, grants, now)


async def _consent_and_grants(
    services: Services,
    zone: CachedZone,
    asker: ConsentClient,
    root: SessionRoot,
    resource: Resource,
    wanted: frozenset[str] | None,
    now: datetime,
) -> tuple[frozenset[str] | None, list[DelegatedGrantRecord]]:
    """The scopes that the user consented to, None without consent, and their grants for the resource."""
    grants = await grants_of(zone, resource, root.delegated)
    if not all(is_active(grant, now) for grant in grants):
        async with services.database.querying() as conn:
            again = await session_roots.delegated(conn, zone.id, root.principal.user.id)
        grants = await grants_of(zone, resource, again)
    implied = asker.consent is Consent.IMPLICIT
    given = None if implied else await _consent(services, zone, asker, root, resource, wanted)
    return given, grants


async def grants_of(
    zone: CachedZone, resource: Resource, grants: Sequence[DelegatedGrantRecord]
) -> list[DelegatedGrantRecord]:
    """Those for a resource by the provider that it has now: what another one granted before says nothing."""
    found = [grant for grant in grants if grant.resource_id == resource.id]
    if resource.credential_provider_id is not None:
        return [grant for grant in found if grant.provider_id == resource.credential_provider_id]
    providers = {grant.provider_id: await zone.providers.get(grant.provider_id) for grant in found}
    own = {key for key, each in providers.items() if each and each.type is ProviderType.SERVICE_STS}
    return [grant for grant in found if grant.provider_id in own]


class ConsentCache(ZoneCache):
    """What users of a zone consented to, each with the user's epoch under which it was read.

    What ends consents bumps the user's epoch, or is a change of the client or the resource: one that goes, or
    a client that is another one now, which ends those of all users.

    Attributes:
        scopes: of one resource, by user, client and resource.
        agreed: everything, by user and client.
    """

    outlives_changes = True

    def __init__(self, history: ChangeHistory) -> None:
        self.scopes: TaggedCache[tuple[int, frozenset[str]]] = TaggedCache(cache_sizes.CONSENTS, history)
        self.agreed: TaggedCache[tuple[int, ConsentState]] = TaggedCache(cache_sizes.CONSENTS, history)


async def _consent(
    services: Services,
    zone: CachedZone,
    asker: ConsentClient,
    root: SessionRoot,
    resource: Resource,
    wanted: frozenset[str] | None,
) -> frozenset[str] | None:
    user = root.principal.user
    key = f"{user.id}\0{asker.client_ref.id}\0{resource.id}"
    cache = zone.cache_of(ConsentCache).scopes
    held = cache.get(key)
    if held is not None and held[0] == user.epoch and (wanted or frozenset()) <= held[1]:
        return held[1]
    async with services.database.querying() as conn:
        scopes = await session_roots.consent(conn, zone.id, user.id, asker.client_ref, resource.id)
    if scopes is not None:
        tags = {asker.client_ref.id, resource.id}
        cache.keep(key, (user.epoch, scopes), tags, as_of=zone.epoch)
    return scopes


async def find_granted_allowance(
    services: Services, zone: CachedZone, client: Client, user: User, asked: RequestedResource
) -> Allowance | None:
    """The user's word, if it covers what was asked for of a resource; None when it does not, or not any more.

    Args:
        user: as read in this request.
    """
    found = allowance_of(client, await consents_of(services, zone, client, user), asked.id, services.clock())
    return found if found is not None and found.covers(asked.scopes) else None


def scopes_needing_consent(asker: ConsentClient, scopes: frozenset[str]) -> frozenset[str]:
    """Those of the sign-in scopes that take the user's own word, whatever they tell the client."""
    return scopes & ALWAYS_ASKED if asker.consent is Consent.IMPLICIT else scopes


async def covers_sign_in(
    services: Services, zone: CachedZone, client: Client, user: User, scopes: frozenset[str]
) -> bool:
    """Tell whether the user has let the client know what these sign-in scopes tell it, and still does.

    Args:
        user: as read in this request.
    """
    said = scopes_needing_consent(client, scopes)
    if client.consent is Consent.IMPLICIT and not said:
        return True
    given = (await consents_of(services, zone, client, user)).given.get(SIGN_IN)
    return given is not None and said <= given.scopes


async def has_consented_at(
    services: Services, zone: CachedZone, client: Client, user: User, redirect_host: str
) -> bool:
    """Tell whether the user has let the client act, whatever for, when it was answered at that host."""
    async with services.database.querying() as conn:
        given = await storage.of_client(conn, zone_id=zone.id, user_id=user.id, client_ref=client.client_ref)
    return any(record.redirect_host == redirect_host for record in given.values())


async def consents_of(services: Services, zone: CachedZone, client: Client, user: User) -> ConsentState:
    """How the user's word stands now; from memory while the user's epoch is that under which it was read.

    A client that registered itself can lose everybody's word at once, which no user's epoch tells.
    """
    key = f"{user.id}\0{client.client_ref.id}"
    cache = zone.cache_of(ConsentCache).agreed
    held = cache.get(key) if client.registration is Registration.MANAGED else None
    if held is not None and held[0] == user.epoch:
        return held[1]
    async with services.database.querying() as conn:
        found = await storage.agreed(conn, zone_id=zone.id, user_id=user.id, client_ref=client.client_ref)
    resources = {*found.given, *(grant.resource_id for grant in found.grants)}
    cache.keep(key, (user.epoch, found), {client.client_ref.id, *resources}, as_of=zone.epoch)
    return found


def wider_consent_required(zone: CachedZone, client: Client, resource: Resource) -> InvalidScope:
    """The refusal of scopes that the user has not consented to, among others that they have.

    The code is that of scopes beyond what the resource owner has granted, and the members are the same as for
    missing consent: there the user may consent to them.

    Spec: zone interface, section 5; RFC 6749 section 5.2.
    """
    return InvalidScope(
        "the user has not consented to a requested scope of that resource",
        **_asking(zone, client, resource),
    )


def authorization_required(
    zone: CachedZone,
    client: Client,
    resource: Resource | None,
    *,
    internal: str,
    told: str = "the user has not authorized the application for that resource",
) -> AccessDenied:
    """The refusal that asks the user to authorize the application first.

    Its `error_uri` leads to a page that says what to do. Where a user is behind the request and policies do
    not forbid it, `connect_offers` makes it a link for that user.
    """
    is_insufficient = zone.settings.grant_missing_error == InsufficientAuthorization.code
    refusal = InsufficientAuthorization if is_insufficient else AccessDenied
    return refusal(
        told,
        internal=internal,
        **_asking(zone, client, resource),
    )


def asks_for_user(refusal: ServiceError) -> bool:
    """Tell whether the user could mend what is refused."""
    return isinstance(refusal, OAuthError) and refusal.members.get("reason") == USER_AUTHORIZATION_REQUIRED


def _asking(zone: CachedZone, client: Client, resource: Resource | None) -> dict[str, str]:
    """The members of a refusal that asks for the user."""
    named = {"resource": resource.identifier} if resource else {}
    address = f"{zone.issuer}/oauth/connect?{urlencode({'client_id': client.client_id, **named})}"
    return {"reason": USER_AUTHORIZATION_REQUIRED, "error_uri": address}

"""What users have allowed applications: consents, implied or given, and delegated grants.

Whoever asks what somebody may still do for a user asks here; nothing else reads consents to decide.
"""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from runtime.domain.authority import is_active
from runtime.domain.errors import AccessDenied, InsufficientAuthorization
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.domain.kinds.user_agent import Registration
from runtime.domain.kinds.values import Consent
from runtime.domain.oauth.resources import RequestedResource
from runtime.domain.oauth.scopes import ALWAYS_ASKED
from runtime.services.parties import Client
from runtime.services.parts import Parts
from runtime.services.zones import SessionRoot, ZoneView
from runtime.storage.sql import consents as storage
from runtime.storage.sql import roots
from runtime.storage.sql.consents import SIGN_IN, Agreed

USER_AUTHORIZATION_REQUIRED = "user_authorization_required"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What bounds an exchange from the user's side.

    Attributes:
        scopes: what was consented to; None where consent is implied.
        ends_at: when the grant ends.
    """

    scopes: frozenset[str] | None = None
    ends_at: datetime | None = None


async def require_allowance(
    parts: Parts,
    view: ZoneView,
    client: Client,
    root: SessionRoot,
    resource: Resource,
    *,
    wanted: frozenset[str] | None,
    now: datetime,
) -> Allowance:
    """What the user allowed. Raises AccessDenied when that is nothing, or was withdrawn.

    Every grant for the resource that there is must stand; where the application asks for consent, consent
    must have been given. What is known under the user's present epoch counts as long as it suffices; before
    anything is refused or cut short the database is asked, so a user who has just agreed is not told to.
    """
    mine = [grant for grant in root.delegated if grant.resource_id == resource.id]
    if not all(is_active(grant, now) for grant in mine):
        async with parts.database.querying() as conn:
            again = await roots.delegated(conn, view.id, root.user.user.id)
        mine = [grant for grant in again if grant.resource_id == resource.id]
        if not all(is_active(grant, now) for grant in mine):
            raise authorization_required(view, client, resource, internal="the grant was ended")
    ends_at = min((grant.expires_at for grant in mine if grant.expires_at), default=None)
    if client.consent == Consent.IMPLICIT:
        return Allowance(None, ends_at)
    scopes = await _consent(parts, view, client, root, resource, wanted)
    if scopes is None:
        raise authorization_required(view, client, resource, internal="no consent")
    for grant in mine:
        scopes &= grant.scopes
    return Allowance(scopes, ends_at)


async def _consent(
    parts: Parts,
    view: ZoneView,
    client: Client,
    root: SessionRoot,
    resource: Resource,
    wanted: frozenset[str] | None,
) -> frozenset[str] | None:
    user = root.user.user
    key = f"{user.id}\0{client.party.id}\0{resource.id}"
    held = view.consents.get(key)
    if held is not None and held[0] == user.epoch and (wanted or frozenset()) <= held[1]:
        return held[1]
    async with parts.database.querying() as conn:
        scopes = await roots.consent(conn, view.id, user.id, client.party, resource.id)
    if scopes is not None:
        view.consents.put(key, (user.epoch, scopes))
    return scopes


async def given_for(
    parts: Parts, view: ZoneView, client: Client, user: User, asked: RequestedResource
) -> Agreed | None:
    """The user's word, if it stands for a resource; None when that was taken back, or is over.

    Args:
        user: as read in this request.
    """
    agreed = await agreed_by(parts, view, client, user)
    if agreed.is_withdrawn([asked.id], parts.clock()):
        return None
    given = agreed.given.get(asked.id)
    covers = client.consent is Consent.IMPLICIT or (given is not None and asked.scopes <= given.scopes)
    return agreed if covers else None


async def covers_sign_in(
    parts: Parts, view: ZoneView, client: Client, user: User, scopes: frozenset[str]
) -> bool:
    """Tell whether the user has let the client know what these sign-in scopes tell it, and still does.

    Args:
        user: as read in this request.
    """
    if client.consent is Consent.IMPLICIT and not (scopes := scopes & ALWAYS_ASKED):
        return True
    given = (await agreed_by(parts, view, client, user)).given.get(SIGN_IN)
    return given is not None and scopes <= given.scopes


async def has_agreed_at(parts: Parts, view: ZoneView, client: Client, user: User, redirect_host: str) -> bool:
    """Tell whether the user has let the client act, whatever for, when it was answered at that host."""
    async with parts.database.querying() as conn:
        given = await storage.given(conn, zone_id=view.id, user_id=user.id, party=client.party)
    return any(record.redirect_host == redirect_host for record in given.values())


async def agreed_by(parts: Parts, view: ZoneView, client: Client, user: User) -> Agreed:
    """How the user's word stands now; from memory while the user's epoch is that under which it was read.

    A client that registered itself can lose everybody's word at once, which no user's epoch tells.
    """
    key = f"{user.id}\0{client.party.id}"
    held = view.agreed.get(key) if client.registration is Registration.MANAGED else None
    if held is not None and held[0] == user.epoch:
        return held[1]
    async with parts.database.querying() as conn:
        found = await storage.agreed(conn, zone_id=view.id, user_id=user.id, party=client.party)
    view.agreed.put(key, (user.epoch, found))
    return found


def authorization_required(
    view: ZoneView, client: Client, resource: Resource | None, *, internal: str
) -> AccessDenied:
    """The refusal that asks the user to authorize the application first, and says where."""
    named = {"resource": resource.identifier} if resource else {}
    query = urlencode({"client_id": client.client_id, **named})
    by_switch = view.switches.grant_missing_error == InsufficientAuthorization.code
    refusal = InsufficientAuthorization if by_switch else AccessDenied
    return refusal(
        "the user has not authorized the application for that resource",
        internal=internal,
        reason=USER_AUTHORIZATION_REQUIRED,
        error_uri=f"{view.issuer}/oauth/connect?{query}",
    )

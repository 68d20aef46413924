"""What the user allowed the application to do at the target: by consent, implied or given, and by grant."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import Consent
from runtime.services.exchange.target import authorization_required
from runtime.services.parties import Client
from runtime.services.zones import RootView, ZoneView
from runtime.storage.sql import roots
from runtime.storage.sql.roots import DelegatedGrantRow

if TYPE_CHECKING:
    from runtime.services.parts import Parts


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
    parts: "Parts",
    view: ZoneView,
    client: Client,
    root: RootView,
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
    if not all(_stands(grant, now) for grant in mine):
        async with parts.database.querying() as conn:
            again = await roots.delegated(conn, view.id, root.user.user.id)
        mine = [grant for grant in again if grant.resource_id == resource.id]
        if not all(_stands(grant, now) for grant in mine):
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
    parts: "Parts",
    view: ZoneView,
    client: Client,
    root: RootView,
    resource: Resource,
    wanted: frozenset[str] | None,
) -> frozenset[str] | None:
    user = root.user.user
    key = f"{user.id}\0{client.party.id}\0{resource.id}"
    held = view.consents.get(key)
    if held is not None and held[0] == root.session.user_epoch and (wanted or frozenset()) <= held[1]:
        return held[1]
    async with parts.database.querying() as conn:
        scopes = await roots.consent(conn, view.id, user.id, client.party, resource.id)
    if scopes is not None:
        view.consents.put(key, (root.session.user_epoch, scopes))
    return scopes


def _stands(grant: DelegatedGrantRow, now: datetime) -> bool:
    return grant.status == "active" and (grant.expires_at is None or grant.expires_at > now)

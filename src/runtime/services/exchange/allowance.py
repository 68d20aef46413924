"""What the user allowed the application to do at the target: by consent, implied or given, and by grant."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import Consent
from runtime.services.exchange.target import authorization_required
from runtime.services.zones import Client, RootView, ZoneView
from runtime.storage.sql import exchange as storage
from runtime.storage.sql.exchange import Allowances

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

    What was read under the user's present epoch counts as long as it suffices; before anything is refused
    or cut short, the database is asked, so a user who has just agreed is not told to agree.
    """
    key = f"{root.user.user.id}\0{client.application.id}\0{resource.id}"
    held = view.allowances.get(key)
    if held is not None and held[0] == root.session.user_epoch:
        known = _allowed(client, held[1], now)
        if known is not None and _suffices(known, wanted):
            return known
    async with parts.database.querying() as conn:
        found = await storage.allowances(conn, view.id, root.user.user.id, client.application.id, resource.id)
    allowed = _allowed(client, found, now)
    if allowed is None:
        raise authorization_required(view, client, resource, internal="no consent, or the grant was ended")
    view.allowances.put(key, (root.session.user_epoch, found))
    return allowed


def _allowed(client: Client, found: Allowances, now: datetime) -> Allowance | None:
    """What the records come to: every grant must stand, and consent must be there where it is asked for."""
    if any(
        grant.status != "active" or (grant.expires_at is not None and grant.expires_at <= now)
        for grant in found.delegated
    ):
        return None
    ends_at = min((grant.expires_at for grant in found.delegated if grant.expires_at), default=None)
    if client.application.consent == Consent.IMPLICIT:
        return Allowance(None, ends_at)
    if found.consent is None:
        return None
    scopes = found.consent
    for grant in found.delegated:
        scopes &= grant.scopes
    return Allowance(scopes, ends_at)


def _suffices(known: Allowance, wanted: frozenset[str] | None) -> bool:
    return known.scopes is None or (wanted is not None and wanted <= known.scopes)

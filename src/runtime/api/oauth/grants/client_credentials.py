"""Client credentials. Spec: RFC 6749 section 4.4."""

from typing import TYPE_CHECKING, Any

from runtime.domain.oauth import scopes
from runtime.services.exchange import direct
from runtime.services.parties import require_application

if TYPE_CHECKING:
    from runtime.api.oauth.token import TokenContext


async def grant(context: "TokenContext") -> dict[str, Any]:
    """A token of the application's own, for a resource it depends on or for the zone itself."""
    asked = context.form.get("scope")
    return await direct.client_credentials(
        context.parts,
        context.view,
        require_application(context.client),
        resources=context.resources,
        audiences=context.audiences,
        scopes=None if asked is None else scopes.parse(asked),
        now=context.now,
        decision=context.decision,
        jkt=context.jkt,
    )

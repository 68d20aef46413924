"""JWT bearer: an assertion of the zone's identity provider about a user. Spec: RFC 7523 section 2.1."""

from typing import TYPE_CHECKING, Any

from runtime.services.parties import require_application
from runtime.services.sign_in import asserted

if TYPE_CHECKING:
    from runtime.api.oauth.token import TokenContext


async def grant(context: "TokenContext") -> dict[str, Any]:
    """A token of the user whom the provider vouches for."""
    answer, authority = await asserted.redeem(
        context.parts,
        context.view,
        require_application(context.client),
        context.form,
        context.resources,
        context.now,
        context.jkt,
    )
    context.decision.user_id = authority.user.id
    return answer

"""Authorization code. Spec: RFC 6749 section 4.1.3, RFC 7636; zone interface, section 3."""

from typing import TYPE_CHECKING, Any

from runtime.services.sign_in import redemption

if TYPE_CHECKING:
    from runtime.api.oauth.token import TokenContext


async def grant(context: "TokenContext") -> dict[str, Any]:
    """The tokens of a sign-in, for the client that started it."""
    answer, authority = await redemption.redeem(
        context.parts, context.view, context.client, context.form, context.resources, context.now, context.jkt
    )
    context.decision.user_id = authority.user.id
    return answer

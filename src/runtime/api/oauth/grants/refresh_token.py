"""Refresh token. Spec: RFC 6749 section 6; zone interface, section 3."""

from typing import TYPE_CHECKING, Any

from runtime.services.sign_in import refreshing

if TYPE_CHECKING:
    from runtime.api.oauth.token import TokenContext


async def grant(context: "TokenContext") -> dict[str, Any]:
    """New tokens in place of those that run out, and the refresh token that follows."""
    answer, authority = await refreshing.refresh(
        context.parts, context.view, context.client, context.form, context.resources, context.now, context.jkt
    )
    context.decision.user_id = authority.user.id
    return answer

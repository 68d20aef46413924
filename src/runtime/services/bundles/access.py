"""Access to policy bundles: the user's own, with a token that carries the scope for it.

A user limits applications by policies of their own. So no token opens these that an application can get by
itself: it carries a scope that each user is asked for, whatever an administrator has decided about consent.
"""

from dataclasses import dataclass

from runtime.domain.errors import Forbidden
from runtime.domain.kinds.role import User
from runtime.domain.oauth.scopes import POLICY_BUNDLE
from runtime.services.authority import consents
from runtime.services.authority.subject_tokens import SubjectToken
from runtime.services.client_types import ApplicationClient, Client
from runtime.services.container import Services
from runtime.services.zones import CachedZone, SessionRoot


@dataclass(frozen=True, slots=True)
class BundleCaller:
    """A user whose token an application shows, which was issued for the zone itself and has been verified.

    Attributes:
        root: the sign-in behind it, which stands.
    """

    zone: CachedZone
    subject: SubjectToken
    root: SessionRoot
    client: Client


async def require_owner(services: Services, holder: BundleCaller) -> User:
    """The user whose policies these are, who has agreed. Raises Forbidden."""
    if not isinstance(holder.client, ApplicationClient):
        raise Forbidden("an application that registered itself may not read or change policies")
    if POLICY_BUNDLE not in holder.subject.scopes:
        raise Forbidden(
            f"the access token lacks the scope `{POLICY_BUNDLE}`: ask the user for it when they sign in",
            scope=POLICY_BUNDLE,
        )
    user, asked = holder.root.principal.user, frozenset({POLICY_BUNDLE})
    if not await consents.covers_sign_in(services, holder.zone, holder.client, user, asked):
        raise Forbidden("the user has not allowed the application to change their policies")
    return user

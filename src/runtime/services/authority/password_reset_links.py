"""Password reset links: each replaces one password, once, within half an hour.

Nothing is stored for a link: it names the password that it replaces, and is void once that is gone.
"""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from pydantic import BaseModel, ConfigDict

from runtime.domain.errors import BadLink
from runtime.domain.kinds.values import UserStatus
from runtime.services.authority import admission, sealed_links
from runtime.services.container import Services
from runtime.services.zones import CachedZone
from runtime.storage.sql import users as storage
from runtime.storage.sql.users import PasswordUser

LINK_MINUTES: Final = 30
_KIND = "password_resets"
_OVER = "this link has expired or was used already; request a new one on the sign-in page"


class ResetLink(BaseModel):
    """What a link says.

    Attributes:
        password: SHA-256 of the stored hash of the password that it replaces, in hex.
        email: where it was sent.
    """

    model_config = ConfigDict(frozen=True)

    user_id: str
    email: str
    password: str
    expires_at: datetime


def new_link(zone: CachedZone, found: PasswordUser, now: datetime) -> str:
    """The address of the page on which that user chooses another password, once."""
    link = ResetLink(
        user_id=found.user.id,
        email=found.user.email,
        password=_fingerprint(found),
        expires_at=now + timedelta(minutes=LINK_MINUTES),
    )
    return f"{zone.issuer}/oauth/reset-password?link={sealed_links.seal_link(zone, _KIND, link)}"


async def find(services: Services, zone: CachedZone, text: str) -> PasswordUser:
    """Whose password a link replaces. Raises BadLink for one that is over, SignInRefused."""
    admission.require_local(zone.entity)
    link = sealed_links.open_link(zone, _KIND, ResetLink, text)
    if services.clock() >= link.expires_at:
        raise BadLink(_OVER)
    async with services.database.reading() as conn:
        found = await storage.with_password(conn, link.user_id, zone_id=zone.id)
    if found is None or (_fingerprint(found), found.user.email) != (link.password, link.email):
        raise BadLink(_OVER)
    if found.user.status is UserStatus.DISABLED:
        raise BadLink(_OVER, internal="the user is disabled")
    return found


def _fingerprint(found: PasswordUser) -> str:
    return sha256(found.password_hash.encode()).hexdigest()

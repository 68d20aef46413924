"""Password reset by mail: a link that replaces the password once, for half an hour.

Nothing is stored for a link: it names the password that it replaces, and is worth nothing once that is gone.
Who requests one is not told whether the address has an account: it is looked up when the mail is sent.

Spec: OWASP Forgot Password Cheat Sheet; RFC 6749 section 10.11 for the pages.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from pydantic import BaseModel, ConfigDict

from runtime.adapters.passwords import PasswordsBusy
from runtime.domain.errors import BadLink, NotFound, SignInUnavailable, TooManyTries
from runtime.domain.kinds.values import UserStatus
from runtime.services import rate_limits
from runtime.services.authority import admission, password_changes, sealed_links
from runtime.services.authority.credential_rules import checked_email
from runtime.services.container import Services
from runtime.services.login import throttling
from runtime.services.outbox.mail import MailDelivery, one_line
from runtime.services.outbox.messages import Message, Undeliverable
from runtime.services.rate_limiter import place_of
from runtime.services.token_event_log import current_decision
from runtime.services.zones import CachedZone, ZoneRegistry
from runtime.storage.sql import users as storage
from runtime.storage.sql.database import Database
from runtime.storage.sql.users import PasswordUser

TOPIC: Final = "password-reset"
LINK_MINUTES: Final = 30
_KIND = "password_resets"
_OVER = "this link has expired or was used already; request a new one on the sign-in page"
_BUSY = "too many passwords are being changed at this moment; try again shortly"
_TEXT = """\
Somebody, probably you, requested a new password for {email} at "{zone}".

To choose one, open this address within {minutes} minutes:

    {link}

If it was not you, you can leave this message unanswered: your password stays as it is.
"""


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


async def request(services: Services, zone: CachedZone, email: str, *, address: str) -> None:
    """Have a link sent to that address, if a user with a password has it.

    Raises: SignInRefused where nobody has a password; ValidationFailed; TooManyTries.
    """
    admission.require_local(zone.entity)
    recipient = checked_email(email)
    for limit, per in (
        (rate_limits.PASSWORD_RESETS, place_of(address)),
        (rate_limits.PASSWORD_RESETS_TO_ADDRESS, recipient.lower()),
        (rate_limits.PASSWORD_RESETS_IN_ZONE, ""),
    ):
        if wait := await services.rate_limiter.hit(limit, zone.id, per):
            raise TooManyTries("too many links were requested; try again later", retry_after_seconds=wait)
    async with services.database.transaction() as conn:
        await services.outbox.enqueue(
            conn, TOPIC, {"email": recipient}, organization_id=zone.organization_id, zone_id=zone.id
        )
    services.outbox.notify()


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


async def reset(services: Services, zone: CachedZone, text: str, password: str, *, address: str) -> str:
    """Replace the password of the link's user, who is signed out everywhere; their address.

    Raises: BadLink; ValidationFailed for a password that will not do; SignInRefused; TooManyTries;
        SignInUnavailable.
    """
    found = await find(services, zone, text)
    await throttling.check_password_rate(services, zone.id, f"reset {found.user.id}", address)
    decision = current_decision()
    decision.user_id = found.user.id
    try:
        await password_changes.replace(services, zone.entity, found, password)
    except PasswordsBusy:
        raise SignInUnavailable(_BUSY) from None
    decision.succeed("password_changed")
    return found.user.email


@dataclass(frozen=True, slots=True)
class PasswordResetDelivery:
    """Delivers the messages of the topic `password-reset`: the link is made when it is sent."""

    mail: MailDelivery
    zones: ZoneRegistry
    database: Database
    clock: Callable[[], datetime]

    async def deliver(self, message: Message) -> None:
        """Send the link; nothing to an address without a user who could use it.

        Raises: NotDelivered, Undeliverable.
        """
        try:
            zone = await self.zones.get(message.zone_id or "")
        except NotFound:
            raise Undeliverable("the zone no longer exists") from None
        async with self.database.querying() as conn:
            found = await storage.find_by_password(conn, zone_id=zone.id, email=message.payload["email"])
        is_local = zone.entity.user_identity_provider_id is None
        if found is None or not is_local or found.user.status is UserStatus.DISABLED:
            return
        text = _TEXT.format(
            email=found.user.email,
            zone=one_line(zone.entity.name),
            minutes=LINK_MINUTES,
            link=new_link(zone, found, self.clock()),
        )
        subject = f"A new password for {one_line(zone.entity.name)}"
        await self.mail.deliver(
            replace(message, payload={"to": found.user.email, "subject": subject, "text": text})
        )


def _fingerprint(found: PasswordUser) -> str:
    return sha256(found.password_hash.encode()).hexdigest()

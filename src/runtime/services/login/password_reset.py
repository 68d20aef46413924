"""Password reset by mail: requesting a link, sending it, and replacing the password with it.

Who requests a link is not told whether the address has an account: it is looked up when the mail is sent.

Spec: OWASP Forgot Password Cheat Sheet; RFC 6749 section 10.11 for the pages.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from runtime.adapters.passwords import PasswordsBusy
from runtime.domain.errors import NotFound, SignInUnavailable, TooManyTries
from runtime.domain.kinds.values import UserStatus
from runtime.domain.oauth.decision_events import DecisionOutcome
from runtime.services import rate_limits
from runtime.services.authority import admission, password_changes, password_reset_links
from runtime.services.authority.credential_rules import checked_email
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.login import throttling
from runtime.services.outbox.mail import MailDelivery, one_line
from runtime.services.outbox.messages import Message, Undeliverable
from runtime.services.rate_limiter import network_of
from runtime.services.zones import CachedZone, ZoneRegistry
from runtime.storage.sql import users as storage
from runtime.storage.sql.database import Database

TOPIC: Final = "password-reset"
_BUSY = "too many passwords are being changed at this moment; try again shortly"
_TEXT = """\
Somebody, probably you, requested a new password for {email} at "{zone}".

To choose one, open this address within {minutes} minutes:

    {link}

If it was not you, you can leave this message unanswered: your password stays as it is.
"""


async def request(services: Services, zone: CachedZone, email: str, *, address: str) -> None:
    """Have a link sent to that address, if a user with a password has it.

    Raises: SignInRefused where nobody has a password; ValidationFailed; TooManyTries.
    """
    admission.require_local(zone.entity)
    recipient = checked_email(email)
    for limit, per in (
        (rate_limits.PASSWORD_RESETS, network_of(address)),
        (rate_limits.PASSWORD_RESETS_TO_ADDRESS, recipient.lower()),
        (rate_limits.PASSWORD_RESETS_IN_ZONE, ""),
    ):
        if wait := await services.rate_limiter.hit(limit, zone.id, per):
            raise TooManyTries("too many links were requested; try again later", retry_after_seconds=wait)
    async with services.database.transaction(tenant=zone.organization_id) as conn:
        await services.outbox.enqueue(
            conn, TOPIC, {"email": recipient}, organization_id=zone.organization_id, zone_id=zone.id
        )
    services.outbox.notify()


async def reset(services: Services, zone: CachedZone, text: str, password: str, *, address: str) -> str:
    """Replace the password of the link's user, who is signed out everywhere; their address.

    Raises: BadLink; ValidationFailed for a password that will not do; SignInRefused; TooManyTries;
        SignInUnavailable.
    """
    found = await password_reset_links.find(services, zone, text)
    await throttling.check_password_rate(services, zone.id, f"reset {found.user.id}", address)
    decision = current_decision()
    decision.user_id = found.user.id
    try:
        await password_changes.replace(services, zone.entity, found, password)
    except PasswordsBusy:
        raise SignInUnavailable(_BUSY) from None
    decision.succeed(DecisionOutcome.PASSWORD_CHANGED)
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
            minutes=password_reset_links.LINK_MINUTES,
            link=password_reset_links.new_link(zone, found, self.clock()),
        )
        subject = f"A new password for {one_line(zone.entity.name)}"
        await self.mail.deliver(
            replace(message, payload={"to": found.user.email, "subject": subject, "text": text})
        )

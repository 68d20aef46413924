"""The handlers of the outbox: how the messages of each topic are delivered."""

from collections.abc import Callable, Mapping
from datetime import datetime

from runtime.adapters.mail import Transport
from runtime.adapters.outbound import Outbound
from runtime.adapters.upstream_oauth.client import UpstreamOAuthClient
from runtime.services.login import password_reset
from runtime.services.login.password_reset import PasswordResetDelivery
from runtime.services.logout.backchannel_delivery import BackchannelLogoutDelivery
from runtime.services.outbox import MessageHandler, logout_notices, mail
from runtime.services.vault import revocation_delivery, upstream_revocations
from runtime.services.vault.revocation_delivery import UpstreamRevocationDelivery
from runtime.services.zones import ZoneRegistry
from runtime.storage.sql.database import Database


def message_handlers(
    zones: ZoneRegistry,
    outbound: Outbound,
    upstream_oauth: UpstreamOAuthClient,
    database: Database,
    transport: Transport,
    clock: Callable[[], datetime],
    *,
    mail_from: str,
) -> Mapping[str, MessageHandler]:
    """Topic -> its handler."""
    backchannel = BackchannelLogoutDelivery(zones, outbound, clock)
    mails = mail.MailDelivery(transport, mail_from, clock)
    return {
        mail.TOPIC: MessageHandler(mails.deliver),
        password_reset.TOPIC: MessageHandler(PasswordResetDelivery(mails, zones, database, clock).deliver),
        logout_notices.TOPIC: MessageHandler(backchannel.deliver, attempts=6),
        upstream_revocations.TOPIC: MessageHandler(
            UpstreamRevocationDelivery(zones, database, upstream_oauth, clock).deliver,
            attempts=revocation_delivery.ATTEMPTS,
            first_delay_seconds=revocation_delivery.FIRST_DELAY_SECONDS,
        ),
    }

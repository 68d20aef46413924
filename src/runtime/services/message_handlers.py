"""The handlers of the outbox: how the messages of each topic are delivered."""

from collections.abc import Callable, Mapping
from datetime import datetime

from runtime.adapters.mail import Transport
from runtime.adapters.outbound import Outbound
from runtime.services.logout.backchannel_delivery import BackchannelLogoutDelivery
from runtime.services.outbox import MessageHandler, logout_notices, mail
from runtime.services.zones import ZoneRegistry


def message_handlers(
    zones: ZoneRegistry,
    outbound: Outbound,
    transport: Transport,
    clock: Callable[[], datetime],
    *,
    mail_from: str,
) -> Mapping[str, MessageHandler]:
    """Topic -> its handler."""
    backchannel = BackchannelLogoutDelivery(zones, outbound, clock)
    return {
        mail.TOPIC: MessageHandler(mail.MailDelivery(transport, mail_from, clock).deliver),
        logout_notices.TOPIC: MessageHandler(backchannel.deliver, attempts=6),
    }

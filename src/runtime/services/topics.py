"""Every topic of the outbox, by name."""

from collections.abc import Mapping

from runtime.services.logout import backchannel_delivery
from runtime.services.outbox import backchannel_logout, mail
from runtime.services.outbox.letters import Topic

TOPICS: Mapping[str, Topic] = {
    mail.TOPIC: Topic(mail.deliver),
    backchannel_logout.TOPIC: Topic(backchannel_delivery.deliver, attempts=6),
}

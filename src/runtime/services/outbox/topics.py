"""Every topic of the outbox, by name."""

from collections.abc import Mapping

from runtime.services.outbox import mail
from runtime.services.outbox.letters import Topic
from runtime.services.sign_out import announcing

TOPICS: Mapping[str, Topic] = {
    mail.TOPIC: Topic(mail.deliver),
    announcing.TOPIC: Topic(announcing.deliver, attempts=6),
}

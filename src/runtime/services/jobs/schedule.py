"""Every job of the service. A new one is a module with its `run(parts)` and a line here."""

from datetime import timedelta

from runtime.services import keys
from runtime.services.jobs import unused_clients
from runtime.services.jobs.runner import Job
from runtime.services.outbox import JOB as OUTBOX
from runtime.services.tokens import delta

JOBS: tuple[Job, ...] = (
    Job("unused_clients", timedelta(hours=1), timedelta(minutes=10), unused_clients.run),
    Job(OUTBOX, timedelta(seconds=30), timedelta(minutes=10), lambda parts: parts.outbox.tend()),
    Job(keys.JOB, timedelta(minutes=10), timedelta(minutes=10), keys.rotate_due),
    Job(delta.JOB, timedelta(hours=1), timedelta(minutes=5), delta.prune),
)

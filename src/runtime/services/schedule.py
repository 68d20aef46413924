"""Every periodic job: a function that takes the services and returns a count. A new job is a line here."""

from datetime import timedelta

from runtime.services import epochs, retention, revocation_list, token_event_partitions
from runtime.services.clients import unused_clients
from runtime.services.jobs.runner import Job
from runtime.services.management.organizations import api_keys
from runtime.services.management.zones import key_rotation, moving
from runtime.services.outbox import JOB as OUTBOX
from runtime.services.vault import refresh_ahead

JOBS: tuple[Job, ...] = (
    Job("unused_clients", timedelta(hours=1), timedelta(minutes=10), unused_clients.run),
    Job(OUTBOX, timedelta(seconds=30), timedelta(minutes=10), lambda services: services.outbox.run_job()),
    Job(key_rotation.JOB, timedelta(minutes=10), timedelta(minutes=10), key_rotation.rotate_due),
    Job(moving.JOB, timedelta(minutes=10), timedelta(minutes=10), moving.end_due),
    Job(api_keys.JOB, timedelta(hours=6), timedelta(minutes=10), api_keys.forget_expired),
    Job(epochs.JOB, timedelta(minutes=5), timedelta(minutes=5), lambda services: services.epochs.prune()),
    Job(
        token_event_partitions.JOB,
        timedelta(hours=1),
        timedelta(hours=1),  # for tables that are converted: all of their rows are read once
        token_event_partitions.run,
    ),
    Job(retention.JOB, timedelta(hours=1), timedelta(minutes=10), retention.run),
    Job(
        revocation_list.JOB,
        timedelta(hours=1),
        timedelta(minutes=5),
        lambda services: services.revocations.prune(),
    ),
    Job(refresh_ahead.JOB, timedelta(seconds=30), timedelta(minutes=5), refresh_ahead.run),
)

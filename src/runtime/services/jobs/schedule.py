"""Every job of the service. A new one is a module with its `run(parts)` and a line here."""

from runtime.services.jobs.runner import Job

JOBS: tuple[Job, ...] = ()

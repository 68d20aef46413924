"""The lock of the embedded database: one server, or one restore, has its file."""

from runtime import files
from runtime.cli.execution import CommandError, errors_in_one_line
from runtime.settings import Settings
from runtime.storage.sql.sqlite import files_of


def hold_database(settings: Settings) -> int | None:
    """Keep any `zoned serve` from this SQLite file. Raises CommandError when one has it.

    Two servers would not see each other's revocations at once. The lock ends with this process, however that
    ends. Other commands need none: a server notices what they have written.

    Returns: the descriptor that has the lock; None where the database is no file.
    """
    found = files_of(settings.resolved_database_url)
    if not found or not found[0].exists():  # the latter is told by whoever opens it
        return None
    file = found[0].resolve()  # by whatever way the other one reaches it
    lock = file.with_name(f"{file.name}.lock")
    with errors_in_one_line():
        held = files.hold(lock)
    if held is None:
        by = lock.read_text("ascii", errors="replace").strip()
        raise CommandError(
            f"another `zoned serve` (process {by}) has the database `{found[0]}` open: stop it first; for"
            " several servers set ZONED_DATABASE_URL to PostgreSQL and ZONED_REDIS_URL to a Redis"
        )
    return held

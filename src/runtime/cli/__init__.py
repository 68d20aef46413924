"""The command line of `zoned`: set up, migrate, serve and administer the service."""

from runtime.cli.command import main
from runtime.logs import log_to_stderr

__all__ = ["main", "run"]


def run() -> None:
    """Run the command that this process was started for, and log to standard error."""
    log_to_stderr()
    main()

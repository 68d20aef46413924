"""How a command ends: the exit codes that scripts rely on, and the exception that carries one."""

from reconciler.terminal import Line

FAILED, CHANGES, DRIFT, STALE, REFUSED, USAGE, INTERRUPTED = 1, 2, 3, 4, 5, 64, 130


class Failure(Exception):
    """A command ends with this exit code; *lines* go to standard error."""

    def __init__(self, exit_code: int, *lines: Line) -> None:
        super().__init__(*lines)
        self.exit_code, self.lines = exit_code, lines

"""How a command ends: the exit codes that scripts rely on, and the exception that carries one."""

FAILED, CHANGES, DRIFT, STALE, REFUSED, USAGE, INTERRUPTED = 1, 2, 3, 4, 5, 64, 130


class Failure(Exception):
    """A command ends with this exit code; *message* goes to standard error."""

    def __init__(self, exit_code: int, message: str = "") -> None:
        super().__init__(message)
        self.exit_code, self.message = exit_code, message

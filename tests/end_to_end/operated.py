"""A server whose operators run many commands."""

import subprocess
from collections.abc import Sequence

import acme
from tests.support.prepared import prepared


class Server(acme.Server):
    """Its commands need no start; the service itself is the program, started."""

    def execute(self, arguments: Sequence[str], stdin: str | None) -> "subprocess.CompletedProcess[str]":
        """A `zoned` command as a process that has come to its end."""
        if "serve" in arguments or "PYTHONPATH" in self.settings:  # the latter is the program of another tree
            return super().execute(arguments, stdin)
        return prepared("zoned").run(arguments, environment=self.environment, stdin=stdin)

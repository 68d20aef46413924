"""A server whose operators run many commands."""

import subprocess
from collections.abc import Iterable, Sequence

import acme
from tests.support.prepared import prepared


class Server(acme.Server):
    """Its commands need no start; the service itself is the program, started."""

    def execute(self, arguments: Sequence[str], stdin: str | None) -> "subprocess.CompletedProcess[str]":
        """A `zoned` command as a process that has come to its end."""
        if "serve" in arguments or "PYTHONPATH" in self.settings:  # the latter is the program of another tree
            return super().execute(arguments, stdin)
        return prepared("zoned").run(arguments, environment=self.environment, stdin=stdin)

    def zonectl(
        self, *arguments: str, expect: Iterable[int] = (0,), **settings: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a `zonectl` command against this server. Raises Unexpected when it exits otherwise."""
        if "PYTHONPATH" in settings:
            return super().zonectl(*arguments, expect=expect, **settings)
        environment = acme.clean_environment(**(self.client_settings | settings))
        done = prepared("zonectl").run(arguments, environment=environment, seconds=300)
        if done.returncode not in set(expect):
            said = f"{done.stdout}{done.stderr}"
            raise acme.Unexpected(f"zonectl {' '.join(arguments)}: exit {done.returncode}\n{said}")
        return done

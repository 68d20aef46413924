"""`zoned` and `zonectl` as processes that need no start: each is a fork of one that has imported everything.

What a fork runs is the command itself, with an environment, a directory, a umask, limits and files of its
own, and it ends as the interpreter ends. Only the start of Python and the imports are those of the process
before it. Tests about these, and services that stay, start the program.
"""

import atexit
import gc
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

_MAX_REQUEST = 1 << 20


class Prepared:
    """A program that is ready to run.

    Args:
        program: `zoned` or `zonectl`.
    """

    def __init__(self, program: str) -> None:
        self._program = program
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            arguments = [sys.executable, str(Path(__file__)), program, str(its.fileno())]
            environment = {"PATH": os.environ["PATH"]}
            self._process = subprocess.Popen(
                arguments, env=environment, cwd="/", pass_fds=[its.fileno()], stdin=subprocess.DEVNULL
            )
        self._socket = ours

    def run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path | None = None,
        stdin: str | None = None,
        together: bool = False,
        seconds: float = 120,
        memory_bytes: int | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end. Raises TimeoutError when that takes longer, and ends it.

        Args:
            together: what it writes to either stream is in `stdout`, as it came.
        """
        umask = os.umask(0)
        os.umask(umask)
        request = {
            "arguments": [str(Path(sys.executable).parent / self._program), *arguments],
            "environment": dict(environment),
            "directory": str(directory or Path.cwd()),
            "umask": umask,
            "memory_bytes": memory_bytes,
        }
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write((stdin or "").encode())
            given.seek(0)
            files = [each.fileno() for each in (given, out, out if together else err)]
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            code = self._end_of(int(self._socket.recv(64)), seconds)
            return subprocess.CompletedProcess(list(arguments), code, _read(out), _read(err))

    def _end_of(self, pid: int, seconds: float) -> int:
        self._socket.settimeout(seconds)
        try:
            return int(self._socket.recv(64))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._socket.settimeout(None)
            self._socket.recv(64)
            raise
        finally:
            self._socket.settimeout(None)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@cache
def prepared(program: str) -> Prepared:
    """The program of this name, of this process."""
    return Prepared(program)


def _serve(program: str, bound: socket.socket) -> list[str] | None:
    """Fork for every request; in the fork, the arguments that it is to be run with. None at the end."""
    while True:
        message, files, _, _ = socket.recv_fds(bound, _MAX_REQUEST, 3)
        if not message:
            return None
        pid = os.fork()
        if pid == 0:
            bound.close()
            return _become(json.loads(message), files)
        for each in files:
            os.close(each)
        bound.send(str(pid).encode())
        bound.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def _become(request: dict, files: Sequence[int]) -> list[str]:
    """Take on what the request says of the process."""
    for number, each in enumerate(files):
        os.dup2(each, number)
        os.close(each)
    os.chdir(request["directory"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["memory_bytes"]:
        resource.setrlimit(resource.RLIMIT_AS, (request["memory_bytes"],) * 2)
    # As Python opens them in a locale that says nothing.
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    lines = 1 if os.environ.get("PYTHONUNBUFFERED") else -1
    sys.stdout = open(1, "w", lines, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    arguments: list[str] = request["arguments"]
    return arguments


def _end(main: Callable[[], None]) -> None:
    """Run a command to its end: as the interpreter ends, which would also clear the memory of all modules.

    That is memory of the process before, and to write to it takes longer than many a command.
    """
    try:
        main()
        code = 0
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # what has something to say when it goes says it
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def _share_authorities() -> None:
    """Read the certificates that everybody trusts before there are forks: they verify with the same ones."""
    import certifi

    make, trusted = ssl.create_default_context, {"cafile": certifi.where()}
    shared = make(**trusted)

    def context(*arguments: Any, **named: Any) -> ssl.SSLContext:
        return make(*arguments, **named) if arguments or named != trusted else shared

    ssl.create_default_context = context  # type: ignore[assignment]


def _main(program: str, descriptor: int) -> None:
    if program == "zonectl":
        # What most commands import, and what is imported with the first request.
        import encodings.idna  # noqa: F401

        import httpcore  # noqa: F401
        import rfc8785  # noqa: F401

        import reconciler.apply
        import reconciler.commands.apply
        import reconciler.commands.drift
        import reconciler.commands.watch
        import reconciler.report.diagnostics  # noqa: F401
        from reconciler.cli import main

        _share_authorities()
    else:
        from runtime.cli import main
    gc.freeze()
    arguments = _serve(program, socket.socket(fileno=descriptor))
    if arguments is not None:
        sys.argv = arguments
        _end(main)


if __name__ == "__main__":
    sys.path.pop(0)
    _main(sys.argv[1], int(sys.argv[2]))

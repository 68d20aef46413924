"""`zoned serve`: binds the socket, and starts the workers."""

import errno
import os
import socket
import sqlite3
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import click

from runtime.app import listening_socket
from runtime.cli.activation import passed_socket
from runtime.cli.database_lock import hold_database
from runtime.cli.execution import CommandError, errors_in_one_line, with_services
from runtime.cli.operators import current_operator
from runtime.cli.private_files import close_private_files
from runtime.cli.supervisor import Supervisor, SupervisorError
from runtime.cli.worker import ListenError, serve_until_told
from runtime.logs import configure_logs, log
from runtime.services.management.organizations import organizations
from runtime.settings import Settings
from runtime.storage.sql import file_copies
from runtime.storage.sql.sqlite import files_of

# What the system says of an address -> what to do.
_ADVICE = {
    errno.EADDRINUSE: (
        "another process has the port, which `ss -ltnp` names once it listens: stop it, or set ZONED_LISTEN"
        " to another port"
    ),
    errno.EADDRNOTAVAIL: "no network interface of this machine has that address",
    errno.EACCES: "this account may not use the port: take one from 1024 on, with a proxy in front",
}


@click.command()
@click.pass_obj
def serve(settings: Settings) -> None:
    """Serve the management API and every zone."""
    bound = passed_socket() or _bind(settings)  # before anything that takes time
    held = hold_database(settings)
    is_incomplete = _note_incomplete(settings)  # before it is opened
    # A worker that cannot connect would only say so in its log: that is tried here.
    with_services(settings, partial(organizations.complete_home_zones, by=current_operator()))
    for left in close_private_files(settings):
        click.echo(f"Warning: {left}", err=True)
    configure_logs(settings)
    if is_incomplete:
        log.warning("the database may lack writes, for it was copied without its `-wal`: run `zoned doctor`")
    try:
        with errors_in_one_line(), nullcontext() if is_incomplete else _marked(settings):
            if settings.workers == 1:
                serve_until_told(settings, bound)
            else:
                Supervisor(settings, bound).run()
    except ListenError:
        in_use = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        raise _cannot_listen(settings, in_use) from None
    except SupervisorError as failure:
        raise CommandError(str(failure)) from None
    finally:
        if held is not None:
            os.close(held)


def _note_incomplete(settings: Settings) -> bool:
    """Tell whether the database is a copy that lacks writes, and let `zoned doctor` go on telling it."""
    found = files_of(settings.resolved_database_url)
    try:
        return bool(found) and file_copies.note_incomplete(found[0])
    except (sqlite3.Error, OSError):  # whoever opens it next says what is wrong with it
        return False


def _marked(settings: Settings) -> AbstractContextManager[None]:
    """Let copies of the database's file alone be known for what they are."""
    found = files_of(settings.resolved_database_url)
    return file_copies.marked(found[0]) if found else nullcontext()


def _bind(settings: Settings) -> socket.socket:
    """The socket of the address to listen on, which is this process's from now on. Raises CommandError."""
    try:
        return listening_socket(settings.listen)
    except OSError as failure:
        raise _cannot_listen(settings, failure) from None
    except (ValueError, OverflowError):
        raise CommandError(
            f"ZONED_LISTEN `{settings.listen}` is not an address and a port, as in `127.0.0.1:8080`"
        ) from None


def _cannot_listen(settings: Settings, failure: OSError) -> CommandError:
    advice = _ADVICE.get(failure.errno or 0, "choose another address in ZONED_LISTEN")
    return CommandError(f"cannot listen on `{settings.listen}` (ZONED_LISTEN): {failure.strerror}; {advice}")

"""`zoned serve`: binds the socket, and starts the workers."""

from functools import partial

import click

from runtime.app import listening_socket
from runtime.cli.execution import CommandError, with_services
from runtime.cli.operators import current_operator
from runtime.cli.private_files import close_private_files
from runtime.cli.supervisor import Supervisor, SupervisorError
from runtime.cli.worker import serve_until_told
from runtime.logs import configure_logs
from runtime.services.management.organizations import organizations
from runtime.settings import Settings


@click.command()
@click.pass_obj
def serve(settings: Settings) -> None:
    """Serve the management API and every zone."""
    # A worker that cannot connect would only say so in its log: that is tried here.
    with_services(settings, partial(organizations.complete_home_zones, by=current_operator()))
    for left in close_private_files(settings):
        click.echo(f"Warning: {left}", err=True)
    try:
        bound = listening_socket(settings.listen)
    except OSError as failure:
        raise CommandError(
            f"cannot listen on `{settings.listen}` (ZONED_LISTEN): {failure.strerror}"
        ) from None
    except (ValueError, OverflowError):
        raise CommandError(
            f"ZONED_LISTEN `{settings.listen}` is not an address and a port, as in `127.0.0.1:8080`"
        ) from None
    configure_logs(settings)
    if settings.workers == 1:
        serve_until_told(settings, bound)
        return
    try:
        Supervisor(settings, bound).run()
    except SupervisorError as failure:
        raise CommandError(str(failure)) from None

"""`zoned serve`."""

from functools import partial

import click
from sanic import Sanic
from sanic.worker.loader import AppLoader

from runtime.api.shared.arrival import PromptProtocol
from runtime.app import build, listening_socket
from runtime.cli.connected import Refused, with_parts
from runtime.cli.operators import this_operator
from runtime.cli.private_files import close_private_files
from runtime.services.management.organizations import organizations
from runtime.settings import Settings


@click.command()
@click.pass_obj
def serve(settings: Settings) -> None:
    """Serve the management API and every zone."""
    # A worker that cannot connect would only say so in its log: that is tried here.
    with_parts(settings, partial(organizations.complete_own_zones, by=this_operator()))
    for left in close_private_files(settings):
        click.echo(f"Warning: {left}", err=True)
    try:
        bound = listening_socket(settings.listen)
    except OSError as failure:
        raise Refused(f"cannot listen on `{settings.listen}` (ZONED_LISTEN): {failure.strerror}") from None
    except (ValueError, OverflowError):
        raise Refused(
            f"ZONED_LISTEN `{settings.listen}` is not an address and a port, as in `127.0.0.1:8080`"
        ) from None
    loader = AppLoader(factory=partial(build, settings))
    app = loader.load()
    single = settings.workers == 1
    app.prepare(
        sock=bound,
        workers=settings.workers,
        single_process=single,
        protocol=PromptProtocol,
        motd=False,
        access_log=False,
    )
    if single:
        Sanic.serve_single(primary=app)
    else:
        Sanic.serve(primary=app, app_loader=loader)

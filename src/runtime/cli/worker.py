"""A worker process of `zoned serve`: serves until SIGTERM, or until its supervisor is gone."""

import asyncio
import errno
import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from sanic import Sanic
from sanic.application.state import ApplicationServerInfo
from sanic.http.constants import HTTP
from sanic.models.server_types import Signal

from runtime import files
from runtime.api.shared.connections import PromptProtocol
from runtime.app import address_of, build
from runtime.logs import log
from runtime.metrics import DIRECTORY
from runtime.settings import Settings

# How a worker exits that cannot listen: as `sysexits.h` has it, and no uncaught exception ends a process so.
LISTEN_EXIT_CODE = os.EX_UNAVAILABLE
# Connections that wait to be accepted: while workers are busy; at a socket of systemd, while none is there.
BACKLOG = 4096
_GRACE_SECONDS = 20  # for the answers to requests that have arrived
# Refreshes of upstream tokens that answers do not wait for have 20 more, and token events 5. After that, and
# `drain_seconds` before it, the process hangs.
STOP_SECONDS = _GRACE_SECONDS + 30
_LOOK_SECONDS = 0.05
# Caches keep much of what requests make: looking through all of it as often as Python does by itself takes a
# tenth of the time of a cold exchange. What is new is looked through soon: a refused request may hold a body.
_GC_THRESHOLDS = (2_000, 20, 20)  # as `gc.set_threshold` takes them


class ListenError(Exception):
    """Another process listens on the address."""


def work(settings: Settings, bound: socket.socket) -> None:
    """Be one of several workers: serve for as long as the process that started this one is there."""
    stop_seconds = STOP_SECONDS + settings.drain_seconds
    threading.Thread(target=_follow_parent, args=(stop_seconds,), name="parent", daemon=True).start()
    try:
        serve_until_told(settings, bound)
    except ListenError:
        sys.exit(LISTEN_EXIT_CODE)
    _clear_up()


def _clear_up() -> None:
    """Remove what the supervisor would have removed, if it is gone."""
    if _is_alone() and (directory := os.environ.get(DIRECTORY)):
        files.remove_directory(Path(directory))


def _is_alone() -> bool:
    """Tell whether the supervisor is gone: the address is for who takes its place, and at once."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


def _follow_parent(stop_seconds: float) -> None:
    """Stop once the parent is gone: a worker of its own would keep the address from the next start."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    log.error("the supervisor process has exited: this worker stops", pid=os.getpid())
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(stop_seconds)
    os._exit(1)


def serve_until_told(settings: Settings, bound: socket.socket) -> None:
    """Serve on a bound socket until SIGTERM or SIGINT.

    Then what has arrived is answered, what is queued is written, and the call returns. Raises ListenError.
    """
    serve(build(settings), bound, drain_seconds=settings.drain_seconds)


def serve(app: Sanic[Any, Any], bound: socket.socket, *, drain_seconds: float = 0) -> None:
    """Serve an application as `serve_until_told` does. Raises ListenError.

    Args:
        drain_seconds: how long it goes on serving once it is told to stop, for balancers to hear of it.
    """
    app.setup_loop()
    asyncio.run(_serve(app, bound, drain_seconds))


async def _serve(app: Sanic[Any, Any], bound: socket.socket, drain_seconds: float) -> None:
    told = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, told.set)
    server: Any = await app.create_server(  # Sanic's methods of it have no types
        sock=bound,
        backlog=BACKLOG,
        protocol=PromptProtocol,
        access_log=False,
        asyncio_server_kwargs={"start_serving": False},  # not before the parts are there
    )
    # Without it Sanic announces the HTTP/3 servers beside this one, of which there are none: `alt-svc:`.
    app.ctx.listen = address_of(bound)
    app.state.server_info.append(ApplicationServerInfo({"version": HTTP.VERSION_1}))
    await server.startup()
    if not await _start(app, server, told):
        bound.close()
        return
    try:
        _listen(bound)
    except ListenError:
        await server.before_stop()
        await server.after_stop()
        raise
    await server.start_serving()
    await server.after_start()
    _keep_what_is_there()
    await told.wait()
    log.info("stopping", connections=len(server.connections))
    await _announce(app, 0 if _is_alone() else drain_seconds)
    await server.before_stop()
    await _drain(app, server, bound)
    bound.close()
    await server.after_stop()


async def _start(app: Sanic[Any, Any], server: Any, told: asyncio.Event) -> bool:
    """Get everything ready; False where that was waited for when the process was told to stop."""
    starting, stopping = asyncio.ensure_future(server.before_start()), asyncio.ensure_future(told.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done() and not hasattr(app.ctx, "services"):
        starting.cancel()
        await asyncio.wait({starting})
        return False
    await starting
    stopping.cancel()
    return True


def _listen(bound: socket.socket) -> None:
    """Let connections come, unless another worker does already. Raises ListenError."""
    # Bound without it, to keep others away; connections of a former process would prevent this.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.listen(BACKLOG)
    except OSError as failure:
        if failure.errno != errno.EADDRINUSE:
            raise
        raise ListenError from failure  # of two that bound it at the same moment, one finds out here


def _keep_what_is_there() -> None:
    """Look for garbage among what requests leave, and never again among what is there from the start.

    Otherwise a large changeset spends much of its time on looking through the service's own modules.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


async def _announce(app: Sanic[Any, Any], drain_seconds: float) -> None:
    """Let balancers hear that this process is about to stop, and send elsewhere what comes next.

    Until then all is served as before, but that each answer ends its connection: whoever connects just as the
    listening ends would get none.
    """
    app.ctx.is_stopping = True
    app.config.KEEP_ALIVE = False
    await asyncio.sleep(drain_seconds)


async def _stop_listening(app: Sanic[Any, Any], server: Any, bound: socket.socket) -> Any:
    """Listen no more, and serve those who have connected by then.

    The kernel resets connections that nobody has accepted when the last descriptor of the socket is closed,
    and a proxy has sent its request on them by then.
    """
    loop = asyncio.get_running_loop()
    protocol = partial(PromptProtocol, loop=loop, app=app, connections=server.connections, signal=Signal())
    arrived = []
    with bound.dup() as listening:  # closing the server closes the descriptor itself
        closed = server.close()
        listening.setblocking(False)
        with suppress(BlockingIOError):  # nobody is left
            while True:
                with suppress(ConnectionAbortedError):
                    arrived.append(listening.accept()[0])
    for each in arrived:
        await loop.connect_accepted_socket(protocol, each)
    return closed


async def _drain(app: Sanic[Any, Any], server: Any, bound: socket.socket) -> None:
    """Listen no more, and end each connection with the answer that is under way on it.

    Sanic would stop its loop first: then connections that are kept alive go on being served, and what runs
    after the server's end may not run at all.
    """
    closed = await _stop_listening(app, server, bound)
    deadline = time.monotonic() + _GRACE_SECONDS
    while (server.connections or PromptProtocol.abandoned) and time.monotonic() < deadline:
        for connection in list(server.connections):
            connection.finish()
        await asyncio.sleep(_LOOK_SECONDS)
    for connection in list(server.connections):
        log.warning("request aborted: not answered within the shutdown timeout")
        connection.abort()
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await closed

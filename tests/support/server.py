"""A real server for tests: the whole application on its own socket, in a thread with its own event loop."""

import asyncio
import atexit
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tests.support.certificates import serving

from runtime.api.shared.connections import PromptProtocol
from runtime.app import build, listening_socket
from runtime.domain.identifiers import new_id
from runtime.services.clock import system_time
from runtime.services.container import Services
from runtime.services.encryption_keys import key_encryption_of
from runtime.services.management.organizations import organizations
from runtime.settings import Settings
from runtime.storage.sql import migrate as migrations
from runtime.storage.sql import organization_revision

_T = TypeVar("_T")


@dataclass
class Server:
    """A running server. `call` runs a coroutine function on the server's own loop, with its parts."""

    url: str
    settings: Settings
    organization_id: str
    api_key: str
    services: Services
    loop: asyncio.AbstractEventLoop

    def call(self, work: Callable[[Services], Coroutine[Any, Any, _T]], *, timeout: float = 30) -> _T:
        return asyncio.run_coroutine_threadsafe(work(self.services), self.loop).result(timeout)

    @property
    def headers(self) -> dict[str, str]:
        """What the first organization's administrator sends."""
        return {"Authorization": f"Bearer {self.api_key}"}


def another_organization(server: Server, name: str) -> Server:
    """A server as its next customer sees it: a new organization, and the key of its administrator."""
    made, key = server.call(lambda services: organizations.create_organization(services, name))
    return replace(server, organization_id=made.id, api_key=key)


def revision_of(server: Server) -> int:
    """The organization's revision, which snapshots begin with, without all that follows there."""

    async def read(services: Services) -> int:
        async with services.database.reading() as conn:
            return await organization_revision.revision(conn, server.organization_id)

    return server.call(read)


@cache
def migrated() -> Path:
    """A SQLite database with all tables and nothing in them, of this process: to be copied."""
    directory = tempfile.mkdtemp(prefix="zonewright-sqlite-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = Path(directory) / "template.db"
    with ThreadPoolExecutor(1) as aside:  # a loop may run here already
        aside.submit(asyncio.run, migrations.migrate(f"sqlite+aiosqlite:///{path}")).result()
    return path


@contextmanager
def serve(
    data_dir: Path,
    *,
    organization: str = "Test",
    system: Callable[[], datetime] = system_time,
    keep_alive: bool = True,
    certificate: Path | None = None,
    **settings: Any,
) -> Iterator[Server]:
    """Start a server with an organization and an API key on a free port; stop it afterwards.

    Args:
        system: the clock of the machine that it believes to run on.
        keep_alive: whether a connection may have several requests.
        certificate: of `localhost`: it is served with TLS, at that name.
        settings: overrides by name: `redis_url`, `database_url` of one that has all tables, ...
    """
    bound = listening_socket("127.0.0.1:0")
    origin = "https://localhost" if certificate else "http://127.0.0.1"
    url = f"{origin}:{bound.getsockname()[1]}"
    chosen = Settings.load(
        None,
        **{"data_dir": data_dir, "public_url": url, "allow_private_addresses": True, "log_level": "error"}
        | {"jobs": False}  # `rewired.run_job(services, name)` runs one when a test wants it to
        | settings,
    )
    data_dir.mkdir(parents=True, exist_ok=True)
    key_encryption_of(chosen, create=True)
    if chosen.database_url is None and not chosen.database_file.exists():
        shutil.copy(migrated(), chosen.database_file)
    ready: threading.Event = threading.Event()
    box: dict[str, Any] = {}

    async def run() -> None:
        stopping = asyncio.Event()
        box["loop"], box["stop"] = asyncio.get_running_loop(), stopping
        app = build(chosen, name=f"zoned-{new_id()}", system=system)
        app.config.KEEP_ALIVE = keep_alive
        app.config.TOUCHUP = False  # it rewrites Sanic's classes, which works for one application a process
        tls = serving(certificate) if certificate else None
        server = await app.create_server(
            sock=bound, ssl=tls, protocol=PromptProtocol, return_asyncio_server=True
        )
        await server.startup()
        await server.before_start()
        await server.after_start()
        try:
            made, api_key = await organizations.create_organization(app.ctx.services, organization)
            box.update(services=app.ctx.services, organization_id=made.id, api_key=api_key)
            ready.set()
            await stopping.wait()
        finally:
            await server.before_stop()
            await server.close()
            await server.after_stop()

    def target() -> None:
        try:
            asyncio.run(run())
        except BaseException as failure:  # noqa: BLE001 - told to the thread that waits
            box["failure"] = failure
        finally:
            ready.set()

    thread = threading.Thread(target=target, name="server", daemon=True)
    thread.start()
    ready.wait(60)
    if "failure" in box:
        raise box["failure"]
    try:
        yield Server(url, chosen, box["organization_id"], box["api_key"], box["services"], box["loop"])
    finally:
        box["loop"].call_soon_threadsafe(box["stop"].set)
        thread.join(30)

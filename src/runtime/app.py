"""The composition root: builds the services from the settings, and the Sanic application from both.

Also the endpoints for those who run it: `/healthz`, `/readyz` and `/metrics`.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from importlib.util import find_spec
from typing import Any, cast
from urllib.parse import urlsplit

import stamina
from sanic import Sanic
from sanic.config import Config
from sanic.exceptions import ServerError
from sanic.http import Stage
from sanic.request import Request
from sanic.response import HTTPResponse, json, raw

from runtime.adapters.client_documents import ClientDocuments
from runtime.adapters.identity_providers.oidc import OpenIDProviders
from runtime.adapters.keys.remote import RemoteKeys
from runtime.adapters.keys.sealing import Sealer, SecretHasher
from runtime.adapters.mail import FileTransport, SmtpTransport, Transport, sender_of
from runtime.adapters.outbound import Outbound
from runtime.adapters.passwords import Passwords
from runtime.adapters.upstream_oauth.client import UPSTREAM_TIMEOUT_SECONDS, UpstreamOAuthClient
from runtime.api import management, oauth, reference, resource_metadata
from runtime.api.oauth.errors import RETRY_AFTER_SECONDS, told_away
from runtime.api.shared import errors
from runtime.api.shared.paths import PathRouter
from runtime.api.shared.request_ids import NumberedRequest
from runtime.domain.errors import Unavailable
from runtime.logs import configure_logs, log
from runtime.metrics import WORKER_NUMBER, exposition
from runtime.quotas import BOUNDS, sizes
from runtime.services import readiness
from runtime.services.clock import Clock, system_time
from runtime.services.container import Services
from runtime.services.data_keys import DataKeys
from runtime.services.decision_log import DecisionLog
from runtime.services.encryption_keys import key_encryption_of, service_secrets
from runtime.services.epochs import Epochs
from runtime.services.job_notifier import JobNotifier
from runtime.services.jobs.runner import JobRunner
from runtime.services.measuring import Measuring
from runtime.services.message_handlers import message_handlers
from runtime.services.outbox import Outbox
from runtime.services.rate_limiter import RateLimiter
from runtime.services.readiness import Readiness
from runtime.services.revocation_list import Revocations
from runtime.services.schedule import JOBS
from runtime.services.schema_watch import SchemaWatch
from runtime.services.upstream_refreshes import UpstreamRefreshes
from runtime.services.zones import ZoneRegistry
from runtime.settings import Settings
from runtime.storage.sql.database import Database
from runtime.storage.sql.epochs import database_time
from runtime.storage.sql.session_users import BrowserSessionReader
from runtime.storage.state import open_state

# Sanic's own limits: what a request may cost before any of our code sees it.
_LIMITS = {
    "REQUEST_MAX_SIZE": sizes.REQUEST_BYTES,
    "REQUEST_MAX_HEADER_SIZE": sizes.HEADER_BYTES,
    "REQUEST_TIMEOUT": sizes.ARRIVAL_SECONDS,
    "RESPONSE_TIMEOUT": 300,
    "KEEP_ALIVE_TIMEOUT": 75,
    "ACCESS_LOG": False,
    "FALLBACK_ERROR_FORMAT": "json",
    "MOTD": False,
}

stamina.instrumentation.set_on_retry_hooks(())  # whoever tries again says so in words of this service


class UnsafeSettings(Exception):
    """A combination of settings that cannot be correct; the message says what to set."""


def check(settings: Settings) -> None:
    """Refuse a combination that cannot be correct. Raises UnsafeSettings."""
    if settings.workers > 1 and not settings.redis_url:
        raise UnsafeSettings(
            "more than one worker shares short-lived state: set ZONED_REDIS_URL, or ZONED_WORKERS=1"
        )
    _check_redis_url(settings.redis_url)
    if urlsplit(settings.public_url).scheme not in ("http", "https"):
        raise UnsafeSettings(f"ZONED_PUBLIC_URL `{settings.public_url}` is not an http or https address")
    if "{zone_id}" not in settings.zone_url_template and "{slug}" not in settings.zone_url_template:
        raise UnsafeSettings("ZONED_ZONE_URL_TEMPLATE names no zone: it needs {zone_id} or {slug}")
    check_traces(settings)
    check_mail(settings)


def check_traces(settings: Settings) -> None:
    """Refuse an address that no trace can be sent to, and traces without what sends them."""
    if settings.traces_endpoint is None:
        return
    if urlsplit(settings.traces_endpoint).scheme not in ("http", "https"):
        raise UnsafeSettings(
            f"ZONED_TRACES_ENDPOINT `{settings.traces_endpoint}` is not an http or https address"
        )
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
        raise UnsafeSettings(
            "ZONED_TRACES_ENDPOINT requires OpenTelemetry: install the extra `zonewright[otel]`"
        )


def _check_redis_url(url: str | None) -> None:
    """Refuse what is no address of a Redis. It may have a password, so it is not repeated."""
    if url is None:
        return
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("redis", "rediss", "unix") and (parts.port or parts.netloc or parts.path)
    except ValueError:
        is_one = False
    if not is_one:
        raise UnsafeSettings(
            "ZONED_REDIS_URL is not the address of a Redis, as in `redis://localhost:6379/0`,"
            " `rediss://user:password@host:6380` or `unix:///run/redis.sock`"
        )


def check_mail(settings: Settings) -> None:
    """Refuse settings by which no mail could leave, or a password would travel in clear text."""
    try:
        sender_of(settings.mail_from)
    except ValueError:
        raise UnsafeSettings(f"ZONED_MAIL_FROM `{settings.mail_from}` is not one e-mail address") from None
    if settings.mail_transport == "smtp" and not settings.mail_smtp_host:
        raise UnsafeSettings("ZONED_MAIL_TRANSPORT=smtp requires ZONED_MAIL_SMTP_HOST")
    if settings.mail_transport == "smtp" and settings.mail_from == Settings.model_fields["mail_from"].default:
        raise UnsafeSettings("ZONED_MAIL_TRANSPORT=smtp requires a sender address: set ZONED_MAIL_FROM")
    if settings.mail_smtp_security == "none" and settings.mail_smtp_password is not None:
        raise UnsafeSettings(
            "ZONED_MAIL_SMTP_PASSWORD requires ZONED_MAIL_SMTP_SECURITY=starttls or =tls, not clear text"
        )


def mail_transport_of(settings: Settings) -> Transport:
    """What carries the service's mail."""
    if settings.mail_transport == "file" or settings.mail_smtp_host is None:
        return FileTransport(settings.mail_folder)
    password = settings.mail_smtp_password
    return SmtpTransport(
        settings.mail_smtp_host,
        port=settings.mail_smtp_port,
        security=settings.mail_smtp_security,
        username=settings.mail_smtp_username,
        password=password.get_secret_value() if password else None,
    )


async def make_services(settings: Settings, *, system: Callable[[], datetime] = system_time) -> Services:
    """The collaborators of every service, connected. The caller closes them with `close_services`.

    Args:
        system: this machine's own clock.
    """
    async with AsyncExitStack() as undo:
        database = Database.open(settings.resolved_database_url)
        undo.push_async_callback(database.close)
        key_encryption = key_encryption_of(settings)
        undo.push_async_callback(key_encryption.aclose)
        secrets = await service_secrets(database, key_encryption)
        async with database.querying() as conn:
            asked_at, clock = system(), Clock(system)
            clock.compare(await database_time(conn), asked_at=asked_at, answered_at=system())
        undo.pop_all()
    state = open_state(settings.redis_url, bounds=BOUNDS)
    epochs = Epochs(database, state, clock)
    data_keys = DataKeys(key_encryption, settings)
    zones = ZoneRegistry(database, clock, epochs, data_keys, settings)
    outbound = Outbound(allow_private_addresses=settings.allow_private_addresses, tenant_of=zones.tenant_of)
    upstream_outbound = Outbound(
        allow_private_addresses=settings.allow_private_addresses,
        tenant_of=zones.tenant_of,
        timeout_seconds=UPSTREAM_TIMEOUT_SECONDS,
        purpose="connected_accounts",
    )
    upstream_oauth = UpstreamOAuthClient(upstream_outbound, clock=clock)
    remote_keys = RemoteKeys(outbound)
    rate_limiter = RateLimiter(state, clock, settings)
    jobs = JobNotifier(job.name for job in JOBS)
    mail = mail_transport_of(settings)
    handlers = message_handlers(
        zones, outbound, upstream_oauth, database, mail, clock, mail_from=settings.mail_from
    )
    services = Services(
        settings=settings,
        database=database,
        browser_sessions=BrowserSessionReader(database),
        state=state,
        key_encryption=key_encryption,
        data_keys=data_keys,
        hasher=SecretHasher(secrets["pepper"]),
        cursors=Sealer(secrets["cursors"]),
        outbound=outbound,
        remote_keys=remote_keys,
        openid=OpenIDProviders(outbound, remote_keys),
        upstream_outbound=upstream_outbound,
        upstream_oauth=upstream_oauth,
        upstream_refreshes=UpstreamRefreshes(database, clock),
        client_documents=ClientDocuments(outbound),
        passwords=Passwords(),
        clock=clock,
        epochs=epochs,
        zones=zones,
        decisions=DecisionLog(database, clock, rate_limiter),
        jobs=jobs,
        rate_limiter=rate_limiter,
        revocations=Revocations(database, clock),
        mail=mail,
        outbox=Outbox(database, clock, Sealer(secrets["outbox"]), handlers, jobs),
    )
    with suppress(Unavailable):  # whoever uses something first begins then
        await services.state.begin()
    return services


async def close_services(services: Services) -> None:
    """Write what is queued, then close every connection."""
    await services.upstream_refreshes.close()
    await services.decisions.stop()
    await services.data_keys.stop()
    await services.zones.stop()
    await services.key_encryption.aclose()
    await services.outbound.aclose()
    await services.upstream_outbound.aclose()
    services.passwords.close()
    await services.epochs.close()
    await services.state.close()
    await services.database.close()


class _Service(Sanic[Any, Any]):
    """Sanic without what is not used here and costs each request time: signals, middleware, WebSockets."""

    def _determine_error_format(self, handler: Any) -> str:
        """No guess: for one Sanic parses the source of every handler, half of the time to build this.

        All failures are answered by `runtime.api.shared.errors`.
        """
        return ""

    async def handle_request(self, request: Request) -> None:
        """Find who answers a request, and send the answer; a failure's in the words of its endpoint."""
        stream: Any = request.stream
        try:
            route, handler, named = self.router.get(request.path, request.method, request.headers.get("host"))
            request.route, request._match_info = route, dict(named)
            if stream.request_body and not route.extra.ignore_body:
                if hasattr(handler, "is_stream"):  # it sets a limit itself
                    stream.request_max_size = float("inf")
                else:
                    await request.receive_body()  # type: ignore[no-untyped-call]
            response = await handler(request, **named)
            if response is not None:
                response = await request.respond(response)
            elif (response := stream.response) is None:
                raise ServerError("the handler has sent no answer")
            await response.send(end_stream=True)
        except Exception as failure:  # noqa: BLE001 - the edge: whatever it is, it is answered
            await self.handle_exception(request, failure, run_middleware=False)
        if stream.request_body and stream.stage is Stage.IDLE:  # answered, and nobody has read it
            await cast(NumberedRequest, request).discard_body()


def _traced(settings: Settings) -> tuple[type[_Service], Any]:
    """The service with a span around each request, and what makes them."""
    from runtime.tracing import Tracing  # only here: OpenTelemetry is an extra, and takes time to import

    tracing = Tracing(settings)

    class TracedService(_Service):
        async def handle_request(self, request: Request) -> None:
            with tracing.request(request):
                await super().handle_request(request)

    return TracedService, tracing


def build(
    settings: Settings, *, name: str = "zoned", system: Callable[[], datetime] = system_time
) -> Sanic[Any, Any]:
    """The service as a Sanic application. Raises UnsafeSettings.

    Args:
        name: one process holds one application of a name, and workers find theirs by it.
        system: this machine's own clock.
    """
    check(settings)
    configure_logs(settings)
    service, tracing = _traced(settings) if settings.traces_endpoint else (_Service, None)
    app: Sanic[Any, Any] = service(
        name,
        config=Config(env_prefix=None),
        configure_logging=False,
        request_class=NumberedRequest,
        router=PathRouter(),
    )
    app.config.update(_LIMITS)
    app.config.PROXIES_COUNT = settings.proxies or None
    app.ctx.settings, app.ctx.listen, app.ctx.is_stopping = settings, settings.listen, False
    errors.bind(app)
    management.bind(app)
    oauth.bind(app)
    reference.bind(app)
    resource_metadata.bind(app)
    _bind_operations(app)

    @app.before_server_start
    async def connect(app: Sanic[Any, Any]) -> None:
        async for attempt in stamina.retry_context(
            on=_is_awaited, attempts=None, timeout=None, wait_initial=1, wait_max=1, wait_jitter=0
        ):
            with attempt:
                app.ctx.services = await make_services(settings, system=system)
        app.ctx.jobs = JobRunner(app.ctx.services, JOBS)
        if tracing is not None:
            tracing.start()
        app.ctx.measuring = Measuring(app.ctx.services)
        app.ctx.schema_watch = SchemaWatch(app.ctx.services.database)
        await app.ctx.services.decisions.start()
        app.ctx.measuring.start()
        app.ctx.schema_watch.start()
        app.ctx.services.data_keys.start()
        app.ctx.services.zones.start()
        if settings.jobs:
            await app.ctx.jobs.start()

    @app.after_server_start
    async def tell(app: Sanic[Any, Any]) -> None:
        log.info(
            "ready",
            worker=WORKER_NUMBER,
            pid=os.getpid(),
            listen=app.ctx.listen,
            public_url=settings.public_url,
            storage=app.ctx.services.database.dialect,
        )
        if settings.allow_private_addresses:
            log.warning("outbound fetches may reach private addresses: ZONED_ALLOW_PRIVATE_ADDRESSES is on")

    @app.after_server_stop
    async def disconnect(app: Sanic[Any, Any]) -> None:
        await app.ctx.jobs.stop()
        await app.ctx.schema_watch.stop()
        await close_services(app.ctx.services)
        await app.ctx.measuring.stop()
        if tracing is not None:
            await tracing.stop()

    return app


def _is_awaited(failure: Exception) -> bool:
    """Tell whether a worker waits and tries again: the others serve with the connections that they have."""
    if isinstance(failure, Unavailable):
        log.warning("not ready", worker=WORKER_NUMBER, reason=failure.detail, internal=failure.internal)
    return isinstance(failure, Unavailable)


def _bind_operations(app: Sanic[Any, Any]) -> None:
    """What those who run the service ask: is the process alive, can it work, what does it count."""

    @app.get("/healthz", strict_slashes=True)
    async def healthz(_request: Any) -> HTTPResponse:
        return json({"status": "ok"})

    @app.get("/readyz", strict_slashes=True)
    async def readyz(request: Request) -> HTTPResponse:
        if app.ctx.is_stopping:
            return json({"status": "stopping"}, status=503)
        found = await readiness.report(app.ctx.services)
        for failure in found.failures:
            told_away(request, failure)
        told = {"status": found.readiness, "database": found.database, "state": found.state}
        if found.readiness is Readiness.UNAVAILABLE:
            return json(told, status=503, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
        return json(told | ({"impaired": found.impaired} if found.impaired else {}))

    @app.get("/metrics", strict_slashes=True)
    async def metrics(_request: Any) -> HTTPResponse:
        app.ctx.measuring.measure()
        body, content_type = await asyncio.to_thread(exposition)
        return raw(body, content_type=content_type)


def address_of(bound: socket.socket) -> str:
    """`address:port` of a socket, as ZONED_LISTEN has it."""
    host, port, *_ = bound.getsockname()
    return f"[{host}]:{port}" if bound.family == socket.AF_INET6 else f"{host}:{port}"


def listening_socket(listen: str) -> socket.socket:
    """A bound socket for an `address:port`; port 0 takes a free one. Raises OSError, ValueError.

    Nobody else can bind that address, and until the socket listens connections to it are refused.
    """
    address, _, port = listen.rpartition(":")
    host = address.strip("[]") or "127.0.0.1"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    # With SO_REUSEADDR others that have it could bind the port, too, for as long as nobody listens there.
    try:
        bound.bind((host, int(port)))
    except OSError as failure:
        if failure.errno != errno.EADDRINUSE:
            raise
        # It may be connections of a former process alone, open or ended, which SO_REUSEADDR disregards.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, int(port)))
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    bound.set_inheritable(True)
    return bound

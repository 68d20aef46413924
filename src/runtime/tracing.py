"""Traces of requests with OpenTelemetry: which steps a request takes, and for how long.

Nothing here is imported unless `ZONED_TRACES_ENDPOINT` is set. Then the functions of the tables are replaced
by ones that make a span around each call: without traces they are what the source says, and cost nothing.

A span has a name from the table, the outcome of the request and its id. It has no parameter of a function, no
message of a failure and no address but the host of a server that is asked: whatever else there is may be a
secret. Requests are traced in the trace of their sender (W3C Trace Context, `traceparent`); who else is asked
learns nothing of traces, unless a setting names their host.
"""

import asyncio
import inspect
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import wraps
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from sanic.request import Request

from runtime.adapters.keys.key_encryption import KeyEncryption
from runtime.adapters.keys.signing import SigningKey
from runtime.adapters.outbound import Outbound
from runtime.adapters.passwords import Passwords
from runtime.api.shared import request_ids
from runtime.api.shared.request_metrics import endpoint_of_request, outcome_of
from runtime.services.authority import revalidation
from runtime.services.clients import dpop_verification
from runtime.services.grants import repeated_exchanges, token_endpoint, token_exchange
from runtime.services.issuing import policy_decision, token_cache
from runtime.services.vault import credentials, refresh
from runtime.settings import Settings
from runtime.storage.sql.database import Database

TRACEPARENT = "traceparent"
_SEND_SECONDS = 5


class TracedFunction(NamedTuple):
    """A function that a span is made around.

    Attributes:
        owner: the module or class where it is looked up when it is called.
        function: its name there.
        span: what the span is called.
    """

    owner: Any
    function: str
    span: str


STEPS = (
    TracedFunction(token_endpoint, "authenticate_client", "client authentication"),
    TracedFunction(dpop_verification, "verify_proof", "DPoP proof"),
    TracedFunction(repeated_exchanges, "repeat", "known request"),
    TracedFunction(token_exchange, "verify_subject_token", "subject token"),
    TracedFunction(revalidation, "revalidate", "session"),
    TracedFunction(token_exchange, "require_target", "target"),
    TracedFunction(token_exchange, "require_chain_consents", "consents of the chain"),
    TracedFunction(token_exchange, "require_allowance", "consent"),
    TracedFunction(token_exchange, "authorize_scopes", "scopes"),
    TracedFunction(policy_decision, "decide_exchange", "policy"),
    TracedFunction(policy_decision, "decide_direct", "policy"),
    TracedFunction(credentials, "require", "vault"),
    TracedFunction(refresh, "current", "upstream token"),
    TracedFunction(token_cache, "store", "token cache"),
    TracedFunction(KeyEncryption, "unwrap", "data key"),
    TracedFunction(SigningKey, "sign", "signing"),
    TracedFunction(Passwords, "verify", "password"),
)
# Those that hold something for as long as a block lasts.
BLOCKS = (
    TracedFunction(Database, "transaction", "database: transaction"),
    TracedFunction(Database, "reading", "database: reading"),
    TracedFunction(Database, "querying", "database: query"),
)


class _DrawnShare(TraceIdRatioBased):
    """A share of the traces, drawn here: their ids, by which the library chooses, may be the caller's."""

    def should_sample(
        self, parent_context: Context | None, trace_id: int, *rest: Any, **named: Any
    ) -> SamplingResult:
        return super().should_sample(parent_context, secrets.randbits(128), *rest, **named)


class Tracing:
    """The traces of a process.

    Args:
        settings: whose `traces_endpoint` is set.
    """

    def __init__(self, settings: Settings) -> None:
        resource = Resource.create({"service.name": "zoned", "service.version": version("zonewright")})
        # A caller may have its requests left out, and cannot have more of them traced.
        share = _DrawnShare(settings.traces_ratio)
        self._provider = TracerProvider(
            resource=resource, sampler=ParentBased(share, remote_parent_sampled=share)
        )
        exporter = OTLPSpanExporter(settings.traces_endpoint, timeout=_SEND_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("zoned")
        self._context = TraceContextTextMapPropagator()
        self._has_redis = settings.redis_url is not None
        self._hosts = hosts_of(settings.traces_hosts)
        self._replaced = ExitStack()

    def start(self) -> None:
        """Trace requests from now on."""
        for place in STEPS:
            self._replace(place.owner, place.function, self._around(place.span))
        for place in BLOCKS:
            self._replace(place.owner, place.function, self._around_block(place.span))
        if self._has_redis:
            from runtime.storage.state.redis import RedisState  # its client is an extra

            self._replace(RedisState, "_reaching", self._around_block("Redis"))
        self._replace(Outbound, "_request", self._around_outbound)
        self._replace(request_ids, "observe", _telling)

    def _replace(self, owner: Any, name: str, replacement: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        setattr(owner, name, replacement(original))
        self._replaced.callback(setattr, owner, name, original)

    async def stop(self) -> None:
        """Trace no more, and send what is there."""
        self._replaced.close()
        await asyncio.to_thread(self._provider.shutdown)

    @contextmanager
    def request(self, request: Request) -> Iterator[None]:
        """The span of a request, in the trace of its sender."""
        sent = {TRACEPARENT: told} if (told := request.headers.get(TRACEPARENT)) else {}
        with self._span(request.method, SpanKind.SERVER, self._context.extract(sent)) as span:
            request.ctx.span = span
            yield

    @contextmanager
    def _step(self, name: str, kind: SpanKind = SpanKind.INTERNAL) -> Iterator[Span]:
        """A span within that of a request; outside of one, none."""
        current = get_current_span()
        if not current.is_recording():
            yield current
            return
        with self._span(name, kind) as span:
            yield span

    @contextmanager
    def _span(self, name: str, kind: SpanKind, context: Any = None) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, context, kind, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as failure:
                # Its sort alone: a message may repeat what was sent.
                span.set_status(Status(StatusCode.ERROR, getattr(failure, "code", type(failure).__name__)))
                raise

    def _around(self, name: str) -> Callable[[Any], Any]:
        """A decorator: a span around each call."""

        def decorate(function: Any) -> Any:
            if inspect.iscoroutinefunction(function):

                @wraps(function)
                async def awaited(*given: Any, **named: Any) -> Any:
                    with self._step(name):
                        return await function(*given, **named)

                return awaited

            @wraps(function)
            def called(*given: Any, **named: Any) -> Any:
                with self._step(name):
                    return function(*given, **named)

            return called

        return decorate

    def _around_block(self, name: str) -> Callable[[Any], Any]:
        """A decorator of an asynchronous context manager: a span around each block."""

        def decorate(function: Any) -> Any:
            @wraps(function)
            @asynccontextmanager
            async def held(*given: Any, **named: Any) -> AsyncIterator[Any]:
                with self._step(name):
                    async with function(*given, **named) as value:
                        yield value

            return held

        return decorate

    def _around_outbound(self, function: Any) -> Any:
        """A span around each request to another server, which is told of it where a setting says so."""

        @wraps(function)
        async def sent(
            client: Any, method: str, url: str, headers: Mapping[str, str], *given: Any, **named: Any
        ) -> Any:
            host = _host(url)
            with self._step(f"{method} to another server", SpanKind.CLIENT) as span:
                span.set_attribute("server.address", host)
                span.set_attribute("http.request.method", method)
                if host in self._hosts and span.is_recording():
                    context: dict[str, str] = {}
                    self._context.inject(context)
                    headers = {**headers, TRACEPARENT: context[TRACEPARENT]}
                answer = await function(client, method, url, headers, *given, **named)
                span.set_attribute("http.response.status_code", answer.status)
                return answer

        return sent


def _telling(observe: Any) -> Any:
    """Have the span of a request told what it came to, where the metrics are."""

    @wraps(observe)
    def told(request: Request, response: Any, began_at: float) -> None:
        observe(request, response, began_at)
        span: Span | None = getattr(request.ctx, "span", None)
        if span is not None and span.is_recording():
            endpoint = endpoint_of_request(request)
            span.update_name(f"{request.method} {endpoint}")
            span.set_attribute("http.request.method", request.method)
            span.set_attribute("http.route", endpoint)
            span.set_attribute("http.response.status_code", response.status)
            span.set_attribute("zoned.outcome", outcome_of(response))
            span.set_attribute("zoned.request_id", str(request.id))
            if response.status >= 500:
                span.set_status(Status(StatusCode.ERROR))

    return told


def hosts_of(setting: str) -> Collection[str]:
    """The hosts that a setting lists, separated by commas."""
    return frozenset(host.strip().lower() for host in setting.split(",") if host.strip())


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""

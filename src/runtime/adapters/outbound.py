"""The guarded HTTP client for URLs that tenants choose (SSRF protection).

The host is resolved here, every address it has is checked, and the connection goes to an address that was
checked: a name that answers differently the next time changes nothing. No redirects, no proxies, no
settings from the environment, no compression; sizes and total times are bounded.
"""

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

import httpcore

from runtime.adapters.addresses import is_public
from runtime.adapters.client_certificates import ClientCertificate
from runtime.adapters.outbound_turns import (
    REQUESTER,
    Lookups,
    OutboundTurns,
    Requester,
    Resolve,
    system_addresses,
)
from runtime.adapters.timeouts import lag_tolerant_timeout
from runtime.domain import strict_json
from runtime.metrics import OUTBOUND_SECONDS

MAX_URL_CHARS = 4096
MAX_BYTES = 256 * 1024
MAX_CONCURRENT = 10
# Times as many: of a tenant with all its partitions, and of all tenants. Each request has a connection; 400
# for fetches and 400 for connected accounts are fewer than the 1,024 files that a process may open anywhere.
_OF_A_TENANT, _OF_ALL = 4, 40
_PUBLIC_PORTS = frozenset({80, 443})
_DEFAULT_PORTS = {"https": 443, "http": 80}
_KEEPALIVE_SECONDS = 20.0
_MAX_HEADER_CHARS = 8192

Method = Literal["GET", "POST"]
# Of the service itself: documents, keys, people's identity providers, notices; of connected accounts; and of
# the service that has its key-encryption keys.
Purpose = Literal["fetches", "connected_accounts", "key_encryption"]


_NOT_PUBLIC = "an address that is not public (ZONED_ALLOW_PRIVATE_ADDRESSES permits those, for development)"


class OutboundRefused(Exception):
    """The address is not one this service talks to, and nothing was sent."""


class OutboundFailed(Exception):
    """The request was made, or tried, without a usable answer.

    Attributes:
        temporary: asking again later may help: timeout, connection trouble, 429 or 5xx.
        status: the HTTP status, when there was one.
    """

    def __init__(self, message: str, *, temporary: bool, status: int | None = None) -> None:
        super().__init__(message)
        self.temporary = temporary
        self.status = status


class OutboundBusy(OutboundFailed):
    """Others' requests took the turns of this one, or its time: that says nothing about the address."""

    def __init__(self) -> None:
        super().__init__("too many requests to other servers are under way", temporary=True)


def pause_after(failure: Exception) -> float:
    """Seconds to leave an address alone that failed: whoever may make this service ask must not set the pace.

    Short enough for a mend to count at once in a person's eyes; none where the address has no part in it.
    """
    if isinstance(failure, OutboundBusy):
        return 0
    return 5 if isinstance(failure, OutboundFailed) and failure.temporary else 30


@dataclass(frozen=True, slots=True)
class Fetched:
    """A JSON answer; header names are in lower case."""

    json: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Target:
    scheme: str
    host: str
    port: int
    path: str

    @property
    def host_header(self) -> str:
        return self.host if self.port == _DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer as it came; header names are in lower case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Outbound:
    """The guarded client. One for a process; `aclose` when it ends.

    Args:
        allow_private_addresses: for development: any address, any port, and plain HTTP.
        timeout_seconds: for all of a request together: resolving, connecting, the last byte; before that, as
            long again for a turn. What this process misses by itself does not count.
        max_bytes: of an answer's body.
        max_concurrent: requests at a time, for each *partition* separately, so that one zone's slow
            addresses do not hold up another's; for each tenant four times, for all of them forty times as
            many.
        tenant_of: partition -> the tenant whose it is, who may have many. Without it each partition is a
            tenant of its own.
        resolve: runs in a thread; other resolvers are for tests.
        trust: makes a TLS context with the trust anchors; of the system, unless others are given.
        purpose: what metrics call its requests.
    """

    def __init__(
        self,
        *,
        allow_private_addresses: bool,
        timeout_seconds: float = 5,
        max_bytes: int = MAX_BYTES,
        max_concurrent: int = MAX_CONCURRENT,
        tenant_of: Callable[[str], str] = str,
        resolve: Resolve = system_addresses,
        trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        purpose: Purpose = "fetches",
    ) -> None:
        self._purpose = purpose
        self._allow_private = allow_private_addresses
        self._trust = trust
        self._timeout = timeout_seconds
        self._max_bytes = max_bytes
        self._tenant_of = tenant_of
        self._turns = OutboundTurns(max_concurrent, max_concurrent * _OF_A_TENANT, max_concurrent * _OF_ALL)
        self._lookups = Lookups(resolve)
        self._backend = _PinnedBackend(self._lookups, allow_private=allow_private_addresses)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=trust(),
            max_connections=None,  # who has a turn has a connection; in there nobody could tell why he waits
            max_keepalive_connections=max_concurrent * 2,
            keepalive_expiry=_KEEPALIVE_SECONDS,
            network_backend=self._backend,
        )

    @property
    def allows_http(self) -> bool:
        """Whether plain HTTP is allowed, for development and tests."""
        return self._allow_private

    async def aclose(self) -> None:
        """Close all connections; lookups that hang are left to end by themselves."""
        self._lookups.close()
        await self._pool.aclose()

    async def get_json(self, url: str, *, max_bytes: int | None = None, partition: str = "") -> Fetched:
        """The JSON document at a URL, from a 200 answer.

        Args:
            partition: whose request this is (a zone's id), for the concurrency limit.
        Raises: OutboundRefused, OutboundFailed, of which OutboundBusy is one.
        """
        return _fetched(await self._request("GET", url, {}, b"", max_bytes, partition))

    async def get_json_with_bearer(self, url: str, token: str, *, partition: str = "") -> Fetched:
        """The JSON document at a URL that asks for a bearer token.

        Raises OutboundRefused, OutboundFailed.
        """
        headers = {"authorization": f"Bearer {token}"}
        return _fetched(await self._request("GET", url, headers, b"", None, partition))

    async def post_form(
        self,
        url: str,
        fields: Mapping[str, str] | Iterable[tuple[str, str]],
        *,
        headers: Mapping[str, str] | None = None,
        partition: str = "",
    ) -> tuple[int, Any]:
        """Post a form; the status and the JSON of the answer, None when it is not JSON.

        Raises: OutboundRefused; OutboundFailed for trouble on the way and for 429 and 5xx.
        """
        pairs = list(fields.items()) if isinstance(fields, Mapping) else list(fields)
        body = urlencode(pairs).encode("ascii")
        sent = {"content-type": "application/x-www-form-urlencoded", **(headers or {})}
        answer = await self._request("POST", url, sent, body, None, partition)
        _raise_if_temporary(answer)
        try:
            return answer.status, strict_json.parse(answer.body)
        except ValueError:
            return answer.status, None

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        max_bytes: int | None = None,
        partition: str = "",
        timeout_seconds: float | None = None,
        certificate: ClientCertificate | None = None,
        turn_until: float | None = None,
    ) -> HttpAnswer:
        """The answer to a POST, whatever its status says.

        Args:
            timeout_seconds: of this request, in place of the client's.
            certificate: shown on a connection that no other request uses.
            turn_until: when to give up waiting for a turn, by the event loop's clock.
        Raises: OutboundRefused; OutboundFailed for trouble on the way.
        """
        return await self._request(
            "POST", url, headers, body, max_bytes, partition, timeout_seconds, certificate, turn_until
        )

    async def _request(
        self,
        method: Method,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        max_bytes: int | None,
        partition: str,
        timeout_seconds: float | None = None,
        certificate: ClientCertificate | None = None,
        turn_until: float | None = None,
    ) -> HttpAnswer:
        target, seconds = self._target(url), timeout_seconds or self._timeout
        sent = {
            "host": target.host_header,
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "zonewright",
            "content-length": str(len(body)) if method == "POST" else None,
            **headers,
        }
        request = httpcore.Request(
            method,
            httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path),
            headers=[(name, _header(value)) for name, value in sent.items() if value is not None],
            content=body if method == "POST" else None,
        )
        requester = Requester(partition, self._tenant_of(partition))
        waits = self._timeout if turn_until is None else turn_until - asyncio.get_running_loop().time()
        began_at, outcome = perf_counter(), "failed"
        try:
            with ExitStack() as turn:
                async with lag_tolerant_timeout(waits):
                    await self._turns.take(requester, turn)
                requester.has_waited = False  # it has all of its time
                turn.callback(REQUESTER.reset, REQUESTER.set(requester))
                async with lag_tolerant_timeout(seconds), self._connections(certificate) as connections:
                    answer = await _answer(connections, request, max_bytes or self._max_bytes)
            outcome = f"{answer.status // 100}xx"
            return answer
        except OutboundRefused:
            outcome = "refused"
            raise
        except TimeoutError:
            outcome = "timeout"
            if requester.has_waited:
                raise OutboundBusy from None
            raise OutboundFailed(f"no answer within {seconds} s", temporary=True) from None
        except (httpcore.NetworkError, httpcore.TimeoutException, OSError) as failure:
            raise OutboundFailed(f"cannot connect: {type(failure).__name__}", temporary=True) from failure
        except (httpcore.ProtocolError, httpcore.ConnectionNotAvailable) as failure:
            raise OutboundFailed(f"not HTTP: {type(failure).__name__}", temporary=False) from failure
        finally:
            OUTBOUND_SECONDS.labels(self._purpose, outcome).observe(perf_counter() - began_at)

    @asynccontextmanager
    async def _connections(
        self, certificate: ClientCertificate | None
    ) -> AsyncIterator[httpcore.AsyncConnectionPool]:
        """Those of all requests; one of its own where a certificate is shown. Raises OSError."""
        if certificate is None:
            yield self._pool
            return
        # In a thread: reading the trust anchors takes a while.
        context = await asyncio.to_thread(certificate.context, self._trust)
        async with httpcore.AsyncConnectionPool(
            ssl_context=context, max_connections=1, network_backend=self._backend
        ) as own:
            yield own

    def _target(self, url: str) -> _Target:
        """The parts of a URL that this client would talk to. Raises OutboundRefused."""
        if len(url) > MAX_URL_CHARS or any(not "!" <= character <= "~" for character in url) or "\\" in url:
            raise OutboundRefused("the URL is too long, or has characters that are not allowed")
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise OutboundRefused("the URL cannot be read") from None
        if parts.scheme not in _DEFAULT_PORTS or (parts.scheme == "http" and not self._allow_private):
            raise OutboundRefused("the URL is not https")
        if not host or "@" in parts.netloc or "%" in parts.netloc:
            raise OutboundRefused("the URL needs a host, without user information")
        port = port if port is not None else _DEFAULT_PORTS[parts.scheme]
        if not self._allow_private and port not in _PUBLIC_PORTS:
            raise OutboundRefused(f"port {port} is not allowed")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return _Target(parts.scheme, f"[{host}]" if ":" in host else host, port, path)


async def _answer(
    connections: httpcore.AsyncConnectionPool, request: httpcore.Request, max_bytes: int
) -> HttpAnswer:
    response = await connections.handle_async_request(request)
    try:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
        }
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise OutboundFailed("the answer is compressed", temporary=False, status=response.status)
        if (length := headers.get("content-length", "0")).isdecimal() and int(length) > max_bytes:
            raise _too_large(max_bytes, response.status)
        body = bytearray()
        async for chunk in response.aiter_stream():
            body += chunk
            if len(body) > max_bytes:
                raise _too_large(max_bytes, response.status)
        return HttpAnswer(response.status, headers, bytes(body))
    finally:
        await response.aclose()


class _PinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects only to addresses it resolved and checked itself."""

    def __init__(self, lookups: Lookups, *, allow_private: bool) -> None:
        self._lookups = lookups
        self._allow_private = allow_private
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  (the base class asks for it)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self._addresses(host.strip("[]"), port)
        failure: Exception | None = None
        for address in addresses:
            try:
                stream = await self._network.connect_tcp(address, port, timeout, None, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as refused:
                failure = refused
                continue
            if not self._allow_private and not is_public(stream.get_extra_info("server_addr")[0]):
                await stream.aclose()
                raise OutboundRefused(f"the connection reached {_NOT_PUBLIC}")
            return stream
        raise failure or httpcore.ConnectError("no address")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise OutboundRefused("only connections to hosts are allowed")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[str]:
        """What to connect to.

        Raises OutboundRefused when any address is special: a host that mixes is hostile.
        """
        try:
            found = list(dict.fromkeys(await self._lookups.addresses(host, port)))
        except UnicodeError:
            raise OutboundRefused("the URL's host is not a host name") from None
        if not self._allow_private and not all(is_public(address) for address in found):
            raise OutboundRefused(f"the host has {_NOT_PUBLIC}")
        return sorted(found, key=lambda address: ipaddress.ip_address(address.partition("%")[0]).version)


def _fetched(answer: HttpAnswer) -> Fetched:
    _raise_if_temporary(answer)
    if answer.status != 200:
        raise OutboundFailed(f"answered {answer.status}", temporary=False, status=answer.status)
    try:
        return Fetched(strict_json.parse(answer.body), answer.headers)
    except ValueError:
        raise OutboundFailed("the answer is not JSON", temporary=False, status=answer.status) from None


def _raise_if_temporary(answer: HttpAnswer) -> None:
    if answer.status == 429 or answer.status >= 500:
        raise OutboundFailed(f"answered {answer.status}", temporary=True, status=answer.status)


def _too_large(max_bytes: int, status: int) -> OutboundFailed:
    return OutboundFailed(f"the answer is larger than {max_bytes} bytes", temporary=False, status=status)


def _header(value: str) -> str:
    if len(value) > _MAX_HEADER_CHARS or any(character in "\r\n\0" for character in value):
        raise OutboundRefused("a header value has characters that are not allowed")
    return value

"""The guarded client: what it does not connect to, and how much it puts up with."""

import asyncio
import gzip
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import signature
from typing import Any

import pytest
from tests.support.waiting import let_elapse, until

from runtime.adapters.addresses import is_public
from runtime.adapters.outbound import (
    Outbound,
    OutboundBusy,
    OutboundFailed,
    OutboundRefused,
    pause_after,
)
from runtime.adapters.outbound_turns import LOOKUPS_OF_A_PARTITION, LOOKUPS_OF_A_TENANT
from runtime.adapters.shared_fetch import SharedFetch

JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\n"


def with_body(body: bytes, head: bytes = JSON) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


class Listener:
    """A server that answers with given bytes, and remembers what it was sent."""

    def __init__(self, answer: bytes = with_body(b'{"a": 1}'), *, drip: float = 0) -> None:
        self.answer, self.drip = answer, drip
        self.requests: list[bytes] = []
        self.connections = self.at_once = self.most_at_once = 0
        self.port = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/doc"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                self.requests.append(request)
                self.at_once += 1
                self.most_at_once = max(self.at_once, self.most_at_once)
                await self.may_answer.wait()
                for piece in (
                    [self.answer[i : i + 1] for i in range(len(self.answer))] if self.drip else [self.answer]
                ):
                    writer.write(piece)
                    await writer.drain()
                    await let_elapse(self.drip)
                self.at_once -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening(listener: Listener) -> AsyncIterator[Listener]:
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()


@asynccontextmanager
async def client(**settings) -> AsyncIterator[Outbound]:
    outbound = Outbound(**{"allow_private_addresses": True, "timeout_seconds": 2, **settings})
    try:
        yield outbound
    finally:
        await outbound.aclose()


def resolving(*answers):
    """A resolver that gives each answer in turn, then the last one again."""
    remaining = list(answers)

    def resolve(host, port):
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    return resolve


async def test_fetches_json():
    """The document and its headers come back; one connection serves several requests."""
    async with listening(Listener()) as listener, client() as outbound:
        for _ in range(3):
            fetched = await outbound.get_json(listener.url)

    assert fetched.json == {"a": 1}
    assert fetched.headers["cache-control"] == "max-age=60"
    assert listener.connections == 1
    assert b"accept-encoding: identity" in listener.requests[0].lower()


async def test_posts_forms_and_bearers():
    """Forms are encoded, headers sent, and an error answer with JSON is the caller's to judge."""
    refused = with_body(b'{"error": "invalid_grant"}', b"HTTP/1.1 400 Bad Request\r\n")
    async with listening(Listener(refused)) as listener, client() as outbound:
        answer = await outbound.post_form(listener.url, {"a b": "c&d"}, headers={"authorization": "Basic x"})
        with pytest.raises(OutboundFailed):
            await outbound.get_json_with_bearer(listener.url, "secret")

    assert answer == (400, {"error": "invalid_grant"})
    assert b"authorization: basic x" in listener.requests[0].lower()
    assert b"authorization: bearer secret" in listener.requests[1].lower()


@pytest.mark.threat("7n", "7o", "7p")
@pytest.mark.parametrize(
    "url",
    [
        "http://93.184.216.34/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "https://example.com:22/",
        "https://example.com:8443/",
        "https://user:pw@example.com/",
        "https://example.com\\@evil.test/",
        "https://exa mple.com/",
        "https://example.com/\r\nHost: evil",
        "https://exämple.com/",
        "https://example%2ecom/",
        "https:///path",
        "https://example.com:99999/",
        "https://[::1/",
        "//example.com/",
        "https://example.com/" + "x" * 5000,
        "",
    ],
)
async def test_refuses_addresses_it_does_not_talk_to(url):
    """Schemes, ports and spellings that are not plainly a public https address are refused unresolved."""

    def resolve(host, port):
        pytest.fail(f"resolved {host}")

    async with client(allow_private_addresses=False, resolve=resolve) as outbound:
        with pytest.raises(OutboundRefused):
            await outbound.get_json(url)


@pytest.mark.threat("7f", "7g", "7h", "7i", "7j", "7k", "7l", "7m")
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0x7f000001", "2130706433", "127.1", "0", "localhost",
     "169.254.169.254", "10.0.0.1", "[fd00::1]", "100.64.0.1", "0.0.0.0"],
)  # fmt: skip
async def test_special_addresses_are_refused_in_every_spelling(host):
    """The system's resolver reads them; what it reads is checked."""
    async with client(allow_private_addresses=False) as outbound:
        with pytest.raises(OutboundRefused):
            await outbound.get_json(f"https://{host}/")


@pytest.mark.threat("7s")
@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["93.184.216.34", "10.0.0.1"],
        ["fd00::1", "93.184.216.34"],
        ["::ffff:7f00:1"],
        ["nonsense"],
    ],
)
async def test_a_name_with_any_special_address_is_refused(addresses):
    """One bad address among good ones is enough: the order of answers is the attacker's choice."""
    async with client(allow_private_addresses=False, resolve=resolving(addresses)) as outbound:
        with pytest.raises(OutboundRefused):
            await outbound.get_json("https://name.test/")


@pytest.mark.threat("7r")
async def test_rebinding_reaches_nobody(monkeypatch):
    """Public when checked and private when asked again: the address that was checked is connected to."""
    connected = []

    async def connect(self, host, port, *rest):
        connected.append(host)
        raise OSError

    monkeypatch.setattr("httpcore.AnyIOBackend.connect_tcp", connect)
    resolve = resolving(["93.184.216.34"], ["127.0.0.1"])
    async with client(allow_private_addresses=False, resolve=resolve) as outbound:
        with pytest.raises(OutboundFailed):
            await outbound.get_json("https://name.test/")
        with pytest.raises(OutboundRefused):
            await outbound.get_json("https://name.test/")

    assert connected == ["93.184.216.34"]


@pytest.mark.threat("7x")
async def test_no_byte_reaches_a_private_listener():
    """Refusal comes before the connection: the target notices nothing."""
    async with listening(Listener()) as listener, client(allow_private_addresses=False) as outbound:
        for url in (
            listener.url,
            f"https://127.0.0.1:{listener.port}/",
            f"https://localhost:{listener.port}/",
        ):
            with pytest.raises(OutboundRefused):
                await outbound.get_json(url)

    assert listener.connections == 0


@pytest.mark.threat("7q", "7v")
@pytest.mark.parametrize(
    ("answer", "temporary"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n", False),
        (with_body(b"x" * 300_000), False),
        (JSON + b"Transfer-Encoding: chunked\r\n\r\n" + b"20000\r\n" + b"x" * 0x20000 + b"\r\n" + b"20001\r\n"
         + b"x" * 0x20001 + b"\r\n0\r\n\r\n", False),
        (with_body(gzip.compress(b"[" + b"0," * 10**6 + b"0]"), JSON + b"Content-Encoding: gzip\r\n"), False),
        (with_body(b"not json"), False),
        (with_body(b'{"a": 1, "a": 2}'), False),
        (with_body(b'{"a": NaN}'), False),
        (with_body(b"[" * 100_000), False),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 429 Slow down\r\nContent-Length: 0\r\n\r\n", True),
        (b"SSH-2.0-OpenSSH\r\n\r\n", False),
    ],
    ids=["moved", "large", "parts", "gzip", "no JSON", "twice", "NaN", "deep", "404", "503", "429", "SSH"],
)  # fmt: skip
async def test_unusable_answers_fail(answer, temporary):
    """Redirects are not followed, sizes are bounded, compression and careless JSON are not read."""
    async with listening(Listener(answer)) as listener, client() as outbound:
        with pytest.raises(OutboundFailed) as failure:
            await outbound.get_json(listener.url)

    assert failure.value.temporary is temporary
    assert len(listener.requests) == 1


@pytest.mark.threat("7u")
async def test_a_smaller_cap_holds_for_one_request():
    """11 KB are too much where 10 KB are allowed."""
    async with listening(Listener(with_body(b'"' + b"x" * 11_000 + b'"'))) as listener, client() as outbound:
        assert await outbound.get_json(listener.url)
        with pytest.raises(OutboundFailed, match="larger"):
            await outbound.get_json(listener.url, max_bytes=10_240)


@pytest.mark.threat("7t")
async def test_a_dripping_answer_ends_in_time():
    """The time cap is for the whole request, however steadily bytes arrive."""
    minutes_long = Listener(with_body(b" " * 10_000 + b"{}"), drip=0.05)
    async with listening(minutes_long) as listener, client(timeout_seconds=0.3) as outbound:
        async with asyncio.timeout(30):
            with pytest.raises(OutboundFailed) as failure:
                await outbound.get_json(listener.url)

    assert failure.value.temporary
    assert signature(Outbound).parameters["timeout_seconds"].default == 5  # what the service runs with


@pytest.mark.threat("7w")
async def test_only_so_many_at_once_for_each_partition():
    """Fifty at once: at most ten connections, and another zone does not wait for them."""
    slow, quick = Listener(), Listener()
    slow.may_answer.clear()

    async def ten_wait() -> bool:
        return slow.at_once == 10

    async with listening(slow), listening(quick), client(max_concurrent=10) as outbound:
        crowd = [asyncio.ensure_future(outbound.get_json(slow.url, partition="one")) for _ in range(50)]
        await until(ten_wait)
        await outbound.get_json(quick.url, partition="two")
        assert not any(each.done() for each in crowd)
        slow.may_answer.set()
        await asyncio.gather(*crowd)

    assert slow.most_at_once == 10


def organization(partition: str) -> str:
    """Whose a partition of these tests is, such as `acme 1`."""
    return partition.split()[0]


def now() -> float:
    return asyncio.get_running_loop().time()


async def let_answer(listener: Listener, waiting: list[asyncio.Future[Any]]) -> None:
    """Have all that wait for an answer get one."""
    listener.may_answer.set()
    await asyncio.gather(*waiting)


async def test_a_tenant_has_a_limit_over_all_its_partitions():
    """Five zones of one organization have four times what one has; another organization is answered."""
    silent, prompt = Listener(), Listener()
    silent.may_answer.clear()
    limits = {"max_concurrent": 2, "tenant_of": organization, "timeout_seconds": 60}

    async def its_share_waits() -> bool:
        return silent.at_once == 8

    async with listening(silent), listening(prompt), client(**limits) as outbound:
        await outbound.post(prompt.url, b"", headers={}, partition="acme 6", turn_until=now())
        zones = [f"acme {number}" for number in range(5)]
        crowd = [asyncio.ensure_future(outbound.get_json(silent.url, partition=zone)) for zone in zones * 2]
        await until(its_share_waits)
        with pytest.raises(OutboundBusy):
            await outbound.post(prompt.url, b"", headers={}, partition="acme 6", turn_until=now())
        await outbound.post(prompt.url, b"", headers={}, partition="other 1", turn_until=now())
        assert not any(each.done() for each in crowd)
        await let_answer(silent, crowd)
        await outbound.post(prompt.url, b"", headers={}, partition="acme 6", turn_until=now())

    assert silent.most_at_once == 8


async def test_all_tenants_together_have_a_limit():
    """Ten of them have all of it: whoever comes then is told so, and served as soon as one has finished."""
    silent, prompt = Listener(), Listener()
    silent.may_answer.clear()
    limits = {"max_concurrent": 1, "tenant_of": organization, "timeout_seconds": 60}

    async def all_wait() -> bool:
        return silent.at_once == 40

    async with listening(silent), listening(prompt), client(**limits) as outbound:
        await outbound.post(prompt.url, b"", headers={}, partition="late 1", turn_until=now())
        crowd = [
            asyncio.ensure_future(outbound.get_json(silent.url, partition=f"{tenant} {zone}"))
            for tenant in range(10)
            for zone in range(4)
        ]
        await until(all_wait)
        with pytest.raises(OutboundBusy):
            await outbound.post(prompt.url, b"", headers={}, partition="late 1", turn_until=now())
        late = asyncio.ensure_future(outbound.get_json(prompt.url, partition="late 1"))
        await let_answer(silent, crowd)
        assert (await late).json == {"a": 1}


async def test_a_request_has_all_of_its_time_once_it_has_its_turn():
    """Two that take more than half of it, one after the other, are both answered."""
    first, second = Listener(), Listener()
    first.may_answer.clear()
    second.may_answer.clear()

    async def asked(listener: Listener) -> bool:
        return listener.at_once == 1

    async with listening(first), listening(second), client(max_concurrent=1, timeout_seconds=2) as outbound:
        asking = [asyncio.ensure_future(outbound.get_json(each.url)) for each in (first, second)]
        for listener, answer in zip((first, second), asking, strict=True):
            await until(lambda listener=listener: asked(listener))
            await let_elapse(1.1)
            await let_answer(listener, [answer])
        assert [(await answer).json for answer in asking] == [{"a": 1}] * 2


class HangingResolver:
    """The addresses of every name are loopback's; those of `slow…` come when they are let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.hanging = Counter[str]()

    def __call__(self, host: str, port: int) -> list[str]:
        if host.startswith("slow"):
            self.hanging[host] += 1
            self.let_go.wait(60)
        return ["127.0.0.1"]


@pytest.fixture
def resolver():
    made = HangingResolver()
    yield made
    made.let_go.set()


async def ask(outbound: Outbound, host: str, port: int, partition: str) -> Any:
    """The document of a host, or why there is none."""
    try:
        return (await outbound.get_json(f"http://{host}:{port}/doc", partition=partition)).json
    except OutboundFailed as failure:
        return type(failure)


async def test_lookups_that_hang_have_few_threads_however_often_they_are_given_up(resolver):
    """Thirty names of one partition whose servers never answer: its next waits, and no other partition."""
    settings = {"resolve": resolver, "timeout_seconds": 0.5}

    async def is_answered() -> bool:
        return await ask(outbound, "third.test", listener.port, "one") == {"a": 1}

    async with listening(Listener()) as listener, client(**settings) as outbound:
        assert await ask(outbound, "first.test", listener.port, "one") == {"a": 1}
        for crowd in range(3):
            names = [f"slow{crowd}-{number}.test" for number in range(10)]
            found = await asyncio.gather(*(ask(outbound, name, listener.port, "one") for name in names))
            hung = LOOKUPS_OF_A_PARTITION if crowd == 0 else 0
            assert Counter(found) == Counter({OutboundFailed: hung, OutboundBusy: 10 - hung})
        assert resolver.hanging.total() == LOOKUPS_OF_A_PARTITION

        assert await ask(outbound, "second.test", listener.port, "one") is OutboundBusy
        assert await ask(outbound, "second.test", listener.port, "two") == {"a": 1}
        resolver.let_go.set()
        await until(is_answered)


async def test_lookups_of_a_tenant_have_a_limit_over_all_its_partitions(resolver):
    """Four zones of one organization have the threads of two; another organization's names are found."""
    settings = {"resolve": resolver, "timeout_seconds": 0.5, "tenant_of": organization}
    async with listening(Listener()) as listener, client(**settings) as outbound:
        assert await ask(outbound, "first.test", listener.port, "acme 9") == {"a": 1}
        slow = [(f"slow{number}.test", f"acme {number % 4}") for number in range(32)]
        await asyncio.gather(*(ask(outbound, name, listener.port, zone) for name, zone in slow))

        assert resolver.hanging.total() == LOOKUPS_OF_A_TENANT
        assert await ask(outbound, "second.test", listener.port, "acme 9") is OutboundBusy
        assert await ask(outbound, "second.test", listener.port, "other 1") == {"a": 1}


async def test_lookups_wait_for_no_other_work():
    """Whatever holds the threads that everything shares: they have their own."""
    go_on, loop = threading.Event(), asyncio.get_running_loop()
    async with listening(Listener()) as listener, client() as outbound:
        held = [loop.run_in_executor(None, go_on.wait, 60) for _ in range(32)]
        try:
            assert await ask(outbound, "localhost", listener.port, "one") == {"a": 1}
            assert not any(each.done() for each in held)
        finally:
            go_on.set()
            await asyncio.gather(*held)


async def test_nobody_there_is_temporary():
    """A refused connection may work later."""
    async with listening(Listener()) as listener:
        url = listener.url
    async with client() as outbound:
        with pytest.raises(OutboundFailed) as failure:
            await outbound.get_json(url)

    assert failure.value.temporary


async def test_a_proxy_in_the_environment_is_ignored(monkeypatch):
    """Requests go to the checked address, not to where a variable says."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with listening(Listener()) as listener, client() as outbound:
        assert (await outbound.get_json(listener.url)).json == {"a": 1}


@pytest.mark.threat("7f", "7g", "7h", "7i", "7l", "7m")
@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
     "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.0.8", "192.88.99.1", "198.18.0.1",
     "203.0.113.7", "::", "::1",
     "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "fe80::1", "fe80::1%eth0", "fec0::1", "fd00::1",
     "ff02::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::", "64:ff9b::7f00:1",
     "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
     "2001:0:7f00:1::", "2606:4700::1%1", "100::1", "not an address", ""],
)  # fmt: skip
def test_special_use_addresses_are_not_public(address):
    """Every special-purpose range, and IPv4 addresses of such ranges inside IPv6 ones."""
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_global_addresses_are_public(address):
    """What everyone can reach."""
    assert is_public(address)


@pytest.mark.threat("7ab", "7ac")
async def test_a_shared_fetch_outlives_the_first_waiter():
    """The first waiter hanging up neither stops the fetch nor leaves a failure for the others."""
    shared, release, fetches = SharedFetch(lifetime_seconds=60), asyncio.Event(), []

    async def fetch():
        fetches.append(1)
        await release.wait()
        return "document"

    first = asyncio.ensure_future(shared.get("key", fetch))
    second = asyncio.ensure_future(shared.get("key", fetch))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    release.set()

    assert await second == "document"
    assert await shared.get("key", fetch) == "document"
    assert len(fetches) == 1


class Source:
    """A source of one document, away for as long as `outcome` is a failure, and the cache before it."""

    def __init__(self, outcome: Any) -> None:
        self.now, self.fetches, self.outcome = 0.0, 0, outcome
        self.cache = SharedFetch(
            lifetime_seconds=60, failure_lifetime=pause_after, max_entries=2, clock=lambda: self.now
        )

    async def get(self, key: str = "key", **how: Any) -> Any:
        return await self.cache.get(key, self._fetch, **how)

    async def fail(self, key: str = "key", **how: Any) -> int:
        """Get a failure; how many frames its traceback has."""
        with pytest.raises(OutboundFailed) as failure:
            await self.get(key, **how)
        return len(failure.traceback)

    async def _fetch(self) -> Any:
        self.fetches += 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


PERMANENT, TEMPORARY = OutboundFailed("away", temporary=False), OutboundFailed("away", temporary=True)


@pytest.mark.threat("7aa", "7ad")
@pytest.mark.parametrize(("failure", "last"), [(PERMANENT, 29.0), (TEMPORARY, 4.5)])
async def test_a_cached_failure_is_raised_without_a_fetch(failure: OutboundFailed, last: float) -> None:
    """For 30 seconds, or for 5 when the failure is temporary."""
    source = Source(failure)
    await source.fail()
    source.now = last
    await source.fail()
    assert source.fetches == 1


@pytest.mark.threat("7aa", "7ad")
@pytest.mark.parametrize(("failure", "after"), [(PERMANENT, 31.0), (TEMPORARY, 5.5)])
async def test_an_expired_failure_is_fetched_again(failure: OutboundFailed, after: float) -> None:
    """A source that has been repaired is noticed."""
    source = Source(failure)
    await source.fail()
    source.now, source.outcome = after, "document"
    assert await source.get() == "document"


@pytest.mark.threat("7aa", "7ad")
async def test_a_caller_who_wants_something_newer_gets_past_a_cached_failure() -> None:
    """`newer_than_seconds=0` always fetches."""
    source = Source(PERMANENT)
    await source.fail()
    await source.fail(newer_than_seconds=0)
    assert source.fetches == 2


async def test_that_others_were_asked_is_no_failure_to_remember() -> None:
    """An address is asked as soon as there is a turn, though nothing was its fault before."""
    source = Source(OutboundBusy())
    await source.fail()
    source.outcome = "document"
    assert await source.get() == "document"
    assert source.fetches == 2


async def test_a_failure_that_is_raised_again_does_not_grow() -> None:
    """Its traceback is that of one caller, however many there were."""
    source = Source(PERMANENT)
    first, second, *others = [await source.fail() for _ in range(5)]
    assert {*others} == {second}
    assert second <= first


async def test_a_cached_value_takes_precedence_over_a_later_failure() -> None:
    """Somebody wanted a newer value, which failed; everybody else still has the cached one."""
    source = Source("document")
    await source.get()
    source.now, source.outcome = 40.0, TEMPORARY
    await source.fail(newer_than_seconds=30)
    assert await source.get() == "document"


@pytest.mark.threat("41h")
async def test_cached_failures_are_bounded() -> None:
    """With room for two, the third evicts the first, which is fetched again."""
    source = Source(PERMANENT)
    for key in "abc" * 2:
        await source.fail(key)
    assert source.fetches == 6


async def test_failures_are_not_cached_by_default() -> None:
    """Only with a `failure_lifetime`."""
    source = Source(PERMANENT)
    source.cache = SharedFetch(lifetime_seconds=60)
    await source.fail()
    await source.fail()
    assert source.fetches == 2


@pytest.mark.threat("41h")
async def test_partitions_of_expired_values_are_removed() -> None:
    """Zones whose documents have expired leave nothing behind."""
    now = 0.0
    shared = SharedFetch(lifetime_seconds=60, clock=lambda: now)

    async def fetch() -> str:
        return "document"

    for zone in "abc":
        await shared.get("key", fetch, partition=zone)
    now = 61.0
    await shared.get("key", fetch, partition="d")
    assert set(shared._values._partitions) == {"d"}


@pytest.mark.threat("41h")
async def test_what_one_partition_has_displaces_nothing_of_others():
    """1,500 addresses that strangers name: as many are remembered as one may have, and all of others."""
    shared, fetched = SharedFetch(lifetime_seconds=60, max_entries=300, max_of_one=200), Counter()

    async def look(partition, key):
        async def fetch():
            fetched[partition] += 1

        await shared.get(key, fetch, partition=partition)

    for number in range(100):
        await look("quiet", f"{number}")
    for number in range(1_500):
        await look("loud", f"{number}")
    for number in range(100):
        await look("quiet", f"{number}")
    assert fetched == {"quiet": 100, "loud": 1_500}
    assert len(shared._values) == 300
    await look("third", "1")
    await look("loud", "1499")
    assert fetched == {"quiet": 100, "loud": 1_500, "third": 1}
    assert len(shared._values) == 300


async def test_a_value_counts_as_long_as_it_says():
    """Lifetimes end, the least used is forgotten first, and a caller may ask for something newer."""
    now, made = 0.0, iter(range(100))
    shared = SharedFetch(lifetime_seconds=60, max_entries=2, clock=lambda: now)

    async def fetch():
        return next(made)

    assert [await shared.get("a", fetch), await shared.get("a", fetch)] == [0, 0]
    now = 59
    assert await shared.get("a", fetch, newer_than_seconds=30) == 1
    now = 120
    assert await shared.get("a", fetch, lifetime=lambda _: 5) == 2
    now = 126
    assert await shared.get("a", fetch) == 3
    assert [await shared.get("b", fetch), await shared.get("c", fetch), await shared.get("a", fetch)] == [
        4,
        5,
        6,
    ]

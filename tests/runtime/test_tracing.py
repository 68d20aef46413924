"""Traces: the steps of an exchange, whose trace they are in, and who learns of it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
from tests.support.collector import Collector, attributes, collecting
from tests.support.factories import App, company_of
from tests.support.oauth_site import Site
from tests.support.publisher import publishing
from tests.support.redis import RedisServer
from tests.support.server import serve
from tests.support.waiting import wait_until

from runtime import tracing
from runtime.app import UnsafeSettings, check
from runtime.domain.kinds import PROVIDER
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.settings import Settings

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
API = "https://api.example"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """A collector that the service of this module sends its traces to."""
    with collecting() as made:
        yield made


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, collector: Collector, redis_server: RedisServer
) -> Iterator[Site]:
    """A service on Redis that traces every request; only `localhost` is told of traces."""
    redis_server.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        settings = {
            "traces_endpoint": collector.url,
            "traces_hosts": "localhost",
            "redis_url": redis_server.url,
        }
        with serve(tmp_path_factory.mktemp("server"), **settings) as server:
            yield Site(server, company_of(server))


@pytest.fixture(scope="module")
def exchange(site: Site) -> tuple[str, dict[str, str]]:
    """The address of a token endpoint, and the form of an exchange there."""
    zone = site.zone("Home")

    async def make() -> tuple[Resource, App, str]:
        api = await site.company.resource(zone, API, scopes=["read", "write"])
        agent = await site.company.app(zone, "agent", dependencies=[api])
        ann = await site.company.person(zone, "ann@acme.test")
        return api, agent, await site.company.token(zone, agent, ann)

    api, agent, subject = site.run(make())
    form = {"grant_type": GRANT_TYPE, "subject_token": subject, "subject_token_type": ACCESS_TOKEN}
    form |= {"resource": api.identifier, **agent.form}
    return f"{zone.protocols.oauth2.issuer}/oauth/token", form


def trace(collector: Collector, answer: httpx.Response) -> list[Span]:
    """The spans of the trace that the request of an answer is in, once they are there."""
    request_id = answer.headers["X-Request-ID"]
    wait_until(lambda: collector.trace_of(request_id))
    return collector.trace_of(request_id)


def test_a_caller_does_not_choose_that_it_is_traced() -> None:
    """The library goes by the trace id, which is the caller's: by it alone, these would all be traced."""
    parent = set_span_in_context(
        NonRecordingSpan(SpanContext(1, 1, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)))
    )
    assert TraceIdRatioBased(0.01).should_sample(parent, 1, "").decision.is_sampled()

    share = tracing._DrawnShare(0.01)
    traced = sum(share.should_sample(parent, 1, "").decision.is_sampled() for _ in range(1_000))

    assert 0 <= traced < 100
    assert all(tracing._DrawnShare(1.0).should_sample(parent, 1, "").decision.is_sampled() for _ in range(9))


class TestAnExchange:
    """One trace shows what it did."""

    def test_shows_its_steps(
        self, site: Site, collector: Collector, exchange: tuple[str, dict[str, str]]
    ) -> None:
        """Each of them beneath the one that took it; the request is the root."""
        url, form = exchange
        spans = trace(collector, httpx.post(url, data={**form, "scope": "read"}))
        by_id = {span.span_id: span.name for span in spans}
        [root] = [span for span in spans if not span.parent_span_id]
        parents = {span.name: by_id.get(span.parent_span_id) for span in spans}

        assert root.name == "POST /oauth/token"
        assert attributes(root)["http.response.status_code"] == 200
        assert attributes(root)["zoned.outcome"] == "2xx"
        assert {"client authentication", "subject token", "session", "target", "consent"} < parents.keys()
        assert {"scopes", "policy", "signing", "token cache", "Redis"} < parents.keys()
        assert parents["client authentication"] == root.name
        assert (parents["policy"], parents["consent"]) == ("scopes", "target")
        assert parents["Redis"] in ("session", "token cache")

    def test_shows_that_it_was_known(
        self, site: Site, collector: Collector, exchange: tuple[str, dict[str, str]]
    ) -> None:
        """The same request again is not read again: it has none of the steps but the round trip."""
        url, form = exchange
        answers = [httpx.post(url, data={**form, "scope": "write"}) for _ in range(2)]
        names = {span.name for span in trace(collector, answers[1])}

        assert {answer.status_code for answer in answers} == {200}
        assert {"known request", "session"} < names
        assert not {"subject token", "policy", "signing"} & names

    def test_shows_which_step_refuses(
        self, site: Site, collector: Collector, exchange: tuple[str, dict[str, str]]
    ) -> None:
        """With the code of the refusal, and without its words."""
        url, form = exchange
        refused = httpx.post(url, data={**form, "client_secret": "wrong"})
        spans = {span.name: span for span in trace(collector, refused)}

        assert refused.status_code == 401
        assert spans["client authentication"].status.message == "invalid_client"
        assert attributes(spans["POST /oauth/token"])["zoned.outcome"] == "invalid_client"
        assert "subject token" not in spans


class TestTheTraceOfTheSender:
    """W3C Trace Context: `traceparent`."""

    def test_is_gone_on_with(self, site: Site, collector: Collector) -> None:
        """The span of the request is one of the sender's trace."""
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        [span] = trace(collector, httpx.get(f"{site.server.url}/healthz", headers=headers))

        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)

    @pytest.mark.parametrize("sent", ["nonsense", f"00-{'0' * 32}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01"])
    def test_is_a_new_one_where_there_is_none(self, site: Site, collector: Collector, sent: str) -> None:
        """What is no `traceparent` is as if it had not been sent."""
        [span] = trace(collector, httpx.get(f"{site.server.url}/healthz", headers={"traceparent": sent}))

        assert span.parent_span_id == b""
        assert span.trace_id.hex() != TRACE

    def test_may_leave_the_request_out(self, site: Site, collector: Collector) -> None:
        """A sender that does not trace this request has the service not trace it."""
        left_out = {"traceparent": f"00-{'1' * 32}-{PARENT}-00"}
        silent = httpx.get(f"{site.server.url}/healthz", headers=left_out)
        trace(collector, httpx.get(f"{site.server.url}/healthz"))  # which comes after it

        assert silent.status_code == 200
        assert collector.trace_of(silent.headers["X-Request-ID"]) == []


@pytest.mark.parametrize(("host", "learns"), [("localhost", True), ("127.0.0.1", False)])
def test_only_the_hosts_of_the_setting_learn_of_a_trace(
    site: Site, collector: Collector, host: str, learns: bool
) -> None:
    """The span is there for each; the header is for a server of one's own."""
    zone = site.zone(f"Asking {host}")
    with publishing() as publisher:
        address = publisher.url.replace("127.0.0.1", host)
        metadata = {"issuer": address, "authorization_endpoint": address, "token_endpoint": address}
        publisher.publish("/.well-known/openid-configuration", metadata)
        publisher.publish("/.well-known/oauth-authorization-server", metadata)
        provider = site.run(
            site.company.create(PROVIDER, zone.id, identifier=address, name="Tried", client_id="tried")
        )
        path = f"{site.server.url}/zones/{zone.id}/providers/{provider.id}/validate"
        answer = httpx.post(path, headers=site.server.headers)
        sent = [headers.get("traceparent", "") for headers in publisher.sent]

    spans = trace(collector, answer)
    asked = [attributes(span) for span in spans if span.name == "GET to another server"]
    assert answer.status_code == 200, answer.text
    assert {each["server.address"] for each in asked} == {host}
    assert [spans[0].trace_id.hex() in header for header in sent] == [learns] * len(sent)
    assert sent


class TestWithoutTraces:
    """Nothing of it is there."""

    def test_nothing_is_imported(self, tmp_path: Path) -> None:
        """OpenTelemetry is an extra: a service without it starts, and one with it starts as fast."""
        program = f"""
import sys
from pathlib import Path
from runtime.app import build
from runtime.settings import Settings
build(Settings(data_dir=Path({str(tmp_path)!r})))
print([name for name in sys.modules if name.partition(".")[0] == "opentelemetry"])
"""
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert told.stdout == "[]\n"

    def test_functions_are_put_back(self, tmp_path: Path, collector: Collector) -> None:
        """What was replaced while a service traced is there again when it has stopped."""
        owner, name, _ = tracing.STEPS[0]
        before = getattr(owner, name)
        with serve(tmp_path, traces_endpoint=collector.url):
            assert getattr(owner, name) is not before
        assert getattr(owner, name) is before

    def test_an_address_that_is_none_is_refused(self) -> None:
        """Before anything is served."""
        check(Settings(traces_endpoint="http://127.0.0.1:4318/v1/traces"))
        with pytest.raises(UnsafeSettings, match="ZONED_TRACES_ENDPOINT `localhost:4317` is not an http"):
            check(Settings(traces_endpoint="localhost:4317"))

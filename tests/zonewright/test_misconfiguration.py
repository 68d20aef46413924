"""What an operator reads in the log of a resource server whose zone gives no usable answer.

Callers of the resource server get 503 in every case: they can mend neither a wrong setting nor an outage.
"""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from tests.support.documents import Documents, publishing
from tests.zonewright.conftest import TOOLS, Site

from zonewright import ExchangeClient, Verifier, ZoneMisconfigured, ZoneUnreachable, fetching
from zonewright.asgi import ProtectedResource

METADATA, KEYS = "/.well-known/oauth-authorization-server", "/oauth/jwks"
TOKEN = "eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCIsImtpZCI6ImsifQ.e30.c2ln"


@pytest.fixture
def zone(tmp_path: Path) -> Iterator[Documents]:
    """A site that serves what a zone does, until a test changes it."""
    with publishing(tmp_path) as site:
        site.publish(METADATA, {"issuer": site.origin, "jwks_uri": f"{site.origin}{KEYS}"})
        site.publish(KEYS, {"keys": []})
        yield site


async def failure_of(issuer: str) -> ZoneUnreachable:
    """What verifying a token raises at a resource server with that issuer."""
    verifier = Verifier(issuer, TOOLS)
    try:
        with pytest.raises(ZoneUnreachable) as caught:
            await verifier.verify(TOKEN)
    finally:
        await verifier.aclose()
    return caught.value


def messages(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """Level and text of what the library has logged."""
    return [(level, text) for name, level, text in caplog.record_tuples if name == "zonewright"]


def the_message(caplog: pytest.LogCaptureFixture) -> tuple[int, str]:
    """Level and text of the one message that was logged."""
    ((level, text),) = messages(caplog)
    return level, text


async def test_a_trailing_slash_is_named(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The metadata is found nevertheless (RFC 8414 section 3.1), and has the issuer without it."""
    verifier = Verifier(site.issuer, TOOLS)
    assert await verifier.verify(site.token())
    await verifier.aclose()
    assert messages(caplog) == []
    failure = await failure_of(f"{site.issuer}/")
    assert isinstance(failure, ZoneMisconfigured)
    assert the_message(caplog) == (
        logging.ERROR,
        (
            f"the metadata at {site.issuer}{METADATA} has the issuer `{site.issuer}`, configured is"
            f" `{site.issuer}/`: they differ in the trailing slash alone; configure the issuer exactly as the"
            " metadata has it"
        ),
    )


async def test_another_issuer_is_named(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """What was asked, what came, what is configured."""
    configured = site.issuer.replace("127.0.0.1", "localhost")
    assert isinstance(await failure_of(configured), ZoneMisconfigured)
    assert the_message(caplog) == (
        logging.ERROR,
        (
            f"the metadata at {configured}{METADATA} has the issuer `{site.issuer}`, configured is"
            f" `{configured}`: configure the issuer of the zone that is meant, exactly as its metadata has it"
        ),
    )


async def test_a_zone_that_does_not_exist_is_a_misconfiguration(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The service answers 404 for its metadata."""
    issuer = f"{site.issuer[:-4]}none"
    assert isinstance(await failure_of(issuer), ZoneMisconfigured)
    assert the_message(caplog) == (
        logging.ERROR,
        f"{issuer}{METADATA} answers 404; check the issuer that is configured, and what serves this address",
    )


@pytest.mark.parametrize("path", [METADATA, KEYS])
@pytest.mark.parametrize(
    ("status", "headers", "body", "says"),
    [
        (404, {}, b"", "answers 404; check"),
        (301, {"Location": "https://www.test/"}, b"", "answers 301 to `https://www.test/`; check"),
        (200, {"Content-Type": "text/html"}, b"<html>", "answers `text/html` that is not JSON; check"),
        (200, {}, b"[]", "answers JSON that is not an object; check"),
    ],
    ids=["none", "redirect", "page", "list"],
)
async def test_an_answer_of_something_else_is_a_misconfiguration(
    zone: Documents,
    caplog: pytest.LogCaptureFixture,
    path: str,
    status: int,
    headers: dict[str, str],
    body: bytes,
    says: str,
) -> None:
    """Waiting would not help."""
    zone.publish(path, body, status=status, headers=headers)
    assert isinstance(await failure_of(zone.origin), ZoneMisconfigured)
    level, text = the_message(caplog)
    assert (level, text.startswith(f"{zone.origin}{path} {says}")) == (logging.ERROR, True), text


@pytest.mark.parametrize("path", [METADATA, KEYS])
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_answer_that_may_be_another_soon_is_an_outage(
    zone: Documents, caplog: pytest.LogCaptureFixture, path: str, status: int
) -> None:
    """A warning, and no advice to change anything."""
    zone.publish(path, {}, status=status)
    assert type(await failure_of(zone.origin)) is ZoneUnreachable
    assert the_message(caplog) == (logging.WARNING, f"{zone.origin}{path} answers {status}")


async def test_an_outage_is_logged_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing listens there."""
    assert type(await failure_of("http://127.0.0.1:9")) is ZoneUnreachable
    level, text = the_message(caplog)
    assert level == logging.WARNING
    assert text.startswith(f"http://127.0.0.1:9{METADATA} cannot be fetched: ConnectError `")
    assert text.endswith("; check that this server can reach the zone")


@pytest.mark.parametrize("issuer", ["zone.test", "https://zone.test:port"])
async def test_what_is_no_address_is_a_misconfiguration(
    issuer: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A scheme was forgotten, for one."""
    assert isinstance(await failure_of(issuer), ZoneMisconfigured)
    level, text = the_message(caplog)
    assert (level, f"`{issuer}{METADATA}` is not an address" in text) == (logging.ERROR, True), text


async def test_what_came_stays_in_one_line_of_bounded_length(
    zone: Documents, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever answers at the address cannot write messages of their own into the log."""
    zone.publish(METADATA, {"issuer": "https://x.test\nERROR all is lost" + "x" * 5_000})
    await failure_of(zone.origin)
    _, text = the_message(caplog)
    assert "has the issuer `https://x.test\\nERROR all is lost" in text
    assert "\n" not in text
    assert len(text) < 1_000


async def test_an_endpoint_elsewhere_is_logged_and_read_again_when_mended(
    zone: Documents, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zone behind a wrong public address; its resource servers need no restart afterwards."""
    monkeypatch.setattr(fetching, "PAUSE_SECONDS", 0)
    zone.publish(METADATA, {"issuer": zone.origin, "token_endpoint": "https://inside.test/oauth/token"})
    client = ExchangeClient(zone.origin, "app", client_secret="secret")
    with pytest.raises(ZoneMisconfigured, match="not at the origin of the issuer"):
        await client.exchange("token", TOOLS)
    assert "`https://inside.test/oauth/token`" in the_message(caplog)[1]
    zone.publish(METADATA, {"issuer": zone.origin, "token_endpoint": f"{zone.origin}/oauth/token"})
    with pytest.raises(ZoneUnreachable, match="/oauth/token does not respond"):
        await client.exchange("token", TOOLS)
    await client.aclose()


class TestThrottle:
    """A message of one kind about one document comes once a minute, however many requests fail."""

    def levels(self, caplog: pytest.LogCaptureFixture) -> list[int]:
        return [level for level, _ in messages(caplog)]

    def fail(self, failures: fetching.SharedFailure, failure: ZoneUnreachable) -> None:
        with pytest.raises(ZoneUnreachable), failures.shared():
            raise failure

    async def test_many_requests_make_one_message(
        self, zone: Documents, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each of them asks the zone here; all are answered 503 with `Retry-After`, and without a body."""
        monkeypatch.setattr(fetching, "PAUSE_SECONDS", 0)
        zone.publish(METADATA, {}, status=404)
        verifier = Verifier(zone.origin, TOOLS)
        transport = httpx.ASGITransport(app=ProtectedResource(Starlette(), verifier))
        async with httpx.AsyncClient(transport=transport, base_url="http://inside.test") as client:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            answers = await asyncio.gather(*(client.get("/mcp", headers=headers) for _ in range(10)))
        await verifier.aclose()
        told = {(each.status_code, each.headers["retry-after"], each.content) for each in answers}
        assert told == {(503, "5", b"")}
        assert len(zone.asked) == 10
        assert self.levels(caplog) == [logging.ERROR]

    def test_it_is_repeated_after_a_minute(self, caplog: pytest.LogCaptureFixture) -> None:
        """So that it is still to be found when somebody looks."""
        now = 1000.0
        failures = fetching.SharedFailure(lambda: now)
        for now in (1000, 1001, 1030, 1059, 1060, 1119):  # noqa: B007 the clock
            self.fail(failures, ZoneUnreachable("away"))
        assert self.levels(caplog) == [logging.WARNING, logging.WARNING]

    def test_an_outage_hides_no_misconfiguration(self, caplog: pytest.LogCaptureFixture) -> None:
        """Each kind has its own minute."""
        now = 1000.0
        failures = fetching.SharedFailure(lambda: now)
        self.fail(failures, ZoneUnreachable("away"))
        now = 1002.0
        self.fail(failures, ZoneMisconfigured("another issuer"))
        now = 1004.0
        self.fail(failures, ZoneUnreachable("away"))
        assert self.levels(caplog) == [logging.WARNING, logging.ERROR]

    def test_a_shared_failure_is_of_the_same_kind(self) -> None:
        """Those who come within the second hear what the first one did."""
        failures = fetching.SharedFailure(lambda: 1000.0)
        self.fail(failures, ZoneMisconfigured("another issuer"))
        with pytest.raises(ZoneMisconfigured, match="another issuer"), failures.shared():
            pytest.fail("it was asked again")

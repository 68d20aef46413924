"""Two workers on PostgreSQL and Redis: what one of them does, the other knows at once."""

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from acme import Application, Browser, Page, written_secret
from tests.end_to_end.operated import Server
from tests.end_to_end.shop import SHOP
from tests.end_to_end.test_supervisor import workers
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long

PASSWORD = "correct horse battery staple"
CALLBACK = "http://localhost:8600/callback"
API = "https://api.shop.example"
CONFIG = f"""\
{SHOP}---
apiVersion: zonewright/v1
kind: Application
metadata: {{zone: shop, name: till}}
spec:
  name: Till
  consent: implicit
  dependencies: [api]
  protocols: {{oauth2: {{redirect_uris: ["http://localhost:8600/callback"]}}}}
---
apiVersion: zonewright/v1
kind: ApplicationCredential
metadata: {{zone: shop, name: till}}
spec: {{application: till, type: public}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the service, its configuration and secrets are."""
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def server(folder: Path, postgres: PostgresServer, redis_server: RedisServer) -> Iterator[Server]:
    """Two workers with one zone, until the last test stops them."""
    database_url = asyncio.run(postgres.migrated())
    redis_server.clear()
    made = Server(
        folder / "data",
        {"ZONED_WORKERS": "2", "ZONED_DATABASE_URL": database_url, "ZONED_REDIS_URL": redis_server.url},
    )
    made.init()
    made.start()
    (folder / "config").mkdir()
    (folder / "config" / "zonectl.yaml").write_text("owner: shop/identity\n")
    (folder / "config" / "shop.yaml").write_text(CONFIG)
    _wait_for_workers(made, 2)
    made.zonectl("apply", str(folder / "config"), "--yes", "--secrets-dir", str(folder / "secrets"))
    yield made
    made.stop()
    asyncio.run(postgres.drop(database_url))


def _wait_for_workers(server: Server, count: int) -> None:
    """Return when that many workers have said that they are ready. Raises AssertionError after a while."""
    said = "outbound fetches may reach private addresses"  # by each once, at its start
    wait_until(
        lambda: server.log.read_text().count(said) >= count, seconds=60, otherwise=server.log.read_text
    )


def issuer(server: Server) -> str:
    address: str = server.zone("shop")["protocols"]["oauth2"]["issuer"]
    return address


@dataclass(frozen=True)
class Racing(Application):
    """Redeems its code fifty times at once."""

    answers: list[httpx.Response] = field(default_factory=list)

    def token(self, form: Mapping[str, str] | list[tuple[str, str]]) -> httpx.Response:
        """The answer that brought tokens."""
        with ThreadPoolExecutor(50) as pool:
            self.answers.extend(pool.map(lambda _: super(Racing, self).token(form), range(50)))
        return next(answer for answer in self.answers if answer.status_code == 200)


@pytest.mark.threat("3a", "3b")
def test_code_single_use_race(server: Server, folder: Path):
    """Of fifty at once, over two workers, exactly one gets tokens; since others tried, those are ended."""
    server.run(
        "user", "add", "--zone", "shop", "--email", "ada@shop.example", "--password-stdin", stdin=PASSWORD
    )
    till = Racing(issuer(server), "till")

    def sign_in(browser: Browser, page: Page, until: str) -> Page | str:
        return browser.submit(page, {"email": "ada@shop.example", "password": PASSWORD}, until=until)

    def is_active(access_token: str) -> bool:
        secret = written_secret(folder / "secrets", "shop", "job")
        form = {"token": access_token, "client_id": "job", "client_secret": secret}
        answer = httpx.post(f"{till.issuer}/oauth/introspect", data=form, trust_env=False)
        return bool(answer.json()["active"])

    once = Application(till.issuer, "till").sign_in(
        Browser(), CALLBACK, sign_in, scope="openid", resources=[API]
    )
    assert {is_active(once["access_token"]) for _ in range(10)} == {True}
    tokens = till.sign_in(Browser(), CALLBACK, sign_in, scope="openid", resources=[API])

    assert sorted(answer.status_code for answer in till.answers) == [200] + [400] * 49
    assert {answer.json()["error"] for answer in till.answers if answer.status_code == 400} == {
        "invalid_grant"
    }
    assert {is_active(tokens["access_token"]) for _ in range(10)} == {False}


def test_a_withdrawn_credential_is_refused_by_both(server: Server, folder: Path):
    """Each request comes over a connection of its own, to whichever worker takes it.

    The credential is the job's, which no test needs after this one.
    """
    secret = written_secret(folder / "secrets", "shop", "job")
    job = Application(issuer(server), "job", secret)
    form = {"grant_type": "client_credentials", "resource": "https://api.shop.example"}
    assert {job.token(form).status_code for _ in range(20)} == {200}
    with server.management() as management:
        zone = server.zone("shop")["id"]
        credentials = management.get(f"/zones/{zone}/application-credentials").json()["items"]
        [credential] = [each for each in credentials if each["identifier"] == "job"]
        management.delete(f"/zones/{zone}/application-credentials/{credential['id']}").raise_for_status()

    assert {job.token(form).status_code for _ in range(20)} == {401}


def samples(server: Server) -> dict[str, float]:
    """Name and labels -> value, of one scrape."""
    text = httpx.get(f"{server.url}/metrics", trust_env=False).text
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {series: float(value) for series, _, value in lines}


STYLES = 'zoned_request_seconds_count{endpoint="/docs/docs.css",outcome="2xx"}'


def _get_styles(server: Server, *, times: int) -> None:
    """Each request comes over a connection of its own, to whichever worker takes it."""
    statuses = {httpx.get(f"{server.url}/docs/docs.css", trust_env=False).status_code for _ in range(times)}
    assert statuses == {200}


def _counted(server: Server) -> float:
    """How many of these were counted: whoever asks for more waits until they are."""
    return samples(server).get(STYLES, 0)


def test_one_scrape_tells_of_both_workers(server: Server):
    """Whichever worker answers: its counts are the sums, and each process has its own memory in them."""
    before = _counted(server)
    _get_styles(server, times=20)

    wait_until(lambda: all(samples(server).get(STYLES) == before + 20 for _ in range(10)))
    memory = {series for series in samples(server) if series.startswith("process_resident_memory_bytes")}
    assert memory == {f'process_resident_memory_bytes{{worker="{number}"}}' for number in (1, 2)}


def test_counts_outlive_a_worker(server: Server):
    """What a worker had counted is in the sums after another has taken its place, and goes on from there."""
    before = _counted(server)
    _get_styles(server, times=20)
    wait_until(lambda: all(samples(server).get(STYLES) == before + 20 for _ in range(10)))
    os.kill(workers(server)[0], signal.SIGKILL)
    _wait_for_workers(server, 3)
    _get_styles(server, times=20)
    wait_until(lambda: all(samples(server)[STYLES] == before + 40 for _ in range(10)))


def test_stops_when_asked(server: Server):
    """A termination signal ends both workers and the process that watches them."""
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGTERM)
    assert server.process.wait(25) == 0

"""Metrics: what is measured, and that no caller makes more time series of it."""

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.support.factories import company_of
from tests.support.oauth_site import Site
from tests.support.server import Server, serve

from runtime.api.shared.request_metrics import endpoint_of
from runtime.app import build
from runtime.domain import errors
from runtime.metrics import SupervisorMetrics
from runtime.services import cache_sizes
from runtime.services.bounded_cache import BoundedCache
from runtime.services.cache_sizes import CacheSize
from runtime.services.zones.tagged_cache import ChangeHistory, TaggedCache
from runtime.settings import Settings


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory):
    """A running service with one zone, `Home`."""
    with serve(tmp_path_factory.mktemp("server")) as server:
        yield Site(server, company_of(server))


def series(server: Server) -> dict[str, float]:
    """Name and labels -> value, of one scrape."""
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    found = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in found}


@pytest.mark.parametrize(
    "template", ["{public_url}/z/{zone_id}", "https://{slug}.id.example"], ids=["by path", "by host"]
)
def test_the_endpoints_are_a_short_list(tmp_path: Path, template: str):
    """A hundred names for all routes, none of which has a part that callers choose."""
    app = build(Settings(data_dir=tmp_path, zone_url_template=template), name=f"metrics{len(template)}")
    endpoints = {endpoint_of(route.name, route.path) for route in app.router.routes}

    assert {"/oauth/token", "/oauth/authorize", "management create", "/metrics"} < endpoints
    assert len(endpoints) <= 110
    assert [each for each in endpoints if "z/<" in each or "zone_id" in each] == []


def test_the_codes_of_refusals_are_a_short_list():
    """Those of the error classes: labels have no other."""
    assert {"invalid_grant", "invalid_client", "validation_error", "provider_failed"} < errors.codes()
    assert len(errors.codes()) <= 80
    assert [code for code in errors.codes() if not re.fullmatch("[a-z_]+", code)] == []


def test_callers_make_no_time_series(site: Site):
    """Other zones, clients, grant types and paths are counted, and nothing is named after them."""
    issuer = str(site.zone("Home").protocols.oauth2.issuer)

    def ask(word: str) -> list[int]:
        form = {"grant_type": word, "client_id": word, "client_secret": word, "token": word}
        paths = ("token", "introspect", "revoke", "par", word)
        answers = [httpx.post(f"{issuer}/oauth/{path}", data=form) for path in paths]
        answers.append(httpx.get(f"{issuer}/oauth/authorize", params=form))
        answers.append(httpx.get(f"{site.server.url}/zones/{word}"))
        answers.append(httpx.get(f"{site.server.url}/z/{word}/.well-known/jwks.json"))
        return [answer.status_code for answer in answers]

    count = 'zoned_request_seconds_count{endpoint="/oauth/introspect",outcome="invalid_client"}'
    statuses = ask("first")
    series(site.server)  # which is a request, too
    before = series(site.server)
    assert {tuple(ask(f"other-{number}")) for number in range(20)} == {tuple(statuses)}
    after = series(site.server)

    assert statuses == [401, 401, 401, 401, 404, 400, 401, 404]
    assert after[count] == before[count] + 20
    assert after.keys() == before.keys()
    assert [name for name in after if "first" in name or "other" in name] == []


class TestWhatIsMeasured:
    """One request each, and what the next scrape tells of it."""

    def test_a_request_by_endpoint_and_outcome(self, site: Site):
        """The wrong secret is an outcome of its own."""
        app = site.app(site.zone("Home"), "measured").app
        issuer = str(site.zone("Home").protocols.oauth2.issuer)
        form = {"grant_type": "client_credentials", **app.form}
        name = 'zoned_request_seconds_count{{endpoint="/oauth/token",outcome="{}"}}'
        before = series(site.server)
        assert httpx.post(f"{issuer}/oauth/token", data={**form, "client_secret": "wrong"}).status_code == 401
        after = series(site.server)

        refused = name.format("invalid_client")
        assert after[refused] == before.get(refused, 0) + 1

    @pytest.mark.parametrize(
        "name",
        [
            "zoned_database_connections_max",
            "zoned_database_wait_seconds_count",
            'zoned_cache_lookups_total{cache="zones",result="hit"}',
            'zoned_cache_entries{cache="zones"}',
            'zoned_request_seconds_count{endpoint="/metrics",outcome="2xx"}',
            'process_resident_memory_bytes{worker="1"}',
        ],
    )
    def test_what_there_is(self, site: Site, name: str):
        """Above zero in a service that has answered something."""
        assert series(site.server)[name] > 0

    @pytest.mark.parametrize(
        "name",
        [
            "zoned_database_waiting",
            "zoned_database_unavailable_total",
            "zoned_upstream_circuits_open",
            'zoned_queue_length{queue="decisions"}',
            'zoned_outbox_messages{state="waiting"}',
            'zoned_outbox_messages{state="dead"}',
            "zoned_outbox_oldest_seconds",
        ],
    )
    def test_what_is_told_from_the_start(self, site: Site, name: str):
        """Zero, rather than nothing at all: an alert can tell these apart."""
        assert name in series(site.server)


class TestCaches:
    """Each cache counts its lookups under the name of its size."""

    def test_hits_and_misses(self):
        """Of two caches of a sort, together; the entries of one that is gone are gone."""
        size = CacheSize("tried", 10)
        first, second = BoundedCache[int](size), BoundedCache[int](size)
        first["a"] = second["b"] = 1
        assert (first.get("a"), first.get("b"), second.get("b")) == (1, None, 1)
        assert (size.hits, size.misses, size.entries) == (2, 1, 2)

        del second
        assert size.entries == 1

    def test_an_outdated_entry_is_missed(self):
        """An entry whose tag has changed answers nothing, so that is no hit."""
        size, history = CacheSize("tried", 10), ChangeHistory(1)
        cache = TaggedCache[int](size, history)
        cache.keep("a", 1, ["tag"], as_of=1)
        assert cache.get("a") == 1
        history.add(2, ["tag"])

        assert cache.get("a") is None
        assert (size.hits, size.misses) == (1, 1)

    def test_each_has_a_name_of_its_own(self):
        """Two sizes of one name would be one series."""
        names = [size.name for size in cache_sizes.ALL]
        assert len(names) == len(set(names)) > 15


_WORKER = """
import multiprocessing, os, sys
multiprocessing.current_process().name = f"worker-{sys.argv[2]}"
os.environ["ZONEWRIGHT_METRICS_DIRECTORY"] = sys.argv[1]
from runtime import metrics
for _ in range(int(sys.argv[3])):
    metrics.TOKENS.labels("tried", "issued").inc()
    metrics.request_seconds("/tried", "2xx").observe(0.003)
metrics.DATABASE_WAITING.set(int(sys.argv[3]))
metrics.write_values()
print(metrics.exposition()[0].decode())
"""


def _told_by(directory: Path, number: int, times: int) -> dict[str, str]:
    """What a worker tells after it has counted so many requests."""
    command = [sys.executable, "-c", _WORKER, str(directory), str(number), str(times)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = (line.rpartition(" ") for line in told.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in lines}


def test_workers_are_summed(tmp_path: Path):
    """Counts and buckets of all that have been there; of what is at present, the latest of each number."""
    count = 'zoned_token_requests_total{grant="tried",outcome="issued"}'
    bucket = 'zoned_request_seconds_bucket{endpoint="/tried",le="0.005",outcome="2xx"}'
    assert _told_by(tmp_path, 1, 3)[count] == "3.0"
    assert _told_by(tmp_path, 2, 4)[count] == "7.0"
    told = _told_by(tmp_path, 1, 5)

    assert (told[count], told[bucket], told["zoned_database_waiting"]) == ("12.0", "12.0", "9.0")


def test_what_a_dead_worker_counted_stays(tmp_path: Path):
    """The worker that takes its place has not counted anything of the sort, yet."""
    count = 'zoned_token_requests_total{grant="tried",outcome="issued"}'
    assert _told_by(tmp_path, 1, 3)[count] == "3.0"
    assert _told_by(tmp_path, 1, 0)[count] == "3.0"
    assert _told_by(tmp_path, 1, 1)[count] == "4.0"


def test_replaced_workers_are_counted_by_their_supervisor(tmp_path: Path):
    """From zero on, which an alert can tell from nothing; whichever workers there are, in one sum."""
    name = "zoned_workers_replaced_total"
    supervisor = SupervisorMetrics(tmp_path)
    before = _told_by(tmp_path, 1, 0)[name]
    supervisor.count_replaced()
    supervisor.count_replaced()

    assert (before, _told_by(tmp_path, 1, 0)[name], _told_by(tmp_path, 2, 0)[name]) == ("0.0", "2.0", "2.0")

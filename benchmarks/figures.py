"""What a server answers at most, and how long callers wait below that: figures in the form of a load test.

Each scenario is a closed loop first, which finds the peak, and then open loops at shares of that peak. The
server has a core to itself, where the system lets choose; its load, PostgreSQL and Redis have the others.
Peers have their turn in the same run. What has to reach a share of the empty route's rate takes turns with
it, for a machine may be half as fast a minute later.
"""

import contextlib
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlencode

import httpx
from acme import Server
from prometheus_client.parser import text_string_to_metric_families

from benchmarks import cores, floors, listing, peers, servers, tokens
from benchmarks.exchange import SCOPES, Stage, exchange_form, prepare, run_load
from benchmarks.load import Load, Outcome
from benchmarks.results import PEAK, SHARES, Scenario, Step

_PEAK_SECONDS, _SECONDS = 4.0, 6.0
_STORAGE = "PostgreSQL + Redis"
_LISTED = 100
_TURNS, _TURN_SECONDS = 7, 1.5


@dataclass(frozen=True)
class Target:
    """What is measured.

    Attributes:
        pid: of the server's process; None where it is not asked how busy that was.
        metrics: where it tells of its work; None for a server that does not.
    """

    load: Load
    pid: int | None = None
    metrics: str | None = None


def measure(directory: Path, *, with_peers: bool) -> Iterator[Scenario]:
    """The scenarios, one after the other."""
    apart = cores.can_be_shared_out()
    on_server, on_load = (cores.SERVER, cores.LOAD) if apart else (None, None)
    with contextlib.ExitStack() as cleanup:
        with cores.started_on(on_load):
            database = cleanup.enter_context(servers.postgresql(directory / "figures-pg"))
            state = cleanup.enter_context(servers.redis(directory / "figures-redis"))
        settings = {"ZONED_DATABASE_URL": database, "ZONED_REDIS_URL": state}
        server = Server(directory / "figures", settings)
        server.init()
        server.start()
        cleanup.callback(server.stop)
        stage = prepare(server, directory / "figures-config", people=tokens.PEOPLE, browsers=tokens.BROWSERS)
        form = urlencode(exchange_form(stage))
        with cores.started_on(on_server):
            empty = cleanup.enter_context(servers.empty_sanic())
        beside = {floors.EMPTY: Load(f"{empty}/empty", form)}
        yield from _scenarios("", {floors.EMPTY: Target(beside[floors.EMPTY])}, {}, on_load)
        for algorithm in ("ES256", "RS256"):
            server.run("keys", "use", "--zone", "acme-product", "--algorithm", algorithm)
            server.stop()
            with cores.started_on(on_server):
                server.start()
            yield from _scenarios(_STORAGE, _targets(server, stage, form, algorithm), beside, on_load)
            if with_peers:
                with contextlib.ExitStack() as running:
                    with cores.started_on(on_server):
                        peer = running.enter_context(peers.running(peers.install(), algorithm))
                    name = floors.PEER_ES256 if algorithm == "ES256" else floors.PEER_RS256
                    yield from _scenarios("memory", {name: Target(peer.load, peer.pid)}, {}, on_load)


def _targets(server: Server, stage: Stage, form: str, algorithm: str) -> Mapping[str, Target]:
    """What is asked of the service with that algorithm."""
    own = Target(Load(server.url), server.process.pid if server.process else None, f"{server.url}/metrics")
    address = f"{stage.agent.issuer}/oauth/token"
    if algorithm == "RS256":
        return {floors.COLD_RS256: replace(own, load=Load(address, form, scopes=SCOPES))}
    loads = tokens.loads(stage)
    chosen = {
        floors.METADATA: loads["metadata"],
        floors.INTROSPECTION: loads["introspection"],
        floors.WARM: Load(address, form),
        floors.COLD_ES256: Load(address, form, scopes=SCOPES),
        floors.SIGN_IN: loads["sign-in, our legs"],
        floors.LIST: Load(f"{server.url}{listing.many(server, _LISTED)}", bearer=server.api_key),
    }
    return {name: replace(own, load=load) for name, load in chosen.items()}


def _scenarios(
    storage: str, targets: Mapping[str, Target], beside: Mapping[str, Load], on_load: str | None
) -> Iterator[Scenario]:
    for name, target in targets.items():
        with cores.started_on(on_load):
            peak = _step(target, PEAK, replace(target.load, seconds=_PEAK_SECONDS))
            steps = [peak]
            for share in SHARES:
                load = replace(target.load, rate=share * peak.rate, seconds=_SECONDS)
                steps.append(_step(target, share, load))
            compared = {each.beside for each in floors.FLOORS if each.scenario == name}
            shares = {other: _share(target.load, load) for other, load in beside.items() if other in compared}
        in_turns = {other: share for other, share in shares.items() if share is not None}
        yield Scenario(name, storage, steps, in_turns)


def _share(load: Load, beside: Load) -> float | None:
    """The share of the other's rate that a load reaches; the two take turns. None where each had errors."""
    shares = []
    for _ in range(_TURNS):
        one, other = (run_load(replace(each, seconds=_TURN_SECONDS, warm_up=0.5)) for each in (load, beside))
        if not one.refused and not other.refused:
            shares.append(one.rate / other.rate)
    return statistics.median(shares) if shares else None


def _step(target: Target, share: float, load: Load) -> Step:
    """One load on a server, with what the server says of itself before and after."""
    before, busy_before, machine_before = _counted(target), _busy(target), cores.machine_seconds()
    outcome = run_load(load)
    machine_after, after, busy_after = cores.machine_seconds(), _counted(target), _busy(target)
    return Step(
        share=share,
        offered=load.rate or outcome.rate,
        rate=outcome.rate,
        answered=outcome.answered,
        errors=outcome.errors,
        percentiles=outcome.percentiles,
        generator_core=outcome.cpu_seconds / outcome.seconds,
        machine=cores.share(machine_before, machine_after),
        **_of_the_server(outcome, load, busy_after - busy_before if busy_before and busy_after else None),
        **_told(outcome, before, after),
    )


def _of_the_server(outcome: Outcome, load: Load, busy: float | None) -> dict[str, float]:
    if busy is None:
        return {}
    return {
        "server_us": 1e6 * busy / outcome.sent,
        "server_core": busy / (outcome.seconds + load.warm_up),
    }


def _told(outcome: Outcome, before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What its metrics say of the requests between two readings."""
    if not after:
        return {}
    grown = {name: value - before.get(name, 0.0) for name, value in after.items()}
    lags = grown.get("zoned_event_loop_lag_seconds_count", 0.0)
    return {
        "statements": grown.get("zoned_database_statements_total", 0.0) / outcome.sent,
        "trips": grown.get("zoned_state_seconds_count", 0.0) / outcome.sent,
        "pool_ms": 1000 * grown.get("zoned_database_wait_seconds_sum", 0.0) / outcome.sent,
        "redis_ms": 1000 * grown.get("zoned_state_seconds_sum", 0.0) / outcome.sent,
        "loop_lag_ms": 1000 * grown.get("zoned_event_loop_lag_seconds_sum", 0.0) / lags if lags else 0.0,
    }


def _counted(target: Target) -> dict[str, float]:
    """The sums of the server's metrics over their labels; nothing of a server that has none."""
    if target.metrics is None:
        return {}
    told = httpx.get(target.metrics, trust_env=False).raise_for_status().text
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(told):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


def _busy(target: Target) -> float | None:
    return cores.busy_seconds(target.pid) if target.pid else None

"""The benchmark's report: an open loop hides no wait, and the page says what the stored run says."""

import asyncio
import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.waiting import let_elapse

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from benchmarks import __main__ as bench  # noqa: E402
from benchmarks import load as generator  # noqa: E402
from benchmarks import report, results  # noqa: E402
from benchmarks.floors import (  # noqa: E402
    COLD_ES256,
    EMPTY,
    LIST,
    METADATA,
    PEER_ES256,
    WARM,
    WRITES,
    WRITES_SQLITE,
)
from benchmarks.load import Load  # noqa: E402
from benchmarks.results import Facts, Measured, Results, Scenario, Step, bottleneck, verdicts  # noqa: E402
from benchmarks.table import Row  # noqa: E402

PERCENTILES = {f"{each:g}": each / 10 for each in generator.PERCENTILES}
STEP = Step(
    share=0.0,
    offered=5_000.0,
    rate=5_000.0,
    errors={},
    percentiles=PERCENTILES,
    generator_core=0.3,
    machine=0.8,
    server_us=190.0,
    server_core=0.97,
    statements=0.02,
    trips=1.0,
    pool_ms=0.01,
    redis_ms=0.4,
    loop_lag_ms=1.0,
)


def scenario(name: str, rate: float) -> Scenario:
    peak = replace(STEP, rate=rate, offered=rate)
    return Scenario(name, "", [peak, *(replace(peak, share=each) for each in results.SHARES)])


def run_with(*scenarios: Scenario) -> Results:
    return Results("2026-03-01T12:00+00:00", {"processor": "one"}, parts=["figures"], scenarios=[*scenarios])


@asynccontextmanager
async def answering(
    work: "asyncio.Queue[bytes]", asked: asyncio.Event | None = None, heads: list[bytes] | None = None
) -> AsyncIterator[str]:
    """A server that answers each request with the next of the queue, once there is one.

    Args:
        asked: is set by the first request.
        heads: gets what each request begins with.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                if heads is not None:
                    heads.append(head)
                if asked is not None:
                    asked.set()
                writer.write(await work.get())
            except (asyncio.IncompleteReadError, asyncio.CancelledError):
                writer.close()
                return

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


OK, BUSY = (b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % each for each in (b"200 OK", b"503 Busy"))


async def test_an_open_loop_measures_from_when_a_request_was_due() -> None:
    """On a connection that is not answered for a second, those behind it have waited since they were due."""
    held: asyncio.Queue[bytes] = asyncio.Queue()
    asked = asyncio.Event()
    async with answering(held, asked) as url:
        load = Load(url, connections=1, rate=100.0, warm_up=0.0, seconds=0.5)
        running = asyncio.create_task(generator.run(load))
        await asked.wait()
        await let_elapse(1.0)  # twice as long as the schedule
        for _ in range(50):
            held.put_nowait(OK)
        outcome = await running

    assert (outcome.answered, outcome.sent, outcome.errors) == (50, 50, {})
    # Due a hundredth of a second after each other, so that the last had half a second less to wait. A closed
    # loop would have one slow answer and 49 quick ones. A busy machine makes all of it longer.
    assert outcome.percentiles["100"] >= 900
    assert outcome.percentiles["50"] >= 650
    assert outcome.rate < 60


async def test_errors_are_told_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """By status; what has no answer is an error, too, and none of them is an answer."""
    monkeypatch.setattr(generator, "_GRACE_SECONDS", 1.0)  # what is never answered is waited for twice
    held: asyncio.Queue[bytes] = asyncio.Queue()
    for each in [OK] * 5 + [BUSY] * 3:
        held.put_nowait(each)
    async with answering(held) as url:
        outcome = await generator.run(Load(url, connections=2, rate=100.0, warm_up=0.0, seconds=0.1))

    assert (outcome.answered, outcome.errors) == (5, {"503": 3, "no answer": 2})
    assert outcome.refused == 5


async def test_browsers_take_turns_with_requests() -> None:
    """An open loop that is answered at once uses one connection, and yet no browser more than another."""
    held: asyncio.Queue[bytes] = asyncio.Queue()
    for _ in range(6):
        held.put_nowait(OK)
    heads: list[bytes] = []
    async with answering(held, heads=heads) as url:
        load = Load(url, cookies=["a=1", "b=2"], connections=2, rate=60.0, warm_up=0.0, seconds=0.1)
        await generator.run(load)

    sent = [line for head in heads for line in head.splitlines() if line.startswith(b"Cookie")]
    assert sent == [b"Cookie: a=1", b"Cookie: b=2"] * 3


@pytest.mark.parametrize(
    ("share", "told"), [(50.0, 2_000.0), (75.0, 3_000.0), (99.9, 4_000.0), (100.0, 4_000.0)]
)
def test_a_percentile_is_a_value_that_was_measured(share: float, told: float) -> None:
    """The least that so many per cent do not exceed."""
    assert generator.percentile([1.0, 2.0, 3.0, 4.0], share) == told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "the server's core (97% busy)"),
        ({"server_core": 0.5, "generator_core": 0.9}, "the load generator"),
        ({"server_core": 0.5, "machine": 0.99}, "the machine (99% of its cores busy)"),
        ({"server_core": 0.5, "pool_ms": 4.0}, "waits for a database connection (4.0 ms a request)"),
        ({"server_core": 0.5, "redis_ms": 3.0}, "waits for Redis (3.0 ms a request)"),
        ({"server_core": 0.5}, "none of what is measured"),
        ({"server_core": None, "server_us": None}, "not known"),
    ],
)
def test_the_bottleneck_is_what_is_busy_or_waited_for(changes: dict[str, float | None], told: str) -> None:
    """The first that is at its limit, of those that are measured."""
    assert told in bottleneck(replace(STEP, **changes))  # type: ignore[arg-type]


def test_verdicts_compare_with_floors() -> None:
    """In requests a second, and as a share of what was measured beside it; what was not measured has none."""
    run = run_with(
        scenario(EMPTY, 10_000), scenario(WARM, 3_999), scenario(METADATA, 20_000), scenario(LIST, 300)
    )

    assert [(each.floor.scenario, each.floor.beside, each.text) for each in verdicts(run)] == [
        (WARM, "", "BELOW THE FLOOR"),
        (METADATA, "", "reaches the aim"),
        (LIST, EMPTY, "above the floor"),
    ]
    run.scenarios[3] = replace(run.scenarios[3], in_turns={EMPTY: 0.019})
    assert verdicts(results.load(run.dump()))[2].text == "BELOW THE FLOOR", "in turns, on the same machine"
    crowded = replace(run.scenarios[1].peak, server_core=0.4, machine=0.99)
    run.scenarios[1] = replace(run.scenarios[1], steps=[crowded])
    assert verdicts(run)[0].text == "not told: something else had the machine"
    run.scenarios += [scenario(PEER_ES256, 1_000), scenario(COLD_ES256, 1_200)]
    beside_peer = [each.text for each in verdicts(run) if each.floor.beside == PEER_ES256]
    assert beside_peer == ["reaches the aim", "above the floor"]


def test_a_row_that_is_compared_has_the_verdict_of_its_floor() -> None:
    """By what it says itself; one that says nothing has none."""
    run = run_with()
    for name, share in ((WRITES_SQLITE, 0.89), (WRITES, 0.9), (WARM, None)):
        run.rows.append(Measured(name, 5_000.0, 0.5, "", share))

    assert [(each.floor.scenario, each.text) for each in verdicts(results.load(run.dump()))] == [
        (WRITES_SQLITE, "BELOW THE FLOOR"),
        (WRITES, "above the floor"),
    ]


def test_commands_of_zonectl_have_floors() -> None:
    """In objects a second: 10,000 are validated within three seconds, and planned within four."""
    run = run_with()
    for name, rate in (("validate, cold, 10,000 manifests", 3_300.0), ("apply, 10,000 creates", 334.0)):
        run.rows.append(Measured(name, rate, 0.5, ""))

    assert [(each.floor.scenario, each.text) for each in verdicts(run)] == [
        ("validate, cold, 10,000 manifests", "BELOW THE FLOOR"),
        ("apply, 10,000 creates", "above the floor"),
    ]
    assert "| apply, 10,000 creates | objects a second | 334 |" in report.pages(run)["figures.md"]
    stored = results.load(report.STORED.read_bytes())
    assert len([each for each in verdicts(stored) if each.floor.of == "objects"]) == 5


def test_where_many_requests_failed_nothing_has_a_verdict() -> None:
    """One in a hundred may fail; beyond that neither rates nor latencies are of what was asked for."""
    peak = replace(STEP, rate=20_000.0, answered=990, errors={"429": 10})
    refused = replace(peak, share=results.SHARES[0], answered=989, errors={"429": 11})
    told = [
        verdicts(run_with(Scenario(METADATA, "", [each])))[0].text
        for each in (peak, replace(refused, share=results.PEAK))
    ]
    assert told == ["reaches the aim", "not told: more than 1% of the requests failed"]

    page = report.pages(run_with(Scenario(METADATA, "", [peak, refused])))["figures.md"]
    rows = [line for line in page.splitlines() if "429" in line]
    assert rows[0].endswith("| 5 | 9 | 9.9 | 9.99 | 10 | 10 × 429 |")
    assert rows[1].endswith("|  |  |  |  |  | 11 × 429: no verdict |")


def test_a_run_is_read_as_it_was_written() -> None:
    """So a page that is made again later is the page of that run."""
    run = run_with(scenario(EMPTY, 10_000), scenario(WARM, 5_000))
    run.rows.append(Measured("list", 100.0, 0.02, "p50 1 ms"))
    run.facts["scale"] = {"users": "1,000,000"}
    run.failed["growth"] = "RuntimeError: too slow"

    assert results.load(run.dump()) == run
    page = report.pages(run)["figures.md"]
    assert "| growth | RuntimeError: too slow |" in page
    assert "| users | 1,000,000 |" in page


def test_plots_are_pictures_with_words_for_each_scenario() -> None:
    """Well-formed, also without any scenario; and a name of what is measured is text, not markup."""
    for run in (run_with(scenario("a <b> & c", 5_000), scenario(WARM, 10)), run_with()):
        for name, text in report.pages(run).items():
            if name.endswith(".svg"):
                words = [each.text for each in ET.fromstring(text).iter() if each.text]
                assert ("a <b> & c" in words) is bool(run.scenarios)


def test_the_page_of_the_documentation_is_that_of_the_stored_run() -> None:
    """`python -m benchmarks.report` writes exactly what is there."""
    stored = results.load(report.STORED.read_bytes())

    assert {name: (report.DOCS / name).read_text("utf-8") for name in report.pages(stored)} == report.pages(
        stored
    )
    assert json.loads(report.STORED.read_bytes())["format"] == results.FORMAT
    assert stored.scenarios
    assert (report.DOCS / "figures").is_dir()


def test_a_part_that_fails_keeps_none_from_running() -> None:
    """The run has what it failed with, and what it had measured until then."""
    run = run_with()

    def failing() -> Iterator[Row | Facts]:
        yield Row("one", 10.0, 100.0, "")
        raise RuntimeError("below the floor")

    def facts() -> Iterator[Row | Facts]:
        yield Facts("scale", {"users": "7"})

    bench.measure_part(run, "growth", failing, 0.0)
    bench.measure_part(run, "scale", facts, 0.0)

    assert run.failed == {"growth": "RuntimeError: below the floor"}
    assert run.parts == ["figures", "scale"]
    assert [(each.what, each.ratio) for each in run.rows] == [("one", 0.1)]
    assert run.facts == {"scale": {"users": "7"}}

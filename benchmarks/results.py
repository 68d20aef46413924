"""What a run has measured, as values that are written as JSON and read again, and what follows from them."""

import platform
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from os import sched_getaffinity
from pathlib import Path
from typing import Any

import orjson

from benchmarks.cores import SATURATED, are_crowded
from benchmarks.floors import FLOORS, Floor

FORMAT = 1
PEAK = 0.0  # the share of a step whose rate is whatever the server takes
SHARES = (0.5, 0.7, 0.9)  # of the peak rate that are offered by schedule
_REFUSED = 0.01  # of what was sent: what is refused more often is not what was meant to be measured


@dataclass(frozen=True)
class Step:
    """One load of one scenario. What is of the server is None where it does not say.

    Attributes:
        share: of the peak rate that was offered; `PEAK` for the closed loop that finds it.
        offered, rate: requests a second: sent by schedule, and answered with success.
        errors: kind -> how many.
        answered: how many requests had success; 0 in runs that did not count them.
        percentiles: percentile -> milliseconds; of an open loop from when a request was due.
        server_us: for how long a request kept a core busy in the server, in microseconds.
        server_core, generator_core: share of a core that the server and the load generator had.
        machine: share of all cores that was busy, whoever with.
        statements, trips: to the database and to Redis, for each request, background work included.
        pool_ms, redis_ms: time that requests and background work waited, for each request.
        loop_lag_ms: how late the server was for what was due, on average.
    """

    share: float
    offered: float
    rate: float
    errors: dict[str, int]
    percentiles: dict[str, float]
    generator_core: float
    answered: int = 0
    machine: float | None = None
    server_us: float | None = None
    server_core: float | None = None
    statements: float | None = None
    trips: float | None = None
    pool_ms: float | None = None
    redis_ms: float | None = None
    loop_lag_ms: float | None = None

    @property
    def failed(self) -> float:
        """The share of errors."""
        errors = sum(self.errors.values())
        return errors / (self.answered + errors) if errors else 0.0

    @property
    def is_refused(self) -> bool:
        """Tell whether so much failed that rate and latencies are of something else than was asked for."""
        return self.failed > _REFUSED


@dataclass(frozen=True)
class Scenario:
    """What is asked of a server, and how it stood each load.

    Attributes:
        in_turns: scenario -> the share of its rate that this one reached where the two took turns.
    """

    name: str
    storage: str
    steps: list[Step]
    in_turns: dict[str, float] = field(default_factory=dict)

    @property
    def peak(self) -> Step:
        return self.steps[0]

    def at(self, share: float) -> Step | None:
        """The step at that share of the peak."""
        return next((each for each in self.steps if each.share == share), None)


@dataclass(frozen=True)
class Measured:
    """A row of one of the other parts: see `benchmarks.table.Row`."""

    what: str
    rate: float
    ratio: float
    note: str
    share: float | None = None
    was_crowded: bool = False


@dataclass(frozen=True)
class Facts:
    """What a part has found besides rates: name -> value."""

    part: str
    told: dict[str, str]


@dataclass
class Results:
    """A run.

    Attributes:
        failed: part -> what it failed with; one below a floor is among them.
        facts: part -> what it found besides, by name.
    """

    measured_at: str
    machine: dict[str, str]
    parts: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    rows: list[Measured] = field(default_factory=list)
    scenarios: list[Scenario] = field(default_factory=list)
    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: float = 0.0
    format: int = FORMAT

    def scenario(self, name: str) -> Scenario | None:
        """The one of that name."""
        return next((each for each in self.scenarios if each.name == name), None)

    def row(self, what: str) -> Measured | None:
        """The row of that name."""
        return next((each for each in self.rows if each.what == what), None)

    def dump(self) -> bytes:
        """As JSON."""
        options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        return orjson.dumps(_rounded(asdict(self)), option=options)


def load(written: bytes) -> Results:
    """What `dump` has written."""
    told: dict[str, Any] = orjson.loads(written)
    scenarios = [
        Scenario(**each | {"steps": [Step(**step) for step in each["steps"]]})
        for each in told.pop("scenarios")
    ]
    return Results(**told | {"scenarios": scenarios, "rows": [Measured(**each) for each in told["rows"]]})


def _rounded(value: Any) -> Any:
    """Four digits are more than any of it means."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def begun() -> Results:
    """An empty run on this machine."""
    return Results(datetime.now(UTC).isoformat(timespec="minutes"), machine())


def machine() -> dict[str, str]:
    """What the figures depend on besides the program."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text("utf-8").splitlines() if told.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = Path("/proc/meminfo")
    kib = int(memory.read_text("ascii").split()[1]) if memory.exists() else 0
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": str(len(sched_getaffinity(0))),
        "memory": f"{kib / 2**20:.0f} GiB" if kib else "unknown",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "zoned": version("zonewright"),
        "node": _answer("node", "--version"),
    }


def _answer(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "none"


def bottleneck(step: Step) -> str:
    """What keeps a load from being answered faster, in words: the part that is busy, or is waited for."""
    if is_crowded(step):
        return f"the machine ({step.machine:.0%} of its cores busy): more runs on it than is measured"
    median = step.percentiles.get("50", 0.0)
    if step.server_core is not None and step.server_core >= SATURATED:
        return f"the server's core ({step.server_core:.0%} busy)"
    if step.generator_core >= SATURATED:
        return f"the load generator ({step.generator_core:.0%} of a core): the server may take more"
    waits = {"a database connection": step.pool_ms or 0.0, "Redis": step.redis_ms or 0.0}
    longest = max(waits, key=lambda name: waits[name])
    if median and waits[longest] >= median / 2:
        return f"waits for {longest} ({waits[longest]:.1f} ms a request)"
    if step.server_core is None:
        return "not known: the server does not say how busy it is"
    return f"none of what is measured: the server's core is {step.server_core:.0%} busy"


@dataclass(frozen=True)
class Verdict:
    """Whether a scenario reaches what it has to.

    Attributes:
        was_crowded: something else had the machine, so that a value below the floor says nothing.
        was_refused: too many requests failed, so that no value says anything.
    """

    floor: Floor
    value: float
    was_crowded: bool = False
    was_refused: bool = False

    @property
    def is_met(self) -> bool:
        return self.value >= self.floor.floor

    @property
    def text(self) -> str:
        if self.was_refused:
            return f"not told: more than {_REFUSED:.0%} of the requests failed"
        if not self.is_met and self.was_crowded:
            return "not told: something else had the machine"
        if not self.is_met:
            return "BELOW THE FLOOR"
        return "reaches the aim" if self.value >= self.floor.aim else "above the floor"


def verdicts(results: Results) -> list[Verdict]:
    """For each floor of what was measured, in their order."""
    found = []
    for floor in FLOORS:
        row = results.row(floor.scenario)
        if row is not None and row.share is not None:
            found.append(Verdict(floor, row.share, row.was_crowded))
        elif row is not None and floor.of != "requests":
            found.append(Verdict(floor, row.rate, row.was_crowded))
        scenario = results.scenario(floor.scenario)
        beside = results.scenario(floor.beside) if floor.beside else None
        if scenario is None or (floor.beside and beside is None):
            continue
        peaks = [each.peak for each in (scenario, beside) if each]
        value = scenario.in_turns.get(floor.beside)
        if value is None:
            value = scenario.peak.rate / (beside.peak.rate if beside else 1.0)
        was_refused = any(each.is_refused for each in peaks)
        found.append(Verdict(floor, value, is_crowded(scenario.peak), was_refused))
    return found


def is_crowded(step: Step) -> bool:
    """Tell whether the server did not get its core, since all of them were busy."""
    return are_crowded(step.server_core, step.machine)

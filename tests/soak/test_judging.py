"""The judgement of a soak: answers that count as the same, and those that do not."""

import os
import random
import subprocess
import sys

import pytest
from acme import Server, Unexpected
from jwt import InvalidTokenError
from tests.soak.judging import alike, levels_off, noise_of_difference, quarter
from tests.soak.people import Withdrawn, attempt
from tests.soak.record import PROMISES, Record
from tests.soak.vitals import Vitals


def samples(middle: float, *, seed: int, count: int = 2_000) -> list[float]:
    """Times as they are measured: a floor, a tail, and a few of them ten times as long."""
    chance = random.Random(seed)
    return [
        middle * chance.lognormvariate(0, 0.3) * (10 if chance.random() < 0.01 else 1) for _ in range(count)
    ]


def test_samples_of_one_thing_are_alike() -> None:
    """However often it is done: the noise is that of the medians, with outliers left out."""
    pairs = [(samples(1.0, seed=seed), samples(1.0, seed=-seed - 1)) for seed in range(20)]

    assert all(alike(first, second) for first, second in pairs)
    assert all(noise_of_difference(first, second) < 0.08 for first, second in pairs)


def test_a_difference_is_seen() -> None:
    """A tenth more is told apart with 2,000 samples, in either order, and not with 20."""
    usual, longer = samples(1.0, seed=1), samples(1.1, seed=2)

    assert not alike(usual, longer)
    assert not alike(longer, usual)
    assert alike(usual[:20], longer[:20])


def test_what_nobody_can_use_is_no_difference() -> None:
    """Without any noise, a twentieth of the median is still let pass, and no more."""
    assert alike([1.0] * 100, [1.04] * 100)
    assert not alike([1.0] * 100, [1.06] * 100)


@pytest.mark.parametrize(
    ("series", "levels"),
    [
        ([1.0] * 40, True),
        ([*range(10), *[10] * 30], True),  # it grows at the beginning
        (list(range(100, 140)), False),
        ([100] * 20 + [100, 900] + [100] * 18, True),  # one outlier
        ([100] * 30 + [108] * 10, True),  # within a tenth
        ([100] * 30 + [112] * 10, False),
        (list(range(40, 0, -1)), True),
    ],
)
def test_growth_that_levels_off_is_told_by_quarters(series: list[float], levels: bool) -> None:
    """The last quarter against the second one."""
    assert levels_off(series, share=0.1) is levels


def test_a_median_is_of_its_own_quarter() -> None:
    """Medians, each of its own quarter; three samples have none."""
    assert [quarter(range(8), number) for number in (1, 2, 3, 4)] == [0.5, 2.5, 4.5, 6.5]
    assert levels_off([1, 2, 3, 4], by=2)
    assert not levels_off([1, 2, 3, 4], by=1)
    with pytest.raises(ValueError, match="four"):
        quarter([1, 2, 3], 1)


def test_a_record_tells_what_was_broken() -> None:
    """A promise holds until something breaks it; what the service itself failed at is no refusal."""

    def fails_with(failure: Exception) -> None:
        def work() -> None:
            raise failure

        attempt(record, work)

    record = Record()
    assert not record.statements()[0].holds  # nothing was done
    attempt(record, lambda: record.done("rounds"))
    fails_with(Withdrawn())
    assert all(statement.holds for statement in record.statements())
    fails_with(Unexpected("POST http://x/y: 503\naway"))
    assert [s.seen for s in record.statements() if not s.holds] == ["1 times not: POST http://x/y: 503\naway"]
    fails_with(Unexpected("400 invalid_grant"))
    fails_with(ConnectionResetError())
    fails_with(InvalidTokenError())
    broken = [statement.what for statement in record.statements() if not statement.holds]
    assert broken == [PROMISES[name] for name in ("error", "refused", "unverified")]


def test_vitals_are_those_of_the_whole_group(tmp_path) -> None:
    """A process group's time, memory and files, its children's among them."""
    busy = "import time\nblock = bytearray(b'x') * 30_000_000\nend = time.process_time() + 0.1\n"
    busy += "while time.process_time() < end: pass\nprint(flush=True)\ninput()"
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])"
    server = Server(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", parent],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as server.process:
        assert server.process.stdout is not None
        server.process.stdout.readline()
        vitals = Vitals(server)
        assert vitals.cpu_seconds() >= 0.1
        assert vitals.resident_bytes() > 30_000_000
        assert vitals.open_files() >= 6
        server.process.communicate(b"\n")
    assert vitals.resident_bytes() == 0
    assert os.getpgid(0) != server.process.pid

"""The benchmark at scale: what is a failure, and what a crowded machine leaves open."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from benchmarks import scale  # noqa: E402
from benchmarks.load import Outcome  # noqa: E402
from benchmarks.turns import Turn  # noqa: E402


def turns(*milliseconds: float, busy_us: float = 100.0, was_crowded: bool = False) -> list[Turn]:
    return [
        Turn(Outcome(1_000, 1_000, 1.0, 0, "", p50_ms=each, p99_ms=each), busy_us, was_crowded)
        for each in milliseconds
    ]


def test_rounds_are_compared_with_their_own() -> None:
    """So a machine that becomes slower in the middle changes nothing."""
    rounds = {"filled": turns(1.05, 2.1, 4.2, busy_us=105.0), "empty": turns(1.0, 2.0, 4.0)}

    assert [round(each.value, 3) for each in scale.compared("warm", rounds)] == [1.05, 1.05]


@pytest.mark.parametrize(
    ("milliseconds", "was_crowded", "told"),
    [
        (1.1, False, "1.10 (at most 1.1)"),
        (1.2, False, "1.20 (at most 1.1), ABOVE THE BOUND"),
        (1.2, True, "1.20 (at most 1.1), not told: something else had the machine"),
    ],
)
def test_above_the_bound_is_a_failure_unless_something_else_had_the_machine(
    milliseconds: float, was_crowded: bool, told: str
) -> None:
    """At the bound it has met it."""
    rounds = {"filled": turns(milliseconds, was_crowded=was_crowded), "empty": turns(1.0)}
    longer = scale.compared("cold", rounds)[0]

    assert longer.text == told
    assert longer.is_above is ("ABOVE" in told)


def test_the_environment_makes_it_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not name, or leaves empty, is the whole."""
    monkeypatch.setenv("ZONES", "20")
    monkeypatch.setenv("USERS", "")

    assert scale.Size() == scale.Size(zones=20, users=scale.USERS)

"""The judgement of a scenario: what counts as lost, used twice, wrongly allowed, and as a gap."""

import pytest
from tests.chaos.ledger import Answer, Bound, Ledger, judged, longest_gap, percentile

TIMES = {"struck_at": 10.0, "mended_at": 20.0, "ended_at": 30.0}


def answer(due_at: float, *, seconds: float = 0.1, status: int = 200, kind: str = "exchange") -> Answer:
    return Answer(kind, due_at, due_at + seconds, status)


def test_a_scenario_in_which_nothing_happened() -> None:
    """It holds, and its figures are those of the time between stroke and mending."""
    ledger = Ledger([answer(5, seconds=9), *(answer(10 + number / 2) for number in range(40))])

    result = judged("calm", ledger, measured="exchange", **TIMES)

    assert result.holds
    assert (result.requests, result.errors) == (41, 0)
    assert result.p99_ms == pytest.approx(100)
    assert result.longest_gap == pytest.approx(0.5)


@pytest.mark.parametrize("status", [0, 502, 503])
def test_errors_are_counted_and_leave_a_gap(status: int) -> None:
    """No answer is one, too."""
    ledger = Ledger([answer(11), answer(14, status=status), answer(19), answer(25, status=status)])

    result = judged("trouble", ledger, measured="exchange", **TIMES)

    assert result.errors == 2
    assert result.longest_gap == pytest.approx(30 - 19.1)
    assert result.holds


def test_an_error_of_the_server_is_a_defect() -> None:
    """Of any request: what a server cannot do now is answered 503."""
    ledger = Ledger([answer(11), answer(14, status=500, kind="sign-in"), answer(19)])

    result = judged("defect", ledger, measured="exchange", **TIMES)

    assert result.broken == 1
    assert not result.holds


@pytest.mark.parametrize(
    ("bound", "holds"),
    [(None, True), (Bound(5.1, 200), True), (Bound(4.9, 200), False), (Bound(5.1, 50), False)],
)
def test_what_a_scenario_may_cost(bound: Bound | None, holds: bool) -> None:
    """Neither the longest gap nor the latency is above its bound, where there is one."""
    ledger = Ledger([answer(10 + 5 * number) for number in range(4)])

    assert judged("slow", ledger, measured="exchange", bound=bound, **TIMES).holds is holds


@pytest.mark.parametrize("found", [[], ["another"], ["id", "another"]])
def test_what_was_acknowledged_is_there_once(found: list[str]) -> None:
    """It is lost when it is not there, and when it is there twice."""
    ledger = Ledger(created={"kept": "1", "name": "id"}, found={"kept": ["1"], "name": found})

    assert ledger.lost == ["name"]
    assert not judged("loss", ledger, measured="exchange", **TIMES).holds
    ledger.found["name"] = ["id"]
    assert ledger.lost == []


def test_what_was_accepted_twice() -> None:
    """Once is what it is for; a refusal counts nothing."""
    ledger = Ledger()
    ledger.accepted["once"] += True
    ledger.accepted["twice"] += True
    ledger.accepted["never"] += False
    assert judged("replay", ledger, measured="exchange", **TIMES).holds

    ledger.accepted["twice"] += True

    assert ledger.used_twice == ["twice"]
    assert not judged("replay", ledger, measured="exchange", **TIMES).holds


@pytest.mark.parametrize(("asked_at", "must_be_refused"), [(99.0, False), (100.9, False), (101.1, True)])
def test_a_revocation_has_a_second(asked_at: float, must_be_refused: bool) -> None:
    """From its answer on; what was not revoked may be allowed for ever."""
    ledger = Ledger(revoked={"token": 100.0})

    assert ledger.is_past_grace("token", asked_at) is must_be_refused
    assert not ledger.is_past_grace("another", asked_at)


def test_percentiles_and_gaps() -> None:
    """Of nothing, and of a few."""
    assert percentile([], 99) == 0
    assert percentile([1.0, 2.0, 3.0, 4.0], 50) == 2
    assert percentile([1.0, 2.0, 3.0, 4.0], 99) == 4
    assert longest_gap([], began_at=3, ended_at=5) == 2
    assert longest_gap([4.5, 9.0], began_at=3, ended_at=5) == 1.5

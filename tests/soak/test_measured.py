"""The judgement of a measured load: rates that are kept, errors, and waits that are as long as before."""

from collections.abc import Sequence

from benchmarks.load import Outcome
from tests.soak.judging import Statement
from tests.soak.measured import Series, statements


def outcome(
    *, rate: float = 70.0, late: float = 0.0, p99_ms: float = 10.0, errors: dict[str, int] | None = None
) -> Outcome:
    """Of ten seconds, and until the last answer."""
    errors = errors or {}
    return Outcome(
        answered=int(10 * rate),
        sent=int(10 * rate) + sum(errors.values()),
        seconds=10.0 + late,
        refused=sum(errors.values()),
        sample="503 away" if errors else "",
        p50_ms=p99_ms / 2,
        p99_ms=p99_ms,
        errors=errors,
    )


def judged(stretches: Sequence[Outcome], *, peak: Outcome | None = None) -> list[Statement]:
    """What is said of two kinds of request, when these are the stretches of the second."""
    usual, peak = [outcome()] * len(stretches), peak or outcome(rate=100)
    series = {"keys": Series(peak, 70.0, usual), "list": Series(peak, 70.0, [*stretches])}
    return list(statements(series, 0.9))


def broken(stretches: Sequence[Outcome], *, peak: Outcome | None = None) -> list[Statement]:
    """The statements that do not hold."""
    return [statement for statement in judged(stretches, peak=peak) if not statement.holds]


def test_a_load_that_is_answered_is_told_with_its_rates() -> None:
    """Peak, what was offered, and how long callers waited: of everything together and of each kind."""
    _, together, keys, *_ = said = judged([outcome()] * 8)

    assert all(statement.holds for statement in said)
    assert together.seen == "peak 200/s with 0.9 cores of the server busy, offered 140/s"
    assert keys.seen == "peak 100/s, offered 70/s, 100.0% at least; p50 5.0 ms, p99 10.0 ms"


def test_a_rate_has_to_be_kept_in_each_stretch() -> None:
    """A second for the last answers and one per cent are let pass; more is not, in one stretch either."""
    assert not broken([*[outcome()] * 7, outcome(late=1.1)])

    (late,) = broken([*[outcome()] * 7, outcome(late=1.2)])

    assert late.what.startswith("list:")
    assert "98.0% at least" in late.seen


def test_errors_are_told_by_kind_and_status() -> None:
    """Those of all stretches together, with one of the answers."""
    (errors,) = broken([*[outcome()] * 4, *[outcome(errors={"503": 2, "no answer": 1})] * 2])

    assert errors.seen == "list: 4 x 503, 2 x no answer, one of them 503 away"


def test_errors_at_the_peak_count() -> None:
    """A server that is as busy as it can be makes no mistakes either."""
    (errors,) = broken([outcome()] * 4, peak=outcome(rate=100, errors={"500": 1}))

    assert errors.seen.startswith("keys: 1 x 500")


def test_waits_may_not_double_and_more() -> None:
    """The last quarter against the second one; what is within neighbours' noise is let pass."""
    assert not broken([outcome(p99_ms=each) for each in (900, 900, 100, 100, 200, 200, 249, 249)])

    (waits,) = broken([outcome(p99_ms=each) for each in (100, 100, 100, 100, 200, 200, 251, 251)])

    assert "list 100, then 251 ms" in waits.seen


def test_without_stretches_nothing_is_measured() -> None:
    """Less than a stretch for each quarter says nothing, and no answer at all is no load without errors."""
    assert [statement.holds for statement in judged([outcome()] * 3)] == [True, False]
    assert [statement.holds for statement in statements({}, 0.0)] == [False, False]

"""The ledger of a scenario: each answer with its times, what was acknowledged, what must not happen again.

Pure, so that its judgement can be tested without a server.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil

GRACE_SECONDS = 1.0  # after the answer to a revocation, what it ended may still be allowed


@dataclass(frozen=True)
class Answer:
    """One request.

    Attributes:
        kind: what was asked for.
        due_at: when it was to be sent; seconds on the monotonic clock. Waiting for a free sender counts.
        status: of the answer; 0 when none came.
    """

    kind: str
    due_at: float
    ended_at: float
    status: int
    told: str = ""

    @property
    def is_error(self) -> bool:
        """Whether the server, or nobody, answered for the server."""
        return self.status == 0 or self.status >= 500

    @property
    def seconds(self) -> float:
        return self.ended_at - self.due_at


@dataclass
class Ledger:
    """What is written down while a scenario runs.

    Attributes:
        created: acknowledged identifiers -> ids.
        found: identifier -> the ids that the database has under it in the end.
        revoked: token -> when its revocation was acknowledged.
        accepted: of each thing that may be used once, how often it was accepted.
        wrong: what was allowed though it must not be, in words.
        issued: access tokens that exchanges were answered with.
    """

    answers: list[Answer] = field(default_factory=list)
    created: dict[str, str] = field(default_factory=dict)
    found: dict[str, list[str]] = field(default_factory=dict)
    revoked: dict[str, float] = field(default_factory=dict)
    accepted: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    issued: set[str] = field(default_factory=set)

    def is_past_grace(self, token: str, asked_at: float) -> bool:
        """Whether a token must be refused by whoever is asked at that time."""
        return asked_at > self.revoked.get(token, asked_at) + GRACE_SECONDS

    @property
    def broken(self) -> int:
        """Answers that tell of a defect: what is away is answered 503, whoever finds it out."""
        return sum(each.status == 500 for each in self.answers)

    @property
    def lost(self) -> list[str]:
        """What was acknowledged and is not there in the end, or is there twice."""
        return sorted(name for name, made in self.created.items() if self.found.get(name) != [made])

    @property
    def used_twice(self) -> list[str]:
        """What may be used once and was accepted more often."""
        return sorted(name for name, times in self.accepted.items() if times > 1)


@dataclass(frozen=True)
class Bound:
    """The most that a scenario may cost those who exchange tokens.

    Attributes:
        longest_gap: seconds in which no request was answered well.
    """

    longest_gap: float
    p99_ms: float


@dataclass(frozen=True)
class Result:
    """A row of the report.

    Attributes:
        bound: what it may cost; None where nothing is promised.
    """

    scenario: str
    requests: int
    errors: int
    longest_gap: float
    p50_ms: float
    p99_ms: float
    wrongly_allowed: int
    lost: int
    used_twice: int
    broken: int = 0
    samples: tuple[str, ...] = ()
    bound: Bound | None = None

    @property
    def is_in_time(self) -> bool:
        """Whether it cost no more than it may."""
        return self.bound is None or (
            self.longest_gap <= self.bound.longest_gap and self.p99_ms <= self.bound.p99_ms
        )

    @property
    def holds(self) -> bool:
        """Whether nothing happened that never may, and it cost no more than it may."""
        return self.is_in_time and not (self.wrongly_allowed or self.lost or self.used_twice or self.broken)


def judged(
    scenario: str,
    ledger: Ledger,
    *,
    measured: str,
    struck_at: float,
    mended_at: float,
    ended_at: float,
    bound: Bound | None = None,
) -> Result:
    """The row of a scenario.

    Args:
        bound: what it may cost.
        measured: the kind of request whose latency and gaps are told.
        struck_at, mended_at: between these, times of answers are measured; on the monotonic clock.
        ended_at: of the load.
    """
    seconds = sorted(
        each.seconds
        for each in ledger.answers
        if each.kind == measured and struck_at <= each.due_at <= mended_at
    )
    good = [each.ended_at for each in ledger.answers if each.kind == measured and not each.is_error]
    errors = [each for each in ledger.answers if each.is_error]
    told = Counter(f"{each.kind}: {each.status or ''} {each.told}".strip() for each in errors)
    samples = [f"{times} x {what}" for what, times in told.most_common(8)]
    samples += [f"WRONG {each}" for each in ledger.wrong[:3]]
    samples += [f"LOST {each}" for each in ledger.lost[:3]]
    samples += [f"TWICE {each}" for each in ledger.used_twice[:3]]
    return Result(
        scenario,
        len(ledger.answers),
        len(errors),
        longest_gap(good, began_at=struck_at, ended_at=ended_at),
        1000 * percentile(seconds, 50),
        1000 * percentile(seconds, 99),
        len(ledger.wrong),
        len(ledger.lost),
        len(ledger.used_twice),
        ledger.broken,
        tuple(samples),
        bound,
    )


def longest_gap(good: Iterable[float], *, began_at: float, ended_at: float) -> float:
    """The longest time in which no request was answered well; seconds."""
    times = [began_at, *sorted(each for each in good if began_at < each < ended_at), ended_at]
    return max(after - before for before, after in pairwise(times))


def percentile(ordered: list[float], percent: int) -> float:
    """The value that so many percent do not exceed; 0 of nothing."""
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)] if ordered else 0.0

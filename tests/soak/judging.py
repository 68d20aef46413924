"""When a figure counts as good: pure functions over samples, so that they can be tested without a server."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

# A difference that is smaller than this part of the median tells nobody anything across a network.
_NEGLIGIBLE = 1 / 20
# The standard error of a median, in interquartile ranges: 1.253 / 1.349, over the root of the sample's size.
_OF_MEDIAN = 0.929
_ERRORS = 3


@dataclass(frozen=True)
class Statement:
    """One sentence about the service, what was seen of it, and whether it is true."""

    what: str
    seen: str
    holds: bool


def counted(statuses: Counter[int] | Counter[str]) -> str:
    """How often each status came, as in `9,980 x 429, 20 x 401`."""
    return ", ".join(f"{count:,} x {status}" for status, count in statuses.most_common())


def noise_of_difference(first: Sequence[float], second: Sequence[float]) -> float:
    """How far apart the medians of two samples may lie without meaning anything; in the unit of the samples.

    The larger of three standard errors of their difference, each error from the sample's own interquartile
    range, which outliers do not move; and of a twentieth of the larger median.
    """
    errors = (_OF_MEDIAN * _spread(sample) / math.sqrt(len(sample)) for sample in (first, second))
    return max(_ERRORS * math.hypot(*errors), _NEGLIGIBLE * max(median(first), median(second)))


def alike(first: Sequence[float], second: Sequence[float]) -> bool:
    """Tell whether the medians of two samples differ by less than their noise."""
    return abs(median(first) - median(second)) < noise_of_difference(first, second)


def levels_off(samples: Sequence[float], *, share: float = 0.0, by: float = 0.0) -> bool:
    """Tell whether the last quarter of a series lies no higher than its second one.

    The first quarter is when caches fill and connections open, so it is left out.

    Args:
        share, by: how much higher it may be, as a part of what it was and besides.
    """
    before, after = quarter(samples, 2), quarter(samples, 4)
    return after <= before * (1 + share) + by


def quarter(samples: Sequence[float], number: int) -> float:
    """The median of a quarter of a series, 1 to 4. Raises ValueError for fewer than four samples."""
    if len(samples) < 4:
        raise ValueError("a series needs four samples at least")
    return median(samples[(number - 1) * len(samples) // 4 : number * len(samples) // 4])


def _spread(sample: Sequence[float]) -> float:
    lower, _, upper = quantiles(sample, n=4)
    return upper - lower

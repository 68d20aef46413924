"""Long lists in statements: drivers limit how many values one statement takes."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

BATCH = 500

T = TypeVar("T")


def batches(values: Sequence[T]) -> Iterable[Sequence[T]]:
    """The values in order, at most `BATCH` of them at a time."""
    return (values[start : start + BATCH] for start in range(0, len(values), BATCH))

"""The delete budget: how many objects of a kind a plan may delete or replace without consent."""

import re
from collections.abc import Mapping

SMALLEST = 5
PERCENT = 10
ZONE = "Zone"
_SHARE = re.compile(r"(100|[1-9]?[0-9])%")


def delete_budget(kind: str, owned: int, given: Mapping[str, int | str]) -> int:
    """The largest number of objects of a kind that may be deleted or replaced without consent.

    Args:
        owned: how many of them the configuration manages now.
        given: kind -> a number, or a share of *owned* as in `10%`. Without one it is five, or a tenth.
    """
    if kind == ZONE:
        return 0  # with a zone go its users and sessions, which no manifest brings back
    budget = given.get(kind)
    if budget is None:
        return max(SMALLEST, owned * PERCENT // 100)
    return budget if isinstance(budget, int) else owned * int(budget.removesuffix("%")) // 100


def is_delete_budget(value: object) -> bool:
    """Tell whether a value can be a budget."""
    if isinstance(value, str):
        return _SHARE.fullmatch(value) is not None
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0

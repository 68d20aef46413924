"""The delete budget: how many deletions of a kind a plan may have without consent."""

from typing import Any

import pytest

from reconciler.plan.delete_budget import delete_budget, is_delete_budget


@pytest.mark.parametrize(("owned", "budget"), [(0, 5), (10, 5), (59, 5), (60, 6), (1000, 100)])
def test_without_a_setting_it_is_five_or_a_tenth(owned: int, budget: int) -> None:
    """Whichever is more, of what the configuration manages of that kind."""
    assert delete_budget("Group", owned, {}) == budget


@pytest.mark.parametrize(
    ("given", "budget"), [(0, 0), (3, 3), (100, 100), ("0%", 0), ("20%", 8), ("25%", 10), ("100%", 40)]
)
def test_a_setting_is_a_number_or_a_share_of_what_is_managed(given: int | str, budget: int) -> None:
    """Of forty groups; a share is rounded down."""
    assert delete_budget("Group", 40, {"Group": given}) == budget


def test_a_setting_is_for_its_kind_alone() -> None:
    """Others keep the default."""
    assert delete_budget("Role", 10, {"Group": 9}) == 5


@pytest.mark.parametrize("given", [{}, {"Zone": 5}, {"Zone": "100%"}])
def test_a_zone_always_needs_consent(given: dict[str, int | str]) -> None:
    """With it go users and sessions, which no manifest brings back."""
    assert delete_budget("Zone", 100, given) == 0


@pytest.mark.parametrize("value", [0, 7, "0%", "9%", "10%", "100%"])
def test_what_a_setting_may_be(value: Any) -> None:
    """A number that is not negative, or a whole percentage."""
    assert is_delete_budget(value)


@pytest.mark.parametrize("value", [-1, True, 1.5, None, "", "10", "101%", "-1%", "07%", "1.5%", " 5%", []])
def test_what_a_setting_may_not_be(value: Any) -> None:
    """All else is refused where settings are read."""
    assert not is_delete_budget(value)

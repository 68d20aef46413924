"""The policy impact of a plan, written as JSON and read back."""

from typing import Any

import pytest

from reconciler.plan import MissingPolicyName, PolicySetChange, PrefixExemption, WidenedAccess

WIDENED = WidenedAccess("workforce", 'Group::"staff"', "guard", "line 2 of its text", "forbid", 1)
CHANGE = PolicySetChange("workforce", "PolicySet/main", None)
EVERY_PART = PolicySetChange(
    "workforce",
    "PolicySet/main",
    "PolicySet/other",
    forbids=("a",),
    forbids_less=("b",),
    permits=("c",),
    permits_more=("d",),
    first=("e",),
    first_ended=("f",),
    drift=True,
    forbids_again=("g",),
)


def widened(**members: Any) -> WidenedAccess:
    """A widened policy with other members."""
    told = {name: getattr(WIDENED, name) for name in WidenedAccess.__slots__}
    return WidenedAccess(**{**told, **members})


class TestWidenedAccess:
    @pytest.mark.parametrize("effect", ["forbid", "permit"])
    @pytest.mark.parametrize(("sense", "how"), [(1, ""), (0, " if"), (-1, " unless")])
    def test_the_rule_says_how_the_policy_goes_by_the_name(self, effect: str, sense: int, how: str) -> None:
        """For the name, against it, or one cannot tell."""
        assert widened(effect=effect, sense=sense).rule == effect + how

    @pytest.mark.parametrize("effect", ["forbid", "permit"])
    @pytest.mark.parametrize("sense", [1, 0, -1])
    @pytest.mark.parametrize(
        "members",
        [
            {},
            {"loses": ("ann@x.example",), "empty": True},
            {"gains": ("ann@x.example", "bob@x.example")},
            {"gone": True, "now": "crew"},
        ],
        ids=str,
    )
    def test_is_read_as_it_was_written(self, effect: str, sense: int, members: dict[str, Any]) -> None:
        """A saved plan says all of it."""
        found = widened(effect=effect, sense=sense, **members)
        assert WidenedAccess.read(found.as_json()) == found

    def test_what_does_not_apply_is_left_out(self) -> None:
        """The JSON has what a reader needs and no empty members."""
        assert WIDENED.as_json().keys() == {"zone", "name", "policy", "place", "rule"}


class TestPolicySetChange:
    @pytest.mark.parametrize("found", [CHANGE, EVERY_PART], ids=["few members", "every member"])
    def test_is_read_as_it_was_written(self, found: PolicySetChange) -> None:
        """A saved plan says all of it."""
        assert PolicySetChange.read(found.as_json()) == found

    def test_every_member_is_in_the_json(self) -> None:
        """None is forgotten when there is one more."""
        assert EVERY_PART.as_json().keys() == set(PolicySetChange.__slots__)

    def test_what_does_not_apply_is_left_out(self) -> None:
        """That no set decides afterwards is said, though."""
        assert CHANGE.as_json() == {"zone": "workforce", "before": "PolicySet/main", "after": None}


def test_an_exemption_is_read_as_it_was_written() -> None:
    """Prefix and what stands beneath."""
    found = PrefixExemption("workforce", "https://api.example", ("Resource/books", "Resource/pay"))
    assert PrefixExemption.read(found.as_json()) == found


@pytest.mark.parametrize("managed", [True, False])
def test_a_missing_name_says_whether_git_means_it(managed: bool) -> None:
    """The hint is for people alone."""
    found = MissingPolicyName("workforce", 'User::"bobby"', "guard", "guard.cedar:1:2", managed, "; bob?")
    assert found.as_json() == {
        "zone": "workforce",
        "name": 'User::"bobby"',
        "policy": "guard",
        "place": "guard.cedar:1:2",
        **({"managed": True} if managed else {}),
    }

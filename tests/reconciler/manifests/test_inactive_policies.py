"""Policies that no active policy set lists decide nothing, and `zonectl validate` warns of them."""

import json
from collections.abc import Callable

import pytest
from tests.reconciler.conftest import Folder, Result
from tests.reconciler.factories import manifest, zone

from reconciler.kinds import Manifest
from reconciler.manifests.inactive_policies import inactive_policies

CEDAR = "forbid(principal, action, resource);"
POLICY = manifest("Policy", "guard", cedar=CEDAR)
OTHER = manifest("PolicySet", "other", policies=["other"])
LISTED = ["guard"]


def policy_set(policies: object = LISTED, name: str = "main", **spec: object) -> Manifest:
    return manifest("PolicySet", name, policies=policies, **spec)


def kept(member: str, policies: object = LISTED, **spec: object) -> Manifest:
    """A policy set of which others set a member."""
    return manifest("PolicySet", "main", lifecycle={"ignore": [member]}, policies=policies, **spec)


RELEASED = manifest("PolicySet", "main", lifecycle={"release": True}, policies=LISTED)


def warned(*manifests: Manifest, elsewhere: tuple[str, ...] = ()) -> list[str]:
    """The names of the policies, and the warnings of them, as one text each."""
    return [f"{each.name}: {message}" for each, message in inactive_policies(manifests, elsewhere)]


class TestSilent:
    @pytest.mark.parametrize(
        "sets",
        [
            [policy_set()],
            [policy_set(active=True)],
            [policy_set(["other", "guard"])],
            [policy_set(), policy_set([], "draft", active=False)],
            [policy_set([{"external": "guard"}])],
            [policy_set([{"owner": "acme/identity", "name": "guard"}])],
            [kept("active", active=False)],
            [kept("policies", [])],
            [kept("active", active=False), policy_set([], "draft", active=False)],
            [RELEASED],
        ],
        ids=[
            "listed",
            "active is written",
            "among others",
            "an inactive set without it",
            "listed by identifier",
            "listed by owner",
            "others activate the set",
            "others list policies",
            "others activate one of two",
            "the set is released",
        ],
    )
    def test_a_policy_of_a_set_that_may_be_active(self, sets: list[Manifest]) -> None:
        """It decides, or it may."""
        assert warned(zone(), POLICY, *sets) == []

    @pytest.mark.parametrize("sets", [[], [policy_set(active=False)]], ids=["no set", "an inactive set"])
    def test_a_policy_in_a_zone_of_another_configuration(self, sets: list[Manifest]) -> None:
        """The active policy set is there; `plan` reads it."""
        assert warned(POLICY, *sets, elsewhere=("workforce",)) == []

    def test_a_released_policy(self) -> None:
        """Another configuration may take it."""
        assert warned(zone(), manifest("Policy", "guard", lifecycle={"release": True}, cedar=CEDAR)) == []


class TestWarned:
    @pytest.mark.parametrize(
        ("sets", "told"),
        [
            (
                [policy_set([])],
                "`main` (PolicySet.yaml:1), the active policy set of zone `workforce`",
            ),
            ([policy_set([])], "add `guard` to its `policies`"),
            (
                [policy_set([]), policy_set(name="draft", active=False)],
                "PolicySet `draft` (PolicySet.yaml:1) lists it, but is not active",
            ),
            ([kept("name", [])], "add `guard` to its `policies`"),
            ([policy_set(active=False)], "lists it, but with `active: false`: write `active: true` there"),
            ([policy_set([], active=False)], "list `guard` in a PolicySet with `active: true`"),
            ([kept("active", [], active=False)], "list `guard` in a PolicySet with `active: true`"),
            ([], "list `guard` in a PolicySet with `active: true`"),
            ([], "copies of the zone's default policies, which an active policy set replaces"),
            ([], "unless another one of zone `workforce` does, it decides nothing"),
        ],
    )
    def test_a_policy_that_no_active_set_lists(self, sets: list[Manifest], told: str) -> None:
        """With the set that should list it, or how to make one."""
        (found,) = warned(zone(), POLICY, *sets)
        assert found.startswith("guard: ")
        assert told in found

    def test_a_policy_beside_the_active_set_of_this_configuration_in_another_ones_zone(self) -> None:
        """Only one policy set of a zone is active, and this is the one."""
        assert len(warned(POLICY, policy_set([]), elsewhere=("workforce",))) == 1

    def test_a_set_of_another_zone_does_not_count(self) -> None:
        """Policy sets stay within their zone."""
        other = manifest("PolicySet", "main", "shop", policies=LISTED)
        assert len(warned(zone(), zone("shop"), POLICY, other)) == 1


MANIFESTS = """\
apiVersion: zonewright/v1
kind: Zone
metadata: {name: shop}
spec: {name: Shop}
---
apiVersion: zonewright/v1
kind: Policy
metadata: {zone: shop, name: guard}
spec: {cedar: "forbid(principal, action, resource);"}
"""
SET = """\
---
apiVersion: zonewright/v1
kind: PolicySet
metadata: {zone: shop, name: main}
spec: {policies: [guard]}
"""


class TestValidate:
    def test_prints_nothing_more_of_a_policy_that_decides(
        self, config: Folder, zonectl: Callable[..., Result]
    ) -> None:
        """Neither as text nor as JSON."""
        config.write("all.yaml", MANIFESTS + SET)
        assert zonectl("validate", config).out == "3 manifests in 1 file: valid\n"
        assert "warnings" not in json.loads(zonectl("validate", config, "--output", "json").out)

    def test_prints_the_place_and_exits_with_0(self, config: Folder, zonectl: Callable[..., Result]) -> None:
        """The manifests are valid all the same."""
        config.write("all.yaml", MANIFESTS)
        result = zonectl("validate", config)
        assert result.exit_code == 0
        assert "all.yaml:8:30: warning: no active policy set of this configuration lists" in result.out

    def test_has_it_in_json(self, config: Folder, zonectl: Callable[..., Result]) -> None:
        """With a code of its own."""
        config.write("all.yaml", MANIFESTS)
        document = json.loads(zonectl("validate", config, "--output", "json").out)
        assert document["valid"]
        assert [(each["path"], each["line"], each["code"]) for each in document["warnings"]] == [
            ("all.yaml", 8, "inactive-policy")
        ]

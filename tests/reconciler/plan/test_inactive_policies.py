"""A plan says of each policy that it writes and that no active policy set lists: it decides nothing."""

import json
from collections.abc import Callable

import pytest
from tests.reconciler.conftest import Folder, Result
from tests.reconciler.factories import OWNER, changed, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import FakeServer, World
from tests.reconciler.manifests.test_inactive_policies import MANIFESTS, SET

from reconciler.kinds import Manifest
from reconciler.plan.model import InactivePolicy
from reconciler.report.inactive_policies import inactive_policy_lines
from reconciler.terminal import plain

PERMIT = "permit(principal, action, resource);"
ALL = manifest("Policy", "all", name="All", cedar=PERMIT)
GUARD = manifest("Policy", "guard", name="Guard", cedar="forbid(principal, action, resource) when { 1 < 2 };")
OF_ALL = manifest("PolicySet", "main", name="Main", policies=["all"])
OF_BOTH = manifest("PolicySet", "main", name="Main", policies=["all", "guard"])
INACTIVE = manifest("PolicySet", "main", name="Main", policies=["all", "guard"], active=False)
PAYMENTS = "acme/payments"
ELSEWHERE = {"workforce": OWNER}


def inactive(world: World, *manifests: Manifest) -> list[tuple[str, str | None]]:
    """The inactive policies of a plan, each with the set that is active instead."""
    found = plan_for(world, [zone(), *manifests]).inactive_policies
    return [(each.policy, each.active_set) for each in found]


@pytest.fixture(params=["a new zone", "an existing zone"])
def either(request: pytest.FixtureRequest, world: World) -> World:
    """With the zone, or without it."""
    if request.param == "an existing zone":
        settle(world, [zone()])
    return world


@pytest.mark.parametrize(
    ("manifests", "expected"),
    [
        ([ALL, OF_ALL], []),
        ([ALL, GUARD, OF_BOTH], []),
        ([ALL, GUARD, OF_ALL], [("guard", "PolicySet/main")]),
        ([ALL, GUARD, INACTIVE], [("all", None), ("guard", None)]),
        ([ALL], [("all", None)]),
        ([], []),
    ],
    ids=["listed", "both are listed", "one is not", "an inactive set", "no set", "no policy"],
)
def test_a_policy_that_no_active_set_lists_is_found(
    either: World, manifests: list[Manifest], expected: list[tuple[str, str | None]]
) -> None:
    """In a zone that is created with it, and in one that is there."""
    assert inactive(either, *manifests) == expected


class TestApplied:
    def test_a_plan_without_changes_finds_none(self, world: World) -> None:
        """`validate` goes on saying it."""
        settle(world, [zone(), ALL, GUARD, OF_ALL])
        assert inactive(world, ALL, GUARD, OF_ALL) == []

    def test_a_policy_that_changes_is_found_again(self, world: World) -> None:
        """And another one is not."""
        company = [zone(), ALL, GUARD, OF_ALL]
        settle(world, company)
        assert inactive(world, *changed(company, "Policy", "guard", cedar=PERMIT)[1:]) == [
            ("guard", "PolicySet/main")
        ]

    def test_a_policy_that_is_added_to_the_set_is_not_found(self, world: World) -> None:
        """The set decides with it after the apply."""
        settle(world, [zone(), ALL, OF_ALL])
        assert inactive(world, ALL, GUARD, OF_BOTH) == []

    def test_a_set_that_the_plan_activates_counts(self, world: World) -> None:
        """Also for a policy that changes in the same plan."""
        company = [zone(), ALL, GUARD, INACTIVE]
        settle(world, company)
        rewritten = changed(company, "Policy", "guard", cedar=PERMIT)
        assert inactive(world, *changed(rewritten, "PolicySet", "main", active=True)[1:]) == []


class TestOtherOwners:
    def of_payments(self, world: World, *manifests: Manifest) -> tuple[InactivePolicy, ...]:
        """The inactive policies of a plan in a zone of another owner."""
        return plan_for(world, manifests, PAYMENTS, zones=ELSEWHERE).inactive_policies

    def test_a_policy_in_the_active_set_of_another_owner_is_not_found(self, world: World) -> None:
        """The owner of the zone lists it."""
        settle(world, [zone(), ALL, OF_ALL])
        settle(world, [GUARD], PAYMENTS, ELSEWHERE)
        theirs = manifest(
            "PolicySet", "main", name="Main", policies=["all", {"owner": PAYMENTS, "name": "guard"}]
        )
        settle(world, [zone(), ALL, theirs])

        assert self.of_payments(world, *changed([GUARD], "Policy", "guard", cedar=PERMIT)) == ()

    def test_a_policy_that_it_does_not_list_is(self, world: World) -> None:
        """With its owner, who has to list it."""
        settle(world, [zone(), ALL, OF_ALL])
        (found,) = self.of_payments(world, GUARD)
        assert (found.active_set, found.set_place, found.set_owner) == (
            f"PolicySet/main of {OWNER}",
            None,
            OWNER,
        )

    def test_nothing_is_found_where_the_active_set_is_not_shown(self, world: World) -> None:
        """A credential that may not read it."""
        settle(world, [zone(), ALL, OF_ALL])
        for each in [one for one in world.entities.values() if one["kind"] == "PolicySet"]:
            del world.entities[each["id"]]
        assert self.of_payments(world, GUARD) == ()


def text(**members: object) -> str:
    """The lines about one policy."""
    given: dict[str, object] = {"zone": "product", "policy": "guard", "place": "policies.yaml:6", **members}
    lines = inactive_policy_lines([InactivePolicy(**given)], "acme/payments")  # type: ignore[arg-type]
    return "\n".join(plain(line) for line in lines)


@pytest.mark.parametrize(
    ("members", "told"),
    [
        (
            {"active_set": "PolicySet/main", "set_place": "sets.yaml:1"},
            "the active PolicySet/main (sets.yaml:1) does not list it: add it to `policies` there",
        ),
        (
            {"active_set": "PolicySet/main of acme/identity", "set_owner": "acme/identity"},
            "let `acme/identity` add `{owner: acme/payments, name: guard}` to its `policies`",
        ),
        ({"active_set": "PolicySet/by-hand"}, "the active PolicySet/by-hand, which no configuration manages"),
        ({}, "the zone's default policies are active: list it in `policies` of a PolicySet"),
        (
            {"listed_by": ("PolicySet product/draft (sets.yaml:9)",)},
            "PolicySet product/draft (sets.yaml:9) lists it, but is not active: write `active: true` there",
        ),
    ],
    ids=["own set", "another owner's set", "nobody's set", "default policies", "an inactive set lists it"],
)
def test_the_text_says_what_to_do(members: dict[str, object], told: str) -> None:
    """By whose set is active."""
    head = "! a policy decides nothing in zone product: Policy product/guard (policies.yaml:6)"
    assert text(**members).startswith(head)
    assert told in text(**members)


def test_the_advice_is_given_once(world: World) -> None:
    """For all policies of a zone with the same cause."""
    found = plan_for(world, [zone(), ALL, GUARD]).inactive_policies
    lines = [plain(each) for each in inactive_policy_lines(found, OWNER)]
    assert [each.startswith("! a policy decides nothing") for each in lines] == [True, True, False]


@pytest.mark.parametrize("command", [("plan",), ("apply", "--yes")], ids=["plan", "apply"])
def test_a_command_prints_it(
    command: tuple[str, ...], config: Folder, server: FakeServer, zonectl: Callable[..., Result]
) -> None:
    """Of a policy without a set; with one there is no line."""
    config.write("all.yaml", MANIFESTS)
    told = zonectl(command[0], config, *command[1:]).out
    assert "! a policy decides nothing in zone shop: Policy shop/guard (" in told

    config.write("all.yaml", MANIFESTS + SET)
    assert "decides nothing" not in zonectl(command[0], config, *command[1:]).out


def test_a_plan_without_changes_prints_nothing_of_it(
    config: Folder, server: FakeServer, zonectl: Callable[..., Result]
) -> None:
    """Nor the warning of `validate`, which does not know the policy sets outside the configuration."""
    config.write("all.yaml", MANIFESTS)
    zonectl("apply", config, "--yes")
    assert zonectl("plan", config).out == "2 manifests: nothing to do\n"


def test_it_is_in_json_and_not_in_the_digest(
    config: Folder, server: FakeServer, zonectl: Callable[..., Result], world: World
) -> None:
    """Reviewers read it; the plan does the same."""
    config.write("all.yaml", MANIFESTS)
    document = json.loads(zonectl("plan", config, "--output", "json").out)
    assert document["inactive_policies"] == [
        {"policy": "Policy shop/guard", "place": "all.yaml:6", "active_set": None}
    ]
    assert "inactive_policies" not in plan_for(world, [zone(), ALL]).as_json()

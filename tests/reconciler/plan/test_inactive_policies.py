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
        ([ALL, GUARD, OF_ALL], [("guard", "PolicySet workforce/main")]),
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
    def test_a_plan_without_changes_finds_none_that_decides(self, world: World) -> None:
        """All are in the active set."""
        settle(world, [zone(), ALL, GUARD, OF_BOTH])
        assert inactive(world, ALL, GUARD, OF_BOTH) == []

    def test_a_plan_without_changes_finds_it_again(self, world: World) -> None:
        """As one that it leaves as it is: pipelines may run nothing else than `plan`."""
        settle(world, [zone(), ALL, GUARD, OF_ALL])
        plan = plan_for(world, [zone(), ALL, GUARD, OF_ALL])
        assert plan.empty
        assert [(each.policy, each.unchanged) for each in plan.inactive_policies] == [("guard", True)]

    def test_a_policy_that_changes_is_none_that_stays_as_it_is(self, world: World) -> None:
        """Beside another one that does."""
        company = [zone(), GUARD, manifest("Policy", "other", name="Other", cedar=PERMIT)]
        settle(world, company)
        plan = plan_for(world, changed(company, "Policy", "guard", cedar=PERMIT))
        assert [(each.policy, each.unchanged) for each in plan.inactive_policies] == [
            ("guard", False),
            ("other", True),
        ]

    def test_a_policy_whose_set_is_deleted_is_found(self, world: World) -> None:
        """The zone's default policies are active again."""
        settle(world, [zone(), ALL, OF_ALL])
        assert inactive(world, ALL) == [("all", None)]

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
            "PolicySet workforce/main",
            None,
            OWNER,
        )

    def test_nothing_is_found_where_the_active_set_is_not_shown(self, world: World) -> None:
        """A credential that may not read it."""
        settle(world, [zone(), ALL, OF_ALL])
        for each in [one for one in world.entities.values() if one["kind"] == "PolicySet"]:
            del world.entities[each["id"]]
        plan = plan_for(world, [GUARD], PAYMENTS, zones=ELSEWHERE)
        assert (plan.inactive_policies, plan.unseen_policy_sets) == ((), {"workforce"})

    def test_it_is_found_as_long_as_it_is_not_listed(self, world: World) -> None:
        """Also when there is nothing to do; `validate` cannot know it."""
        settle(world, [zone(), ALL, OF_ALL])
        settle(world, [GUARD], PAYMENTS, ELSEWHERE)
        plan = plan_for(world, [GUARD], PAYMENTS, zones=ELSEWHERE)
        assert (plan.empty, plan.unseen_policy_sets) == (True, frozenset())
        assert [(each.policy, each.set_owner) for each in plan.inactive_policies] == [("guard", OWNER)]


class TestListedBy:
    """An inactive set of git that lists the policy is named, however it lists it."""

    @pytest.mark.parametrize("entry", ["guard", {"external": "Guard"}])
    def test_a_name_and_an_identifier_are_the_same(self, world: World, entry: object) -> None:
        """As `validate` takes them."""
        company = [zone(), manifest("Policy", "guard", name="Guard", cedar=PERMIT)]
        settle(world, company)
        draft = manifest("PolicySet", "draft", name="Draft", policies=[entry], active=False)
        (found,) = plan_for(world, [*company, draft]).inactive_policies
        assert found.listed_by == ("PolicySet workforce/draft (PolicySet.yaml:1)",)

    def test_another_owners_policy_of_that_name_is_another_one(self, world: World) -> None:
        """A plan knows whose policies it has."""
        settle(world, [zone()])
        settle(world, [GUARD], PAYMENTS, ELSEWHERE)
        theirs = {"owner": PAYMENTS, "name": "guard"}
        draft = manifest("PolicySet", "draft", name="Draft", policies=[theirs], active=False)
        (found,) = plan_for(
            world,
            [zone(), manifest("Policy", "guard", name="Other", cedar=PERMIT), draft],
        ).inactive_policies
        assert found.listed_by == ()


def text(**members: object) -> str:
    """The lines about one policy."""
    given: dict[str, object] = {"zone": "product", "policy": "guard", "place": "policies.yaml:6", **members}
    lines = inactive_policy_lines([InactivePolicy(**given)], "acme/payments")  # type: ignore[arg-type]
    return "\n".join(plain(line) for line in lines)


@pytest.mark.parametrize(
    ("members", "told"),
    [
        (
            {"active_set": "PolicySet product/main", "set_place": "sets.yaml:1"},
            "the active PolicySet product/main (sets.yaml:1) does not list it: add it to `policies` there",
        ),
        (
            {"active_set": "PolicySet product/main", "set_owner": "acme/identity"},
            (
                "the active PolicySet product/main of acme/identity does not list it: let `acme/identity` add"
                " `{owner: acme/payments, name: guard}` to its `policies`"
            ),
        ),
        (
            {"active_set": "PolicySet product/by-hand"},
            "the active PolicySet product/by-hand, which no configuration manages",
        ),
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


def test_a_plan_without_changes_has_one_line_for_a_zone(
    config: Folder, server: FakeServer, zonectl: Callable[..., Result]
) -> None:
    """And not the warning of `validate`, which does not know the policy sets outside the configuration."""
    config.write("all.yaml", MANIFESTS + SET)
    zonectl("apply", config, "--yes")
    assert zonectl("plan", config).out == "3 manifests: nothing to do\n"

    second = MANIFESTS.partition("---")[2].replace("guard", "other")
    config.write("all.yaml", f"{MANIFESTS}---{second}")
    zonectl("apply", config, "--yes")
    planned = zonectl("plan", config)
    assert planned.exit_code == 0
    assert planned.out == (
        "! 2 policies decide nothing in zone shop: guard, other; the zone's default policies are active:"
        " list them in an active PolicySet, or delete their manifests\n"
        "3 manifests: nothing to do\n"
    )
    document = json.loads(zonectl("plan", config, "--output", "json").out)
    assert [each["unchanged"] for each in document["inactive_policies"]] == [True, True]


@pytest.mark.parametrize("is_shown", [True, False], ids=["seen", "not seen"])
def test_the_warning_of_validate_is_printed_where_the_active_set_is_not_shown(
    config: Folder, server: FakeServer, zonectl: Callable[..., Result], *, is_shown: bool
) -> None:
    """A credential that may not read policy sets: then only git is known."""
    config.write("all.yaml", MANIFESTS)
    zonectl("apply", config, "--yes")
    if not is_shown:
        for each in [one for one in server.world.entities.values() if one["kind"] == "PolicySet"]:
            del server.world.entities[each["id"]]
    told = zonectl("plan", config).out
    assert ("! 1 policy decides nothing in zone shop: guard; " in told) == is_shown
    assert ("warning: no active policy set of this configuration lists" in told) != is_shown


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


def test_json_says_what_to_do(world: World) -> None:
    """Which set is active, with its place or its owner: what the text has."""
    own = plan_for(world, [zone(), ALL, GUARD, OF_ALL]).inactive_policies[0].as_json()
    assert own == {
        "policy": "Policy workforce/guard",
        "place": "Policy.yaml:1",
        "active_set": "PolicySet workforce/main",
        "set_place": "PolicySet.yaml:1",
    }
    settle(world, [zone(), ALL, OF_ALL])
    (theirs,) = plan_for(world, [GUARD], PAYMENTS, zones=ELSEWHERE).inactive_policies
    assert theirs.as_json()["set_owner"] == OWNER
    assert "set_place" not in theirs.as_json()

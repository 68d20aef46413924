"""History does not decide, git does: whatever was applied before, the same manifests come to the same."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.reconciler.configurations import configurations
from tests.reconciler.factories import AnyWorld, changed, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import World
from tests.reconciler.real_server import RealWorld, told

from reconciler.kinds import Kinds, Manifest
from reconciler.plan import Plan
from reconciler.plan.model import ChangeState
from reconciler.plan.plan_consistency import inconsistencies

pytestmark = pytest.mark.long

# Shrinking would take minutes on a real server; what fails says which plan it was.
SOME = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def histories(before: list[list[Manifest]], wanted: list[Manifest], world: AnyWorld) -> None:
    """Apply one configuration after the other; none of them conflicts, and after each nothing is left."""
    for manifests in [*before, wanted]:
        plan = settle(world, manifests)
        assert not list(inconsistencies(plan))
        left = plan_for(world, manifests)
        assert not plan.count(ChangeState.CONFLICT), str([each.as_json() for each in plan.actions])
        assert left.empty, str([each.as_json() for each in (*left.actions, *plan.actions)])


class TestAnyHistory:
    @SOME
    @given(before=st.lists(configurations(), max_size=3), wanted=configurations())
    def test_ends_in_what_git_says(
        self, real_on_sqlite: RealWorld, kinds: Kinds, before: list[list[Manifest]], wanted: list[Manifest]
    ) -> None:
        """Any history that ends in some manifests, and those manifests alone, leave the same behind."""
        real, new = real_on_sqlite.another(tries=False), real_on_sqlite.another(tries=False)
        histories(before, wanted, real)
        histories([], wanted, new)

        assert told(real.snapshot(), kinds) == told(new.snapshot(), kinds)

    @SOME
    @given(manifests=configurations())
    def test_ends_as_the_model_of_the_server_has_it(
        self, real_on_sqlite: RealWorld, kinds: Kinds, manifests: list[Manifest]
    ) -> None:
        """The reconciler's fake and the server answer alike: records and defaults included."""
        real, model = real_on_sqlite.another(tries=False), World(kinds)
        for world in (real, model):
            settle(world, manifests)

        assert told(real.snapshot(), kinds) == told(model.snapshot(), kinds)

    @SOME
    @given(before=configurations(), after=configurations())
    def test_is_undone_by_the_inverse_edit(
        self, real_on_sqlite: RealWorld, kinds: Kinds, before: list[Manifest], after: list[Manifest]
    ) -> None:
        """An edit and its inverse restore the snapshot."""
        real = real_on_sqlite.another(tries=False)
        settle(real, before)
        snapshot = told(real.snapshot(), kinds)
        histories([after], before, real)

        assert told(real.snapshot(), kinds) == snapshot


def policies(**set_: Any) -> list[Manifest]:
    """A policy in a set."""
    return [
        zone(),
        manifest("Policy", "base", cedar="permit (principal, action, resource);"),
        manifest("PolicySet", "main", policies=["base"], **set_),
    ]


class TestBase:
    @pytest.mark.parametrize(
        ("kind", "spec"),
        [
            ("Policy", {"cedar": "permit (principal, action, resource);"}),
            ("Application", {"name": "Agent"}),
            ("ServiceAccount", {}),
        ],
    )
    def test_git_alone_makes_no_conflict(self, any_world: AnyWorld, kind: str, spec: dict[str, Any]) -> None:
        """A description that comes, goes, comes back and changes: only git has moved: no conflict."""
        plans = [
            settle(any_world, [zone(), manifest(kind, "it", **spec, **description)])
            for description in ({"description": "one"}, {}, {"description": "one"}, {"description": "two"})
        ]

        assert [plan.count(ChangeState.CONFLICT) for plan in plans] == [0, 0, 0, 0]
        assert [plan.count(ChangeState.PENDING) for plan in plans[1:]] == [1, 1, 1]
        (entity,) = (each for each in any_world.snapshot().entities if each.ownership and each.kind == kind)
        assert entity.spec["description"] == "two"

    def test_what_leaves_git_is_cleared(self, any_world: AnyWorld) -> None:
        """A description that git no longer has is gone, as if it had never been there."""
        policy = manifest("Policy", "base", cedar="permit (principal, action, resource);", description="one")
        settle(any_world, [zone(), policy])
        settle(any_world, policies())

        assert not _found(any_world, "Policy", "base").spec.get("description")

    def test_a_value_that_git_takes_over_is_its_base(self, any_world: AnyWorld) -> None:
        """What somebody has set by hand and git says too is git's from then on: a change is no conflict."""
        agent = manifest("Application", "agent", name="Agent")
        settle(any_world, [zone(), agent])
        _write_by_hand(any_world, "Application", "agent", description="by hand")

        company = [zone(), agent]
        taken = settle(any_world, changed(company, "Application", "agent", description="by hand"))
        changes = settle(any_world, changed(company, "Application", "agent", description="in git"))

        assert [change.state for change in taken.actions[0].changes] == [ChangeState.CLAIM]
        assert [change.state for change in changes.actions[0].changes] == [ChangeState.PENDING]

    def test_the_case_of_an_address_means_nothing(self, any_world: AnyWorld) -> None:
        """Addresses are kept in lower case: how git writes them is no difference."""
        staff = [zone(), manifest("Group", "staff", name="Staff", members=["A@Example.com"])]
        settle(any_world, staff)

        assert plan_for(any_world, staff).empty

    @pytest.mark.parametrize("said_before", [False, True])
    def test_an_issuer_that_git_says_does_not_follow(self, any_world: AnyWorld, said_before: bool) -> None:
        """A provider's issuer is its identifier unless git says it, also where both were the same before."""
        issuer = {"protocols": {"oauth2": {"issuer": "https://a.example"}}}
        corp = manifest("Provider", "corp", name="Corp", identifier="https://a.example")
        company = changed([zone(), corp], "Provider", "corp", **(issuer if said_before else {}))
        settle(any_world, company)
        wanted = changed(company, "Provider", "corp", identifier="https://b.example", **issuer)
        settle(any_world, wanted)

        assert plan_for(any_world, wanted).empty
        assert (
            _found(any_world, "Provider", "corp").spec["protocols"]["oauth2"]["issuer"] == "https://a.example"
        )

    def test_an_issuer_that_git_says_no_more_follows_again(self, any_world: AnyWorld) -> None:
        """Also where it was the identifier, which changes at the same time, and the object stays git's."""
        company = [zone(), manifest("Provider", "corp", name="Corp", identifier="https://a.example")]
        issuer = {"oauth2": {"issuer": "https://a.example"}}
        settle(any_world, changed(company, "Provider", "corp", protocols=issuer))
        wanted = changed(
            company, "Provider", "corp", identifier="https://b.example", protocols={"oauth2": {}}
        )
        settle(any_world, wanted)

        assert plan_for(any_world, wanted).empty
        assert (
            _found(any_world, "Provider", "corp").spec["protocols"]["oauth2"]["issuer"] == "https://b.example"
        )


class TestInForce:
    @pytest.mark.parametrize("last", [{"active": False}, None])
    def test_a_zone_without_a_set_of_its_own_goes_by_its_first_policies(
        self, real: RealWorld, kinds: Kinds, last: dict[str, Any] | None
    ) -> None:
        """A set that decides no more, or is gone, leaves the zone as it was before there was one."""
        settle(real, policies(active=False))
        before = told(real.snapshot(), kinds)["PolicySet/default-zone-policies"]
        settle(real, policies(active=True))
        during = told(real.snapshot(), kinds)["PolicySet/default-zone-policies"]
        wanted = policies(active=False) if last else policies()[:-1]
        settle(real, wanted)

        assert (before, during) == ({"active": True}, {"active": False})
        assert told(real.snapshot(), kinds)["PolicySet/default-zone-policies"] == before
        assert plan_for(real, wanted).empty

    def test_one_set_takes_over_from_another(self, real: RealWorld) -> None:
        """Two sets change places in one changeset: at no time did the first policies decide in between."""
        both = [*policies(active=True), manifest("PolicySet", "aside", policies=["base"], active=False)]
        settle(real, both)
        plan = settle(real, [*policies(active=False), manifest("PolicySet", "aside", policies=["base"])])

        assert isinstance(plan, Plan)
        assert _found(real, "PolicySet", "aside").spec["active"] is True
        assert _found(real, "PolicySet", "main").spec["active"] is False


def _found(world: AnyWorld, kind: str, name: str) -> Any:
    for entity in world.snapshot().entities:
        if entity.kind == kind and entity.ownership is not None and entity.ownership.name == name:
            return entity
    raise LookupError(f"{kind} {name}")


def _write_by_hand(world: AnyWorld, kind: str, name: str, **members: Any) -> None:
    entity = _found(world, kind, name)
    if isinstance(world, RealWorld):
        world.write(kind, entity.zone_id, entity.id, **members)
    else:
        assert isinstance(world, World)
        world.entities[entity.id]["spec"].update(members)

"""Names in policies, as looked up by the server and by its fake: one suite for both."""

import pytest
from tests.reconciler.factories import AnyWorld, manifest, plan_for, settle, without, zone
from tests.reconciler.fake_server import Refused

from reconciler.kinds import Manifest

NAME = 'Group::"leavers"'
CEDAR = f"permit (principal, action, resource);\nforbid (principal in {NAME}, action, resource);\n"


def company(**spec: object) -> list[Manifest]:
    """A zone in which a policy decides that names a group."""
    return [
        zone(),
        manifest("Group", "leavers", name="Leavers"),
        manifest("Policy", "guard", cedar=CEDAR, **spec),
        manifest("PolicySet", "main", policies=["guard"]),
    ]


def refused(world: AnyWorld, manifests: list[Manifest]) -> tuple[int, str, str, str]:
    """Status, code, the message and the operation of what the server has against a plan, and its member."""
    plan = plan_for(world, manifests)
    with pytest.raises(Refused) as caught:
        settle(world, manifests)
    place, _, member = caught.value.field.partition("].")
    index = int(place.removeprefix("operations[").rstrip("]"))
    operation = plan.operations[index]
    return caught.value.status, caught.value.code, f"{operation['op']} {operation['kind']}", member


class TestWritten:
    def test_what_is_made_together_is_there(self, any_world: AnyWorld) -> None:
        """In any order: the changeset is looked at as a whole."""
        settle(any_world, company())
        assert plan_for(any_world, company()).empty

    def test_a_name_that_nobody_has(self, any_world: AnyWorld) -> None:
        """Unless the policy says that the zone need not have it."""
        told = refused(any_world, without(company(), "leavers"))
        assert told == (400, "validation_error", "create Policy", "spec.cedar")
        settle(any_world, without(company(absent_names=[NAME]), "leavers"))


class TestInForce:
    def test_what_it_names_stays(self, any_world: AnyWorld) -> None:
        """Neither deleted nor called otherwise, while the policy decides."""
        settle(any_world, company())
        gone = refused(any_world, without(company(), "leavers"))
        assert gone == (400, "validation_error", "delete Group", "")
        other = [*without(company(), "leavers"), manifest("Group", "leavers", name="L", identifier="left")]
        renamed = refused(any_world, other)
        assert renamed == (400, "validation_error", "update Group", "spec.identifier")

    def test_what_is_called_absent_may_go(self, any_world: AnyWorld) -> None:
        """And what decides no longer counts on nothing."""
        settle(any_world, company(absent_names=[NAME]))
        settle(any_world, without(company(absent_names=[NAME]), "leavers"))

    def test_what_decides_no_longer_counts_on_nothing(self, any_world: AnyWorld) -> None:
        """The set goes in the same changeset."""
        settle(any_world, company())
        settle(any_world, [zone(), manifest("Group", "other", name="Other")])

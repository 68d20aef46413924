"""Drift: the actions of a plan that revert others' changes, and the report around them."""

from typing import Any

import pytest
from tests.reconciler.plan.values import action, plan

from reconciler.plan import FieldChange, SimilarOwner, Unmanaged
from reconciler.plan.drift import detect_drift
from reconciler.plan.model import ChangeState, Op
from reconciler.plan.policy_impact import MissingPolicyName, PolicySetChange

PENDING = FieldChange("description", "old", "new", ChangeState.PENDING)
DRIFTED = FieldChange("name", "By hand", "Staff", ChangeState.DRIFT)
CONFLICT = FieldChange("scopes", ["a"], ["b"], ChangeState.CONFLICT)


class TestActions:
    def test_a_member_that_only_git_changed_is_no_drift(self) -> None:
        """It waits for an apply."""
        found = detect_drift(plan(action(Op.UPDATE, "Group", "staff", PENDING)))
        assert (found.changed, found.pending, bool(found)) == ((), True, False)

    @pytest.mark.parametrize("change", [DRIFTED, CONFLICT], ids=["drift", "conflict"])
    def test_a_member_that_others_changed_is_drift(self, change: FieldChange) -> None:
        """Also where git has changed it since."""
        (found,) = detect_drift(plan(action(Op.UPDATE, "Group", "staff", change))).changed
        assert found.changes == (change,)

    def test_pending_members_of_a_drifted_object_are_left_out(self) -> None:
        """Only what others changed is shown of it."""
        (found,) = detect_drift(plan(action(Op.UPDATE, "Group", "staff", PENDING, DRIFTED))).changed
        assert found.changes == (DRIFTED,)

    def test_a_drifted_object_is_an_update_whatever_the_plan_does_with_it(self) -> None:
        """A rename in git is pending; what others changed in the object is one update."""
        (found,) = detect_drift(plan(action(Op.RENAME, "Group", "staff", DRIFTED))).changed
        assert found.op is Op.UPDATE

    def test_an_object_that_others_deleted_is_listed_without_members(self) -> None:
        """All of its members would be created: none of them has drifted."""
        gone = action(Op.CREATE, "Group", "staff", FieldChange("name", None, "Staff"), deleted=True)
        found = detect_drift(plan(gone))
        assert ([each.changes for each in found.deleted], found.changed) == ([()], ())


class TestUnmanagedObjects:
    GRANT = Unmanaged("RoleAssignment", "workforce", "mine", "id1", attached_to=("Role/reader",))

    def test_what_is_attached_to_a_managed_object_is_drift(self) -> None:
        """A grant or a credential made by hand."""
        found = detect_drift(plan(unmanaged=(self.GRANT,)))
        assert (found.attached, found.unmanaged, bool(found)) == ((self.GRANT,), (), True)

    def test_an_ignored_kind_is_unmanaged_instead(self) -> None:
        """The settings say which kinds others may attach."""
        found = detect_drift(plan(unmanaged=(self.GRANT,)), ["RoleAssignment"])
        assert (found.attached, found.unmanaged, bool(found)) == ((), (self.GRANT,), False)

    def test_what_no_manifest_can_describe_is_unmanaged_instead(self) -> None:
        """Nobody could write the manifest that ends the drift."""
        other = Unmanaged("Secret", "workforce", "x", "id2", attached_to=("Role/reader",), describable=False)
        found = detect_drift(plan(unmanaged=(other,)))
        assert (found.attached, found.unmanaged) == ((), (other,))

    @pytest.mark.parametrize("listed", [True, False], ids=["listed", "counted"])
    def test_other_unmanaged_objects_are_counted_and_listed_on_request(self, listed: bool) -> None:
        """`--unmanaged` lists them."""
        by_hand = Unmanaged("Group", "workforce", "by-hand", "id3")
        told = detect_drift(plan(unmanaged=(by_hand,))).as_json(unmanaged=listed)
        assert (told["unmanaged_count"], "unmanaged" in told) == (1, listed)


class TestPolicies:
    @pytest.mark.parametrize(("by_others", "count"), [(True, 1), (False, 0)], ids=["others", "git"])
    def test_another_active_policy_set_is_reported_where_others_activated_it(
        self, by_others: bool, count: int
    ) -> None:
        """What git itself changes is pending."""
        change = PolicySetChange("workforce", "PolicySet/x", "PolicySet/main", drift=by_others)
        assert len(detect_drift(plan(deciding=(change,))).deciding) == count

    @pytest.mark.parametrize("managed", [True, False], ids=["own", "of-others"])
    def test_a_missing_name_is_drift_in_a_policy_of_this_owner(self, managed: bool) -> None:
        """What policies of others name is their matter."""
        missing = MissingPolicyName("workforce", 'User::"bob"', "Policy/p", "p.cedar:1:2", managed=managed)
        assert bool(detect_drift(plan(missing_names=(missing,)))) is managed


class TestCompleteness:
    def test_nothing_applied_is_not_the_same_as_no_drift(self) -> None:
        """There is nothing to compare before the first apply."""
        found = detect_drift(plan(action(Op.CREATE)))
        assert (found.nothing_applied, found.incomplete) == (True, True)

    def test_managed_objects_without_changes_are_compared(self) -> None:
        """Then there is no drift."""
        found = detect_drift(plan(owned={"Group": 2, "Zone": 1}))
        assert (found.managed, found.nothing_applied, found.incomplete) == (3, False, False)

    def test_a_refused_plan_is_incomplete(self) -> None:
        """The manifests concerned are not compared."""
        assert detect_drift(plan(owned={"Group": 1}, refused=("why",))).incomplete

    @pytest.mark.parametrize(
        ("made", "unseen"),
        [
            ([action(Op.CREATE, "ServiceAccount", "ci")], ["ServiceAccount ci"]),
            (
                [action(Op.CREATE, "Zone", "workforce"), action(Op.CREATE, "Group", "staff")],
                ["Zone workforce", "Group workforce/staff"],
            ),
            ([action(Op.CREATE, "Group", "staff")], []),
            ([action(Op.CREATE, "ServiceAccount", "ci", deleted=True)], []),
            ([action(Op.UPDATE, "ServiceAccount", "ci", PENDING)], []),
        ],
        ids=["organization", "new-zone", "known-zone", "deleted", "update"],
    )
    def test_objects_that_this_credential_may_not_read_are_named(
        self, made: list[Any], unseen: list[str]
    ) -> None:
        """A credential of some zones sees neither other zones nor what is in none."""
        found = detect_drift(plan(*made, owned={"Group": 1}, sees_all=False))
        assert (list(found.unseen), found.incomplete) == (unseen, bool(unseen))

    def test_a_credential_that_reads_everything_leaves_nothing_unseen(self) -> None:
        """What the server does not list does not exist."""
        assert detect_drift(plan(action(Op.CREATE, "ServiceAccount", "ci"))).unseen == ()


class TestDocument:
    ALWAYS = {
        "format",
        "managed",
        "nothing_applied",
        "refused",
        "drift",
        "deleted",
        "attached",
        "unmanaged_count",
    }

    def test_has_no_members_for_what_there_is_none_of(self) -> None:
        """Eight members are always there."""
        assert detect_drift(plan()).as_json(unmanaged=False).keys() == self.ALWAYS

    @pytest.mark.parametrize(
        ("members", "name", "value"),
        [
            ({"similar_owner": SimilarOwner("acme", 3)}, "similar_owner", {"owner": "acme", "objects": 3}),
            ({"names_writers": False}, "names_writers", False),
            ({"unmanaged_truncated": ("Secret",)}, "unmanaged_truncated", ["Secret"]),
        ],
        ids=["similar_owner", "names_writers", "unmanaged_truncated"],
    )
    def test_has_a_member_where_there_is_something_to_say(
        self, members: dict[str, Any], name: str, value: object
    ) -> None:
        """And nothing else beside it."""
        told: Any = detect_drift(plan(**members)).as_json(unmanaged=False)
        assert (told.keys() - self.ALWAYS, told[name]) == ({name}, value)

"""Rejections by the server: the objects and manifests that they concern, and the message."""

from typing import Any

import pytest
from tests.reconciler.apply.texts import HEAD
from tests.reconciler.plan.values import action, plan

from reconciler.apply.rejections import actions_by_operation, server_problems, server_rejection
from reconciler.client import Conflicting, Rejected
from reconciler.kinds import Kinds
from reconciler.manifests import Configuration, find_source_files, load_configuration
from reconciler.plan.model import Op

UPDATED = action(Op.UPDATE, "Group", "staff")
CREATED = action(Op.CREATE, "Role", "reader")
PLAN = plan(
    CREATED,
    UPDATED,
    operations=[
        {"op": "create", "kind": "Role", "local_id": "Role/workforce/reader", "spec": {}},
        {"op": "update", "kind": "Group", "id": str(UPDATED.id), "spec": {}},
        {"op": "manage", "kind": "Role", "local_id": "Role/workforce/reader"},
        {"op": "delete", "kind": "Group", "id": "hidden"},
    ],
)


def rejected(field: str, message: str = "no") -> Rejected:
    """A rejection because of one field."""
    return Rejected(422, "validation_error", "no", [{"field": field, "message": message}])


class TestProblems:
    @pytest.mark.parametrize(
        ("field", "told"),
        [
            ("operations[1].spec.name", "Group.yaml:1: Group workforce/staff `name`: no"),
            ("operations[0].spec.a.b", "Role.yaml:1: Role workforce/reader `a.b`: no"),
            ("operations[1]", "Group.yaml:1: Group workforce/staff: no"),
            ("operations[3]", "Group hidden: no"),
            ("operations[4].spec.name", "`operations[4].spec.name`: no"),
            ("owner", "`owner`: no"),
        ],
        ids=["member", "nested", "operation", "no-action", "out-of-range", "body"],
    )
    def test_are_told_with_the_manifest_object_and_member(self, field: str, told: str) -> None:
        """As much of it as the server's field says."""
        assert [str(each) for each in server_problems(rejected(field), PLAN)] == [told]

    def test_without_details_are_the_message_of_the_error(self) -> None:
        """Something is always said."""
        (problem,) = server_problems(Rejected(400, "too_large", "too much"), PLAN)
        assert (problem.message, problem.code) == ("too much", "too_large")


POLICY = (
    HEAD
    + """kind: Policy
metadata: {zone: workforce, name: guard}
spec:
  cedar: |
    permit (principal, action, resource);
"""
)
IN_TEXT = Rejected(
    422,
    "validation_error",
    "no",
    [{"field": "operations[0].spec.cedar", "message": "line 1, column 9: unknown word"}],
)


def guarding(name: str) -> Any:
    """A plan that updates the policy of that name."""
    updated = action(Op.UPDATE, "Policy", name)
    return plan(updated, operations=[{"op": "update", "kind": "Policy", "id": str(updated.id), "spec": {}}])


class TestPlaceInAText:
    @pytest.fixture
    def configuration(self, config: Any, kinds: Kinds) -> Configuration:
        """One policy, in a manifest."""
        config.write("policy.yaml", POLICY)
        return load_configuration(find_source_files([config.path]), kinds)

    def test_is_that_of_the_manifest_in_place_of_the_text(self, configuration: Configuration) -> None:
        """The server counts lines of the text; who wrote it looks at the file."""
        (problem,) = server_problems(IN_TEXT, guarding("guard"), configuration)

        assert problem.message == "unknown word"
        place = problem.diagnostic
        assert place is not None
        assert (place.path, place.line, place.column) == ("policy.yaml", 6, 13)

    def test_is_told_as_the_server_says_it_where_no_manifest_here_has_the_text(
        self, configuration: Configuration
    ) -> None:
        """Without it nobody could find the word: the plan was made from other files."""
        (problem,) = server_problems(IN_TEXT, guarding("another"), configuration)

        assert (problem.message, problem.diagnostic) == ("line 1, column 9: unknown word", None)


class TestMessage:
    def test_of_a_refused_plan_has_the_code(self) -> None:
        """And says that nothing was changed."""
        found = server_rejection(rejected("owner"), PLAN)
        told = "the server refuses the plan (validation_error); nothing was changed"
        assert (found.message, found.stale) == (told, False)

    def test_of_a_stale_plan_names_the_one_object_that_changed(self) -> None:
        """With its manifest."""
        error = Conflicting(409, "conflict", "no", [{"field": "operations[1]", "message": "it was changed"}])
        found = server_rejection(error, PLAN)
        told = "the plan is stale: it was changed (Group.yaml:1); nothing was applied: plan again"
        assert (found.message, found.stale) == (told, True)

    def test_of_a_stale_plan_counts_several_objects(self) -> None:
        """They are listed below."""
        details = [{"field": f"operations[{n}]", "message": "changed"} for n in (0, 1)]
        found = server_rejection(Conflicting(409, "conflict", "no", details), PLAN)
        assert "2 objects have changed since it was made, at revision 1" in found.message


def test_each_operation_belongs_to_the_action_that_shows_it() -> None:
    """Creations in their order, what follows one by its local id, others by their id; hidden ones to none."""
    assert actions_by_operation(PLAN) == {0: CREATED, 1: UPDATED, 2: CREATED}

"""The plan as a value: its digest, its idempotency key, and the properties of its actions."""

from dataclasses import replace
from typing import Any

import pytest
from tests.reconciler.factories import changed, plan_for, settle, zone
from tests.reconciler.fake_server import World
from tests.reconciler.plan.values import ANN, action, plan

from reconciler.kinds import IncludedVersion, InForce, Manifest, Write
from reconciler.plan import FieldChange, Plan, SimilarOwner, Unmanaged
from reconciler.plan.model import NOT_IN_DIGEST, ChangeState, Op, digest_of

CHANGED = action(Op.UPDATE, "Group", "staff", FieldChange("name", "a", "b", ChangeState.PENDING))
DELETED = action(Op.DELETE, "Group", "former", FieldChange("name", "a", None))
DELETING: Any = {"op": "delete", "kind": "Group", "id": "Group-former"}


class TestDigest:
    def test_what_is_done_has_one_digest_and_each_revision_a_key_of_its_own(self, world: World) -> None:
        """Who approved a change approved it whenever it is made; made again it is another changeset."""
        first = plan_for(world, [zone()])
        world.revision += 1
        again = plan_for(world, [zone()])

        assert again.digest == first.digest
        assert again.idempotency_key != first.idempotency_key

    def test_what_else_the_configuration_has_is_no_part_of_the_digest(
        self, world: World, company: list[Manifest]
    ) -> None:
        """Another change that is merged and applied in between leaves an approved one as it was."""
        settle(world, company[:-1])
        first = plan_for(world, changed(company[:-1], "Group", "staff", name="Everybody"))
        settle(world, company)
        second = plan_for(world, changed(company, "Group", "staff", name="Everybody"))

        assert not first.empty
        assert first.manifest_count != second.manifest_count
        assert first.digest == second.digest

    def test_no_secret_is_in_a_plan(
        self, world: World, company: list[Manifest], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A plan needs no secrets, so it cannot hold any."""
        monkeypatch.setenv("OKTA", "s3cr3t-value")

        assert "s3cr3t-value" not in str(plan_for(world, company).as_json())


class TestWhatTheDigestNames:
    PLAN = plan(CHANGED, DELETED, operations=[DELETING], owned={"Group": 2})

    def digest(self, **members: Any) -> str:
        """The digest of the plan with other members."""
        return replace(self.PLAN, _digest=[], **members).digest

    @pytest.mark.parametrize(
        "members",
        [
            {"owner": "acme/other"},
            {"organization_id": "org2"},
            {"server": "https://other.example"},
            {"tool_version": "other"},
            {"actions": (CHANGED,)},
            {"actions": (DELETED, CHANGED)},
            {"operations": ()},
            {"refused": ("no",)},
            {"budgets": {"Group": 3}},
        ],
        ids=str,
    )
    def test_another_thing_to_do_has_another_digest(self, members: dict[str, Any]) -> None:
        """Where it is done, by whom, what, and in which order."""
        assert self.digest(**members) != self.PLAN.digest

    @pytest.mark.parametrize(
        "members",
        [
            {"base_revision": 99},
            {"source": {"commit": "abc"}},
            {"owned": {"Group": 7}},
            {"manifest_count": 12},
            {"undelivered": (CHANGED,)},
            {"similar_owner": SimilarOwner("acme/other", 3)},
            {"names_writers": False},
            {"zone_names": {"z1": "w"}},
            {"unmanaged": (Unmanaged("Group", "w", "g", "g1"),)},
        ],
        ids=str,
    )
    def test_what_stands_beside_a_plan_changes_no_digest(self, members: dict[str, Any]) -> None:
        """The same change is approved whenever, and from whichever commit, it is planned."""
        assert self.digest(**members) == self.PLAN.digest

    def test_it_can_be_worked_out_from_the_json(self) -> None:
        """By anybody who has the file: members beside the plan are left out."""
        content: Any = self.PLAN.as_json()
        assert (
            digest_of(content)
            == digest_of({**content, **dict.fromkeys(NOT_IN_DIGEST, "x")})
            == self.PLAN.digest
        )

    def test_the_key_binds_it_to_a_revision(self) -> None:
        """Applied once for each revision that it was computed from."""
        assert self.PLAN.idempotency_key == f"{self.PLAN.digest}@1"


class TestPlan:
    def test_is_empty_where_no_operation_is_sent(self) -> None:
        """Whatever it says beside that."""
        assert plan(manifest_count=7, refused=("no",)).empty
        assert not plan(DELETED, operations=[DELETING]).empty

    def test_sums_up_actions_in_the_order_of_what_they_do(self) -> None:
        """Creations first, deletions last; what does not occur is left out."""
        actions = DELETED, CHANGED, action(Op.CREATE), action(Op.CREATE, name="b")
        assert list(plan(*actions).summary().items()) == [("create", 2), ("update", 1), ("delete", 1)]

    def test_counts_members_by_why_they_change(self) -> None:
        """Over all actions."""
        changes = [FieldChange(f"m{n}", 1, 2, ChangeState.CONFLICT) for n in range(3)]
        found = plan(
            CHANGED, action(Op.UPDATE, "Role", "r", *changes[:2]), action(Op.UPDATE, "Role", "s", changes[2])
        )
        assert (found.count(ChangeState.CONFLICT), found.count(ChangeState.PENDING)) == (3, 1)
        assert found.count(ChangeState.DRIFT) == 0

    @pytest.mark.parametrize("op", Op)
    def test_knows_what_destroys(self, op: Op) -> None:
        """Deletions, and replacements, which delete as well."""
        found = plan(action(op))
        assert bool(found.destroying) is (op in (Op.DELETE, Op.REPLACE))

    def test_knows_which_secrets_are_shown_once(self) -> None:
        """They need a place to go."""
        shown = action(Op.CREATE, "ApplicationCredential", "key", shown_once=True)
        assert plan(CHANGED, shown).showing_once == [shown]

    @pytest.mark.parametrize(
        "members",
        [
            {"similar_owner": SimilarOwner("acme/other", 3)},
            {"names_writers": False},
            {"budgets": {"Group": 1}},
            {"undelivered": (CHANGED,)},
            {"actions": (action(Op.CREATE, "ApplicationCredential", "key", shown_once=True),)},
        ],
        ids=str,
    )
    def test_what_few_plans_have_is_a_member_of_its_own(self, members: dict[str, Any]) -> None:
        """And left out of all others."""
        plain = plan(CHANGED)
        found = replace(plain, _digest=[], **members)
        assert len(found.as_json().keys() - plain.as_json().keys()) == 1


def drifted(*states: ChangeState) -> Plan:
    """A plan of one update whose members change for these reasons."""
    changes = [FieldChange(f"m{n}", 1, 2, state) for n, state in enumerate(states)]
    return plan(action(Op.UPDATE, "Group", "staff", *changes))


class TestDrift:
    @pytest.mark.parametrize(
        ("states", "only", "some"),
        [
            ([ChangeState.DRIFT], True, True),
            ([ChangeState.DRIFT, ChangeState.KEEP], True, True),
            ([ChangeState.DRIFT, ChangeState.PENDING], False, True),
            ([ChangeState.CONFLICT], False, True),
            ([ChangeState.PENDING], False, False),
            ([ChangeState.CLAIM], False, False),
        ],
    )
    def test_an_update_is_drift_where_it_only_puts_back(
        self, states: list[ChangeState], only: bool, some: bool
    ) -> None:
        """Of a conflict git says something new, too."""
        found = drifted(*states)
        assert (found.only_drift, found.actions[0].has_drift) == (only, some)

    @pytest.mark.parametrize("op", Op)
    def test_what_others_deleted_is_drift_where_it_is_made_again(self, op: Op) -> None:
        """Created anew, or taken up where somebody made another one."""
        change = FieldChange("name", "a", "b", ChangeState.PENDING)
        found = plan(action(op, "Group", "staff", change, deleted=True))
        assert found.only_drift is (op in (Op.CREATE, Op.ADOPT))

    def test_nothing_to_do_is_no_drift(self) -> None:
        """There is nothing to put back."""
        assert not plan().only_drift

    def test_one_action_of_git_makes_it_more_than_drift(self) -> None:
        """All of them have to put back."""
        assert not plan(action(Op.CREATE, deleted=True), action(Op.CREATE, name="new")).only_drift


class TestAsJson:
    def test_what_does_not_apply_to_an_action_is_left_out(self) -> None:
        """A creation in no zone says little."""
        assert action(Op.CREATE, "ServiceAccount", "ci").as_json() == {
            "op": "create",
            "kind": "ServiceAccount",
            "name": "ci",
            "reason": "ServiceAccount.yaml:1",
            "changes": [],
        }

    @pytest.mark.parametrize("state", ChangeState)
    def test_what_was_applied_is_told_where_others_have_changed_it(self, state: ChangeState) -> None:
        """Even if nothing was: null is said."""
        told = FieldChange("name", 1, 2, state).as_json()
        assert ("applied" in told) is (state in (ChangeState.DRIFT, ChangeState.CONFLICT))

    def test_a_creation_has_no_state(self) -> None:
        """There is nothing that it differs from."""
        assert FieldChange("name", None, "a").as_json() == {"field": "name", "before": None, "after": "a"}

    def test_the_version_in_force_says_what_git_does_not_name(self) -> None:
        """With the text of each part."""
        part = IncludedVersion("Policy", "p1", "base", 3, {"cedar": "permit"})
        told = FieldChange("policies", [], ["p2"], ChangeState.DRIFT, [], InForce(1, 2, contents=(part,)))
        assert told.as_json()["in_force"] == {
            "version": 1,
            "latest_version": 2,
            "contents": [
                {"kind": "Policy", "id": "p1", "name": "base", "version": 3, "spec": {"cedar": "permit"}}
            ],
        }

    @pytest.mark.parametrize(
        ("members", "told"),
        [
            ({}, {}),
            ({"member": "traits", "values": ("a", "b")}, {"member": "traits", "values": ["a", "b"]}),
            ({"attached_to": ("Application/agent",)}, {"attached_to": ["Application/agent"]}),
            ({"in_force": True}, {"in_force": True}),
            ({"describable": False}, {"describable": False}),
            ({"write": ANN}, {"write": {"at": ANN.at, "actor": "user ann"}}),
            ({"write": Write("t", changeset="c1")}, {"write": {"at": "t", "changeset": "c1"}}),
        ],
        ids=str,
    )
    def test_what_is_unmanaged_says_what_applies(self, members: dict[str, Any], told: dict[str, Any]) -> None:
        """Kind, zone, name and id always."""
        found = Unmanaged("Group", "workforce", "by-hand", "g1", **members)
        always = {"kind": "Group", "zone": "workforce", "name": "by-hand", "id": "g1"}
        assert found.as_json() == {**always, **told}

    @pytest.mark.parametrize(("zone_name", "title"), [("w", "Group w/g"), (None, "Group g")])
    def test_titles_have_the_zone_where_there_is_one(self, zone_name: str | None, title: str) -> None:
        """Of actions and of what is unmanaged alike."""
        assert Unmanaged("Group", zone_name, "g", "g1").title == title
        assert action(Op.CREATE, "Group", "g", zone=zone_name).title == title

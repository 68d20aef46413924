"""What left git is deleted, within limits."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from tests.reconciler.factories import changed, manifest, plan_for, settle, without, zone
from tests.reconciler.fake_server import World

from reconciler.kinds import Manifest
from reconciler.plan import Cascade, Plan, check_guards
from reconciler.plan.model import Op
from reconciler.plan.saved_plan import read_plan


class TestPruning:
    def test_what_left_git_is_deleted_children_first(self, world: World, company: list[Manifest]) -> None:
        """A whole zone that leaves is deleted from the leaves up."""
        settle(world, company)
        plan = settle(world, [zone("other")])

        deleted = [action.kind for action in plan.actions if action.op is Op.DELETE]
        assert (deleted[0], deleted[-1]) == ("PolicySet", "ServiceAccount")
        assert deleted.index("Zone") > deleted.index("Application")
        assert plan_for(world, [zone("other")]).empty

    def test_what_others_made_is_not_deleted(self, world: World, company: list[Manifest]) -> None:
        """Prune touches only what this owner manages."""
        settle(world, company)
        zone_id = world.find("Zone", "workforce")["id"]
        by_hand = world.add("Application", {"identifier": "by-hand", "name": "By hand"}, zone_id)["id"]
        settle(world, without(company, "agent-key"))

        assert by_hand in world.entities

    def test_a_zone_with_objects_of_others_needs_consent(self, world: World, company: list[Manifest]) -> None:
        """Deleting it would delete them too; the consent names how many."""
        settle(world, company)
        world.add("Application", {"identifier": "x", "name": "X"}, world.find("Zone", "workforce")["id"])
        plan = plan_for(world, [zone("other")])

        assert [each.code for each in check_guards(plan, {"deletes": len(company)})] == ["unowned"]
        assert check_guards(plan, {"deletes": len(company), "unowned": 1}) == []

    def test_a_protected_entity_is_not_deleted(self, world: World) -> None:
        """Removing the manifest does not remove the protection."""
        settle(world, [zone(), manifest("Role", "reader", lifecycle={"protect": True})])

        assert [each.code for each in check_guards(plan_for(world, [zone()]), {"deletes": 1})] == [
            "protected"
        ]

    def test_an_empty_source_is_refused(self, world: World, company: list[Manifest]) -> None:
        """A wrong path must not look like a wish to delete everything."""
        settle(world, company)

        assert "empty-source" in [
            each.code for each in check_guards(plan_for(world, []), {"deletes": len(company)})
        ]

    def test_more_deletions_than_the_budget_need_their_count(self, world: World) -> None:
        """Six of ten are more than five and more than a tenth."""
        groups = [manifest("Group", f"g{n}", name=f"G {n}") for n in range(10)]
        settle(world, [zone(), *groups])
        plan = plan_for(world, [zone(), *groups[:4]])

        assert "6 of 10 objects of kind Group (budget: 5)" in check_guards(plan, {})[0].message
        assert check_guards(plan, {"deletes": 6}) == []
        assert check_guards(plan, {"deletes": 7})[0].code == "deletes"
        assert check_guards(plan_for(world, [zone(), *groups[:5]]), {}) == []

    def test_a_zone_is_never_within_the_budget(self, world: World) -> None:
        """With it go users and sessions that no manifest brings back."""
        settle(world, [zone(), zone("other")])
        plan = plan_for(world, [zone("other")])

        assert "1 of 2 objects of kind Zone (budget: 0)" in check_guards(plan, {})[0].message
        assert check_guards(plan, {"deletes": 1}) == []

    @pytest.mark.parametrize(("budget", "refused"), [(2, True), (3, False), ("20%", True), ("30%", False)])
    def test_the_settings_say_how_many_need_none(
        self, world: World, budget: int | str, refused: bool
    ) -> None:
        """As a number, or as a share of what is managed; a saved plan keeps that, where it is stricter."""
        groups = [manifest("Group", f"g{n}", name=f"G {n}") for n in range(10)]
        settle(world, [zone(), *groups])
        made = replace(plan_for(world, [zone(), *groups[:7]]), budgets={"Group": budget})
        for plan in (made, read_plan(orjson.dumps(made.as_json()))):
            assert bool(check_guards(plan, {})) is refused
        assert check_guards(made, {"deletes": 3}) == []
        larger = replace(plan_for(world, [zone(), *groups[:4]]), budgets={"Group": 6})
        assert check_guards(larger, {}) == []
        (refusal,) = check_guards(read_plan(orjson.dumps(larger.as_json())), {})
        assert "(budget: 5)" in refusal.message

    def test_the_settings_do_not_let_zones_go(self, world: World) -> None:
        """Nor does a saved plan that says so."""
        settle(world, [zone(), zone("other")])
        plan = replace(plan_for(world, [zone("other")]), budgets={"Zone": 5})
        assert [each.code for each in check_guards(plan, {})] == ["deletes"]

    def test_what_is_in_use_needs_consent_however_little_it_is(
        self, world: World, company: list[Manifest]
    ) -> None:
        """One credential is within every budget, and locks somebody out."""
        settle(world, company)
        plan = plan_for(world, without(company, "agent-key"))
        (action,) = plan.destroying
        key = (action.kind, str(action.id))
        assert check_guards(plan, {}, {key: Cascade({}, in_use=False)}) == []

        (refusal,) = check_guards(plan, {}, {key: Cascade({}, in_use=True)})
        assert "used within the last thirty days" in refusal.message
        assert "--consent in-use=1" in refusal.message
        assert check_guards(plan, {"in-use": 1}, {key: Cascade({}, in_use=True)}) == []
        assert check_guards(plan, {"in-use": 2}, {key: Cascade({}, in_use=True)}) != []


STAFF = "Group/workforce/staff"  # what the changeset calls the group


def _sent(spec: dict[str, Any]) -> dict[str, Any]:
    return {"op": "update", "kind": "Application", "id": "a", "name": "agent", "spec": spec, "fields": []}


class TestSavedPlans:
    """A plan that somebody else has written, with a digest that fits."""

    def test_what_zonectl_saves_says_all(self, world: World, company: list[Manifest]) -> None:
        """Secrets given at creation, at an update, and by a replacement; and deletions."""
        settled = plan_for(world, company)
        assert check_guards(read_plan(orjson.dumps(settled.as_json())), {}) == []
        settle(world, company)
        newer = changed(company, "Provider", "okta", client_secret={"from_env": "OKTA", "version": "4"})
        plan = plan_for(world, without(newer, "agent-key"))
        assert {action.op for action in plan.actions} == {Op.UPDATE, Op.DELETE}
        assert check_guards(read_plan(orjson.dumps(plan.as_json())), {}) == []

    @pytest.mark.threat("37b", "38j", "49q")
    @pytest.mark.parametrize(
        "hidden",
        [
            {"op": "delete", "kind": "Zone", "id": "z"},
            {"op": "release", "kind": "Zone", "id": "z"},
            {"op": "adopt", "kind": "Zone", "id": "z", "name": "z", "spec": {}, "fields": []},
            {"op": "rename", "kind": "Group", "id": "g", "name": "staff"},
            {"op": "update", "kind": "Group", "id": "g", "name": "staff", "spec": {}, "protect": False},
            {"op": "update", "kind": "Group", "local_id": STAFF, "name": "staff", "spec": {"name": ""}},
            {"op": "create", "kind": "Group", "local_id": "g", "name": "g", "spec": {}, "fields": []},
            {"op": "delivered", "kind": "ApplicationCredential", "id": "a"},
            {"op": "purge", "kind": "Zone", "id": "z"},
            {"op": "delete", "kind": "ApiKey", "id": "k"},
            _sent({"name": {"secret": {"from_env": "AWS_SECRET_ACCESS_KEY", "version": "1"}}}),
            _sent({"metadata": {"docs": {"secret": {"from_file": "notes.txt", "version": "1"}}}}),
            _sent({"traits": [{"secret": {"from_env": "AWS_SECRET_ACCESS_KEY", "version": "1"}}]}),
            {
                **_sent({"client_secret": {"secret": {"from_env": "OTHER", "version": "3"}}}),
                "kind": "Provider",
                "name": "okta",
            },
        ],
    )
    def test_what_a_saved_plan_hides_is_refused(
        self, world: World, company: list[Manifest], hidden: dict[str, Any]
    ) -> None:
        """No deletion that nobody counts, and no secret of this machine in what others read."""
        plan = plan_for(world, company)
        assert check_guards(plan, {}) == []
        forged = replace(plan, operations=(*plan.operations, hidden), _digest=[])

        refused = check_guards(read_plan(orjson.dumps(forged.as_json())), {})

        assert {each.code for each in refused} == {"untold"}

    @pytest.mark.threat("49q")
    @pytest.mark.parametrize("made", [True, False])
    def test_every_value_that_is_written_is_told(
        self, world: World, company: list[Manifest], made: bool
    ) -> None:
        """Of creations and of updates: another value, one more, none, or no operation at all."""
        if not made:
            settle(world, company)
            company = changed(company, "Group", "staff", members=["c@example.com"])
            company = changed(company, "Resource", "calendar-api", scopes=["all"], application=None)
            company = changed(company, "ServiceAccount", "ci", description="builds")
            company = changed(company, "ApplicationCredential", "agent-key", type="public")
            company = without(company, "staff-views")
        plan = plan_for(world, company)
        done = {"create"} if made else {"update", "delete", "create"}
        assert {operation["op"] for operation in plan.operations} >= done
        forged = 0
        for operations in _forgeries(plan):
            other = replace(plan, operations=operations, _digest=[])
            refused = check_guards(read_plan(orjson.dumps(other.as_json())), {"deletes": 2})
            assert "untold" in {each.code for each in refused}, str(
                [each for each in zip(plan.operations, operations, strict=False) if each[0] != each[1]]
            )
            forged += 1
        assert forged > len(plan.operations)
        for action in plan.actions:
            rest = tuple(each for each in plan.actions if each is not action)
            other = replace(plan, actions=rest, _digest=[])
            assert "untold" in {
                each.code for each in check_guards(read_plan(orjson.dumps(other.as_json())), {})
            }


def _forgeries(plan: Plan) -> Iterator[tuple[dict[str, Any], ...]]:
    """The operations without one, and with one value of one that is another."""
    for index, operation in enumerate(plan.operations):
        around = plan.operations[:index], plan.operations[index + 1 :]
        yield tuple(dict(each) for each in (*around[0], *around[1]))
        spec = operation.get("spec") or {}
        others = [{**spec, "description": "forged"}]
        for name in spec:
            others.append({each: value for each, value in spec.items() if each != name})
            forged = {"local_id": "Zone//workforce"} if isinstance(spec[name], dict) else "forged"
            others.append({**spec, name: forged})
        for other in others if spec else ():
            yield tuple(dict(each) for each in (*around[0], {**operation, "spec": other}, *around[1]))
        if operation["op"] == "update":
            changed_protection = {**operation, "protect": not operation["protect"]}
            yield tuple(dict(each) for each in (*around[0], changed_protection, *around[1]))

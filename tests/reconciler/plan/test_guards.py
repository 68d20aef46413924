"""The guards: reasons to refuse a plan, and the consents that lift each."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from tests.reconciler.factories import changed, manifest, plan_for, settle, without, zone
from tests.reconciler.fake_server import World
from tests.reconciler.plan.values import action
from tests.reconciler.plan.values import plan as plan_of

from reconciler.kinds import Manifest
from reconciler.plan import Action, Cascade, FieldChange, Plan, check_guards
from reconciler.plan.model import ChangeState, Op
from reconciler.plan.saved_plan import read_plan


def deleting_groups(world: World, count: int, budgets: dict[str, int | str]) -> Plan:
    """A plan that deletes so many of ten groups, with budgets as the settings have them."""
    groups = [manifest("Group", f"g{n}", name=f"G {n}") for n in range(10)]
    settle(world, [zone(), *groups])
    return replace(plan_for(world, [zone(), *groups[: 10 - count]]), budgets=budgets)


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
        """As a number, or as a share of what is managed; where more are deleted, their count is consent."""
        made = deleting_groups(world, 3, {"Group": budget})
        assert bool(check_guards(made, {})) is refused
        assert check_guards(made, {"deletes": 3}) == []

    @pytest.mark.parametrize(("budget", "refused"), [(2, True), (3, False), ("20%", True), ("30%", False)])
    def test_a_saved_plan_keeps_a_stricter_budget(
        self, world: World, budget: int | str, refused: bool
    ) -> None:
        """It is applied elsewhere by the settings that it was made with."""
        saved = read_plan(orjson.dumps(deleting_groups(world, 3, {"Group": budget}).as_json()))
        assert bool(check_guards(saved, {})) is refused

    def test_a_saved_plan_has_no_larger_budget_than_the_default(self, world: World) -> None:
        """The settings may allow more, a file that somebody may have written may not."""
        larger = deleting_groups(world, 6, {"Group": 6})
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

        assert {each.code for each in refused} == {"inconsistent"}

    @pytest.fixture(params=[True, False], ids=["creations", "updates"])
    def honest(self, request: pytest.FixtureRequest, world: World, company: list[Manifest]) -> Plan:
        """A plan of creations alone, or one that updates, deletes and creates."""
        if not request.param:
            settle(world, company)
            company = changed(company, "Group", "staff", members=["c@example.com"])
            company = changed(company, "Resource", "calendar-api", scopes=["all"], application=None)
            company = changed(company, "ServiceAccount", "ci", description="builds")
            company = changed(company, "ApplicationCredential", "agent-key", type="public")
            company = without(company, "staff-views")
        plan = plan_for(world, company)
        done = {"create"} if request.param else {"update", "delete", "create"}
        assert {operation["op"] for operation in plan.operations} >= done
        return plan

    @pytest.mark.threat("49q")
    def test_every_value_that_is_written_is_shown(self, honest: Plan) -> None:
        """Another value, one more, one less, or no operation at all is refused, for each in turn."""
        accepted, forged = [], 0
        for operations in _forgeries(honest):
            other = replace(honest, operations=operations, _digest=[])
            refused = check_guards(read_plan(orjson.dumps(other.as_json())), {"deletes": 2})
            if "inconsistent" not in {each.code for each in refused}:
                pairs = zip(honest.operations, operations, strict=False)
                accepted.append([(true, false) for true, false in pairs if true != false])
            forged += 1
        assert not accepted
        assert forged > len(honest.operations)

    @pytest.mark.threat("49q")
    def test_every_operation_has_an_action(self, honest: Plan) -> None:
        """A plan from which any one of its actions is taken is refused."""
        codes = []
        for hidden in honest.actions:
            rest = tuple(each for each in honest.actions if each is not hidden)
            other = replace(honest, actions=rest, _digest=[])
            codes.append({each.code for each in check_guards(read_plan(orjson.dumps(other.as_json())), {})})

        assert not [found for found in codes if "inconsistent" not in found]


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


# --- one guard at a time

DELETED = action(Op.DELETE, "Group", "former", handle="former")
SECRET = {"from_env": "OKTA", "version": "3"}


def codes(found: Plan, **members: Any) -> list[str]:
    """The codes of every refusal of a plan; consents by their names."""
    consents = {name.replace("_", "-"): count for name, count in members.items()}
    return [each.code for each in check_guards(found, consents)]


def deleting(*actions: Action, owned: dict[str, int] | None = None, **more: Any) -> Plan:
    """A plan of these deletions, with the operations that they are."""
    operations: Any = [{"op": "delete", "kind": each.kind, "id": each.id} for each in actions]
    return plan_of(*actions, operations=operations, owned=owned or {"Group": 10}, **more)


class TestEmptySource:
    def test_no_manifest_is_refused_whatever_is_consented_to(self) -> None:
        """A wrong path looks like that; the message says how much is at stake."""
        (refusal,) = check_guards(
            deleting(DELETED, owned={"Group": 2, "Zone": 1}, manifest_count=0), {"deletes": 1}
        )
        assert refusal.code == "empty-source"
        assert "3 objects" in refusal.message

    def test_one_manifest_is_enough(self) -> None:
        """Then somebody has read the right directory."""
        assert codes(deleting(DELETED, manifest_count=1)) == []


class TestProtection:
    @pytest.mark.parametrize("op", [Op.DELETE, Op.REPLACE])
    def test_what_is_protected_is_not_destroyed(self, op: Op) -> None:
        """No consent lifts it: the protection has to be taken away in a plan before."""
        assert codes(plan_of(action(op, protected=True), owned={"Group": 9}), deletes=1) == ["protected"]

    @pytest.mark.parametrize("op", [Op.UPDATE, Op.RENAME, Op.RELEASE, Op.ADOPT])
    def test_what_is_protected_may_change_otherwise(self, op: Op) -> None:
        """Protection is from being lost, not from being changed."""
        assert codes(plan_of(action(op, protected=True))) == []

    def test_each_protected_object_is_named(self) -> None:
        """All at once, so that one run tells everything."""
        both = [action(Op.DELETE, "Group", name, protected=True) for name in ("a", "b")]
        told = [each.message for each in check_guards(deleting(*both), {})]
        assert ["workforce/a" in told[0], "workforce/b" in told[1], len(told)] == [True, True, 2]


class TestReusedHandles:
    CREATED = action(Op.CREATE, "Group", "latter", handle="former")

    def test_a_rename_that_does_not_say_so_is_refused(self) -> None:
        """Deleted and created under the same identifier: the way out is named."""
        (refusal,) = check_guards(plan_of(self.CREATED, DELETED, owned={"Group": 9}), {})
        assert refusal.code == "rename"
        assert "previous_names: [former]" in refusal.message

    @pytest.mark.parametrize(
        "other",
        [
            action(Op.CREATE, "Group", "latter", handle="other"),
            action(Op.CREATE, "Role", "latter", handle="former"),
            action(Op.CREATE, "Group", "latter", handle="former", zone="partners"),
            action(Op.UPDATE, "Group", "latter", handle="former"),
            action(Op.CREATE, "Group", "latter"),
        ],
        ids=["another handle", "another kind", "another zone", "an update", "no handle"],
    )
    def test_anything_else_is_none(self, other: Action) -> None:
        """Handles are unique by kind and zone."""
        assert codes(plan_of(other, DELETED, owned={"Group": 9})) == []

    def test_without_handles_there_is_no_rename(self) -> None:
        """Two grants that have none are two grants."""
        pair = action(Op.CREATE, "RoleAssignment", "new"), action(Op.DELETE, "RoleAssignment", "old")
        assert codes(plan_of(*pair, owned={"RoleAssignment": 9})) == []


def groups(count: int, op: Op = Op.DELETE) -> list[Action]:
    """So many groups that go."""
    return [action(op, "Group", f"g{n}") for n in range(count)]


class TestDeleteBudget:
    @pytest.mark.parametrize("op", [Op.DELETE, Op.REPLACE])
    @pytest.mark.parametrize(("count", "refused"), [(5, []), (6, ["deletes"])])
    def test_the_budget_itself_needs_no_consent(self, op: Op, count: int, refused: list[str]) -> None:
        """One more than that does; a replacement counts as a deletion."""
        assert codes(plan_of(*groups(count, op), owned={"Group": 10})) == refused

    def test_each_kind_has_a_budget_of_its_own(self) -> None:
        """Five groups and five roles are ten deletions, and none too many."""
        roles = [action(Op.DELETE, "Role", f"r{n}") for n in range(5)]
        assert codes(deleting(*groups(5), *roles, owned={"Group": 10, "Role": 10})) == []

    def test_the_consent_is_to_all_deletions(self) -> None:
        """Also of kinds that are within their budgets: nobody consents to a part of a plan."""
        found = deleting(*groups(6), action(Op.DELETE, "Role", "r"), owned={"Group": 10, "Role": 10})
        assert codes(found, deletes=6) == ["deletes"]
        assert codes(found, deletes=7) == []

    def test_what_is_not_managed_at_all_has_the_smallest_budget(self) -> None:
        """A saved plan may say so of what it deletes."""
        assert codes(deleting(*groups(5), owned={"Role": 99})) == []
        assert codes(deleting(*groups(6), owned={"Role": 99})) == ["deletes"]

    def test_a_saved_plan_has_no_larger_budget_than_the_default(self) -> None:
        """Somebody else may have written it: a smaller one holds, a larger one does not."""
        larger = plan_of(*groups(6), owned={"Group": 10}, budgets={"Group": 100})
        assert codes(larger) == []
        assert "deletes" in codes(replace(larger, saved=True))

    @pytest.mark.parametrize(("owned", "word"), [(1, "1 object of"), (2, "objects of")])
    def test_one_object_is_no_objects(self, owned: int, word: str) -> None:
        """The message is read aloud."""
        (refusal,) = check_guards(plan_of(action(Op.DELETE, "Zone", "old"), owned={"Zone": owned}), {})
        assert word in refusal.message


class TestConsents:
    CONFLICT = plan_of(
        action(Op.UPDATE, "Group", "a", FieldChange("name", 1, 2, ChangeState.CONFLICT, 3)),
        operations=[{"op": "delete", "kind": "Group", "id": "x"}],
    )

    @pytest.mark.parametrize("count", [0, 2, 99])
    @pytest.mark.parametrize("name", ["deletes", "unowned", "conflicts"])
    def test_a_consent_to_another_count_is_refused(self, name: str, count: int) -> None:
        """Something has changed since: also where there is less to consent to than was thought."""
        found = replace(
            deleting(action(Op.DELETE, "Zone", "old", takes_along=1)),
            actions=(action(Op.DELETE, "Zone", "old", takes_along=1), *self.CONFLICT.actions),
        )
        right = {"deletes": 1, "unowned": 1, "conflicts": 1}
        assert check_guards(found, right) == []
        assert [each.code for each in check_guards(found, {**right, name: count})] == [name]

    @pytest.mark.parametrize("name", ["deletes", "unowned", "conflicts"])
    def test_a_consent_to_what_does_not_happen_is_refused(self, name: str) -> None:
        """It was meant for another plan."""
        change = action(Op.UPDATE, "Group", "a", FieldChange("name", 1, 2, ChangeState.PENDING))
        operation: Any = {"op": "update", "kind": "Group", "id": "Group-a", "name": "a"}
        found = plan_of(change, operations=[operation])
        assert [each.code for each in check_guards(found, {name: 1})] == [name]

    def test_where_nothing_is_left_to_do_consents_mean_nothing(self) -> None:
        """A job that is run again says what it said the first time."""
        assert check_guards(plan_of(), {"deletes": 3, "conflicts": 1, "unowned": 2}) == []

    def test_a_conflict_is_a_plan_that_is_out_of_date(self) -> None:
        """Programs tell it from a guard: somebody has to look at both sides."""
        found = {each.code: each.stale for each in check_guards(self.CONFLICT, {})}
        assert found == {"conflicts": True}
        assert [each.stale for each in check_guards(plan_of(*groups(9), owned={}), {})] == [False]

    @pytest.mark.parametrize(("members", "words"), [(1, "1 member was"), (2, "2 members were")])
    def test_conflicts_are_counted_by_member(self, members: int, words: str) -> None:
        """Not by object."""
        changes = [FieldChange(f"m{n}", 1, 2, ChangeState.CONFLICT, 3) for n in range(members)]
        (refusal,) = check_guards(plan_of(action(Op.UPDATE, "Group", "a", *changes)), {})
        assert refusal.message.startswith(words)
        assert f"--consent conflicts={members}" in refusal.message

    @pytest.mark.parametrize(("counts", "words"), [([1], "1 object that"), ([1, 2], "3 objects that")])
    def test_what_others_have_in_zones_is_summed_up(self, counts: list[int], words: str) -> None:
        """Over all zones that go."""
        zones = [action(Op.DELETE, "Zone", f"z{n}", takes_along=n) for n in counts]
        (refusal,) = check_guards(deleting(*zones, owned={"Zone": 9}), {"deletes": len(zones)})
        assert (refusal.code, words in refusal.message) == ("unowned", True)


class TestInUse:
    CASCADES = {("Group", "Group-a"): Cascade({}, in_use=True), ("Group", "Group-b"): Cascade({"users": 1})}

    def found(self, *names: str) -> list[str]:
        """What is refused when groups of these names go."""
        return [
            each.code
            for each in check_guards(
                deleting(*(action(Op.DELETE, "Group", n) for n in names)), {}, self.CASCADES
            )
        ]

    def test_what_was_used_lately_needs_consent(self) -> None:
        """Within every budget."""
        assert self.found("a", "b") == ["in-use"]

    def test_what_was_not_used_needs_none(self) -> None:
        """Whatever goes along with it; nor does what the server did not count."""
        assert self.found("b", "c") == []

    def test_where_the_server_was_not_asked_nothing_is_known(self) -> None:
        """The consent is not compared with a count that nobody has."""
        assert check_guards(deleting(action(Op.DELETE, "Group", "a")), {"in-use": 7}) == []


class TestSecretsInOperations:
    """Secrets go only where an action says so, and only into members that take one."""

    def refusals(self, spec: dict[str, Any], *changes: FieldChange, kind: str = "Provider") -> list[str]:
        """What is refused of an update that writes that."""
        operation: Any = {"op": "update", "kind": kind, "id": "p", "name": "okta", "spec": spec}
        found = plan_of(action(Op.UPDATE, kind, "okta", *changes, entity_id="p"), operations=[operation])
        return [each.code for each in check_guards(found, {})]

    TOLD = FieldChange("client_secret", None, {"secret": SECRET}, ChangeState.PENDING)

    def test_what_the_action_says_is_sent(self) -> None:
        """The same reference in both."""
        assert self.refusals({"client_secret": {"secret": SECRET}}, self.TOLD) == []

    def test_what_the_action_does_not_say_is_refused(self) -> None:
        """Nobody would see it in the review."""
        assert self.refusals({"client_secret": {"secret": SECRET}}) == ["inconsistent"]

    @pytest.mark.parametrize("other", [{"from_env": "AWS"}, {**SECRET, "version": "4"}, {}], ids=str)
    def test_another_reference_than_the_action_says_is_refused(self, other: dict[str, str]) -> None:
        """Another variable, and another version."""
        assert self.refusals({"client_secret": {"secret": other}}, self.TOLD) == ["inconsistent"]

    @pytest.mark.parametrize(
        "spec",
        [
            {"name": {"secret": SECRET}},
            {"protocols": {"oauth2": {"issuer": {"secret": SECRET}}}},
            {"traits": [{"secret": SECRET}]},
            {"unknown": {"secret": SECRET}},
        ],
        ids=str,
    )
    def test_a_member_that_takes_no_secret_gets_none(self, spec: dict[str, Any]) -> None:
        """Others could read it there; at any depth, and in lists."""
        path = FieldChange("name", None, {"secret": SECRET}, ChangeState.PENDING)
        assert self.refusals(spec, path) == ["inconsistent"]

    def test_a_kind_that_nobody_knows_gets_none(self) -> None:
        """Whatever the plan says of it."""
        operation: Any = {"op": "update", "kind": "Vault", "id": "v", "spec": {"key": {"secret": SECRET}}}
        assert codes(plan_of(operations=[operation])) == ["inconsistent"]

    @pytest.mark.parametrize(
        "value", [{"secret": "text"}, {"secret": SECRET, "more": 1}, {"other": SECRET}], ids=str
    )
    def test_what_only_looks_like_a_reference_is_a_value(self, value: Any) -> None:
        """A map of somebody's own may have such a key."""
        assert self.refusals({"metadata": value}) == []


class TestRefused:
    def test_a_plan_that_was_refused_is_never_applied(self) -> None:
        """Whatever is consented to; each reason is said."""
        found = check_guards(plan_of(refused=("a: no", "b: no")), {"deletes": 1})
        assert [(each.code, each.message) for each in found] == [("refused", "a: no"), ("refused", "b: no")]

    def test_of_a_saved_plan_the_reasons_are_not_said(self) -> None:
        """They are the words of whoever wrote the file."""
        (refusal,) = check_guards(plan_of(refused=("call +1 555",), saved=True), {})
        assert refusal.code == "refused"
        assert "555" not in refusal.message

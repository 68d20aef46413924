"""Actions against operations: a change by the operations that no action shows is found."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.reconciler.factories import manifest, plan_for, settle, zone
from tests.reconciler.fake_server import World
from tests.reconciler.plan.values import OTHER, ZONE_ID, a_zone, action, entity, record, snapshot
from tests.reconciler.plan.values import plan as plan_of

from reconciler.kinds import Entity
from reconciler.plan import Action, FieldChange, Plan, misidentified_objects, zone_ids_of
from reconciler.plan.model import ChangeState, Op
from reconciler.plan.plan_consistency import inconsistencies, is_secret, is_written
from reconciler.plan.three_way_diff import PROTECT

Spec = dict[str, Any]
ZONE = {"id": ZONE_ID}
GROUP_ID = "group0000000000000001"
NAME = FieldChange("name", "a", "b", ChangeState.PENDING)
SECRET = {"secret": {"from_env": "X", "version": "1"}}


def operation(op: str, kind: str = "Group", name: str | None = "staff", **members: Any) -> Any:
    """An operation on what the actions below are about; other members, and those that are None left out."""
    told: Spec = {"op": op, "kind": kind, "id": f"{kind}-{name}", "name": name, "zone": ZONE, **members}
    if op in ("create", "update", "adopt"):
        told = {"spec": {}, "fields": [], "secret_versions": {}, "protect": False, **told}
    if op == "create":
        told = {**told, "id": None, "local_id": f"{kind}/w/{name}"}
    return {member: value for member, value in told.items() if value is not None}


def update(*changes: FieldChange, **members: Any) -> Action:
    """The update of the group."""
    return action(Op.UPDATE, "Group", "staff", *changes, **members)


def found(actions: list[Action], *operations: Any) -> list[str]:
    """What is inconsistent."""
    return list(inconsistencies(plan_of(*actions, operations=operations)))


class TestPairs:
    @pytest.mark.parametrize(
        ("told", "done"),
        [
            (update(NAME), operation("update", spec={"name": "b"})),
            (action(Op.ADOPT), operation("adopt")),
            (action(Op.RENAME, previous_name="crew"), operation("rename")),
            (action(Op.RELEASE), operation("release", name=None, id="Group-staff")),
            (action(Op.DELETE), operation("delete", name=None, id="Group-staff")),
            (action(Op.CREATE), operation("create")),
        ],
        ids=lambda each: str(each.op) if isinstance(each, Action) else "",
    )
    def test_an_action_and_its_operation_agree(self, told: Action, done: Any) -> None:
        """One of each sort, as zonectl writes them."""
        assert found([told], done) == []

    @pytest.mark.parametrize("op", ["update", "adopt", "rename", "release", "delete", "create"])
    def test_an_operation_without_an_action_is_found(self, op: str) -> None:
        """Nobody would have seen it."""
        assert len(found([], operation(op))) == 1

    @pytest.mark.parametrize("op", sorted(Op))
    def test_an_action_without_an_operation_is_found(self, op: Op) -> None:
        """What a reviewer is told has to happen."""
        assert len(found([action(op, "Group", "staff", NAME, previous_name="a")])) >= 1

    @pytest.mark.parametrize("op", ["purge", "delivered", ""])
    def test_an_operation_that_no_action_has_is_found(self, op: str) -> None:
        """Nothing else is looked at then."""
        assert len(found([], operation(op), operation("delete"))) == 1

    def test_a_kind_that_no_manifest_has_is_found(self) -> None:
        """No action can tell of it."""
        assert len(found([], operation("delete", kind="ApiKey"))) == 1

    @pytest.mark.parametrize(
        ("told", "done"),
        [
            (Op.RELEASE, "update"),
            (Op.RELEASE, "adopt"),
            (Op.RELEASE, "rename"),
            (Op.UPDATE, "release"),
            (Op.UPDATE, "adopt"),
            (Op.UPDATE, "rename"),
            (Op.ADOPT, "release"),
            (Op.ADOPT, "rename"),
            (Op.DELETE, "update"),
        ],
    )
    def test_an_action_does_not_stand_for_another_operation(self, told: Op, done: str) -> None:
        """To release is not to rename."""
        deleting = [operation("delete", name=None, id="Group-staff")] if told is Op.DELETE else []
        assert found([action(told)], operation(done), *deleting)

    @pytest.mark.parametrize("told", [Op.ADOPT, Op.RENAME])
    def test_an_update_alone_is_no_adoption_and_no_rename(self, told: Op) -> None:
        """The words of the action have to happen as well."""
        done = operation("update", spec={"name": "b"})
        assert found([action(told, "Group", "staff", NAME)], done)
        assert found([action(told, "Group", "staff", NAME)], operation(str(told)), done) == []


class TestIdentity:
    @pytest.mark.parametrize("members", [{"id": "another"}, {"kind": "Role"}, {"name": "other"}], ids=str)
    @pytest.mark.parametrize("op", ["update", "rename"])
    def test_an_operation_on_something_else_is_found(self, op: str, members: Spec) -> None:
        """By id, by kind, and by what it is called afterwards."""
        told = update(NAME) if op == "update" else action(Op.RENAME, previous_name="crew")
        done = {**operation(op), **members}
        assert found([told], done)

    def test_an_operation_may_have_the_former_name(self) -> None:
        """References are taken out before something is renamed."""
        told = action(Op.RENAME, "Group", "staff", NAME, previous_name="crew")
        first = operation("update", name="crew", id="Group-staff", spec={"name": "b"})
        assert found([told], first, operation("rename")) == []

    @pytest.mark.parametrize("members", [{"id": "another"}, {"kind": "Role"}], ids=str)
    def test_another_deletion_than_is_told_is_found(self, members: Spec) -> None:
        """Kind and id are compared."""
        assert found([action(Op.DELETE)], {**operation("delete", name=None, id="Group-staff"), **members})

    def test_one_deletion_is_not_two(self) -> None:
        """They are counted."""
        gone = operation("delete", name=None, id="Group-staff")
        assert found([action(Op.DELETE)], gone, gone)
        assert found([action(Op.DELETE), action(Op.DELETE)], gone)

    @pytest.mark.parametrize("members", [{"kind": "Role"}, {"name": "other"}], ids=str)
    def test_another_creation_than_is_told_is_found(self, members: Spec) -> None:
        """Kind and name are compared."""
        assert found([action(Op.CREATE)], {**operation("create"), **members})

    def test_creations_stand_in_the_order_of_their_actions(self) -> None:
        """So that each can be told from the others."""
        first, second = action(Op.CREATE), action(Op.CREATE, "Role", "reader")
        done = operation("create"), operation("create", "Role", "reader")
        assert found([first, second], *done) == []
        assert found([second, first], *done)

    def test_a_replacement_deletes_and_creates(self) -> None:
        """Neither is missing."""
        told = action(Op.REPLACE)
        gone = operation("delete", name=None, id="Group-staff")
        assert found([told], gone, operation("create")) == []
        assert found([told], gone)
        assert found([told], operation("create"))

    @pytest.mark.parametrize(
        "members", [{"local_id": "Group/w/other"}, {"name": "other"}, {"op": "adopt"}], ids=str
    )
    def test_what_waits_belongs_to_what_is_made(self, members: Spec) -> None:
        """An update of something new by the changeset's own name."""
        told = action(Op.CREATE, "Group", "staff", FieldChange("name", None, "b"))
        late = operation("update", id=None, local_id="Group/w/staff", spec={"name": "b"})
        assert found([told], operation("create"), late) == []
        assert found([told], operation("create"), {**late, **members})


class TestZones:
    MADE = action(Op.CREATE, "Zone", "workforce")
    MAKING = operation("create", "Zone", "workforce", zone=None)
    NEW = {"local_id": "Zone/w/workforce"}

    def test_what_is_in_a_new_zone_names_that_one(self) -> None:
        """By the changeset's own name."""
        inside = operation("create", zone=self.NEW)
        assert found([self.MADE, action(Op.CREATE)], self.MAKING, inside) == []
        assert found([self.MADE, action(Op.CREATE, zone="partners")], self.MAKING, inside)

    def test_a_zone_that_nothing_makes_is_found(self) -> None:
        """A pointer that leads nowhere."""
        assert found([action(Op.CREATE)], operation("create", zone={"local_id": "Zone//other"}))

    @pytest.mark.parametrize("op", ["update", "create"])
    def test_a_zone_of_the_plan_goes_by_its_new_name(self, op: str) -> None:
        """A renamed zone is what manifests call it now."""
        zone_told = action(Op.RENAME, "Zone", "workforce", entity_id=ZONE_ID, previous_name="people")
        renamed = operation("rename", "Zone", "workforce", id=ZONE_ID, zone=None)
        within = action(Op.CREATE) if op == "create" else update()
        elsewhere = action(within.op, zone="people", entity_id=within.id)
        assert found([zone_told, within], renamed, operation(op)) == []
        assert found([zone_told, elsewhere], renamed, operation(op))

    def test_a_zone_that_the_plan_does_not_change_is_looked_up_on_the_server(self) -> None:
        """Its name is not in the plan."""
        assert found([action(Op.CREATE, zone="anything")], operation("create")) == []


class TestValues:
    def written(self, spec: Spec, *changes: FieldChange, kind: str = "Group", **members: Any) -> list[str]:
        """What is inconsistent of an update that writes that."""
        told = action(Op.UPDATE, kind, "staff", *changes, **members)
        return found([told], operation("update", kind, spec=spec))

    @pytest.mark.parametrize("spec", [{}, {"name": "c"}, {"name": None}, {"name": ["b"]}], ids=str)
    def test_another_value_than_is_told_is_found(self, spec: Spec) -> None:
        """Or none at all."""
        assert self.written({"name": "b"}, NAME) == []
        assert self.written(spec, NAME)

    @pytest.mark.parametrize("shown", [{"a": "b"}, ["b"], None, 7], ids=str)
    def test_a_value_of_another_sort_than_is_told_is_found(self, shown: Any) -> None:
        """A text is no object, and an object is no text."""
        assert self.written({"name": "b"}, FieldChange("name", "a", shown, ChangeState.PENDING))
        metadata = FieldChange("metadata", {}, shown, ChangeState.PENDING)
        assert self.written({"metadata": {"local_id": "b"}}, metadata)

    def test_a_value_that_nobody_tells_is_found(self) -> None:
        """Beside one that is told."""
        assert self.written({"name": "b", "identifier": "x"}, NAME)

    @pytest.mark.parametrize("state", [ChangeState.CLAIM, ChangeState.RELEASE])
    def test_what_stays_need_not_be_written(self, state: ChangeState) -> None:
        """It only becomes git's, or ceases to be."""
        stays = FieldChange("name", "a", "a", state)
        assert self.written({}, stays) == []
        assert self.written({"name": "c"}, stays)

    @pytest.mark.parametrize("state", [ChangeState.CLAIM, ChangeState.RELEASE, ChangeState.KEEP])
    def test_what_stays_is_told_as_what_it_is(self, state: ChangeState) -> None:
        """Nobody hides a change behind a word that means none."""
        assert self.written({"name": "b"}, FieldChange("name", "a", "b", state))

    def test_what_is_kept_is_written_as_it_is(self) -> None:
        """Again, so that it does not follow another member."""
        assert self.written({"name": "a"}, FieldChange("name", "a", "a", ChangeState.KEEP)) == []
        assert self.written({}, FieldChange("name", "a", "a", ChangeState.KEEP))

    LEAVES = [
        FieldChange("protocols.oauth2.scope_separator", ",", None, ChangeState.PENDING),
        FieldChange("protocols.oauth2.scopes_supported", ["a"], [], ChangeState.DRIFT),
    ]

    @pytest.mark.parametrize(
        "spec",
        [{"protocols": None}, {"protocols": {"oauth2": None}}, {"protocols": {"oauth2": {}}}],
        ids=str,
    )
    def test_an_object_goes_with_all_that_is_in_it(self, spec: Spec) -> None:
        """Each of its members is told."""
        assert self.written(spec, *self.LEAVES, kind="Provider") == []

    def test_an_object_does_not_go_with_something_that_stays(self) -> None:
        """One member of it has another value afterwards, as the plan says."""
        stays = FieldChange("protocols.oauth2.token_endpoint", "a", "b", ChangeState.PENDING)
        assert self.written({"protocols": None}, *self.LEAVES, stays, kind="Provider")

    def test_an_object_does_not_go_unsaid(self) -> None:
        """With what others have in it; nor where another one of a similar name goes."""
        assert self.written({"protocols": None}, kind="Provider")
        alike = FieldChange("metadata.icon_url", "a", None, ChangeState.PENDING)
        assert self.written({"meta": None, "metadata": {"icon_url": None}}, alike, kind="Provider")

    def test_keys_that_leave_a_map_are_not_shown(self) -> None:
        """What is shown is what there is afterwards."""
        path = "protocols.oauth2.authorization_parameters"
        told = FieldChange(path, {"a": "1", "b": "2"}, {"b": "3"}, ChangeState.PENDING)
        spec = {"protocols": {"oauth2": {"authorization_parameters": {"a": None, "b": "3"}}}}
        assert self.written(spec, told, kind="Provider") == []
        spec["protocols"]["oauth2"]["authorization_parameters"]["c"] = "4"
        assert self.written(spec, told, kind="Provider")

    @pytest.mark.parametrize("value", [["a", "b"], ["b", "a"], ["a"], ["a", "c"], "a"], ids=str)
    def test_lists_are_compared_one_by_one(self, value: Any) -> None:
        """In their order."""
        told = FieldChange("members", [], ["a", "b"], ChangeState.PENDING)
        assert bool(self.written({"members": value}, told)) is (value != ["a", "b"])


class TestReferences:
    RESOURCE_ID = "resource00000000000001"

    def written(self, value: Any, shown: Any, *others: Action) -> list[str]:
        """What is inconsistent of an application's reference."""
        change = FieldChange("dependencies", [], [shown], ChangeState.PENDING)
        told = action(Op.UPDATE, "Application", "staff", change)
        extra = [operation("update", each.kind, each.name, id=each.id) for each in others]
        done = operation("update", "Application", spec={"dependencies": [value]})
        return found([told, *others], done, *extra)

    def test_an_id_is_shown_as_a_name(self) -> None:
        """Whose, the server says: here it only has to look like one."""
        assert self.written(self.RESOURCE_ID, "Resource/payroll") == []

    @pytest.mark.parametrize(
        ("value", "shown"),
        [(RESOURCE_ID, "payroll"), ("short", "Resource/payroll"), ("UPPER" * 4, "Resource/payroll")],
    )
    def test_what_is_no_id_or_no_name_is_found(self, value: str, shown: str) -> None:
        """A value that is shown as another one."""
        assert self.written(value, shown)

    def test_an_id_that_the_plan_is_about_has_its_name(self) -> None:
        """It is known what that is called."""
        payroll = action(Op.UPDATE, "Resource", "payroll", entity_id=self.RESOURCE_ID)
        assert self.written(self.RESOURCE_ID, "Resource/payroll", payroll) == []
        assert self.written(self.RESOURCE_ID, "Resource/public", payroll)

    @pytest.mark.parametrize("suffix", ["", " (the new one)"])
    def test_a_pointer_is_shown_by_what_is_made(self, suffix: str) -> None:
        """Whether it is new, or takes the place of another."""
        change = FieldChange("dependencies", None, [f"Resource/payroll{suffix}"])
        told = [action(Op.CREATE, "Resource", "payroll"), action(Op.CREATE, "Application", "staff", change)]
        spec = {"dependencies": [{"local_id": "Resource/w/payroll"}]}
        making = operation("create", "Resource", "payroll")
        assert found(told, making, operation("create", "Application", spec=spec)) == []
        spec["dependencies"][0]["local_id"] = "Resource/w/other"
        assert found(told, making, operation("create", "Application", spec=spec))

    @pytest.mark.parametrize(
        ("value", "fits"),
        [
            ({"external": "viewer", "kind": "Role"}, True),
            ({"external": "manager", "kind": "Role"}, False),
            ({"external": "viewer", "kind": "Group"}, False),
            ({"unknown": "viewer"}, False),
        ],
        ids=str,
    )
    def test_what_is_made_with_a_zone_is_shown_by_its_handle(self, value: Spec, fits: bool) -> None:
        """The server looks it up."""
        change = FieldChange("role_id", None, "Role/viewer")
        told = action(Op.CREATE, "RoleAssignment", "staff", change)
        done = operation("create", "RoleAssignment", spec={"role_id": value})
        assert (found([told], done) == []) is fits

    @pytest.mark.parametrize(
        ("shown", "fits"),
        [
            ("issuer of Zone/partners", True),
            ("issuer of Zone/anything", True),
            ("token_endpoint of Zone/partners", False),
            ("https://evil.example", False),
        ],
    )
    def test_an_address_of_a_zone_is_shown_as_such(self, shown: str, fits: bool) -> None:
        """Of which one, is looked up on the server."""
        value = {"address_of": {"id": "another"}, "member": "issuer"}
        change = FieldChange("identifier", "a", shown, ChangeState.PENDING)
        told = action(Op.UPDATE, "Provider", "staff", change)
        done = operation("update", "Provider", spec={"identifier": value})
        assert (found([told], done) == []) is fits

    @pytest.mark.parametrize("shown", ["issuer of Zone/workforce", "issuer of Zone/partners"])
    def test_an_address_of_a_zone_of_the_plan_has_its_name(self, shown: str) -> None:
        """Whether it is there or made."""
        change = FieldChange("identifier", "a", shown, ChangeState.PENDING)
        told = action(Op.UPDATE, "Provider", "staff", change)
        done = operation(
            "update", "Provider", spec={"identifier": {"address_of": {"id": ZONE_ID}, "member": "issuer"}}
        )
        its_zone = action(Op.UPDATE, "Zone", "workforce", entity_id=ZONE_ID)
        changing = operation("update", "Zone", "workforce", id=ZONE_ID, zone=None)
        assert (found([its_zone, told], changing, done) == []) is (shown == "issuer of Zone/workforce")

    def test_a_secret_is_written_to_a_secret(self) -> None:
        """And to nothing else, whatever the action says."""
        of_secret = action(Op.UPDATE, "Provider", "staff", FieldChange("client_secret", None, SECRET))
        assert found([of_secret], operation("update", "Provider", spec={"client_secret": SECRET})) == []
        of_name = action(Op.UPDATE, "Provider", "staff", FieldChange("name", None, SECRET))
        assert found([of_name], operation("update", "Provider", spec={"name": SECRET}))


class TestProtection:
    @pytest.mark.parametrize("op", [Op.UPDATE, Op.RENAME])
    @pytest.mark.parametrize("protected", [True, False])
    @pytest.mark.parametrize("protect", [True, False])
    def test_stays_as_it_is_unless_the_plan_says_so(self, op: Op, protected: bool, protect: bool) -> None:
        """What was protected is protected afterwards."""
        told = action(op, "Group", "staff", NAME, protected=protected, previous_name="a")
        renamed = [operation("rename")] if op is Op.RENAME else []
        done = operation("update", spec={"name": "b"}, protect=protect)
        assert (found([told], *renamed, done) == []) is (protected is protect)

    @pytest.mark.parametrize("before", [True, False])
    @pytest.mark.parametrize("after", [True, False])
    def test_changes_as_the_plan_says(self, before: bool, after: bool) -> None:
        """In both directions."""
        change = FieldChange(PROTECT, before, after, ChangeState.PENDING)
        told = update(change, protected=before)
        assert found([told], operation("update", protect=after)) == []
        assert found([told], operation("update", protect=not after))

    @pytest.mark.parametrize("protect", [True, False])
    def test_of_what_is_new_is_told(self, protect: bool) -> None:
        """Without a word it is not protected."""
        assert (found([action(Op.CREATE)], operation("create", protect=protect)) == []) is (not protect)


def misidentified(told: list[Action], operations: list[Any], *entities: Entity) -> list[str]:
    """What the plan says of ids that the server knows better."""
    return list(misidentified_objects(plan_of(*told, operations=operations), snapshot(*entities)))


class TestIds:
    STAFF = entity("Group", "Group-staff", {"identifier": "staff"}, owned=record("staff"))

    def test_what_the_plan_names_is_what_it_changes(self) -> None:
        """By the name in its record."""
        assert misidentified([update()], [operation("update")], a_zone(), self.STAFF) == []

    @pytest.mark.parametrize(
        "other",
        [
            entity("Group", "Group-staff", {"identifier": "staff"}, owned=record("leavers")),
            entity("Role", "Group-staff", {"identifier": "staff"}, owned=record("staff")),
            entity("Group", "Group-staff", {"identifier": "staff"}, owned=record("staff", owner=OTHER)),
            entity("Group", "Group-staff", {"identifier": "leavers"}),
        ],
        ids=["another name", "another kind", "another owner", "another handle"],
    )
    def test_the_id_of_something_else_is_found(self, other: Entity) -> None:
        """A harmless name beside the id of what matters."""
        assert len(misidentified([update()], [operation("update")], a_zone(), other)) == 1

    def test_what_nobody_manages_goes_by_its_handle(self) -> None:
        """It has no name yet."""
        by_hand = entity("Group", "Group-staff", {"identifier": "by-hand"})
        told = action(Op.ADOPT, handle="by-hand")
        assert misidentified([told], [operation("adopt")], a_zone(), by_hand) == []

    def test_what_has_neither_cannot_be_told_apart(self) -> None:
        """A grant that nobody manages."""
        grant = entity("RoleAssignment", "RoleAssignment-staff")
        told = action(Op.ADOPT, "RoleAssignment")
        assert misidentified([told], [operation("adopt", "RoleAssignment")], a_zone(), grant) == []

    def test_a_former_name_is_a_name(self) -> None:
        """What is renamed has that one still."""
        crew = entity("Group", "Group-staff", {"identifier": "s"}, owned=record("crew"))
        told = action(Op.RENAME, previous_name="crew")
        assert misidentified([told], [operation("rename")], a_zone(), crew) == []

    def test_what_no_action_tells_of_is_told_elsewhere(self) -> None:
        """That it is in no action is an inconsistency; here there is nothing to compare."""
        assert misidentified([], [operation("update")], a_zone(), self.STAFF) == []

    def test_what_is_gone_is_left_to_the_server(self) -> None:
        """The plan may have been applied before."""
        assert misidentified([update()], [operation("update")], a_zone()) == []

    @pytest.mark.parametrize(("zone_name", "fits"), [("workforce", True), ("partners", False)])
    def test_the_zone_is_the_one_that_is_named(self, zone_name: str, fits: bool) -> None:
        """By the operation's zone, and by where the object is: said once."""
        wrong = misidentified([update(zone=zone_name)], [operation("update")], a_zone(), self.STAFF)
        assert len(wrong) == (0 if fits else 1)

    def test_what_is_in_another_zone_than_the_operation_says_is_found(self) -> None:
        """The server would not find it there; the plan does not get so far."""
        elsewhere = entity("Group", "Group-staff", owned=record("staff"), zone_id="z2")
        both = a_zone(), a_zone("partners", zone_id="z2")
        assert len(misidentified([update()], [operation("update")], *both, elsewhere)) == 1

    def test_a_zone_of_another_owner_goes_by_its_name(self) -> None:
        """Whoever has it."""
        assert misidentified([update()], [operation("update")], a_zone(owner=OTHER), self.STAFF) == []

    @pytest.mark.parametrize(("shown", "fits"), [("Resource/payroll", True), ("Resource/public", False)])
    def test_a_reference_is_shown_as_what_it_leads_to(self, shown: str, fits: bool) -> None:
        """Each of a list."""
        payroll = entity("Resource", "resource0000000000001", owned=record("payroll"))
        change = FieldChange("dependencies", [], [shown], ChangeState.PENDING)
        told = action(Op.UPDATE, "Application", "staff", change)
        done = operation("update", "Application", spec={"dependencies": [payroll.id]})
        agent = entity("Application", "Application-staff", owned=record("staff"))
        assert (misidentified([told], [done], a_zone(), agent, payroll) == []) is fits


@pytest.mark.parametrize(
    ("path", "written"),
    [("a", True), ("a.b", True), ("a.b.c", True), ("ab", False), ("b", False), ("c.d", True), ("c", False)],
)
def test_a_member_is_written_by_itself_or_with_an_object_around_it(path: str, written: bool) -> None:
    """Whole names count."""
    assert is_written(path, {"a": None, "c.d": 1}) is written


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        (SECRET, True),
        ({"secret": "x"}, False),
        ({**SECRET, "more": 1}, False),
        ("secret", False),
        (None, False),
    ],
    ids=str,
)
def test_a_reference_to_a_secret_is_nothing_but_that(value: Any, secret: bool) -> None:
    """A value that only looks like it is a value."""
    assert is_secret(value) is secret


def test_the_zones_that_a_plan_is_about_are_those_that_are_there() -> None:
    """New ones have no id, and the organization is none."""
    done = [
        operation("update"),
        operation("create", zone={"local_id": "Zone//w"}),
        operation("delete", zone=None),
    ]
    assert zone_ids_of(plan_of(operations=done)) == {ZONE_ID}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda each: {**each, "spec": {**each["spec"], "description": "x"}}, id="one more value"
        ),
        pytest.param(lambda each: {**each, "protect": True}, id="protection"),
        pytest.param(lambda each: {**each, "zone": {"local_id": "Zone//other"}}, id="another zone"),
        pytest.param(lambda each: {**each, "name": "other"}, id="another name"),
    ],
)
def test_a_real_plan_is_consistent_and_a_changed_one_is_not(
    world: World, change: Callable[[Any], Any]
) -> None:
    """As the server's model and zonectl make it."""
    settle(world, [zone(), manifest("Group", "staff", name="Staff")])
    made: Plan = plan_for(world, [zone(), manifest("Group", "staff", name="Everybody")])
    assert list(inconsistencies(made)) == []
    forged = plan_of(*made.actions, operations=[change(each) for each in made.operations])
    assert list(inconsistencies(forged))

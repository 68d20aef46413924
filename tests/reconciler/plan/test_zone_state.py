"""A zone before and after a changeset, as policies see it: names, who belongs to them, and merge patches."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.reconciler.plan.values import ZONE_ID, entity

from reconciler.kinds import Entity, load_kinds
from reconciler.plan.zone_state import ZoneObject, ZoneState, key_of, merged, zone_before_and_after

STAFF = entity("Group", "staff", {"identifier": "staff", "members": ["Ann@x.example", "bob@x.example"]})
AUDITOR = entity("Role", "auditor", {"identifier": "auditor"})
AGENT = entity("Application", "agent", {"identifier": "agent"})


def assignment(entity_id: str, **principal: Any) -> Entity:
    """That somebody has the role."""
    return entity("RoleAssignment", entity_id, {"role_id": "auditor", "principal": principal})


def state(*entities: Entity) -> ZoneState:
    """A zone with these in it."""
    return ZoneState({each.id: ZoneObject(each.kind, each.handle, each.spec) for each in entities})


def after(*operations: dict[str, Any], same: Mapping[str, str] | None = None) -> ZoneState:
    """The zone of the group after these operations."""
    made: Any = [{"zone": {"id": ZONE_ID}, **each} for each in operations]
    return zone_before_and_after([STAFF], made, load_kinds(), same or {})[1]


class TestBelonging:
    def test_to_a_group_belong_its_members_in_lower_case(self) -> None:
        """The case of an address means nothing."""
        assert state(STAFF).belonging("Group", "staff") == {("", "ann@x.example"), ("", "bob@x.example")}

    def test_to_a_group_without_members_belongs_nobody(self) -> None:
        """Whether the list is empty or was never written."""
        assert state(entity("Group", "g", {"identifier": "none"})).belonging("Group", "none") == frozenset()

    def test_to_a_name_that_nothing_has_belongs_nobody(self) -> None:
        """Another kind's name is another name."""
        assert state(STAFF).belonging("Role", "staff") == frozenset()

    def test_an_object_belongs_to_its_own_name(self) -> None:
        """Policies that name an application mean that application."""
        assert state(AGENT).belonging("Application", "agent") == {("Application", "agent")}

    @pytest.mark.parametrize(
        ("principal", "holders"),
        [
            ({"group_id": "staff"}, {("Group", "staff"), ("", "ann@x.example"), ("", "bob@x.example")}),
            ({"application_id": "agent"}, {("Application", "agent")}),
            ({"user": "Cy@x.example"}, {("", "cy@x.example")}),
            ({"group_id": "unknown"}, set()),
            ({"application_id": "unknown"}, set()),
            ({}, set()),
        ],
        ids=["group", "application", "user", "unknown-group", "unknown-application", "nobody"],
    )
    def test_to_a_role_belongs_who_has_it(self, principal: dict[str, Any], holders: set[Any]) -> None:
        """A group has it for its members; what is not in the zone has nothing."""
        zone = state(STAFF, AUDITOR, AGENT, assignment("r1", **principal))
        assert zone.belonging("Role", "auditor") == holders

    def test_all_who_have_a_role_have_it(self) -> None:
        """By several assignments."""
        given = assignment("r1", application_id="agent"), assignment("r2", user="cy@x.example")
        assert state(STAFF, AUDITOR, AGENT, *given).belonging("Role", "auditor") == {
            ("Application", "agent"),
            ("", "cy@x.example"),
        }

    def test_one_role_is_not_another(self) -> None:
        """What is said of one role says nothing of the next."""
        other = entity("Role", "reader", {"identifier": "reader"})
        zone = state(AUDITOR, other, assignment("r1", user="cy@x.example"))
        assert zone.belonging("Role", "reader") == frozenset()


class TestOperations:
    def test_the_zone_as_it_is_stays_what_it_was(self) -> None:
        """Before and after are two values."""
        gone: Any = [{"op": "delete", "kind": "Group", "id": "staff"}]
        before, now = zone_before_and_after([STAFF], gone, load_kinds(), {})
        assert (set(before.things), set(now.things)) == ({"staff"}, set())

    def test_an_update_is_merged(self) -> None:
        """What is not named stays."""
        now = after({"op": "update", "kind": "Group", "id": "staff", "spec": {"members": []}})
        assert now.things["staff"].spec == {"identifier": "staff", "members": []}
        assert now.things["staff"].handle == "staff"

    def test_another_handle_is_another_name(self) -> None:
        """The object is the same; its former name is nothing's."""
        now = after({"op": "update", "kind": "Group", "id": "staff", "spec": {"identifier": "crew"}})
        assert now.belonging("Group", "crew") == state(STAFF).belonging("Group", "staff")
        assert now.belonging("Group", "staff") == frozenset()

    def test_what_is_created_goes_by_the_changesets_name(self) -> None:
        """It has no id yet."""
        spec = {"identifier": "new", "members": ["d@x.example"]}
        now = after({"op": "create", "kind": "Group", "local_id": "Group/w/new", "spec": spec})
        assert now.by_name["Group", "new"] == "Group/w/new"

    def test_what_replaces_something_goes_by_the_key_of_that(self) -> None:
        """So what names the former means the new one."""
        spec = {"identifier": "staff", "members": ["d@x.example"]}
        new = {"op": "create", "kind": "Group", "local_id": "Group/w/staff", "spec": spec}
        now = after({"op": "delete", "kind": "Group", "id": "staff"}, new, same={"Group/w/staff": "staff"})
        assert now.things["staff"].spec["members"] == ["d@x.example"]

    def test_pointers_become_keys(self) -> None:
        """In lists and in objects, also of what replaces something."""
        role = {"op": "create", "kind": "Role", "local_id": "Role/w/r", "spec": {"identifier": "r"}}
        principal = {"group_id": {"local_id": "Group/w/staff"}}
        spec = {"role_id": {"local_id": "Role/w/r"}, "principal": principal}
        given = {"op": "create", "kind": "RoleAssignment", "local_id": "a", "spec": spec}
        now = after(role, given, same={"Group/w/staff": "staff"})
        assert ("Group", "staff") in now.belonging("Role", "r")

    def test_what_no_kind_describes_is_left_out(self) -> None:
        """A saved plan may name anything."""
        now = after({"op": "create", "kind": "Nothing", "local_id": "n", "spec": {}})
        assert set(now.things) == {"staff"}


@pytest.mark.parametrize(
    ("operation", "key"),
    [({"id": "g"}, "g"), ({"local_id": "l"}, "l"), ({"local_id": "m"}, "old"), ({}, "")],
)
def test_an_operation_is_about_an_id_or_what_the_changeset_makes(operation: Any, key: str) -> None:
    """What replaces something is about that."""
    assert key_of(operation, {"m": "old"}) == key


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_does_what_the_standard_says(target: Any, patch: Any, result: Any) -> None:
    """The cases of RFC 7396, appendix A."""
    assert merged(target, patch) == result


def test_what_is_patched_is_not_changed_itself() -> None:
    """The snapshot is read again by others."""
    target = {"a": {"b": "c"}}
    merged(target, {"a": {"b": "d"}})
    assert target == {"a": {"b": "c"}}

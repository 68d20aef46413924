"""Actions of a saved plan against the server: each wrong member of an action is found."""

from typing import Any

import pytest
from tests.reconciler.plan.values import OTHER, ZONE_ID, a_zone, action, entity, record, snapshot, tombstone
from tests.reconciler.plan.values import plan as plan_of

from reconciler.kinds import Entity, Tombstone
from reconciler.plan import Action, FieldChange
from reconciler.plan.model import ChangeState, Op
from reconciler.plan.saved_action_check import ActionChecker

ZONE = {"id": ZONE_ID}
STAFF = entity(
    "Group",
    "Group-staff",
    {"identifier": "staff", "name": "Staff", "members": []},
    owned=record("staff", applied={"name": "Staff", "identifier": "staff"}),
)
NAME = FieldChange("name", "Staff", "Everybody", ChangeState.PENDING)


def writing(spec: dict[str, Any], kind: str = "Group", name: str = "staff", **members: Any) -> Any:
    """An update of what is there; `fields` are those of the group, unless others are said."""
    told = {"fields": ["identifier", "name"], "secret_versions": {}, "protect": False, "zone": ZONE}
    return {
        "op": "update",
        "kind": kind,
        "id": f"{kind}-{name}",
        "name": name,
        "spec": spec,
        **told,
        **members,
    }


def making(spec: dict[str, Any], kind: str = "Group", name: str = "staff", **members: Any) -> Any:
    """A creation."""
    made = {**writing(spec, kind, name, **members), "op": "create", "local_id": f"{kind}/w/{name}"}
    del made["id"]
    return made


def problems(
    told: Action,
    *operations: Any,
    entities: tuple[Entity, ...] = (STAFF,),
    gone: tuple[Tombstone, ...] = (),
    revision: int = 1,
    others: tuple[Action, ...] = (),
) -> list[str]:
    """What is not so of an action; the server is at a revision, and the plan was made at the first."""
    made = plan_of(told, *others, operations=operations)
    found = snapshot(a_zone(), *entities, revision=revision, tombstones=gone)
    return list(ActionChecker(made, found).problems_of(told))


def of_update(*changes: FieldChange, spec: dict[str, Any] | None = None, **members: Any) -> list[str]:
    """What is not so of the group's update."""
    told = action(Op.UPDATE, "Group", "staff", *changes, **members)
    return problems(told, writing({"name": "Everybody"} if spec is None else spec))


def of_creation(told: Action, **members: Any) -> list[str]:
    """What is not so of a creation, with the operation that it is."""
    return problems(told, making({"identifier": told.name}, told.kind, told.name), entities=(), **members)


class TestPlace:
    def test_what_is_in_a_zone_says_so(self) -> None:
        """A group of no zone is none."""
        assert of_update(NAME) == []
        assert of_update(NAME, zone=None)

    def test_what_is_in_no_zone_says_none(self) -> None:
        """A service account belongs to the organization."""
        told = Action(Op.CREATE, "ServiceAccount", "workforce", "ci", None, "a.yaml:1")
        assert problems(told, making({"name": "ci"}, "ServiceAccount", "ci", zone=None))

    def test_a_kind_that_nobody_knows_is_told_elsewhere(self) -> None:
        """Its operation is refused."""
        assert problems(Action(Op.UPDATE, "Vault", None, "v", "v1", "no reason")) == []

    @pytest.mark.parametrize(
        ("reason", "fits"),
        [
            ("groups.yaml:1", True),
            ("a/b c.yml:203", True),
            ("groups.yaml", False),
            ("groups.yaml:0", False),
            ("groups.json:1", False),
            ("groups.yaml:1\n", False),
            ("a\x1b[2J.yaml:1", False),
            ("approved", False),
            ("", False),
        ],
    )
    def test_the_reason_is_a_line_of_a_file(self, reason: str, fits: bool) -> None:
        """Nothing else can stand there, and no control characters."""
        told = Action(Op.UPDATE, "Group", "workforce", "staff", STAFF.id, reason, (NAME,))
        assert (problems(told, writing({"name": "Everybody"})) == []) is fits


class TestCreations:
    @pytest.mark.parametrize(
        ("members", "fits"),
        [
            ({}, True),
            ({"handle": "new"}, True),
            ({"handle": "other"}, False),
            ({"protected": True}, False),
            ({"secret_ends": True}, False),
            ({"shown_once": True}, False),
            ({"previous_name": "old"}, False),
            ({"keep": ("identifier", "old")}, False),
            ({"entity_id": "g9"}, False),
            ({"takes_along": 1}, False),
            ({"deleted": True}, False),
        ],
        ids=str,
    )
    def test_what_is_new_was_nothing_before(self, members: dict[str, Any], fits: bool) -> None:
        """Whatever the file says of it."""
        told = action(Op.CREATE, "Group", "new", **{"handle": "new", **members})
        assert (of_creation(told) == []) is fits

    @pytest.mark.parametrize(
        "change",
        [
            FieldChange("name", "before", "after"),
            FieldChange("name", None, "after", ChangeState.PENDING),
            FieldChange("name", None, "after", ChangeState.CLAIM),
        ],
        ids=str,
    )
    def test_no_member_had_a_value(self, change: FieldChange) -> None:
        """It was not there."""
        assert of_creation(action(Op.CREATE, "Group", "new", change, handle="new"))

    @pytest.mark.parametrize("handle", ["other", "key"])
    def test_a_handle_that_no_operation_gives_is_the_name(self, handle: str) -> None:
        """What the server decides is nothing that a plan can say."""
        told = action(Op.CREATE, "Role", "key", handle=handle)
        assert (problems(told, making({}, "Role", "key"), entities=()) == []) is (handle == "key")

    @pytest.mark.parametrize(("of_type", "shown"), [("password", True), ("public", False)])
    @pytest.mark.parametrize("told", [True, False])
    def test_a_secret_that_is_shown_once_is_told(self, of_type: str, shown: bool, told: bool) -> None:
        """Somebody has to keep it."""
        made = action(Op.CREATE, "ApplicationCredential", "key", shown_once=told)
        done = making({"type": of_type, "application_id": "a1"}, "ApplicationCredential", "key")
        assert (problems(made, done, entities=()) == []) is (told is shown)


class TestDeletionsByOthers:
    GONE = tombstone("Group", "g0", "new")

    def test_what_others_have_deleted_is_drift(self) -> None:
        """Told, and not told."""
        drift = action(Op.CREATE, "Group", "new", handle="new", deleted=True)
        assert of_creation(drift, gone=(self.GONE,)) == []
        assert of_creation(action(Op.CREATE, "Group", "new", handle="new"), gone=(self.GONE,))

    @pytest.mark.parametrize(
        "gone",
        [
            tombstone("Role", "g0", "new"),
            tombstone("Group", "g0", "new", owner=OTHER),
            tombstone("Group", "g0", "new", zone_id="another"),
        ],
        ids=["another kind", "another owner's", "another zone"],
    )
    def test_what_nobody_has_deleted_is_none(self, gone: Tombstone) -> None:
        """Another deletion is another object's."""
        assert of_creation(action(Op.CREATE, "Group", "new", handle="new", deleted=True), gone=(gone,))
        assert of_creation(action(Op.CREATE, "Group", "new", handle="new"), gone=(gone,)) == []

    def test_what_was_renamed_may_have_had_another_name(self) -> None:
        """Somebody has deleted it under that one: the plan alone knows which."""
        drift = action(Op.CREATE, "Group", "new", handle="new", deleted=True)
        assert of_creation(drift, gone=(tombstone("Group", "g0", "former"),)) == []

    @pytest.mark.parametrize("op", [Op.UPDATE, Op.RENAME, Op.RELEASE])
    def test_what_is_there_was_not_deleted(self, op: Op) -> None:
        """Only what is made or taken up again."""
        gone = (tombstone("Group", "g0", "staff"),)
        told = action(op, deleted=True)
        assert any("deleted" in each for each in problems(told, gone=gone))

    def test_of_what_is_done_already_nothing_is_said(self) -> None:
        """This very plan may have been applied: its object is there, and newer."""
        there = entity("Group", "g1", {"identifier": "new"}, owned=record("new"), revision=2)
        told = action(Op.CREATE, "Group", "new", handle="new", deleted=True)
        done = making({"identifier": "new"}, name="new")
        assert problems(told, done, entities=(there,), revision=2) == []
        assert problems(told, done, entities=(), revision=2)


class TestObjects:
    def deletion(self, found: Entity = STAFF, **members: Any) -> list[str]:
        """What is not so of a deletion that says what git had."""
        changes = [FieldChange(path, found.spec[path], None) for path in ("identifier", "name")]
        told = action(Op.DELETE, "Group", "staff", *changes, **{"handle": "staff", **members})
        done: Any = {"op": "delete", "kind": "Group", "id": "Group-staff", "zone": ZONE}
        return problems(told, done, entities=(found,))

    PROTECTED = entity(
        "Group",
        "Group-staff",
        STAFF.spec,
        owned=record("staff", applied={"name": "Staff", "identifier": "staff"}, protect=True),
    )

    @pytest.mark.parametrize("found", [STAFF, PROTECTED])
    @pytest.mark.parametrize("told", [True, False])
    def test_protection_is_as_the_record_says(self, found: Entity, told: bool) -> None:
        """Hidden, it would let something be deleted."""
        assert (self.deletion(found, protected=told) == []) is (told is (found is self.PROTECTED))

    @pytest.mark.parametrize("handle", ["other", None])
    def test_what_is_deleted_goes_by_its_handle(self, handle: str | None) -> None:
        """A harmless identifier beside the id of what matters."""
        assert self.deletion(handle=handle)

    @pytest.mark.parametrize(
        ("handle", "fits"), [("staff", True), (None, True), ("crew", True), ("other", False)]
    )
    def test_what_changes_goes_by_its_handle_before_or_after(self, handle: str | None, fits: bool) -> None:
        """Or by none."""
        changes = NAME, FieldChange("identifier", "staff", "crew", ChangeState.PENDING)
        spec = {"name": "Everybody", "identifier": "crew"}
        assert (of_update(*changes, spec=spec, handle=handle) == []) is fits

    @pytest.mark.parametrize("told", [None, "staff", "crew"])
    def test_a_former_name_is_the_one_in_the_record(self, told: str | None) -> None:
        """Where it is another one than now."""
        assert (of_update(NAME, previous_name=told) == []) is (told is None)
        crew = entity("Group", "Group-staff", STAFF.spec, owned=record("crew", applied=dict(STAFF.spec)))
        renamed: Any = {"op": "rename", "kind": "Group", "id": "Group-staff", "name": "staff", "zone": ZONE}
        found = problems(action(Op.RENAME, previous_name=told), renamed, entities=(crew,))
        assert (found == []) is (told == "crew")

    def test_what_has_changed_since_is_left_to_the_server(self) -> None:
        """It refuses the plan for that."""
        newer = entity("Group", "Group-staff", {"name": "other"}, owned=record("staff"), revision=2)
        told = action(Op.UPDATE, "Group", "staff", NAME, protected=True)
        assert problems(told, writing({"name": "Everybody"}), entities=(newer,), revision=2) == []

    @pytest.mark.parametrize(
        ("takes_along", "revision", "fits"),
        [(1, 1, True), (0, 1, False), (2, 1, False), (2, 2, True), (0, 2, False)],
    )
    def test_what_goes_with_a_zone_is_counted(self, takes_along: int, revision: int, fits: bool) -> None:
        """More than there is may be said once something was written: it may be gone."""
        told = action(
            Op.DELETE,
            "Zone",
            "workforce",
            entity_id=ZONE_ID,
            handle="workforce-slug",
            takes_along=takes_along,
        )
        theirs = entity("Group", "g1", owned=record("theirs", owner=OTHER))
        done: Any = {"op": "delete", "kind": "Zone", "id": ZONE_ID}
        assert (problems(told, done, entities=(theirs,), revision=revision) == []) is fits

    def test_what_is_deleted_by_itself_does_not_go_along(self) -> None:
        """It has an action of its own."""
        told = action(Op.DELETE, "Zone", "workforce", entity_id=ZONE_ID, handle="workforce-slug")
        own = action(Op.DELETE, entity_id=STAFF.id)
        done: Any = {"op": "delete", "kind": "Zone", "id": ZONE_ID}
        assert problems(told, done, others=(own,)) == []


class TestMembers:
    def test_what_changes_was_what_is_told(self) -> None:
        """The value before, on the server."""
        assert of_update(FieldChange("name", "Everybody", "Everybody", ChangeState.PENDING))
        assert of_update(FieldChange("name", "", "Everybody", ChangeState.PENDING))

    @pytest.mark.parametrize("state", sorted(set(ChangeState) - {ChangeState.PENDING}))
    def test_why_it_changes_is_what_is_told(self, state: ChangeState) -> None:
        """Git is ahead, and nobody else has changed anything."""
        assert of_update(FieldChange("name", "Staff", "Everybody", state))

    BY_HAND = entity(
        "Group",
        "Group-staff",
        {**STAFF.spec, "name": "By hand"},
        owned=record("staff", applied={"name": "Staff", "identifier": "staff"}),
    )

    @pytest.mark.parametrize(
        ("after", "state", "applied", "fits"),
        [
            ("Staff", ChangeState.DRIFT, "Staff", True),
            ("Everybody", ChangeState.CONFLICT, "Staff", True),
            ("Everybody", ChangeState.CONFLICT, "By hand", False),
            ("Everybody", ChangeState.DRIFT, "Staff", False),
            ("Everybody", ChangeState.PENDING, None, False),
            ("Staff", ChangeState.PENDING, None, False),
        ],
    )
    def test_what_others_have_changed_is_told(
        self, after: str, state: ChangeState, applied: str | None, fits: bool
    ) -> None:
        """As drift where git says the same as before, as a conflict where it does not."""
        told = action(Op.UPDATE, "Group", "staff", FieldChange("name", "By hand", after, state, applied))
        found = problems(told, writing({"name": after}), entities=(self.BY_HAND,))
        assert (found == []) is fits

    def test_a_change_that_is_not_told_is_found(self) -> None:
        """Whatever else is."""
        assert of_update()

    def test_no_member_is_told_twice(self) -> None:
        """A reader sees the first, and the last one counts."""
        assert of_update(FieldChange("name", "Staff", "Staff", ChangeState.CLAIM), NAME)

    @pytest.mark.parametrize(
        ("changes", "fits"),
        [
            ([FieldChange("identifier", "staff", None), FieldChange("name", "Staff", None)], True),
            ([FieldChange("identifier", "staff", None)], False),
            ([FieldChange("identifier", "staff", None), FieldChange("name", "other", None)], False),
            ([], False),
        ],
        ids=str,
    )
    def test_of_what_goes_everything_of_git_is_told(self, changes: list[FieldChange], fits: bool) -> None:
        """So that a reviewer sees what is lost."""
        told = action(Op.DELETE, "Group", "staff", *changes, handle="staff")
        done: Any = {"op": "delete", "kind": "Group", "id": "Group-staff", "zone": ZONE}
        assert (problems(told, done) == []) is fits

    @pytest.mark.parametrize(
        ("value", "fits"),
        [({"version": "3"}, True), ({"version": "4"}, False), ({"set": True}, False), (None, False)],
        ids=str,
    )
    def test_of_what_goes_its_secrets_are_told(self, value: Any, fits: bool) -> None:
        """By the version that git has set."""
        owned = record("staff", fields=["client_secret"], versions={"client_secret": "3"})
        found = entity(
            "Provider",
            "Provider-staff",
            {"identifier": "https://a"},
            owned=owned,
            secrets_set=frozenset({"client_secret"}),
        )
        changes = [FieldChange("client_secret", value, None)] if value else []
        told = action(Op.DELETE, "Provider", "staff", *changes, handle="https://a")
        done: Any = {"op": "delete", "kind": "Provider", "id": "Provider-staff", "zone": ZONE}
        assert (problems(told, done, entities=(found,)) == []) is fits


class TestForbidden:
    def provider(self, **oauth2: str) -> Entity:
        """A provider of git whose other members somebody may have set."""
        return entity(
            "Provider",
            "Provider-corp",
            {"identifier": "https://idp.example", "name": "Corp", "protocols": {"oauth2": oauth2}},
            owned=record("corp", applied={"identifier": "https://idp.example", "name": "Corp"}),
        )

    SECRET = {"secret": {"from_env": "X", "version": "1"}}

    @pytest.mark.parametrize("address", ["token_endpoint", "issuer"])
    def test_a_secret_goes_to_no_address_that_others_have_set(self, address: str) -> None:
        """The plan was made before, or by somebody who would like to have it."""
        change = FieldChange("client_secret", None, self.SECRET, ChangeState.PENDING)
        told = action(Op.UPDATE, "Provider", "corp", change, handle="https://idp.example")
        fields = ["client_secret", "identifier", "name"]
        done = writing({"client_secret": self.SECRET}, "Provider", "corp", fields=fields)
        assert problems(told, done, entities=(self.provider(),)) == []
        (found,) = problems(told, done, entities=(self.provider(**{address: "https://evil.example"}),))
        assert f"protocols.oauth2.{address}" in found

    @pytest.mark.parametrize(("active", "owner", "fits"), [(True, OTHER, False), (False, OTHER, True)])
    def test_what_only_one_can_have_is_not_taken_from_others(
        self, active: bool, owner: str, fits: bool
    ) -> None:
        """The set of another owner that decides."""
        theirs = entity(
            "PolicySet", "s1", {"name": "theirs", "active": active}, owned=record("theirs", owner=owner)
        )
        told = action(Op.CREATE, "PolicySet", "main", handle="main")
        done = making({"name": "main", "active": True, "policies": []}, "PolicySet", "main")
        found = problems(told, done, entities=(theirs,))
        assert (found == []) is fits

"""Actions as reviewers read them: names in place of ids, cascades, and the last writer."""

from typing import Any

import pytest
from tests.reconciler.factories import manifest
from tests.reconciler.plan.values import ANN, entity, record, tombstone

from reconciler.kinds import Entity, InForce, Manifest, Write, load_kinds
from reconciler.plan import Action, FieldChange
from reconciler.plan.actions import ActionFactory, writer_of
from reconciler.plan.matching import Match
from reconciler.plan.model import NO_MANIFEST, ChangeState, Op

BOB = Write("2026-02-02T00:00:00Z", "user bob")
STAFF = manifest("Group", "staff", name="Staff")
KEY = manifest("ApplicationCredential", "key", application="agent", type="password")
FACTORY = ActionFactory(load_kinds(), lambda value: f"<{value}>" if value == "g1" else value, {})
PENDING = FieldChange("name", "a", "b", ChangeState.PENDING)


def of_match(op: Op, found: Entity | None = None, of: Manifest = STAFF, **members: Any) -> Action:
    """The action for a manifest."""
    return FACTORY.of_match(Match(of, found, **members), op, ())


class TestOfAManifest:
    def test_is_named_as_in_git(self) -> None:
        """Kind, zone and name of the manifest, and where it stands."""
        made = of_match(Op.CREATE, handle="staff")
        assert (made.kind, made.zone, made.name, made.handle) == ("Group", "workforce", "staff", "staff")
        assert (made.id, made.reason) == (None, "Group.yaml:1")

    @pytest.mark.parametrize("protect", [True, False])
    def test_is_protected_as_the_record_says(self, protect: bool) -> None:
        """What the manifest says now comes into force only with this plan."""
        found = entity("Group", "g1", owned=record("staff", protect=protect))
        assert of_match(Op.UPDATE, found).protected is protect

    def test_what_nobody_manages_is_not_protected(self) -> None:
        """Nor what is not there."""
        assert not of_match(Op.ADOPT, entity("Group", "g1")).protected
        assert not of_match(Op.CREATE).protected

    @pytest.mark.parametrize("op", [Op.REPLACE, Op.UPDATE, Op.RENAME, Op.RELEASE])
    @pytest.mark.parametrize(("kind", "ends"), [("password", True), ("public", False)])
    def test_only_a_replacement_ends_a_secret(self, op: Op, kind: str, ends: bool) -> None:
        """The secret of what is updated goes on working; and what shows none has none to end."""
        found = entity("ApplicationCredential", "k1", {"type": kind}, owned=record("key"))
        assert of_match(op, found, KEY).secret_ends is (ends and op is Op.REPLACE)

    def test_the_secret_that_ends_is_the_former_ones(self) -> None:
        """Whatever takes its place."""
        public = manifest("ApplicationCredential", "key", application="agent", type="public")
        found = entity("ApplicationCredential", "k1", {"type": "password"}, owned=record("key"))
        assert of_match(Op.REPLACE, found, public).secret_ends

    @pytest.mark.parametrize("op", sorted(Op))
    def test_what_others_deleted_is_told_where_it_is_made_again(self, op: Op) -> None:
        """Also of what is adopted in its place."""
        found = None if op is Op.CREATE else entity("Group", "g1")
        told = of_match(op, found, deleted=tombstone("Group", "g0", "staff"))
        assert told.deleted is (op in (Op.CREATE, Op.ADOPT))


class TestOfADeletion:
    GONE = entity(
        "Group",
        "g9",
        {"identifier": "former", "name": "F", "members": ["a@x.example"]},
        owned=record("former", fields=["name", "identifier"], protect=True),
    )

    def told(self, found: Entity = GONE) -> Action:
        """The action that deletes it."""
        return FACTORY.of_deletion(found, "workforce", takes_along=3)

    def test_shows_what_git_had_in_it(self) -> None:
        """Members that others have set are theirs to know."""
        assert [(each.path, each.before, each.after) for each in self.told().changes] == [
            ("identifier", "former", None),
            ("name", "F", None),
        ]

    def test_says_why_and_what_goes_along(self) -> None:
        """No manifest describes it any more."""
        told = self.told()
        assert (told.op, told.reason, told.takes_along) == (Op.DELETE, NO_MANIFEST, 3)
        assert (told.id, told.handle, told.protected) == ("g9", "former", True)

    @pytest.mark.parametrize(("of_type", "ends"), [("password", True), ("public", False)])
    def test_ends_a_secret_that_it_had(self, of_type: str, ends: bool) -> None:
        """Whoever uses it is locked out."""
        key = entity("ApplicationCredential", "k1", {"type": of_type}, owned=record("key"))
        assert self.told(key).secret_ends is ends

    def test_names_the_secrets_that_go(self) -> None:
        """By version where git has set them, and that one was overwritten."""
        provider = entity(
            "Provider",
            "p1",
            {"name": "P"},
            owned=record("p", fields=["client_secret"], versions={"client_secret": "3"}),
            secrets_set=frozenset({"client_secret"}),
            secrets_overwritten=frozenset({"client_secret"}),
        )
        assert self.told(provider).changes == (
            FieldChange("client_secret", {"version": "3", "overwritten": True}, None),
        )


class TestValues:
    def test_a_creation_shows_every_value_by_name(self) -> None:
        """Sorted by path; references as names, secrets as references, and none that is kept."""
        match = Match(STAFF, wanted={"name": "Staff", "group_id": "g1"})
        match.secrets = {"a": {"from_env": "A", "version": "1"}, "kept": {"keep": True}}
        assert [(each.path, each.before, each.after) for each in FACTORY.creation_changes(match)] == [
            ("a", None, {"secret": {"from_env": "A", "version": "1"}}),
            ("group_id", None, "<g1>"),
            ("name", None, "Staff"),
        ]

    def test_a_replacement_shows_both(self) -> None:
        """What stays is kept; what git had and has no more goes; what was never git's is not told."""
        found = entity(
            "Group",
            "g1",
            {"identifier": "old", "name": "Staff", "members": ["a@x.example"], "more": "theirs"},
            owned=record("staff", fields=["identifier", "name", "members"]),
        )
        match = Match(STAFF, found, wanted={"identifier": "new", "name": "Staff"})
        assert FACTORY.replacement_changes(match, found) == (
            FieldChange("identifier", "old", "new"),
            FieldChange("members", ["a@x.example"], None),
            FieldChange("name", "Staff", "Staff", ChangeState.KEEP),
        )

    def test_a_reference_that_goes_is_told_unless_it_changes_anyway(self) -> None:
        """What makes way for a replacement is taken out of others."""
        agent = manifest("Application", "agent", name="Agent")
        found = entity("Application", "a1", {"dependencies": ["r1", "r2"]}, owned=record("agent"))
        match, gone = Match(agent, found), {"a1": {"dependencies": ["r2"]}}
        told = list(FACTORY.implied_changes(match, found, [], gone))
        assert told == [FieldChange("dependencies", ["r1", "r2"], ["r2"], ChangeState.PENDING)]
        known = [FieldChange("dependencies", ["r1", "r2"], [], ChangeState.PENDING)]
        assert list(FACTORY.implied_changes(match, found, known, gone)) == []

    @pytest.mark.parametrize(
        ("state", "kept"),
        [(ChangeState.PENDING, True), (ChangeState.DRIFT, True), (ChangeState.CLAIM, False)],
    )
    def test_what_would_follow_another_member_is_kept(self, state: ChangeState, kept: bool) -> None:
        """A provider's issuer follows its identifier by default: where that changes, git's is said again."""
        issuer = "protocols.oauth2.issuer"
        match = Match(manifest("Provider", "p"), wanted={"identifier": "https://b", issuer: "https://a"})
        moved = [FieldChange("identifier", "https://a", "https://b", state)]
        told = list(FACTORY.implied_changes(match, entity("Provider", "p1"), moved, {}))
        wanted = [FieldChange(issuer, "https://a", "https://a", ChangeState.KEEP)]
        assert told == (wanted if kept else [])


class TestWriter:
    def test_of_what_was_deleted_is_who_deleted_it(self) -> None:
        """Even if something else was adopted in its place."""
        match = Match(
            STAFF, entity("Group", "g1", last_change=BOB), deleted=tombstone("Group", "g0", "staff")
        )
        assert writer_of(match, [], {}) is ANN

    def test_of_what_differs_is_who_has_written_last(self) -> None:
        """As the server says."""
        assert writer_of(Match(STAFF, entity("Group", "g1", last_change=BOB)), [PENDING], {}) is BOB

    def test_of_a_version_is_who_let_it_decide(self) -> None:
        """Before whoever wrote another one."""
        change = FieldChange("active", False, True, ChangeState.DRIFT, True, InForce(1, 2, activated=ANN))
        assert writer_of(Match(STAFF, entity("Group", "g1", last_change=BOB)), [change], {}) is ANN

    @pytest.mark.parametrize("value", ["g0", ["g7", "g0"]])
    def test_of_a_lost_reference_is_who_deleted_what_it_led_to(self, value: Any) -> None:
        """Nobody has written the entity itself; what it was given by git is gone."""
        owned = record("agent", applied={"dependencies": value})
        match = Match(STAFF, entity("Group", "g1", owned=owned))
        lost = [FieldChange("dependencies", None, value, ChangeState.DRIFT, value)]
        assert writer_of(match, lost, {"g0": tombstone("Group", "g0", "x")}) is ANN
        assert writer_of(match, [PENDING], {"g0": tombstone("Group", "g0", "x")}) is None

    def test_of_what_is_new_is_nobody(self) -> None:
        """Nothing was there."""
        assert writer_of(Match(STAFF), [PENDING], {}) is None

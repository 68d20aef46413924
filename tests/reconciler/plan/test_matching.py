"""Matching manifests with entities: by name, by adoption, after a rename, or to be created."""

from dataclasses import replace
from typing import Any

import pytest
from tests.reconciler.factories import OWNER, changed, manifest, plan_for, settle, without, zone
from tests.reconciler.fake_server import World
from tests.reconciler.plan.values import OTHER, ZONE_ID, a_zone, entity, record, snapshot, tombstone

from reconciler.kinds import Entity, Manifest, Tombstone
from reconciler.kinds.values import ExternalName, Key
from reconciler.plan import check_guards
from reconciler.plan.matching import Match, Matcher, SnapshotIndex, Unresolved


class TestIdentity:
    def test_a_changed_identifier_is_an_update(self, world: World, company: list[Manifest]) -> None:
        """Identity is the manifest's name, kept in the record; the identifier may change."""
        settle(world, company)
        plan = settle(world, changed(company, "Resource", "calendar-api", identifier="https://new.example/"))

        assert plan.summary() == {"update": 1}

    def test_an_entity_without_owner_is_adopted(self, world: World) -> None:
        """It is matched by its handle, changed where it differs, and the plan says so."""
        settle(world, [zone()])
        zone_id = world.find("Zone", "workforce")["id"]
        entity = world.add(
            "Application", {"identifier": "agent", "name": "By hand", "description": "keep"}, zone_id
        )
        wanted = [zone(), manifest("Application", "agent", name="Agent")]
        plan = settle(world, wanted)

        assert plan.summary() == {"adopt": 1}
        assert (entity["id"], entity["spec"]["description"]) == (
            world.find("Application", "agent")["id"],
            "keep",
        )
        assert plan_for(world, wanted).empty

    def test_what_another_owner_manages_is_refused(self, world: World, company: list[Manifest]) -> None:
        """It must be released there first."""
        settle(world, company, owner="other/team")
        plan = plan_for(world, [zone()])

        assert "belongs to the configuration `other/team`" in check_guards(plan, {})[0].message
        assert plan.empty

    def test_a_platform_entity_is_not_adopted(self, world: World) -> None:
        """A role of our own may have the identifier of a platform role."""
        settle(world, [zone()])
        plan = plan_for(world, [zone(), manifest("Role", "zone_viewer", description="ours")])

        assert plan.summary() == {"create": 1}

    def test_a_renamed_manifest_keeps_its_entity(self, world: World, company: list[Manifest]) -> None:
        """`previous_names` turns delete and create into a rename."""
        settle(world, company)
        group = manifest(
            "Group", "people", name="Staff", identifier="staff", members=["a@example.com", "b@example.com"],
            lifecycle={"previous_names": ["staff"]},
        )  # fmt: skip
        before = world.find("Group", "staff")["id"]
        wanted = without(company, "staff", "staff-reads", "staff-views")
        settle(world, without(company, "staff-reads", "staff-views"))
        plan = settle(world, [*wanted, group])

        assert plan.summary() == {"rename": 1}
        assert world.find("Group", "people")["id"] == before
        assert plan_for(world, [*wanted, group]).empty

    def test_a_rename_without_saying_so_is_refused(self, world: World, company: list[Manifest]) -> None:
        """Delete and create of one identifier is offered as a rename."""
        settle(world, company)
        group = manifest("Group", "people", name="Staff", identifier="staff")
        plan = plan_for(world, [*without(company, "staff", "staff-reads", "staff-views"), group])

        assert "previous_names: [staff]" in check_guards(plan, {"deletes": 3})[0].message


class TestReplacing:
    def test_a_fixed_member_means_replacement(self, world: World, company: list[Manifest]) -> None:
        """A role's identifier cannot change; what is given with the old one is given anew."""
        settle(world, company)
        wanted = changed(company, "Role", "reader", identifier="writer")
        plan = settle(world, wanted)

        assert plan.summary() == {"replace": 2}
        assert {action.title for action in plan.actions} == {
            "Role workforce/reader",
            "RoleAssignment workforce/staff-reads",
        }
        assert plan_for(world, wanted).empty

    def test_one_alternative_for_another_means_replacement(
        self, world: World, company: list[Manifest]
    ) -> None:
        """A role given to a group and then to an application instead is a new assignment."""
        settle(world, company)
        wanted = changed(company, "RoleAssignment", "staff-reads", principal={"application": "agent"})
        plan = settle(world, wanted)

        assert plan.summary() == {"replace": 1}
        assert plan_for(world, wanted).empty

    def test_a_protected_entity_is_not_replaced(self, world: World) -> None:
        """Protection is read from the server."""
        settle(world, [zone(), manifest("Role", "reader", lifecycle={"protect": True})])
        plan = plan_for(world, [zone(), manifest("Role", "reader", identifier="writer")])

        assert [each.code for each in check_guards(plan, {})] == ["protected"]


# --- one rule at a time

KEY = {"application": "agent", "type": "password"}


def matcher(
    *manifests: Manifest, found: tuple[Entity, ...] = (), gone: tuple[Tombstone, ...] = ()
) -> Matcher:
    """The matches of these manifests and a zone's."""
    return Matcher([zone(), *manifests], snapshot(a_zone(), *found, tombstones=gone), OWNER)


def match_of(made: Manifest, *found: Entity, gone: tuple[Tombstone, ...] = ()) -> Match:
    """The match of one manifest."""
    return matcher(made, found=found, gone=gone).matches[made.key]


def wanted(made: Manifest, *others: Manifest, found: tuple[Entity, ...] = ()) -> dict[str, Any]:
    """What a manifest wants, in the API's form."""
    matches = matcher(made, *others, found=found)
    matches.resolve(matches.matches[made.key])
    return matches.matches[made.key].wanted


def unresolved(made: Manifest, *others: Manifest, found: tuple[Entity, ...] = ()) -> Unresolved:
    """The references of a manifest that name nothing on the server."""
    matches = matcher(made, *others, found=found)
    return matches.resolve(matches.matches[made.key])


STAFF = manifest("Group", "staff", name="Staff")


class TestIndex:
    INDEX = SnapshotIndex(
        snapshot(
            a_zone(),
            entity("Group", "g1", {"identifier": "a"}, owned=record("mine")),
            entity("Group", "g2", {"identifier": "b"}, owned=record("theirs", owner=OTHER)),
            entity("Group", "g3", {"identifier": "a"}, zone_id="z2"),
            tombstones=[tombstone("Group", "g8", "gone"), tombstone("Group", "g9", "gone", owner=OTHER)],
        ),
        OWNER,
    )

    def test_only_what_this_owner_manages_is_owned(self) -> None:
        """And counted."""
        assert {each.id for each in self.INDEX.owned.values()} == {ZONE_ID, "g1"}
        assert dict(self.INDEX.counts) == {"Zone": 1, "Group": 1}

    def test_handles_are_of_a_zone(self) -> None:
        """The same one in two zones is two."""
        assert [each.id for each in self.INDEX.by_handle[ZONE_ID, "Group", "a"]] == ["g1"]
        assert [each.id for each in self.INDEX.by_handle["z2", "Group", "a"]] == ["g3"]

    def test_only_ones_own_deletions_are_drift(self) -> None:
        """But references may have led to anybody's."""
        assert [each.id for each in self.INDEX.gone.values()] == ["g8"]
        assert set(self.INDEX.gone_by_id) == {"g8", "g9"}


class TestFinding:
    def test_the_name_in_the_record_comes_first(self) -> None:
        """Whatever it is called in the zone."""
        mine = entity("Group", "g1", {"identifier": "other"}, owned=record("staff"))
        by_hand = entity("Group", "g2", {"identifier": "staff"})
        found = match_of(STAFF, mine, by_hand)
        assert (found.found, found.adopted) == (mine, False)

    def test_a_handle_that_nobody_manages_is_adopted(self) -> None:
        """Where no record has the name."""
        by_hand = entity("Group", "g2", {"identifier": "staff"})
        found = match_of(STAFF, by_hand)
        assert (found.found, found.adopted, found.foreign) == (by_hand, True, None)

    def test_a_handle_of_another_owner_is_noted(self) -> None:
        """And nothing is found."""
        theirs = entity("Group", "g2", {"identifier": "staff"}, owned=record("crew", owner=OTHER))
        found = match_of(STAFF, theirs)
        assert (found.found, found.adopted, found.foreign) == (None, False, OTHER)

    @pytest.mark.parametrize(
        "other",
        [
            entity("Group", "g2", {"identifier": "staff"}, owner_type="platform"),
            entity("Group", "g2", {"identifier": "staff"}, zone_id="z2"),
            entity("Role", "g2", {"identifier": "staff"}),
            entity("Group", "g2", {"identifier": "staff"}, owned=record("crew")),
        ],
        ids=["the service's", "another zone's", "another kind's", "under another name of ours"],
    )
    def test_nothing_else_is_taken(self, other: Entity) -> None:
        """It is made anew."""
        found = match_of(STAFF, other)
        assert (found.found, found.foreign, found.new) == (None, None, True)

    def test_what_one_manifest_has_no_other_adopts(self) -> None:
        """Two manifests never stand for one entity."""
        mine = entity("Group", "g1", {"identifier": "staff"}, owned=record("crew"))
        matches = matcher(STAFF, manifest("Group", "crew", name="C", identifier="c"), found=(mine,)).matches
        assert [matches[Key("workforce", "Group", name)].found for name in ("crew", "staff")] == [mine, None]

    def test_in_a_zone_that_is_new_nothing_is_found(self) -> None:
        """Even if something in no zone has the handle."""
        made = manifest("Group", "staff", "fresh", name="S")
        matches = Matcher(
            [zone("fresh"), made], snapshot(entity("Group", "g1", {"identifier": "staff"})), OWNER
        )
        assert matches.matches[made.key].found is None
        assert matches.zone_id(made) == ""

    @pytest.mark.parametrize(
        "owned", [record("staff"), record("crew", owner=OTHER), None], ids=["ours", "others", "nobody"]
    )
    def test_what_is_released_is_what_has_the_handle(self, owned: Any) -> None:
        """Whoever has it by now: the manifest stays until it is handed over."""
        there = entity("Group", "g1", {"identifier": "staff"}, owned=owned)
        found = match_of(manifest("Group", "staff", name="S", lifecycle={"release": True}), there)
        assert (found.found, found.new, found.adopted, found.foreign) == (there, False, False, None)


class TestNames:
    def test_a_previous_name_finds_the_entity(self) -> None:
        """It has that one in its record."""
        crew = entity("Group", "g1", owned=record("crew"))
        found = match_of(
            manifest("Group", "staff", name="S", lifecycle={"previous_names": ["x", "crew"]}), crew
        )
        assert (found.found, found.previous_name) == (crew, "crew")

    def test_a_previous_name_means_nothing_once_it_is_renamed(self) -> None:
        """The manifest may say it as long as it likes."""
        mine = entity("Group", "g1", owned=record("staff"))
        found = match_of(manifest("Group", "staff", name="S", lifecycle={"previous_names": ["crew"]}), mine)
        assert (found.found, found.previous_name) == (mine, None)

    def test_of_two_the_one_that_fits_best_is_found(self) -> None:
        """By what it is called, then by the rest."""
        first = entity("Group", "g1", {"identifier": "x", "name": "S"}, owned=record("staff"))
        second = entity("Group", "g2", {"identifier": "y", "name": "other"}, owned=record("crew"))
        made = manifest("Group", "staff", name="S", identifier="y", lifecycle={"previous_names": ["crew"]})
        assert match_of(made, first, second).found is second


class TestDeletedByOthers:
    @pytest.mark.parametrize(
        ("gone", "deleted"),
        [
            (tombstone("Group", "g0", "staff"), True),
            (tombstone("Group", "g0", "crew"), True),
            (tombstone("Group", "g0", "other"), False),
            (tombstone("Role", "g0", "staff"), False),
            (tombstone("Group", "g0", "staff", zone_id="z2"), False),
            (tombstone("Group", "g0", "staff", owner=OTHER), False),
        ],
        ids=["its name", "a previous name", "another name", "another kind", "another zone", "another owner"],
    )
    @pytest.mark.parametrize("adopted", [True, False])
    def test_is_known_by_the_name_that_it_had(self, gone: Tombstone, deleted: bool, adopted: bool) -> None:
        """Whether it is made again, or somebody has made another one."""
        made = manifest("Group", "staff", name="S", lifecycle={"previous_names": ["crew"]})
        there = [entity("Group", "g1", {"identifier": "staff"})] if adopted else []
        assert (match_of(made, *there, gone=(gone,)).deleted is not None) is deleted

    def test_what_is_there_was_not_deleted(self) -> None:
        """It has been made again since."""
        mine = entity("Group", "g1", owned=record("staff"))
        assert match_of(STAFF, mine, gone=(tombstone("Group", "g0", "staff"),)).deleted is None

    def test_what_is_released_does_not_come_back(self) -> None:
        """Nobody wants it."""
        made = manifest("Group", "staff", name="S", lifecycle={"release": True})
        assert match_of(made, gone=(tombstone("Group", "g0", "staff"),)).deleted is None

    def test_what_was_in_a_deleted_zone_was_deleted_with_it(self) -> None:
        """Both are made again."""
        gone = (
            tombstone("Zone", "z0", "workforce", zone_id=None),
            tombstone("Group", "g0", "staff", zone_id="z0"),
        )
        matches = Matcher([zone(), STAFF], snapshot(tombstones=gone), OWNER).matches
        assert all(each.deleted is not None for each in matches.values())


class TestMatch:
    @pytest.mark.parametrize(
        ("path", "ignored"),
        [("protocols", True), ("protocols.oauth2", True), ("protocolsx", False), ("name", False)],
    )
    def test_ignores_a_member_with_all_that_is_in_it(self, path: str, ignored: bool) -> None:
        """Whole names count."""
        assert Match(manifest("Group", "g", lifecycle={"ignore": ["protocols"]})).ignores(path) is ignored

    def test_is_referred_to_by_id_while_it_stays(self) -> None:
        """What is made, or made anew, by the changeset's own name."""
        there = entity("Group", "g1")
        assert Match(STAFF, there).pointer == {"id": "g1"}
        assert Match(STAFF, there, replaced=["x"]).pointer == {"local_id": "Group/workforce/staff"}
        assert Match(STAFF).pointer == {"local_id": "Group/workforce/staff"}

    def test_the_changesets_name_tells_kind_zone_and_name_apart(self) -> None:
        """Slashes and all."""
        odd = manifest("Group", "a/b", "w%x", name="S")
        matches = Matcher([zone("w%x"), odd], snapshot(), OWNER).matches
        assert matches[odd.key].local_id == "Group/w%25x/a%2Fb"
        assert matches[Key(None, "Zone", "w%x")].local_id == "Zone//w%25x"

    def test_the_changesets_name_is_never_too_long(self) -> None:
        """Two that differ at the end differ still."""
        made = [manifest("Group", "n" * 300 + end, name="S") for end in "ab"]
        names = {matcher(*made).matches[each.key].local_id for each in made}
        assert len(names) == 2
        assert max(map(len, names)) <= 255


class TestResolving:
    def test_a_handle_that_is_left_out_is_the_name(self) -> None:
        """The server would decide another one."""
        assert wanted(STAFF) == {"name": "Staff", "identifier": "staff"}
        assert wanted(manifest("Group", "staff", name="S", identifier="x"))["identifier"] == "x"

    @pytest.mark.parametrize("said", [None, False, True])
    def test_a_policy_set_decides_unless_it_says_otherwise(self, said: bool | None) -> None:
        """What takes effect by itself is git's, said or not."""
        spec: dict[str, Any] = {"policies": []} if said is None else {"policies": [], "active": said}
        assert wanted(manifest("PolicySet", "main", **spec))["active"] is (said is not False)

    def test_a_reference_is_an_id_or_what_the_changeset_makes(self) -> None:
        """Under the API's name of the member."""
        agent, key = manifest("Application", "agent", name="A"), manifest("ApplicationCredential", "k", **KEY)
        there = entity("Application", "a1", owned=record("agent"))
        assert wanted(key, agent, found=(there,))["application_id"] == "a1"
        assert wanted(key, agent)["application_id"] == {"local_id": "Application/workforce/agent"}

    @pytest.mark.parametrize("exists", [True, False])
    def test_a_released_object_is_referred_to_while_it_is_there(self, exists: bool) -> None:
        """Nobody makes it again."""
        agent = manifest("Application", "agent", name="A", lifecycle={"release": True})
        found = (entity("Application", "a1", {"identifier": "agent"}),) if exists else ()
        key = manifest("ApplicationCredential", "k", **KEY)
        if exists:
            assert wanted(key, agent, found=found)["application_id"] == "a1"
        else:
            ((path, error),) = unresolved(key, agent)
            assert path == ("spec", "application")
            assert "agent" in str(error)

    ROLES = (
        entity("Role", "r1", {"identifier": "viewer"}, owner_type="platform"),
        entity("Role", "r2", {"identifier": "viewer"}),
    )

    @pytest.mark.parametrize(
        ("owner_type", "found"),
        [({}, "r2"), ({"owner_type": "platform"}, "r1"), ({"owner_type": "customer"}, "r2")],
        ids=str,
    )
    @pytest.mark.parametrize("order", [1, -1])
    def test_of_two_of_a_handle_the_customers_comes_first(
        self, owner_type: dict[str, str], found: str, order: int
    ) -> None:
        """Unless the reference says whose it is; whatever order the server has them in."""
        role = {"external": "viewer", **owner_type}
        given = manifest("RoleAssignment", "a", role=role, principal={"user": "ann@x.example"})
        assert wanted(given, found=self.ROLES[::order])["role_id"] == found

    def test_what_is_not_in_git_is_looked_up_when_the_zone_is_there(self) -> None:
        """The server does so in a zone that is made in the same changeset."""
        role = {"external": "viewer", "owner_type": "platform"}
        given = manifest("RoleAssignment", "a", "fresh", role=role, principal={"user": "a@x.example"})
        matches = Matcher([zone("fresh"), given], snapshot(), OWNER)
        matches.resolve(matches.matches[given.key])
        assert matches.matches[given.key].wanted["role_id"] == {**role, "kind": "Role"}

    def test_what_nobody_has_is_told_with_what_there_is(self) -> None:
        """Of that kind in that zone."""
        given = manifest(
            "RoleAssignment", "a", role={"external": "veiwer"}, principal={"user": "a@x.example"}
        )
        there = (*self.ROLES[:1], entity("Group", "g", {"identifier": "veiwers"}))
        ((path, error),) = unresolved(given, found=there)
        assert (path, error.word, list(error.known)) == (
            ("spec", "role", "external"),
            "veiwer",
            ["viewer"],
        )

    @pytest.mark.parametrize("exists", [True, False])
    def test_what_is_ignored_is_given_only_to_what_is_made(self, exists: bool) -> None:
        """Afterwards it is left alone."""
        made = manifest("Group", "staff", name="S", lifecycle={"ignore": ["name"]})
        found = (entity("Group", "g1", owned=record("staff")),) if exists else ()
        assert ("name" in wanted(made, found=found)) is not exists

    @pytest.mark.parametrize(
        ("folder", "path", "read"),
        [(".", "s.txt", "s.txt"), ("teams/a", "s.txt", "teams/a/s.txt"), ("teams/a", "/run/s", "/run/s")],
    )
    def test_a_secrets_file_is_beside_its_manifest(self, folder: str, path: str, read: str) -> None:
        """Relative to the root from then on; its version is one where none is said."""
        made = replace(manifest("Provider", "p", name="P", client_secret={"from_file": path}), folder=folder)
        matches = matcher(made)
        matches.resolve(matches.matches[made.key])
        assert matches.matches[made.key].secrets == {"client_secret": {"from_file": read, "version": "1"}}

    def test_a_kept_secret_has_no_source(self) -> None:
        """Nor a version."""
        made = manifest("Provider", "p", name="P", client_secret={"keep": True, "version": "7"})
        matches = matcher(made)
        matches.resolve(matches.matches[made.key])
        assert matches.matches[made.key].secrets == {"client_secret": {"keep": True}}


class TestNamesOutsideOfGit:
    PLACE = ExternalName("Group", "ops", "p.cedar:1:2")

    def missing(self, *found: Entity) -> list[str]:
        """What a policy names and the server does not have."""
        made = replace(manifest("Policy", "p", cedar=""), outside=(self.PLACE,))
        matches = matcher(made, found=found)
        return matches.missing(matches.matches[made.key])

    @pytest.mark.parametrize("owned", [None, record("ops", owner=OTHER)], ids=["nobody's", "another's"])
    def test_what_others_have_is_there(self, owned: Any) -> None:
        """The plan does not touch it."""
        assert self.missing(entity("Group", "g", {"identifier": "ops"}, owned=owned)) == []

    def test_what_is_not_there_is_told_with_its_place(self) -> None:
        """Line and column."""
        (told,) = self.missing(entity("Role", "g", {"identifier": "ops"}))
        assert str(told).startswith("p.cedar:1:2: ")

    def test_what_this_plan_deletes_is_not_there(self) -> None:
        """This owner manages it, and no manifest describes it any more."""
        assert len(self.missing(entity("Group", "g", {"identifier": "ops"}, owned=record("ops")))) == 1

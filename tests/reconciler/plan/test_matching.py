"""Which entity a manifest stands for: by name, by adoption, after a rename, or a new one in its place."""

from tests.reconciler.factories import changed, manifest, plan_for, settle, without, zone
from tests.reconciler.fake_server import World

from reconciler.kinds import Manifest
from reconciler.plan import check_guards


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

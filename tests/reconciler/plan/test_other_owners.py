"""Zones and objects of other configurations, as manifests of this one name them."""

from typing import Any

import pytest
from tests.reconciler.factories import OWNER, carry_out, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import World
from tests.reconciler.plan.values import a_zone, entity

from reconciler.kinds import Manifest
from reconciler.manifests.diagnostics import suggest
from reconciler.plan import Plan, PlanImpossible, build_plan, check_guards
from reconciler.plan.drift import detect_drift
from reconciler.plan.other_owners import OtherOwners, ReferenceUnresolved
from reconciler.report.change_notes import unmanaged_line

PLATFORM, PAYMENTS = "platform", "payments"
RECORD = {"fields": [], "applied": {}, "secret_versions": {}, "source": {}, "protect": False}
AGENT = {"name": "Agent", "identifier": "payments-agent"}


def planned(
    world: World,
    *manifests: Manifest,
    owner: str = PAYMENTS,
    zones: dict[str, str | None] | None = None,
) -> Plan:
    """The plan of an owner whose zones are somebody else's."""
    elsewhere = {"workforce": None} if zones is None else zones
    return build_plan(
        manifests,
        world.snapshot(),
        world.kinds,
        owner=owner,
        tool_version="test",
        zones=elsewhere,
        hint=suggest,
    )


def refused(world: World, *manifests: Manifest, **more: Any) -> str:
    """The one thing that makes a plan impossible."""
    with pytest.raises(PlanImpossible) as caught:
        planned(world, *manifests, **more)
    (problem,) = caught.value.problems
    return str(problem)


@pytest.fixture
def shared(world: World) -> World:
    """A zone of the platform's, with a resource in it."""
    settle(
        world,
        [zone(), manifest("Resource", "calendar", name="Calendar", identifier="https://calendar.example")],
        owner=PLATFORM,
    )
    return world


class TestZones:
    def test_is_found_by_its_owners_name(self, shared: World) -> None:
        """What is made in it is ours, and the next plan is empty; the zone stays the platform's."""
        plan = planned(shared, manifest("Application", "agent", **AGENT))
        assert plan.summary() == {"create": 1}
        carry_out(shared, plan)

        assert planned(shared, manifest("Application", "agent", **AGENT)).empty
        assert shared.find("Zone", "workforce")["ownership"]["owner"] == PLATFORM
        assert plan_for(
            shared,
            [
                zone(),
                manifest("Resource", "calendar", name="Calendar", identifier="https://calendar.example"),
            ],
            owner=PLATFORM,
        ).empty

    def test_is_found_by_its_slug(self, world: World) -> None:
        """A zone that was made by hand has no other name."""
        world.add("Zone", {"name": "Work Force"})
        agent = manifest("Application", "agent", "work-force", **AGENT)
        assert planned(world, agent, zones={"work-force": None}).summary() == {"create": 1}

    def test_unknown_zone_is_told_with_what_was_meant(self, shared: World) -> None:
        """The manifest, the name, and the one that is like it."""
        agent = manifest("Application", "agent", "workfroce", **AGENT)
        told = refused(shared, agent, zones={"workfroce": None})
        assert told == (
            "Application.yaml:1: there is no Zone `workfroce` on the server; did you mean `workforce`?"
        )

    def test_what_could_have_been_meant_are_names_and_slugs(self) -> None:
        """Of zones that have any."""
        nameless = entity("Zone", "z3", {"name": "hidden"})
        zones = OtherOwners([a_zone(), a_zone("wild", zone_id="z2", owner=None), nameless], PAYMENTS, {})
        with pytest.raises(ReferenceUnresolved) as caught:
            zones.zone("workfroce")
        assert (caught.value.word, set(caught.value.known)) == (
            "workfroce",
            {"workforce", "workforce-slug", "wild-slug"},
        )

    def test_two_of_a_name_take_the_owner(self, shared: World) -> None:
        """Names are their owner's: two may each call a zone so."""
        settle(shared, [zone(name="workforce")], owner=PLATFORM)
        other = shared.add("Zone", {"name": "Elsewhere"})
        other["ownership"] = {**shared.find("Zone", "workforce")["ownership"], "owner": "partners"}
        agent = manifest("Application", "agent", **AGENT)

        assert "there are 2 zones `workforce`, of `partners` and `platform`" in refused(shared, agent)
        (operation,) = planned(shared, agent, zones={"workforce": "partners"}).operations
        assert operation["zone"] == {"id": other["id"]}

    @pytest.mark.threat("49p")
    def test_nobody_steps_into_anothers_place(self, world: World) -> None:
        """Whoever calls a zone as another one is called by its slug is not taken for that one."""
        made = world.add("Zone", {"name": "workforce"})
        agent = manifest("Application", "agent", **AGENT)
        assert planned(world, agent).operations[0]["zone"] == {"id": made["id"]}
        other = world.add("Zone", {"name": "Elsewhere"})
        other["ownership"] = {**RECORD, "owner": "evil", "name": "workforce"}
        assert "there are 2 zones `workforce`, of `evil` and `no owner`" in refused(world, agent)
        made["ownership"] = {**RECORD, "owner": PLATFORM, "name": "workforce"}
        found = planned(world, agent, zones={"workforce": PLATFORM})
        assert found.operations[0]["zone"] == {"id": made["id"]}

    def test_own_zone_without_a_manifest_is_no_neighbours(self, shared: World) -> None:
        """It would be deleted, with what the manifests describe in it."""
        agent = manifest("Application", "agent", **AGENT)
        assert "belongs to this configuration, but has no manifest" in refused(shared, agent, owner=PLATFORM)


class TestReferences:
    @pytest.mark.parametrize(
        "reference",
        [{"owner": PLATFORM, "name": "calendar"}, {"external": "https://calendar.example"}],
        ids=["owner-and-name", "identifier"],
    )
    def test_to_what_another_manages(self, shared: World, reference: dict[str, str]) -> None:
        """By its owner's name for it, and by its identifier."""
        agent = manifest("Application", "agent", dependencies=[reference], **AGENT)
        (operation,) = planned(shared, agent).operations
        assert operation["spec"]["dependencies"] == [shared.find("Resource", "calendar")["id"]]

    @pytest.mark.parametrize(
        ("reference", "told"),
        [
            (
                {"owner": PLATFORM, "name": "calender"},
                "`platform` manages no Resource `calender` in this zone; did you mean `calendar`?",
            ),
            (
                {"owner": "platfrom", "name": "calendar"},
                "`platfrom` manages nothing in this zone; did you mean `platform`?",
            ),
            (
                {"owner": PAYMENTS, "name": "calendar"},
                "`payments` is this configuration: refer to Resource `calendar` by its name, without `owner`",
            ),
            (
                {"external": "https://calender.example"},
                "there is no Resource `https://calender.example` on the server; did you mean `{good}`?",
            ),
        ],
    )
    def test_unknown_ones_are_told(self, shared: World, reference: dict[str, str], told: str) -> None:
        """What is not there, and what was probably meant."""
        good = {"owner": PLATFORM, "name": "calendar"}
        assert planned(shared, manifest("Application", "agent", dependencies=[good], **AGENT)).operations
        agent = manifest("Application", "agent", dependencies=[reference], **AGENT)
        told = told.replace("{good}", "https://calendar.example")
        assert refused(shared, agent) == f"Application.yaml:1: {told}"

    def test_are_shown_with_whose_they_are(self, shared: World) -> None:
        """A reviewer sees that it is not this configuration's own."""
        reference = {"owner": PLATFORM, "name": "calendar"}
        plan = planned(shared, manifest("Application", "agent", dependencies=[reference], **AGENT))
        shown = {change.path: change.after for change in plan.actions[0].changes}
        assert shown["dependencies"] == ["Resource/calendar of platform"]


CALENDAR: dict[str, Any] = {"name": "Calendar", "identifier": "https://calendar.example"}


class TestHandOver:
    """The platform releases its calendar, then the manifest of payments adopts it."""

    THEIRS = manifest("Resource", "calendar", **CALENDAR)
    GIVEN = manifest("Resource", "calendar", lifecycle={"release": True}, **CALENDAR)

    @pytest.fixture
    def released(self, shared: World) -> World:
        """The platform has applied `release`."""
        settle(shared, [zone(), self.GIVEN], owner=PLATFORM)
        return shared

    @pytest.fixture
    def handed_over(self, released: World) -> World:
        """Payments has applied its manifest."""
        carry_out(released, planned(released, self.THEIRS))
        return released

    def test_what_another_manages_is_not_adopted_before_it_is_released(self, shared: World) -> None:
        """The plan does nothing, and is refused with what the other owner has to do first."""
        foreign = planned(shared, self.THEIRS)
        assert foreign.empty
        message = check_guards(foreign, {})[0].message
        assert "let `platform` apply `lifecycle: {release: true}` first" in message

    def test_the_first_owner_releases_it(self, shared: World) -> None:
        """That is all its plan does."""
        plan = settle(shared, [zone(), self.GIVEN], owner=PLATFORM)
        assert plan.summary() == {"release": 1}
        assert [operation["op"] for operation in plan.operations] == ["release"]

    def test_it_is_released_once(self, released: World) -> None:
        """The manifest that says so may stay: its next plan is empty."""
        assert plan_for(released, [zone(), self.GIVEN], owner=PLATFORM).empty

    def test_the_second_owner_adopts_what_is_released(self, released: World) -> None:
        """An ordinary manifest is enough."""
        assert planned(released, self.THEIRS).summary() == {"adopt": 1}

    def test_it_stays_the_same_object_under_its_new_owner(self, shared: World) -> None:
        """Its id is the one from before."""
        before = shared.find("Resource", "calendar")["id"]
        settle(shared, [zone(), self.GIVEN], owner=PLATFORM)
        carry_out(shared, planned(shared, self.THEIRS))
        found = shared.find("Resource", "calendar")
        assert (found["id"], found["ownership"]["owner"]) == (before, PAYMENTS)

    def test_the_next_plan_of_the_second_owner_is_empty(self, handed_over: World) -> None:
        """It has adopted everything."""
        assert planned(handed_over, self.THEIRS).empty

    @pytest.mark.parametrize("kept", [True, False], ids=["manifest-kept", "manifest-removed"])
    def test_the_next_plan_of_the_first_owner_is_empty(self, handed_over: World, kept: bool) -> None:
        """Whether the manifest that releases stays in git or not: nothing is deleted."""
        left = [zone(), self.GIVEN] if kept else [zone()]
        assert plan_for(handed_over, left, owner=PLATFORM).empty

    @pytest.mark.parametrize("description", ["reads", "writes"])
    def test_what_cannot_change_is_let_go_as_it_is(self, shared: World, description: str) -> None:
        """What the manifest says no longer matters: nothing is replaced, and nothing deleted."""
        role = manifest("Role", "reader", description="reads", identifier="reader")
        settle(shared, [zone(), role], owner=PLATFORM)
        given = manifest(
            "Role", "reader", description=description, identifier="reader", lifecycle={"release": True}
        )
        plan = plan_for(shared, [zone(), given], owner=PLATFORM)
        assert [each["op"] for each in plan.operations if each["kind"] == "Role"] == ["release"]

    def test_what_is_released_can_be_referred_to(self, shared: World) -> None:
        """Its manifest stays as long as others name it; it changes nothing."""
        given = manifest(
            "Resource",
            "calendar",
            name="Another name",
            identifier="https://calendar.example",
            lifecycle={"release": True},
        )
        agent = manifest("Application", "agent", name="Agent", dependencies=["calendar"])
        plan = settle(shared, [zone(), given, agent], owner=PLATFORM)

        assert plan.summary() == {"create": 1, "release": 1}
        calendar = shared.find("Resource", "https://calendar.example")
        assert shared.find("Application", "agent")["spec"]["dependencies"] == [calendar["id"]]
        assert (calendar["spec"]["name"], calendar["ownership"]) == ("Calendar", None)

    def test_a_zone_is_handed_over_with_what_is_in_it_staying(self, shared: World) -> None:
        """The platform goes on describing what it has in the zone, by the name that it had for it."""
        calendar = manifest("Resource", "calendar", name="Calendar", identifier="https://calendar.example")
        given = manifest("Zone", "workforce", name="workforce", lifecycle={"release": True})
        settle(shared, [given, calendar], owner=PLATFORM)
        plan = planned(shared, zone(), zones={})
        assert plan.summary() == {"adopt": 1}
        carry_out(shared, plan)

        assert plan_for(shared, [given, calendar], owner=PLATFORM).empty
        assert planned(shared, calendar, owner=PLATFORM).empty

    def test_what_is_not_there_is_no_reference(self, shared: World) -> None:
        """A released object that somebody has deleted cannot be referred to."""
        given = manifest("Resource", "gone", identifier="https://gone.example", lifecycle={"release": True})
        agent = manifest("Application", "agent", dependencies=["gone"], **AGENT)
        assert "is released and does not exist on the server" in refused(shared, given, agent)


def test_names_of_two_owners_do_not_meet(shared: World) -> None:
    """Both have an `agent` in one zone; neither plan sees the other's."""
    mine = manifest("Application", "agent", **AGENT)
    theirs = manifest("Application", "agent", name="Agent", identifier="agent")
    carry_out(shared, planned(shared, mine))
    carry_out(shared, planned(shared, theirs, owner=OWNER))

    assert planned(shared, mine).empty
    assert planned(shared, theirs, owner=OWNER).empty


def test_what_decides_is_not_taken_from_another(shared: World) -> None:
    """One policy set of a zone decides: another owner's is not displaced, and one beside it is no error."""
    theirs = [zone(), manifest("PolicySet", "rules", name="rules", policies=[], active=True)]
    settle(shared, theirs, owner=PLATFORM)

    beside = manifest("PolicySet", "ours", name="ours", policies=[], active=False)
    assert check_guards(planned(shared, beside), {}) == []
    instead = manifest("PolicySet", "ours", name="ours", policies=[], active=True)
    (refusal,) = check_guards(planned(shared, instead), {})
    assert "`rules` of `platform` has it; write `active: false`" in refusal.message


class TestUnmanaged:
    """What is in no configuration, wherever this one has something."""

    def test_in_a_zone_of_another_owner(self, shared: World) -> None:
        """Where the manifests have something there; what its owner manages is in a configuration."""
        agent = manifest("Application", "agent", **AGENT)
        carry_out(shared, planned(shared, agent))
        assert not planned(shared, agent).unmanaged

        zone_id = shared.find("Zone", "workforce")["id"]
        by_hand = shared.add("Group", {"identifier": "by-hand", "name": "By hand"}, zone_id)
        elsewhere = shared.add("Zone", {"name": "Elsewhere"})
        shared.add("Group", {"identifier": "other", "name": "Other"}, elsewhere["id"])
        (found,) = planned(shared, agent).unmanaged
        assert (found.title, found.id) == ("Group workforce/by-hand", by_hand["id"])
        assert not planned(shared, manifest("ServiceAccount", "ci")).unmanaged

    def test_that_is_attached_to_what_is_managed_there(self, shared: World) -> None:
        """A credential by hand for our application in the platform's zone is drift of ours."""
        agent = manifest("Application", "agent", **AGENT)
        carry_out(shared, planned(shared, agent))
        ours = shared.find("Application", "agent")
        spec = {"identifier": "second", "type": "public", "application_id": ours["id"]}
        shared.add("ApplicationCredential", spec, ours["zone_id"])

        drift = detect_drift(planned(shared, agent))

        assert [(each.title, each.attached_to) for each in drift.attached] == [
            ("ApplicationCredential workforce/second", ("Application/agent",))
        ]

    def test_of_the_organization_where_the_configuration_has_some(self, shared: World) -> None:
        """Service accounts, for a configuration that has service accounts; told as what is in no zone."""
        shared.add("ServiceAccount", {"name": "by-hand"})
        assert not planned(shared, manifest("Application", "agent", **AGENT)).unmanaged

        plan = planned(shared, manifest("ServiceAccount", "ci"))
        (found,) = plan.unmanaged
        assert (found.title, found.zone) == ("ServiceAccount by-hand", None)
        assert unmanaged_line(plan.unmanaged).startswith(
            "1 object in the organization is in no configuration"
        )
        carry_out(shared, plan)
        (found,) = planned(shared, manifest("ServiceAccount", "ci")).unmanaged
        assert found.name == "by-hand"

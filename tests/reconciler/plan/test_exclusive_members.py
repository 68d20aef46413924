"""Values that one object of a zone can have: adopted, released before reuse, created again elsewhere."""

from typing import Any

import click
import pytest
from tests.reconciler.factories import OWNER, AnyWorld, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import World
from tests.reconciler.plan.values import OTHER, entity, record
from tests.reconciler.real_server import RealWorld
from tests.support.applying import Git, adopt, on

from reconciler.kinds import Entity, Manifest, load_kinds
from reconciler.plan import Action
from reconciler.plan.exclusive_members import taken_from_others
from reconciler.plan.model import Op
from reconciler.report.plans import plan_lines
from reconciler.terminal import rendered

COMPANY = [
    zone(),
    manifest("Group", "staff", name="Staff"),
    manifest("Application", "agent", name="Agent"),
    manifest("Role", "x"),
    manifest("Role", "y"),
]
Spec = dict[str, Any]
PRINCIPALS: list[Spec] = [
    {"group": "staff"},
    {"application": "agent"},
    {"group": {"external": "staff"}},
    {"user": "Ann@example.org"},
]


def given(name: str, role: Any, principal: dict[str, Any]) -> Manifest:
    """That somebody has a role."""
    return manifest("RoleAssignment", name, role=role, principal=principal)


def found(world: AnyWorld, kind: str) -> list[Entity]:
    """What there is of a kind that is not the service's."""
    entities = world.snapshot().entities
    zones = {each.id for each in entities if each.kind == "Zone" and each.ownership}
    ours = [each for each in entities if each.kind == kind and each.zone_id in zones]
    return [each for each in ours if each.owner_type != "platform"]


def released(world: AnyWorld, kind: str) -> str:
    """Let nobody manage what there is of a kind; its id."""
    (entity,) = found(world, kind)
    if isinstance(world, World):
        world.entities[entity.id]["ownership"] = None
    elif isinstance(world, RealWorld):
        world.run(Git(world.company).apply(on("release", kind, entity.id)))
    return entity.id


def hand_to_another(world: AnyWorld, kind: str, entity_id: str) -> None:
    """Let another configuration manage what nobody does."""
    if isinstance(world, World):
        record = {"owner": "acme/other", "name": "a", "fields": [], "applied": {}}
        world.entities[entity_id]["ownership"] = {**record, "secret_versions": {}, "protect": False}
    elif isinstance(world, RealWorld):
        git = Git(world.company, owner="acme/other")
        world.run(git.apply({**adopt(kind, entity_id, "a"), "spec": {}}))


def only(actions: tuple[Action, ...]) -> Action:
    """The only action."""
    (action,) = actions
    return action


class TestAdoption:
    @pytest.mark.parametrize("principal", PRINCIPALS, ids=str)
    def test_a_grant_is_adopted_by_what_it_gives(
        self, any_world: AnyWorld, principal: dict[str, Any]
    ) -> None:
        """A role assignment has no handle: it is the same when the same role is given to the same."""
        settle(any_world, [*COMPANY, given("a", "x", principal)])
        there = released(any_world, "RoleAssignment")
        plan = settle(any_world, [*COMPANY, given("b", "x", principal)])

        assert (only(plan.actions).op, only(plan.actions).id) == (Op.ADOPT, there)
        assert [each.id for each in found(any_world, "RoleAssignment")] == [there]
        assert plan_for(any_world, [*COMPANY, given("b", "x", principal)]).empty

    def test_another_grant_is_not(self, any_world: AnyWorld) -> None:
        """Another role, or somebody else."""
        settle(any_world, [*COMPANY, given("a", "x", {"group": "staff"})])
        released(any_world, "RoleAssignment")
        others = [given("b", "y", {"group": "staff"}), given("c", "x", {"application": "agent"})]
        plan = settle(any_world, [*COMPANY, *others])

        assert {action.op for action in plan.actions} == {Op.CREATE}

    def test_a_grant_of_another_configuration_is_told(self, any_world: AnyWorld) -> None:
        """It is handed over, or left to the other one."""
        settle(any_world, [*COMPANY, given("a", "x", {"group": "staff"})])
        hand_to_another(any_world, "RoleAssignment", released(any_world, "RoleAssignment"))
        plan = plan_for(any_world, [*COMPANY, given("b", "x", {"group": "staff"})])

        (refused,) = plan.refused
        assert "RoleAssignment `b` belongs to the configuration `acme/other`" in refused


class TestGivingUp:
    @pytest.mark.parametrize("principal", PRINCIPALS, ids=str)
    def test_one_takes_what_another_had_that_goes(
        self, any_world: AnyWorld, principal: dict[str, Any]
    ) -> None:
        """What goes makes way before the other one is made."""
        settle(any_world, [*COMPANY, given("a", "x", principal), given("b", "y", principal)])
        settle(any_world, [*COMPANY, given("a", "y", principal)])

        (left,) = found(any_world, "RoleAssignment")
        assert left.ownership is not None
        assert left.ownership.name == "a"

    def test_a_grant_under_another_name(self, any_world: AnyWorld) -> None:
        """Also when nobody said that it was called otherwise."""
        settle(any_world, [*COMPANY, given("a", "x", {"group": "staff"})])
        settle(any_world, [*COMPANY, given("b", "x", {"group": "staff"})])

        assert len(found(any_world, "RoleAssignment")) == 1

    def test_two_grants_are_exchanged(self, any_world: AnyWorld) -> None:
        """Each gets what the other was."""
        staff = {"group": "staff"}
        settle(any_world, [*COMPANY, given("a", "x", staff), given("b", "y", staff)])
        settle(any_world, [*COMPANY, given("a", "y", staff), given("b", "x", staff)])

        assert len(found(any_world, "RoleAssignment")) == 2

    @pytest.mark.parametrize("exchange", [{"a": "two"}, {"a": "two", "b": "one"}, {"a": "two", "b": "three"}])
    def test_identifiers_that_cannot_change(self, any_world: AnyWorld, exchange: dict[str, str]) -> None:
        """Roles and credentials are made anew under what another was called, whether that goes or not."""

        def company(identifiers: dict[str, str]) -> list[Manifest]:
            roles = [manifest("Role", name, identifier=each) for name, each in identifiers.items()]
            grants = [given(name, name, {"group": "staff"}) for name in identifiers]
            clients = [
                manifest("ApplicationCredential", name, application="agent", type="public", identifier=each)
                for name, each in identifiers.items()
            ]
            return [*COMPANY, *roles, *grants, *clients]

        settle(any_world, company({"a": "one", "b": "two"}))
        settle(any_world, company(exchange))

        handles = {
            (kind, each.ownership.name): each.handle
            for kind in ("Role", "ApplicationCredential")
            for each in found(any_world, kind)
            if each.ownership and each.ownership.name in "ab"
        }
        assert handles == {
            (kind, name): handle
            for kind in ("Role", "ApplicationCredential")
            for name, handle in exchange.items()
        }


class TestMoves:
    def test_nothing_moves_between_zones(self, any_world: AnyWorld) -> None:
        """What git says in another zone now is made there anew; the plan says that of both."""
        zones = [zone(), zone("other")]
        agent = [manifest("Application", "agent", at, name="Agent") for at in ("workforce", "other")]
        settle(any_world, [*zones, agent[0]])
        plan = plan_for(any_world, [*zones, agent[1]])
        told = click.unstyle("\n".join(rendered(line) for line in plan_lines(plan)))

        assert [(action.op, action.moved_from, action.moved_to) for action in plan.actions] == [
            (Op.CREATE, "workforce", None),
            (Op.DELETE, None, "other"),
        ]
        assert "create Application other/agent (moved from zone workforce: created as a new object" in told
        assert "delete Application workforce/agent (moved to zone other: its id, secrets and grants" in told

    def test_the_same_name_in_two_zones_is_no_move(self, any_world: AnyWorld) -> None:
        """Something new in a zone, while the other stays."""
        zones = [zone(), zone("other")]
        agent = [manifest("Application", "agent", at, name="Agent") for at in ("workforce", "other")]
        settle(any_world, [*zones, agent[0]])
        plan = plan_for(any_world, [*zones, *agent])

        assert only(plan.actions).moved_from is None


class TestTakenFromOthers:
    """What only one object of a zone can be is another owner's to give up."""

    DECIDING = entity("PolicySet", "s1", {"active": True}, owned=record("rules", owner=OTHER))

    def taken(
        self, wanted: dict[str, Any], *within: Entity, kind: str = "PolicySet"
    ) -> list[tuple[str, str]]:
        """Which member, and whose."""
        found = taken_from_others(load_kinds().by_name[kind], wanted, within, OWNER)
        return [(member, owned.name) for member, owned in found]

    def test_is_told_with_the_record_of_whoever_has_it(self) -> None:
        """So that the message can name both."""
        assert self.taken({"active": True}, self.DECIDING) == [("active", "rules")]

    @pytest.mark.parametrize("wanted", [{}, {"active": False}, {"active": None}], ids=str)
    def test_what_is_not_wanted_is_not_taken(self, wanted: dict[str, Any]) -> None:
        """A set that does not decide."""
        assert self.taken(wanted, self.DECIDING) == []

    @pytest.mark.parametrize(
        "other",
        [
            entity("PolicySet", "s1", {"active": False}, owned=record("rules", owner=OTHER)),
            entity("PolicySet", "s1", {"active": True}, owned=record("rules")),
            entity("PolicySet", "s1", {"active": True}),
            entity("Policy", "s1", {"active": True}, owned=record("rules", owner=OTHER)),
        ],
        ids=["does not have it", "ours", "nobody's", "another kind"],
    )
    def test_from_nobody_else_it_is_taken(self, other: Entity) -> None:
        """Nobody else minds."""
        assert self.taken({"active": True}, other) == []

    def test_a_kind_without_such_members_takes_nothing(self) -> None:
        """Most kinds."""
        assert self.taken({"active": True}, self.DECIDING, kind="Group") == []

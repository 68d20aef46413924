"""Laws that hold for any configuration and any server, found by generating both."""

import random
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reconciler.configurations import configurations
from tests.reconciler.factories import OWNER, carry_out, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import World
from tests.reconciler.plan.values import action
from tests.reconciler.plan.values import plan as plan_of

from reconciler.kinds import Manifest, load_kinds
from reconciler.plan import check_guards, read_plan
from reconciler.plan.delete_budget import delete_budget
from reconciler.plan.model import Op
from reconciler.plan.plan_consistency import inconsistencies
from reconciler.plan.zone_moves import with_zone_moves


def entity_by_hand(world: World, draw: Any) -> None:
    """Somebody changes the server behind our back."""
    entity = draw(st.sampled_from(sorted(world.entities)))
    spec = world.entities[entity]["spec"]
    if world.entities[entity]["owner_type"] == "customer" and "description" in spec:
        spec["description"] = "by hand"


@settings(max_examples=120, deadline=None)
@given(before=configurations(), after=configurations())
def test_after_any_apply_the_next_plan_is_empty(before: list[Manifest], after: list[Manifest]) -> None:
    """From any state that we made to any other: one changeset, and then nothing is left to do."""
    world = World(load_kinds())
    settle(world, before)
    plan = settle(world, after)
    assert not list(inconsistencies(plan))
    left = plan_for(world, after)

    assert left.empty, (plan.as_json(), left.as_json())
    assert not left.actions


@settings(max_examples=60, deadline=None)
@given(wanted=configurations(), data=st.data())
def test_what_others_did_is_put_back_or_left_alone(wanted: list[Manifest], data: st.DataObject) -> None:
    """Whatever was changed by hand, an apply leaves nothing to do."""
    world = World(load_kinds())
    settle(world, wanted)
    entity_by_hand(world, data.draw)
    assert not list(inconsistencies(settle(world, wanted)))

    assert plan_for(world, wanted).empty


@settings(max_examples=60, deadline=None)
@given(wanted=configurations(), seed=st.integers(0, 1000))
def test_a_plan_does_not_depend_on_the_order_of_files(wanted: list[Manifest], seed: int) -> None:
    """The same manifests in any order: the same plan, and the same digest."""
    world = World(load_kinds())
    shuffled = random.Random(seed).sample(wanted, len(wanted))

    assert plan_for(world, wanted).digest == plan_for(world, shuffled).digest


@settings(max_examples=60, deadline=None)
@given(ours=configurations(), theirs=configurations(), data=st.data())
def test_prune_never_touches_what_is_not_ours(
    ours: list[Manifest], theirs: list[Manifest], data: st.DataObject
) -> None:
    """Whatever we remove, what others own or nobody owns is not in the plan."""
    world = World(load_kinds())
    settle(world, theirs, owner="other/team")
    mine = [
        manifest(each.kind.name, each.name, "mine", **each.spec) for each in ours if each.kind.name == "Group"
    ]
    settle(world, [zone("mine"), *mine])
    by_hand = world.add(
        "Group", {"identifier": "by-hand", "name": "By hand"}, world.find("Zone", "mine")["id"]
    )["id"]
    kept = data.draw(st.lists(st.sampled_from(mine), unique_by=id)) if mine else []
    plan = plan_for(world, [zone("mine"), *kept])

    touched = {operation["id"] for operation in plan.operations}
    owners = {(world.entities[each]["ownership"] or {}).get("owner") for each in touched}
    assert owners <= {OWNER}
    assert by_hand not in touched
    assert len(touched) == len(mine) - len(kept)
    assert not [each for each in check_guards(plan, {}) if each.code != "deletes"]


@settings(max_examples=40, deadline=None)
@given(before=configurations(), after=configurations())
def test_operations_refer_only_to_what_was_made_before(before: list[Manifest], after: list[Manifest]) -> None:
    """A changeset can be carried out from the first operation to the last."""
    world = World(load_kinds())
    settle(world, before)
    plan = plan_for(world, after)
    made: set[str] = set()
    for operation in plan.operations:
        assert _local_ids(operation.get("spec")) | _local_ids(operation.get("zone")) <= made
        if operation["op"] == "create":
            made.add(operation["local_id"])
    if not plan.empty:
        carry_out(world, plan)


def _local_ids(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["local_id"]} if isinstance(value.get("local_id"), str) else set()
        return own.union(*(_local_ids(each) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(_local_ids(each) for each in value))
    return set()


@settings(max_examples=15, deadline=None)
@given(before=configurations(), after=configurations())
def test_any_plan_survives_being_saved(before: list[Manifest], after: list[Manifest]) -> None:
    """Read from its file it is the same plan, under the same digest, and says what its operations do."""
    world = World(load_kinds())
    settle(world, before)
    plan = plan_for(world, after)
    saved = read_plan(orjson.dumps(plan.as_json()))

    assert saved == plan
    assert saved.digest == plan.digest
    assert list(inconsistencies(saved)) == []


@settings(max_examples=15, deadline=None)
@given(before=configurations(), after=configurations())
def test_what_a_plan_counts_is_what_happens(before: list[Manifest], after: list[Manifest]) -> None:
    """As many are created and destroyed as its actions say, and those who consent to that are let through."""
    world = World(load_kinds())
    settle(world, before)
    there = {each.id for each in world.snapshot().entities if each.ownership}
    plan = plan_for(world, after)
    counts = {"deletes": len(plan.destroying), "unowned": sum(each.takes_along for each in plan.actions)}
    allowed = check_guards(plan, {name: count for name, count in counts.items() if count})
    settle(world, after)
    now = {each.id for each in world.snapshot().entities if each.ownership}

    assert {each.code for each in allowed} <= {"rename", "refused", "protected"}
    assert len(there - now) == len(plan.destroying) + plan.summary().get("release", 0)
    made = sum(plan.summary().get(op, 0) for op in ("create", "replace", "adopt"))
    assert len(now - there) == made


BUDGETS = st.none() | st.integers(0, 50) | st.integers(0, 100).map(lambda share: f"{share}%")


@given(owned=st.integers(0, 500), more=st.integers(0, 500), given_=BUDGETS)
def test_who_manages_more_has_no_smaller_budget(owned: int, more: int, given_: int | str | None) -> None:
    """Whatever the settings say; and a share is never more than all."""
    budgets = {} if given_ is None else {"Group": given_}
    budget = delete_budget("Group", owned, budgets)

    assert budget <= delete_budget("Group", owned + more, budgets)
    assert budget >= 0
    if isinstance(given_, str):
        assert budget <= owned


@given(
    owned=st.integers(0, 100), deleted=st.integers(0, 30), one=st.integers(0, 30), other=st.integers(0, 30)
)
def test_a_larger_budget_never_refuses_more(owned: int, deleted: int, one: int, other: int) -> None:
    """And without deletions nothing is refused, however small it is."""
    gone = [action(Op.DELETE, "Group", f"g{n}") for n in range(deleted)]
    smaller, larger = (
        bool(check_guards(plan_of(*gone, owned={"Group": owned}, budgets={"Group": budget}), {}))
        for budget in sorted((one, other))
    )

    assert smaller or not larger
    assert deleted or not smaller


NAMED = st.tuples(
    st.sampled_from([Op.CREATE, Op.DELETE, Op.UPDATE]), st.sampled_from("ab"), st.sampled_from("vw")
)


@given(st.lists(NAMED, max_size=6))
def test_moves_between_zones_come_in_pairs(drawn: list[tuple[Op, str, str]]) -> None:
    """Each end names the other's zone; found again they are the same."""
    found = with_zone_moves([action(op, "Group", name, zone=zone_name) for op, name, zone_name in drawn])
    left = sorted((each.name, each.zone or "", each.moved_to) for each in found if each.moved_to)
    came = sorted((each.name, each.moved_from, each.zone or "") for each in found if each.moved_from)

    assert left == came
    assert with_zone_moves(found) == found

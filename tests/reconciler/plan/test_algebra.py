"""Laws that hold for any configuration and any server, found by generating both."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reconciler.configurations import configurations
from tests.reconciler.factories import OWNER, carry_out, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import World

from reconciler.kinds import Manifest, load_kinds
from reconciler.plan import check_guards
from reconciler.plan.plan_consistency import inconsistencies


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

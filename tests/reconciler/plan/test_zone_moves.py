"""Moves between zones: one deletion and one creation of the same name are shown as a move."""

import pytest
from tests.reconciler.plan.values import action

from reconciler.plan import Action
from reconciler.plan.model import Op
from reconciler.plan.zone_moves import with_zone_moves


def gone(zone: str | None, name: str = "staff", kind: str = "Group") -> Action:
    """What is deleted in a zone."""
    return action(Op.DELETE, kind, name, zone=zone)


def made(zone: str | None, name: str = "staff", kind: str = "Group") -> Action:
    """What is created in a zone."""
    return action(Op.CREATE, kind, name, zone=zone)


def moves(*actions: Action) -> list[tuple[str | None, str | None]]:
    """Where each comes from and goes to."""
    return [(each.moved_from, each.moved_to) for each in with_zone_moves(actions)]


def test_both_actions_name_the_other_zone() -> None:
    """The deletion says where it is made anew, and the creation where it was."""
    assert moves(gone("old"), made("new")) == [(None, "new"), ("old", None)]


def test_the_order_of_the_two_does_not_matter() -> None:
    """Creations come before deletions in a plan, and nothing depends on that."""
    assert moves(made("new"), gone("old")) == [("old", None), (None, "new")]


@pytest.mark.parametrize(
    "others",
    [
        [made("new", "other")],
        [made("new", kind="Role")],
        [made("new"), made("third")],
        [made("new"), gone("older")],
        [action(Op.UPDATE, zone="new")],
        [action(Op.ADOPT, zone="new")],
        [action(Op.RELEASE, zone="new")],
    ],
    ids=["another name", "another kind", "two are made", "two go", "updated", "adopted", "released"],
)
def test_anything_else_is_no_move(others: list[Action]) -> None:
    """Only one deletion and one creation of the same kind and name are a pair."""
    assert set(moves(gone("old"), *others)) == {(None, None)}


def test_what_is_in_no_zone_does_not_move() -> None:
    """A service account that is deleted and created anew stays in its organization."""
    pair = gone(None, "ci", "ServiceAccount"), made(None, "ci", "ServiceAccount")
    assert set(moves(*pair)) == {(None, None)}


def test_what_a_file_says_of_moves_is_worked_out_again() -> None:
    """A saved plan may say anything: what is no pair loses what it says."""
    forged = action(Op.DELETE, zone="old", moved_to="elsewhere"), action(Op.UPDATE, moved_from="nowhere")
    assert set(moves(*forged)) == {(None, None)}


def test_nothing_else_of_an_action_changes() -> None:
    """The same actions in the same order."""
    actions = [gone("old"), action(Op.UPDATE, "Role", "reader"), made("new")]
    assert [(each.op, each.kind, each.name, each.zone) for each in with_zone_moves(actions)] == [
        (each.op, each.kind, each.name, each.zone) for each in actions
    ]

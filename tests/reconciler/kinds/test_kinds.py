"""Kinds as the schemas describe them: a kind that this program has never heard of works like any other."""

from importlib.metadata import version
from pathlib import Path

import pytest

import reconciler
from reconciler.kinds import ABSENT, Kind, Kinds, load_kinds
from reconciler.plan.member_values import leaves, normalized, same_value

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kinds"


@pytest.fixture
def shelf() -> Kind:
    """A kind that exists in these tests only."""
    return load_kinds(FIXTURES).by_name["Shelf"]


def test_reads_the_marks_of_a_kind(shelf: Kind) -> None:
    """Everything that is special about a member stands in the schema."""
    assert (shelf.scope, shelf.handle, shelf.order, shelf.requires) == ("zone", "label", 2, ("Box",))
    assert shelf.files == {"text_file": "text"}
    assert {path for path, _ in shelf.references} == {("box",), ("boxes",), ("holder", "box")}
    assert shelf.addresses == (("links",),)
    assert shelf.secrets == (("lock",),)
    assert shelf.sole == ("topmost",)
    assert shelf.spec.required == {"label"}


def test_reads_through_references_within_the_schema(shelf: Kind) -> None:
    """`$ref` and alternatives are looked through."""
    assert shelf.leaf("size.width").default == 3
    assert shelf.leaf("size.tags").unordered
    assert shelf.leaf("size.tags").default is ABSENT


def test_members_go_by_their_names_on_the_wire(shelf: Kind) -> None:
    """References end in what the API calls them; the file's path is never sent."""
    assert {"box_id", "box_ids", "text"} <= shelf.wire.members.keys()
    assert "text_file" not in shelf.wire.members
    assert shelf.leaf("holder.box_id").ref is not None


def test_what_is_in_a_fixed_object_is_fixed(shelf: Kind) -> None:
    """A fixed object cannot change from within."""
    assert shelf.leaf("holder.box_id").fixed
    assert not shelf.leaf("box_id").fixed


def test_an_unknown_member_is_a_plain_one(shelf: Kind) -> None:
    """A server may be newer than this program."""
    assert not shelf.leaf("nothing.of.the.kind").fixed


def test_leaves_are_what_is_compared(shelf: Kind) -> None:
    """Objects member by member, lists and references whole, an empty object as itself."""
    spec = {"label": "a", "size": {"width": 1, "tags": ["x"]}, "holder": {}}

    assert [(path, value) for path, _, value in leaves(shelf.wire, spec)] == [
        ("label", "a"),
        ("size.width", 1),
        ("size.tags", ["x"]),
        ("holder", {}),
    ]


def test_two_values_that_mean_the_same_are_equal(shelf: Kind) -> None:
    """Defaults, empty lists and the order of sets."""
    tags, width = shelf.leaf("size.tags"), shelf.leaf("size.width")

    assert same_value(tags, ["a", "b"], ["b", "a"])
    assert same_value(tags, [], None)
    assert same_value(width, None, 3)
    assert not same_value(width, None, 4)
    assert not same_value(shelf.leaf("links"), ["a", "b"], ["b", "a"])
    assert normalized(tags, [{"a": 1, "b": 2}]) == normalized(tags, [{"b": 2, "a": 1}])


def test_the_checked_in_kinds_can_all_be_read(kinds: Kinds) -> None:
    """Parents come before what needs them."""
    order = [kind.name for kind in kinds.ordered]

    assert {"Zone", "Application", "Resource", "Policy"} <= set(order)
    assert not [
        kind
        for kind in kinds.ordered
        if not all(order.index(needed) < order.index(kind.name) for needed in kind.requires)
    ]


def test_the_version_is_the_distributions() -> None:
    """A plan says which tool made it."""
    assert reconciler.__version__ == version("zonewright")

"""Examples in the OpenAPI document: each is declared beside the member that it is an example of."""

from typing import Annotated, Any

import pytest

from runtime.contract.openapi.components import Components
from runtime.contract.openapi.examples import Examples
from runtime.domain.kinds.base import ZoneEntity
from runtime.domain.kinds.marks import Example, Mark, members
from runtime.domain.kinds.values import Consent, Email, Name, Part


class Door(Part):
    """Something with a name of its own, a name of its type, and members without an example."""

    name: Annotated[Name, Example("front door")]
    other_name: Name
    maybe_name: Name | None = None
    mail: Email
    colors: Annotated[list[str], Example(["red", "green"])]
    consent: Consent = Consent.REQUIRED
    opened_at: str
    width: int


class Pair(Part):
    """An object whose members depend on one another."""

    example = {"left": "a", "right": "a"}

    left: str
    right: str


class Thing(ZoneEntity):
    """An entity with a member that examples leave out where it has no value."""

    archived_at: Annotated[str | None, Mark.SERVER] = None
    code: Annotated[int, Example("not a number")]


def example_of(model: type[Part] | type[ZoneEntity]) -> Any:
    """The example of a response of that class."""
    components = Components()
    schema = components.shown(model)
    return Examples(components.found, components.examples).of(schema)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("name", "front door"),
        ("other_name", "Calendar agent"),
        ("maybe_name", "Calendar agent"),
        ("mail", "ada@acme.example"),
        ("colors", ["red", "green"]),
        ("consent", "required"),
        ("opened_at", "2026-11-21T08:00:00Z"),
        ("width", 1),
    ],
)
def test_a_member_is_shown_by_the_nearest_example_or_its_default_or_format(
    member: str, value: object
) -> None:
    """The order: the example beside the member, the one of its type, an enumeration's default, the format."""
    assert example_of(Door)[member] == value


def test_an_example_of_a_whole_object_comes_before_those_of_its_members() -> None:
    """Where members depend on one another, the class shows the whole."""
    assert example_of(Pair) == {"left": "a", "right": "a"}


def test_an_example_that_its_schema_does_not_allow_is_not_shown() -> None:
    """A member whose example is of another JSON type is shown by its format."""
    assert example_of(Thing)["code"] == 1


def test_what_has_ended_is_left_out() -> None:
    """Examples are of objects in use: an optional `archived_at` is not among their members."""
    assert "archived_at" not in example_of(Thing)


def test_the_nearer_of_two_examples_counts() -> None:
    """An example beside a member hides the one of its type."""
    found = members(Door)

    assert (found["name"].example or Example(None)).value == "front door"
    assert (found["other_name"].example or Example(None)).value == "Calendar agent"
    assert found["width"].example is None


def test_examples_are_no_keyword_of_the_schemas() -> None:
    """The components have no `examples`: bodies and responses show whole ones."""
    components = Components()
    components.shown(Door)

    assert all("examples" not in schema for schema in components.found.values())
    assert all(
        "examples" not in member
        for schema in components.found.values()
        for member in schema.get("properties", {}).values()
    )

"""Cursors as they travel: short enough, closed to everybody else, and back to the same place."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.adapters.keys.sealing import Sealer
from runtime.api.shared.cursors import LIFETIME, MAX_CHARS, Cursors
from runtime.domain.errors import ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.services.management.listing import UNREAD, Position

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SEALER = Sealer(b"k" * 32)
VALUES = st.one_of(
    st.none(),
    st.text(max_size=2048),
    st.datetimes(timezones=st.just(UTC)),
    st.tuples(st.text(max_size=300), st.none() | st.datetimes(timezones=st.just(UTC))),
)


def cursors(bound_to: str = "this list", now: datetime = NOW) -> Cursors:
    return Cursors(SEALER, bound_to, now)


@given(VALUES)
def test_leads_back_to_its_place(value: object) -> None:
    """At most 255 characters; a value that has no room is read again by the id."""
    position = Position(value, new_id())
    cursor = cursors().seal(position)

    assert 1 <= len(cursor) <= MAX_CHARS
    opened = cursors().open("after", cursor)
    assert opened.id == position.id
    assert opened.value == value or opened.value is UNREAD


def test_a_short_value_is_never_read_again() -> None:
    """Names and times have room: the entity that a cursor was made of may be gone."""
    values = ("x" * 60, NOW, None, ("x" * 40, NOW))
    sealed = [cursors().seal(Position(value, new_id())) for value in values]
    assert tuple(cursors().open("after", each).value for each in sealed) == values


@pytest.mark.threat("30b")
@given(VALUES, st.text(min_size=1, max_size=20).filter(lambda name: name != "this list"))
def test_opens_in_its_own_list_alone(value: object, other: str) -> None:
    """Another route, tenant, filter or order is another list."""
    cursor = cursors().seal(Position(value, new_id()))

    assert cursors().open("after", cursor)
    with pytest.raises(ValidationFailed):
        cursors(other).open("after", cursor)


@pytest.mark.threat("30c")
def test_ends_after_a_day() -> None:
    """A reader who comes back later starts again."""
    cursor = cursors().seal(Position("x", "y"))

    assert cursors(now=NOW + LIFETIME).open("after", cursor).id == "y"
    with pytest.raises(ValidationFailed, match="expired"):
        cursors(now=NOW + LIFETIME + timedelta(seconds=1)).open("after", cursor)

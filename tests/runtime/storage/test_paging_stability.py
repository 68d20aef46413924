"""Pages under a reader's feet: entities come and go while a list is read, forwards and backwards."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support import entities as make

from runtime.domain.kinds import ALL, BY_NAME, Entity, Kind
from runtime.domain.kinds.zone import Zone
from runtime.storage.sql import entities
from runtime.storage.sql.database import Database
from runtime.storage.sql.entities import page, position

_NOW = datetime(2026, 3, 1, tzinfo=UTC)
_numbers = count(1)
MAKERS: dict[str, Callable[..., Entity]] = {
    "Application": make.application,
    "Provider": make.provider,
    "Resource": make.resource,
    "User": make.user,
    "Group": make.group,
    "Role": make.role,
    "Policy": make.policy,
}
SORTS = [
    (name, sort)
    for name in MAKERS
    for sort in (BY_NAME[name].listing.sorts if BY_NAME[name].listing else ())  # type: ignore[union-attr]
    if sort != "status"
]

# Small numbers, so that many entities have the same value: the id decides among them.
PLACE = st.integers(0, 3)
# What happens between two pages: an entity with that value comes, or the one at that place goes.
CHANGE = st.tuples(st.sampled_from(["comes", "goes"]), st.integers(0, 9))


def made(kind: Kind, zone: Zone, sort: str, place: int) -> Entity:
    """An entity whose sort member has one of a few values, or one that is next to them."""
    number = next(_numbers)
    at = _NOW + timedelta(seconds=place)
    values: dict[str, Any] = {
        "created_at": at,
        "authenticated_at": None if place == 0 else at,
        "email": f"{place}-{number}@example.com",
        "identifier": f"id-{place}-{number}",
        "name": f"name-{place}" if kind.name != "Policy" else f"name-{place}-{number}",
    }
    return MAKERS[kind.name](zone, **{sort: values[sort]})


async def walk(
    conn: AsyncConnection,
    kind: Kind,
    zone: Zone,
    order: dict[str, Any],
    limit: int,
    changes: list[tuple[str, int]],
    *,
    backwards: bool,
) -> tuple[list[str], set[str]]:
    """The ids in the order they were shown, and those that were there from the first page to the last."""
    scope = {"zone_id": zone.id}
    start = (await page(conn, kind, within=scope, limit=100, **order)).items
    there = [one.id for one in start]
    shown, at, more = ([start[-1].id], start[-1], True) if backwards else ([], None, True)
    left = list(changes)
    while more:
        edge = position(at, order["sort"]) if at is not None else None
        found = await page(
            conn, kind, within=scope, limit=limit, **order, **{"before" if backwards else "after": edge}
        )
        ids = [one.id for one in found.items]
        shown += reversed(ids) if backwards else ids
        more = found.has_previous if backwards else found.has_next
        at = found.items[0 if backwards else -1] if found.items else at
        if left:
            what, number = left.pop()
            if what == "comes":
                await entities.insert(conn, kind, made(kind, zone, order["sort"].lstrip("-"), number % 4))
            elif there:
                gone = there.pop(number % len(there))
                await entities.remove(conn, kind, gone, within=scope)
    return shown, set(there)


@pytest.mark.parametrize(("name", "sort"), SORTS)
@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    places=st.lists(PLACE, min_size=1, max_size=9),
    changes=st.lists(CHANGE, max_size=6),
    limit=st.integers(1, 3),
    sign=st.sampled_from(["", "-"]),
    descending=st.booleans(),
)
async def test_who_stays_is_shown_exactly_once(
    database: Database,
    name: str,
    sort: str,
    places: list[int],
    changes: list[tuple[str, int]],
    limit: int,
    sign: str,
    descending: bool,
) -> None:
    """Whatever comes and goes meanwhile: nothing is shown twice, and nothing that stays is left out."""
    kind, order = BY_NAME[name], {"sort": f"{sign}{sort}", "descending": descending}
    repeated, missed = [], []
    for backwards in (False, True):
        async with database.transaction() as conn:
            zone = await make.add_zone(conn)
            for place in places:
                await entities.insert(conn, kind, made(kind, zone, sort, place))
            shown, stayed = await walk(conn, kind, zone, order, limit, changes, backwards=backwards)

        repeated += [each for each in set(shown) if shown.count(each) > 1]
        missed += stayed - set(shown)

    assert (repeated, missed) == ([], [])


def test_every_sort_is_tried() -> None:
    """A kind that can be sorted by more than its age is among those above."""
    assert not [
        kind
        for kind in ALL
        if kind.listing is not None
        and set(kind.listing.sorts) - {"created_at", "status"}
        and kind.name not in MAKERS
    ]

"""Lists by page: order, both directions, filters and searches, on SQLite and on PostgreSQL."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.support import entities as make

from runtime.domain.kinds import APPLICATION, USER
from runtime.storage.sql import entities
from runtime.storage.sql.entities import Contains, Equals, SqlCondition, page, position
from runtime.storage.sql.tables import TABLES

_NOW = datetime(2026, 3, 1, tzinfo=UTC)


async def keep(conn, kind, made):
    await entities.insert_many(conn, kind, made)
    return made


async def walk(conn, kind, zone, *, limit, backwards=False, **order):
    """All pages of a list, walked in one direction; checks what each says of its neighbours."""
    pages, at, more = [], None, True
    while more:
        there = {"before": at} if backwards else {"after": at}
        found = await page(conn, kind, within={"zone_id": zone.id}, limit=limit, **there, **order)
        came_from, more = (
            (found.has_next, found.has_previous) if backwards else (found.has_previous, found.has_next)
        )
        assert came_from == (at is not None)
        assert found.items
        pages.append(found.items)
        at = position(found.items[0 if backwards else -1], order.get("sort", "created_at"))
    return pages


@pytest.mark.parametrize("descending", [False, True])
async def test_pages_follow_one_another(conn, zone, descending):
    """Every entity is on exactly one page, in order, also when many were made at the same instant."""
    made = await keep(conn, APPLICATION, [make.application(zone, created_at=_NOW) for _ in range(7)])
    expected = sorted((one.id for one in made), reverse=descending)

    pages = await walk(conn, APPLICATION, zone, limit=3, descending=descending)

    assert [one.id for items in pages for one in items] == expected
    assert list(map(len, pages)) == [3, 3, 1]


@pytest.mark.parametrize("descending", [False, True])
async def test_pages_can_be_walked_backwards(conn, zone, descending):
    """From the end, each page comes in the list's own order."""
    made = await keep(conn, APPLICATION, [make.application(zone) for _ in range(7)])
    expected = [one.id for one in (made[::-1] if descending else made)]
    last = position(made[0] if descending else made[-1], "created_at")

    found = await page(
        conn, APPLICATION, within={"zone_id": zone.id}, limit=3, before=last, descending=descending
    )

    assert [one.id for one in found.items] == expected[3:6]
    assert (found.has_previous, found.has_next) == (True, True)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3, 10])
async def test_entities_without_a_value_have_a_place(conn, zone, descending, limit):
    """Sorted by a member that may be absent, those without come last, and first when descending."""
    times = [None, _NOW, None, _NOW + timedelta(1), _NOW, None, _NOW - timedelta(1)]
    made = await keep(conn, USER, [make.user(zone, authenticated_at=at) for at in times])
    order = sorted(
        made,
        key=lambda one: (one.authenticated_at is None, one.authenticated_at or _NOW, one.id),
        reverse=descending,
    )

    pages = await walk(conn, USER, zone, limit=limit, sort="authenticated_at", descending=descending)

    assert [one for items in pages for one in items] == order


async def test_a_page_starts_after_a_place_that_is_empty_by_now(conn, zone):
    """The entity that a position names may be gone; the list goes on from where it was."""
    made = await keep(conn, APPLICATION, [make.application(zone) for _ in range(4)])
    scope = {"zone_id": zone.id}
    await entities.remove(conn, APPLICATION, made[1].id, within=scope)

    found = await page(conn, APPLICATION, within=scope, after=position(made[1], "created_at"))

    assert found.items == made[2:]
    assert found.has_previous


async def test_an_empty_page_knows_what_is_before_it(conn, zone):
    """Behind the last entity there is nothing, and the way back is open."""
    made = await keep(conn, APPLICATION, [make.application(zone) for _ in range(2)])

    found = await page(conn, APPLICATION, within={"zone_id": zone.id}, after=position(made[-1], "created_at"))

    assert (found.items, found.has_next, found.has_previous) == ([], False, True)


async def test_the_total_counts_the_whole_list(conn, zone):
    """Of what the conditions select, not of the page; and only when asked."""
    await keep(conn, APPLICATION, [make.application(zone, consent="implicit") for _ in range(5)])
    await keep(conn, APPLICATION, [make.application(zone) for _ in range(2)])
    where, scope = [Equals("consent", ["implicit"])], {"zone_id": zone.id}

    assert (await page(conn, APPLICATION, within=scope, where=where, limit=2, total=True)).total == 5
    assert (await page(conn, APPLICATION, within=scope, where=where, limit=2)).total is None


async def test_equals_takes_any_of_its_values(conn, zone):
    """Values of one member are alternatives; several conditions hold together."""
    one, two, three = await keep(conn, APPLICATION, [make.application(zone) for _ in range(3)])
    slugs = Equals("slug", [one.slug, two.slug, "other"])
    search = {"within": {"zone_id": zone.id}}

    assert (await page(conn, APPLICATION, where=[slugs], **search)).items == [one, two]
    both = [slugs, Equals("identifier", [two.identifier, three.identifier])]
    assert (await page(conn, APPLICATION, where=both, **search)).items == [two]
    assert (await page(conn, APPLICATION, where=[Equals("slug", [])], **search)).items == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("CALENDAR", {"Calendar agent", "my calendar"}),
        ("100%", {"100% done"}),
        ("%", {"100% done"}),
        ("_", {"snake_case"}),
        ("/", {"a/b"}),
        ("\\", {"back\\slash"}),
        ("ÄRGER", {"Kein ärger"}),
        ("nothing", set()),
    ],
)
async def test_contains_takes_every_character_as_it_is(conn, zone, text, found):
    """Upper and lower case are alike, and no character is a wildcard."""
    names = ["Calendar agent", "my calendar", "100% done", "snake_case", "a/b", "back\\slash", "Kein ärger"]
    await keep(conn, APPLICATION, [make.application(zone, name=name) for name in names])

    result = await page(conn, APPLICATION, within={"zone_id": zone.id}, where=[Contains(["name"], [text])])

    assert {one.name for one in result.items} == found


async def test_contains_looks_for_all_texts_in_any_member(conn, zone):
    """All texts have to be in one member, whichever it is."""
    one = make.application(zone, name="red green", identifier="x")
    two = make.application(zone, name="other", identifier="green-red")
    three = make.application(zone, name="red", identifier="green")
    await keep(conn, APPLICATION, [one, two, three])
    where = [Contains(["name", "identifier"], ["red", "green"])]

    assert (await page(conn, APPLICATION, within={"zone_id": zone.id}, where=where)).items == [one, two]


async def test_a_condition_may_be_sql(conn, zone):
    """Hand-written conditions go beside the others."""
    one, _ = await keep(conn, APPLICATION, [make.application(zone), make.application(zone)])
    where = [SqlCondition(TABLES["Application"].c.slug == one.slug)]

    assert (await page(conn, APPLICATION, within={"zone_id": zone.id}, where=where)).items == [one]

"""Pages of token events: a filter that lets hardly anything through is searched for in parts."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.zone import Zone
from runtime.storage.sql import token_events
from runtime.storage.sql.paging import Page
from runtime.storage.sql.token_events import TokenEvent, TokenEventFilter

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
RARE = TokenEventFilter({"user_id": ("rare",)})


@pytest.fixture(autouse=True)
def _few_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_events, "SEARCHED", 10)


async def kept(conn: AsyncConnection, zone: Zone, rare: set[int], *, of_an_instant: int = 1) -> list[str]:
    """A hundred events; the request ids of those of the rare user, which have these numbers, newest first."""
    rows = [
        TokenEvent(
            f"{number:026}",
            zone.organization_id,
            zone.id,
            NOON + timedelta(seconds=number // of_an_instant),
            "token_exchange",
            "issued",
            user_id="rare" if number in rare else "usual",
            request_id=f"request-{number}",
        )
        for number in range(100)
    ]
    await token_events.add(conn, rows)
    return [f"request-{number}" for number in sorted(rare, reverse=True)]


async def page(conn: AsyncConnection, zone: Zone, selection: TokenEventFilter, **places) -> Page[TokenEvent]:
    return await token_events.page(conn, zone.organization_id, zone.id, selection, **{"limit": 2, **places})


async def walked(
    conn: AsyncConnection, zone: Zone, selection: TokenEventFilter = RARE, *, backwards: bool = False
) -> list[Page[TokenEvent]]:
    """All pages, from one end of the list to the other, in the order of the list."""
    pages: list[Page[TokenEvent]] = []
    at = (NOON - timedelta(seconds=1), "") if backwards else None
    while True:
        found = await page(conn, zone, selection, **({"before": at} if backwards else {"after": at}))
        pages.append(found)
        if not (found.has_previous if backwards else found.has_next):
            return pages[::-1] if backwards else pages
        at = found.seen_to or place(found.items[0 if backwards else -1])


def place(event: TokenEvent) -> tuple[datetime, str]:
    return event.at, event.id


def requests(pages: list[Page[TokenEvent]]) -> list[str | None]:
    return [each.request_id for page in pages for each in page.items]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("of_an_instant", [1, 4, 25, 100])
@pytest.mark.parametrize("rare", [{0, 3, 4, 40, 41, 42, 99}, set(), {50}, set(range(100))])
async def test_every_page_together_has_all_that_is_asked_for(
    conn: AsyncConnection, zone: Zone, rare: set[int], of_an_instant: int, backwards: bool
) -> None:
    """Once each and in order, also where more events are of one instant than are searched."""
    expected = await kept(conn, zone, rare, of_an_instant=of_an_instant)

    assert requests(await walked(conn, zone, backwards=backwards)) == expected


async def test_a_search_without_a_find_is_in_parts(conn: AsyncConnection, zone: Zone) -> None:
    """Each page is empty, and says that there is a next: a hundred events are ten times ten."""
    await kept(conn, zone, set())

    pages = await walked(conn, zone)

    assert [len(each.items) for each in pages] == [0] * len(pages)
    assert 9 <= len(pages) <= 10


async def test_a_page_that_is_full_ends_with_its_last(conn: AsyncConnection, zone: Zone) -> None:
    """As in a list without a filter: nothing is searched in vain."""
    await kept(conn, zone, {98, 97, 96})

    found = await page(conn, zone, RARE)

    assert [each.request_id for each in found.items] == ["request-98", "request-97"]
    assert (found.has_next, found.has_previous, found.seen_to) == (True, False, None)


async def test_the_span_that_is_asked_for_is_kept(conn: AsyncConnection, zone: Zone) -> None:
    """By every part of a search."""
    await kept(conn, zone, {10, 20, 50, 80, 90})
    span = TokenEventFilter(
        RARE.filters, since=NOON + timedelta(seconds=20), until=NOON + timedelta(seconds=90)
    )

    assert requests(await walked(conn, zone, span)) == ["request-80", "request-50", "request-20"]


async def test_a_request_is_found_at_once_by_its_id(conn: AsyncConnection, zone: Zone) -> None:
    """By an index, however old it is."""
    await kept(conn, zone, set())

    found = await page(conn, zone, TokenEventFilter({"request_id": ("request-1",), "user_id": ("usual",)}))

    assert [each.request_id for each in found.items] == ["request-1"]
    assert not found.has_next

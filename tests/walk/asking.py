"""Questions to a list or an entity, and whether the answer is what was asked."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.walk.recipes import QUERIES

from runtime.contract.routes import Route
from runtime.domain.kinds.queries import Query

if TYPE_CHECKING:
    from tests.walk.walking import Walk


class Told(str):
    """A value that a listed entity has: asking for it finds that one at least."""


def values(walk: "Walk", route: Route, query: Query, items: list[Any]) -> Iterator[str | list[str]]:
    """What to ask a parameter for: everything it can say, or what the listed entities have."""
    if query.name == "expand[]":
        yield from query.values
        yield list(query.values)
    elif query.name == "sort":
        yield from (
            f"{sign}{name}" for name in query.values for sign in ("", "-") if name != "status" or not sign
        )
    elif query.name in ("after", "before", "cursor"):
        yield from _cursors(walk, route, query.name)
    elif query.values:
        yield from query.values
    elif query.type == "boolean":
        yield from ("true", "false")
    elif query.type == "integer":
        yield from ("1", str(query.limit))
    elif chosen := QUERIES.get(f"{route.operation_id} {query.name}", QUERIES.get(query.name)):
        yield from (str(walk.filled(value)) for value in chosen)
    else:
        yield _told(route, query, items)


def _cursors(walk: "Walk", route: Route, name: str) -> Iterator[str]:
    first = walk.client.send(route.operation_id, walk.path_of(route), query={"limit": "1"})
    page = first["page_info"]
    if (end := page.get("end_cursor")) is not None:
        following = walk.client.send(
            route.operation_id, walk.path_of(route), query={"limit": "1", "after": end}
        )
        yield end if name != "before" else following["page_info"].get("start_cursor") or end


def _told(route: Route, query: Query, items: list[Any]) -> str:
    member = _member(route, query)
    for item in items:
        value = item.get(member) or at(item, (member.removesuffix("_id"), "id"))
        if isinstance(value, str) and value:
            return Told(value.upper()[1:-1] or value if query.name.startswith("query") else value)
    raise AssertionError(
        f"{route.operation_id}: no item tells a value for `{query.name}`: give one in recipes.py"
    )


def check_selected(route: Route, query: Query, value: Any, answer: Any) -> None:
    """What was selected has what was asked for."""
    asked = f"{route.operation_id} {query.name}={value}"
    assert items_of(answer) or not isinstance(value, Told), f"{asked}: nothing"
    if query.name.startswith(("filter[", "query[")) or query.name in _plain(route):
        member, wanted = _member(route, query), str(value).lower()
        for item in items_of(answer):
            told = str(item.get(member, value)).lower()
            found = wanted in told if query.name.startswith("query") else told == wanted
            assert found, f"{asked}: {item}"


def items_of(answer: Any) -> list[Any]:
    if isinstance(answer, list):
        return answer
    return list(answer.get("items", ())) if isinstance(answer, dict) else []


def _plain(route: Route) -> dict[str, str]:
    return route.kind.listing.plain if route.kind and route.kind.listing and route.verb else {}


def _member(route: Route, query: Query) -> str:
    """The member that a filter or a search is about."""
    name = query.name.partition("[")[2].removesuffix("]") or query.name
    return _plain(route).get(query.name, name)


def at(answer: Any, place: tuple[str, ...]) -> Any:
    """What stands at a place inside of an answer."""
    for step in place:
        answer = answer.get(step) if isinstance(answer, dict) else None
    return answer

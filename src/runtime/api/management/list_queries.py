"""Parses the query parameters of a list into filters, order and page."""

from collections.abc import Mapping
from typing import Any

from runtime.api.shared.cursors import Cursors
from runtime.api.shared.queries import Values, one
from runtime.contract.routes import Route
from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import Kind, Listing
from runtime.services.management.listing import DEFAULT_LIMIT, MAX_LIMIT, ListQuery, Position, TextSearch

_GENERAL = frozenset({"after", "before", "cursor", "limit", "expand[]", "sort", "order", "query", "query[]"})
_NO_LISTING_SORTS = ("created_at",)


def list_query(route: Route, query: Values, expands: frozenset[str], cursors: Cursors) -> ListQuery:
    """What the list of a route is asked. Raises ValidationFailed."""
    kind = route.kind
    own = kind.listing if kind is not None and route.verb is not None else None
    filters, special = _filters(route, kind, own, query)
    after, before = _positions(query, cursors)
    ids = filters.get("id", ())
    if ids and (after or before) and "filter[id]" in query:
        raise ValidationFailed.of("filter[id]", "cannot be combined with `after` or `before`")
    sort, descending = _sort(route, own, query)
    if sort in ("status", "-status") and (before is not None or one(query, "order") == "asc"):
        raise ValidationFailed.of("sort", "`status` cannot be combined with `before` or `order=asc`")
    return ListQuery(
        limit=_limit(query, len(ids)),
        after=after,
        before=before,
        filters=filters,
        searches=_searches(own, query),
        sort=sort.replace("status", "created_at"),
        descending=descending,
        expands=expands,
        special=special,
    )


def _limit(query: Values, ids: int) -> int:
    given = one(query, "limit")
    if given is None:
        return ids or DEFAULT_LIMIT
    if not given.isascii() or not given.isdecimal() or not 1 <= int(given[:9]) <= MAX_LIMIT:
        raise ValidationFailed.of("limit", f"must be a whole number from 1 to {MAX_LIMIT}")
    return int(given)


def _positions(query: Values, cursors: Cursors) -> tuple[Position | None, Position | None]:
    after, before = one(query, "after", "cursor"), one(query, "before")
    if after is not None and before is not None:
        raise ValidationFailed.of("before", "cannot be combined with `after`")
    name = "after" if "after" in query else "cursor"
    return (
        cursors.open(name, after) if after is not None else None,
        cursors.open("before", before) if before is not None else None,
    )


def _sort(route: Route, own: Listing | None, query: Values) -> tuple[str, bool]:
    """The members to sort by, as storage takes them, and whether the list is turned round."""
    allowed = own.sorts if own else _NO_LISTING_SORTS
    newest_first = (own is not None and own.ordered) or any(each.name == "order" for each in route.query)
    order = one(query, "order")
    members = (one(query, "sort") or "").split(",") if "sort" in query else [allowed[0]]
    names = [member.removeprefix("-") for member in members]
    for name in names:
        if name not in allowed:
            raise ValidationFailed.of("sort", f"must be one of {', '.join(f'`{one}`' for one in allowed)}")
    if len(set(names)) < len(names) or ("status" in names and len(names) > 1):
        raise ValidationFailed.of("sort", "must not repeat a member; `status` cannot be combined with others")
    signed = members[0].startswith("-")
    descending = order == "desc" or (newest_first and order is None and not signed)
    return ",".join(members), descending


def _filters(
    route: Route, kind: Kind | None, own: Listing | None, query: Values
) -> tuple[dict[str, tuple[Any, ...]], dict[str, tuple[str, ...]]]:
    """Member -> values, and what is left for the kind's own operation."""
    stored = kind.stored() if kind is not None else {}
    older = {each.name: each.older_form_of for each in route.query if each.older_form_of}
    filters: dict[str, tuple[Any, ...]] = {}
    special: dict[str, tuple[str, ...]] = {}
    for name, values in query.items():
        if name in _GENERAL or (name.startswith("query[") and own is not None):
            continue
        member = _member(older.get(name, name), own)
        if member is not None and member in stored:
            _put(filters, member, name, _typed(route, name, values))
        elif name not in older:
            special[name] = values
    for name, present in older.items():
        if _member(present, own) not in stored and (value := one(query, present, name)) is not None:
            special[present] = (value,)
    return filters, special


def _member(name: str, own: Listing | None) -> str | None:
    if own is not None and name in own.plain:
        return own.plain[name]
    if name.startswith("filter[") and name.endswith("]"):
        return name[len("filter[") : -1]
    return None


def _typed(route: Route, name: str, values: tuple[str, ...]) -> tuple[Any, ...]:
    declared = next(query for query in route.query if query.name == name)
    return tuple(value == "true" for value in values) if declared.type == "boolean" else values


def _put(
    filters: dict[str, tuple[Any, ...]], member: str, name: str, values: Mapping[str, Any] | tuple[Any, ...]
) -> None:
    """Add a filter; two names of the same one must say the same."""
    given = tuple(values)
    if member in filters and set(filters[member]) != set(given):
        raise ValidationFailed.of(name, "conflicts with the older spelling of this filter; send one of them")
    filters[member] = given


def _searches(own: Listing | None, query: Values) -> tuple[TextSearch, ...]:
    if own is None:
        return ()
    searches = [
        TextSearch((member,), query[f"query[{member}]"])
        for member in own.search
        if f"query[{member}]" in query
    ]
    everywhere = [TextSearch(own.search, query[name]) for name in ("query", "query[]") if name in query]
    return (*searches, *everywhere)

"""Response bodies of entities and of pages of entities."""

from collections.abc import Mapping
from typing import Any

from sanic.response import HTTPResponse

from runtime.api.management.calls import Call
from runtime.contract.answers import answer, encoded, part_answer
from runtime.domain.kinds import Entity, Kind, PageShape
from runtime.services.management import permission_maps
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.policies.versioned import etag
from runtime.storage.sql.entities import position


def send(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HTTPResponse:
    """A JSON answer."""
    return HTTPResponse(
        encoded(body),
        status=status,
        headers={"Cache-Control": "no-store", **(headers or {})},
        content_type="application/json",
    )


def nothing() -> HTTPResponse:
    """What a delete answers."""
    return HTTPResponse(status=204)


def send_entity(
    call: Call, kind: Kind, entity: Entity, *, shown_once: Mapping[str, str] | None = None
) -> HTTPResponse:
    """One entity, with the route's status and its ETag."""
    headers = {"ETag": etag(entity)} if call.route.etag else None
    body = answer(kind, permitted(call, kind, entity), call.expands, shown_once)
    return send(body, status=call.route.status, headers=headers)


def permitted(call: Call, kind: Kind, entity: Entity) -> Entity:
    """The entity with what the caller may do with it, when that is asked."""
    if "permissions" not in call.expands or "permissions" not in type(entity).model_fields:
        return entity
    told = permission_maps.of_entity(call.caller, kind, entity)
    return entity.model_copy(update={"permissions": told})


def send_page(call: Call, kind: Kind, listed: Listed, query: ListQuery) -> HTTPResponse:
    """One page in the envelope of its route."""
    items = [
        answer(kind, permitted(call, kind, item), call.expands)
        if isinstance(item, Entity)
        else part_answer(item, call.expands)
        for item in listed.items
    ]
    start, end = _edges(call, listed, query)
    pagination: dict[str, Any] = {
        "after_cursor": end if listed.has_next else None,
        "before_cursor": start if listed.has_previous else None,
    }
    if listed.total is not None:
        pagination["total_count"] = listed.total
    if call.route.envelope is PageShape.ORGANIZATION:
        return send(_organization_page(call, kind, items, listed, start, end))
    if call.route.envelope is PageShape.ORGANIZATION_COUNTED:
        page = _organization_page(call, kind, items, listed, start, end)
        return send({**page, "pagination": pagination})
    page_info = {
        "has_next_page": listed.has_next,
        "has_previous_page": listed.has_previous,
        "start_cursor": start,
        "end_cursor": end,
    }
    return send({"items": items, "pagination": pagination, "page_info": page_info})


def _organization_page(
    call: Call, kind: Kind, items: list[Any], listed: Listed, start: str | None, end: str | None
) -> dict[str, Any]:
    page_info: dict[str, Any] = {
        "has_next_page": listed.has_next,
        "has_prev_page": listed.has_previous,
    }
    if start is not None and end is not None:
        page_info |= {"start_cursor": start, "end_cursor": end}
    page: dict[str, Any] = {"items": items, "page_info": page_info}
    if "permissions" in call.expands:
        page["permissions"] = permission_maps.of_kind(call.caller, kind)
    return page


def _edges(call: Call, listed: Listed, query: ListQuery) -> tuple[str | None, str | None]:
    """The cursors of the first and of the last item."""
    if listed.edges is not None:
        first, last = listed.edges
        return call.cursors.seal(first), call.cursors.seal(last)
    paged = listed.paged if listed.paged is not None else tuple(listed.items)
    if not paged:
        return None, None
    return (
        call.cursors.seal(position(paged[0], query.sort)),
        call.cursors.seal(position(paged[-1], query.sort)),
    )

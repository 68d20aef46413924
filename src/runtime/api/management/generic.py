"""HTTP handlers of the generic operations: list, create, retrieve, update and delete of any kind."""

from sanic.response import HTTPResponse

from runtime.api.management.answering import nothing, send_entity, send_page
from runtime.api.management.calls import Call, Handler
from runtime.contract.bodies import read_body
from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import Kind, Verb
from runtime.services.management.expansions import embedded, with_people
from runtime.services.management.kind_handlers import (
    ARCHIVES,
    BRIEF_LISTS,
    CONDITIONAL_UPDATES,
    CREATES,
    DELETES,
    LISTS,
    RETRIEVES,
    RETRIEVES_BY_ROLE_SOURCE,
    RETRIEVES_IN_NOTATION,
    UPDATES,
    zones_made,
)
from runtime.services.management.zones import key_changes
from runtime.services.zone_keys import PreparedKeys


def handler_of(kind: Kind, verb: Verb) -> Handler:
    """The handler of a generic operation on a kind."""
    return _HANDLERS[verb]


async def _list(call: Call) -> HTTPResponse:
    kind, query = _kind(call), call.list_query()
    async with call.reading(brief=query.is_plain and kind.name in BRIEF_LISTS) as unit:
        listed = await LISTS[kind.name](unit, kind, call.path, query)
        listed = listed.with_items(await with_people(unit, listed.items, call.expands))
    return send_page(call, kind, listed, query)


async def _create(call: Call) -> HTTPResponse:
    kind = _kind(call)
    body = read_body(kind, call.body(), Verb.CREATE)
    number = zones_made(call.caller, kind)
    prepared = PreparedKeys(await key_changes.for_new_zones(call.services, body, number))
    async with call.writing(prepared) as unit:
        made = await CREATES[kind.name](unit, kind, call.path, body)
    return send_entity(call, kind, made, shown_once=unit.shown_once.get(made.id))


async def _retrieve(call: Call) -> HTTPResponse:
    kind = _kind(call)
    which = (kind, call.path, call.id, call.expands)
    async with call.reading() as unit:
        if (role_source := call.parameter("role_source")) is not None:
            found = await RETRIEVES_BY_ROLE_SOURCE[kind.name](unit, *which, role_source=role_source)
        elif (notation := call.parameter("format")) is not None:
            found = await RETRIEVES_IN_NOTATION[kind.name](unit, *which, notation=notation)
        else:
            found = await RETRIEVES[kind.name](unit, *which)
        (found,) = await with_people(unit, [await embedded(unit, found)], call.expands)
    return send_entity(call, kind, found)


async def _update(call: Call) -> HTTPResponse:
    kind, raw = _kind(call), call.body()
    if not isinstance(raw, dict):
        raise ValidationFailed("the body must be a JSON object")
    patch = None if kind.variants else read_body(kind, raw, Verb.UPDATE)
    prepared = await key_changes.for_update(call.services, call.caller, kind, call.id, patch)
    async with call.writing(prepared) as unit:
        if patch is None:
            # What a body may have depends on what the entity is.
            present = await RETRIEVES[kind.name](unit, kind, call.path, call.id)
            patch = read_body(kind, raw, Verb.UPDATE, kind.variant_of(present))
        what = (kind, call.path, call.id, patch)
        if "If-Match" in call.route.headers:
            changed = await CONDITIONAL_UPDATES[kind.name](unit, *what, if_match=call.if_match)
        else:
            changed = await UPDATES[kind.name](unit, *what)
    return send_entity(call, kind, changed)


async def _delete(call: Call) -> HTTPResponse:
    kind = _kind(call)
    async with call.writing() as unit:
        await DELETES[kind.name](unit, kind, call.path, call.id)
    return nothing()


async def _archive(call: Call) -> HTTPResponse:
    kind = _kind(call)
    if_match = call.if_match if "If-Match" in call.route.headers else None
    async with call.writing() as unit:
        archived = await ARCHIVES[kind.name](unit, kind, call.path, call.id, if_match=if_match)
    return send_entity(call, kind, archived)


def _kind(call: Call) -> Kind:
    kind = call.route.kind
    if kind is None:
        raise TypeError(f"{call.route.operation_id} is about no kind")
    return kind


_HANDLERS: dict[Verb, Handler] = {
    Verb.LIST: _list,
    Verb.CREATE: _create,
    Verb.RETRIEVE: _retrieve,
    Verb.UPDATE: _update,
    Verb.DELETE: _delete,
    Verb.ARCHIVE: _archive,
}

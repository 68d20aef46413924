"""The operations derived from the kinds: list, create, retrieve, update, delete and archive."""

from pydantic import BaseModel

from runtime.contract.bodies import bodies
from runtime.contract.queries import list_query, retrieve_query
from runtime.contract.routes.route import METHODS, Route, words
from runtime.domain import kinds
from runtime.domain.kinds.base import Kind, Verb, article
from runtime.domain.kinds.queries import Query

_SUMMARIES = {
    Verb.LIST: "List {many}",
    Verb.CREATE: "Create {one}",
    Verb.RETRIEVE: "Get {one}",
    Verb.UPDATE: "Change {one}",
    Verb.DELETE: "Delete {one}",
    Verb.ARCHIVE: "Archive {one}",
}

_ORDER_OF_VERBS = (Verb.LIST, Verb.CREATE, Verb.RETRIEVE, Verb.UPDATE, Verb.DELETE, Verb.ARCHIVE)


def _generic(kind: Kind, verb: Verb) -> Route:
    query: tuple[Query, ...] = ()
    body: tuple[type[BaseModel], ...] = ()
    response: tuple[type[BaseModel], ...] = kind.classes
    headers: tuple[str, ...] = ()
    status, errors = 200, [403] if verb in (Verb.LIST, Verb.CREATE) and kind.parent is None else [403, 404]
    if verb is Verb.LIST:
        query, errors = list_query(kind), [400, *errors]
    elif verb is Verb.RETRIEVE:
        query = retrieve_query(kind)
    elif verb in (Verb.CREATE, Verb.UPDATE):
        body, errors = bodies(kind, verb), [400, *errors, 409]
        if verb is Verb.CREATE:
            status, response = kind.created, kind.created_as or response
    else:
        status, response = (204, ()) if verb is Verb.DELETE else (200, response)
        errors.append(409)
    if verb in kind.conditional:
        headers, errors = ("If-Match",), [*errors, 412]
    one = words(kind.name)
    return Route(
        operation_id=f"{kind.operations}.{verb.value}",
        method=METHODS[verb],
        path=kind.collection_path if verb in (Verb.LIST, Verb.CREATE) else kind.item_path,
        status=status,
        summary=_SUMMARIES[verb].format(one=f"{article(one)} {one}", many=kind.operations.replace("_", " ")),
        kind=kind,
        verb=verb,
        query=query,
        body=body,
        response=response,
        envelope=kind.listing.envelope if verb is Verb.LIST and kind.listing else None,
        headers=headers,
        etag=bool(kind.conditional) and verb in (Verb.CREATE, Verb.RETRIEVE, Verb.UPDATE),
        errors=tuple(errors),
    )


GENERIC: tuple[Route, ...] = tuple(
    _generic(kind, verb) for kind in kinds.ALL for verb in _ORDER_OF_VERBS if verb in kind.verbs
)

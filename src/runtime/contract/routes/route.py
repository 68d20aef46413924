"""An operation of the management API as a value: method, path, parameters, bodies, permissions."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from runtime.domain.kinds.base import Kind, PageShape, Verb
from runtime.domain.kinds.queries import Query

METHODS = {
    Verb.LIST: "GET",
    Verb.CREATE: "POST",
    Verb.RETRIEVE: "GET",
    Verb.UPDATE: "PATCH",
    Verb.DELETE: "DELETE",
    Verb.ARCHIVE: "DELETE",
}


@dataclass(frozen=True)
class Route:
    """One operation.

    Attributes:
        operation_id: `applications.create`.
        path: with `{parameters}`.
        status: what success answers.
        kind: the kind whose entities it is about; None for operations about none.
        verb: set for operations that the generic binding serves.
        body: the classes the body can have, none when there is no body.
        response: the classes the answer can have; empty with status 204.
        envelope: how a list is wrapped; None for a single object.
        media: the content type of the answer, when it is not JSON.
        form: whether the body is a form.
        takes: the content type of the body, when it is neither JSON nor a form.
        open: whether no bearer token is needed.
        zone_token: whether the bearer is a zone's user, with an access token for the zone itself.
        headers: request headers with a meaning, besides those that every route takes.
        etag: whether success carries an ETag.
    """

    operation_id: str
    method: str
    path: str
    status: int
    summary: str
    kind: Kind | None = None
    verb: Verb | None = None
    query: tuple[Query, ...] = ()
    body: tuple[type[BaseModel], ...] = ()
    body_required: bool = True
    response: tuple[type[BaseModel], ...] = ()
    envelope: "PageShape | ListEnvelope | None" = None
    media: str = "application/json"
    form: bool = False
    takes: str = "application/json"
    open: bool = False
    zone_token: bool = False
    headers: tuple[str, ...] = ()
    etag: bool = False
    errors: tuple[int, ...] = field(default=())

    @property
    def expands(self) -> tuple[str, ...]:
        """The values of `expand` with a meaning here."""
        return next((query.values for query in self.query if query.name == "expand[]"), ())


class ListEnvelope(StrEnum):
    """Shapes of lists that are not one of the paging envelopes."""

    ITEMS = "ItemsOnly"
    ARRAY = "array"  # no wrapping at all


def words(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def by_hand(operation_id: str, method: str, path: str, status: int, summary: str, **more: Any) -> Route:
    return Route(operation_id, method, path, status, summary, **{"errors": (400, 403, 404), **more})

"""The OpenAPI document: every route with its parameters, bodies, answers and refusals."""

import re
from typing import Any

from pydantic import BaseModel

from runtime.contract import schema
from runtime.contract.answers import shown_members
from runtime.contract.bodies import Body
from runtime.contract.queries import Query
from runtime.contract.routes import ROUTES, Route, Wrap
from runtime.contract.schema import Schema
from runtime.domain.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    PreconditionFailed,
    RateLimited,
    TooLarge,
    Unauthorized,
    Unavailable,
    ValidationFailed,
)
from runtime.domain.kinds.base import Envelope
from runtime.domain.kinds.marks import Mark, members

CODES = sorted(
    {
        error.code
        for error in (
            BadRequest,
            Conflict,
            Forbidden,
            NotFound,
            PreconditionFailed,
            RateLimited,
            TooLarge,
            Unauthorized,
            Unavailable,
            ValidationFailed,
        )
    }
    | {"internal_error"}
)

# Of the interface, not of the distribution.
VERSION = "1.0.0"

_TOLD = {
    304: "Nothing has changed since that ETag",
    400: "The request is not acceptable; `details` name what is wrong",
    401: "No credential, or one that is not valid",
    403: "The caller may see this but not do that",
    404: "There is no such thing, or the caller may not see it",
    409: "A unique value is taken, or the state forbids the change",
    412: "What the change is based on has changed since",
    413: "The body is too large",
    429: "Too many requests",
    500: "Something went wrong here",
    503: "Something this service depends on does not answer",
}

_CURSOR: Schema = {"type": "string", "minLength": 1, "maxLength": 255}


def openapi() -> dict[str, Any]:
    """The document, as it is served and checked in."""
    components = Components()
    paths: dict[str, dict[str, Any]] = {}
    for route in sorted(ROUTES, key=lambda route: (route.path, route.method)):
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "zonewright management API",
            "version": VERSION,
            "description": "Zones and everything in them; zones themselves speak OAuth and OpenID Connect.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "tags": [{"name": name} for name in sorted({_tag(route) for route in ROUTES})],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.found.items())),
            "responses": {
                "NotModified" if status == 304 else f"Error{status}": _refusal(status, about)
                for status, about in _TOLD.items()
            },
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key, or a token from `/service-account-token`.",
                },
                "client": {"type": "http", "scheme": "basic", "description": "Client id and secret."},
            },
        },
    }


class Components:
    """The named schemas of the document, collected as they are referred to."""

    def __init__(self) -> None:
        self.found: dict[str, Schema] = {"Permissions": _PERMISSIONS, **_ERRORS, **_PAGES}

    def shown(self, model: type[BaseModel]) -> Schema:
        """A reference to what answers of a class look like."""
        name = model.__name__
        if name not in self.found:
            self.found[name] = {}
            self.found[name] = self._answer(model)
        return {"$ref": f"#/components/schemas/{name}"}

    def taken(self, model: type[BaseModel]) -> Schema:
        """A reference to what bodies of a class look like."""
        if model is BaseModel:
            return {"type": "object"}
        derived = issubclass(model, Body) or model.__name__.endswith(("Body", "Form", "Input"))
        name = model.__name__ if derived else f"{model.__name__}Input"
        if name not in self.found:
            self.found[name] = {}
            self.found[name] = self._body(model)
        return {"$ref": f"#/components/schemas/{name}"}

    def _answer(self, model: type[BaseModel]) -> Schema:
        properties: dict[str, Schema] = {}
        required = []
        for name, member in shown_members(model).items():
            if member.has(Mark.SEALED):
                properties[f"{name}_set"] = {"type": "boolean"}
                required.append(f"{name}_set")
            elif name == "permissions":
                properties[name] = {"$ref": "#/components/schemas/Permissions"}
            else:
                found = schema.of(member.annotation, self.shown)
                properties[name] = schema.nullable(found) if member.required and member.nullable else found
                if member.required or (member.expand is None and not member.nullable):
                    required.append(name)
        return _object(model, properties, required)

    def _body(self, model: type[BaseModel]) -> Schema:
        properties: dict[str, Schema] = {}
        required = []
        for name, member in members(model).items():
            found = schema.of(member.annotation, self.taken)
            properties[name] = schema.nullable(found) if member.nullable else found
            if member.required:
                required.append(name)
        return {**_object(model, properties, required), "additionalProperties": False}


def _object(model: type[BaseModel], properties: dict[str, Schema], required: list[str]) -> Schema:
    found: Schema = {"type": "object", "properties": properties}
    if about := schema.help_of(model):
        found = {"description": about, **found}
    if required:
        found["required"] = required
    return found


def _operation(route: Route, components: Components) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "tags": [_tag(route)],
    }
    if route.open:
        found["security"] = [{"client": []}, {}]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    parameters += [_query(query) for query in route.query]
    parameters += [
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
        for name in ("X-Client-Request-ID", *route.headers)
    ]
    found["parameters"] = parameters
    if route.body:
        media = "application/x-www-form-urlencoded" if route.form else "application/json"
        content = {media: {"schema": _one_of([components.taken(model) for model in route.body])}}
        found["requestBody"] = {"required": route.body_required, "content": content}
    found["responses"] = _responses(route, components)
    return found


def _tag(route: Route) -> str:
    return route.operation_id.partition(".")[0]


def _query(query: Query) -> dict[str, Any]:
    value: Schema = {"type": query.type, **({"format": query.format} if query.format else {})}
    if query.values and query.name == "sort":
        names = "|".join(query.values)
        value["pattern"] = f"^-?(?:{names})(?:,-?(?:{names}))*$"
    elif query.values and query.name != "expand[]":  # values of expand without a meaning are ignored
        value["enum"] = list(query.values)
    if query.name in ("after", "before"):
        value |= {"minLength": 1, "maxLength": 255}
    if query.type == "integer":
        value |= {"minimum": 1, "maximum": query.limit, "default": 50}
    if query.many:
        if query.name == "expand[]":
            value["examples"] = list(query.values)
        value = {"type": "array", "items": value, **({"maxItems": query.limit} if query.limit else {})}
    about = query.about
    if query.aliases:
        about = f"{about}; also spelled {', '.join(f'`{alias}`' for alias in query.aliases)}".lstrip("; ")
    found: dict[str, Any] = {"name": query.name, "in": "query", "required": False, "schema": value}
    if about:
        found["description"] = about
    if query.deprecated:
        found["deprecated"] = True
    return found


def _responses(route: Route, components: Components) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Done"}
    if route.response:
        content = _one_of([components.shown(model) for model in route.response])
        success["content"] = {route.media: {"schema": _wrapped(route, content)}}
        if route.operation_id == "changesets.create":
            success["content"]["application/x-ndjson"] = {"schema": {"type": "object"}}
    if route.etag:
        success["headers"] = {"ETag": {"schema": {"type": "string"}}}
    found = {str(route.status): success}
    refused = {*route.errors, 401, 429, 500, 503} - ({403, 404} if route.open else set())
    for status in sorted(refused):
        name = "NotModified" if status == 304 else f"Error{status}"
        found[str(status)] = {"$ref": f"#/components/responses/{name}"}
    return found


def _wrapped(route: Route, item: Schema) -> Schema:
    if route.envelope is None:
        return item
    if route.envelope is Wrap.ARRAY:
        return {"type": "array", "items": item}
    return {
        "allOf": [
            {"$ref": f"#/components/schemas/{route.envelope.value}"},
            {"type": "object", "properties": {"items": {"type": "array", "items": item}}},
        ]
    }


def _one_of(found: list[Schema]) -> Schema:
    return found[0] if len(found) == 1 else {"oneOf": found}


def _refusal(status: int, about: str) -> dict[str, Any]:
    if status == 304:
        return {"description": about}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {"description": about, "content": content}


_PERMISSIONS: Schema = {
    "description": "What the caller may do: kind of entity, then operation, then yes or no.",
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": {"type": "boolean"}},
}

_ERRORS: dict[str, Schema] = {
    "Error": {
        "description": "Every refusal of the management API.",
        "type": "object",
        "properties": {
            "message": {"type": "string"},
            "code": {"type": "string", "enum": CODES},
            "status": {"type": "integer"},
            "details": {"type": "array", "items": {"$ref": "#/components/schemas/ErrorDetail"}},
            "path": {"type": "string"},
            "request_id": {"type": "string"},
            "timestamp": {"type": "string", "format": "date-time"},
        },
        "required": ["message", "code", "status"],
    },
    "ErrorDetail": {
        "description": "One thing that is wrong; `field` is a path into the body, or a parameter's name.",
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "field": {"type": "string"},
            "message": {"type": "string"},
        },
        "required": ["code", "message"],
    },
}


def _page_info(previous: str, cursor: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {
            "has_next_page": {"type": "boolean"},
            previous: {"type": "boolean"},
            "end_cursor": cursor,
            "start_cursor": cursor,
        },
        "required": ["has_next_page", previous],
    }


def _page(required: list[str], **more: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {"items": {"type": "array"}, **more},
        "required": ["items", *required],
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_NULLABLE_CURSOR = schema.nullable(_CURSOR)
_PAGES: dict[str, Schema] = {
    "PageInfoCursor": _page_info("has_prev_page", _CURSOR),
    "PageInfoPagination": _page_info("has_previous_page", _NULLABLE_CURSOR),
    "Pagination": {
        "type": "object",
        "properties": {
            "after_cursor": _NULLABLE_CURSOR,
            "before_cursor": _NULLABLE_CURSOR,
            "total_count": {"type": "integer"},
        },
        "required": ["after_cursor", "before_cursor"],
    },
    Envelope.ORGANIZATION.value: _page(
        ["page_info"], page_info=_ref("PageInfoCursor"), permissions=_ref("Permissions")
    ),
    Envelope.ZONE_FULL.value: _page(
        ["page_info", "pagination"],
        page_info=_ref("PageInfoPagination"),
        pagination=_ref("Pagination"),
    ),
    Envelope.ZONE.value: _page(
        ["pagination"], pagination=_ref("Pagination"), page_info=_ref("PageInfoPagination")
    ),
    Wrap.ITEMS.value: _page([], permissions=_ref("Permissions")),
}

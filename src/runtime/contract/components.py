"""The named parts of the OpenAPI document: schemas of entities and bodies, pages, refusals, headers."""

from typing import Any

from pydantic import BaseModel

from runtime.contract import schema
from runtime.contract.answers import shown_members
from runtime.contract.bodies import Body
from runtime.contract.bundles import BundleArchive
from runtime.contract.schema import Schema
from runtime.domain import errors
from runtime.domain.kinds.marks import Mark, members

Headers = dict[str, dict[str, Any]]

# What a refusal of each status says: to readers, and in an example.
REFUSALS: dict[int, tuple[str, str, str]] = {
    400: (
        "The request is not acceptable; `details` name what is wrong",
        "validation_error",
        "`name` is required",
    ),
    401: ("No credential, or one that is not valid", "unauthorized", "the bearer credential is not valid"),
    403: (
        "The caller may see this but not do that",
        "forbidden",
        "the role `org_viewer` may not do that",
    ),
    404: (
        "There is no such thing, or the caller may not see it",
        "not_found",
        "there is no such thing here",
    ),
    406: ("None of the accepted media types is served", "bad_request", "ask for another media type"),
    409: (
        "A unique value is taken, or the state forbids the change; repeating does not help",
        "conflict",
        "`identifier` is taken",
    ),
    412: (
        "What the change is based on has changed since",
        "precondition_failed",
        'it has changed since: the present ETag is "7"',
    ),
    413: (
        "The body is too large, or the address with its headers",
        "bad_request",
        "the body has more than 1048576 bytes",
    ),
    415: ("The body has a media type that is not read", "bad_request", "send another media type"),
    429: ("Too many requests", "rate_limit_exceeded", "too many requests"),
    500: ("Something went wrong here", "internal_error", "something went wrong here"),
    503: (
        "Something this service depends on does not answer",
        "service_unavailable",
        "please try again shortly",
    ),
}
NOT_MODIFIED = "Nothing has changed since that ETag"

_HEADERS: Headers = {
    "X-Request-ID": {
        "description": "The id under which the service logged and recorded the request.",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
    },
    "X-Client-Request-ID": {
        "description": "The caller's own id of the request, as it was sent.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    },
    "ETag": {
        "description": "What `If-Match` and `If-None-Match` compare with.",
        "required": True,
        "schema": {"type": "string", "minLength": 3},
    },
    "X-Should-Retry": {
        "description": "Always `false`: the same request would be refused again.",
        "required": True,
        "schema": {"type": "string", "const": "false"},
    },
    "WWW-Authenticate": {
        "description": "How to authenticate.",
        "schema": {"type": "string", "minLength": 1},
    },
    "Retry-After": {
        "description": "Seconds to wait before the request is sent again.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
    "Idempotent-Replay": {
        "description": "`true` when the changeset had been applied before: this is the answer of then.",
        "schema": {"type": "string", "const": "true"},
    },
}
# The headers of refusals, besides those of every answer.
_TELLING = {401: "WWW-Authenticate", 409: "X-Should-Retry", 429: "Retry-After", 503: "Retry-After"}


def _archive() -> Schema:
    """An archive: bytes, which no schema describes."""
    return {"type": "string", "format": "binary", "description": schema.help_of(BundleArchive)}


class Components:
    """The named schemas of the document, collected as they are referred to."""

    def __init__(self) -> None:
        self.found: dict[str, Schema] = {"Permissions": _PERMISSIONS, **_ERRORS, **_PAGES}

    def shown(self, model: type[BaseModel]) -> Schema:
        """A reference to what answers of a class look like."""
        if model is BundleArchive:
            return _archive()
        name = model.__name__
        if name not in self.found:
            self.found[name] = {}
            self.found[name] = self._answer(model)
        return reference(name)

    def taken(self, model: type[BaseModel]) -> Schema:
        """A reference to what bodies of a class look like."""
        if model is BaseModel:
            return {"type": "object"}
        if model is BundleArchive:
            return _archive()
        derived = issubclass(model, Body) or model.__name__.endswith(("Body", "Form", "Input"))
        name = model.__name__ if derived else f"{model.__name__}Input"
        if name not in self.found:
            self.found[name] = {}
            self.found[name] = self._body(model)
        return reference(name)

    def _answer(self, model: type[BaseModel]) -> Schema:
        properties: dict[str, Schema] = {}
        required = []
        for name, member in shown_members(model).items():
            if member.has(Mark.SEALED):
                properties[f"{name}_set"] = {"type": "boolean"}
                required.append(f"{name}_set")
            elif name == "permissions":
                properties[name] = reference("Permissions")
            else:
                name = member.shown_as
                found = schema.of(member.annotation, self.shown)
                properties[name] = schema.nullable(found) if member.required and member.nullable else found
                if member.embed:
                    properties[name] = {**found, "deprecated": True}
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
        more = model.model_config.get("json_schema_extra")
        return {
            **_object(model, properties, required),
            **(more if isinstance(more, dict) else {}),
            "additionalProperties": False,
        }


def reference(name: str, section: str = "schemas") -> dict[str, Any]:
    """A reference to a component."""
    return {"$ref": f"#/components/{section}/{name}"}


def answer_headers(*names: str) -> dict[str, Any]:
    """The headers of an answer: those that every answer has, and these."""
    return {name: reference(name, "headers") for name in ("X-Request-ID", "X-Client-Request-ID", *names)}


def headers() -> Headers:
    """The headers of answers, by name."""
    return _HEADERS


def refusal_name(status: int, *, oauth: bool) -> str:
    """What the response component of a status is called."""
    return "NotModified" if status == 304 else f"{'OAuthError' if oauth else 'Error'}{status}"


def refusal(status: int, *, oauth: bool) -> dict[str, Any]:
    """The response component of a status, with an example."""
    if status == 304:
        return {"description": NOT_MODIFIED, "headers": answer_headers("ETag")}
    about, code, message = REFUSALS[status]
    example = _oauth_example(status) if oauth else _example(status, code, message)
    content = {
        "schema": reference("OAuthError" if oauth else "Error"),
        "examples": {example.get("error", code): {"value": example}},
    }
    more = [_TELLING[status]] if status in _TELLING else []
    return {
        "description": about,
        "headers": answer_headers(*more),
        "content": {"application/json": content},
    }


def _example(status: int, code: str, message: str) -> dict[str, Any]:
    details = [{"code": code, "message": "is required", "field": "name"}]
    return {
        "message": message,
        "code": code,
        "status": status,
        **({"details": details} if status == 400 else {}),
        "path": "/zones",
        "request_id": "h6m2x0d4q8w1c5z9k3r7t0v2y4",
        "timestamp": "2026-11-21T08:00:00Z",
    }


def _oauth_example(status: int) -> dict[str, Any]:
    told = {
        400: ("invalid_request", "`grant_type` is required"),
        401: ("invalid_client", "client authentication failed"),
        413: ("invalid_request", "the body is too large"),
        429: ("temporarily_unavailable", "too many requests"),
        500: ("server_error", "something went wrong here"),
        503: ("temporarily_unavailable", "please try again shortly"),
    }[status]
    return {"error": told[0], "error_description": told[1]}


def _object(model: type[BaseModel], properties: dict[str, Schema], required: list[str]) -> Schema:
    found: Schema = {"type": "object", "properties": properties}
    if about := schema.help_of(model):
        found = {"description": about, **found}
    if required:
        found["required"] = required
    return found


def _codes(tree: type[errors.ServiceError]) -> list[str]:
    found = (each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, tree))
    return sorted({each.code for each in found if "code" in vars(each)})


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
            "code": {
                "type": "string",
                "enum": sorted({*_codes(errors.ManagementError), "internal_error"}),
            },
            "status": {"type": "integer"},
            "details": {"type": "array", "items": reference("ErrorDetail")},
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
    "OAuthError": {
        "description": "A refusal where OAuth says how to refuse (RFC 6749 section 5.2).",
        "type": "object",
        "properties": {
            "error": {"type": "string", "enum": _codes(errors.OAuthError)},
            "error_description": {"type": "string"},
        },
        "required": ["error"],
    },
}


def _page_info(previous: str, cursor: Schema) -> Schema:
    return {
        "description": "What there is around the page; the cursors are those of its first and last item.",
        "type": "object",
        "properties": {
            "has_next_page": {"type": "boolean"},
            previous: {"type": "boolean"},
            "end_cursor": cursor,
            "start_cursor": cursor,
        },
        "required": ["has_next_page", previous],
    }


def _page(about: str, required: list[str], **more: Schema) -> Schema:
    return {
        "description": about,
        "type": "object",
        "properties": {"items": {"type": "array"}, **more},
        "required": ["items", *required],
    }


_CURSOR: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_NULLABLE_CURSOR = schema.nullable(_CURSOR)
_PAGES: dict[str, Schema] = {
    "PageInfoCursor": _page_info("has_prev_page", _CURSOR),
    "PageInfoPagination": _page_info("has_previous_page", _NULLABLE_CURSOR),
    "Pagination": {
        "description": "Where to go on: what `after` and `before` take, null where there is no page.",
        "type": "object",
        "properties": {
            "after_cursor": _NULLABLE_CURSOR,
            "before_cursor": _NULLABLE_CURSOR,
            "total_count": {"type": "integer", "minimum": 0},
        },
        "required": ["after_cursor", "before_cursor"],
    },
    "OrgPage": _page(
        "A page of a list below an organization.",
        ["page_info"],
        page_info=reference("PageInfoCursor"),
        permissions=reference("Permissions"),
    ),
    "OrgPageCounted": _page(
        "A page of a list below an organization that always tells its cursors.",
        ["page_info", "pagination"],
        page_info=reference("PageInfoCursor"),
        pagination=reference("Pagination"),
        permissions=reference("Permissions"),
    ),
    "ZonePageFull": _page(
        "A page of a list.",
        ["page_info", "pagination"],
        page_info=reference("PageInfoPagination"),
        pagination=reference("Pagination"),
    ),
    "ZonePage": _page(
        "A page of a list.",
        ["pagination"],
        pagination=reference("Pagination"),
        page_info=reference("PageInfoPagination"),
    ),
    "ItemsOnly": _page("The whole of a list.", [], permissions=reference("Permissions")),
}

"""The OpenAPI schemas without a class of their own: errors, pages, permissions of the caller."""

from typing import Any

from runtime.contract import schema
from runtime.contract.schema import Schema
from runtime.domain import errors


def reference(name: str, section: str = "schemas") -> dict[str, Any]:
    """A reference to a component."""
    return {"$ref": f"#/components/{section}/{name}"}


def _codes(tree: type[errors.ServiceError]) -> list[str]:
    found = (each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, tree))
    return sorted({each.code for each in found if "code" in vars(each)})


def _page_info(previous: str, cursor: Schema) -> Schema:
    return {
        "description": "Whether adjacent pages exist, and the cursors of the first and last item.",
        "type": "object",
        "properties": {
            "has_next_page": {"type": "boolean"},
            previous: {"type": "boolean"},
            "end_cursor": {**cursor, "examples": ["AbdQ3k1mXz"]},
            "start_cursor": {**cursor, "examples": ["AaXn8w2pLt"]},
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


_PERMISSIONS: Schema = {
    "examples": [{"zones": {"list": True, "create": True, "read": True, "update": True, "delete": False}}],
    "description": "Permissions of the caller, by kind of entity and operation.",
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": {"type": "boolean"}},
}

_ERRORS: dict[str, Schema] = {
    "Error": {
        "description": "An error response of the management API.",
        "type": "object",
        "properties": {
            "message": {"type": "string", "examples": ["is required"]},
            "code": {
                "type": "string",
                "examples": ["validation_error"],
                "enum": sorted({*_codes(errors.ManagementError), "internal_error"}),
            },
            "status": {"type": "integer", "examples": [400]},
            "details": {"type": "array", "items": reference("ErrorDetail")},
            "path": {"type": "string", "examples": ["/zones"]},
            "request_id": {"type": "string"},
            "timestamp": {"type": "string", "format": "date-time"},
        },
        "required": ["message", "code", "status"],
    },
    "ErrorDetail": {
        "description": "One problem; `field` is a path into the body, or the name of a parameter.",
        "type": "object",
        "properties": {
            "code": {"type": "string", "examples": ["validation_error"]},
            "field": {"type": "string", "examples": ["name"]},
            "message": {"type": "string", "examples": ["is required"]},
        },
        "required": ["code", "message"],
    },
    "OAuthError": {
        "description": "An OAuth error response (RFC 6749 section 5.2).",
        "type": "object",
        "properties": {
            "error": {"type": "string", "enum": _codes(errors.OAuthError)},
            "error_description": {"type": "string"},
        },
        "required": ["error"],
    },
}

_CURSOR: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_NULLABLE_CURSOR = schema.nullable(_CURSOR)
_PAGES: dict[str, Schema] = {
    "PageInfoCursor": _page_info("has_prev_page", _CURSOR),
    "PageInfoPagination": _page_info("has_previous_page", _NULLABLE_CURSOR),
    "Pagination": {
        "description": "Cursors for `after` and `before`; null where there is no such page.",
        "type": "object",
        "properties": {
            "after_cursor": {**_NULLABLE_CURSOR, "examples": [None]},
            "before_cursor": {**_NULLABLE_CURSOR, "examples": [None]},
            "total_count": {"type": "integer", "minimum": 0, "examples": [1]},
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
        "A page of a list below an organization that always includes its cursors.",
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
    "ItemsOnly": _page("A list without pages.", [], permissions=reference("Permissions")),
}

SHAPES: dict[str, Schema] = {"Permissions": _PERMISSIONS, **_ERRORS, **_PAGES}

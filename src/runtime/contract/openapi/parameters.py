"""The parameters of the OpenAPI document: path, query and request headers, with descriptions."""

import re
from typing import Any

from runtime.contract.routes import Route
from runtime.contract.schema import Schema
from runtime.domain import kinds
from runtime.domain.identifiers import example_id
from runtime.domain.kinds.queries import Query

Parameter = dict[str, Any]

# Printable ASCII that a header carries unchanged: spaces at its ends would be lost on the way.
_HEADER_TEXT = r"^[!-~](?:[ -~]*[!-~])?$"
_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_CURSOR: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[A-Za-z0-9_-]+$"}
_QUERY_PATTERN = r"^[^\x00-\x1f\x7f]*$"  # what every value of a query has to be

# Path parameters that are not the id of the entity that the path leads to: -> (description, example).
_NAMED: dict[str, tuple[str, str]] = {
    "organization_id": ("The organization's id, or its label.", example_id("Organization")),
    "dependencyId": ("The resource's id.", example_id("Resource")),
    "userId": ("The user's id.", example_id("User")),
    "roleId": ("The role's id.", example_id("Role")),
    "version": ("The version of the policy schema: a date.", "2026-11-21"),
    "changeset_id": ("The changeset's id.", example_id("Changeset")),
}

_HEADERS: dict[str, tuple[str, Schema]] = {
    "If-Match": (
        "The ETag that the change is based on: 412 when it has changed since.",
        {"type": "string"},
    ),
    "If-None-Match": (
        "The ETag of the caller's copy: 304 when it is still current.",
        {"type": "string"},
    ),
    "Idempotency-Key": (
        "The `plan_digest` of the body: a changeset that was applied before is answered, not applied again.",
        {"type": "string", "minLength": 1, "maxLength": 255, "pattern": _HEADER_TEXT},
    ),
    "X-API-Version": (
        "The version of the interface that the caller was written for; any value is accepted.",
        {"type": "string"},
    ),
}


def path_parameters(route: Route) -> list[Parameter]:
    """The parameters in a route's path."""
    found = []
    for match in re.finditer(r"{(\w+)}", route.path):
        about, example = _placed(route.path[: match.end()], match[1])
        found.append(
            {
                "name": match[1],
                "in": "path",
                "description": about,
                "required": True,
                "schema": _ID,
                "example": example,
            }
        )
    return found


def _placed(path: str, name: str) -> tuple[str, str]:
    """What a parameter at the end of a path is, and an example of it."""
    kind = next((kind for kind in kinds.ALL if kind.item_path == path), None)
    if kind is not None and name not in ("organization_id",):
        words = re.sub(r"(?<!^)([A-Z])", r" \1", kind.name).lower()
        return f"The {words}'s id.", example_id(kind.name)
    if name in _NAMED:
        return _NAMED[name]
    one = path.split("/")[-2].replace("-", " ").removesuffix("s")
    return f"The {one}'s {'id' if name.lower().endswith('id') else name.replace('_', ' ')}.", example_id(one)


def query_parameter(query: Query) -> Parameter:
    """A query parameter."""
    value = _value(query)
    if query.many:
        limit = {"maxItems": query.limit} if query.limit else {}
        value = {"type": "array", "items": value, **limit}
    found: Parameter = {"name": query.name, "in": "query"}
    if about := _about(query):
        found["description"] = about
    found |= {"required": False, "schema": value}
    if query.deprecated:
        found["deprecated"] = True
    return found


def _value(query: Query) -> Schema:
    value: Schema = {"type": query.type, **({"format": query.format} if query.format else {})}
    if query.name in ("after", "before", "cursor"):
        return _CURSOR
    if query.type == "integer":
        return {**value, "minimum": 1, "maximum": query.limit, "default": 50}
    if query.name == "expand[]":  # values without a meaning are ignored
        return {**value, **_text(query), "examples": list(query.values)}
    if query.values and query.name == "sort":
        names = "|".join(query.values)
        return {**value, "pattern": f"^-?(?:{names})(?:,-?(?:{names}))*$"}
    if query.values:
        return {**value, "enum": list(query.values)}
    if query.type == "string" and not query.format:
        return {**value, **_text(query)}
    return value


def _text(query: Query) -> Schema:
    at_least = {"minLength": query.min_chars} if query.min_chars else {}
    return {**at_least, "maxLength": query.max_chars, "pattern": _QUERY_PATTERN}


def _about(query: Query) -> str:
    about = query.about or _derived(query)
    if query.aliases:
        about += f"; also spelled {', '.join(f'`{alias}`' for alias in query.aliases)}"
    return f"{about[:1].upper()}{about[1:]}." if about else ""


def _derived(query: Query) -> str:
    """The description of an older name, an order, a filter, a search or an expansion."""
    if query.older_form_of:
        return f"older form of `{query.older_form_of}`"
    if query.name == "sort":
        return "members to sort by, separated by commas; a leading `-` means descending"
    how, _, rest = query.name.partition("[")
    member = rest.removesuffix("]")
    several = "; repeated values are alternatives" if query.many else ""
    if how == "filter" and member:
        return f"`{member}` equals this value{several}"
    if how == "query" and member:
        return f"`{member}` contains this text, ignoring case{several}"
    if query.name == "expand[]":
        return f"additional members to include: {', '.join(f'`{value}`' for value in query.values)}"
    return ""


def header_parameters(route: Route) -> list[Parameter]:
    """The request headers with a meaning for a route."""
    versioned = ("X-API-Version",) if route.path.startswith("/zones") and "/polic" in route.path else ()
    about = "The caller's own id of the request; the response repeats it."
    schema: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": _HEADER_TEXT}
    if route.path.startswith("/organizations"):
        about, schema = f"{about} A UUID.", {"type": "string", "format": "uuid"}
    found = [_header("X-Client-Request-ID", about, schema)]
    return found + [_header(name, *_HEADERS[name]) for name in (*versioned, *route.headers)]


def _header(name: str, about: str, schema: Schema) -> Parameter:
    return {"name": name, "in": "header", "description": about, "required": False, "schema": schema}

"""Generates the OpenAPI document: every route with its parameters, bodies, responses and permissions."""

from typing import Any

from runtime.contract.openapi.components import Components
from runtime.contract.openapi.examples import Examples
from runtime.contract.openapi.parameters import header_parameters, path_parameters, query_parameter
from runtime.contract.openapi.responses import answer_headers, headers, refusal, refusal_name
from runtime.contract.openapi.shapes import reference
from runtime.contract.routes import ROUTES, ListEnvelope, Route
from runtime.contract.schema import Schema

# Of the interface, not of the distribution.
VERSION = "1.0.0"

_TAGS: dict[str, str] = {
    "organizations": "Organizations, their users and roles",
    "service_accounts": "Machines that call this interface",
    "zones": "Isolated authorization servers",
    "policy_bundle": "A user's own policies, as one archive",
    "snapshot": "The whole configuration at once, for reconciliation",
    "changesets": "Many changes in one transaction",
    "audit_events": "The audit trail: who changed what",
    "explanations": "What would be decided about a token exchange now",
    "decisions": "What was decided about sign-ins and token requests",
}

_SCHEMES: dict[str, Any] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, a token from `/service-account-token`, or an organization user's token.",
    },
    "client": {
        "type": "http",
        "scheme": "basic",
        "description": "A service account's client id and secret; they can also come in the form.",
    },
    "zone": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "at+jwt",
        "description": "An access token that a zone issued to a user for this resource; not an API key.",
    },
}
# Who may call the operations that are not for every bearer: operation, or its first half -> schemes.
_SECURITY: dict[str, list[dict[str, list[str]]]] = {
    "service_account_token.create": [{"client": []}, {}],
    "invitations.retrieve": [],
    "invitations.accept": [{"bearer": []}, {}],
    "policy_bundle": [{"zone": []}],
}


def openapi() -> dict[str, Any]:
    """The document, as it is served and checked in."""
    document = _Document()
    paths: dict[str, dict[str, Any]] = {}
    for route in sorted(ROUTES, key=lambda route: (route.path, route.method)):
        paths.setdefault(route.path, {})[route.method.lower()] = document.operation(route)
    document.show_examples()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "zonewright management API",
            "version": VERSION,
            "description": "Organizations, zones and the objects in them."
            " The OAuth and OpenID Connect endpoints of zones are not part of it.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The server of this document."}],
        "security": [{"bearer": []}],
        "tags": [_tag_object(name) for name in sorted({tag_of(route) for route in ROUTES})],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(document.components.found.items())),
            "responses": dict(sorted(document.refusals.items())),
            "headers": headers(),
            "securitySchemes": _SCHEMES,
        },
    }


def tag_of(route: Route) -> str:
    """The group that a route stands in."""
    return route.operation_id.partition(".")[0]


def security_of(route: Route) -> list[dict[str, list[str]]] | None:
    """The alternatives of who may call a route; None for what the document says of all."""
    found = _SECURITY.get(route.operation_id, _SECURITY.get(tag_of(route)))
    return [{}] if found is None and route.open else found


def _tag_object(name: str) -> dict[str, str]:
    about = _TAGS.get(name)
    return {"name": name, **({"description": about} if about else {})}


class _Document:
    """The operations of the document, and what they refer to."""

    def __init__(self) -> None:
        self.components = Components()
        self.refusals: dict[str, Any] = {}
        self._contents: list[dict[str, Any]] = []

    def operation(self, route: Route) -> dict[str, Any]:
        """One operation. Its examples come when all schemas are known."""
        found: dict[str, Any] = {
            "operationId": route.operation_id,
            "summary": route.summary,
            "tags": [tag_of(route)],
        }
        if (security := security_of(route)) is not None:
            found["security"] = security
        found["parameters"] = [
            *path_parameters(route),
            *(query_parameter(query) for query in route.query),
            *header_parameters(route),
        ]
        if route.body:
            media = "application/x-www-form-urlencoded" if route.form else route.takes
            taken = _one_of([self.components.taken(model) for model in route.body])
            found["requestBody"] = {"required": route.body_required, "content": {media: self._content(taken)}}
        found["responses"] = self._responses(route)
        return found

    def show_examples(self) -> None:
        """Give every body and every answer its examples."""
        examples = Examples(self.components.found, self.components.examples)
        for content in self._contents:
            content["examples"] = examples.named(content["schema"])

    def _content(self, schema: Schema) -> dict[str, Any]:
        content = {"schema": schema}
        self._contents.append(content)
        return content

    def _responses(self, route: Route) -> dict[str, Any]:
        told = [name for name, tells in (("ETag", route.etag),) if tells]
        if "Idempotency-Key" in route.headers:
            told.append("Idempotent-Replay")
        success: dict[str, Any] = {"description": "Done", "headers": answer_headers(*told)}
        if route.response:
            content = _one_of([self.components.shown(model) for model in route.response])
            success["content"] = {route.media: self._content(_wrapped(route, content))}
            if route.operation_id == "changesets.create":
                success["content"]["application/x-ndjson"] = self._content(_lines(content))
        found = {str(route.status): success}
        for status in sorted(self._refused(route)):
            name = refusal_name(status, oauth=route.form)
            self.refusals.setdefault(name, refusal(status, oauth=route.form))
            found[str(status)] = reference(name, "responses")
        return found

    @staticmethod
    def _refused(route: Route) -> set[int]:
        security = security_of(route)
        anybody = security is not None and (not security or {} in security)
        # A header can always be malformed (400), an address too long (413).
        return {*route.errors, 400, 413, 429, 500, 503, *(() if anybody else (401,))}


def _lines(result: Schema) -> Schema:
    """What a line of a changeset's answer is, when lines are asked for."""
    progress = {
        "description": "Progress of the changeset.",
        "type": "object",
        "properties": {
            "type": {"const": "progress"},
            "done": {"type": "integer", "minimum": 0},
            "total": {"type": "integer", "minimum": 0},
        },
        "required": ["type", "done", "total"],
    }
    ends = [
        {"allOf": [{"type": "object", "properties": {"type": {"const": name}}, "required": ["type"]}, told]}
        for name, told in (("result", result), ("error", reference("Error")))
    ]
    return {"oneOf": [progress, *ends]}


def _wrapped(route: Route, item: Schema) -> Schema:
    if route.envelope is None:
        return item
    if route.envelope is ListEnvelope.ARRAY:
        return {"type": "array", "items": item}
    return {
        "allOf": [
            reference(route.envelope.value),
            {"type": "object", "properties": {"items": {"type": "array", "items": item}}},
        ]
    }


def _one_of(found: list[Schema]) -> Schema:
    return found[0] if len(found) == 1 else {"oneOf": found}

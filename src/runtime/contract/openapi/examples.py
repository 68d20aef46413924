"""Examples of bodies and answers, made from their schemas: the same ones each time.

A value is chosen by the member's name, with its schema's name before it where that matters, else by its
format. What no rule gives is written here by hand.
"""

import re
from hashlib import sha256
from typing import Any

from runtime.contract.schema import Schema
from runtime.domain.identifiers import ALPHABET, ID_LENGTH

_MOMENT = "2026-11-21T08:00:00Z"
_ISSUER = "https://acme.zones.example"
_CEDAR = "permit (principal, action, resource);"


def example_id(name: str) -> str:
    """The id that examples of that name have: `Application`, `Zone`, ..."""
    number, characters = int.from_bytes(sha256(name.encode()).digest()), []
    for _ in range(ID_LENGTH):
        number, place = divmod(number, len(ALPHABET))
        characters.append(ALPHABET[place])
    return "".join(characters)


# Whole objects whose members depend on one another: schema -> value.
_WHOLE: dict[str, Any] = {
    "AssignmentBody": {"role_identifier": "zone_viewer", "owner_type": "platform"},
    "PolicyVersionBody": {"schema_version": "2026-11-21", "cedar_raw": _CEDAR},
    "PointerInput": {"local_id": "crm"},
    "OperationInput": {
        "op": "create",
        "kind": "ServiceAccount",
        "local_id": "deployer",
        "name": "deployer",
        "spec": {"name": "deployer", "description": "Applies what is merged"},
        "fields": ["name", "description"],
    },
    "EmptyBody": {},
    "Permissions": {"zones": {"list": True, "create": True, "read": True, "update": True, "delete": False}},
    "TokenForm": {
        "grant_type": "client_credentials",
        "client_id": example_id("client"),
        "client_secret": "the-secret-shown-once",
    },
}

# `Schema.member`, or `member` anywhere -> value.
_VALUES: dict[str, Any] = {
    "access_token": "eyJhbGciOiJFUzI1NiIsInR5cCI6Im0ybStqd3QifQ.eyJzdWIiOiIuLi4ifQ.c2lnbmF0dXJl",
    "action": "applications.update",
    "active": True,
    "after": {"name": "Calendar agent"},
    "after_cursor": None,
    "allowed_client_ids": ["https://*.agents.example/client.json"],
    "applied": {"name": "Calendar agent"},
    "arn": "arn:aws:kms:eu-central-1:111122223333:key/1234abcd",
    "authorization_parameters": {"prompt": "select_account"},
    "base_revision": 41,
    "before": {"name": "Calendar"},
    "before_cursor": None,
    "cedar_json": {"effect": "permit"},
    "cedar_raw": _CEDAR,
    "cedar_schema": "entity User;",
    "cedar_schema_json": {"": {"entityTypes": {"User": {}}, "actions": {}}},
    "code_challenge_methods_supported": ["S256"],
    "commit": "9fceb02d0ae598e95dc970b74767f19372d61af8",
    "credential_lifetime_seconds": 3600,
    "cursor": "AbdQ3k1mXz",
    "dcr_enabled": True,
    "description": "Books meetings for whoever asks",
    "detail": "the issuer answered 404",
    "email": "ada@acme.example",
    "end_cursor": "AbdQ3k1mXz",
    "expires_in": 3600,
    "external_id_claim": "sub",
    "fields": ["name", "description"],
    "grant_type": "client_credentials",
    "handle": "calendar-agent",
    "hash": sha256(b"this").hexdigest(),
    "identifier": "https://calendar.acme.example",
    "issuer": _ISSUER,
    "is_default": True,
    "key_id": "k-2026-11",
    "kind": "Application",
    "label": "acme",
    "latest_schema_version": "2026-11-21",
    "local_id": "crm",
    "manifest_sha": sha256(b"manifest").hexdigest(),
    "message": "is required",
    "name": "Calendar agent",
    "owner": "acme/identity",
    "password": "the-secret-shown-once",
    "path": "/zones",
    "pkce_required": True,
    "plan_digest": sha256(b"plan").hexdigest(),
    "previous_hash": sha256(b"previous").hexdigest(),
    "ref": "refs/heads/main",
    "repository": "https://git.acme.example/identity",
    "requires_invitation": True,
    "revision": 42,
    "role_identifier": "reader",
    "roles": ["reader"],
    "run_url": "https://ci.acme.example/runs/17",
    "schema_version": "2026-11-21",
    "scope_parameter": "scope",
    "scope_separator": " ",
    "scope_type": "zone",
    "scopes": ["calendar.use"],
    "scopes_supported": ["openid", "email"],
    "sequence": 1042,
    "session_data": {"email": "ada@acme.example"},
    "sha": sha256(_CEDAR.encode()).hexdigest(),
    "slug": "calendar-agent",
    "source": _ISSUER,
    "spec": {"name": "Calendar agent"},
    "start_cursor": "AaXn8w2pLt",
    "subject": "ada",
    "total_count": 1,
    "traits": ["mcp-server"],
    "when_accessing": [example_id("Resource")],
    "zone": "acme-product",
    "owner_type": "customer",
    "redirect_uris": ["https://calendar.acme.example/callback"],
    # Where the name alone would say something else (`Create`, `Update` and `Input` left out):
    "AuditRange.first": 1040,
    "AuditRange.last": 1042,
    "Error.code": "validation_error",
    "Error.status": 400,
    "ErrorDetail.code": "validation_error",
    "ErrorDetail.field": "name",
    "OperationResult.index": 0,
    "SnapshotEntity.secrets_set": ["client_secret"],
    "ApiKey.name": "nightly report",
    "ApiKey.role": "org_viewer",
    "ApiKey.api_key": "zwk_dze04yygzng3xe5r0es2bwz0y5_the-secret-of-the-key",
    "ApiKey.expires_in_seconds": 2_592_000,
    "ApiKey.owner": "payments",
    "ServiceAccountCredential.owner": "payments",
    "ServiceAccountCredential.role": "service_account",
    "ServiceAccountCredential.expires_in_seconds": 2_592_000,
    "ServiceAccount.name": "ci",
    "ServiceAccount.description": "Applies what is merged",
    "ServiceAccountCredential.name": "ci, November",
    "ServiceAccountCredential.description": "Rotated every month",
    "Zone.name": "Acme product",
    "Zone.slug": "acme-product",
    "Zone.description": "Everything the product team builds",
    "Provider.identifier": "https://login.acme.example",
    "Provider.name": "Acme login",
    "Provider.slug": "acme-login",
    "Provider.description": "Where employees sign in",
    "Provider.issuer": "https://login.acme.example",
    "Resource.identifier": "https://calendar.acme.example/v1",
    "Resource.name": "Calendar API",
    "Resource.slug": "calendar-api",
    "Resource.description": "Everybody's calendar",
    "Group.name": "Platform team",
    "Group.identifier": "platform-team",
    "UserGroup.name": "Platform team",
    "UserGroup.identifier": "platform-team",
    "Policy.name": "Calendar in office hours",
    "Policy.description": "The calendar agent works from 8 to 18",
    "Policy.absent_names": ['Group::"leavers"'],
    "PolicySet.name": "Acme product policies",
    "Role.description": "May read everything",
    "Organization.name": "Acme",
    "OrganizationRoleInfo.label": "org_viewer",
    "OrganizationRoleInfo.name": "Viewer",
    "OrganizationRoleInfo.description": "Sees everything of the organization",
    "PolicySchema.version": "2026-11-21",
    "Receipt.source": {"repository": "https://git.acme.example/identity", "ref": "refs/heads/main"},
    "Role.identifier": "reader",
    "User.identifier": "ada",
    "UserCredential.type": "federation",
    "UserRoleAssignment.source": "group",
    "AuditActor.type": "api_key",
    "ScopeRef.type": "zone",
    "Ownership.source": {"repository": "https://git.acme.example/identity"},
    "Changeset.operations": [_WHOLE["OperationInput"]],
}

# What examples do not tell, where it can be left out or null: they are of what is in use.
_ENDED = ("archived_at", "archived_by", "archived_by_user", "deprecated_at", "revoked_at")
# How many objects deep optional objects are shown.
_DEEPEST = 3
_STEM = re.compile(r"(?:Create|Created|Update|Input)$")


class Examples:
    """Makes examples of the schemas of one document.

    Args:
        schemas: the document's components by name.
    """

    def __init__(self, schemas: dict[str, Schema]) -> None:
        self._schemas = schemas

    def named(self, schema: Schema) -> dict[str, Any]:
        """Examples of a body or an answer by name: one for each form it can have."""
        forms = schema.get("oneOf", [schema])
        return {_name(form): {"value": self.of(form)} for form in forms}

    def of(self, schema: Schema, owner: str = "", member: str = "", depth: int = 0) -> Any:
        """One example of a schema.

        Args:
            owner: the name of the schema that *member* belongs to.
            depth: how many objects are around it: the deeper, the less is shown.
        """
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return _WHOLE[name] if name in _WHOLE else self.of(self._schemas[name], name, member, depth)
        if "allOf" in schema and "properties" not in schema:
            return self._merged(schema["allOf"], owner, member, depth)
        for joined in ("oneOf", "anyOf"):
            if joined in schema and "properties" not in schema:
                form = next(form for form in schema[joined] if form.get("type") != "null")
                return self.of(form, owner, member, depth)
        if "const" in schema:
            return schema["const"]
        return self._leaf(schema, owner, member, depth)

    def _merged(self, parts: list[Schema], owner: str, member: str, depth: int) -> Any:
        merged: dict[str, Any] = {}
        for part in parts:
            merged |= self.of(part, owner, member, depth)
        return merged

    def _leaf(self, schema: Schema, owner: str, member: str, depth: int) -> Any:
        type_ = schema.get("type", "object")
        if isinstance(type_, list) and member in _ENDED:
            return None
        if isinstance(type_, list):
            type_ = next(one for one in type_ if one != "null")
        if type_ == "object" and "properties" in schema:
            return self._object(schema, owner, depth)
        for known in (f"{_STEM.sub('', owner)}.{member}", member):
            if known in _VALUES and _fits(_VALUES[known], type_, schema):
                return _VALUES[known]
        if "enum" in schema:
            return schema["enum"][0]
        if type_ == "array":
            return self._items(schema.get("items", {}), owner, member, depth)
        if type_ == "object":
            return {}
        if type_ == "integer":
            return max(1, schema.get("minimum", 1))
        return member.endswith("_set") if type_ == "boolean" else _text(schema, owner, member)

    def _items(self, schema: Schema, owner: str, member: str, depth: int) -> list[Any]:
        forms = schema.get("oneOf", [schema])
        return [self.of(form, owner, member, depth) for form in forms if form]

    def _object(self, schema: Schema, owner: str, depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            name: self.of(inner, owner, name, depth + 1)
            for name, inner in schema["properties"].items()
            if name in required
            or (name not in _ENDED and not inner.get("deprecated") and self._shown(inner, depth))
        }

    def _shown(self, schema: Schema, depth: int) -> bool:
        """Tell whether an optional member is shown: inside of other objects no entity is, and no list."""
        if depth == 0 or _plain(schema):
            return True
        forms = [form for form in schema.get("anyOf", [schema]) if "$ref" in form]
        found = [self._schemas[form["$ref"].rpartition("/")[2]] for form in forms]
        return (
            depth < _DEEPEST
            and bool(found)
            and not any("created_at" in each.get("properties", ()) for each in found)
        )


def _name(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    told = schema.get("allOf", [schema])[0].get("properties", {}).get("type", {})
    return str(told.get("const", "page" if "allOf" in schema else "body"))


def _plain(schema: Schema) -> bool:
    """Tell whether a member is neither an object nor a list."""
    return "$ref" not in schema and "anyOf" not in schema and schema.get("type") not in ("array", "object")


def _fits(value: Any, type_: str, schema: Schema) -> bool:
    if value is None:
        return "null" in schema.get("type", ())
    if "enum" in schema:
        return value in schema["enum"]
    python: type = {"string": str, "array": list, "object": dict, "integer": int, "boolean": bool}[type_]
    return isinstance(value, python) and re.search(schema.get("pattern", ""), str(value)) is not None


def _text(schema: Schema, owner: str, member: str) -> str:
    format_ = schema.get("format", "")
    if format_ == "date-time" or member.endswith("_at") or member == "at":
        return "2027-11-21T08:00:00Z" if member.startswith("expires") else _MOMENT
    if format_ == "uri" or member.endswith(("_endpoint", "_uri", "_url", "href")):
        return f"{_ISSUER}/{member.replace('_', '-')}"
    if format_ == "binary":
        return "(the bytes of the archive)"
    if format_ == "uuid":
        return "7b0f3f1e-27b5-4d4c-9a55-0f8cb8ab9f0d"
    if format_ == "password":
        return "a-secret-of-your-own"
    if member == "id":
        return example_id(owner)
    if member.endswith("_id"):
        return example_id(member.removesuffix("_id").rpartition("_")[2].capitalize())
    if member.endswith("_by"):
        return example_id("User")
    return member.replace("_", "-") or "text"

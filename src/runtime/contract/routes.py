"""Every operation of the management API as a value: the generic ones from the kinds, the others by hand."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from runtime.contract import answers, changes
from runtime.contract.bodies import bodies
from runtime.contract.bundles import MEDIA_TYPE, BundleArchive
from runtime.contract.queries import (
    AFTER,
    AUDITED,
    BEFORE,
    FORMAT,
    LIMIT,
    OF_SECRETS,
    ORDER,
    SCOPE,
    SINCE,
    UNTIL,
    ZONE_ROLE,
    Query,
    expand,
    list_query,
    paging,
    retrieve_query,
)
from runtime.contract.secrets import SecretWithData
from runtime.contract.written import AssignmentBody, EmptyBody, MemberBody, ZoneMemberBody, ZoneRoleBody
from runtime.domain import kinds
from runtime.domain.kinds.base import Envelope, Kind, Verb
from runtime.domain.kinds.policy import PolicySchema
from runtime.domain.kinds.sso_connection import SSO_CONNECTION, SSOConnection
from runtime.domain.kinds.values import OrganizationRole

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
    envelope: "Envelope | Wrap | None" = None
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


class Wrap(StrEnum):
    """Shapes of lists that are not one of the paging envelopes."""

    ITEMS = "ItemsOnly"
    ARRAY = "array"  # no wrapping at all


_SUMMARIES = {
    Verb.LIST: "List {many}",
    Verb.CREATE: "Create {one}",
    Verb.RETRIEVE: "Get {one}",
    Verb.UPDATE: "Change {one}",
    Verb.DELETE: "Delete {one}",
    Verb.ARCHIVE: "Archive {one}",
}


# Answers of creates that show a secret once, in place of the plain entity.
_CREATED: dict[str, tuple[type[BaseModel], ...]] = {
    "ServiceAccountCredential": (answers.ServiceAccountCredentialCreated,),
    "ApplicationCredential": (answers.PasswordCredentialCreated, *kinds.APPLICATION_CREDENTIAL.classes[1:]),
}


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
            status, response = kind.created, _CREATED.get(kind.name, response)
    else:
        status, response = (204, ()) if verb is Verb.DELETE else (200, response)
        errors.append(409)
    if kind.etag and (verb is Verb.UPDATE or (verb is Verb.ARCHIVE and kind is kinds.POLICY_SET)):
        headers, errors = ("If-Match",), [*errors, 412]
    one = _words(kind.name)
    return Route(
        operation_id=f"{kind.operations}.{verb.value}",
        method=METHODS[verb],
        path=kind.collection_path if verb in (Verb.LIST, Verb.CREATE) else kind.item_path,
        status=status,
        summary=_SUMMARIES[verb].format(one=f"{_article(one)} {one}", many=kind.operations.replace("_", " ")),
        kind=kind,
        verb=verb,
        query=query,
        body=body,
        response=response,
        envelope=kind.listing.envelope if verb is Verb.LIST and kind.listing else None,
        headers=headers,
        etag=kind.etag and verb in (Verb.CREATE, Verb.RETRIEVE, Verb.UPDATE),
        errors=tuple(errors),
    )


def _words(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _article(words: str) -> str:
    return "an" if words[0] in "aeio" else "a"


def _hand(operation_id: str, method: str, path: str, status: int, summary: str, **more: Any) -> Route:
    return Route(operation_id, method, path, status, summary, **{"errors": (400, 403, 404), **more})


_APPLICATION = kinds.APPLICATION.item_path
_GROUP = kinds.GROUP.item_path
_VERSION = kinds.POLICY_SET_VERSION.item_path
_SCHEMAS = f"{kinds.ZONE.item_path}/policy-schemas"
_ORGANIZATION = kinds.ORGANIZATION.item_path
_MEMBERS = f"{kinds.ZONE.item_path}/members"
_MEMBER = f"{_MEMBERS}/{{organizationUserId}}"
_SSO = f"{_ORGANIZATION}/{SSO_CONNECTION.collection}"
_ASSIGNMENT = kinds.ROLE_ASSIGNMENT.classes
_ASSIGNED_QUERY = (Query("filter[id]", many=True, limit=100, about="ids of assignments"), *paging())


def _assignments(owner: Kind, name: str, add: str, remove: str) -> tuple[Route, ...]:
    """List, give and take the roles of one kind of principal."""
    path = f"{owner.item_path}/roles"
    one = f"{_article(_words(owner.name))} {_words(owner.name)}"
    kind = kinds.ROLE_ASSIGNMENT
    return (
        _hand(
            f"{name}.list",
            "GET",
            path,
            200,
            f"List the roles of {one}",
            kind=kind,
            query=_ASSIGNED_QUERY,
            response=_ASSIGNMENT,
            envelope=Envelope.ZONE,
        ),
        _hand(
            f"{name}.{add}",
            "POST",
            path,
            201,
            f"Give {one} a role",
            kind=kind,
            body=(AssignmentBody,),
            response=_ASSIGNMENT,
            errors=(400, 403, 404, 409),
        ),
        _hand(
            f"{name}.{remove}",
            "DELETE",
            f"{path}/{{roleId}}",
            204,
            f"Take a role from {one}",
            kind=kind,
            query=SCOPE,
        ),
    )


_WHEN = Query("when_accessing", many=True, about="ids of resources; replaces the stored list")

IRREGULAR: tuple[Route, ...] = (
    _hand(
        "organizations.list_roles",
        "GET",
        f"{_ORGANIZATION}/roles",
        200,
        "List the roles that organizations and zones know",
        kind=kinds.ORGANIZATION,
        query=(Query("scope", values=("organization", "zone")), expand("permissions", "total_count")),
        response=(answers.OrganizationRoleInfo,),
        envelope=Wrap.ITEMS,
    ),
    _hand(
        "organizations.exchange_token",
        "POST",
        f"{_ORGANIZATION}/token",
        200,
        "Swap a user's token for one of an organization that the user acts for",
        kind=kinds.ORGANIZATION,
        response=(answers.TokenResponse,),
        errors=(403, 404),
    ),
    _hand(
        "providers.validate",
        "POST",
        f"{kinds.PROVIDER.item_path}/validate",
        200,
        "Try the connection to a provider now; 200 also when a check fails",
        kind=kinds.PROVIDER,
        response=(answers.ValidationResult,),
        errors=(403, 404),
    ),
    _hand(
        "applications.list_credentials",
        "GET",
        f"{_APPLICATION}/application-credentials",
        200,
        "List the credentials of an application",
        kind=kinds.APPLICATION_CREDENTIAL,
        query=paging(cursor=True),
        response=kinds.APPLICATION_CREDENTIAL.classes,
        envelope=Envelope.ZONE_FULL,
    ),
    _hand(
        "applications.list_resources",
        "GET",
        f"{_APPLICATION}/resources",
        200,
        "List the resources that an application provides",
        kind=kinds.RESOURCE,
        query=paging(cursor=True),
        response=kinds.RESOURCE.classes,
        envelope=Envelope.ZONE,
    ),
    _hand(
        "application_dependencies.list",
        "GET",
        f"{_APPLICATION}/dependencies",
        200,
        "List the resources that an application depends on",
        kind=kinds.RESOURCE,
        query=(Query("when_accessing", about="the id of a resource"), *paging(cursor=True)),
        response=kinds.RESOURCE.classes,
        envelope=Envelope.ZONE,
    ),
    _hand(
        "application_dependencies.add",
        "PUT",
        f"{_APPLICATION}/dependencies/{{dependencyId}}",
        204,
        "Let an application depend on a resource",
        kind=kinds.APPLICATION,
        query=(_WHEN,),
        body=(EmptyBody,),
        body_required=False,
    ),
    _hand(
        "application_dependencies.remove",
        "DELETE",
        f"{_APPLICATION}/dependencies/{{dependencyId}}",
        204,
        "End an application's dependency on a resource",
        kind=kinds.APPLICATION,
    ),
    _hand(
        "application_dependencies.retrieve",
        "GET",
        f"{_APPLICATION}/dependencies/{{dependencyId}}",
        200,
        "Get a resource that an application depends on",
        kind=kinds.RESOURCE,
        response=kinds.RESOURCE.classes,
    ),
    *_assignments(kinds.APPLICATION, "application_roles", "assign", "revoke"),
    *_assignments(kinds.USER, "user_roles", "assign", "revoke"),
    *_assignments(kinds.GROUP, "group_roles", "add", "remove"),
    _hand(
        "group_members.list",
        "GET",
        f"{_GROUP}/members",
        200,
        "List the members of a group",
        kind=kinds.GROUP,
        query=(Query("filter[id]", many=True, limit=100, about="ids of users"), *paging()),
        response=(answers.GroupMember,),
        envelope=Envelope.ZONE,
    ),
    _hand(
        "group_members.add",
        "POST",
        f"{_GROUP}/members",
        201,
        "Add a user to a group",
        kind=kinds.GROUP,
        body=(MemberBody,),
        response=(answers.GroupMember,),
        errors=(400, 403, 404, 409),
    ),
    _hand(
        "group_members.remove",
        "DELETE",
        f"{_GROUP}/members/{{userId}}",
        204,
        "Remove a user from a group",
        kind=kinds.GROUP,
    ),
    _hand(
        "secrets.list",
        "GET",
        kinds.SECRET.collection_path,
        200,
        "List secrets, without their values",
        kind=kinds.SECRET,
        query=OF_SECRETS,
        response=kinds.SECRET.classes,
        envelope=Wrap.ARRAY,
    ),
    _hand(
        "secrets.retrieve",
        "GET",
        kinds.SECRET.item_path,
        200,
        "Get a secret with its value; the audit trail says who did",
        kind=kinds.SECRET,
        response=(SecretWithData,),
        errors=(403, 404),
    ),
    _hand(
        "members.list",
        "GET",
        _MEMBERS,
        200,
        "List who of the organization has a role in a zone",
        kind=kinds.ROLE_ASSIGNMENT,
        query=(ZONE_ROLE, *paging()),
        response=(answers.ZoneMember,),
        envelope=Envelope.ZONE_FULL,
    ),
    _hand(
        "members.add",
        "POST",
        _MEMBERS,
        200,
        "Give a user of the organization a role in a zone",
        body=(ZoneMemberBody,),
        response=(answers.ZoneMember,),
        errors=(400, 403, 404, 409),
    ),
    _hand("members.retrieve", "GET", _MEMBER, 200, "Get a member of a zone", response=(answers.ZoneMember,)),
    _hand(
        "members.update",
        "PATCH",
        _MEMBER,
        200,
        "Give a member of a zone another role",
        body=(ZoneRoleBody,),
        response=(answers.ZoneMember,),
    ),
    _hand("members.remove", "DELETE", _MEMBER, 204, "Take the roles in a zone from a member"),
    _hand(
        "policy_schemas.list",
        "GET",
        _SCHEMAS,
        200,
        "List the versions of the policy schema",
        kind=kinds.POLICY,
        query=(
            AFTER,
            BEFORE,
            LIMIT,
            Query("sort", values=("created_at",)),
            ORDER,
            FORMAT,
            Query("filter[default]", "boolean"),
            Query("is_default", "boolean", deprecated=True),
            expand("total_count", "user"),
        ),
        response=(PolicySchema,),
        envelope=Envelope.ZONE,
    ),
    _hand(
        "policy_schemas.retrieve",
        "GET",
        f"{_SCHEMAS}/{{version}}",
        200,
        "Get a version of the policy schema",
        kind=kinds.POLICY,
        query=(FORMAT,),
        response=(PolicySchema,),
    ),
    _hand(
        "policy_schemas.set_default",
        "PATCH",
        f"{_SCHEMAS}/{{version}}",
        200,
        "Make a version the zone's default",
        kind=kinds.POLICY,
        body=(BaseModel,),
        body_required=False,
        response=(PolicySchema,),
    ),
    _hand(
        "policy_set_versions.list_policies",
        "GET",
        f"{_VERSION}/policies",
        200,
        "List the policy versions of a policy set version",
        kind=kinds.POLICY_VERSION,
        query=(
            AFTER,
            BEFORE,
            LIMIT,
            Query("sort", values=("created_at",)),
            ORDER,
            FORMAT,
            expand("total_count", "user"),
        ),
        response=kinds.POLICY_VERSION.classes,
        envelope=Envelope.ZONE,
    ),
    _hand(
        "policy_bundle.retrieve",
        "GET",
        "/policy/bundle",
        200,
        "Get the policy bundle of the token's user; the first time it is made",
        response=(BundleArchive,),
        media=MEDIA_TYPE,
        zone_token=True,
        headers=("If-None-Match",),
        etag=True,
        errors=(304, 403, 406),
    ),
    _hand(
        "policy_bundle.update",
        "PUT",
        "/policy/bundle",
        200,
        "Replace the policy bundle of the token's user",
        body=(BundleArchive,),
        takes=MEDIA_TYPE,
        response=(BundleArchive,),
        media=MEDIA_TYPE,
        zone_token=True,
        headers=("If-Match",),
        etag=True,
        errors=(403, 406, 412, 413, 415),
    ),
    _hand(
        "policy_bundle.reset",
        "DELETE",
        "/policy/bundle",
        204,
        "Go back to the default policies",
        zone_token=True,
        errors=(403,),
    ),
    _hand(
        "service_account_token.create",
        "POST",
        "/service-account-token",
        200,
        "Exchange a service account's client id and secret for a bearer token",
        body=(changes.TokenForm,),
        form=True,
        open=True,
        response=(answers.TokenResponse,),
        errors=(400, 401),
    ),
    _hand(
        "organizations.list_identities",
        "GET",
        f"{_ORGANIZATION}/identities",
        200,
        "List an organization's users and invitations together, the oldest first",
        kind=kinds.ORGANIZATION,
        query=(
            AFTER,
            BEFORE,
            LIMIT,
            Query("query[email]", many=True),
            Query("role", values=tuple(OrganizationRole), about="who has this role, or is to have it"),
            expand("permissions", "total_count"),
        ),
        response=(answers.Identity,),
        envelope=Envelope.ORGANIZATION_COUNTED,
    ),
    _hand(
        "sso_connection.enable",
        "POST",
        _SSO,
        201,
        "Have an organization's people sign in at a provider",
        kind=SSO_CONNECTION,
        body=bodies(SSO_CONNECTION, Verb.CREATE),
        response=(SSOConnection,),
        errors=(400, 403, 404, 409),
    ),
    _hand(
        "sso_connection.retrieve",
        "GET",
        _SSO,
        200,
        "Get an organization's SSO connection",
        kind=SSO_CONNECTION,
        query=(expand("permissions", "total_count"),),
        response=(SSOConnection,),
        errors=(403, 404),
    ),
    _hand(
        "sso_connection.update",
        "PATCH",
        _SSO,
        200,
        "Change an organization's SSO connection",
        kind=SSO_CONNECTION,
        body=bodies(SSO_CONNECTION, Verb.UPDATE),
        response=(SSOConnection,),
        errors=(400, 403, 404, 409),
    ),
    _hand(
        "sso_connection.disable",
        "DELETE",
        _SSO,
        204,
        "Have an organization's people sign in with passwords again",
        kind=SSO_CONNECTION,
        errors=(403, 404),
    ),
    _hand(
        "invitations.retrieve",
        "GET",
        "/invitations/{token}",
        200,
        "Look at an invitation, by the token in its mail",
        kind=kinds.INVITATION,
        open=True,
        response=(answers.InvitationPreview,),
        errors=(404,),
    ),
    _hand(
        "invitations.accept",
        "POST",
        "/invitations/{token}/accept",
        200,
        "Accept an invitation, as the user whose token is sent or as a new one",
        kind=kinds.INVITATION,
        open=True,
        response=(answers.InvitationAcceptance,),
        errors=(401, 403, 404, 409),
    ),
    _hand(
        "snapshot.retrieve",
        "GET",
        f"{_ORGANIZATION}/snapshot",
        200,
        "Stream everything the caller may read, with who owns it, one JSON object a line",
        query=(Query("zone", many=True, about="slugs or ids; every zone when absent"),),
        response=(changes.SnapshotStart, changes.SnapshotEntity, changes.SnapshotEnd),
        media="application/x-ndjson",
        headers=("If-None-Match",),
        etag=True,
        errors=(304, 400, 403, 404),
    ),
    _hand(
        "changesets.create",
        "POST",
        f"{_ORGANIZATION}/changesets",
        200,
        "Apply a list of operations, all or none; with `dry_run` only check them",
        query=(Query("dry_run", "boolean"),),
        body=(changes.Changeset,),
        response=(changes.ChangesetResult,),
        headers=("Idempotency-Key",),
        errors=(400, 403, 404, 409, 412, 413),
    ),
    _hand(
        "changesets.list",
        "GET",
        f"{_ORGANIZATION}/changesets",
        200,
        "List what was applied, newest first",
        query=paging("permissions", "total_count"),
        response=(changes.Receipt,),
        envelope=Envelope.ORGANIZATION,
    ),
    _hand(
        "changesets.retrieve",
        "GET",
        f"{_ORGANIZATION}/changesets/{{changeset_id}}",
        200,
        "Get the receipt of a changeset",
        response=(changes.Receipt,),
    ),
    _hand(
        "audit_events.list",
        "GET",
        f"{_ORGANIZATION}/audit-events",
        200,
        "List who changed what, newest first",
        query=(
            AFTER,
            BEFORE,
            LIMIT,
            *AUDITED,
            SINCE,
            UNTIL,
            expand("permissions"),
        ),
        response=(changes.AuditEvent,),
        envelope=Envelope.ORGANIZATION,
    ),
)

_ORDER_OF_VERBS = (Verb.LIST, Verb.CREATE, Verb.RETRIEVE, Verb.UPDATE, Verb.DELETE, Verb.ARCHIVE)

GENERIC: tuple[Route, ...] = tuple(
    _generic(kind, verb) for kind in kinds.ALL for verb in _ORDER_OF_VERBS if verb in kind.verbs
)

ROUTES: tuple[Route, ...] = GENERIC + IRREGULAR

BY_OPERATION: dict[str, Route] = {route.operation_id: route for route in ROUTES}


def routes_text() -> str:
    """The list of all operations, one a line: method, path, operation id."""
    lines = sorted((route.path, route.method, route.operation_id) for route in ROUTES)
    return "".join(f"{method:<6} {path}  {operation_id}\n" for path, method, operation_id in lines)

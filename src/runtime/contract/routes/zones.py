"""Zone operations outside the kinds: dependencies, role assignments, members, provider checks."""

from runtime.contract import answers
from runtime.contract.bodies.written import (
    AssignmentBody,
    EmptyBody,
    MemberBody,
    ZoneMemberBody,
    ZoneRoleBody,
)
from runtime.contract.queries import OF_SECRETS, SCOPE, ZONE_ROLE, paging
from runtime.contract.routes.route import ListEnvelope, Route, by_hand, words
from runtime.contract.secrets import SecretWithData
from runtime.domain import kinds
from runtime.domain.kinds.base import Kind, PageShape, article
from runtime.domain.kinds.queries import Query

_APPLICATION = kinds.APPLICATION.item_path
_GROUP = kinds.GROUP.item_path
_MEMBERS = f"{kinds.ZONE.item_path}/members"
_MEMBER = f"{_MEMBERS}/{{organizationUserId}}"
_ASSIGNMENT = kinds.ROLE_ASSIGNMENT.classes
_ASSIGNED_QUERY = (Query("filter[id]", many=True, limit=100, about="ids of assignments"), *paging())
_WHEN = Query("when_accessing", many=True, about="ids of resources; replaces the stored list")


def _assignments(owner: Kind, name: str, add: str, remove: str) -> tuple[Route, ...]:
    """List, give and take the roles of one kind of principal."""
    path = f"{owner.item_path}/roles"
    one = f"{article(words(owner.name))} {words(owner.name)}"
    kind = kinds.ROLE_ASSIGNMENT
    return (
        by_hand(
            f"{name}.list",
            "GET",
            path,
            200,
            f"List the role assignments of {one}",
            kind=kind,
            query=_ASSIGNED_QUERY,
            response=_ASSIGNMENT,
            envelope=PageShape.ZONE,
        ),
        by_hand(
            f"{name}.{add}",
            "POST",
            path,
            201,
            f"Assign a role to {one}",
            kind=kind,
            body=(AssignmentBody,),
            response=_ASSIGNMENT,
            errors=(400, 403, 404, 409),
        ),
        by_hand(
            f"{name}.{remove}",
            "DELETE",
            f"{path}/{{roleId}}",
            204,
            f"Remove a role assignment from {one}",
            kind=kind,
            query=SCOPE,
        ),
    )


ROUTES: tuple[Route, ...] = (
    by_hand(
        "providers.validate",
        "POST",
        f"{kinds.PROVIDER.item_path}/validate",
        200,
        "Test the connection to a provider; 200 also when a check fails",
        kind=kinds.PROVIDER,
        response=(answers.ValidationResult,),
        errors=(403, 404),
    ),
    by_hand(
        "applications.list_credentials",
        "GET",
        f"{_APPLICATION}/application-credentials",
        200,
        "List the credentials of an application",
        kind=kinds.APPLICATION_CREDENTIAL,
        query=paging(cursor=True),
        response=kinds.APPLICATION_CREDENTIAL.classes,
        envelope=PageShape.ZONE_FULL,
    ),
    by_hand(
        "applications.list_resources",
        "GET",
        f"{_APPLICATION}/resources",
        200,
        "List the resources that an application provides",
        kind=kinds.RESOURCE,
        query=paging(cursor=True),
        response=kinds.RESOURCE.classes,
        envelope=PageShape.ZONE,
    ),
    by_hand(
        "application_dependencies.list",
        "GET",
        f"{_APPLICATION}/dependencies",
        200,
        "List the resources that an application depends on",
        kind=kinds.RESOURCE,
        query=(Query("when_accessing", about="the id of a resource"), *paging(cursor=True)),
        response=kinds.RESOURCE.classes,
        envelope=PageShape.ZONE,
    ),
    by_hand(
        "application_dependencies.add",
        "PUT",
        f"{_APPLICATION}/dependencies/{{dependencyId}}",
        204,
        "Add a resource to an application's dependencies",
        kind=kinds.APPLICATION,
        query=(_WHEN,),
        body=(EmptyBody,),
        body_required=False,
    ),
    by_hand(
        "application_dependencies.remove",
        "DELETE",
        f"{_APPLICATION}/dependencies/{{dependencyId}}",
        204,
        "Remove a resource from an application's dependencies",
        kind=kinds.APPLICATION,
    ),
    by_hand(
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
    by_hand(
        "group_members.list",
        "GET",
        f"{_GROUP}/members",
        200,
        "List the members of a group",
        kind=kinds.GROUP,
        query=(Query("filter[id]", many=True, limit=100, about="ids of users"), *paging()),
        response=(answers.GroupMember,),
        envelope=PageShape.ZONE,
    ),
    by_hand(
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
    by_hand(
        "group_members.remove",
        "DELETE",
        f"{_GROUP}/members/{{userId}}",
        204,
        "Remove a user from a group",
        kind=kinds.GROUP,
    ),
    by_hand(
        "secrets.list",
        "GET",
        kinds.SECRET.collection_path,
        200,
        "List secrets, without their values",
        kind=kinds.SECRET,
        query=OF_SECRETS,
        response=kinds.SECRET.classes,
        envelope=ListEnvelope.ARRAY,
    ),
    by_hand(
        "secrets.retrieve",
        "GET",
        kinds.SECRET.item_path,
        200,
        "Get a secret with its value; the audit trail records it",
        kind=kinds.SECRET,
        response=(SecretWithData,),
        errors=(403, 404),
    ),
    by_hand(
        "members.list",
        "GET",
        _MEMBERS,
        200,
        "List the organization's users with a role in a zone",
        kind=kinds.ROLE_ASSIGNMENT,
        query=(ZONE_ROLE, *paging()),
        response=(answers.ZoneMember,),
        envelope=PageShape.ZONE_FULL,
    ),
    by_hand(
        "members.add",
        "POST",
        _MEMBERS,
        200,
        "Assign a role in a zone to a user of the organization",
        body=(ZoneMemberBody,),
        response=(answers.ZoneMember,),
        errors=(400, 403, 404, 409),
    ),
    by_hand(
        "members.retrieve", "GET", _MEMBER, 200, "Get a member of a zone", response=(answers.ZoneMember,)
    ),
    by_hand(
        "members.update",
        "PATCH",
        _MEMBER,
        200,
        "Change the role of a member of a zone",
        body=(ZoneRoleBody,),
        response=(answers.ZoneMember,),
    ),
    by_hand("members.remove", "DELETE", _MEMBER, 204, "Remove a member from a zone"),
)

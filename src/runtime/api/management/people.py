"""HTTP handlers of group members and of role assignments to users, applications and groups."""

from sanic.response import HTTPResponse

from runtime.api.management.answering import nothing, send, send_entity, send_page
from runtime.api.management.calls import Call, Handler
from runtime.contract.answers import part_answer
from runtime.contract.bodies import read
from runtime.contract.bodies.written import AssignmentBody, MemberBody
from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import GROUP, ROLE_ASSIGNMENT
from runtime.services.management.people import assignments, groups
from runtime.services.management.people.assignments import PrincipalKind


async def list_members(call: Call) -> HTTPResponse:
    """The members of a group."""
    query = call.list_query()
    async with call.reading() as unit:
        listed = await groups.list_members(unit, call.path, call.path["group_id"], query)
    return send_page(call, GROUP, listed, query)


async def add_member(call: Call) -> HTTPResponse:
    """Add a user to a group."""
    body = read(MemberBody, call.body())
    async with call.writing() as unit:
        member = await groups.add_member(unit, call.path, call.path["group_id"], body["user_id"])
    return send(part_answer(member), status=call.route.status)


async def remove_member(call: Call) -> HTTPResponse:
    """Remove a user from a group."""
    async with call.writing() as unit:
        await groups.remove_member(unit, call.path, call.path["group_id"], call.path["user_id"])
    return nothing()


def _roles_of(name: str, holder: PrincipalKind, principal: str, add: str, remove: str) -> dict[str, Handler]:
    """List, give and take the roles of one kind of principal.

    Args:
        principal: the path parameter that holds the principal's id.
    """

    async def list_(call: Call) -> HTTPResponse:
        query = call.list_query()
        async with call.reading() as unit:
            listed = await assignments.list_(unit, holder, call.path, call.path[principal], query)
        return send_page(call, ROLE_ASSIGNMENT, listed, query)

    async def assign(call: Call) -> HTTPResponse:
        body = read(AssignmentBody, call.body())
        async with call.writing() as unit:
            made = await assignments.assign(unit, holder, call.path, call.path[principal], body)
        return send_entity(call, ROLE_ASSIGNMENT, made)

    async def revoke(call: Call) -> HTTPResponse:
        limit = _limit(call)
        async with call.writing() as unit:
            await assignments.revoke(
                unit, holder, call.path, call.path[principal], call.path["role_id"], limit
            )
        return nothing()

    return {f"{name}.list": list_, f"{name}.{add}": assign, f"{name}.{remove}": revoke}


def _limit(call: Call) -> tuple[str, str] | None:
    scope_type, scope_id = call.parameter("scope_type"), call.parameter("scope_id")
    if (scope_type is None) != (scope_id is None):
        raise ValidationFailed.of("scope_type", "must be sent together with `scope_id`")
    return (scope_type, scope_id) if scope_type is not None and scope_id is not None else None


HANDLERS: dict[str, Handler] = {
    "group_members.list": list_members,
    "group_members.add": add_member,
    "group_members.remove": remove_member,
    **_roles_of("application_roles", assignments.APPLICATIONS, "id", "assign", "revoke"),
    **_roles_of("user_roles", assignments.USERS, "id", "assign", "revoke"),
    **_roles_of("group_roles", assignments.GROUPS, "group_id", "add", "remove"),
}

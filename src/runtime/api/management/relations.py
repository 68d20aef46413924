"""What connects entities: dependencies, members, roles held, and lists seen from one side of a reference."""

from sanic.response import HTTPResponse

from runtime.api.management.answering import nothing, send, send_entity, send_page
from runtime.api.management.calls import Call, Handler
from runtime.contract.answers import part_answer
from runtime.contract.bodies import read
from runtime.contract.bodies.written import AssignmentBody, EmptyBody, MemberBody
from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import APPLICATION_CREDENTIAL, GROUP, RESOURCE, ROLE_ASSIGNMENT
from runtime.services.management.people import assignments, groups
from runtime.services.management.people.assignments import Holder
from runtime.services.management.surroundings import embedded
from runtime.services.management.zones import applications, credentials, resources


async def list_credentials(call: Call) -> HTTPResponse:
    """The credentials of an application."""
    query = call.list_query()
    async with call.reading() as unit:
        listed = await credentials.list_of_application(unit, call.path, call.path["id"], query)
    return send_page(call, APPLICATION_CREDENTIAL, listed, query)


async def list_resources(call: Call) -> HTTPResponse:
    """The resources that an application provides."""
    query = call.list_query()
    async with call.reading() as unit:
        listed = await resources.list_of_application(unit, call.path, call.path["id"], query)
    return send_page(call, RESOURCE, listed, query)


async def list_dependencies(call: Call) -> HTTPResponse:
    """The resources that an application depends on."""
    query = call.list_query()
    async with call.reading() as unit:
        listed = await applications.list_dependencies(unit, call.path, call.path["id"], query)
    return send_page(call, RESOURCE, listed, query)


async def retrieve_dependency(call: Call) -> HTTPResponse:
    """One resource that an application depends on."""
    async with call.reading() as unit:
        found = await applications.retrieve_dependency(
            unit, call.path, call.path["id"], call.path["resource_id"]
        )
        found = await embedded(unit, found)
    return send_entity(call, RESOURCE, found)


async def add_dependency(call: Call) -> HTTPResponse:
    """Let an application depend on a resource."""
    if call.request.body:
        read(EmptyBody, call.body())
    when_accessing = call.query.get("when_accessing", ())
    async with call.writing() as unit:
        await applications.add_dependency(
            unit, call.path, call.path["id"], call.path["resource_id"], when_accessing
        )
    return nothing()


async def remove_dependency(call: Call) -> HTTPResponse:
    """End a dependency."""
    async with call.writing() as unit:
        await applications.remove_dependency(unit, call.path, call.path["id"], call.path["resource_id"])
    return nothing()


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


def _roles_of(name: str, holder: Holder, principal: str, add: str, remove: str) -> dict[str, Handler]:
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
        raise ValidationFailed.of("scope_type", "belongs together with `scope_id`")
    return (scope_type, scope_id) if scope_type is not None and scope_id is not None else None


HANDLERS: dict[str, Handler] = {
    "applications.list_credentials": list_credentials,
    "applications.list_resources": list_resources,
    "application_dependencies.list": list_dependencies,
    "application_dependencies.retrieve": retrieve_dependency,
    "application_dependencies.add": add_dependency,
    "application_dependencies.remove": remove_dependency,
    "group_members.list": list_members,
    "group_members.add": add_member,
    "group_members.remove": remove_member,
    **_roles_of("application_roles", assignments.APPLICATIONS, "id", "assign", "revoke"),
    **_roles_of("user_roles", assignments.USERS, "id", "assign", "revoke"),
    **_roles_of("group_roles", assignments.GROUPS, "group_id", "add", "remove"),
}

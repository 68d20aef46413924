"""HTTP handlers of the members of zones."""

from sanic.response import HTTPResponse

from runtime.api.management.answering import nothing, send, send_page
from runtime.api.management.calls import Call, Handler
from runtime.contract.answers import part_answer
from runtime.contract.bodies import read
from runtime.contract.bodies.written import ZoneMemberBody, ZoneRoleBody
from runtime.domain.kinds import ROLE_ASSIGNMENT
from runtime.domain.kinds.values import ZoneRole
from runtime.services.management.members import zone_members


async def list_(call: Call) -> HTTPResponse:
    """The members of a zone."""
    query = call.list_query()
    async with call.reading() as unit:
        listed = await zone_members.list_(unit, call.path, query)
    return send_page(call, ROLE_ASSIGNMENT, listed, query)


async def add(call: Call) -> HTTPResponse:
    """Give a user of the organization a role in a zone."""
    body = read(ZoneMemberBody, call.body())
    async with call.writing() as unit:
        member = await zone_members.add(unit, call.path, body)
    return send(part_answer(member), status=call.route.status)


async def retrieve(call: Call) -> HTTPResponse:
    """One member of a zone."""
    async with call.reading() as unit:
        member = await zone_members.retrieve(unit, call.path, call.path["organization_user_id"])
    return send(part_answer(member))


async def update(call: Call) -> HTTPResponse:
    """Give a member another role."""
    role = ZoneRole(read(ZoneRoleBody, call.body())["role"])
    async with call.writing() as unit:
        member = await zone_members.update(unit, call.path, call.path["organization_user_id"], role)
    return send(part_answer(member))


async def remove(call: Call) -> HTTPResponse:
    """Take a member's roles in a zone away."""
    async with call.writing() as unit:
        await zone_members.remove(unit, call.path, call.path["organization_user_id"])
    return nothing()


HANDLERS: dict[str, Handler] = {
    "members.list": list_,
    "members.add": add,
    "members.retrieve": retrieve,
    "members.update": update,
    "members.remove": remove,
}

"""HTTP handlers of policy schema versions, and of the policies in a version of a policy set."""

from sanic.response import HTTPResponse

from runtime.api.management.answering import send, send_page
from runtime.api.management.calls import Call, Handler
from runtime.contract.answers import part_answer
from runtime.domain.errors import BadRequest
from runtime.domain.kinds import POLICY, POLICY_VERSION
from runtime.services.management.expansions import with_people
from runtime.services.management.policies import policy_schemas, policy_set_versions


async def list_schemas(call: Call) -> HTTPResponse:
    """The versions of the policy schema."""
    query = call.list_query()
    async with call.reading() as unit:
        listed = await policy_schemas.list_(unit, call.path, query)
    return send_page(call, POLICY, listed, query)


async def retrieve_schema(call: Call) -> HTTPResponse:
    """One version of the policy schema."""
    async with call.reading() as unit:
        found = await policy_schemas.retrieve(
            unit, call.path, call.path["version"], notation=call.parameter("format")
        )
    return send(part_answer(found))


async def set_default_schema(call: Call) -> HTTPResponse:
    """Make a version the zone's default. The body is any object, and says nothing."""
    if call.request.body and not isinstance(call.body(), dict):
        raise BadRequest("the body must be a JSON object")
    async with call.writing() as unit:
        found = await policy_schemas.set_default(unit, call.path, call.path["version"])
    return send(part_answer(found))


async def list_set_policies(call: Call) -> HTTPResponse:
    """The policy versions of a policy set version."""
    query = call.list_query()
    async with call.reading() as unit:
        listed = await policy_set_versions.list_policies(unit, call.path, call.path["version_id"], query)
        listed = listed.with_items(await with_people(unit, listed.items, call.expands))
    return send_page(call, POLICY_VERSION, listed, query)


HANDLERS: dict[str, Handler] = {
    "policy_schemas.list": list_schemas,
    "policy_schemas.retrieve": retrieve_schema,
    "policy_schemas.set_default": set_default_schema,
    "policy_set_versions.list_policies": list_set_policies,
}

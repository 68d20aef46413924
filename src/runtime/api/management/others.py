"""Operations that are about no kind of entity, or about parts of one."""

from sanic.response import HTTPResponse

from runtime.api.management.answering import permissions_of, send, send_page
from runtime.api.management.calls import Call, Handler
from runtime.contract.answers import answer, part_answer
from runtime.domain.errors import BadRequest
from runtime.domain.kinds import ORGANIZATION, POLICY, POLICY_VERSION, SECRET
from runtime.services.management import audit
from runtime.services.management.access import user_tokens
from runtime.services.management.members import identities
from runtime.services.management.organizations import organizations
from runtime.services.management.policies import policy_schemas, policy_set_versions
from runtime.services.management.surroundings import with_people
from runtime.services.management.zones import provider_checks, secrets


async def list_roles(call: Call) -> HTTPResponse:
    """The roles that organizations and zones know."""
    async with call.reading() as unit:
        roles = await organizations.list_roles(unit, call.path["organization_id"], call.parameter("scope"))
    page: dict[str, object] = {"items": [part_answer(role) for role in roles]}
    if "permissions" in call.expands:
        page["permissions"] = permissions_of(call, ORGANIZATION)
    return send(page)


async def list_identities(call: Call) -> HTTPResponse:
    """Users and invitations of an organization."""
    query = call.list_query()
    async with call.reading() as unit:
        listed = await identities.list_(unit, call.path["organization_id"], query)
    return send_page(call, ORGANIZATION, listed, query)


async def exchange_token(call: Call) -> HTTPResponse:
    """Swap a user's token for one of an organization."""
    organization = call.path["organization_id"]
    token = await user_tokens.exchange_token(call.parts, call.caller, organization, call.request_id)
    return send(part_answer(token))


async def validate_provider(call: Call) -> HTTPResponse:
    """Run the checks of a provider's connection; the transaction is over before anything is sent."""
    async with call.reading() as unit:
        settings = await provider_checks.settings_to_check(unit, call.path, call.id)
    return send(part_answer(await provider_checks.run(call.parts, call.id, settings)))


async def list_secrets(call: Call) -> HTTPResponse:
    """Secrets without their values, as a bare array."""
    async with call.reading() as unit:
        found = await secrets.list_(
            unit,
            call.path,
            entity_id=call.parameter("entity_id"),
            type_=call.parameter("type"),
            owner_type=call.parameter("owner_type"),
        )
    return send([answer(SECRET, one) for one in found])


async def retrieve_secret(call: Call) -> HTTPResponse:
    """A secret with its value, which is recorded."""
    async with call.writing() as unit:
        found = await secrets.reveal(unit, call.path, call.id)
    return send(part_answer(found))


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


async def list_audit_events(call: Call) -> HTTPResponse:
    """Who changed what."""
    query = call.list_query()
    async with call.reading() as unit:
        listed = await audit.list_(unit, call.path["organization_id"], query)
    return send_page(call, ORGANIZATION, listed, query)


HANDLERS: dict[str, Handler] = {
    "organizations.list_roles": list_roles,
    "organizations.list_identities": list_identities,
    "organizations.exchange_token": exchange_token,
    "providers.validate": validate_provider,
    "secrets.list": list_secrets,
    "secrets.retrieve": retrieve_secret,
    "policy_schemas.list": list_schemas,
    "policy_schemas.retrieve": retrieve_schema,
    "policy_schemas.set_default": set_default_schema,
    "policy_set_versions.list_policies": list_set_policies,
    "audit_events.list": list_audit_events,
}

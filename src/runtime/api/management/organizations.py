"""HTTP handlers of organization operations outside the kinds: roles, identities, tokens, the audit log."""

from sanic.response import HTTPResponse

from runtime.api.management.answering import send, send_page
from runtime.api.management.calls import Call, Handler
from runtime.contract.answers import part_answer
from runtime.domain.kinds import ORGANIZATION
from runtime.services.management import audit, permission_maps
from runtime.services.management.authentication import user_tokens
from runtime.services.management.members import identities
from runtime.services.management.organizations import organizations


async def list_roles(call: Call) -> HTTPResponse:
    """The roles that organizations and zones know."""
    async with call.reading() as unit:
        roles = await organizations.list_roles(unit, call.path["organization_id"], call.parameter("scope"))
    page: dict[str, object] = {"items": [part_answer(role) for role in roles]}
    if "permissions" in call.expands:
        page["permissions"] = permission_maps.of_kind(call.caller, ORGANIZATION)
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
    token = await user_tokens.exchange_token(call.services, call.caller, organization, call.request_id)
    return send(part_answer(token))


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
    "audit_events.list": list_audit_events,
}

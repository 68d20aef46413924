"""HTTP handlers of the SSO connection: an organization has one, so its path has no id."""

from sanic.response import HTTPResponse

from runtime.api.management.answering import nothing, send_entity
from runtime.api.management.calls import Call, Handler
from runtime.contract.bodies import read_body
from runtime.domain.kinds import Verb
from runtime.domain.kinds.sso_connection import SSO_CONNECTION
from runtime.services.management.organizations import sso


async def enable(call: Call) -> HTTPResponse:
    """Have people sign in at a provider."""
    body = read_body(SSO_CONNECTION, call.body(), Verb.CREATE)
    async with call.writing() as unit:
        made = await sso.enable(unit, call.path, body)
    return send_entity(call, SSO_CONNECTION, made)


async def retrieve(call: Call) -> HTTPResponse:
    """At which provider people sign in."""
    async with call.reading() as unit:
        found = await sso.retrieve(unit, call.path)
    return send_entity(call, SSO_CONNECTION, found)


async def update(call: Call) -> HTTPResponse:
    """Change the connection."""
    patch = read_body(SSO_CONNECTION, call.body(), Verb.UPDATE)
    async with call.writing() as unit:
        changed = await sso.update(unit, call.path, patch)
    return send_entity(call, SSO_CONNECTION, changed)


async def disable(call: Call) -> HTTPResponse:
    """Have people sign in with passwords again."""
    async with call.writing() as unit:
        await sso.disable(unit, call.path)
    return nothing()


HANDLERS: dict[str, Handler] = {
    "sso_connection.enable": enable,
    "sso_connection.retrieve": retrieve,
    "sso_connection.update": update,
    "sso_connection.disable": disable,
}

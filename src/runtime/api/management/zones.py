"""HTTP handlers of provider checks, secret values, and application and resource dependencies."""

from sanic.response import HTTPResponse

from runtime.api.management.answering import nothing, send, send_entity, send_page
from runtime.api.management.calls import Call, Handler
from runtime.contract.answers import answer, part_answer
from runtime.contract.bodies import read
from runtime.contract.bodies.written import EmptyBody
from runtime.domain.kinds import APPLICATION_CREDENTIAL, RESOURCE, SECRET
from runtime.services.management.expansions import embedded
from runtime.services.management.zones import applications, credentials, provider_checks, resources, secrets


async def validate_provider(call: Call) -> HTTPResponse:
    """Run the checks of a provider's connection; the transaction is over before anything is sent."""
    async with call.reading() as unit:
        settings = await provider_checks.settings_to_check(unit, call.path, call.id)
    return send(part_answer(await provider_checks.run(call.services, call.id, settings)))


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


HANDLERS: dict[str, Handler] = {
    "providers.validate": validate_provider,
    "secrets.list": list_secrets,
    "secrets.retrieve": retrieve_secret,
    "applications.list_credentials": list_credentials,
    "applications.list_resources": list_resources,
    "application_dependencies.list": list_dependencies,
    "application_dependencies.retrieve": retrieve_dependency,
    "application_dependencies.add": add_dependency,
    "application_dependencies.remove": remove_dependency,
}

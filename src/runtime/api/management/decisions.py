"""HTTP handlers of decision records and explanations."""

from sanic.response import HTTPResponse

from runtime.api.management.answering import send, send_page
from runtime.api.management.calls import Call, Handler
from runtime.contract.answers import part_answer
from runtime.contract.bodies import parse
from runtime.contract.decisions import ExplainBody
from runtime.domain.kinds import ZONE
from runtime.services.explain import explanations
from runtime.services.management import decisions


async def list_decisions(call: Call) -> HTTPResponse:
    """What was decided, newest first."""
    query = call.list_query()
    async with call.reading() as unit:
        listed = await decisions.list_(unit, call.path, query)
    return send_page(call, ZONE, listed, query)


async def explain(call: Call) -> HTTPResponse:
    """What would be decided now."""
    asked = parse(ExplainBody, call.body())
    async with call.reading() as unit:
        zone = await explanations.zone_of(unit, call.path)
    return send(part_answer(await explanations.explain(call.services, call.caller, zone, asked)))


HANDLERS: dict[str, Handler] = {"decisions.list": list_decisions, "explanations.retrieve": explain}

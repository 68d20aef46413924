"""An access token for a zone itself, with all that its user can agree to."""

from tests.support.factories import company_of
from tests.support.server import Server

from runtime.domain.identifiers import new_id
from runtime.services.container import Services


def zone_token(server: Server) -> str:
    """The token of a new user of a new zone, who signed in to a new application."""

    async def signed_in(services: Services) -> str:
        company = company_of(server)
        zone = await company.zone(f"zone-{new_id()[:8]}")
        app = await company.app(zone, "app")
        return await company.policy_token(zone, app, await company.person(zone, "ada@acme.example"))

    return server.call(signed_in)

"""The reason of a pending sign-in, as its pages give it: who wants the user signed in, and what for."""

from dataclasses import dataclass
from urllib.parse import parse_qsl

from runtime.services.authorization.consent_prompt import ConsentPrompt
from runtime.services.authorization.interactions import PendingLogin
from runtime.services.authorization.requests import Parameters, ZonePageRequest
from runtime.services.connect import flow as connect_flow
from runtime.services.connect.requests import read_request
from runtime.services.container import Services
from runtime.services.login import flow
from runtime.services.zones import CachedZone


@dataclass(frozen=True, slots=True)
class SignInReason:
    """Why somebody is asked to sign in; neither for a page of the zone that no application leads to.

    Attributes:
        application: name of the application that the user signs in to.
        connects: what an application asks for, by a connect link.
    """

    application: str | None = None
    connects: ConsentPrompt | None = None


async def reason_of(services: Services, zone: CachedZone, interaction: PendingLogin) -> SignInReason:
    """The reason of a pending sign-in, as of now. Raises BadLink where it has ended."""
    request = interaction.request
    if not isinstance(request, ZonePageRequest):
        return SignInReason(application=await flow.started_by(zone, interaction))
    asked = read_request(Parameters(parse_qsl(request.query)))
    if asked is None:
        return SignInReason()
    return SignInReason(connects=await connect_flow.describe_link(services, zone, asked))

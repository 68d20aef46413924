"""What lies between an authorize request and its answer: a sign-in, a question, the browser they belong to.

An interaction is known by a handle in the address and belongs to the browser that holds the pre-login
cookie: either alone is worth nothing. Forms carry a token that works once.
"""

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import BadLink, ForgedForm
from runtime.services.authorization.requests import AuthorizationRequest, Visit
from runtime.services.parts import Parts

INTERACTION_SECONDS = 900
_LOST = (
    "this sign-in has expired, or was started in another browser; go back to the application and try again"
)


class Interaction(BaseModel):
    """An authorize request, or a visit of a page of the zone, that waits for its user.

    Attributes:
        browser: hash of the pre-login cookie, in hex.
        session_id: the browser session, once somebody is signed in.
    """

    model_config = ConfigDict(frozen=True)

    request: AuthorizationRequest | Visit
    browser: str
    created_at: datetime
    session_id: str | None = None


def browser_of(parts: Parts, pre_login: str) -> str:
    """How an interaction remembers a browser."""
    return parts.hasher.hash(pre_login).hex()


async def start(parts: Parts, zone_id: str, interaction: Interaction) -> str:
    """Keep an interaction; its handle."""
    handle = new_secret()
    await keep(parts, zone_id, handle, interaction)
    return handle


async def keep(parts: Parts, zone_id: str, handle: str, interaction: Interaction) -> None:
    """Keep an interaction under the handle it has."""
    await parts.state.put(
        _key(parts, "interaction", zone_id, handle),
        interaction.model_dump_json().encode(),
        ttl_seconds=INTERACTION_SECONDS,
    )


async def find(parts: Parts, zone_id: str, handle: str | None, pre_login: str | None) -> Interaction:
    """The interaction of that handle, in the browser it was started in. Raises BadLink."""
    stored = await parts.state.get(_key(parts, "interaction", zone_id, handle)) if handle else None
    if stored is None or pre_login is None:
        raise BadLink(_LOST)
    interaction = Interaction.model_validate_json(stored)
    if not parts.hasher.matches(pre_login, bytes.fromhex(interaction.browser)):
        raise BadLink(_LOST, internal="another browser than the one that started it")
    return interaction


async def remember_invitation(
    parts: Parts, zone_id: str, handle: str, interaction: Interaction, invitation: str
) -> Interaction:
    """The interaction, from now on of somebody with that invitation.

    Args:
        invitation: hash of its token, in hex.
    """
    request = interaction.request.model_copy(update={"invitation": invitation})
    invited = interaction.model_copy(update={"request": request})
    await keep(parts, zone_id, handle, invited)
    return invited


async def finish(parts: Parts, zone_id: str, handle: str) -> None:
    """Forget an interaction: it has its answer."""
    await parts.state.delete(_key(parts, "interaction", zone_id, handle))


async def new_form(parts: Parts, zone_id: str, handle: str, purpose: str) -> str:
    """A token for one submission of one form of an interaction."""
    token = new_secret()
    value = parts.hasher.hash(f"{purpose} {handle}")
    await parts.state.put(_key(parts, "form", zone_id, token), value, ttl_seconds=INTERACTION_SECONDS)
    return token


async def take_form(parts: Parts, zone_id: str, handle: str, purpose: str, token: str | None) -> None:
    """Accept a submission, once. Raises ForgedForm."""
    stored = await parts.state.take(_key(parts, "form", zone_id, token)) if token else None
    if stored != parts.hasher.hash(f"{purpose} {handle}"):
        raise ForgedForm("this form was sent already, or did not come from this page; go back and try again")


def _key(parts: Parts, kind: str, zone_id: str, handle: str) -> str:
    return f"{kind}:{zone_id}:{parts.hasher.hash(handle).hex()}"

"""The next step of a login flow: sign-in page, identity provider, consent page, or redirect to the client.

Anybody can register a client, and send people here with a request that is wrong on purpose, or that cannot be
met: telling the client so by redirect would lead them wherever somebody likes, with this zone's name to vouch
for it. So a site that nobody here has checked is told by redirect only when the user knows it already.

Spec: RFC 9700 section 4.11.2; OpenID Connect Core section 3.1.2.6, whose redirects these are.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from runtime.domain.errors import OAuthError, Unavailable
from runtime.domain.kinds.role import User
from runtime.domain.kinds.user_agent import Registration
from runtime.domain.oauth.client_ids import is_vouched_for
from runtime.services.authority import browser_sessions, consents
from runtime.services.authority.browser_sessions import Browser
from runtime.services.authorization.requests import AuthorizationResponse, RedirectionEndpoint
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.zones import CachedZone


@dataclass(frozen=True, slots=True)
class RedirectWarning:
    """What the user is told before the browser may go on, by a link on a page.

    Attributes:
        site: host and port, as a person can compare them.
    """

    refusal: OAuthError
    application: str
    site: str


@dataclass(frozen=True, slots=True)
class NextStep:
    """Where the browser goes next, and new values for its cookies.

    Attributes:
        asks: what its user is told first, and then goes there or not; None to go at once.
        form: what is posted there, name -> value; None for a redirect.
    """

    location: str
    session: str | None = None
    pre_login: str | None = None
    asks: RedirectWarning | None = None
    form: Mapping[str, str] | None = None


def answering(response: AuthorizationResponse, *, asks: RedirectWarning | None = None) -> NextStep:
    """The step that takes an answer to the application."""
    return NextStep(response.location, asks=asks, form=response.form)


def page_address(zone: CachedZone, page: str, handle: str) -> str:
    """The address of a page of an interaction."""
    return f"{zone.issuer}/oauth/{page}?request={handle}"


async def refused(
    services: Services,
    zone: CachedZone,
    client: Client,
    address: RedirectionEndpoint,
    refusal: OAuthError,
    who: Browser | User,
) -> NextStep:
    """The step that tells the client why there is no code, at once if its site is one to go to unasked.

    Args:
        who: the user; or the browser, where nobody may be signed in.
    """
    current_decision().name_client(client)
    current_decision().refuse(refusal)
    response = address.refusal(refusal)
    if _is_known_to_all(zone, client, address) or await _is_known_to(services, zone, client, address, who):
        return answering(response)
    site = urlsplit(address.redirect_uri).netloc
    return answering(response, asks=RedirectWarning(refusal, client.name, site))


async def _is_known_to(
    services: Services, zone: CachedZone, client: Client, address: RedirectionEndpoint, who: Browser | User
) -> bool:
    """Tell whether the user has let this very client act, and has been told then that it is at this host.

    Or whether the person is somewhere else all along: a frame leads nobody away from the page around it.
    """
    with suppress(Unavailable):
        if isinstance(who, User):
            return await consents.has_consented_at(services, zone, client, who, address.redirect_host)
        if who.is_framed:  # no page of ours would show there
            return True
        signed_in = await browser_sessions.current(services, zone, who.session)
        if signed_in is not None:
            return await _is_known_to(services, zone, client, address, signed_in.user)
    return False


def _is_known_to_all(zone: CachedZone, client: Client, address: RedirectionEndpoint) -> bool:
    """Tell whether anybody may be sent there: to a site that an administrator has named, or to no site.

    Who runs the zone has named an application's addresses, and the site of a metadata document that the
    zone's list has an entry for. A program on the user's own machine is nobody's site.
    """
    site = urlsplit(address.redirect_uri)
    if client.registration is Registration.MANAGED or site.scheme != "https":
        return True
    if client.registration is not Registration.METADATA_DOCUMENT:
        return False
    listed = zone.entity.protocols.oauth2.cimd.allowed_client_ids
    return site.netloc == urlsplit(client.client_id).netloc and is_vouched_for(listed, client.client_id)

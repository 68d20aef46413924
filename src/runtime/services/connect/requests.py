"""Connect requests: a connect link in a browser, checked against what has become of everything it names.

What ends a link is told to the person at the browser, on a page: until the link has been found to be theirs,
nobody is redirected anywhere, and nobody learns whose it is.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import BadLink, WrongUser
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth import redirect_uris
from runtime.services.authority import active
from runtime.services.authority.active import NotActive
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.authority.connect_links import CONNECT_LINK_SECONDS, ConnectLink
from runtime.services.authorization.requests import Parameters, RedirectionEndpoint
from runtime.services.client_types import Client
from runtime.services.clients import client_lookup
from runtime.services.container import Services
from runtime.services.zones import CachedZone
from runtime.storage.sql import revocations, session_users, zone_data

_OTHER_USER = "this link was made for another user; sign in as that user, or go back to the application"
_ENDED = "this link is no longer valid; go back to the application and try again"
_CHANGED = "the resource was changed meanwhile; go back to the application and try again"
_USED = "this link was used already; go back to the application and try again"


class ReturnAddress(BaseModel):
    """Where an application wants its user back: it appends both to the `error_uri`."""

    model_config = ConfigDict(frozen=True)

    redirect_uri: str | None = None
    state: str | None = None

    def endpoint(self, issuer: str) -> RedirectionEndpoint | None:
        """Where the answer goes; None for a page of the zone."""
        return (
            None if self.redirect_uri is None else RedirectionEndpoint(self.redirect_uri, self.state, issuer)
        )


class SignInChoice(StrEnum):
    """How somebody without a session goes on from the connect page."""

    START = "start"  # to the zone's identity provider, knowing what for
    ANOTHER_USER = "another_user"  # there as well, to choose another account than the one that it knows


class ConnectRequest(BaseModel):
    """The parameters of the connect page, as the browser sent them.

    Attributes:
        sign_in: what was chosen on a page of the zone; None for a link as the application has it.
    """

    model_config = ConfigDict(frozen=True)

    link: str
    returns_to: ReturnAddress = ReturnAddress()
    sign_in: SignInChoice | None = None

    @property
    def query(self) -> str:
        """The query of the page's address, as the application has it."""
        members = {"link": self.link, **self.returns_to.model_dump(exclude_none=True)}
        return urlencode(members)

    def query_of(self, choice: SignInChoice) -> str:
        """The query of the page's address with that choice made."""
        return f"{self.query}&{urlencode({'sign_in': choice})}"


@dataclass(frozen=True, slots=True)
class ValidLink:
    """A connect link with what it names as that is now, whoever has opened it.

    Attributes:
        provider: that issues the resource's tokens; None where the zone does.
        returns_to: one of the client's redirect URIs, or none.
    """

    link: ConnectLink
    client: Client
    resource: Resource
    provider: Provider | None
    returns_to: ReturnAddress

    @property
    def scopes(self) -> frozenset[str]:
        """Those that were requested, as far as the resource still has them."""
        offered = frozenset(self.resource.scopes or ())
        return offered if self.link.scopes is None else self.link.scopes & offered


@dataclass(frozen=True, slots=True)
class CheckedLink(ValidLink):
    """A connect link whose user is signed in."""

    signed_in: SignedInUser


def read_request(parameters: Parameters) -> ConnectRequest | None:
    """The request; None without a link. Raises InvalidRequest for a parameter that was sent twice."""
    link = parameters.one("link")
    if link is None:
        return None
    redirect_uri, state = parameters.one("redirect_uri"), parameters.one("state")
    chosen = parameters.one("sign_in")
    return ConnectRequest(
        link=link,
        returns_to=ReturnAddress(redirect_uri=redirect_uri, state=state),
        sign_in=next((each for each in SignInChoice if each == chosen), None),
    )


async def check(
    services: Services,
    zone: CachedZone,
    link: ConnectLink,
    signed_in: SignedInUser,
    returns_to: ReturnAddress,
) -> CheckedLink:
    """The link with what it names, while all of that is as it was when the link was made.

    Raises: WrongUser; BadLink when what it rests on has ended, or for an address that is not the client's.
    """
    if signed_in.user.id != link.user_id:
        raise WrongUser(_OTHER_USER)
    valid = await validate(services, zone, link, returns_to)
    return CheckedLink(valid.link, valid.client, valid.resource, valid.provider, valid.returns_to, signed_in)


async def validate(
    services: Services, zone: CachedZone, link: ConnectLink, returns_to: ReturnAddress
) -> ValidLink:
    """What a link names, while all of that is as it was when the link was made; it does not say whose it is.

    Raises: BadLink when what it rests on has ended, or for an address that is not the client's.
    """
    client = await client_lookup.find_unchanged(zone, link.client_id, link.party_id)
    if client is None:
        raise BadLink(_ENDED, internal="the client is gone, or another one")
    async with services.database.querying() as conn:
        await _require_root(conn, zone, link, client, services.clock())
    resource = await zone.resources.get(link.resource_id)
    if resource is None or not await client_lookup.may_request(zone, client, resource):
        raise BadLink(_ENDED, internal="the client may not request the resource any more")
    _require_unchanged(link, resource)
    provider = None
    if resource.credential_provider_id is not None:
        provider = await zone.providers.get(resource.credential_provider_id)
        if provider is None or provider.updated_at > link.issued_at:
            raise BadLink(_ENDED, internal="the provider of the resource was changed")
    if returns_to.redirect_uri is not None and not redirect_uris.allows(
        client.redirect_uris, returns_to.redirect_uri
    ):
        raise BadLink("this `redirect_uri` is not registered for the application")
    return ValidLink(link, client, resource, provider, returns_to)


async def check_again(conn: AsyncConnection, zone: CachedZone, asked: CheckedLink, now: datetime) -> None:
    """Check what may have ended since `check`, in the transaction that stores anything, and before it does.

    Raises: BadLink.
    """
    await _require_root(conn, zone, asked.link, asked.client, now)
    resource = await zone_data.resource(conn, zone.id, asked.resource.id)
    if resource is None:
        raise BadLink(_ENDED, internal="the resource was deleted meanwhile")
    _require_unchanged(asked.link, resource)
    if not await client_lookup.declares(conn, asked.client, resource):
        raise BadLink(_ENDED, internal="the client may not request the resource any more")


def _require_unchanged(link: ConnectLink, resource: Resource) -> None:
    """Check that the resource is where it was, and has not lost its provider.

    Another address is another place for the user's credential. Raises BadLink.
    """
    if resource.identifier != link.resource_identifier:
        raise BadLink(_CHANGED)
    if resource.deleted_credential_provider_id is not None:
        raise BadLink(_ENDED, internal="the provider of the resource was deleted")


async def _require_root(
    conn: AsyncConnection, zone: CachedZone, link: ConnectLink, client: Client, now: datetime
) -> None:
    """Check that the session of the chain is active, and nothing of the client in it was revoked since."""
    found = await session_users.by_session(conn, link.session_id, zone_id=zone.id)
    revoked = await revocations.since(conn, zone.id, link.issued_at, now=now)
    session, user = found if found is not None else (None, None)
    try:
        active.require_active(session, user, now)
    except NotActive as failure:
        raise BadLink(_ENDED, internal=str(failure)) from None
    of_link = {"sid": link.session_id, "client_id": link.client_id, "actor": client.identifier}
    if any(each.claims.items() <= of_link.items() for _, each in revoked):
        raise BadLink(_ENDED, internal="the application has lost access since")


async def require_unused(services: Services, zone: CachedZone, link: ConnectLink) -> None:
    """Check that the link was not used. Raises BadLink."""
    (mark,) = await services.state.fetch([_key(zone, link)])
    if mark is not None:
        raise BadLink(_USED)


async def use(services: Services, zone: CachedZone, link: ConnectLink) -> None:
    """Use the link, which nobody can twice.

    Raises: BadLink; Unavailable for one that is older than what the short-lived state remembers.
    """
    made_at = link.issued_at.timestamp()
    if not await services.state.use_once(_key(zone, link), made_at=made_at, ttl_seconds=CONNECT_LINK_SECONDS):
        raise BadLink(_USED)


def _key(zone: CachedZone, link: ConnectLink) -> str:
    return f"connect-link:{zone.id}:{link.id}"

"""Connect links: the `error_uri` of a refused token request, where its user can authorize the application.

A link is sealed under the zone's key, so nothing is stored for one that is handed out, however often an
application asks; what is stored is that it was used. It says for whom, by which session and which client it
was asked for, and for what; everything else is decided when it is opened.

Spec: zone interface, section 5; RFC 6749 section 5.2.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict

from runtime.domain.errors import BadLink
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.resource import Resource
from runtime.services.authority import sealed_links
from runtime.services.authority.sealed_links import MAX_LINK_CHARS
from runtime.services.client_types import Client
from runtime.services.zones import CachedZone
from runtime.storage.sql.sessions import SessionRecord

CONNECT_LINK_SECONDS = 600
_KIND = "connect_links"
_EXPIRED = "this link has expired; go back to the application and try again"


@dataclass(frozen=True, slots=True)
class MissingAuthorization:
    """Whose authorization a token request lacks, and for what.

    Attributes:
        session: the root session of the chain.
        scopes: requested of the resource; None for all that it has.
        actors: names of everyone who acts in the chain, the client first, as policies are asked about them.
    """

    session: SessionRecord
    scopes: frozenset[str] | None
    actors: tuple[str, ...]
    now: datetime


class ConnectLink(BaseModel):
    """What a link says.

    Attributes:
        session_id: the root session of the chain that lacks the authorization.
        party_id: of the application or user agent behind the client id.
        resource_identifier: as it was when the link was made.
        scopes: requested of the resource; None for all that it has.
        actors: names of everyone who acts in the chain, the client first.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    user_id: str
    session_id: str
    client_id: str
    party_id: str
    resource_id: str
    resource_identifier: str
    scopes: frozenset[str] | None
    actors: tuple[str, ...]
    issued_at: datetime

    @property
    def expires_at(self) -> datetime:
        """When it is worth nothing any more."""
        return self.issued_at + timedelta(seconds=CONNECT_LINK_SECONDS)


def new_link(
    zone: CachedZone, client: Client, resource: Resource, missing: MissingAuthorization
) -> str | None:
    """A link for the user of a session; None for a session without one, or where it would be too long."""
    if missing.session.user_id is None:
        return None
    offered = frozenset(resource.scopes or ())
    link = ConnectLink(
        id=new_id(),
        user_id=missing.session.user_id,
        session_id=missing.session.id,
        client_id=client.client_id,
        party_id=client.client_ref.id,
        resource_id=resource.id,
        resource_identifier=resource.identifier,
        scopes=None if missing.scopes is None else missing.scopes & offered,
        actors=missing.actors,
        issued_at=missing.now,
    )
    text = sealed_links.seal_link(zone, _KIND, link)
    return text if len(text) <= MAX_LINK_CHARS else None


def open_link(zone: CachedZone, text: str, now: datetime) -> ConnectLink:
    """What a link says that this zone has handed out minutes ago. Raises BadLink."""
    link = sealed_links.open_link(zone, _KIND, ConnectLink, text)
    if link.expires_at <= now:
        raise BadLink(_EXPIRED)
    return link

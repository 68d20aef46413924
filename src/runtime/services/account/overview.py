"""The account page: connected applications, grants, stored credentials and browser sessions of a user."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from runtime.services.account import reconnection
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.authorization.consent_prompt import in_words
from runtime.services.container import Services
from runtime.services.zones import CachedZone
from runtime.storage.sql import connected_applications, sessions, users, vault_resources
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.connected_applications import GivenConsent, GivenGrant
from runtime.storage.sql.sessions import SessionRecord
from runtime.storage.sql.vault_resources import VaultResource


@dataclass(frozen=True, slots=True)
class AllowedResource:
    """A resource that an application may use, with its scopes in order."""

    name: str
    identifier: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConnectedApplication:
    """An application that may act for the user, or that they are signed in to.

    Attributes:
        redirect_host: where it is answered; None when the user was never asked.
        self_registered: nobody here knows whose it is.
        sign_in: sign-in scopes in words.
    """

    client_ref: ClientRef
    name: str
    redirect_host: str | None
    self_registered: bool
    since: datetime
    sign_in: tuple[str, ...]
    resources: tuple[AllowedResource, ...]


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A browser in which the user is signed in."""

    id: str
    started_by: str
    since: datetime
    until: datetime
    is_this: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on the page.

    Attributes:
        reconnecting: for each account to be connected again, the application that it can be connected for,
            grant id -> name.
        vault: the resources that take a credential of the user's own.
        has_password: the user signs in with one, and may change it.
    """

    applications: tuple[ConnectedApplication, ...]
    grants: tuple[GivenGrant, ...]
    reconnecting: Mapping[str, str]
    vault: tuple[VaultResource, ...]
    sessions: tuple[OpenSession, ...]
    has_password: bool


async def overview(services: Services, zone: CachedZone, signed_in: SignedInUser) -> Overview:
    """What there is for a user."""
    now, user_id = services.clock(), signed_in.user.id
    async with services.database.reading() as conn:
        given = await connected_applications.consents(conn, zone_id=zone.id, user_id=user_id)
        grants = await connected_applications.grants(conn, zone_id=zone.id, user_id=user_id, now=now)
        active_sessions = await sessions.of_user(conn, user_id, zone_id=zone.id, now=now)
        vault = await vault_resources.reachable(conn, zone_id=zone.id, user_id=user_id, now=now)
        known = await users.with_password(conn, user_id, zone_id=zone.id)
    reconnecting: dict[str, str] = {}
    for grant in (each for each in grants if each.needs_connecting):
        client = await reconnection.find_client(services, zone, signed_in, grant)
        reconnecting |= {grant.id: client.name} if client is not None else {}
    return Overview(
        applications=tuple(_applications(given, active_sessions)),
        grants=tuple(grants),
        reconnecting=reconnecting,
        vault=tuple(vault),
        sessions=tuple(_open_sessions(active_sessions, signed_in.session.id)),
        has_password=known is not None and zone.entity.user_identity_provider_id is None,
    )


def _open_sessions(active_sessions: Iterable[SessionRecord], current_id: str) -> list[OpenSession]:
    """The browsers, this one first. A session that a later one has replaced is that one's."""
    found = [
        OpenSession(
            id=each.id,
            started_by=str(each.metadata.get("name", "")),
            since=each.created_at,
            until=each.expires_at,
            is_this=each.id == current_id,
        )
        for each in active_sessions
        if each.session_type == "browser" and each.parent_id is None
    ]
    return sorted(found, key=lambda each: not each.is_this)


def _applications(
    given: Iterable[GivenConsent], active_sessions: Iterable[SessionRecord]
) -> Iterable[ConnectedApplication]:
    """Those that the user agreed to, then those that ask nobody but hold a session."""
    by_party: dict[ClientRef, list[GivenConsent]] = {}
    for consent in given:
        by_party.setdefault(consent.client_ref, []).append(consent)
    for client_ref, consents in by_party.items():
        yield _agreed(client_ref, consents)
    seen = set(by_party)
    for session in active_sessions:
        if session.session_type == "browser" or session.client_ref in seen:
            continue
        seen.add(session.client_ref)
        yield ConnectedApplication(
            client_ref=session.client_ref,
            name=str(session.metadata.get("name", "")),
            redirect_host=None,
            self_registered=False,
            since=session.created_at,
            sign_in=(),
            resources=(),
        )


def _agreed(client_ref: ClientRef, consents: list[GivenConsent]) -> ConnectedApplication:
    sign_in: frozenset[str] = frozenset()
    resources = []
    for each in consents:
        if each.resource_identifier is None:
            sign_in |= each.scopes
            continue
        scopes = tuple(sorted(each.scopes))
        resources.append(AllowedResource(each.resource_name or "", each.resource_identifier, scopes))
    return ConnectedApplication(
        client_ref=client_ref,
        name=consents[0].name,
        redirect_host=consents[0].redirect_host,
        self_registered=client_ref.user_agent_id is not None,
        since=min(each.since for each in consents),
        sign_in=in_words(sign_in),
        resources=tuple(resources),
    )

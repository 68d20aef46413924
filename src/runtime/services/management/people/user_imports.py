"""Users of another system, imported into a zone: JSON lines, of which each is added, unchanged or refused.

A line that was imported before is unchanged: by a subject of a provider, else by the address of a user with a
password. So an import that was cut off is run again as it was.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails
from sqlalchemy.exc import DBAPIError

from runtime.adapters.passwords import require_known
from runtime.domain import provider_issuers, strict_json
from runtime.domain.errors import ServiceError
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import PROVIDER, USER
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import Email, Identifier, UserStatus
from runtime.services.authority.admission import checks
from runtime.services.container import Services
from runtime.services.management import entities
from runtime.services.management.access.caller import Actor
from runtime.services.management.unit_of_work import UnitOfWork, unit_of_work
from runtime.services.zones import CachedZone
from runtime.storage.sql import entities as entity_storage
from runtime.storage.sql import user_imports as storage
from runtime.storage.sql import users as user_storage
from runtime.storage.sql.user_imports import NewCredential, Subject

MAX_LINE_BYTES = 65_536
_AT_ONCE = 500  # users in one transaction; other writers of the organization wait for that
_MAX_NAME = 60  # characters of an unknown member's name in a message

# Is told the number of a line, from 1, and what is wrong with it: nothing of what is in it.
Refuse = Callable[[int, str], None]


class ImportedIdentity(BaseModel):
    """A subject that a provider of the zone signs in."""

    model_config = ConfigDict(extra="forbid")

    issuer: Identifier
    subject: Identifier


class ImportedUser(BaseModel):
    """A line of an import: members of a user as the management API has them, and how the user signs in."""

    model_config = ConfigDict(extra="forbid")

    email: Email
    email_verified: bool = False
    identifier: Identifier | None = None
    status: UserStatus = UserStatus.ACTIVE
    identities: Annotated[list[ImportedIdentity], Field(max_length=10)] = []
    password_hash: Annotated[str, StringConstraints(max_length=512)] | None = None

    @property
    def subjects(self) -> list[Subject]:
        """Its identities as they are stored."""
        return [(each.issuer, each.subject) for each in self.identities]


class NothingImported(Exception):
    """A line was refused, so that none is imported."""


@dataclass
class ImportTally:
    """What has become of the lines so far."""

    added: int = 0
    unchanged: int = 0
    refused: int = 0

    @property
    def lines(self) -> int:
        return self.added + self.unchanged + self.refused


@dataclass(frozen=True)
class _Line:
    number: int
    user: ImportedUser


@dataclass
class _Import:
    """One run of an import into a zone."""

    services: Services
    zone: CachedZone
    by: Actor
    refuse: Refuse
    providers: dict[str, Provider]  # by issuer
    tally: ImportTally = field(default_factory=ImportTally)

    def refused(self, number: int, reason: str) -> None:
        """Count a line that is refused, and say why."""
        self.tally.refused += 1
        self.refuse(number, reason)


async def run(
    services: Services,
    zone: CachedZone,
    lines: Iterable[bytes],
    *,
    by: Actor,
    refuse: Refuse,
    all_or_nothing: bool = False,
) -> ImportTally:
    """Import users, a few hundred in each transaction; what has become of the lines.

    Args:
        lines: as `lines_of` reads them.
        all_or_nothing: all in one transaction, which keeps nothing when a line is refused.
    Raises: NothingImported; what the database raises.
    """
    running = _Import(services, zone, by, refuse, await _providers(services, zone))
    parsed = _parsed(running, lines)
    chunks = iter(lambda: list(islice(parsed, _AT_ONCE)), [])
    if not all_or_nothing:
        for chunk in chunks:
            async with _unit(running) as unit:
                await _add(running, unit, chunk)
        return running.tally
    async with _unit(running) as unit:
        for chunk in chunks:
            await _add(running, unit, chunk)
        if running.tally.refused:
            raise NothingImported
    return running.tally


def lines_of(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """The lines that `readline` of a binary file gives, each up to what is read of one that is too long."""
    while line := read(MAX_LINE_BYTES + 1):
        yield line
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = read(MAX_LINE_BYTES + 1)  # the rest of it says nothing


async def _providers(services: Services, zone: CachedZone) -> dict[str, Provider]:
    async with services.database.reading() as conn:
        found = entity_storage.all_of(conn, PROVIDER, within={"zone_id": zone.id})
        return {provider_issuers.issuer_of(each): each async for each in found}


@asynccontextmanager
async def _unit(running: _Import) -> AsyncIterator[UnitOfWork]:
    caller = running.by.within(running.zone.organization_id)
    async with unit_of_work(running.services, caller, new_id()) as unit:
        unit.epochs.keeps_zones = True  # nobody has seen anything of who is new
        await unit.next_revision()
        await user_storage.lock_zone(unit.conn, running.zone.id)
        yield unit


# --- one line


def _parsed(running: _Import, lines: Iterable[bytes]) -> Iterator[_Line]:
    """The lines that are users, by their number; empty lines are none."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _Line(number, _read(line, running.providers))
        except ValidationError as failure:
            running.refused(number, "; ".join(map(_explained, failure.errors(include_url=False))))
        except ValueError as failure:
            running.refused(number, str(failure))


def _read(line: bytes, providers: dict[str, Provider]) -> ImportedUser:
    """A line's user. Raises ValueError, ValidationError."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"has more than {MAX_LINE_BYTES:,} bytes")
    try:
        strict_json.parse(line)
    except ValueError:
        raise ValueError("is not JSON with distinct members") from None
    user = ImportedUser.model_validate_json(line, strict=True)
    if not user.identities and user.password_hash is None:
        raise ValueError("has neither `identities` nor `password_hash`: nobody could sign in")
    if user.password_hash is not None:
        try:
            require_known(user.password_hash)
        except ValueError as failure:
            raise ValueError(f"`password_hash` {failure}") from None
    if any(each.issuer not in providers for each in user.identities):
        raise ValueError("`identities`: no provider of the zone has this issuer")
    return user


def _explained(error: ErrorDetails) -> str:
    """What is wrong with a member; its value may be a secret, and is not told."""
    name = ".".join(map(str, error["loc"]))[:_MAX_NAME]
    if error["type"] == "extra_forbidden":
        shown = name if name.isascii() and name.isprintable() else ascii(name)
        hint = ": give `password_hash`" if name == "password" else ""
        return f"`{shown}` is no member of a user{hint}"
    return f"`{name}`: {error['msg']}" if name else error["msg"]


# --- many lines


async def _add(running: _Import, unit: UnitOfWork, lines: Sequence[_Line]) -> None:
    """Add the users of these lines that are not there, and refuse those that cannot be."""
    new, repeated = await _new(running, unit, lines)
    try:
        async with unit.conn.begin_nested():
            made = await _written(running, unit, new)
    except (ServiceError, DBAPIError):
        # One of them is refused: one by one the database says which.
        made = [user for line in new for user in await _tried(running, unit, line)]
    for user in made:
        await entities.record_created(unit, USER, user)
    running.tally.added += len(made)
    if repeated:
        await _add(running, unit, repeated)


async def _tried(running: _Import, unit: UnitOfWork, line: _Line) -> list[User]:
    try:
        async with unit.conn.begin_nested():
            return await _written(running, unit, [line])
    except ServiceError as refusal:
        running.refused(line.number, refusal.detail)
        return []


async def _new(running: _Import, unit: UnitOfWork, lines: Sequence[_Line]) -> tuple[list[_Line], list[_Line]]:
    """The lines of users who are not there, and those that come after another of the same user."""
    zone_id, subjects = running.zone.id, {each for line in lines for each in line.user.subjects}
    addresses = {line.user.email.lower() for line in lines if line.user.password_hash is not None}
    known = await storage.by_subjects(unit.conn, zone_id, subjects)
    passwords = await storage.with_passwords(unit.conn, zone_id, addresses)
    new: list[_Line] = []
    repeated: list[_Line] = []
    seen: set[Subject | str] = set()
    for line in lines:
        user = line.user
        holders = [known.get(each) for each in user.subjects]
        address = user.email.lower() if user.password_hash is not None else None
        keys: set[Subject | str] = {*user.subjects, *([] if address is None else [address])}
        if keys & seen:
            repeated.append(line)
        elif holders and None not in holders and len(set(holders)) == 1:
            running.tally.unchanged += 1
        elif any(holders):
            running.refused(line.number, "`identities`: some of them are, or one of them is, another user's")
        elif address in passwords and not holders:
            running.tally.unchanged += 1
        elif address in passwords:
            running.refused(line.number, "`email`: another user with a password has this address")
        else:
            seen |= keys
            new.append(line)
    return new, repeated


async def _written(running: _Import, unit: UnitOfWork, lines: Sequence[_Line]) -> list[User]:
    """Write new users. Raises ServiceError when one cannot be, and DBAPIError."""
    zone = running.zone.entity
    verified = {line.user.email.lower() for line in lines if line.user.email_verified}
    awaited = await storage.awaited(unit.conn, zone.id, verified)
    made: list[User] = []
    credentials: list[NewCredential] = []
    for line in lines:
        given, bound = line.user, {}
        if given.identities:
            (issuer, subject), provider = given.subjects[0], running.providers[given.identities[0].issuer]
            bound = {"provider_id": provider.id, "issuer": issuer, "subject": subject}
        user = checks.new_user(
            zone,
            given.email,
            unit.now,
            verified=given.email_verified,
            identifier=given.identifier,
            status=given.status,
            **bound,
        )
        await checks.add_user(unit.conn, user, unit.now, awaited=awaited)
        made.append(user)
        credentials += _credentials(running, user, given)
    await storage.add_credentials(unit.conn, zone.id, credentials, now=unit.now)
    return made


def _credentials(running: _Import, user: User, given: ImportedUser) -> Iterator[NewCredential]:
    for issuer, subject in given.subjects:
        provider_id = running.providers[issuer].id
        yield NewCredential(user.id, "federation", provider_id=provider_id, issuer=issuer, subject=subject)
    if given.password_hash is not None:
        yield NewCredential(user.id, "password", password_hash=given.password_hash)

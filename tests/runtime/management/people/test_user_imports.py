"""Bulk import of users: what is added, unchanged and refused, and that it can be run again."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from sqlalchemy import func, select
from tests.support.factories import Company, found_company, opened_parts

from runtime.adapters.passwords import MAX_MEMORY_KIB, require_known
from runtime.domain.kinds import PROVIDER
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import UserStatus
from runtime.domain.kinds.zone import Zone
from runtime.services.container import Services
from runtime.services.management import audit
from runtime.services.management.access.caller import Actor
from runtime.services.management.people import user_imports
from runtime.services.management.people.user_imports import ImportedUser, NothingImported
from runtime.storage.sql import users as storage
from runtime.storage.sql.tables import METADATA, TABLES

ISSUER = "https://corp.example"
PASSWORD = "correct horse battery"
HASH = PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash(PASSWORD)


@dataclass
class Place:
    """A zone with a provider, and what was refused of the last import."""

    company: Company
    zone: Zone
    refused: list[tuple[int, str]] = field(default_factory=list)

    @property
    def services(self) -> Services:
        return self.company.services

    async def run(self, *lines: dict[str, Any] | bytes, all_or_nothing: bool = False) -> tuple[int, int, int]:
        """How many lines were added, unchanged, and refused."""
        self.refused = []
        written = (each if isinstance(each, bytes) else json.dumps(each).encode() for each in lines)
        tally = await user_imports.run(
            self.services,
            await self.services.zones.get(self.zone.id),
            written,
            by=Actor("operator", "tester"),
            refuse=lambda number, reason: self.refused.append((number, reason)),
            all_or_nothing=all_or_nothing,
        )
        return tally.added, tally.unchanged, tally.refused

    async def emails(self) -> list[str]:
        users = TABLES["User"]
        async with self.services.database.reading() as conn:
            found = select(users.c.email).where(users.c.zone_id == self.zone.id).order_by(users.c.email)
            return list(await conn.scalars(found))

    async def count(self, table: str) -> int:
        async with self.services.database.reading() as conn:
            return await conn.scalar(select(func.count()).select_from(METADATA.tables[table])) or 0

    async def user(self, subject: str) -> User:
        async with self.services.database.reading() as conn:
            of = {"zone_id": self.zone.id, "issuer": ISSUER, "subject": subject}
            found = await storage.find_by_subject(conn, **of)
        assert found is not None
        return found


@pytest.fixture
async def place(database_url: str, tmp_path: Path) -> Any:
    async with opened_parts(tmp_path / "data", database_url=database_url) as services:
        company = await found_company(services)
        zone = await company.zone()
        await company.create(PROVIDER, zone.id, name="Corp", identifier=ISSUER)
        yield Place(company, zone)


def federated(name: str, **more: Any) -> dict[str, Any]:
    identities = [{"issuer": ISSUER, "subject": name}]
    return {"email": f"{name}@acme.example", "identities": identities} | more


def local(name: str, **more: Any) -> dict[str, Any]:
    return {"email": f"{name}@acme.example", "password_hash": HASH} | more


async def test_users_can_sign_in_as_they_did_before(place: Place) -> None:
    """At the provider by their subject, and with their password; each leaves an audit record."""
    line = federated("ada", identifier="ada", email_verified=True, status="disabled")
    assert await place.run(line, local("bob")) == (2, 0, 0)

    ada = await place.user("ada")
    assert (ada.identifier, ada.email, ada.email_verified) == ("ada", "ada@acme.example", True)
    assert (ada.status, ada.issuer, ada.subject) == (UserStatus.DISABLED, ISSUER, "ada")
    async with place.services.database.reading() as conn:
        bob = await storage.find_by_password(conn, zone_id=place.zone.id, email="Bob@acme.example")
    assert bob is not None
    assert (bob.user.email_verified, bob.user.identifier) == (False, bob.user.id)
    of = {"tenant": place.company.organization_id}
    assert await place.services.passwords.verify(bob.password_hash, PASSWORD, **of)
    assert not await place.services.passwords.verify(bob.password_hash, PASSWORD + "x", **of)
    verdicts = [each async for each in audit.verify(place.services, place.company.organization_id)]
    assert verdicts[0].broken_at is None


async def test_a_second_run_changes_nothing(place: Place) -> None:
    """Nor does a line that is there twice; what was added meanwhile by one is not added by the other."""
    lines = [federated("ada"), local("bob"), federated("ada"), local("bob", email="BOB@acme.example")]
    assert await place.run(*lines) == (2, 2, 0)
    records = await place.count("audit_events")

    assert await place.run(*lines, federated("cy")) == (1, 4, 0)
    assert await place.count("audit_events") == records + 1
    assert await place.emails() == ["ada@acme.example", "bob@acme.example", "cy@acme.example"]


_WRONG: dict[str, tuple[dict[str, Any] | bytes, str]] = {
    "no JSON": (b"{", "is not JSON"),
    "a member twice": (
        b'{"email": "a@b.example", "email": "c@d.example"}',
        "is not JSON with distinct members",
    ),
    "no object": (b"[]", "should be an object"),
    "no UTF-8": (b'{"email": "\xff@b.example"}', "is not JSON"),
    "no address": (federated("x", email="nobody"), "`email`: "),
    "no way in": ({"email": "a@b.example"}, "neither `identities` nor `password_hash`"),
    "an unknown member": (federated("x", nickname="y"), "`nickname` is no member of a user"),
    "a password": (federated("x", password="hunter2hunter2"), "`password` is no member of a user: give"),
    "a control character": (federated("x", **{"a\x1b[2J": 1}), "`'a\\x1b[2J'` is no member"),
    "another issuer": (
        federated("x", identities=[{"issuer": "https://other.example", "subject": "x"}]),
        "no provider of the zone",
    ),
    "a status": (federated("x", status="gone"), "`status`: "),
    "a text for a truth": (federated("x", email_verified="yes"), "`email_verified`: "),
    "bcrypt": (local("x", password_hash="$2b$12$" + "a" * 53), "bcrypt"),
    "a plain password": (local("x", password_hash="hunter2hunter2"), "is no argon2 hash"),
    "a costly hash": (
        local("x", password_hash=HASH.replace("m=1024", f"m={MAX_MEMORY_KIB + 1}")),
        "has other costs",
    ),
    "a long line": (b'{"email": "' + b"a" * 70_000 + b'"}', "has more than 65,536 bytes"),
    "a taken identifier": (federated("x", identifier="ada"), "identifier"),
    "an identity of two users": (
        federated(
            "x", identities=[{"issuer": ISSUER, "subject": "ada"}, {"issuer": ISSUER, "subject": "new"}]
        ),
        "`identities`: some",
    ),
    "an address with a password": (federated("x") | local("bob"), "`email`: another user"),
}


@pytest.mark.parametrize("what", _WRONG)
async def test_a_line_that_will_not_do_is_refused_alone(place: Place, what: str) -> None:
    """With its number and the reason, and nothing secret; the others are imported."""
    await place.run(federated("ada", identifier="ada"), local("bob"))
    line, reason = _WRONG[what]

    assert await place.run(federated("first"), line, local("last")) == (2, 0, 1)

    ((number, told),) = place.refused
    assert number == 2
    assert reason in told
    assert "hunter2" not in told
    assert "$2b$" not in told
    assert await place.emails() == [f"{name}@acme.example" for name in ("ada", "bob", "first", "last")]


async def test_all_or_nothing(place: Place) -> None:
    """A line that is refused by its form, or by the database, leaves nothing behind; corrected, all come."""
    records, names = await place.count("audit_events"), await place.count("subjects")
    for wrong in (local("x", email="nobody"), federated("x", identifier="ada")):
        with pytest.raises(NothingImported):
            await place.run(federated("ada", identifier="ada"), wrong, local("bob"), all_or_nothing=True)
        assert [number for number, _ in place.refused] == [2]
        assert (await place.emails(), await place.count("subjects")) == ([], names)
        assert await place.count("audit_events") == records

    lines = (federated("ada", identifier="ada"), local("bob"))
    assert await place.run(*lines, all_or_nothing=True) == (2, 0, 0)


async def test_more_than_one_transaction(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are counted through, and an import that was cut off goes on where it was."""
    monkeypatch.setattr(user_imports, "_AT_ONCE", 3)
    lines = [federated(f"user-{number}") for number in range(10)]

    def cut_off() -> Iterable[bytes]:
        yield from (json.dumps(each).encode() for each in lines[:7])
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await place.run(*cut_off())
    broken = user_imports.run(
        place.services,
        await place.services.zones.get(place.zone.id),
        cut_off(),
        by=Actor("operator", "tester"),
        refuse=lambda *_: None,
    )
    with pytest.raises(ConnectionResetError):
        await broken
    assert len(await place.emails()) == 6

    assert await place.run(*lines, {"email": "x"}) == (4, 6, 1)
    assert place.refused[0][0] == 11


async def test_what_waits_for_a_verified_address_is_theirs(place: Place) -> None:
    """Groups that invited it; not for an address that nobody has verified."""
    group = await place.company.group(place.zone, "admins")
    invitees = METADATA.tables["group_invitees"]
    async with place.services.database.transaction() as conn:
        for name in ("ada", "bob"):
            row = {"zone_id": place.zone.id, "group_id": group.id, "email": f"{name}@acme.example"}
            await conn.execute(invitees.insert(), {**row, "created_at": place.services.clock()})

    await place.run(federated("ada", email="Ada@acme.example", email_verified=True), federated("bob"))

    members = METADATA.tables["group_members"]
    async with place.services.database.reading() as conn:
        assert set(await conn.scalars(select(members.c.user_id))) == {(await place.user("ada")).id}
        assert list(await conn.scalars(select(invitees.c.email))) == ["bob@acme.example"]


def test_members_of_a_line_are_those_of_a_user() -> None:
    """One definition: what a user's address, identifier and status may be is decided in one place."""
    shared = ("email", "email_verified", "status")
    ours, theirs = ImportedUser.model_json_schema(), User.model_json_schema()
    assert [ours["properties"][name] for name in shared] == [theirs["properties"][name] for name in shared]
    assert ours["properties"]["identifier"]["anyOf"][0].items() <= theirs["properties"]["identifier"].items()


@pytest.mark.parametrize("variant", ["i", "d", "id"])
def test_hashes_of_argon2_are_taken(variant: str) -> None:
    """Each variant that is verified; a hash whose parts do not fit is none."""
    require_known(HASH.replace("argon2id", f"argon2{variant}"))
    for wrong in (HASH.replace("argon2id", "argon2x"), HASH[:-30], HASH + "$", HASH.replace("p=1", "p=0")):
        with pytest.raises(ValueError, match=r"argon2|costs"):
            require_known(wrong)


def test_a_long_line_takes_no_memory() -> None:
    """What is beyond is read and thrown away; the lines after it are read."""
    content = b"x" * 300_000 + b"\nnext\nlast"
    place = 0

    def read(size: int) -> bytes:
        nonlocal place
        end = content.find(b"\n", place) + 1 or len(content)
        part = content[place : min(end, place + size)]
        place += len(part)
        return part

    lines = list(user_imports.lines_of(read))
    assert [len(each) for each in lines] == [user_imports.MAX_LINE_BYTES + 1, 5, 4]

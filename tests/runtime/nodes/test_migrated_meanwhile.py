"""Another program migrates the database of a process that serves: to what that may serve, and to what not."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from tests.support.logs import logged_lines
from tests.support.server import Server, serve
from tests.support.waiting import wait_until

from runtime.services import schema_watch
from runtime.storage.sql import migrate
from runtime.storage.sql.database import Database

NEWER, NOBODY = "9999", "9998"
LINE = "the database is not served any more"


@dataclass
class Site:
    """A server, its database as another program changes it, and an application that asks for tokens.

    Attributes:
        form: of its token request.
    """

    server: Server
    url: str
    zone: dict[str, Any]
    form: dict[str, str]

    def ready(self) -> httpx.Response:
        return httpx.get(f"{self.server.url}/readyz", trust_env=False, timeout=10)

    def write(self) -> int:
        return self._management("POST", "/zones", json={"name": "New"})

    def read(self) -> int:
        return self._management("GET", f"/zones/{self.zone['id']}")

    def token(self) -> int:
        address = self.zone["protocols"]["oauth2"]["token_endpoint"]
        return httpx.post(address, data=self.form, trust_env=False, timeout=10).status_code

    def statuses(self) -> set[int]:
        """Of requests of every sort: those that write, those that read, and tokens."""
        return {self.write(), self.read(), self.token()}

    def _management(self, method: str, path: str, **more: Any) -> int:
        headers, address = self.server.headers, f"{self.server.url}{path}"
        return httpx.request(
            method, address, headers=headers, trust_env=False, timeout=10, **more
        ).status_code

    def migrate_to(self, version: str, *, oldest: str) -> None:
        """Do as a program does that makes of the database what programs from *oldest* on may serve."""
        asyncio.run(self._note(version, oldest))

    async def _note(self, version: str, oldest: str) -> None:
        database = Database.open(self.url, migrating=True)
        async with database.transaction() as conn:
            await conn.execute(
                text("UPDATE alembic_version SET version_num = :version"), {"version": version}
            )
            await conn.execute(
                text("UPDATE schema_compatibility SET oldest_version = :oldest"), {"oldest": oldest}
            )
        await database.close()


@pytest.fixture
def site(tmp_path: Path, database_url: str) -> Iterator[Site]:
    with serve(tmp_path / "data", database_url=database_url) as server:
        with httpx.Client(base_url=server.url, headers=server.headers, timeout=30, trust_env=False) as client:

            def make(path: str, **body: Any) -> dict[str, Any]:
                made: dict[str, Any] = client.post(path, json=body).raise_for_status().json()
                return made

            zone = make("/zones", name="Zone")
            inside = f"/zones/{zone['id']}"
            resource = make(f"{inside}/resources", name="R", identifier="https://api.example")
            application = make(
                f"{inside}/applications",
                name="A",
                identifier="https://agent.example",
                dependencies=[{"id": resource["id"]}],
            )
            secret = make(
                f"{inside}/application-credentials", application_id=application["id"], type="password"
            )
        form = {
            "grant_type": "client_credentials",
            "client_id": secret["identifier"],
            "client_secret": secret["password"],
            "resource": resource["identifier"],
        }
        yield Site(server, database_url, zone, form)


def test_a_database_that_is_not_supported_is_not_served(site: Site) -> None:
    """Readiness says what to do, and the log both versions, once; the process lives, and goes on later."""
    assert (site.ready().status_code, site.statuses() <= {200, 201}) == (200, True)

    site.migrate_to(NEWER, oldest=NOBODY)

    with logged_lines() as lines:
        answers = [site.ready() for _ in range(3)]
    assert [each.status_code for each in answers] == [503] * 3
    assert answers[0].json()["database"] == migrate._OF_A_NEWER
    assert site.statuses() == {503}
    assert httpx.get(f"{site.server.url}/healthz", trust_env=False).status_code == 200
    (line,) = (each for each in lines if each["event"] == LINE)
    assert f"version {NEWER}" in line["reason"]
    assert migrate.newest() in line["reason"]

    site.migrate_to(migrate.newest(), oldest=migrate.newest())  # it was restored

    assert site.ready().status_code == 200
    assert site.statuses() <= {200, 201}


def test_a_database_that_is_supported_goes_on_being_served(site: Site) -> None:
    """Though a newer program has migrated it."""
    site.migrate_to(NEWER, oldest=migrate.newest())

    assert site.ready().status_code == 200
    assert site.statuses() <= {200, 201}


def test_an_older_database_is_not_served_before_it_is_migrated(site: Site) -> None:
    """One that was restored from a back-up of before: as at the start of a process."""
    site.migrate_to(migrate.lineage()[-2], oldest=migrate.lineage()[0])

    assert site.ready().json()["database"] == migrate._OF_AN_OLDER
    assert site.statuses() == {503}


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers look ten times a second."""
    monkeypatch.setattr(schema_watch, "EVERY_SECONDS", 0.1)


@pytest.mark.usefixtures("often")
def test_a_process_notices_that_nobody_asks_for_its_readiness(site: Site) -> None:
    """It looks by itself, every few seconds."""
    assert site.write() == 200

    site.migrate_to(NEWER, oldest=NOBODY)

    wait_until(lambda: site.write() == 503)

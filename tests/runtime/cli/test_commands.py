"""Every command of `zoned`, as the command itself lists them: what changes something leaves a record of it.

A new command fails here until it is declared as one that only looks, or has a recipe.
"""

import asyncio
import base64
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from acme import free_port
from alembic import command as alembic
from click.testing import CliRunner, Result
from sqlalchemy import Connection, MetaData, insert
from tests.support.postgres import PostgresServer
from tests.support.waiting import wait_until

from runtime.adapters.keys.local_key import LocalKey
from runtime.cli import main
from runtime.cli.commands import ReadOnlyCommand
from runtime.cli.operators import current_operator
from runtime.storage.sql import migrate as migrations
from runtime.storage.sql.database import Database

PASSWORD = "correct horse battery"
HASH = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43
OLDER = "0012"  # a version of the tables that the newest comes after


@dataclass
class Site:
    """A data directory, and who runs commands on it.

    Attributes:
        names: what the arguments of recipes speak of: `{zone}`, `{organization}`.
    """

    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def database(self) -> Path:
        return self.directory / "zonewright.db"

    def run(self, *arguments: str, stdin: str | None = None, **settings: str) -> Result:
        environment = {"ZONED_DATA_DIR": str(self.directory), **self.settings, **settings}
        filled = [each.format(**self.names) for each in arguments]
        return CliRunner().invoke(main, filled, input=stdin, env=environment)

    def ok(self, *arguments: str, **more: Any) -> str:
        done = self.run(*arguments, **more)
        assert done.exit_code == 0, done.output
        return done.stdout

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database)) as database, database:
            return database.execute(statement).fetchall()

    def content(self) -> dict[str, list[str]]:
        """Table -> its rows, as text that can be compared."""
        tables = [name for (name,) in self.sql("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: sorted(map(repr, self.sql(f'SELECT * FROM "{table}"'))) for table in tables}

    def events(self) -> list[tuple[str, str, str]]:
        """Type and name of the actor, and the action, of each audit record, oldest first."""
        found = self.sql("SELECT actor_type, actor_id, action FROM audit_events ORDER BY at, sequence")
        return [(str(kind), str(name), str(action)) for kind, name, action in found]


@dataclass(frozen=True)
class Recipe:
    """How a command is run so that it has something to change.

    Attributes:
        action: what the audit trail calls it.
        exits: with what.
        serves: it is a process that serves until it is told to stop.
        begin: makes what it is run on, where that is no set-up directory.
    """

    arguments: tuple[str, ...]
    action: str
    stdin: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    exits: int = 0
    serves: bool = False
    begin: Callable[[Site], None] | None = None


def _migrated(site: Site) -> None:
    """A database with tables and what every process shares, and nothing else; the key beside it."""
    LocalKey.from_file(site.directory / "key-encryption.key", create=True)
    site.ok("migrate")
    site.ok("organization", "list")


def _older(site: Site) -> None:
    """A database as an older version has left it, with an organization."""

    def make(connection: Connection) -> None:
        config = migrations._config()
        config.attributes["connection"] = connection
        alembic.upgrade(config, OLDER)
        known = MetaData()
        known.reflect(connection)
        at = "2026-01-01T00:00:00Z"
        values: dict[str, Any] = {"id": "acme", "created_at": at, "updated_at": at, "revision": 0}
        values |= {"label": "acme", "name": "Acme", "sso_enabled": False}
        connection.execute(insert(known.tables["organizations"]), values)
        head = {"organization_id": "acme", "revision": 0, "audit_sequence": 0, "audit_hash": "0" * 64}
        connection.execute(insert(known.tables["organization_heads"]), head)

    async def run() -> None:
        database = Database.open(f"sqlite+aiosqlite:///{site.database}", migrating=True)
        try:
            async with database.transaction() as conn:
                await conn.run_sync(make)
        finally:
            await database.close()

    LocalKey.from_file(site.directory / "key-encryption.key", create=True)
    asyncio.run(run())


def _backed_up(site: Site) -> None:
    site.ok("init")
    site.names["backup"] = str(site.directory.with_name("backup.db"))
    site.ok("backup", "{backup}")


def _with_another_key(site: Site) -> None:
    site.ok("init")
    own = (site.directory / "key-encryption.key").read_text().strip()
    other = base64.b64encode(b"x" * 32).decode()
    site.settings |= {"ZONED_KEY_ENCRYPTION_KEY": other, "ZONED_OTHER_KEY_ENCRYPTION_KEYS": own}


def _moved(site: Site) -> None:
    site.ok("init")
    ((site.names["zone"],),) = site.sql("SELECT zone_id FROM organizations")
    site.ok("zone", "move", *_OF_ZONE, "--to", "https://id.acme.example")


_OF_ZONE = ("--zone", "{zone}")
_OF_ORGANIZATION = ("--organization", "{organization}")

# Command -> how it is run.
RECIPES: dict[str, Recipe] = {
    "init": Recipe((), "organizations.create", begin=_migrated),
    "migrate": Recipe((), "database.migrate", begin=_older),
    # Under another address home zones want another resource.
    "serve": Recipe((), "zones.equip", settings={"ZONED_PUBLIC_URL": "https://id.acme.example"}, serves=True),
    "organization add": Recipe(("--name", "Other"), "organizations.create"),
    "organization-user add": Recipe(
        (*_OF_ORGANIZATION, "--email", "ada@acme.example", "--password-stdin"),
        "organization_users.create",
        stdin=PASSWORD,
    ),
    "api-key add": Recipe((*_OF_ORGANIZATION, "--name", "ci"), "api_keys.create"),
    "api-key create": Recipe((*_OF_ORGANIZATION, "--name", "ci", "--expires-in", "12h"), "api_keys.create"),
    "api-key revoke": Recipe(("{key}",), "api_keys.delete"),
    "user add": Recipe(
        (*_OF_ZONE, "--email", "bob@acme.example", "--password-stdin"), "users.create", stdin=PASSWORD
    ),
    "user import": Recipe(
        (*_OF_ZONE, "-"),
        "users.create",
        stdin=json.dumps({"email": "eve@acme.example", "password_hash": HASH}),
    ),
    "user disable": Recipe((*_OF_ZONE, "--user", "cy@acme.example"), "users.update"),
    "user enable": Recipe((*_OF_ZONE, "--user", "di@acme.example"), "users.update"),
    "user reset": Recipe((*_OF_ZONE, "--user", "cy@acme.example"), "users.reset_password"),
    "restore": Recipe(("{backup}", "--replace"), "database.restore", begin=_backed_up),
    "keys rotate": Recipe(_OF_ZONE, "keys.rotate"),
    "keys rewrap": Recipe((), "keys.rewrap", begin=_with_another_key),
    "keys use": Recipe((*_OF_ZONE, "--algorithm", "ES256"), "zones.use_algorithm"),
    "zone move": Recipe((*_OF_ZONE, "--to", "https://id.acme.example"), "zones.move"),
    "zone end-move": Recipe(_OF_ZONE, "zones.end_move", begin=_moved),
    "zone set": Recipe((*_OF_ZONE, "require-dpop-nonce", "on"), "zones.set_switch"),
}

# Commands that only look -> what they are asked.
LOOKING: dict[str, tuple[str, ...]] = {
    "api-key list": _OF_ORGANIZATION,
    "audit verify": (),
    "backup": ("{backup}",),
    "doctor": (),
    "keys list": _OF_ZONE,
    "openapi": (),
    "organization list": (),
    "user list": _OF_ZONE,
    "zone addresses": _OF_ZONE,
}


def _leaves(group: click.Group, *above: str) -> Iterator[tuple[str, click.Command]]:
    for name, each in group.commands.items():
        if isinstance(each, click.Group):
            yield from _leaves(each, *above, name)
        else:
            yield " ".join((*above, name)), each


COMMANDS = dict(_leaves(main))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A set-up directory, to be copied."""
    site = Site(tmp_path_factory.mktemp("template"))
    site.ok("init")
    ((organization, zone),) = site.sql("SELECT id, zone_id FROM organizations")
    ((key,),) = site.sql("SELECT id FROM api_keys")
    site.names = {"organization": organization, "zone": zone, "key": key}
    for name in ("cy", "di"):
        email = f"{name}@acme.example"
        site.ok("user", "add", "--zone", zone, "--email", email, "--password-stdin", stdin=PASSWORD)
    site.ok("user", "disable", "--zone", zone, "--user", "di@acme.example")
    return site


@pytest.fixture
def set_up(template: Site, tmp_path: Path) -> Site:
    copied = tmp_path / "data"
    shutil.copytree(template.directory, copied)
    return Site(copied, names={**template.names, "backup": str(tmp_path / "backup.db")})


def _site(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    begin = RECIPES[name].begin
    if begin is None:
        site: Site = request.getfixturevalue("set_up")
        return site
    site = Site(tmp_path / "begun")
    site.directory.mkdir()
    begin(site)
    return site


@dataclass(frozen=True)
class Stopped:
    """What a process has said, and how it ended."""

    exit_code: int
    output: str


def _served(site: Site, name: str, settings: Mapping[str, str]) -> Stopped:
    """The command as a process that is told to stop once it serves, where it comes to that."""
    port = free_port()
    own = {"ZONED_DATA_DIR": str(site.directory), "ZONED_LISTEN": f"127.0.0.1:{port}"}
    process = subprocess.Popen(
        [Path(sys.executable).with_name("zoned"), *name.split()],
        env={**os.environ, **own, **site.settings, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        wait_until(lambda: process.poll() is not None or _answers(port), seconds=120)
        process.terminate()
        output, _ = process.communicate(timeout=120)
    return Stopped(process.returncode, output)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).is_success
    except httpx.TransportError:
        return False


def _done(site: Site, name: str) -> Result | Stopped:
    recipe = RECIPES[name]
    if recipe.serves:
        return _served(site, name, recipe.settings)
    return site.run(*name.split(), *recipe.arguments, stdin=recipe.stdin, **recipe.settings)


def test_migrate_tells_a_new_database_from_one_that_was_there(tmp_path: Path) -> None:
    """Both with the version; for a new one also what is next."""
    site = Site(tmp_path)
    made = f"the tables were created, at version `{migrations.newest()}`\n"
    assert site.ok("migrate") == f"{made}Create the first organization with `zoned init`.\n"
    assert site.ok("migrate") == f"the database is up to date, at version `{migrations.newest()}`\n"


def test_every_command_is_known() -> None:
    """It only looks, and says so, or there is a recipe here: nothing is forgotten."""
    looking = {name for name, each in COMMANDS.items() if isinstance(each, ReadOnlyCommand)}

    assert looking == LOOKING.keys()
    assert COMMANDS.keys() - looking == RECIPES.keys()


@pytest.mark.parametrize("name", RECIPES)
def test_a_command_that_changes_something_is_on_record(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The audit trail says who did it and what, and proves itself afterwards."""
    site = _site(name, request, tmp_path)
    before = len(site.events())

    done = _done(site, name)

    assert done.exit_code == RECIPES[name].exits, done.output
    after = site.events()[before:]
    assert RECIPES[name].action in {action for _, _, action in after}
    assert {(kind, who) for kind, who, _ in after} == {("operator", current_operator().name)}
    assert "  ok  " in site.ok("audit", "verify")


# `restore` records in the database that it brings back: `test_backups` tries it.
@pytest.mark.parametrize("name", [name for name in RECIPES if name != "restore"])
def test_what_cannot_be_recorded_is_not_done(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The record is part of the change: while the audit trail takes nothing, nothing at all is written."""
    site = _site(name, request, tmp_path)
    site.sql(
        "CREATE TRIGGER full BEFORE INSERT ON audit_events BEGIN SELECT RAISE(ABORT, 'no records today'); END"
    )
    before = site.content()

    done = _done(site, name)

    assert done.exit_code == 1
    assert "no records today" in done.output
    assert site.content() == before

    site.sql("DROP TRIGGER full")
    assert _done(site, name).exit_code == RECIPES[name].exits
    assert site.content() != before


@pytest.mark.parametrize("name", LOOKING)
def test_a_command_that_only_looks_changes_nothing(name: str, set_up: Site) -> None:
    """Not one row of the database is another one afterwards."""
    before = set_up.content()

    assert set_up.ok(*name.split(), *LOOKING[name])

    assert set_up.content() == before


def test_all_of_them_on_postgresql(postgres: PostgresServer, tmp_path: Path) -> None:
    """One after the other, in one organization; the chain of its records holds to the end."""
    site = Site(tmp_path, {"ZONED_DATABASE_URL": asyncio.run(postgres.empty())})
    organization, *_ = site.ok("init").partition("\napi key")[0].split()[1:]
    ((zone, *_),) = [line.rsplit("/", 1)[1].split() for line in site.ok("organization", "list").splitlines()]
    key, *_ = site.ok("api-key", "list", "--organization", organization).split()
    site.names = {"organization": organization, "zone": zone, "key": key}
    for name in ("cy", "di"):
        email = f"{name}@acme.example"
        site.ok("user", "add", "--zone", zone, "--email", email, "--password-stdin", stdin=PASSWORD)
    site.ok("user", "disable", "--zone", zone, "--user", "di@acme.example")
    assert not [
        name
        for name, recipe in RECIPES.items()
        if recipe.begin is None and _done(site, name).exit_code != recipe.exits
    ]

    verdict = site.ok("audit", "verify", "--organization", organization)

    assert "  ok  " in verdict
    assert int(verdict.split()[2]) > len(RECIPES) - 3


class TestApiKeys:
    def test_are_listed_with_their_life(self, set_up: Site) -> None:
        """Id, role, end, last use, maker and name; as JSON with nothing of the secret."""
        of = ("--organization", "{organization}")
        made = set_up.ok(
            "api-key", "create", *of, "--name", "ci", "--role", "org_viewer", "--expires-in", "2h"
        )
        key_id, secret = made.strip().removeprefix("zwk_").split("_", 1)

        first, second = set_up.ok("api-key", "list", *of).splitlines()
        assert first.startswith(set_up.names["key"])
        assert first.endswith("never expires  never used  by " + current_operator().name + "  first key")
        assert re.match(rf"{key_id}  org_viewer  expires 2\S+Z  never used  by \S+  ci$", second)
        told = json.loads(set_up.ok("api-key", "list", *of, "--json"))
        assert [one["id"] for one in told] == [set_up.names["key"], key_id]
        assert secret not in str(told)
        assert "secret_hash" not in told[0]

        set_up.sql(f"UPDATE api_keys SET expires_at = '2026-01-01T00:00:00.000000Z' WHERE id = '{key_id}'")
        assert "expired 2026-01-01T00:00:00" in set_up.ok("api-key", "list", *of)

    def test_keys_are_revoked_by_id_or_whole(self, set_up: Site) -> None:
        """By id, or by the whole key; once."""
        of = ("--organization", "{organization}")
        made = set_up.ok("api-key", "add", *of, "--name", "ci").strip()
        assert set_up.ok("api-key", "revoke", made) == "revoked\n"
        assert len(set_up.ok("api-key", "list", *of).splitlines()) == 1

        again = set_up.run("api-key", "revoke", made)
        assert (again.exit_code, "there is no ApiKey" in again.output) == (1, True)
        assert made not in again.output, "the secret of a key is not repeated"

    @pytest.mark.parametrize(
        ("duration", "seconds"), [("1m", 60), ("12h", 43_200), ("90d", 7_776_000), ("52w", 31_449_600)]
    )
    def test_end_when_it_is_said(self, set_up: Site, duration: str, seconds: int) -> None:
        """In minutes, hours, days or weeks; the first key of an organization, too."""
        set_up.ok("organization", "add", "--name", "Other", "--key-expires-in", duration)
        (key,) = json.loads(set_up.ok("api-key", "list", "--organization", "other", "--json"))
        life = datetime.fromisoformat(key["expires_at"]) - datetime.fromisoformat(key["created_at"])
        assert life.total_seconds() == seconds

    @pytest.mark.parametrize(
        "duration", ["", "0d", "90", "d", "1.5h", "-1d", "90 d", "1y", "5000d", "9" * 30 + "d"]
    )
    def test_end_at_no_other_time(self, set_up: Site, duration: str) -> None:
        """What is no duration, or is longer than a key lasts, makes none."""
        of = ("--organization", "{organization}", "--name", "ci")
        set_up.ok("api-key", "create", *of, "--expires-in", "90d")
        before = set_up.content()

        refused = set_up.run("api-key", "create", *of, "--expires-in", duration)

        assert refused.exit_code == 2
        assert f"`{duration}` is no" in refused.output
        assert set_up.content() == before

    def test_of_a_new_service_can_end(self, tmp_path: Path) -> None:
        """`init` takes the same."""
        site = Site(tmp_path)
        told = json.loads(site.ok("init", "--json", "--key-expires-in", "1w"))
        (key,) = json.loads(site.ok("api-key", "list", "--organization", told["organization_id"], "--json"))
        assert datetime.fromisoformat(key["expires_at"]) > datetime.fromisoformat(key["created_at"])


@pytest.mark.parametrize(
    ("account", "told"),
    [("ada", "ada@"), ("ada\n::error::", "ada___error__@"), ("", ""), ("a" * 300, "a" * 255)],
)
def test_who_has_called_sudo_is_told(monkeypatch: pytest.MonkeyPatch, account: str, told: str) -> None:
    """The person, and not the account that all of them use; nothing in it that a terminal would obey."""
    monkeypatch.setenv("SUDO_USER", account)

    operator = current_operator()

    assert (operator.kind, operator.name.startswith(told)) == ("operator", True)
    assert len(operator.name) <= 255


def test_zone_set_names_the_applications_that_it_suspends(set_up: Site) -> None:
    """Turned on, the setting ends what nobody active is accountable for: the command says what that is."""
    setting = ("zone", "set", *_OF_ZONE, "require-active-accountable")
    assert "suspended" not in set_up.ok(*setting, "on")
    set_up.ok(*setting, "off")
    (application,) = set_up.sql("SELECT identifier FROM applications ORDER BY id LIMIT 1")[0]
    set_up.sql(
        "UPDATE applications SET accountable_user_id = (SELECT id FROM users WHERE status = 'disabled')"
        f" WHERE identifier = '{application}'"
    )

    told = set_up.ok(*setting, "on")

    assert f"`{application}` is suspended: nobody active is accountable for it; set" in told
    assert "suspended" not in set_up.ok("zone", "set", *_OF_ZONE, "require-dpop-nonce", "on")

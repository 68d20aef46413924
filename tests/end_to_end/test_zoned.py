"""`zoned` as operators use it: set up once, looked after, and refusals in one line."""

import asyncio
import base64
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from acme import Application, Unexpected, command, written_secret
from tests.end_to_end.operated import Server
from tests.support.postgres import PostgresServer
from tests.support.waiting import let_pass, wait_until

pytestmark = pytest.mark.long

CONFIG = {
    "zonectl.yaml": "owner: acme/keys\n",
    "zone.yaml": "apiVersion: zonewright/v1\nkind: Zone\nmetadata: {name: keys}\nspec: {name: Keys}\n",
    "app.yaml": """\
apiVersion: zonewright/v1
kind: Resource
metadata: {zone: keys, name: api}
spec:
  name: API
  identifier: https://api.acme.example
  credential_provider: {external: service-sts}
---
apiVersion: zonewright/v1
kind: Application
metadata: {zone: keys, name: job}
spec: {name: Job, dependencies: [api]}
---
apiVersion: zonewright/v1
kind: ApplicationCredential
metadata: {zone: keys, name: job}
spec: {application: job, type: password}
""",
    "guests.yaml": """\
apiVersion: zonewright/v1
kind: Zone
metadata: {name: guests}
spec: {name: Guests, user_identity_provider: elsewhere}
---
apiVersion: zonewright/v1
kind: Provider
metadata: {zone: guests, name: elsewhere}
spec: {name: Elsewhere, client_id: guests, protocols: {oauth2: {issuer: "https://login.example"}}}
""",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server with one zone, an API in it, and a job that may call it."""
    directory = tmp_path_factory.mktemp("zoned")
    made = Server(directory / "data")
    made.init()
    made.start()
    (directory / "config").mkdir()
    for name, text in CONFIG.items():
        (directory / "config" / name).write_text(text)
    secrets = str(made.directory / "secrets")
    made.zonectl("apply", str(directory / "config"), "--yes", "--secrets-dir", secrets)
    yield made
    made.stop()


def change(server: Server, *arguments: str) -> str:
    """What a command prints; the server goes on, knows the zone from before, and follows within a second."""
    header(server)
    said = server.run(*arguments)
    let_pass(1.0)
    header(server)
    return said.strip()


def header(server: Server) -> dict[str, str]:
    """The header of a new access token of the job."""
    issuer = server.zone("keys")["protocols"]["oauth2"]["issuer"]
    job = Application(issuer, "job", written_secret(server.directory / "secrets", "keys", "job"))
    answer = job.token({"grant_type": "client_credentials", "resource": "https://api.acme.example"})
    assert answer.status_code == 200, answer.text
    first = answer.json()["access_token"].split(".")[0]
    read: dict[str, str] = json.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    return read


def published(server: Server) -> list[str]:
    """The kids in the zone's JWK set."""
    address = server.zone("keys")["protocols"]["oauth2"]["jwks_uri"]
    return [key["kid"] for key in httpx.get(address, trust_env=False).json()["keys"]]


@contextmanager
def busy_reading(address: str) -> Iterator[list[int]]:
    """Somebody reads that document again and again meanwhile; the status of each answer."""
    read: list[int] = []
    done = threading.Event()

    def work() -> None:
        with httpx.Client(trust_env=False) as http:
            while not done.is_set():
                read.append(http.get(address).status_code)

    reader = threading.Thread(target=work)
    reader.start()
    try:
        wait_until(lambda: read)
        yield read
    finally:
        done.set()
        reader.join()


def test_init_runs_once(server: Server):
    """A second `init` on the same data is refused, and changes nothing."""
    with pytest.raises(Unexpected, match="api-key create --organization default-organization"):
        server.run("init", "--json")


def test_init_is_for_this_user_alone(server: Server):
    """Nobody else on the machine reads the key that wraps all others."""
    assert (server.directory / "key-encryption.key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("command", ["serve", "doctor"])
@pytest.mark.parametrize("directory", [".", "not/there"])
def test_wants_an_initialised_directory(tmp_path: Path, command: str, directory: str):
    """Starting on nothing says what to run first, and makes nothing."""
    with pytest.raises(Unexpected, match=r"there is no database in .*; run `zoned init`"):
        Server(tmp_path / directory).run(command)
    assert not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path):
    """Its name, and why."""
    (tmp_path / "file").touch()
    with pytest.raises(Unexpected, match="file/data`: Not a directory"):
        Server(tmp_path / "file" / "data").run("init")


@pytest.mark.deviation("default-encryption-key")
def test_wants_the_key_that_the_database_was_set_up_with(tmp_path: Path):
    """A lost or another key is told in one line: what it sealed cannot be read without it."""
    server = Server(tmp_path)
    server.init()
    other = base64.b64encode(b"k" * 32).decode()
    with pytest.raises(Unexpected, match="not the one that this database") as refused:
        Server(tmp_path, {"ZONED_KEY_ENCRYPTION_KEY": other}).run("serve")
    assert "Traceback" not in str(refused.value)

    (tmp_path / "key-encryption.key").unlink()
    with pytest.raises(Unexpected, match="there is no key file") as refused:
        server.run("serve")
    assert "Traceback" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"ZONED_DATABASE_URL": "mysql://127.0.0.1/x"}, "ZONED_DATABASE_URL: unknown database `mysql`"),
        ({"ZONED_DATABASE_URL": "nonsense"}, "ZONED_DATABASE_URL: "),
        (
            {"ZONED_DATABASE_URL": "sqlite:////not/there/x.db"},
            "the database cannot be used.*check that its directory exists",
        ),
        ({"ZONED_DATABASE_URL": "postgresql://127.0.0.1:1/x"}, "cannot be reached.*nothing listens there"),
        ({"ZONED_DATABASE_URL": "postgresql:///x?host=/not/there"}, "cannot be reached.*no such socket"),
        (
            {"ZONED_DATABASE_URL": "postgresql://not.there.invalid/x"},
            "cannot be reached.*the host is not known",
        ),
    ],
)
def test_settings_that_do_not_work_are_one_line(server: Server, settings: dict[str, str], told: str):
    """Which setting it is, and what to do, not where the program stood."""
    with pytest.raises(Unexpected, match=told) as refused:
        Server(server.directory, settings).run("serve")
    assert len(str(refused.value).splitlines()) == 2


def test_postgresql_that_refuses_is_told_with_what_to_do(server: Server, postgres: PostgresServer):
    """A database that is not there, an account that is not let in, and a database without tables.

    In one line of the diagnosis, beneath what is well.
    """
    url, empty = postgres.url("not_there"), asyncio.run(postgres.empty())
    problems = []
    for address, told in (
        (url, "database .not_there. does not exist; create the database, then run `zoned init`"),
        (
            empty.replace("postgres@", "nobody@"),
            "role .nobody. does not exist; correct the user in ZONED_DATABASE_URL",
        ),
        (empty, "the database has no tables of this service yet; run `zoned init`"),
    ):
        with pytest.raises(Unexpected, match=f"keys and migrations  problem: .*{told}") as refused:
            Server(server.directory, {"ZONED_DATABASE_URL": address}).run("doctor")
        problems.append(str(refused.value).count("problem: "))
    assert problems == [1, 1, 1]


def test_a_database_that_a_newer_program_has_migrated(tmp_path: Path):
    """For good: `serve`, `doctor` and `migrate` name both versions, change nothing, and say what to do."""
    server = Server(tmp_path)
    server.init()
    with closing(sqlite3.connect(tmp_path / "zonewright.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()
    server.run("doctor")  # which is well: the newer program has only added to it
    with closing(sqlite3.connect(tmp_path / "zonewright.db")) as database:
        database.execute("UPDATE schema_compatibility SET oldest_version = '9999'")
        database.commit()
    messages = []
    for each in ("serve", "doctor", "migrate"):
        with pytest.raises(
            Unexpected, match=r"at version 9999, which this zoned does not know: .* is \d+;"
        ) as refused:
            server.run(each)
        messages.append(str(refused.value))
    way_out = "run the newer zoned that has migrated it, or restore a back-up from before"
    assert not [each for each in messages if way_out not in each]
    assert [len(messages[number].splitlines()) for number in (0, 2)] == [2, 2]


def test_a_port_that_cannot_be_listened_on_is_one_line(server: Server):
    """No port at all, or an address of another machine."""
    with pytest.raises(Unexpected, match="is not an address and a port"):
        Server(server.directory, port=99_999).run("serve")
    elsewhere = {**server.environment, "ZONED_LISTEN": "192.0.2.1:8080"}
    done = subprocess.run([*command("zoned"), "serve"], env=elsewhere, capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "no network interface of this machine has that address" in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_taken_port_is_told_before_anything_else(
    server: Server, tmp_path: Path, redis_url: str, workers: str
):
    """In one line, with exit code 1: without waiting for a database, whose absence is told otherwise."""
    settings = {"ZONED_WORKERS": workers, "ZONED_REDIS_URL": redis_url}
    with pytest.raises(Unexpected, match="there is no database"):
        Server(tmp_path, settings).run("serve")

    with taken_port() as port:
        done = Server(tmp_path, settings, port=port).execute(["serve"], None)

    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    said = rf"cannot listen on `127.0.0.1:{port}` \(ZONED_LISTEN\): Address already in use; .*`ss -ltnp`"
    assert re.search(said, done.stderr)


@contextmanager
def taken_port() -> Iterator[int]:
    """A port on which another process could listen."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_of_two_that_start_at_once_one_serves(
    make_server: Callable[..., Server], postgres_url: str, redis_url: str, workers: str
):
    """The other one ends with 1 and says why, instead of running without a port."""
    shared = make_server(ZONED_WORKERS=workers, ZONED_DATABASE_URL=postgres_url, ZONED_REDIS_URL=redis_url)
    said = [shared.directory / f"said-{number}" for number in (1, 2)]
    both = [serving(shared, place) for place in said]
    try:
        wait_until(lambda: any(each.poll() is not None for each in both), seconds=90)
        lost = next(place for place, each in enumerate(both) if each.poll() is not None)
        wait_until(lambda: is_ready(shared), seconds=90)

        assert (both[lost].returncode, both[1 - lost].poll()) == (1, None)
        told = said[lost].read_text()
        assert "(ZONED_LISTEN): Address already in use" in told
        assert "Traceback" not in told
    finally:
        for each in both:
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGTERM)
            each.wait(60)


def serving(server: Server, said: Path) -> "subprocess.Popen[bytes]":
    """`zoned serve` as a process of its own; what it says goes into that file."""
    with said.open("wb") as log:
        return subprocess.Popen(
            [*command("zoned"), "serve"],
            env=server.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def is_ready(server: Server) -> bool:
    try:
        return httpx.get(f"{server.url}/readyz", trust_env=False, timeout=10).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lisen: 127.0.0.1:0", "unknown setting `lisen`; did you mean `listen`?"),
        ("ZONED_LISTEN: 127.0.0.1:0", "unknown setting `ZONED_LISTEN`; did you mean `listen`?"),
        ("[listen]", "expected settings"),
        ("a: [", "cannot be read"),
    ],
)
def test_a_settings_file_is_checked(server: Server, tmp_path: Path, text: str, told: str):
    """A typo in the file must not pass silently."""
    (tmp_path / "zoned.yaml").write_text(text)
    with pytest.raises(Unexpected, match=re.escape(told)) as refused:
        server.run("--config", str(tmp_path / "zoned.yaml"), "doctor")
    assert "Traceback" not in str(refused.value)


def test_a_wrong_setting_is_named_as_it_was_written(server: Server, tmp_path: Path):
    """The variable of the environment, or the member and its file."""
    with pytest.raises(Unexpected, match=r"settings: `ZONED_WORKERS`: Input should be a valid integer"):
        Server(server.directory, {"ZONED_WORKERS": "many"}).run("doctor")
    file = tmp_path / "zoned.yaml"
    file.write_text("workers: many\n")
    with pytest.raises(Unexpected, match=rf"settings: `workers` in {file}: Input should be a valid integer"):
        server.run("--config", str(file), "doctor")


def test_two_workers_want_redis(server: Server):
    """A combination that cannot be correct is refused with what to set."""
    with pytest.raises(Unexpected, match="ZONED_REDIS_URL"):
        Server(server.directory, {"ZONED_WORKERS": "2"}).run("serve")


def test_a_new_server_is_up_to_date_and_well(server: Server):
    """A set-up server is up to date and well."""
    assert "up to date, at version" in server.run("migrate")
    assert "ok" in server.run("doctor")


def test_no_header_is_empty(server: Server):
    """Sanic would announce the HTTP/3 servers beside this one, of which there are none."""
    answer = httpx.get(f"{server.url}/healthz", trust_env=False, timeout=10)
    assert answer.status_code == 200
    assert [name for name, value in answer.headers.items() if not value] == []


def test_openapi_is_the_documented_contract(server: Server):
    """What the command prints is what is checked in."""
    checked_in = Path(__file__).resolve().parents[2] / "schemas" / "openapi.json"
    assert json.loads(server.run("openapi")) == json.loads(checked_in.read_text("utf-8"))


def test_an_altered_audit_trail_shows(make_server: Callable[..., Server]):
    """`audit verify` proves every record; it ends with 1 and the place when one was altered."""
    server = make_server()
    assert "  ok  " in server.run("audit", "verify")
    assert "  ok  " in server.run("audit", "verify", "--organization", server.organization_id)
    with closing(sqlite3.connect(server.directory / "zonewright.db")) as database, database:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute("UPDATE audit_events SET actor_id = 'nobody' WHERE sequence = 2")
        database.execute("DROP TRIGGER audit_events_no_update")
        database.execute("UPDATE audit_events SET actor_id = 'nobody' WHERE sequence = 2")
    with pytest.raises(Unexpected, match="broken  at 2: the record does not match its hash"):
        server.run("audit", "verify")


def test_an_added_key_works(server: Server):
    """`api-key add` prints a key that calls the management API."""
    organization = server.organization_id
    key = server.run("api-key", "add", "--organization", organization, "--name", "ci", "--role", "org_viewer")
    headers = {"Authorization": f"Bearer {key.strip()}"}
    assert httpx.get(f"{server.url}/zones", headers=headers, trust_env=False).status_code == 200
    made = httpx.post(f"{server.url}/zones", headers=headers, json={"name": "No"}, trust_env=False)
    assert made.status_code == 403


def test_an_unknown_zone_is_one_line(server: Server):
    """A refusal is told in one line, not as a traceback."""
    with pytest.raises(Unexpected, match="no zone has the id or slug `nowhere`") as refused:
        server.run("keys", "rotate", "--zone", "nowhere")
    assert "Traceback" not in str(refused.value)


@pytest.mark.parametrize(("zone", "warned"), [("keys", False), ("guests", True)])
def test_a_password_that_nobody_is_asked_for_is_told(server: Server, zone: str, warned: bool):
    """A user is made all the same: policies and groups may name who has not signed in yet."""
    arguments = ("user", "add", "--zone", zone, "--email", "ada@acme.example", "--password-stdin")
    said = subprocess.run(
        [*command("zoned"), *arguments],
        env=server.environment,
        input="a long enough password",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert re.fullmatch(r"[0-9a-z]{26}\n", said.stdout)
    assert ("this password is not used" in said.stderr) is warned


def test_a_zone_setting_is_set_by_its_name(server: Server):
    """`zoned zone set` prints the new value."""
    said = server.run("zone", "set", "--zone", "keys", "strict-assertion-audience", "on")
    assert "`strict-assertion-audience` of `keys` is `on`" in said


def test_a_wrong_value_of_a_zone_setting_is_refused_with_the_allowed_ones(server: Server):
    """A boolean zone setting is `on` or `off`."""
    with pytest.raises(Unexpected, match="cannot be `sometimes`; allowed: `on` or `off`"):
        server.run("zone", "set", "--zone", "keys", "strict-assertion-audience", "sometimes")


def test_the_algorithm_of_access_tokens_is_chosen(server: Server):
    """A zone has a key for each algorithm from the start, and signs with the one it is told to."""
    before = header(server)["alg"]
    change(server, "keys", "use", "--zone", "keys", "--algorithm", "ES256")
    assert (before, header(server)["alg"]) == ("RS256", "ES256")
    change(server, "keys", "use", "--zone", "keys", "--algorithm", "RS256")


def test_a_rotated_key_is_published_before_it_signs(server: Server):
    """Verifiers see the next key first; tokens are signed with the present one meanwhile."""
    before = header(server)["kid"]
    kid = change(server, "keys", "rotate", "--zone", "keys")
    assert kid in published(server)
    assert header(server)["kid"] == before


def test_a_rotated_key_is_in_the_cached_key_set_within_a_second(server: Server):
    """However often the JWK set was read just before: a server without Redis follows the database."""
    zone = server.zone("keys")["protocols"]["oauth2"]
    with busy_reading(zone["jwks_uri"]) as read:
        kid = server.run("keys", "rotate", "--zone", "keys").strip()
        before = len(read)
        let_pass(1.0)

    assert before, "the set was cached when the command ran"
    kids = [key["kid"] for key in httpx.get(zone["jwks_uri"], trust_env=False).json()["keys"]]
    assert kid in kids


def test_an_api_key_that_a_command_revokes_is_refused_within_a_second(server: Server):
    """Without Redis, too, and however often it was used just before."""
    making = ("api-key", "create", "--organization", str(server.organization_id), "--name", "short")
    key = server.run(*making).strip().splitlines()[-1]
    asked = {"headers": {"Authorization": f"Bearer {key}"}, "trust_env": False}
    assert httpx.get(f"{server.url}/zones", **asked).status_code == 200

    server.run("api-key", "revoke", key)
    let_pass(1.0)

    assert httpx.get(f"{server.url}/zones", **asked).status_code == 401


def test_a_key_that_is_known_to_others_is_replaced_at_once(server: Server):
    """`--at-once` signs with the new key immediately, and the old one is gone from the set."""
    before = header(server)["kid"]
    kid = change(server, "keys", "rotate", "--zone", "keys", "--at-once")
    assert header(server)["kid"] == kid
    assert before not in published(server)


def test_a_restart_changes_nothing(make_server: Callable[..., Server]):
    """What was there before a stop is there after a start: keys, organization and API key."""
    server = make_server()
    for _ in range(2):
        server.start()
        with server.management() as client:
            assert client.get("/organizations").json()["items"][0]["id"] == server.organization_id
        server.stop()


def test_token_requests_are_counted(server: Server):
    """`/metrics` counts by grant type and outcome, and names no zone and no client."""

    def counted(outcome: str) -> float:
        text = httpx.get(f"{server.url}/metrics", trust_env=False).text
        labels = f'grant="client_credentials",outcome="{outcome}"'
        name = f"zoned_token_requests_total{{{labels}}}"
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    before = counted("issued"), counted("refused")
    header(server)
    issuer = server.zone("keys")["protocols"]["oauth2"]["issuer"]
    assert Application(issuer, "job", "wrong").token({"grant_type": "client_credentials"}).status_code == 401

    assert (counted("issued"), counted("refused")) == (before[0] + 1, before[1] + 1)


def modes(directory: Path) -> dict[str, int]:
    """Path below a directory, itself included -> its permission bits."""
    return {
        str(path.relative_to(directory)): path.stat().st_mode & 0o777
        for path in (directory, *directory.rglob("*"))
    }


class TestOtherAccountsOfTheMachine:
    """What the service writes is nobody else's to read."""

    def test_nothing_is_open_under_any_umask(self, make_server: Callable[..., Server]):
        """Set-up, a key, a mail, a migration and a running server, with a umask that takes nothing away."""
        before = os.umask(0)
        try:
            server = make_server()
            server.start()
            with server.management() as client:
                people = f"/organizations/{server.organization_id}/invitations"
                sent = client.post(people, json={"email": "ada@acme.example", "role": "org_viewer"})
                assert sent.status_code == 201
            wait_until(lambda: list(server.directory.glob("mail/*.eml")))
            server.run("migrate")
        finally:
            os.umask(before)
        found = {name: mode for name, mode in modes(server.directory).items() if name != "zoned.log"}

        assert {"zonewright.db", "zonewright.db-wal", "key-encryption.key", "mail"} < found.keys()
        assert {name for name, mode in found.items() if mode & 0o077} == set()

    def test_a_directory_that_was_there_open_is_closed(self, tmp_path: Path):
        """`init` into a directory with mode 0755; what an older version left open is closed at a start."""
        tmp_path.chmod(0o755)
        server = Server(tmp_path)
        server.init()
        assert {name for name, mode in modes(tmp_path).items() if mode & 0o077} == set()
        assert "ok" in server.run("doctor")

        (tmp_path / "mail").mkdir()
        (tmp_path / "mail" / "old.eml").touch()
        for path, mode in ((".", 0o755), ("zonewright.db", 0o644), ("mail", 0o755), ("mail/old.eml", 0o644)):
            (tmp_path / path).chmod(mode)
        with pytest.raises(Unexpected) as told:
            server.run("doctor")
        assert not [
            (path, mend)
            for path, mend in ((".", 700), ("zonewright.db", 600), ("mail", 700), ("mail/old.eml", 600))
            if f"`chmod {mend} {tmp_path / path}`" not in str(told.value)
        ]
        assert modes(tmp_path)["zonewright.db"] == 0o644, "doctor only looks"

        server.start()
        server.stop()
        assert {name for name, mode in modes(tmp_path).items() if mode & 0o077} <= {"zoned.log"}
        assert "ok" in server.run("doctor")

    def test_a_key_that_others_could_read_is_refused(self, tmp_path: Path):
        """It is not closed in silence: whoever has read it can go on using it."""
        server = Server(tmp_path)
        server.init()
        assert "ok" in server.run("doctor")
        (tmp_path / "key-encryption.key").chmod(0o644)

        messages = []
        for command_ in (("serve",), ("keys", "list", "--zone", "x"), ("doctor",)):
            with pytest.raises(Unexpected, match=r"key-encryption.key` is open to other.*mode 644") as told:
                server.run(*command_)
            messages.append(str(told.value))
        assert not [each for each in messages if "chmod 600" not in each]
        assert modes(tmp_path)["key-encryption.key"] == 0o644

    def test_so_is_a_settings_file_with_a_key(self, tmp_path: Path):
        """It is a key file by another name; without a key in it anybody may read it."""
        server = Server(tmp_path / "data")
        server.init()
        key = (server.directory / "key-encryption.key").read_text().strip()
        config = tmp_path / "zoned.yaml"
        config.write_text(f"key_encryption_key: {key}\n")
        config.chmod(0o600)
        assert "ok" in server.run("--config", str(config), "doctor")
        config.chmod(0o644)
        with pytest.raises(Unexpected, match=r"zoned.yaml` has the key-encryption key .*mode 644"):
            server.run("--config", str(config), "doctor")
        config.write_text("log_level: info\n")
        assert "ok" in server.run("--config", str(config), "doctor")

    @pytest.mark.parametrize(
        "setting",
        [
            "mail_smtp_password: correct-horse",
            "database_url: postgresql+asyncpg://zonewright:correct-horse@127.0.0.1:1/zonewright",
            "redis_url: redis://:correct-horse@127.0.0.1:1",
        ],
    )
    def test_so_is_told_a_settings_file_with_a_password(self, tmp_path: Path, setting: str):
        """Of the mail server, the database or Redis; what it says besides anybody may read."""
        server = Server(tmp_path / "data")
        server.init()
        config = tmp_path / "zoned.yaml"
        config.write_text(f"{setting}\n")
        told = f"`{config}` is open to other accounts of this machine (mode 644); `chmod 600 {config}`"
        config.chmod(0o640)
        assert told not in _doctor(server, config)
        config.chmod(0o644)
        found = _doctor(server, config)
        assert told in found
        assert "correct-horse" not in found
        assert config.stat().st_mode & 0o777 == 0o644, "doctor only looks"
        config.write_text("mail_smtp_host: mail.acme.example\n")
        assert told not in _doctor(server, config)


def _doctor(server: Server, config: Path) -> str:
    """What the command says, whether it finds something or not."""
    try:
        return str(server.run("--config", str(config), "doctor"))
    except Unexpected as told:
        return str(told)

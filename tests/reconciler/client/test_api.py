"""The API client against a real HTTP server: retries, caches, and requests that it refuses to send."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tests.reconciler.factories import plan_for, zone
from tests.reconciler.fake_server import API_KEY, ORGANIZATION, FakeServer, World

from reconciler.client import Api, Conflicting, Connection, NotReached, Rejected
from reconciler.client.api import read_snapshot
from reconciler.client.connection import (
    ConfiguredServer,
    ConnectionIncomplete,
    ServerRefused,
    find_connection,
)
from reconciler.client.known_servers import KnownServers
from reconciler.client.snapshots import SnapshotCache
from reconciler.client.transport import (
    ReadOnlyTransport,
    SecretsTransport,
    WriteRefused,
    WritingTransport,
    retry_after,
)
from reconciler.files import Root
from reconciler.kinds import Undescribable
from reconciler.plan import Plan, Unmanaged
from reconciler.plan.drift import detect_drift
from reconciler.report.drift import drift_lines


@pytest.fixture
def connection(server: FakeServer) -> Connection:
    """An API key's connection."""
    return Connection(server.url, api_key=API_KEY)


@pytest.fixture
def api(connection: Connection) -> Iterator[Api]:
    """An API that may write."""
    with Api.open(connection, writes=True) as opened:
        yield opened


def body(plan: Plan) -> dict[str, object]:
    """A changeset's body."""
    from reconciler.apply.changeset_body import changeset_body

    return changeset_body(plan, [dict(each) for each in plan.operations])


class TestTransports:
    @pytest.mark.parametrize(
        ("method", "url", "reading", "writing"),
        [
            ("GET", "/organizations", True, True),
            ("GET", "/organizations/o/snapshot", True, True),
            ("POST", "/organizations/o/changesets?dry_run=true", True, True),
            ("POST", "/service-account-token", True, True),
            ("POST", "/organizations/o/changesets", False, True),
            ("POST", "/organizations/o/changesets?dry_run=false", False, False),
            ("POST", "/organizations/o/changesets?dry_run=true&dry_run=false", False, False),
            ("POST", "/organizations/o/changesets/x?dry_run=true", False, False),
            ("POST", "/zones", False, False),
            ("PATCH", "/zones/z", False, False),
            ("PUT", "/zones/z", False, False),
            ("DELETE", "/zones/z", False, False),
            ("HEAD", "/zones/z", False, False),
            ("GET", "/zones/z/secrets", True, True),
            ("GET", "/zones/z/secrets/s", False, False),
            ("POST", "/zones/z/secrets", False, False),
        ],
    )
    @pytest.mark.parametrize("made", [ReadOnlyTransport, WritingTransport])
    def test_a_transport_sends_the_requests_that_it_admits(
        self, made: type[ReadOnlyTransport], method: str, url: str, reading: bool, writing: bool
    ) -> None:
        """A plan's transport cannot send a write, whatever the code above it does."""
        transport = made(httpx.MockTransport(lambda _: httpx.Response(200)))
        request = httpx.Request(method, f"https://id.example{url}")

        if writing if made is WritingTransport else reading:
            assert transport.handle_request(request).status_code == 200
        else:
            with pytest.raises(WriteRefused):
                transport.handle_request(request)

    @pytest.mark.parametrize(
        ("method", "url", "admitted"),
        [
            ("GET", "/zones/z/secrets", True),
            ("POST", "/zones/z/secrets", True),
            ("PATCH", "/zones/z/secrets/s", True),
            ("DELETE", "/zones/z/secrets/s", True),
            ("GET", "/zones/z/secrets/s", False),
            ("DELETE", "/zones/z/secrets", False),
            ("PATCH", "/zones/z/resources/r", False),
            ("POST", "/organizations/o/changesets", False),
        ],
    )
    def test_secrets_are_changed_by_a_transport_of_their_own(
        self, method: str, url: str, admitted: bool
    ) -> None:
        """It applies nothing, and reads no value."""
        transport = SecretsTransport(httpx.MockTransport(lambda _: httpx.Response(200)))
        request = httpx.Request(method, f"https://id.example{url}")
        assert transport.allows(request) is admitted

    def test_a_plan_cannot_apply(self, connection: Connection, server: FakeServer, world: World) -> None:
        """Even when it is asked to."""
        plan = plan_for(world, [zone()])
        with Api.open(connection, writes=False) as api, pytest.raises(WriteRefused):
            api.apply(body(plan), plan.idempotency_key)

        assert world.revision == 1
        assert not server.bodies


class TestRetries:
    def test_waits_as_long_as_it_is_told(self, api: Api, server: FakeServer) -> None:
        """429 and 5xx are asked again, after `Retry-After`."""
        server.failures = [(429, {"Retry-After": "0"}), (503, {"Retry-After": "0"})]

        assert api.snapshot("acme/identity").revision == 1

    def test_does_not_insist(self, api: Api, server: FakeServer) -> None:
        """`x-should-retry: false` ends it."""
        server.failures = [(503, {"x-should-retry": "false"})]

        with pytest.raises(Rejected) as caught:
            api.snapshot("acme/identity")
        assert caught.value.status == 503

    def test_a_lost_answer_is_safe(self, api: Api, server: FakeServer, world: World) -> None:
        """The same changeset sent again is answered with the first result, and nothing happens twice."""
        plan = plan_for(world, [zone()])
        server.drop_answers = 1
        outcome = api.apply(body(plan), plan.idempotency_key, lambda *_: None)

        assert (outcome.replayed, outcome.body["revision"], world.revision) == (True, 2, 2)

    @pytest.mark.parametrize(
        ("value", "seconds"),
        [(None, None), ("3", 3.0), ("100000", 60.0), ("soon", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
    )
    def test_reads_retry_after(self, value: str | None, seconds: float | None) -> None:
        """Seconds or a date, within reason."""
        assert retry_after(value) == seconds

    def test_says_when_nobody_is_there(self) -> None:
        """The address is in the message."""
        transport = httpx.MockTransport(lambda _: httpx.Response(404, text="<html>"))
        with (
            Api.open(Connection("https://id.example", api_key="x"), writes=False, inner=transport) as api,
            pytest.raises(NotReached, match=r"no management API at https://id\.example"),
        ):
            api.snapshot("acme/identity")


class TestSnapshots:
    def test_finds_its_organization(self, api: Api) -> None:
        """A caller belongs to one organization."""
        assert api.snapshot("acme/identity").organization_id == ORGANIZATION

    def test_is_not_sent_twice(
        self, connection: Connection, server: FakeServer, tmp_path: Path, world: World
    ) -> None:
        """An unchanged organization answers 304; a changed one is sent again."""
        world.add("Zone", {"name": "Acme"})
        seen = []
        for _ in range(2):
            with Api.open(connection, writes=False, cache=SnapshotCache(tmp_path)) as api:
                seen.append(api.snapshot("acme/identity"))
        world.revision += 1
        with Api.open(connection, writes=False, cache=SnapshotCache(tmp_path)) as api:
            assert api.snapshot("acme/identity").revision == 2

        assert seen[0] == seen[1]
        (file,) = tmp_path.rglob("*.ndjson")
        assert file.stat().st_mode & 0o077 == 0
        assert API_KEY not in str(file)

    def test_of_another_caller_is_not_shown(
        self, connection: Connection, tmp_path: Path, world: World
    ) -> None:
        """Who may see less must not get what somebody else saw."""
        cache = SnapshotCache(tmp_path)
        with Api.open(connection, writes=False, cache=cache) as api:
            api.snapshot("acme/identity")

        path = f"/organizations/{ORGANIZATION}/snapshot?owner=acme%2Fidentity"
        assert cache.find(connection, path) is not None
        assert cache.find(Connection(connection.server, api_key="zwk_other"), path) is None

    def test_is_kept_for_each_question(self, connection: Connection, tmp_path: Path, world: World) -> None:
        """What one configuration has asked for is no answer for another, though nothing has changed."""
        record = {"owner": "acme/other", "name": "shared", "fields": []}
        world.add("Zone", {"name": "Acme"}, ownership=record)
        with Api.open(connection, writes=False, cache=SnapshotCache(tmp_path)) as api:
            whole = len(api.snapshot("acme/other").entities)
            questions: list[tuple[str, ...]] = [(), ("shared",), ()]
            assert [len(api.snapshot("a", zones).entities) for zones in questions] == [1, whole, 1]
        assert whole > 1

    @pytest.mark.parametrize("cut", [1, 2])
    def test_that_was_cut_off_is_refused(self, world: World, cut: int) -> None:
        """Half a snapshot would look like deletions."""
        world.add("Zone", {"name": "Acme"})
        lines = world.snapshot_body().splitlines()

        with pytest.raises(NotReached):
            read_snapshot(b"\n".join(lines[:-cut]))
        with pytest.raises(NotReached):
            read_snapshot(b"\n".join(lines[:1] + lines[2:]))
        with pytest.raises(NotReached):
            read_snapshot(b"<html>")

    def test_tells_what_no_manifest_describes(self, world: World) -> None:
        """In its last line, where an older server has nothing of it."""
        assert read_snapshot(world.snapshot_body()).undescribable == ()
        *lines, end = world.snapshot_body().splitlines()
        secret = {"kind": "Secret", "id": "s", "zone_id": "z", "zone": "acme", "name": "upstream", "of": "a"}
        last = {**json.loads(end), "undescribable": [secret], "undescribable_truncated": ["Secret"]}
        found = read_snapshot(b"\n".join([*lines, json.dumps(last).encode()]))
        assert found.undescribable == (Undescribable("Secret", "s", "z", "upstream", "a"),)
        assert found.undescribable_truncated == ("Secret",)

    def test_a_count_that_is_too_low_says_so(self, world: World) -> None:
        """In text and in the document, where the server has more than it tells."""
        plan = plan_for(world, [zone()])
        secret = Unmanaged("Secret", "acme", "upstream", "s", describable=False)
        more = "and more of Secret than the server lists"
        whole = detect_drift(replace(plan, unmanaged=(secret,)))
        assert more not in "".join(map(str, drift_lines(whole)))
        assert "unmanaged_truncated" not in whole.as_json(unmanaged=False)
        cut = detect_drift(replace(plan, unmanaged=(secret,), unmanaged_truncated=("Secret",)))
        assert more in "".join(map(str, drift_lines(cut)))
        assert "there is more of Secret than" in "".join(map(str, drift_lines(cut, unmanaged=True)))
        assert cut.as_json(unmanaged=False)["unmanaged_truncated"] == ["Secret"]


class TestChangesets:
    def test_reports_progress(self, api: Api, world: World) -> None:
        """As the lines come."""
        plan = plan_for(world, [zone()])
        seen: list[tuple[int, int]] = []
        outcome = api.apply(body(plan), plan.idempotency_key, lambda done, total: seen.append((done, total)))

        assert seen == [(1, 1)]
        assert outcome.body["operations"][0]["kind"] == "Zone"

    def test_a_dry_run_changes_nothing(self, api: Api, world: World) -> None:
        """And needs no key."""
        api.dry_run(body(plan_for(world, [zone()])))

        assert not world.entities

    def test_tells_a_stale_base_apart(self, api: Api, server: FakeServer) -> None:
        """412 has its own error."""
        server.failures = [(412, {})]

        with pytest.raises(Conflicting):
            api.dry_run({"operations": []})

    def test_signs_in_with_a_service_account(self, server: FakeServer) -> None:
        """Client credentials become a token once."""
        with Api.open(Connection(server.url, client_id="a", client_secret="b"), writes=False) as api:
            api.snapshot("acme/identity")

        assert [path for _, path in server.requests].count("/service-account-token") == 1


@pytest.fixture
def known(tmp_path: Path) -> KnownServers:
    """A record with nothing in it."""
    return KnownServers(tmp_path / "state", Root(tmp_path / "repository"))


class TestConnections:
    def test_options_come_before_the_environment(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: KnownServers
    ) -> None:
        """A key in a file comes before one in the environment."""
        monkeypatch.setenv("ZONECTL_SERVER", "https://env.example")
        monkeypatch.setenv("ZONECTL_API_KEY", "from env")
        (tmp_path / "key").write_text("from file\n")
        found = find_connection(
            server="https://option.example/", known=known, api_key_file=str(tmp_path / "key")
        )

        assert (found.server, found.api_key) == ("https://option.example", "from file")

    def test_never_shows_its_secrets(self) -> None:
        """Neither in a log nor in a traceback."""
        assert "s3cret" not in repr(Connection("https://x", api_key="s3cret", client_secret="s3cret"))

    def test_says_what_is_missing(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: KnownServers
    ) -> None:
        """Credential, the key's file, or server."""
        (tmp_path / "empty").write_text("\n")
        with pytest.raises(ConnectionIncomplete, match="no credential"):
            find_connection(server="https://id.example", known=known)
        with pytest.raises(ConnectionIncomplete, match="cannot be read"):
            find_connection(server="https://id.example", known=known, api_key_file=str(tmp_path / "no"))
        with pytest.raises(ConnectionIncomplete, match="it is empty"):
            find_connection(server="https://id.example", known=known, api_key_file=str(tmp_path / "empty"))
        monkeypatch.setenv("ZONECTL_API_KEY", "a key")
        with pytest.raises(ConnectionIncomplete, match="no server"):
            find_connection(server=None, known=known)

    @pytest.mark.parametrize(
        ("server", "message"),
        [
            ("id.example", "not an http"),
            ("ftp://id.example", "not an http"),
            ("https://", "not an http"),
            ("https://good.example@evil.example", "leave out what is before `@`"),
            ("https://id.example/?a=b", "after `\\?` or `#`"),
            ("https://id.example:port", "[Pp]ort"),
        ],
    )
    def test_refuses_what_is_no_base_url(
        self, monkeypatch: pytest.MonkeyPatch, known: KnownServers, server: str, message: str
    ) -> None:
        """Nothing is guessed about where a credential goes."""
        monkeypatch.setenv("ZONECTL_API_KEY", "a key")
        assert find_connection(server="https://id.example", known=known).server == "https://id.example"
        with pytest.raises(ConnectionIncomplete, match=message):
            find_connection(server=server, known=known)

    def test_asks_about_a_variable_that_looks_misspelt(
        self, monkeypatch: pytest.MonkeyPatch, known: KnownServers
    ) -> None:
        """Only where something is missing, and never its value."""
        monkeypatch.setenv("ZONECTL_API_KYE", "s3cret")
        with pytest.raises(ConnectionIncomplete, match="`ZONECTL_API_KYE` is set: is it meant to be") as told:
            find_connection(server="https://id.example", known=known)
        assert "s3cret" not in str(told.value)

        monkeypatch.setenv("ZONECTL_API_KEY", "right")
        assert find_connection(server="https://id.example", known=known).api_key == "right"


class TestKnownServers:
    """Which server a credential was used with is remembered for this user, and settles where it goes."""

    CLAIM = ConfiguredServer("https://ID.example:443/", "`zonectl.yaml`")

    @pytest.fixture(autouse=True)
    def _key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ZONECTL_API_KEY", "zwk_key")

    def test_the_remembered_server_needs_not_be_named(self, known: KnownServers) -> None:
        """First use names it; from then on the record does, and a repository may agree in any spelling."""
        with pytest.raises(ConnectionIncomplete, match="a repository cannot choose it"):
            find_connection(server=None, known=known, claim=self.CLAIM)
        known.remember("zwk_key", "https://id.example")

        assert find_connection(server=None, known=known, claim=self.CLAIM).server == "https://id.example"
        assert find_connection(server=None, known=known).server == "https://id.example"

    def test_another_credential_is_not_known(
        self, monkeypatch: pytest.MonkeyPatch, known: KnownServers
    ) -> None:
        """The record is about one credential; a service account is known by its id."""
        known.remember("zwk_key", "https://id.example")
        known.remember("account", "https://other.example")
        monkeypatch.setenv("ZONECTL_API_KEY", "zwk_other")
        with pytest.raises(ConnectionIncomplete, match="no server"):
            find_connection(server=None, known=known)

        monkeypatch.delenv("ZONECTL_API_KEY")
        monkeypatch.setenv("ZONECTL_CLIENT_ID", "account")
        monkeypatch.setenv("ZONECTL_CLIENT_SECRET", "s3cret")
        assert find_connection(server=None, known=known).server == "https://other.example"

    def test_the_environment_may_not_name_another(
        self, monkeypatch: pytest.MonkeyPatch, known: KnownServers
    ) -> None:
        """Only the command line sends a known credential elsewhere."""
        known.remember("zwk_key", "https://id.example")
        monkeypatch.setenv("ZONECTL_SERVER", "https://id.example")
        assert find_connection(server=None, known=known).server == "https://id.example"

        monkeypatch.setenv("ZONECTL_SERVER", "https://other.example")
        with pytest.raises(ServerRefused, match=re.escape("--server https://other.example")):
            find_connection(server=None, known=known)
        found = find_connection(server="https://other.example", known=known)
        assert found.server == "https://other.example"

    @pytest.mark.parametrize(
        "claimed", ["https://evil.example", "http://id.example", "https://id.example:444", "nonsense"]
    )
    def test_a_repository_may_only_agree(
        self, monkeypatch: pytest.MonkeyPatch, known: KnownServers, claimed: str
    ) -> None:
        """With the environment, and with the record; the command line overrules it."""
        claim = ConfiguredServer(claimed, "`zonectl.yaml`")
        monkeypatch.setenv("ZONECTL_SERVER", "https://id.example/")
        assert find_connection(server=None, known=known, claim=self.CLAIM).server == "https://id.example"
        with pytest.raises(ServerRefused, match=re.escape("ZONECTL_SERVER is `https://id.example`")):
            find_connection(server=None, known=known, claim=claim)

        known.remember("zwk_key", "https://id.example")
        monkeypatch.delenv("ZONECTL_SERVER")
        with pytest.raises(ServerRefused, match=re.escape("this API key was used with `https://id.example`")):
            find_connection(server=None, known=known, claim=claim)
        named = find_connection(server="https://id.example", known=known, claim=claim)
        assert named.server == "https://id.example"

    def test_the_record_is_this_users_alone(self, known: KnownServers, tmp_path: Path) -> None:
        """Mode 0600, no secret in it; one that others could have written is not believed."""
        known.remember("zwk_key", "https://id.example")
        (file,) = (tmp_path / "state").rglob("*.json")

        assert file.stat().st_mode & 0o777 == 0o600
        assert "zwk_key" not in file.read_text() + file.name

        file.chmod(0o666)
        with pytest.raises(ServerRefused, match="other users can write to it"):
            find_connection(server=None, known=known)
        file.chmod(0o600)
        file.write_text("{")
        with pytest.raises(ServerRefused, match="is damaged"):
            find_connection(server=None, known=known)
        known.remember("zwk_key", "https://new.example")
        assert find_connection(server=None, known=known).server == "https://new.example"

    def test_a_record_in_the_repository_is_none(self, tmp_path: Path) -> None:
        """Whoever changes the repository could have put it there."""
        inside = KnownServers(tmp_path / "state", Root(tmp_path))
        KnownServers(tmp_path / "state", Root(tmp_path / "other")).remember("zwk_key", "https://evil.example")

        with pytest.raises(ConnectionIncomplete, match="no server"):
            find_connection(server=None, known=inside)

    @pytest.mark.parametrize(
        ("key", "accepted"), [("zwk_wrong", False), (API_KEY, True)], ids=["wrong key", "right key"]
    )
    def test_only_a_server_that_accepted_the_credential_is_remembered(
        self, server: FakeServer, known: KnownServers, key: str, accepted: bool
    ) -> None:
        """A mistyped key leaves no record."""

        def remember() -> None:
            known.remember(key, server.url)

        connection = Connection(server.url, api_key=key)
        with Api.open(connection, writes=False, accepted=remember) as api, suppress(Rejected):
            api.snapshot("acme/identity")
        assert known.find(key) == (server.url if accepted else None)

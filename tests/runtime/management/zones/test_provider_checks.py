"""The checks of a provider's connection: over real HTTP, at providers that answer and at some that do not."""

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from oidc_provider_mock import run_server_in_thread
from tests.runtime.management.conftest import Api, Zone
from tests.support.certificates import self_signed

from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.outbound import Outbound
from runtime.contract.answers import ValidationResult
from runtime.services.container import Services
from runtime.services.management.zones import provider_checks

NAMES = [
    "issuer_reachability",
    "metadata_retrieval",
    "endpoint_consistency",
    "authorization_endpoint_reachability",
    "credential_exchange",
]
SECRET = "s3cret-of-the-zone"
METADATA = "/.well-known/openid-configuration"


@dataclass
class Told:
    """What a scripted provider answers, by path: status and JSON; and what it was asked."""

    issuer: str = ""
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def publish(self, **members: Any) -> None:
        """Publish metadata that is in order, but for these members."""
        self.answers[METADATA] = (
            200,
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "grant_types_supported": ["authorization_code", "client_credentials"],
            }
            | members,
        )


@contextmanager
def scripted() -> Iterator[Told]:
    """Run a provider that answers what it is told, and hands tokens to the client with the secret."""
    told = Told()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.asked.append(self.path)
            self.answer(*told.answers.get(self.path, (404, {})))

        def do_POST(self) -> None:
            told.asked.append(self.path)
            self.rfile.read(int(self.headers["content-length"]))
            pair = base64.b64encode(f"zone:{SECRET}".encode()).decode()
            right = self.headers["authorization"] == f"Basic {pair}"
            refusal = 401, {"error": "invalid_client", "error_description": f"{SECRET} is wrong"}
            answer = (200, {"access_token": "t", "token_type": "Bearer"}) if right else refusal
            self.answer(*told.answers.get(self.path, answer))

        def answer(self, status: int, body: Any) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    told.answers["/authorize"] = 400, {}
    told.publish()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def told() -> Iterator[Told]:
    with scripted() as provider:
        yield provider


def checked(zone: Zone, issuer: str, **members: Any) -> tuple[str, list[str], dict[str, Any]]:
    """The verdict on a new provider, its checks' statuses in order, and the details by check."""
    body = {"client_id": "zone", "client_secret": SECRET, "identifier": issuer} | members
    body = {name: value for name, value in body.items() if value is not None}
    made = zone.make("providers", **body)
    try:
        result = zone.api.ok("POST", zone.path(f"/providers/{made['id']}/validate"), status=200)
    finally:
        zone.api.ok("DELETE", zone.path(f"/providers/{made['id']}"))
    assert result.keys() == {"checks", "provider_id", "status", "validated_at"}
    assert result["provider_id"] == made["id"]
    assert [each["check"] for each in result["checks"]] == NAMES
    assert not [each for each in result["checks"] if ("detail" in each) == (each["status"] == "pass")]
    assert SECRET not in json.dumps(result)
    return (
        result["status"],
        [each["status"] for each in result["checks"]],
        {each["check"]: each.get("detail") for each in result["checks"]},
    )


class TestAnotherMake:
    """A provider that is not of our making."""

    def test_a_login_provider_passes(self, zone: Zone) -> None:
        """It signs users in and gives clients no tokens of their own: that is no failure."""
        with run_server_in_thread() as server:
            status, statuses, details = checked(zone, f"http://127.0.0.1:{server.server_port}")
        assert status == "pass"
        assert statuses == ["pass", "pass", "pass", "pass", "not_applicable"]
        assert "client_credentials" in details["credential_exchange"]

    def test_another_issuer_fails(self, zone: Zone) -> None:
        """The same provider by another name of its host, which is not byte for byte what it publishes."""
        with run_server_in_thread() as server:
            issuer = f"http://127.0.0.1:{server.server_port}"
            assert checked(zone, issuer)[0] == "pass"
            status, statuses, details = checked(zone, f"{issuer}/")
        assert status == "fail"
        assert statuses == ["pass", "pass", "fail", "skipped_with_reason", "skipped_with_reason"]
        assert "issuer" in details["endpoint_consistency"]


class TestCredentials:
    """Client id and secret, where the provider takes them."""

    def test_right_ones_pass(self, zone: Zone, told: Told) -> None:
        """All five checks pass, each address asked once."""
        assert checked(zone, told.issuer)[:2] == ("pass", ["pass"] * 5)
        assert told.asked == [METADATA, "/authorize", "/token"]

    def test_wrong_ones_fail(self, zone: Zone, told: Told) -> None:
        """In the provider's error code, and none of its words."""
        status, statuses, details = checked(zone, told.issuer, client_secret="another")
        assert (status, statuses[-1]) == ("fail", "fail")
        assert details["credential_exchange"] == "the token endpoint answers `invalid_client`"

    def test_what_the_provider_writes_is_not_repeated(self, zone: Zone, told: Told) -> None:
        """An error code that is none could hold anything, the secret too."""
        assert checked(zone, told.issuer)[0] == "pass"
        told.answers["/token"] = 400, {"error": SECRET}
        assert checked(zone, told.issuer)[2]["credential_exchange"] == "the token endpoint answers an error"

    def test_a_token_endpoint_that_fails_is_said(self, zone: Zone, told: Told) -> None:
        """With its status, however often it has failed before."""
        told.answers["/token"] = 503, {}
        provider = zone.make("providers", identifier=told.issuer, client_id="zone", client_secret=SECRET)
        path = zone.path(f"/providers/{provider['id']}/validate")
        details = {zone.api.ok("POST", path)["checks"][-1]["detail"] for _ in range(7)}
        assert details == {"the token endpoint answered 503"}

    def test_a_client_that_signs_needs_no_secret(self, zone: Zone, told: Told) -> None:
        """It authenticates with a key that the zone publishes."""
        oauth2 = {"token_endpoint_auth_method": "private_key_jwt"}
        told.answers["/token"] = 200, {"access_token": "at"}
        found = checked(zone, told.issuer, client_secret=None, protocols={"oauth2": oauth2})
        assert found[:2] == ("pass", ["pass"] * 5)

    @pytest.mark.standard("RFC 8705")
    @pytest.mark.parametrize(
        ("days", "said"),
        [((-1, 1), "does not advertise"), ((-2, -1), "not valid at this time"), (None, "as PEM")],
        ids=["valid", "expired", "a password"],
    )
    def test_a_certificate_is_looked_at(
        self, zone: Zone, told: Told, tmp_path: Path, days: tuple[float, float] | None, said: str
    ) -> None:
        """Also where the provider gives clients no tokens of their own, with which it could be tried."""
        told.publish(grant_types_supported=["authorization_code"])
        pem = self_signed(tmp_path / "zone.pem", "zone.test", days=days).read_text() if days else "s3cret"
        oauth2 = {"token_endpoint_auth_method": "tls_client_auth"}
        status, _, details = checked(zone, told.issuer, client_secret=pem, protocols={"oauth2": oauth2})
        assert status == ("pass" if days == (-1, 1) else "fail")
        assert said in details["credential_exchange"]
        assert pem not in str(details)

    def test_without_a_secret_it_is_skipped(self, zone: Zone, told: Told) -> None:
        """There is nothing to try, which is nobody's failure."""
        status, statuses, _ = checked(zone, told.issuer, client_secret=None)
        assert (status, statuses[-1]) == ("pass", "skipped_with_reason")

    @pytest.mark.parametrize("members", [{"issuer": "https://evil.example"}, {"jwks_uri": None}])
    def test_no_secret_goes_where_metadata_is_wrong(
        self, zone: Zone, told: Told, members: dict[str, Any]
    ) -> None:
        """A provider whose metadata does not fit is shown no secret, and its addresses are not followed."""
        assert checked(zone, told.issuer)[0] == "pass"
        told.asked.clear()
        told.publish(**members)
        status, statuses, _ = checked(zone, told.issuer)
        assert status == "fail"
        assert statuses[2:] == ["fail", "skipped_with_reason", "skipped_with_reason"]
        assert told.asked == [METADATA]


class TestMetadata:
    """What a provider publishes, against what is configured."""

    def test_another_address_than_configured_fails(self, zone: Zone, told: Told) -> None:
        """The member is named; the addresses are not."""
        oauth2 = {"token_endpoint": f"{told.issuer}/other"}
        status, statuses, details = checked(zone, told.issuer, protocols={"oauth2": oauth2})
        assert (status, statuses[2]) == ("fail", "fail")
        assert "`token_endpoint`" in details["endpoint_consistency"]
        assert "/token" not in told.asked

    @pytest.mark.parametrize("answer", [(404, {}), (500, {}), (200, ["no", "metadata"])])
    def test_what_is_no_metadata_fails(self, zone: Zone, told: Told, answer: tuple[int, Any]) -> None:
        """The issuer is there, and says nothing of use; what depends on it is skipped."""
        told.answers[METADATA] = answer
        status, statuses, _ = checked(zone, told.issuer)
        assert status == "fail"
        assert statuses == ["pass", "fail", *["skipped_with_reason"] * 3]

    def test_none_is_needed_when_all_is_configured(self, zone: Zone, told: Told) -> None:
        """A provider without discovery, its addresses written out."""
        told.answers[METADATA] = 404, {}
        oauth2 = {f"{name}_endpoint": f"{told.issuer}/{name[:9]}" for name in ("authorization", "token")}
        oauth2["authorization_endpoint"] = f"{told.issuer}/authorize"
        status, statuses, _ = checked(zone, told.issuer, protocols={"oauth2": oauth2})
        assert status == "pass"
        assert statuses == ["pass", "not_applicable", "not_applicable", "pass", "not_applicable"]

    def test_an_issuer_of_workload_tokens_passes(self, zone: Zone, told: Told) -> None:
        """It publishes keys and no endpoints, and this service is no client of it."""
        told.publish(authorization_endpoint=None, token_endpoint=None, grant_types_supported=None)
        status, statuses, _ = checked(zone, told.issuer, client_id=None, client_secret=None)
        assert status == "pass"
        assert statuses == ["pass", "pass", "pass", "not_applicable", "not_applicable"]

    @pytest.mark.parametrize("code", [404, 503])
    def test_no_page_to_sign_in_at_fails(self, zone: Zone, told: Told, code: int) -> None:
        """Most answers show a page that misses its parameters; these show that there is none."""
        told.answers["/authorize"] = code, {}
        status, statuses, _ = checked(zone, told.issuer)
        assert (status, statuses[3]) == ("fail", "fail")


class TestUnreachable:
    """Addresses where nobody answers, and addresses that are not asked."""

    def test_where_nobody_listens_the_first_check_fails(self, zone: Zone) -> None:
        """The first check fails, the others need it."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
            status, statuses, details = checked(zone, f"http://127.0.0.1:{taken.getsockname()[1]}")
        assert status == "fail"
        assert statuses == ["fail", *["skipped_with_reason"] * 4]
        assert details["issuer_reachability"].startswith("cannot connect")

    @pytest.mark.threat("7e", "7f", "7h", "7i", "7j", "7k", "7m", "7p", "7x")
    @pytest.mark.parametrize(
        "issuer",
        [
            "{listener}",
            "https://127.0.0.1",
            "https://169.254.169.254",
            "https://[::ffff:127.0.0.1]",
            "https://2130706433",
            "https://0x7f000001",
            "https://100.64.0.1",
            "file:///etc/passwd",
        ],
    )
    def test_nothing_is_sent_inwards(self, zone: Zone, told: Told, issuer: str) -> None:
        """With the guard of production no check connects to an address that is not public."""
        server = zone.api.server
        settings = ProviderSettings(
            issuer=issuer.format(listener=told.issuer),
            client_id="zone",
            client_secret=SECRET,
            partition=zone.id,
            authorization_endpoint=f"{told.issuer}/authorize",
            token_endpoint=f"{told.issuer}/token",
        )
        inside = server.call(
            lambda services: provider_checks.run(services, "p", replace(settings, issuer=told.issuer))
        )
        assert inside.status == "pass"
        told.asked.clear()

        async def guarded(services: Services) -> ValidationResult:
            outbound = Outbound(allow_private_addresses=False)
            try:
                return await provider_checks.run(replace(services, outbound=outbound), "p", settings)
            finally:
                await outbound.aclose()

        result = server.call(guarded)
        assert [each.status for each in result.checks] == [
            *("fail", "skipped_with_reason", "skipped_with_reason", "fail", "skipped_with_reason")
        ]
        assert told.asked == []


@pytest.mark.parametrize("type_", ["service-sts", "service-vault"])
def test_built_in_providers_have_nothing_to_check(api: Api, zone: Zone, type_: str) -> None:
    """They are part of this service: each check is `not_applicable`, and the whole passes."""
    found = {one["type"]: one["id"] for one in api.ok("GET", zone.path("/providers?limit=100"))["items"]}
    result = api.ok("POST", zone.path(f"/providers/{found[type_]}/validate"), status=200)
    assert result["status"] == "pass"
    assert {each["status"] for each in result["checks"]} == {"not_applicable"}
    assert all(each["detail"] for each in result["checks"])


def test_checking_takes_the_right_to_change(zone: Zone, viewer: Api, other: Api) -> None:
    """The checks use the secret: who may only read may not, and a stranger sees no provider at all."""
    made = zone.make("providers")
    path = zone.path(f"/providers/{made['id']}/validate")
    assert zone.api.ok("POST", path)["provider_id"] == made["id"]
    viewer.refused(403, "POST", path)
    other.refused(404, "POST", path)


def test_an_identifier_that_is_no_address_fails_the_first_check(zone: Zone) -> None:
    """Where nothing else says who the provider is, its identifier is fetched: a name cannot be."""
    made = zone.make("providers", identifier="acme login")
    told = zone.api.ok("POST", zone.path(f"/providers/{made['id']}/validate"))

    assert told["status"] == "fail"
    assert told["checks"][0]["status"] == "fail"

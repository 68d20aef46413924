"""The examples that verify tokens, each as the process that a reader starts."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from acme import free_port
from tests.support.possession import Holder
from tests.support.waiting import let_pass, wait_until
from tests.zonewright.conftest import TOOLS, Site

from zonewright.revocations import MAX_AGE_SECONDS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
METADATA = "https://tools.test/.well-known/oauth-protected-resource/mcp"


@dataclass(frozen=True)
class Api:
    """A running example, and requests to it."""

    url: str

    def ask(self, token: str | None = None, *, method: str = "GET", scheme: str = "Bearer") -> httpx.Response:
        headers = {"Authorization": f"{scheme} {token}"} if token is not None else {}
        return httpx.request(method, f"{self.url}/notes", headers=headers, trust_env=False, timeout=30)


def with_packages(folder: Path) -> Path:
    """The example for Node.js with what its lock names; skips where there is no Node.js, or no index."""
    for each in ("node", "npm"):
        if shutil.which(each) is None:
            pytest.skip(f"there is no `{each}` here: the example for Express is not tried")
    shutil.copytree(EXAMPLES / "verify_express", folder, dirs_exist_ok=True)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        pytest.skip(f"npm cannot install here: the example for Express is not tried: {done.stderr[-500:]}")
    return folder


@pytest.fixture(scope="module", params=["starlette", "sanic", "flask", "express"])
def api(
    request: pytest.FixtureRequest, site: Site, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Api]:
    command = [sys.executable, str(EXAMPLES / f"verify_{request.param}.py")]
    if request.param == "express":
        folder = with_packages(tmp_path_factory.mktemp("express"))
        command = ["node", str(folder / "server.mjs")]
    port = free_port()
    process = subprocess.Popen([*command, TOOLS, site.issuer, str(port)])
    made = Api(f"http://127.0.0.1:{port}")

    def answers() -> bool:
        assert process.poll() is None, f"{command} has ended"
        try:
            return made.ask().status_code == 401
        except httpx.TransportError:
            return False

    try:
        wait_until(answers)
        yield made
    finally:
        process.kill()
        process.wait()


def test_a_token_for_the_resource_is_accepted(api: Api, site: Site) -> None:
    """The handler sees who asks."""
    answer = api.ask(site.token())

    assert answer.status_code == 200, answer.text
    assert answer.json() == {"subject": site.ada.user.identifier, "actors": []}


def test_without_a_token_the_challenge_leads_to_the_zone(api: Api, site: Site) -> None:
    """Its metadata names the zone (RFC 9728)."""
    answer = api.ask()
    assert answer.status_code == 401
    assert f'resource_metadata="{METADATA}"' in answer.headers["www-authenticate"]
    assert "error" not in answer.headers["www-authenticate"]

    found = httpx.get(f"{api.url}/.well-known/oauth-protected-resource/mcp", trust_env=False).json()
    assert found["scopes_supported"] == ["notes.read", "notes.write"]
    assert (found["resource"], found["authorization_servers"]) == (TOOLS, [site.issuer])


def bound_token(site: Site) -> str:
    """A token that is good with a proof of its key alone."""
    form = {"grant_type": "client_credentials", "resource": TOOLS, **site.agent.form}
    answer = site.post(form, DPoP=Holder().proof(f"{site.issuer}/oauth/token"))
    assert answer.json()["token_type"] == "DPoP", answer.text
    return str(answer.json()["access_token"])


@pytest.mark.parametrize("wrong", ["audience", "signature", "expired", "bound", "text"])
def test_what_is_no_good_token_is_refused(api: Api, site: Site, wrong: str) -> None:
    """For another API, forged, too old, stolen from a key's owner, or no token at all."""
    good = site.token()
    assert api.ask(good).status_code == 200
    header, payload, _ = good.split(".")
    token = {
        "audience": lambda: site.token(audience=site.issuer),
        "signature": lambda: f"{header}.{payload}.{good.split('.')[2][:-8]}AAAAAAAA",
        "expired": lambda: site.token(now=datetime.now(UTC) - timedelta(hours=2)),
        "bound": lambda: bound_token(site),
        "text": lambda: "nothing",
    }[wrong]()

    answer = api.ask(token)

    assert answer.status_code == 401
    assert 'error="invalid_' in answer.headers["www-authenticate"]


def test_a_scope_that_is_missing_is_named(api: Api, site: Site) -> None:
    """Reading is allowed, and writing is not."""
    reader = site.token(scopes=("notes.read",))
    assert api.ask(reader).status_code == 200
    assert api.ask(site.token(), method="POST").status_code == 201

    refusals = (api.ask(reader, method="POST"), api.ask(site.token(scopes=("notes.write",))))
    assert [each.status_code for each in refusals] == [403, 403]
    challenges = [each.headers["www-authenticate"] for each in refusals]
    assert not [each for each in challenges if 'error="insufficient_scope"' not in each]
    assert ' scope="notes.read notes.write"' in challenges[0]  # with less it would be refused next
    assert ' scope="notes.read"' in challenges[1]


def test_a_revoked_token_is_refused_within_a_second(api: Api, site: Site) -> None:
    """By the zone's revocation list: the token itself says nothing of it."""
    person = site.person(f"gone-{api.url[-5:]}")
    token = site.token(person=person)
    assert api.ask(token).status_code == 200

    site.end_session(person)
    let_pass(2 * MAX_AGE_SECONDS)

    assert api.ask(token).status_code == 401
    assert api.ask(site.token()).status_code == 200

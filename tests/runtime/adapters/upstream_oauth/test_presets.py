"""The manifests of `examples/providers`, each against a double of what its provider's documentation says."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml
from tests.support.documented_providers import (
    CHALLENGE,
    CODE,
    DOCUMENTED,
    OLD,
    REDIRECT_URI,
    SECRET,
    VARIANTS,
    VERIFIER,
    Documented,
)
from tests.support.scripted_provider import ScriptedProvider, scripted_provider

from reconciler.cli import run
from runtime.adapters.identity_providers.settings import ProviderSettings, settings_of
from runtime.adapters.outbound import Outbound
from runtime.adapters.upstream_oauth.client import UpstreamOAuthClient
from runtime.adapters.upstream_oauth.revocation_request import RevocationOutcome
from runtime.adapters.upstream_oauth.token_response import RefusalKind
from runtime.domain.kinds.provider import Provider

PRESETS = Path(__file__).parents[4] / "examples" / "providers"
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def manifest(name: str) -> dict[str, Any]:
    """The spec of a preset, also for a variant of it."""
    return yaml.safe_load((PRESETS / f"{name.split()[0]}.yaml").read_text("utf-8"))["spec"]


def settings(name: str, url: str, *, secret: str = SECRET) -> ProviderSettings:
    """The preset as the service reads it, every https address led to a double."""

    def led(value: Any) -> Any:
        if isinstance(value, dict):
            return {member: led(each) for member, each in value.items()}
        if isinstance(value, str) and value.startswith("https://"):
            return f"{url}/{value.removeprefix('https://')}"
        return value

    spec = led({member: value for member, value in manifest(name).items() if member != "client_secret"})
    known = {"id": "p" * 26, "organization_id": "o" * 26, "zone_id": "z" * 26, "slug": name.split()[0]}
    provider = Provider.model_validate({**known, "created_at": NOW, "updated_at": NOW, **spec})
    return settings_of(provider, client_secret=secret)


@pytest.fixture(params=sorted(DOCUMENTED))
def name(request: pytest.FixtureRequest) -> str:
    """The name of a preset."""
    return request.param


@pytest.fixture
def documented(name: str) -> Documented:
    """What its provider documents."""
    return DOCUMENTED[name]


@pytest.fixture
def provider(name: str, documented: Documented) -> Iterator[ScriptedProvider]:
    """The double."""
    with scripted_provider() as running:
        running.script = documented.script(running.url, manifest(name)["client_id"])
        yield running


@pytest.fixture
async def client():
    """A client that may talk to loopback."""
    outbound = Outbound(allow_private_addresses=True, timeout_seconds=5)
    yield UpstreamOAuthClient(outbound, clock=lambda: NOW)
    await outbound.aclose()


def test_each_preset_has_a_double():
    """And each double is of a preset."""
    assert {path.stem for path in PRESETS.glob("*.yaml")} - {"zonectl", "zone"} == DOCUMENTED.keys()


@pytest.mark.parametrize("command", [["validate"], ["fmt", "--check"]], ids=" ".join)
def test_zonectl_accepts_the_presets(command, capsys):
    """They are valid, and written in one form."""
    assert run([*command, str(PRESETS)]) == 0


async def test_the_authorization_request_is_as_documented(name, documented, provider, client):
    """Its address, and exactly the parameters that the provider knows."""
    request = await client.authorization_request(
        settings(name, provider.url),
        redirect_uri=REDIRECT_URI,
        state="s1",
        code_verifier=VERIFIER,
        scopes=sorted(documented.requested),
    )

    address, _, query = request.url.partition("?")
    assert address == f"{provider.url}/{documented.authorize}"
    assert dict(parse_qsl(urlsplit(f"?{query}").query)) == {
        "response_type": "code",
        "client_id": manifest(name)["client_id"],
        "redirect_uri": REDIRECT_URI,
        "state": "s1",
        **documented.asks,
        **(CHALLENGE if documented.pkce else {}),
    }
    assert request.uses_pkce is documented.pkce


async def redeem(client, given, documented, code=CODE):
    return await client.redeem_code(
        given,
        code=code,
        redirect_uri=REDIRECT_URI,
        code_verifier=VERIFIER if documented.pkce else None,
        scopes=documented.requested,
    )


async def test_a_code_is_redeemed(name, documented, provider, client):
    """The documented answer is read whole: token, lifetime, refresh token, scopes."""
    assert await redeem(client, settings(name, provider.url), documented) == documented.expected


@pytest.mark.parametrize("variant", sorted(VARIANTS))
async def test_a_code_of_another_kind_of_application_is_redeemed(variant, client):
    """Without expiry, without a refresh token, or without scopes, as that kind has it."""
    documented = VARIANTS[variant]
    with scripted_provider() as running:
        running.script = documented.script(running.url, manifest(variant)["client_id"])
        assert await redeem(client, settings(variant, running.url), documented) == documented.expected


async def test_tokens_are_refreshed(name, documented, provider, client):
    """With the new refresh token, or the old one where none comes."""
    found = await client.refresh(
        settings(name, provider.url), refresh_token=OLD, scopes=documented.expected.scopes
    )
    assert found == documented.expected_refreshed


async def test_a_refresh_token_that_is_dead_is_known_as_dead(name, provider, client):
    """In the provider's own words, with whatever status."""
    refusal = await client.refresh(settings(name, provider.url), refresh_token="rt-used")
    assert refusal.kind is RefusalKind.DEAD_GRANT


async def test_a_code_that_is_unknown_is_refused(name, documented, provider, client):
    """The user has to authorize again."""
    refusal = await redeem(client, settings(name, provider.url), documented, code="code-2")
    assert refusal.kind is RefusalKind.DEAD_GRANT


async def test_a_wrong_secret_kills_no_grant(name, provider, client):
    """It is the configuration that is to be mended."""
    refusal = await client.refresh(settings(name, provider.url, secret="wrong"), refresh_token=OLD)
    assert refusal.kind is RefusalKind.MISCONFIGURED


@pytest.mark.parametrize("token", [OLD, "rt-unknown"])
async def test_a_token_is_revoked_where_the_provider_can(name, documented, provider, client, token):
    """Also one that is unknown there; where no endpoint is documented no token is sent anywhere."""
    given = settings(name, provider.url)

    done = await client.revoke(given, token=token, token_type_hint="refresh_token")

    if documented.revoke is None:
        assert done.outcome is RevocationOutcome.NOT_SUPPORTED
        assert {each.method for each in provider.received} <= {"GET"}
    else:
        assert done.outcome is RevocationOutcome.REVOKED
        assert [each.members["token"] for each in provider.at(f"/{documented.revoke}")] == [token]

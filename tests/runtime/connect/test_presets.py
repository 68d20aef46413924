"""Accounts at the providers of `examples/providers`: from the management API to the token of an exchange."""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from tests.runtime.adapters.upstream_oauth.test_presets import manifest
from tests.runtime.connect.conftest import Desk
from tests.support.documented_providers import (
    CODE,
    DOCUMENTED,
    REDIRECT_URI,
    SECRET,
    VARIANTS,
    VERIFIER,
    Documented,
)
from tests.support.oauth_site import Client, Page, assert_page
from tests.support.scripted_provider import Received, Script, Scripted, ScriptedProvider, scripted_provider

from runtime.domain.kinds.resource import Resource

PROVIDERS = DOCUMENTED | VARIANTS
STORAGE = ("embedded", "servers")


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def with_a_browser(documented: Documented, script: Script) -> Script:
    """The double, to which a browser comes first: it answers the code for that request alone."""
    asked: dict[str, str] = {}

    def answer(received: Received) -> Scripted:
        if received.path == f"/{documented.authorize}":
            asked.update(received.query)
            back = {"code": CODE, "state": asked["state"]}
            location = f"{asked['redirect_uri']}?{urlencode(back)}"
            return Scripted(status=302, headers={"location": location})
        if received.path != f"/{documented.token}" or received.members.get("grant_type") == "refresh_token":
            return script(received)
        return script(replace(received, body=_as_documented(received, asked)))

    return answer


def _as_documented(received: Received, asked: dict[str, str]) -> bytes:
    """The token request with the redirect URI and verifier that the double knows, where both are right."""
    sent = received.members
    if sent.get("redirect_uri") == asked["redirect_uri"]:
        sent["redirect_uri"] = REDIRECT_URI
    if "code_verifier" in sent and _challenge(sent["code_verifier"]) == asked.get("code_challenge"):
        sent["code_verifier"] = VERIFIER
    if received.headers["content-type"] == "application/json":
        return json.dumps(sent).encode()
    return urlencode(sent).encode()


@contextmanager
def double_of(name: str) -> Iterator[ScriptedProvider]:
    """A running double of a preset's provider."""
    documented = PROVIDERS[name]
    with scripted_provider() as running:
        client_id = manifest(name)["client_id"]
        running.script = with_a_browser(documented, documented.script(running.url, client_id))
        yield running


def spec_of(name: str, url: str) -> dict[str, Any]:
    """The preset as `zonectl` sends it, every address led to the double."""

    def led(value: Any) -> Any:
        if isinstance(value, dict):
            return {member: led(each) for member, each in value.items()}
        if isinstance(value, str) and value.startswith("https://"):
            return f"{url}/{value.removeprefix('https://')}"
        return value

    return {**led(manifest(name)), "client_secret": SECRET}


def configured(desk: Desk, spec: dict[str, Any]) -> str:
    """The id of a provider that an administrator has created by API."""
    server = desk.site.server
    path = f"{server.url}/zones/{desk.zone.id}/providers"
    made = httpx.post(path, json=spec, headers=server.headers, timeout=30)
    assert made.status_code == 200, made.text
    found = httpx.get(f"{path}/{made.json()['id']}", headers=server.headers, timeout=30).json()
    assert found["protocols"]["oauth2"].items() >= spec["protocols"]["oauth2"].items()
    assert found["client_id"] == spec["client_id"]
    assert "client_secret" not in found
    return str(found["id"])


def resource_of(desk: Desk, provider_id: str, documented: Documented) -> tuple[Resource, Client]:
    """A resource with the scopes that are documented, and an application that depends on it."""
    company, site = desk.site.company, desk.site
    scopes = tuple(sorted(documented.requested))
    resource = site.run(
        company.resource(
            desk.zone, "https://elsewhere.example", scopes=scopes, credential_provider_id=provider_id
        )
    )
    return resource, site.app(desk.zone, "Preset Agent", consent="required", dependencies=[resource])


@pytest.mark.parametrize("name", PROVIDERS)
def test_an_account_is_connected_and_its_token_handed_out(desk: Desk, name: str) -> None:
    """Configured by API, connected on the page, stored, exchanged: all that was requested is granted."""
    documented = PROVIDERS[name]
    with double_of(name) as double:
        provider_id = configured(desk, spec_of(name, double.url))
        resource, agent = resource_of(desk, provider_id, documented)
        token = desk.sign_in(agent)

        done = desk.allow(desk.page(desk.link(token, resource, agent)))

        assert isinstance(done, Page)
        assert_page(done.response, 200)
        assert "Preset Agent may now use https://elsewhere.example in your name." in done.text
        assert "Not granted" not in done.text

        (grant,) = [row for row in desk.rows("delegated_grants") if row["resource_id"] == resource.id]
        assert set(grant["scopes"]) == documented.requested
        assert (grant["provider_id"], grant["status"]) == (provider_id, "active")
        assert grant["refresh_token_set"] == (documented.expected.refresh_token is not None)
        (kept,) = desk.rows("vault_tokens")
        assert "at-1" not in str(kept)

        named = " ".join(sorted(documented.requested))
        for more in ({}, {"scope": named} if named else {}):
            handed = desk.exchange(token, resource, agent, **more)
            assert handed["access_token"] == "at-1", handed
            assert handed.get("scope", "") == named
        lifetime = documented.expected.expires_in_seconds
        assert lifetime is None or handed["expires_in"] <= lifetime


@pytest.mark.parametrize("is_given", [True, False])
def test_offline_access_is_granted_with_a_refresh_token(desk: Desk, is_given: bool) -> None:
    """Without one the page says that it was not."""
    name = "microsoft"
    documented = PROVIDERS[name]
    if not is_given:
        first = {member: value for member, value in documented.first.items() if member != "refresh_token"}
        documented = replace(documented, first=first)
    with scripted_provider() as double:
        client_id = manifest(name)["client_id"]
        double.script = with_a_browser(documented, documented.script(double.url, client_id))
        resource, agent = resource_of(desk, configured(desk, spec_of(name, double.url)), documented)

        done = desk.allow(desk.page(desk.link(desk.sign_in(agent), resource, agent)))

        assert isinstance(done, Page)
        assert ("Not granted, although it was requested: offline_access" in done.text) != is_given

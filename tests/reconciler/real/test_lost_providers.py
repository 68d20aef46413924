"""Resources that lose their credential provider, in a plan; and what the server makes of them."""

from typing import Any

import pytest
from sqlalchemy import select
from tests.reconciler.real.company import Company

from runtime.services.container import Services
from runtime.storage.sql.tables import TABLES

PROVIDER = """\
apiVersion: zonewright/v1
kind: Provider
metadata: {zone: "{zone}", name: tracker}
spec: {name: Tracker, identifier: "https://tracker.example", client_id: zonewright}
"""
RESOURCE = """\
apiVersion: zonewright/v1
kind: Resource
metadata: {zone: "{zone}", name: issues}
spec: {name: Issues, identifier: "https://issues.example"%s}
"""


@pytest.fixture
def tracked(company: Company) -> Company:
    """A company with a provider, and a resource whose tokens it issues."""
    company.write("tracker.yaml", PROVIDER)
    company.write("issues.yaml", RESOURCE % ", credential_provider: tracker")
    company.apply()
    return company


def lost(company: Company) -> list[tuple[str, str]]:
    """The resources of the plan that lose their provider, and what becomes of it and of them."""
    found: list[dict[str, Any]] = company.plan_json().get("lost_providers", [])
    return [
        (
            each["resource"].partition("/")[2],
            f"{'deleted' if each['deleted'] else 'removed'}, {'refused' if each['refused'] else 'issued'}",
        )
        for each in found
    ]


def lost_on_the_server(company: Company, identifier: str) -> str | None:
    """The id of the deleted provider that the server refuses exchanges for, as its table has it."""
    table, zone_id = TABLES["Resource"], company.zone_id

    async def read(parts: Services) -> str | None:
        async with parts.database.reading() as conn:
            of_it = (table.c.zone_id == zone_id, table.c.identifier == identifier)
            found = await conn.execute(select(table.c.deleted_credential_provider_id).where(*of_it))
            return found.scalar_one()

    return company.server.call(read)


def test_a_provider_that_is_removed_is_warned_of(tracked: Company) -> None:
    """The text says what is returned then; the server is left with a resource without a provider."""
    assert lost(tracked) == []
    tracked.write("issues.yaml", RESOURCE % "")
    assert lost(tracked) == [("https://issues.example", "removed, issued")]
    told = tracked.plan(expect=2).out
    assert '"https://tracker.example" is no longer its credential provider' in told
    assert "return access tokens of the zone from then on, in place of tokens of that provider" in told
    tracked.apply()
    assert (
        tracked.found("resources", identifier="https://issues.example").get("credential_provider_id") is None
    )
    assert lost(tracked) == []


def test_a_deleted_provider_is_warned_of(tracked: Company) -> None:
    """Together with the member that named it: the manifest has chosen, so the zone issues the tokens."""
    tracked.write("issues.yaml", RESOURCE % "")
    (tracked.folder.path / "tracker.yaml").unlink()
    assert lost(tracked) == [("https://issues.example", "deleted, issued")]
    tracked.apply()
    assert lost_on_the_server(tracked, "https://issues.example") is None


def test_resources_of_nobody_are_found_too(tracked: Company) -> None:
    """Whoever made one by hand relied on the provider; the server empties its reference."""
    provider = tracked.found("providers", identifier="https://tracker.example")["id"]
    body = {"name": "By hand", "identifier": "https://hand.example", "credential_provider_id": provider}
    tracked.send("POST", tracked.collection("resources"), **body)
    for name in ("tracker.yaml", "issues.yaml"):
        (tracked.folder.path / name).unlink()
    assert lost(tracked) == [("https://hand.example", "deleted, refused")]
    assert "exchanges for it are refused from then on" in tracked.plan(expect=2).out
    tracked.apply()
    assert lost_on_the_server(tracked, "https://hand.example") == provider


def test_a_key_of_the_vault_is_another_credential(company: Company) -> None:
    """The vault is a provider that every zone has; with the zone's own, nothing changes."""
    for provider, told in (
        ("service-vault", "in place of keys that are stored in the vault"),
        ("service-sts", ""),
    ):
        company.write("issues.yaml", RESOURCE % f", credential_provider: {{external: {provider}}}")
        company.apply()
        company.write("issues.yaml", RESOURCE % "")
        shown = company.plan(expect=2).out
        assert told in shown
        assert ("! other tokens for a resource" in shown) is bool(told)


def test_another_provider_is_no_loss(tracked: Company) -> None:
    """Its tokens are what exchanges return."""
    (tracked.folder.path / "tracker.yaml").unlink()
    tracked.write("issues.yaml", RESOURCE % ", credential_provider: corp")
    assert lost(tracked) == []
    (tracked.folder.path / "issues.yaml").unlink()
    assert lost(tracked) == []

"""People make organizations, act in several of them, and end them."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.runtime.management.conftest import Api, caller
from tests.runtime.management.signing_in import Someone, someone, status

from runtime.services import rate_limits
from runtime.services.management import audit
from runtime.services.management.organizations import organizations
from runtime.storage.sql.tables import METADATA


def company(api: Api, name: str = "company") -> Api:
    """A new organization."""
    made, key = api.server.call(lambda services: organizations.create_organization(services, api.named(name)))
    return caller(api.server, key, made.id)


@pytest.mark.threat("26k")
def test_a_person_acts_in_another_organization_only_with_its_token(api: Api) -> None:
    """Made by Ada, B is hers: listed at home, reached through an exchange; a stranger hears 404."""
    ada = someone(api, "org_admin")
    mine = ada.calling()
    made = mine.ok("POST", "/organizations", {"name": api.named("Second")}, status=201)
    again = mine.ok("POST", "/organizations", {"name": made["name"]}, status=201)
    assert again["label"].startswith(made["label"][:40])
    assert again["label"] != made["label"]
    assert mine.ok("POST", "/organizations", {})["name"]
    second = f"/organizations/{made['id']}"
    listed = mine.ok("GET", "/organizations?expand[]=permissions&limit=100")["items"]
    assert {one["id"] for one in listed} >= {api.organization_id, made["id"], again["id"]}
    assert all(one["permissions"]["organizations"]["update"] for one in listed)
    assert mine.ok("GET", "/organizations?limit=1&expand[]=total_count")["page_info"]["has_next_page"]

    there = ada.exchanged(mine, made["label"])
    assert there.ok("GET", second)["name"] == made["name"]
    assert [one["id"] for one in there.ok("GET", "/organizations")["items"]] == [made["id"]]
    zone = there.zone()
    assert zone.body["organization_id"] == made["id"]
    (self_there,) = there.ok("GET", f"{second}/users")["items"]
    assert (self_there["id"], self_there["role"]) == (ada.user.id, "org_admin")

    # At home the other organization is unknown, and the other way round.
    mine.refused(404, "GET", second)
    mine.refused(404, "GET", zone.path())
    there.refused(404, "GET", f"/organizations/{api.organization_id}")
    there.refused(404, "GET", api.home_zone().path())
    # Only a token of home can be swapped, and only for an organization that one acts for.
    there.refused(403, "POST", f"{second}/token")
    there.refused(404, "POST", f"/organizations/{api.organization_id}/token")
    there.refused(403, "POST", "/organizations", {"name": "third"})
    stranger = someone(api, "org_admin").calling()
    told = stranger.refused(404, "POST", f"{second}/token")
    assert told["message"] == f"there is no Organization `{made['id']}`"
    assert made["id"] not in {one["id"] for one in stranger.ok("GET", "/organizations?limit=100")["items"]}

    # Disabled there, the account is a stranger there, and still at home.
    helper = ada.exchanged(mine, again["id"])
    assert status(helper) == 200
    there.refused(409, "PATCH", f"{second}/users/{ada.user.id}", {"status": "disabled"})
    ada_at_home: Someone = ada
    api.ok("PATCH", ada_at_home.path, {"role": "org_member"})
    mine.refused(403, "POST", "/organizations", {"name": "fourth"})
    assert status(there) == 200
    api.ok("PATCH", ada_at_home.path, {"status": "disabled"})
    assert (status(there), status(mine)) == (401, 401)


@pytest.mark.threat("31s")
def test_organizations_made_in_a_day_are_counted(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs keys, a zone and mail; whoever makes many waits, others do not."""
    ada, bob = someone(api, "org_admin").calling(), someone(api, "org_admin").calling()
    monkeypatch.setattr(rate_limits, "NEW_ORGANIZATIONS", replace(rate_limits.NEW_ORGANIZATIONS, amount=1))
    ada.ok("POST", "/organizations", {"name": api.named()}, status=201)
    assert ada.refused(429, "POST", "/organizations", {})["code"] == "rate_limit_exceeded"
    bob.ok("POST", "/organizations", {"name": api.named()}, status=201)


def test_only_people_make_organizations_and_swap_tokens(api: Api) -> None:
    """Keys and service accounts are told why not."""
    told = api.refused(403, "POST", "/organizations", {"name": "x"})
    assert "only a user can create an organization" in told["message"]
    api.refused(403, "POST", f"/organizations/{api.organization_id}/token")
    api.with_role("service_account").refused(403, "POST", "/organizations", {"name": "x"})


def test_an_organization_ends_when_it_is_empty(api: Api) -> None:
    """409 while a zone of the customer's remains; then everything is gone but what happened in it."""
    other = company(api)
    zone = other.zone()
    own = other.home_zone()
    ada = someone(other, "org_admin")
    mine = ada.calling()
    path = f"/organizations/{other.organization_id}"
    service_account = other.ok("POST", f"{path}/service-accounts", {"name": "ci"})
    assert service_account["id"]
    other.with_role("org_member").refused(403, "DELETE", path)
    assert "1 zone" in mine.refused(409, "DELETE", path)["message"]
    other.ok("DELETE", zone.path())
    mine.ok("DELETE", path, status=204)
    for one in (mine, other):
        one.refused(401, "GET", path)

    async def left(services: Any) -> tuple[dict[str, int], list[Any]]:
        counts = {}
        async with services.database.reading() as conn:
            for table in METADATA.tables.values():
                for column, value in (("organization_id", other.organization_id), ("zone_id", own.id)):
                    if column in table.c:
                        query = select(func.count()).where(table.c[column] == value)
                        counts[f"{table.name}.{column}"] = await conn.scalar(query) or 0
        return counts, [one async for one in audit.verify(services, other.organization_id)]

    counts, (verdict,) = api.server.call(left)
    kept = {name.partition(".")[0] for name, count in counts.items() if count}
    assert kept <= {"audit_events", "organization_heads", "token_events"}
    assert "audit_events" in kept
    assert verdict.broken_at is None

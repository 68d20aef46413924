"""People make organizations, act in several of them, and end them."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.runtime.management.conftest import Api, caller
from tests.runtime.management.signing_in import Someone, someone, status
from tests.support.connections import Connections

from runtime.services import rate_limits
from runtime.services.management import audit
from runtime.services.management.organizations import organizations
from runtime.storage.sql.tables import METADATA


def company(api: Api, name: str = "company") -> Api:
    """A new organization."""
    made, key = api.server.call(lambda services: organizations.create_organization(services, api.named(name)))
    return caller(api.server, key, made.id)


@dataclass
class Founder:
    """Somebody who has made a second organization, with a token of home and one of that organization."""

    ada: Someone
    at_home: Api
    second: dict[str, Any]
    there: Api

    @property
    def path(self) -> str:
        return f"/organizations/{self.second['id']}"


def found(api: Api) -> Founder:
    ada = someone(api, "org_admin")
    at_home = ada.calling()
    second = at_home.ok("POST", "/organizations", {"name": api.named("Second")}, status=201)
    return Founder(ada, at_home, second, ada.exchanged(at_home, second["label"]))


@pytest.fixture(scope="module")
def founder(api: Api) -> Founder:
    """One that tests share; whoever changes what she is at home makes another."""
    return found(api)


def test_organizations_of_one_name_get_labels_that_differ(founder: Founder) -> None:
    """The second label begins with the first one, and goes on differently."""
    again = founder.at_home.ok("POST", "/organizations", {"name": founder.second["name"]}, status=201)
    assert again["label"].startswith(founder.second["label"][:40])
    assert again["label"] != founder.second["label"]


def test_an_organization_made_without_a_name_is_given_one(founder: Founder) -> None:
    """The name is no required member of the request."""
    assert founder.at_home.ok("POST", "/organizations", {})["name"]


def test_making_one_takes_one_connection_at_a_time(api: Api) -> None:
    """A second one inside the transaction would have all wait for each other when many do it at once."""
    mine, connections = company(api), Connections()
    at_home = someone(mine, "org_admin").calling()

    with connections.watched():
        at_home.ok("POST", "/organizations", {"name": api.named("Third")}, status=201)

    assert connections.taken > 0
    assert connections.inside_another == []


def test_a_token_of_home_lists_every_organization_that_its_holder_acts_for(
    api: Api, founder: Founder
) -> None:
    """Page by page."""
    listed = founder.at_home.ok("GET", "/organizations?limit=100")["items"]
    assert {one["id"] for one in listed} >= {api.organization_id, founder.second["id"]}
    page = founder.at_home.ok("GET", "/organizations?limit=1&expand[]=total_count")
    assert page["page_info"]["has_next_page"]


def test_permissions_of_a_listed_organization_are_those_of_the_token(api: Api, founder: Founder) -> None:
    """A token of home reads and changes home alone, and makes others; the other's own token changes that."""
    listed = founder.at_home.ok("GET", "/organizations?expand[]=permissions&limit=100")["items"]
    by_id = {one["id"]: one["permissions"] for one in listed}
    elsewhere = by_id[founder.second["id"]]
    assert elsewhere == {
        "organizations": {"list": True, "create": True, "read": False, "update": False, "delete": False}
    }
    founder.at_home.refused(404, "GET", founder.path)
    founder.at_home.refused(404, "PATCH", founder.path, {"name": "hers"})
    assert by_id[api.organization_id]["organizations"]["update"] is True
    assert founder.at_home.ok("GET", f"/organizations/{api.organization_id}")

    (there,) = founder.there.ok("GET", "/organizations?expand[]=permissions")["items"]
    assert there["permissions"]["organizations"] == {
        "list": True,
        "create": False,
        "read": True,
        "update": True,
        "delete": True,
    }
    founder.there.refused(403, "POST", "/organizations", {"name": "third"})


@pytest.mark.parametrize("query", ["?expand[]=permissions", "?expand[]=permissions&limit=1"])
def test_nobody_is_told_to_make_organizations_with_a_key(api: Api, query: str) -> None:
    """The first administrator is a person: the maps and the answer to a try agree."""
    page = api.ok("GET", f"/organizations{query}")
    (mine,) = page["items"]
    assert page["permissions"]["organizations"]["create"] is False
    assert mine["permissions"]["organizations"]["create"] is False
    assert mine["permissions"]["organizations"]["update"] is True
    api.refused(403, "POST", "/organizations", {"name": "made with a key"})


def test_a_token_of_an_organization_reads_and_changes_that_one(founder: Founder) -> None:
    """It is the only one in its list, and what is made with the token is made there."""
    assert founder.there.ok("GET", founder.path)["name"] == founder.second["name"]
    listed = founder.there.ok("GET", "/organizations")["items"]
    assert [one["id"] for one in listed] == [founder.second["id"]]
    assert founder.there.zone().body["organization_id"] == founder.second["id"]


def test_who_makes_an_organization_is_its_administrator(founder: Founder) -> None:
    """The new organization has one user: the one who made it."""
    (only,) = founder.there.ok("GET", f"{founder.path}/users")["items"]
    assert (only["id"], only["role"]) == (founder.ada.user.id, "org_admin")


@pytest.mark.threat("26k")
def test_a_token_of_home_does_not_see_the_other_organization(founder: Founder) -> None:
    """Neither the organization nor a zone of it: 404, although its holder acts for it."""
    zone = founder.there.zone()
    founder.at_home.refused(404, "GET", founder.path)
    founder.at_home.refused(404, "GET", zone.path())


@pytest.mark.threat("26k")
def test_a_token_of_an_organization_does_not_see_home(api: Api, founder: Founder) -> None:
    """Neither the organization where its holder is at home nor the home zone of that: 404."""
    founder.there.refused(404, "GET", f"/organizations/{api.organization_id}")
    founder.there.refused(404, "GET", api.home_zone().path())


@pytest.mark.threat("26k")
def test_only_a_token_of_home_is_exchanged_or_makes_organizations(api: Api, founder: Founder) -> None:
    """A token of one organization gets its holder no token of that or another, and makes none."""
    founder.there.refused(403, "POST", f"{founder.path}/token")
    founder.there.refused(404, "POST", f"/organizations/{api.organization_id}/token")
    founder.there.refused(403, "POST", "/organizations", {"name": "third"})


@pytest.mark.threat("26k")
def test_nobody_gets_a_token_of_an_organization_they_do_not_act_for(api: Api, founder: Founder) -> None:
    """An administrator of the same home is answered as if there were no such organization."""
    stranger = someone(api, "org_admin").calling()
    told = stranger.refused(404, "POST", f"{founder.path}/token")
    assert told["message"] == f"there is no Organization `{founder.second['id']}`"
    listed = stranger.ok("GET", "/organizations?limit=100")["items"]
    assert founder.second["id"] not in {one["id"] for one in listed}


def test_who_acts_for_several_organizations_has_a_token_for_each(founder: Founder) -> None:
    """Two tokens of two organizations work at the same time."""
    third = founder.at_home.ok("POST", "/organizations", {}, status=201)
    assert status(founder.ada.exchanged(founder.at_home, third["id"])) == 200
    assert status(founder.there) == 200


def test_the_only_administrator_of_an_organization_cannot_be_disabled(founder: Founder) -> None:
    """Not by themselves either: 409."""
    only = f"{founder.path}/users/{founder.ada.user.id}"
    founder.there.refused(409, "PATCH", only, {"status": "disabled"})


def test_a_lower_role_at_home_leaves_what_one_acts_as_elsewhere(api: Api) -> None:
    """Who is no administrator at home any more makes no organization, and goes on in the one that is made."""
    founder = found(api)
    api.ok("PATCH", founder.ada.path, {"role": "org_member"})
    founder.at_home.refused(403, "POST", "/organizations", {"name": "fourth"})
    assert status(founder.there) == 200


@pytest.mark.threat("26k")
def test_who_is_disabled_at_home_acts_nowhere(api: Api) -> None:
    """The token of home and the token of the other organization both end."""
    founder = found(api)
    assert (status(founder.there), status(founder.at_home)) == (200, 200)
    api.ok("PATCH", founder.ada.path, {"status": "disabled"})
    assert (status(founder.there), status(founder.at_home)) == (401, 401)


@pytest.mark.threat("31s")
@pytest.mark.usefixtures("one_window")
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


def test_an_organization_with_a_zone_of_the_customers_is_not_deleted(api: Api) -> None:
    """409, which says how many zones remain; without them it goes, with everybody's way in."""
    other = company(api)
    zone = other.zone()
    mine = someone(other, "org_admin").calling()
    path = f"/organizations/{other.organization_id}"
    assert "1 zone" in mine.refused(409, "DELETE", path)["message"]
    other.ok("DELETE", zone.path())
    mine.ok("DELETE", path, status=204)
    for one in (mine, other):  # the person's token and the key
        one.refused(401, "GET", path)


def test_only_an_administrator_deletes_an_organization(api: Api) -> None:
    """A member is refused with 403."""
    other = company(api)
    path = f"/organizations/{other.organization_id}"
    other.with_role("org_member").refused(403, "DELETE", path)
    someone(other, "org_admin").calling().ok("DELETE", path, status=204)


def test_a_deleted_organization_leaves_its_audit_trail_alone(api: Api) -> None:
    """No table has a row of it but those of what happened in it, and the chain of that still holds."""
    other = company(api)
    own = other.home_zone()
    mine = someone(other, "org_admin").calling()
    path = f"/organizations/{other.organization_id}"
    other.ok("DELETE", other.zone().path())
    assert other.ok("POST", f"{path}/service-accounts", {"name": "ci"})["id"]
    mine.ok("DELETE", path, status=204)

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

"""People who act for an organization: listed, given another role, disabled, and let go."""

import asyncio

import pytest
from tests.runtime.management.conftest import Api, caller
from tests.support.factories import operator

from runtime.domain.errors import Conflict
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.values import OrganizationRole
from runtime.services.authority.admission import JoiningAccount, ManagementToken
from runtime.services.container import Services
from runtime.services.management.members import organization_users
from runtime.services.management.organizations import organizations
from runtime.services.management.unit_of_work import unit_of_work
from runtime.storage.sql import users


@pytest.fixture
def company(api: Api) -> Api:
    """An organization that nobody acts for yet but its key."""
    made, key = api.server.call(
        lambda services: organizations.create_organization(services, api.named("org"))
    )
    return caller(api.server, key, made.id)


def people(api: Api) -> str:
    return f"/organizations/{api.organization_id}/users"


def test_people_are_listed_and_found_by_role(company: Api) -> None:
    """The answer has exactly the members of the contract; `role` selects; unknown roles are refused."""
    admin, viewer = company.person("org_admin"), company.person("org_viewer")
    listed = company.ok("GET", people(company))
    assert [one["id"] for one in listed["items"]] == [admin.id, viewer.id]
    assert listed["page_info"]["has_prev_page"] is False
    zone = company.home_zone()
    assert listed["items"][0] == {
        "id": admin.id,
        "created_at": listed["items"][0]["created_at"],
        "updated_at": listed["items"][0]["updated_at"],
        "email": admin.email,
        "role": "org_admin",
        "source": zone.body["protocols"]["oauth2"]["issuer"],
        "status": "active",
    }
    by_role = company.ok("GET", f"{people(company)}?role=org_viewer&expand[]=permissions")
    assert [one["id"] for one in by_role["items"]] == [viewer.id]
    assert by_role["items"][0]["permissions"]["organization_users"]["update"] is True
    company.refused(400, "GET", f"{people(company)}?role=owner")
    assert company.ok("GET", f"{people(company)}/{viewer.id}") == listed["items"][1]


@pytest.fixture(scope="module")
def changed(api: Api) -> tuple[Api, str]:
    """An organization, and the path of somebody who acts for it."""
    person = api.person()
    return api, f"{people(api)}/{person.id}"


@pytest.mark.parametrize("member", ["email", "source", "zone_user_id"])
def test_only_role_and_status_can_be_changed(changed: tuple[Api, str], member: str) -> None:
    """A member that is read only is refused by its name, whatever it is given."""
    api, path = changed
    assert api.ok("PATCH", path, {"role": "org_viewer"})["role"] == "org_viewer"
    assert member in repr(api.refused(400, "PATCH", path, {member: "x@example.com"})["details"])


@pytest.mark.parametrize(("member", "value"), [("role", None), ("role", "owner"), ("status", "pending")])
def test_role_and_status_are_among_those_there_are(
    changed: tuple[Api, str], member: str, value: str | None
) -> None:
    """Null and a value that is not known are 400."""
    api, path = changed
    api.refused(400, "PATCH", path, {member: value})


def test_people_are_invited_and_not_made(company: Api) -> None:
    """The list takes no POST."""
    company.refused(405, "POST", people(company), {"email": "x@example.com", "role": "org_admin"})


@pytest.mark.parametrize(
    ("method", "body"),
    [("PATCH", {"role": "org_member"}), ("PATCH", {"status": "disabled"}), ("DELETE", None)],
    ids=["demoted", "disabled", "deleted"],
)
def test_the_last_administrator_stays(company: Api, method: str, body: dict[str, str] | None) -> None:
    """Demoting, disabling or deleting the only active `org_admin` is a conflict; the last but one may go."""
    first, second = company.person("org_admin"), company.person("org_admin")
    base = people(company)
    company.ok("PATCH", f"{base}/{first.id}", {"status": "disabled"})
    told = company(method, f"{base}/{second.id}", body)
    assert told.status_code == 409, told.text
    assert told.headers["x-should-retry"] == "false"
    company.ok("PATCH", f"{base}/{first.id}", {"status": "active"})
    company.ok("DELETE", f"{base}/{second.id}", status=204)
    company.refused(404, "GET", f"{base}/{second.id}")


def test_the_last_administrator_stays_in_the_zone_too(company: Api) -> None:
    """Who is disabled as a user of the zone cannot sign in: they are nobody to count on, and not the last."""
    first, second = company.person("org_admin"), company.person("org_admin")
    zone, base = company.home_zone(), people(company)
    as_user = zone.path(f"/users/{first.zone_user_id}")
    company.ok("PATCH", as_user, {"status": "disabled"})
    company.refused(409, "PATCH", f"{base}/{second.id}", {"role": "org_viewer"})
    company.refused(409, "DELETE", f"{base}/{second.id}")
    company.refused(409, "PATCH", zone.path(f"/users/{second.zone_user_id}"), {"status": "disabled"})
    company.ok("PATCH", as_user, {"status": "active"})
    company.ok("PATCH", f"{base}/{second.id}", {"role": "org_viewer"})
    company.ok("PATCH", zone.path(f"/users/{second.zone_user_id}"), {"status": "disabled"})


def test_of_two_demotions_at_once_one_is_refused(company: Api) -> None:
    """Each administrator demotes the other at the same moment: one stays."""
    pair = [company.person("org_admin"), company.person("org_admin")]

    async def demote(services: Services, person_id: str) -> bool:
        acting = operator(company.organization_id)
        parents = {"organization_id": company.organization_id}
        async with unit_of_work(services, acting, new_id()) as unit:
            kind = organization_users.ORGANIZATION_USER
            await organization_users.update(unit, kind, parents, person_id, {"role": "org_member"})
        return True

    async def both(services: Services) -> list[bool | BaseException]:
        return await asyncio.gather(*(demote(services, one.id) for one in pair), return_exceptions=True)

    results = company.server.call(both)
    assert sorted(isinstance(one, Conflict) for one in results) == [False, True]
    assert len(company.ok("GET", f"{people(company)}?role=org_admin")["items"]) == 1


def test_who_is_disabled_is_signed_out_and_who_is_deleted_is_gone(company: Api) -> None:
    """Sessions of the organization's zone end; deleting takes the user there too, with its roles."""
    zone, person = company.home_zone(), company.person()
    session = zone.session(person.zone_user_id)
    body = {"role_identifier": "zone_viewer", "owner_type": "platform"}
    target = company.zone()
    body |= {"scope_type": "zone", "scope_id": target.id}
    company.ok("POST", zone.path(f"/users/{person.zone_user_id}/roles"), body)
    path = f"{people(company)}/{person.id}"
    company.ok("PATCH", path, {"status": "disabled"})
    assert company.ok("GET", zone.path(f"/sessions/{session}"))["status"] == "revoked"
    user_path = zone.path(f"/users/{person.zone_user_id}")
    assert company.ok("GET", user_path)["status"] == "disabled"
    company.ok("PATCH", path, {"status": "active"})
    assert company.ok("GET", user_path)["status"] == "active"

    company.refused(409, "DELETE", user_path)
    company.refused(409, "PATCH", user_path, {"identifier": "somebody-else"})
    renamed = company.ok("PATCH", user_path, {"email": f"{new_id()}@example.com"})
    assert company.ok("GET", path)["email"] == renamed["email"]

    company.ok("DELETE", path)
    company.refused(404, "GET", user_path)
    assert company.ok("GET", zone.path("/sessions"))["items"] == []


def test_an_account_joins_an_organization_once(company: Api, api: Api) -> None:
    """The account of another organization has its id here too, with a user who stands for it."""
    at_home = api.person()
    home = api.home_zone()

    async def admit(services: Services) -> str:
        zone = await services.zones.get(home.id)
        async with services.database.reading() as conn:
            user = await users.get(conn, at_home.id, zone_id=home.id)
        token = ManagementToken(user.id, home.id, zone.issuer, source=None, by_platform=True)
        joining = JoiningAccount(token, zone.entity, user, provider=None)
        acting = operator(company.organization_id)
        async with unit_of_work(services, acting, new_id()) as unit:
            made = await organization_users.add_external_account(unit, OrganizationRole.MEMBER, joining)
        return made.zone_user_id

    user_id = company.server.call(admit)
    told = company.ok("GET", f"{people(company)}/{at_home.id}")
    assert (told["email"], told["source"]) == (at_home.email, at_home.source)
    path = company.home_zone().path(f"/users?filter[id]={user_id}&expand[]=credentials")
    (stand_in,) = company.ok("GET", path)["items"]
    assert stand_in["subject"] == at_home.account_subject
    assert stand_in["credentials"] == []
    with pytest.raises(Conflict):
        company.server.call(admit)

"""Groups, whose members are users, or people who are only invited."""

import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.role import Group
from runtime.services.container import Services
from runtime.services.management.access.caller import Caller
from runtime.services.management.people import groups
from runtime.services.management.unit_of_work import unit_of_work


class TestGroups:
    def test_identifier_comes_from_the_name(self, zone: Zone) -> None:
        """Without an identifier the group gets a slug of its name, with a suffix when that is taken."""
        name = zone.api.named("The Team")
        first, second = zone.make("groups", name=name), zone.make("groups", name=name)
        assert first["identifier"] == name.lower().replace(" ", "-")
        assert second["identifier"].startswith(f"{first['identifier']}-")
        assert first["external"] is False

    @pytest.mark.deviation("directory")
    def test_none_comes_from_a_directory(self, api: Api, zone: Zone) -> None:
        """There is no synchronization, and nobody can claim that a group comes from one."""
        assert zone.make("groups")["external"] is False
        api.refused(400, "POST", zone.path("/groups"), {"name": zone.api.named(), "external": True})
        assert {one["external"] for one in api.ok("GET", zone.path("/groups"))["items"]} == {False}

    def test_a_given_identifier_must_be_free(self, api: Api, zone: Zone) -> None:
        """A suffix is only for identifiers that the service makes."""
        made = zone.make("groups", identifier=api.named())
        api.refused(409, "POST", zone.path("/groups"), {"name": "x", "identifier": made["identifier"]})

    def test_members_join_and_leave(self, api: Api, zone: Zone) -> None:
        """Added once, listed with the user, removed once."""
        group, user = zone.make("groups"), zone.user()
        base = zone.path(f"/groups/{group['id']}/members")
        made = api.ok("POST", base, {"user_id": user.id}, status=201)
        assert made["user_id"] == user.id
        assert made["user"]["email"] == user.email
        api.refused(409, "POST", base, {"user_id": user.id})
        assert [one["user_id"] for one in api.ok("GET", base)["items"]] == [user.id]
        assert api.ok("GET", f"{base}?filter[id]={new_id()}")["items"] == []
        assert api("DELETE", f"{base}/{user.id}").status_code == 204
        api.refused(404, "DELETE", f"{base}/{user.id}")

    def test_members_must_be_of_the_zone(self, api: Api, zone: Zone) -> None:
        """A user of another zone is as unknown as a random id; the body is strict."""
        group, foreign = zone.make("groups"), api.zone().user()
        base = zone.path(f"/groups/{group['id']}/members")
        api.refused(400, "POST", base, {"user_id": foreign.id})
        api.refused(400, "POST", base, {"user_id": new_id()})
        mine = zone.user()
        api.refused(400, "POST", base, {"user_id": mine.id, "role": "x"})
        api.ok("POST", base, {"user_id": mine.id}, status=201)

    @pytest.mark.parametrize("expand", ["expand[]", "expand"])
    def test_member_count_and_roles_are_expansions(self, api: Api, zone: Zone, expand: str) -> None:
        """Member counts and roles appear when they are asked, on the list and on one group."""
        group, role = zone.make("groups"), zone.make("roles")
        for _ in range(2):
            api.ok("POST", zone.path(f"/groups/{group['id']}/members"), {"user_id": zone.user().id})
        api.ok("POST", zone.path(f"/groups/{group['id']}/roles"), {"role_id": role["id"]})
        assert "member_count" not in api.ok("GET", zone.path(f"/groups/{group['id']}"))
        query = f"{expand}=member_count&{expand}=roles"
        found = api.ok("GET", zone.path(f"/groups/{group['id']}?{query}"))
        assert found["member_count"] == 2
        assert found["roles"] == [role["identifier"]]
        listed = api.ok("GET", zone.path(f"/groups?filter[id]={group['id']}&{query}"))["items"]
        assert listed == [found]

    def test_directory_groups_are_read_only(self, api: Api, zone: Zone) -> None:
        """A group that an external directory keeps is neither changed nor joined here."""
        group = zone.make("groups")
        _make_external(zone, group["id"])
        path = zone.path(f"/groups/{group['id']}")
        assert api.ok("GET", path)["external"] is True
        api.refused(403, "PATCH", path, {"name": "x"})
        api.refused(403, "DELETE", path)
        api.refused(403, "POST", f"{path}/members", {"user_id": zone.user().id})
        api.refused(403, "DELETE", f"{path}/members/{new_id()}")

    def test_members_by_email(self, api: Api, zone: Zone) -> None:
        """People the zone does not know wait until they have verified their address."""
        made, known, unverified = (
            zone.make("groups"),
            zone.user(),
            zone.user(email_verified=False),
        )
        stranger = f"{new_id()}@example.com"

        async def set_to(services: Services, emails: list[str]) -> list[str]:
            caller = Caller("test", "system", api.organization_id, "org_admin", "test")
            async with unit_of_work(services, caller, "r") as unit:
                group = Group.model_validate(made)
                await groups.set_members(unit, group, emails)
                return await groups.emails(unit, group)

        wanted = [known.email.upper(), unverified.email, stranger]
        told = api.server.call(lambda services: set_to(services, wanted))
        assert told == sorted(email.lower() for email in wanted)
        members = api.ok("GET", zone.path(f"/groups/{made['id']}/members"))["items"]
        assert [one["user_id"] for one in members] == [known.id]
        assert api.server.call(lambda services: set_to(services, [stranger])) == [stranger]
        assert api.ok("GET", zone.path(f"/groups/{made['id']}/members"))["items"] == []

    def test_deleting_takes_memberships_and_roles_along(self, api: Api, zone: Zone) -> None:
        """Nobody keeps a role through a group that is gone."""
        group, role, user = zone.make("groups"), zone.make("roles"), zone.user()
        api.ok("POST", zone.path(f"/groups/{group['id']}/members"), {"user_id": user.id})
        api.ok("POST", zone.path(f"/groups/{group['id']}/roles"), {"role_id": role["id"]})
        api.ok("DELETE", zone.path(f"/groups/{group['id']}"))
        expand = "expand[]=groups&expand[]=role-assignments&role_source=all"
        found = api.ok("GET", zone.path(f"/users/{user.id}?{expand}"))
        assert found["groups"] == []
        assert found["role_assignments"] == []


def _make_external(zone: Zone, group_id: str) -> None:
    async def write(services: Services) -> None:
        from runtime.storage.sql.tables import TABLES

        table = TABLES["Group"]
        async with services.database.transaction() as conn:
            await conn.execute(
                table.update().where(table.c.zone_id == zone.id, table.c.id == group_id).values(external=True)
            )

    zone.api.server.call(write)

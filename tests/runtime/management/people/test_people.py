"""Groups, users, and the roles that people, applications and groups hold."""

import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.role import Group
from runtime.services.exchange import epochs
from runtime.services.management.access.caller import Caller
from runtime.services.management.people import groups
from runtime.services.management.unit import unit_of_work
from runtime.services.parts import Parts
from runtime.storage.sql.tables import sessions


class TestGroups:
    def test_identifier_comes_from_the_name(self, zone: Zone) -> None:
        """Without an identifier the group gets a slug of its name, with a suffix when that is taken."""
        name = zone.api.named("The Team")
        first, second = zone.make("groups", name=name), zone.make("groups", name=name)
        assert first["identifier"] == name.lower().replace(" ", "-")
        assert second["identifier"].startswith(f"{first['identifier']}-")
        assert first["external"] is False

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
        api.refused(400, "POST", base, {"user_id": foreign.id, "role": "x"})

    def test_expansions(self, api: Api, zone: Zone) -> None:
        """Member counts and roles appear when they are asked, on the list and on one group."""
        group, role = zone.make("groups"), zone.make("roles")
        for _ in range(2):
            api.ok("POST", zone.path(f"/groups/{group['id']}/members"), {"user_id": zone.user().id})
        api.ok("POST", zone.path(f"/groups/{group['id']}/roles"), {"role_id": role["id"]})
        assert "member_count" not in api.ok("GET", zone.path(f"/groups/{group['id']}"))
        for expand in ("expand[]", "expand"):
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

        async def set_to(parts: Parts, emails: list[str]) -> list[str]:
            caller = Caller("test", "system", api.organization_id, "org_admin", "test")
            async with unit_of_work(parts, caller, "r") as unit:
                group = Group.model_validate(made)
                await groups.set_members(unit, group, emails)
                return await groups.emails(unit, group)

        wanted = [known.email.upper(), unverified.email, stranger]
        told = api.server.call(lambda parts: set_to(parts, wanted))
        assert told == sorted(email.lower() for email in wanted)
        members = api.ok("GET", zone.path(f"/groups/{made['id']}/members"))["items"]
        assert [one["user_id"] for one in members] == [known.id]
        assert api.server.call(lambda parts: set_to(parts, [stranger])) == [stranger]
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
    async def write(parts: Parts) -> None:
        from runtime.storage.sql.tables import TABLES

        table = TABLES["Group"]
        async with parts.database.transaction() as conn:
            await conn.execute(
                table.update().where(table.c.zone_id == zone.id, table.c.id == group_id).values(external=True)
            )

    zone.api.server.call(write)


def _session(zone: Zone, user_id: str) -> str:
    """An active session of a user."""
    session_id = new_id()

    async def write(parts: Parts) -> None:
        now = parts.clock()
        async with parts.database.transaction() as conn:
            await conn.execute(
                sessions.insert().values(
                    id=session_id,
                    organization_id=zone.body["organization_id"],
                    zone_id=zone.id,
                    user_id=user_id,
                    session_type="user",
                    status="active",
                    epoch=1,
                    authenticated_at=now,
                    expires_at=now,
                    amr=[],
                    session_data={},
                    metadata={},
                    created_at=now,
                    updated_at=now,
                )
            )

    zone.api.server.call(write)
    return session_id


class TestUsers:
    def test_are_not_made_here(self, api: Api, zone: Zone) -> None:
        """Users come from signing in: there is no create."""
        api.refused(405, "POST", zone.path("/users"), {"email": "a@example.com"})

    def test_change(self, api: Api, zone: Zone) -> None:
        """Status, address and identifier; a new address counts as not verified."""
        user = zone.user()
        path = zone.path(f"/users/{user.id}")
        email = f"{new_id()}@example.com"
        changed = api.ok("PATCH", path, {"email": email, "identifier": api.named()})
        assert changed["email"] == email
        assert changed["email_verified"] is False
        assert changed["external"] is False
        api.refused(400, "PATCH", path, {"email": "no address"})
        api.refused(400, "PATCH", path, {"email_verified": True})
        api.refused(400, "PATCH", path, {"status": "sleeping"})

    def test_identifiers_are_unique(self, api: Api, zone: Zone) -> None:
        """Two users cannot be the same to policies."""
        first, second = zone.user(), zone.user()
        api.refused(409, "PATCH", zone.path(f"/users/{second.id}"), {"identifier": first.identifier})

    def test_disabling_ends_sessions(self, api: Api, zone: Zone) -> None:
        """A disabled user's sessions are revoked, and workers hear of it at once."""
        user = zone.user()
        session_id = _session(zone, user.id)
        assert api.ok("PATCH", zone.path(f"/users/{user.id}"), {"status": "disabled"})["status"] == "disabled"

        async def look(parts: Parts) -> tuple[str, list[bytes | None]]:
            async with parts.database.reading() as conn:
                row = (await conn.execute(sessions.select().where(sessions.c.id == session_id))).one()
            keys = [epochs.user_key(user.id), epochs.session_key(session_id)]
            return row.status, await parts.state.fetch(keys)

        status, published = api.server.call(look)
        assert status == "revoked"
        assert [int(value or 0) for value in published] == [2, 2]

    def test_directory_users_change_in_the_directory(self, api: Api, zone: Zone) -> None:
        """While the zone is synchronized, a directory's user is not changed here."""
        synced = api.zone()
        user = synced.user(external=True)
        assert api.ok("PATCH", synced.path(f"/users/{user.id}"), {"status": "active"})
        api.ok("PATCH", synced.path(), {"external_sync_enabled": True})
        api.refused(409, "PATCH", synced.path(f"/users/{user.id}"), {"status": "disabled"})

    def test_expansions(self, api: Api, zone: Zone) -> None:
        """Everything that can be asked about a user, on the list."""
        user, group, role, direct = zone.user(), zone.make("groups"), zone.make("roles"), zone.make("roles")
        api.ok("POST", zone.path(f"/groups/{group['id']}/members"), {"user_id": user.id})
        api.ok("POST", zone.path(f"/groups/{group['id']}/roles"), {"role_id": role["id"]})
        api.ok("POST", zone.path(f"/users/{user.id}/roles"), {"role_id": direct["id"]})
        _session(zone, user.id)
        values = (
            "credentials",
            "credentials.provider",
            "grant_count",
            "groups",
            "role-assignments",
            "session_count",
        )
        query = "&".join(f"expand[]={value}" for value in values)
        path = zone.path(f"/users?filter[id]={user.id}")
        plain = api.ok("GET", path)["items"][0]
        assert not {"credentials", "groups", "role_assignments", "grant_count"} & set(plain)
        found = api.ok("GET", f"{path}&{query}")["items"][0]
        assert found["credentials"] == []
        assert found["grant_count"] == 0
        assert found["session_count"] == 1
        assert [one["identifier"] for one in found["groups"]] == [group["identifier"]]
        assert [(one["role_id"], one["source"]) for one in found["role_assignments"]] == [
            (direct["id"], "user")
        ]
        everything = api.ok("GET", f"{path}&{query}&role_source=all")["items"][0]["role_assignments"]
        assert {(one["source"], one.get("group_id")) for one in everything} == {
            ("user", None),
            ("group", group["id"]),
        }
        api.refused(400, "GET", f"{path}&{query}&role_source=none")

    def test_filters(self, api: Api) -> None:
        """By group, by role, by address, and by text."""
        zone = api.zone()
        ada, bob = zone.user("Ada.Lovelace@example.com"), zone.user("bob_100%@example.com", external=True)
        group, role = zone.make("groups"), zone.make("roles")
        api.ok("POST", zone.path(f"/groups/{group['id']}/members"), {"user_id": ada.id})
        api.ok("POST", zone.path(f"/users/{bob.id}/roles"), {"role_id": role["id"]})
        for query, expected in (
            (f"filter[groups]={group['id']}", [ada.id]),
            (f"filter[role]={role['identifier']}", [bob.id]),
            ("filter[external]=true", [bob.id]),
            ("filter[external]=false", [ada.id]),
            ("query[email]=LOVELACE", [ada.id]),
            ("query[email]=lovelace&query[email]=bob", [ada.id, bob.id]),
            ("query[]=example.com", [ada.id, bob.id]),
            ("query[email]=%25", [bob.id]),
            ("query[email]=_", [bob.id]),
            ("query[email]='%20or%201=1", []),
            (f"filter[identifier]={ada.identifier}&filter[identifier]={bob.identifier}", [ada.id, bob.id]),
        ):
            found = api.ok("GET", zone.path(f"/users?{query}"))["items"]
            assert {one["id"] for one in found} == set(expected), query
        api.refused(400, "GET", zone.path("/users?filter[external]=maybe"))

    def test_deleting_removes_everything_of_theirs(self, api: Api, zone: Zone) -> None:
        """Sessions, memberships and assignments go with the user."""
        user, group, role = zone.user(), zone.make("groups"), zone.make("roles")
        api.ok("POST", zone.path(f"/groups/{group['id']}/members"), {"user_id": user.id})
        api.ok("POST", zone.path(f"/users/{user.id}/roles"), {"role_id": role["id"]})
        _session(zone, user.id)
        assert api("DELETE", zone.path(f"/users/{user.id}")).status_code == 204
        api.refused(404, "GET", zone.path(f"/users/{user.id}"))
        assert api.ok("GET", zone.path(f"/groups/{group['id']}/members"))["items"] == []


@pytest.mark.parametrize("principal", ["users", "applications", "groups"])
class TestRoleAssignments:
    def test_given_listed_and_taken(self, api: Api, zone: Zone, principal: str) -> None:
        """By id or by name; a second time is 409, taking it twice 404."""
        base = self._base(zone, principal)
        role = zone.make("roles")
        made = api.ok("POST", base, {"role_id": role["id"]}, status=201)
        assert made["role_identifier"] == role["identifier"]
        assert made["role_owner_type"] == "customer"
        assert made["principal_type"] == principal[:-1]
        assert made["scope_id"] is None
        assert made["scope_type"] is None
        by_name = {"role_identifier": role["identifier"], "owner_type": "customer"}
        api.refused(409, "POST", base, by_name)
        listed = api.ok("GET", f"{base}?filter[id]={made['id']}&expand[]=total_count")
        assert listed["items"] == [made]
        assert listed["pagination"]["total_count"] == 1
        assert api("DELETE", f"{base}/{role['id']}").status_code == 204
        api.refused(404, "DELETE", f"{base}/{role['id']}")
        assert api.ok("POST", base, by_name)["role_id"] == role["id"]

    def test_deleting_the_role_ends_them(self, api: Api, zone: Zone, principal: str) -> None:
        """No assignment outlives its role."""
        base, role = self._base(zone, principal), zone.make("roles")
        api.ok("POST", base, {"role_id": role["id"]})
        api.ok("DELETE", zone.path(f"/roles/{role['id']}"))
        assert api.ok("GET", base)["items"] == []

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"role_id": "ID", "role_identifier": "x"},
            {"role_identifier": "x"},
            {"role_id": "ID", "owner_type": "customer"},
            {"role_id": "ID", "scope_id": "x"},
            {"role_id": "ID", "scope_type": "zone"},
            {"role_id": "ID", "scope_type": "zone", "scope_id": "x"},
            {"role_id": "ID", "principal_id": "x"},
        ],
    )
    def test_rules_of_the_body(self, api: Api, zone: Zone, principal: str, body: dict[str, str]) -> None:
        """Exactly one way of naming the role, a scope whole or not at all and only where it may be."""
        role = zone.make("roles")
        body = {name: role["id"] if value == "ID" else value for name, value in body.items()}
        assert api.refused(400, "POST", self._base(zone, principal), body)["code"] == "validation_error"

    def test_unknown_roles_are_404(self, api: Api, zone: Zone, principal: str) -> None:
        """A role that is nowhere, of another zone, or of the other owner."""
        base = self._base(zone, principal)
        foreign = api.zone().make("roles")
        for body in (
            {"role_id": new_id()},
            {"role_id": foreign["id"]},
            {"role_identifier": "zone_manager", "owner_type": "customer"},
        ):
            api.refused(404, "POST", base, body)

    def test_scopes(self, api: Api, zone: Zone, principal: str) -> None:
        """Platform roles of the organization's own zone can be limited to another of its zones."""
        own = Zone(api, api.ok("GET", "/zones")["items"][0])
        assert own.body["owner_type"] == "platform"
        base = self._base(own, principal)
        role = {"role_identifier": "zone_viewer", "owner_type": "platform"}
        scoped = {**role, "scope_type": "zone", "scope_id": zone.id}
        made = api.ok("POST", base, scoped)
        assert made["scope_id"] == zone.id
        assert made["scope_type"] == "zone"
        api.refused(409, "POST", base, scoped)
        api.ok("POST", base, role)
        for wrong in (own.id, new_id()):
            api.refused(400, "POST", base, {**role, "scope_type": "zone", "scope_id": wrong})
        api.refused(400, "POST", base, {**role, "scope_type": "planet", "scope_id": zone.id})
        custom = own.make("roles")
        api.refused(400, "POST", base, {"role_id": custom["id"], "scope_type": "zone", "scope_id": zone.id})
        path = f"{base}/{made['role_id']}"
        api.refused(400, "DELETE", f"{path}?scope_type=zone")
        api.refused(404, "DELETE", f"{path}?scope_type=zone&scope_id={new_id()}")
        assert api("DELETE", f"{path}?scope_type=zone&scope_id={zone.id}").status_code == 204
        assert len(api.ok("GET", base)["items"]) == 1

    @staticmethod
    def _base(zone: Zone, principal: str) -> str:
        made = zone.user().id if principal == "users" else zone.make(principal)["id"]
        return zone.path(f"/{principal}/{made}/roles")

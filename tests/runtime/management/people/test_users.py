"""Users of a zone: changed, disabled and let go."""

from dataclasses import dataclass
from typing import Any

import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.domain.identifiers import new_id
from runtime.services import epochs
from runtime.services.container import Services
from runtime.storage.sql import users
from runtime.storage.sql.tables import sessions


class TestUsers:
    def test_are_not_made_here(self, api: Api, zone: Zone) -> None:
        """Users come from signing in: there is no create."""
        api.refused(405, "POST", zone.path("/users"), {"email": "a@example.com"})

    def test_a_new_address_counts_as_not_verified(self, api: Api, zone: Zone) -> None:
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
        session_id = zone.session(user.id)
        assert api.ok("PATCH", zone.path(f"/users/{user.id}"), {"status": "disabled"})["status"] == "disabled"

        async def look(services: Services) -> tuple[str, list[bytes | None]]:
            async with services.database.reading() as conn:
                row = (await conn.execute(sessions.select().where(sessions.c.id == session_id))).one()
            keys = [epochs.user_key(user.id), epochs.session_key(session_id)]
            return row.status, await services.state.fetch(keys)

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

    def test_a_list_expands_all_that_can_be_asked_of_a_user(self, api: Api, zone: Zone) -> None:
        """Everything that can be asked about a user, on the list."""
        user, group, role, direct = zone.user(), zone.make("groups"), zone.make("roles"), zone.make("roles")
        api.ok("POST", zone.path(f"/groups/{group['id']}/members"), {"user_id": user.id})
        api.ok("POST", zone.path(f"/groups/{group['id']}/roles"), {"role_id": role["id"]})
        api.ok("POST", zone.path(f"/users/{user.id}/roles"), {"role_id": direct["id"]})
        zone.session(user.id)
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

    def test_a_credential_outlives_its_provider(self, api: Api, zone: Zone) -> None:
        """`provider_id` is null then, so that nobody takes the credential for one of another type."""
        user, provider = zone.user(), zone.make("providers")

        async def add(services: Services) -> None:
            now = services.clock()
            async with services.database.transaction() as conn:
                at = {"issuer": "https://corp.example", "subject": "ada"}
                await users.add_federation(conn, user, provider_id=provider["id"], **at, now=now)
                await users.add_password(conn, user, password_hash="hash", now=now)

        api.server.call(add)
        path = zone.path(f"/users?filter[id]={user.id}&expand[]=credentials.provider")

        def credentials() -> dict[str, dict[str, Any]]:
            (found,) = api.ok("GET", path)["items"]
            return {one["type"]: one for one in found["credentials"]}

        before = credentials()
        assert before["federation"]["provider_id"] == before["federation"]["provider"]["id"] == provider["id"]
        assert set(before["password"]) == {"type", "created_at", "updated_at"}

        api.ok("DELETE", zone.path(f"/providers/{provider['id']}"))
        after = credentials()
        assert after["federation"]["provider_id"] is None
        assert set(after["federation"]) == set(before["federation"]) - {"provider"}
        assert after["password"] == before["password"]

    def test_deleting_removes_everything_of_theirs(self, api: Api, zone: Zone) -> None:
        """Sessions, memberships and assignments go with the user."""
        user, group, role = zone.user(), zone.make("groups"), zone.make("roles")
        api.ok("POST", zone.path(f"/groups/{group['id']}/members"), {"user_id": user.id})
        api.ok("POST", zone.path(f"/users/{user.id}/roles"), {"role_id": role["id"]})
        zone.session(user.id)
        assert api("DELETE", zone.path(f"/users/{user.id}")).status_code == 204
        api.refused(404, "GET", zone.path(f"/users/{user.id}"))
        assert api.ok("GET", zone.path(f"/groups/{group['id']}/members"))["items"] == []


@dataclass(frozen=True)
class AdaAndBob:
    """A zone with two users: `ada` is in the group, `bob` comes from elsewhere and holds the role."""

    zone: Zone
    ids: dict[str, str]
    values: dict[str, str]


@pytest.fixture(scope="module")
def people(api: Api) -> AdaAndBob:
    zone = api.zone()
    ada, bob = zone.user("Ada.Lovelace@example.com"), zone.user("bob_100%@example.com", external=True)
    group, role = zone.make("groups"), zone.make("roles")
    api.ok("POST", zone.path(f"/groups/{group['id']}/members"), {"user_id": ada.id})
    api.ok("POST", zone.path(f"/users/{bob.id}/roles"), {"role_id": role["id"]})
    values = {"group": group["id"], "role": role["identifier"], "ada": ada.identifier, "bob": bob.identifier}
    return AdaAndBob(zone, {"ada": ada.id, "bob": bob.id}, values)


class TestFilters:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            pytest.param("filter[groups]={group}", ["ada"], id="group"),
            pytest.param("filter[role]={role}", ["bob"], id="role"),
            pytest.param("filter[external]=true", ["bob"], id="external"),
            pytest.param("filter[external]=false", ["ada"], id="not external"),
            pytest.param("query[email]=LOVELACE", ["ada"], id="address in capitals"),
            pytest.param("query[email]=lovelace&query[email]=bob", ["ada", "bob"], id="either address"),
            pytest.param("query[]=example.com", ["ada", "bob"], id="text"),
            pytest.param("query[email]=%25", ["bob"], id="percent sign"),
            pytest.param("query[email]=_", ["bob"], id="underscore"),
            pytest.param("query[email]='%20or%201=1", [], id="SQL"),
            pytest.param(
                "filter[identifier]={ada}&filter[identifier]={bob}", ["ada", "bob"], id="either identifier"
            ),
        ],
    )
    def test_a_list_has_those_who_match(
        self, api: Api, people: AdaAndBob, query: str, expected: list[str]
    ) -> None:
        """By group, by role, by address, and by text, in which no character is special."""
        path = people.zone.path(f"/users?{query.format(**people.values)}")
        assert {one["id"] for one in api.ok("GET", path)["items"]} == {people.ids[who] for who in expected}

    def test_a_value_that_is_no_boolean_is_refused(self, api: Api, people: AdaAndBob) -> None:
        """400 for `filter[external]=maybe`."""
        api.refused(400, "GET", people.zone.path("/users?filter[external]=maybe"))

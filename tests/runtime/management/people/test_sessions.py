"""Sessions and delegated grants: listed as they stand now, and ended for good."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest
from tests.runtime.management.conftest import Api
from tests.runtime.management.conftest import Zone as Filled
from tests.support.factories import App, Company, Person, operator

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import PROVIDER
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.services.container import Services
from runtime.storage.sql import consents, entities, refresh_families
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.consents import ConsentRecord
from runtime.storage.sql.refresh_families import RefreshFamily
from runtime.storage.sql.tables import delegated_grants


@dataclass
class Place:
    """A zone in which ann has signed in to an agent and agreed to what it does at an API."""

    api: Api
    company: Company
    entity: Zone
    resource: Resource
    agent: App
    ann: Person
    token: str
    grant_id: str

    def path(self, rest: str = "") -> str:
        return f"/zones/{self.entity.id}{rest}"

    @property
    def session_path(self) -> str:
        return self.path(f"/sessions/{self.ann.session_id}")

    @property
    def grant_path(self) -> str:
        return self.path(f"/delegated-grants/{self.grant_id}")

    def ids(self, rest: str) -> set[str]:
        return {one["id"] for one in self.api.ok("GET", self.path(rest))["items"]}

    def session(self, **members: Any) -> str:
        """Another session of ann's."""
        zone = Filled(self.api, {"id": self.entity.id, "organization_id": self.entity.organization_id})
        return zone.session(self.ann.user.id, **members)

    def child(self) -> str:
        """What the agent holds of ann's session."""
        return self.session(
            parent_id=self.ann.session_id, session_type="application", application_id=self.agent.id
        )

    def refresh_token(self, session_id: str) -> str:
        """A refresh token that the agent has through a session."""
        family_id = new_id()
        token = f"{family_id}.{new_secret()}"

        async def add(services: Services) -> None:
            now = services.clock()
            family = RefreshFamily(
                id=family_id,
                zone_id=self.entity.id,
                application_id=self.agent.id,
                client_id=self.agent.client_id,
                session_id=session_id,
                user_id=self.ann.user.id,
                scopes=["openid"],
                resources={},
                current_hash=services.hasher.hash(token),
                expires_at=now + timedelta(hours=1),
                created_at=now,
            )
            async with services.database.transaction() as conn:
                await refresh_families.add(conn, family)

        self.api.server.call(add)
        return token

    def oauth(self, **form: str) -> httpx.Response:
        """The answer of the token endpoint to the agent."""
        issuer = self.entity.protocols.oauth2.issuer
        return httpx.post(f"{issuer}/oauth/token", data={**form, **self.agent.form}, trust_env=False)

    def exchange(self) -> httpx.Response:
        return self.oauth(
            grant_type=GRANT_TYPE,
            subject_token=self.token,
            subject_token_type=ACCESS_TOKEN,
            resource=self.resource.identifier,
        )

    def refresh(self, token: str) -> httpx.Response:
        return self.oauth(grant_type="refresh_token", refresh_token=token)

    def userinfo(self) -> httpx.Response:
        endpoint = str(self.entity.protocols.openid.userinfo_endpoint)
        return httpx.get(endpoint, headers={"Authorization": f"Bearer {self.token}"}, trust_env=False)


@pytest.fixture
def place(api: Api) -> Place:
    caller = operator(api.organization_id)
    company = Company(api.server.services, caller, api.organization_id, api.server.api_key)

    async def make(services: Services) -> Place:
        zone = await company.zone(api.named("zone"))
        resource = await company.resource(zone, "https://api.test", scopes=["read"])
        agent = await company.app(zone, "agent", consent="required", dependencies=[resource])
        ann = await company.person(zone, "ann@acme.test")
        of_this = {"zone_id": zone.id, "user_id": ann.user.id}
        return Place(
            api,
            company,
            zone,
            resource,
            agent,
            ann,
            await company.token(zone, agent, ann),
            await _agree(services, zone, resource, agent, of_this),
        )

    return api.server.call(make)


async def _agree(
    services: Services, zone: Zone, resource: Resource, agent: App, of_this: dict[str, str]
) -> str:
    now = services.clock()
    async with services.database.transaction() as conn:
        provider = await entities.find_by(conn, PROVIDER, "type", "service-sts", within={"zone_id": zone.id})
        assert provider is not None
        agreed = [
            ConsentRecord(consents.SIGN_IN, frozenset({"openid"}), "agent.test"),
            ConsentRecord(resource.id, frozenset({"read"}), "agent.test"),
        ]
        await consents.record(conn, agreed, client_ref=ClientRef(application_id=agent.id), now=now, **of_this)
        grant_id, _ = await consents.grant(
            conn,
            organization_id=zone.organization_id,
            resource_id=resource.id,
            provider_id=provider.id,
            scopes=["read"],
            now=now,
            **of_this,
        )
    return grant_id


class TestSessions:
    def test_a_session_does_not_say_how_its_browser_is_recognised(self, place: Place) -> None:
        """What a session says of itself; how browsers are recognised it does not say."""
        found = place.api.ok("GET", place.session_path)
        assert set(found) == {
            *("id", "created_at", "updated_at", "organization_id", "zone_id"),
            *("session_type", "active", "authenticated_at", "expires_at", "parent_id"),
            *("session_data", "status", "user_id", "user"),
        }
        assert (found["session_type"], found["status"], found["active"]) == ("user", "active", True)
        assert found["parent_id"] is None
        assert found["user_id"] == place.ann.user.id

    def test_an_application_without_a_user_has_one(self, place: Place) -> None:
        """Listed beside those of users, with whoever vouches for the application; nobody else's is named."""
        granted = place.oauth(grant_type="client_credentials")
        assert granted.status_code == 200, granted.text

        listed = place.api.ok("GET", place.path("/sessions"))["items"]
        (found,) = [each for each in listed if each["id"] != place.ann.session_id]
        assert place.ids("/sessions?session_type=application") == {found["id"]}
        assert place.ids("/sessions?session_type=user") == {place.ann.session_id}
        assert {"user_id", "user", "user_agent_id", "user_agent"}.isdisjoint(found)
        assert found["parent_id"] is None
        assert (found["session_type"], found["status"], found["active"]) == ("application", "active", True)
        assert (found["application_id"], found["subject"]) == (place.agent.id, "agent")
        assert found["issuer"] == found["session_data"]["iss"] == str(place.entity.protocols.oauth2.issuer)
        assert place.api.ok("GET", place.path(f"/providers/{found['provider_id']}"))["type"] == "service-sts"

        revoked = place.api.ok("PATCH", place.path(f"/sessions/{found['id']}"), {"status": "revoked"})
        assert (revoked["status"], revoked["active"]) == ("revoked", False)
        place.api.ok("DELETE", place.path(f"/sessions/{found['id']}"), status=204)
        assert place.ids("/sessions?session_type=application") == set()

    def test_names_the_application_that_began_it(self, place: Place) -> None:
        """`metadata` is there once it has something to say, and a child says whose it is."""
        named = place.session(metadata={"name": "Agent"})
        assert place.api.ok("GET", place.path(f"/sessions/{named}"))["metadata"] == {"name": "Agent"}
        child = place.api.ok("GET", place.path(f"/sessions/{place.child()}"))
        assert (child["parent_id"], child["application_id"]) == (place.ann.session_id, place.agent.id)

    def test_nested_ones_are_listed_when_asked(self, place: Place) -> None:
        """A list without `include_nested` has the top level alone, and counts that."""
        top, child = place.ann.session_id, place.child()
        assert place.ids("/sessions") == {top}
        assert place.ids("/sessions?include_nested=true") == {top, child}
        listed = place.api.ok("GET", place.path("/sessions?expand[]=total_count"))
        assert listed["pagination"]["total_count"] == 1
        place.api.refused(400, "GET", place.path("/sessions?include_nested=false"))

    def test_cursors_hold_for_the_same_question_only(self, place: Place) -> None:
        """Cursors lead through the list and hold for the same question only."""
        wanted = {place.ann.session_id, place.session(), place.session()}
        first = place.api.ok("GET", place.path("/sessions?limit=2"))
        cursor = first["pagination"]["after_cursor"]
        second = place.api.ok("GET", place.path(f"/sessions?limit=2&after={cursor}"))
        assert {one["id"] for one in first["items"] + second["items"]} == wanted
        place.api.refused(400, "GET", place.path(f"/sessions?include_nested=true&after={cursor}"))

    def test_an_end_that_has_come_shows(self, place: Place) -> None:
        """`expired` follows from the clock, in the answer and in the filter."""
        over = place.session(expires_at=place.api.server.services.clock() - timedelta(hours=1))
        found = place.api.ok("GET", place.path(f"/sessions/{over}"))
        assert (found["status"], found["active"]) == ("expired", False)
        assert place.ids("/sessions?status=expired") == {over}
        assert place.ids("/sessions?status=active") == {place.ann.session_id}
        assert place.ids("/sessions?active=true") == {place.ann.session_id}
        assert place.ids("/sessions?status=revoked") == set()
        place.api.refused(400, "GET", place.path("/sessions?status=revoked&active=true"))
        place.api.refused(400, "GET", place.path("/sessions?status=asleep"))

    def test_sessions_are_selected_by_user_and_kind(self, place: Place) -> None:
        """By user, and by whose session it is."""
        assert place.ids(f"/sessions?user_id={place.ann.user.id}") == {place.ann.session_id}
        assert place.ids(f"/sessions?user_id={new_id()}") == set()
        assert place.ids("/sessions?session_type=user") == {place.ann.session_id}
        assert place.ids("/sessions?session_type=application") == set()

    @pytest.mark.parametrize(
        "query", ["filter[user_id]={id}", "filter[status]=active", "userid={id}", "query[name]=a"]
    )
    def test_an_unknown_filter_is_refused(self, place: Place, query: str) -> None:
        """An answer to another question than the one that was asked misleads, an empty list most of all."""
        assert place.ids(f"/sessions?user_id={place.ann.user.id}") == {place.ann.session_id}
        told = place.api.refused(400, "GET", place.path(f"/sessions?{query.format(id=place.ann.user.id)}"))
        assert told["details"][0]["field"] == query.partition("=")[0]

    def test_revoking_takes_children_and_refresh_tokens_along(self, place: Place) -> None:
        """What hangs on a session ends with it; the others of the user go on."""
        child, beside = place.child(), place.session()
        family = place.refresh_token(child)
        changed = place.api.ok("PATCH", place.session_path, {"status": "revoked"})
        assert (changed["status"], changed["active"]) == ("revoked", False)
        assert place.ids("/sessions?include_nested=true&status=revoked") == {place.ann.session_id, child}
        assert place.ids("/sessions?status=active") == {beside}

        async def look(services: Services) -> str:
            async with services.database.reading() as conn:
                kept = await refresh_families.find(conn, family.partition(".")[0], zone_id=place.entity.id)
            return kept.status if kept else "gone"

        assert place.api.server.call(look) == "revoked"

    def test_revoking_again_changes_nothing(self, place: Place) -> None:
        """The same answer, to the moment."""
        first = place.api.ok("PATCH", place.session_path, {"status": "revoked"})
        assert place.api.ok("PATCH", place.session_path, {"status": "revoked"}) == first

    @pytest.mark.parametrize(
        "body", [{}, {"status": "active"}, {"status": "expired"}, {"status": "revoked", "user_id": "x"}]
    )
    def test_nothing_but_revoked_can_be_set(self, place: Place, body: dict[str, str]) -> None:
        """A session or a grant is never brought back, prolonged or given to somebody."""
        place.api.refused(400, "PATCH", place.session_path, body)
        place.api.refused(400, "PATCH", place.grant_path, body)
        assert place.api.ok("PATCH", place.session_path, {"status": "revoked"})["status"] == "revoked"
        assert place.api.ok("PATCH", place.grant_path, {"status": "revoked"})["status"] == "revoked"

    def test_a_deleted_session_takes_those_below_it_along(self, place: Place) -> None:
        """The session and those below it are gone."""
        child = place.child()
        assert place.api("DELETE", place.session_path).status_code == 204
        for gone in (place.ann.session_id, child):
            place.api.refused(404, "GET", place.path(f"/sessions/{gone}"))
        place.api.refused(404, "DELETE", place.session_path)

    @pytest.mark.parametrize("kind", ["session", "grant"])
    def test_viewers_end_nothing(self, place: Place, kind: str) -> None:
        """Whoever may only read sees sessions and grants, and leaves them alone."""
        viewer = place.api.with_role("org_viewer")
        path = place.session_path if kind == "session" else place.grant_path
        assert viewer.ok("GET", path)["status"] == "active"
        viewer.refused(403, "PATCH", path, {"status": "revoked"})
        viewer.refused(403, "DELETE", path)

    def test_a_zone_with_sessions_can_go(self, place: Place) -> None:
        """Nothing that sign-in left behind holds a zone back."""
        place.child()
        assert place.api("DELETE", place.path()).status_code == 204


class TestGrants:
    def test_the_answer_has_user_resource_and_provider(self, place: Place) -> None:
        """Who allowed what, where, through which provider."""
        found = place.api.ok("GET", place.grant_path)
        assert set(found) == {
            *("id", "created_at", "updated_at", "organization_id", "zone_id", "active", "expires_at"),
            *("provider_id", "refresh_token_set", "resource_id", "scopes", "status", "user_id"),
            *("provider", "resource", "user"),
        }
        assert (found["status"], found["active"], found["scopes"]) == ("active", True, ["read"])
        assert found["expires_at"].startswith("9999-12-31")

    def test_lists_are_selected_by_user_resource_and_status(self, place: Place) -> None:
        """By user, by resource, by status under both of its names."""
        mine = {place.grant_id}
        assert not [
            query
            for query in (
                f"user_id={place.ann.user.id}",
                f"resource_id={place.resource.id}",
                "status=active",
                "active=true",
                "sort=created_at",
            )
            if place.ids(f"/delegated-grants?{query}") != mine
        ]
        assert not [
            query
            for query in (
                f"user_id={new_id()}",
                f"resource_id={new_id()}",
                "status=revoked",
                "status=expired",
            )
            if place.ids(f"/delegated-grants?{query}")
        ]

    def test_an_end_that_has_come_shows(self, place: Place) -> None:
        """`expired` follows from the clock, in the answer and in the filter."""
        _end_grant(place)
        found = place.api.ok("GET", place.grant_path)
        assert (found["status"], found["active"]) == ("expired", False)
        assert place.ids("/delegated-grants?status=expired") == {place.grant_id}
        assert place.ids("/delegated-grants?active=true") == set()

    def test_revoking_again_changes_nothing(self, place: Place) -> None:
        """The same answer, to the moment."""
        first = place.api.ok("PATCH", place.grant_path, {"status": "revoked"})
        assert (first["status"], first["active"]) == ("revoked", False)
        assert place.api.ok("PATCH", place.grant_path, {"status": "revoked"}) == first
        assert place.ids("/delegated-grants?status=revoked") == {place.grant_id}

    def test_a_deleted_session_is_gone(self, place: Place) -> None:
        """Gone once."""
        assert place.api("DELETE", place.grant_path).status_code == 204
        place.api.refused(404, "GET", place.grant_path)
        place.api.refused(404, "DELETE", place.grant_path)


def _end_grant(place: Place) -> None:
    async def write(services: Services) -> None:
        async with services.database.transaction() as conn:
            ended = services.clock() - timedelta(minutes=1)
            mine = delegated_grants.c.id == place.grant_id
            await conn.execute(delegated_grants.update().where(mine).values(expires_at=ended))

    place.api.server.call(write)


class TestNextRequest:
    """Over HTTP: what is ended here is refused at the very next request to the zone."""

    @pytest.mark.threat("18b", "18e", "18k")
    @pytest.mark.parametrize("method", ["PATCH", "DELETE"])
    def test_an_ended_session_gives_no_token(self, place: Place, method: str) -> None:
        """Exchange, userinfo and refresh, each of which has just worked."""
        current = place.refresh(place.refresh_token(place.ann.session_id)).json()["refresh_token"]
        assert place.exchange().status_code == 200
        assert place.userinfo().status_code == 200

        place.api.ok(method, place.session_path, {"status": "revoked"} if method == "PATCH" else None)

        assert {
            (refused.status_code, refused.json()["error"])
            for refused in (place.exchange(), place.refresh(current))
        } == {(400, "invalid_grant")}
        assert place.userinfo().status_code == 401

    @pytest.mark.threat("18a", "18e")
    @pytest.mark.parametrize("method", ["PATCH", "DELETE"])
    def test_an_ended_grant_gives_no_token(self, place: Place, method: str) -> None:
        """The user's word is asked again; until then there is no token."""
        assert place.exchange().status_code == 200

        place.api.ok(method, place.grant_path, {"status": "revoked"} if method == "PATCH" else None)

        refused = place.exchange()
        assert (refused.status_code, refused.json()["error"]) == (400, "access_denied")

    @pytest.mark.threat("18b", "18e")
    def test_an_ended_session_ends_the_chains_below_it(self, place: Place) -> None:
        """A chain that starts at a session below the browser's ends with the browser's."""
        child = Person(place.ann.user, place.child())
        place.token = place.api.server.call(
            lambda _services: place.company.token(place.entity, place.agent, child)
        )
        assert place.exchange().status_code == 200

        place.api.ok("PATCH", place.session_path, {"status": "revoked"})

        assert place.exchange().json()["error"] == "invalid_grant"

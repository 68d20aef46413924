"""One server a database for all tests of the management API, with two organizations that must not meet."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.factories import operator
from tests.support.server import Server, another_organization, revision_of

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.organization import OrganizationUser
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import OrganizationRole
from runtime.services.container import Services
from runtime.services.management.members import organization_users
from runtime.services.management.organizations import api_keys
from runtime.services.management.unit_of_work import unit_of_work
from runtime.storage.sql import api_keys as stored_keys
from runtime.storage.sql import consents, sessions
from runtime.storage.sql import users as user_storage
from runtime.storage.sql.sessions import SessionRecord
from runtime.storage.sql.tables import TABLES

_TAKEN_FOR: dict[str, str] = {}  # key id -> the role that it is taken to have
_find = stored_keys.find


async def _pretending(conn: AsyncConnection, key_id: str) -> stored_keys.PresentedKey | None:
    found = await _find(conn, key_id)
    if found is None or key_id not in _TAKEN_FOR:
        return found
    return replace(found, key=found.key.model_copy(update={"role": _TAKEN_FOR[key_id]}))


stored_keys.find = _pretending


@dataclass
class Api:
    """A caller of the management API."""

    client: httpx.Client
    server: Server
    organization_id: str

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """Send a request, with a JSON body when one is given."""
        if body is not None:
            more["json"] = body
        return self.client.request(method, path, **more)

    def ok(self, method: str, path: str, body: Any = None, *, status: int | None = None, **more: Any) -> Any:
        """The JSON of an answer that must be a success; None when it has no body."""
        response = self(method, path, body, **more)
        expected = (status,) if status else (200, 201, 204)
        assert response.status_code in expected, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def refused(self, status: int, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        """The error body of an answer that must be a refusal."""
        response = self(method, path, body, **more)
        assert response.status_code == status, f"{method} {path}: {response.status_code} {response.text}"
        told: dict[str, Any] = response.json()
        assert told["status"] == status
        return told

    def named(self, name: str | None = None) -> str:
        """A name that nothing has yet."""
        return f"{name or 'thing'}-{new_id()[:8]}"

    def zone(self, **members: Any) -> "Zone":
        """A new zone of this organization."""
        return Zone(self, self.ok("POST", "/zones", {"name": self.named("zone"), **members}))

    def home_zone(self) -> "Zone":
        """The zone in which the organization's users sign in."""
        organization = self.ok("GET", f"/organizations/{self.organization_id}")
        return Zone(self, self.ok("GET", f"/zones/{organization['zone_id']}"))

    def person(self, role: str = "org_member") -> OrganizationUser:
        """Somebody new who acts for this organization."""
        user = self.home_zone().user()

        async def join(services: Services) -> OrganizationUser:
            acting = operator(self.organization_id)
            async with unit_of_work(services, acting, new_id()) as unit:
                return await organization_users.add_home_user(unit, user, OrganizationRole(role))

        return self.server.call(join)

    def invite(self, email: str | None = None, role: str = "org_member") -> dict[str, Any]:
        """A new invitation."""
        body = {"email": email or f"{new_id()}@example.com", "role": role}
        made: dict[str, Any] = self.ok("POST", f"/organizations/{self.organization_id}/invitations", body)
        return made

    def revision(self) -> int:
        """The organization's revision."""
        return revision_of(replace(self.server, organization_id=self.organization_id))

    def apply(self) -> dict[str, Any]:
        """A new changeset: it creates a service account."""
        name = self.named("account")
        step = {"op": "create", "kind": "ServiceAccount", "name": name, "spec": {"name": name}}
        body = {"owner": self.named(), "plan_digest": self.named(), "operations": [step]}
        path = f"/organizations/{self.organization_id}/changesets"
        made: dict[str, Any] = self.ok("POST", path, {**body, "base_revision": self.revision()})
        return made

    def with_role(self, role: str) -> "Api":
        """The same organization, called with a key of that role.

        No key has a zone's role, or a service account's: what the table says of them is tried with a key that
        is taken for one.
        """
        is_real = role in tuple(OrganizationRole)
        key = self.server.call(
            lambda services: api_keys.create_for(
                services, self.organization_id, name=role, role=role if is_real else "org_viewer"
            )
        )
        if not is_real:
            _TAKEN_FOR[key.split("_")[1]] = role
        return caller(self.server, key, self.organization_id)

    def key(self, role: str = "org_admin", **members: Any) -> tuple[str, "Api"]:
        """The id of a new key that this caller makes, and who calls with it."""
        path = f"/organizations/{self.organization_id}/api-keys"
        made = self.ok("POST", path, {"name": self.named("key"), "role": role, **members}, status=201)
        return made["id"], caller(self.server, made["api_key"], self.organization_id)


@dataclass
class Zone:
    """A zone, and short ways to fill it."""

    api: Api
    body: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.body["id"])

    def path(self, rest: str = "") -> str:
        return f"/zones/{self.id}{rest}"

    def make(self, collection: str, **members: Any) -> dict[str, Any]:
        """A new entity: an identifier and a name are made up where they are needed."""
        name = self.api.named(collection)
        required: dict[str, Any] = {
            "applications": {"identifier": name, "name": name},
            "resources": {"identifier": f"https://{name}.example", "name": name},
            "providers": {"identifier": f"https://{name}.example", "name": name},
            "roles": {"identifier": name},
            "groups": {"name": name},
            "policies": {"name": name},
            "policy-sets": {"name": name},
        }.get(collection, {})
        made: dict[str, Any] = self.api.ok("POST", self.path(f"/{collection}"), {**required, **members})
        return made

    def password(self, application_id: str) -> dict[str, Any]:
        return self.make("application-credentials", type="password", application_id=application_id)

    def secret(self, entity_id: str, **members: Any) -> dict[str, Any]:
        """A new secret of an entity, a token unless it says otherwise."""
        data = {"type": "token", "token": self.api.named("token")}
        return self.make("secrets", **{"name": "kept", "entity_id": entity_id, "data": data} | members)

    def user(self, email: str | None = None, **members: Any) -> User:
        """A new user, as sign-in would make one."""
        now = self.api.server.services.clock()
        user_id = new_id()
        user = User(
            **{
                "id": user_id,
                "created_at": now,
                "updated_at": now,
                "organization_id": self.body["organization_id"],
                "zone_id": self.id,
                "identifier": user_id,
                "email": email or f"{user_id}@example.com",
                "email_verified": True,
            }
            | members
        )

        async def add(services: Services) -> None:
            async with services.database.transaction() as conn:
                await user_storage.add(conn, user)

        self.api.server.call(add)
        return user

    def user_agent(self) -> dict[str, Any]:
        """A client that registers itself."""
        address = self.body["protocols"]["oauth2"]["registration_endpoint"]
        metadata = {"redirect_uris": [f"https://{self.api.named('client')}.example/callback"]}
        registered = httpx.post(address, json=metadata, timeout=30, trust_env=False)
        assert registered.status_code == 201, registered.text
        listed = self.api.ok("GET", self.path("/user-agents?limit=100"))["items"]
        return next(one for one in listed if one["identifier"] == registered.json()["client_id"])

    def session(self, user_id: str, **members: Any) -> str:
        """A new session of a user, a browser's unless it says otherwise."""
        now = self.api.server.services.clock()
        made = SessionRecord(
            **{
                "id": new_id(),
                "organization_id": self.body["organization_id"],
                "zone_id": self.id,
                "user_id": user_id,
                "application_id": None,
                "session_type": "browser",
                "authenticated_at": now,
                "expires_at": now + timedelta(hours=8),
                "created_at": now,
                "updated_at": now,
            }
            | members
        )

        async def add(services: Services) -> None:
            async with services.database.transaction() as conn:
                await sessions.add(conn, made)

        self.api.server.call(add)
        return made.id

    def grant(self, user_id: str, resource_id: str) -> str:
        """A new delegated grant of a user, at the zone's own token service."""
        providers = self.api.ok("GET", self.path("/providers?filter[type]=service-sts"))["items"]

        async def add(services: Services) -> str:
            async with services.database.transaction() as conn:
                grant_id, _ = await consents.grant(
                    conn,
                    organization_id=self.body["organization_id"],
                    zone_id=self.id,
                    user_id=user_id,
                    resource_id=resource_id,
                    provider_id=providers[0]["id"],
                    scopes=[],
                    now=services.clock(),
                )
            return grant_id

        return self.api.server.call(add)

    def version(self, policy_id: str, text: str = "permit (principal, action, resource);") -> dict[str, Any]:
        """A new version of a policy."""
        schema = self.api.ok("GET", self.path("/policy-schemas"))["items"][0]["version"]
        made: dict[str, Any] = self.api.ok(
            "POST",
            self.path(f"/policies/{policy_id}/versions"),
            {"schema_version": schema, "cedar_raw": text},
        )
        return made

    def set_version(self, set_id: str, *versions: dict[str, Any]) -> dict[str, Any]:
        """A new version of a policy set, made of these policy versions."""
        schema = self.api.ok("GET", self.path("/policy-schemas"))["items"][0]["version"]
        entries = [{"policy_id": one["policy_id"], "policy_version_id": one["id"]} for one in versions]
        made: dict[str, Any] = self.api.ok(
            "POST",
            self.path(f"/policy-sets/{set_id}/versions"),
            {"schema_version": schema, "manifest": {"entries": entries}},
        )
        return made


def let_end(api: Api, key_id: str, *, ago: timedelta = timedelta(seconds=1)) -> None:
    """Let an API key have ended some time ago, which no operation can do."""

    async def change(services: Services) -> None:
        async with services.database.transaction() as conn:
            keys = TABLES["ApiKey"]
            ended_at = services.clock() - ago
            await conn.execute(update(keys).where(keys.c.id == key_id).values(expires_at=ended_at))

    api.server.call(change)


def caller(server: Server, key: str, organization_id: str) -> Api:
    client = httpx.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {key}"}, timeout=30, trust_env=False
    )
    return Api(client, server, organization_id)


def query(**values: Any) -> str:
    return "&".join(f"{quote(name)}={quote(str(value))}" for name, value in values.items())


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest) -> Server:
    """A server over each database in turn: all modules share it, each with an organization of its own."""
    return another_organization(request.getfixturevalue(f"zoned_on_{request.param}"), "Test")


@pytest.fixture(scope="module")
def api(server: Server) -> Api:
    """The administrator of the first organization."""
    return caller(server, server.api_key, server.organization_id)


@pytest.fixture(scope="module")
def other(server: Server) -> Api:
    """The administrator of another organization."""
    theirs = another_organization(server, "Other company")
    return caller(server, theirs.api_key, theirs.organization_id)


@pytest.fixture(scope="module")
def zone(api: Api) -> Zone:
    """A zone that tests share; what they make in it has names of its own."""
    return api.zone()


@pytest.fixture(scope="module")
def viewer(api: Api) -> Api:
    """Somebody who may read everything and change nothing."""
    return api.with_role("org_viewer")

"""A configuration, the commands for it, and changes by hand through the management API."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from tests.reconciler.conftest import Folder, Result
from tests.support.factories import company_of
from tests.support.server import Server

from runtime.domain.kinds import ZONE, Verb
from runtime.domain.kinds.zone import Zone
from runtime.services.container import Services
from runtime.storage.sql import entities

PERMIT = "permit(principal, action, resource);"
FORBID = "forbid(principal, action, resource);"
SCHEMA = "2026-11-21"

_ZONE = """apiVersion: zonewright/v1
kind: Zone
metadata: {name: "{zone}"}
spec: {name: "{zone}", description: One zone}
"""
_REST = """apiVersion: zonewright/v1
kind: Provider
metadata: {zone: "{zone}", name: corp}
spec:
  name: Corp
  identifier: https://corp.example
  client_id: zonewright
  client_secret: {from_env: CORP_SECRET, version: "1"}
---
apiVersion: zonewright/v1
kind: Resource
metadata: {zone: "{zone}", name: payroll}
spec: {name: Payroll, identifier: "https://payroll.example", scopes: [read, write]}
---
apiVersion: zonewright/v1
kind: Application
metadata: {zone: "{zone}", name: agent}
spec:
  name: Agent
  description: Answers mail
  dependencies: [payroll]
  protocols: {oauth2: {redirect_uris: ["https://agent.example/cb"]}}
---
apiVersion: zonewright/v1
kind: ApplicationCredential
metadata: {zone: "{zone}", name: agent-public}
spec: {application: agent, type: public}
---
apiVersion: zonewright/v1
kind: Group
metadata: {zone: "{zone}", name: staff}
spec: {name: Staff, members: [ann@acme.example, bob@acme.example]}
---
apiVersion: zonewright/v1
kind: Group
metadata: {zone: "{zone}", name: contractors}
spec: {name: Contractors}
---
apiVersion: zonewright/v1
kind: Role
metadata: {zone: "{zone}", name: auditor}
spec: {description: Reads everything}
---
apiVersion: zonewright/v1
kind: RoleAssignment
metadata: {zone: "{zone}", name: staff-audits}
spec: {role: auditor, principal: {group: staff}}
"""
_POLICIES = """apiVersion: zonewright/v1
kind: Policy
metadata: {zone: "{zone}", name: reading}
spec: {cedar: 'permit(principal, action, resource);'}
---
apiVersion: zonewright/v1
kind: PolicySet
metadata: {zone: "{zone}", name: main}
spec: {policies: [reading]}
"""
COMPANY = {"zone.yaml": _ZONE, "rest.yaml": _REST, "policies.yaml": _POLICIES}


@dataclass
class Company:
    """A configuration of one zone, and its server.

    Attributes:
        client: sends what a hand does, as the organization's administrator.
        folder: the manifests; `{zone}` in what is written there is this configuration's zone.
    """

    server: Server
    client: httpx.Client
    folder: Folder
    zone: str
    zonectl: Callable[..., Result]

    # --- commands

    def apply(self, *options: str, expect: int = 0) -> Result:
        """`zonectl apply`, which has to exit with that."""
        return self._run("apply", "--yes", "--allow-env", "CORP_SECRET", *options, expect=expect)

    def plan(self, *options: str, expect: int) -> Result:
        """`zonectl plan`."""
        return self._run("plan", "--allow-env", "CORP_SECRET", *options, expect=expect)

    def drift(self, *options: str, expect: int) -> str:
        """What `zonectl drift` prints."""
        return self._run("drift", *options, expect=expect).out

    def drift_json(self, *options: str) -> dict[str, Any]:
        """What `zonectl drift --output json` prints."""
        told: dict[str, Any] = json.loads(
            self.zonectl("drift", self.folder, "--output", "json", *options).out
        )
        return told

    def plan_json(self) -> dict[str, Any]:
        """What `zonectl plan --output json` prints."""
        options = ("--allow-env", "CORP_SECRET", "--output", "json")
        told: dict[str, Any] = json.loads(self.zonectl("plan", self.folder, *options).out)
        return told

    def _run(self, command: str, *options: str, expect: int) -> Result:
        done = self.zonectl(command, self.folder, *options)
        assert done.exit_code == expect, f"{command}: {done.exit_code}\n{done.out}\n{done.err}"
        return done

    def write(self, name: str, text: str) -> None:
        """Write a file of manifests."""
        self.folder.write(name, text.replace("{zone}", self.zone))

    def as_key(self, role: str, monkeypatch: Any) -> None:
        """Let commands run with a key of that role from here on."""
        path = f"/organizations/{self.server.organization_id}/api-keys"
        monkeypatch.setenv("ZONECTL_API_KEY", self.send("POST", path, name=role, role=role)["api_key"])

    # --- hands

    def user(self, email: str) -> str:
        """The id of somebody who has signed in to the zone, and whose address is verified."""

        zone_id = self.zone_id

        async def made(_: Any) -> str:
            company = company_of(self.server)
            zone = await company.run(ZONE, Verb.RETRIEVE, {}, zone_id)
            return (await company.user(zone, email)).id

        return self.server.call(made)

    def send(self, method: str, path: str, **body: Any) -> Any:
        """One call of the management API, which has to succeed; `{zone}` in the path is the zone's id."""
        return self.send_json(method, path, body or None)

    def send_json(self, method: str, path: str, body: Any) -> Any:
        """The same with a body of any kind."""
        answer = self.client.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    @property
    def zone_id(self) -> str:
        """The id of the configuration's zone."""
        found: str = self.client.get("/zones", params={"slug": self.zone}).json()["items"][0]["id"]
        return found

    def path(self, collection: str, **wanted: str) -> str:
        """The address of the one object in a collection of the zone with these values."""
        return f"{self.collection(collection)}/{self.found(collection, **wanted)['id']}"

    def collection(self, name: str) -> str:
        """The address of a collection of the zone."""
        return f"/zones/{self.zone_id}/{name}"

    def found(self, collection: str, **wanted: str) -> Mapping[str, Any]:
        """The one object in a collection of the zone with these values."""
        (one,) = [
            each
            for each in self.items(collection)
            if not each.get("archived_at") and all(each.get(name) == value for name, value in wanted.items())
        ]
        found: Mapping[str, Any] = one
        return found

    def new_text(self, policy: str, cedar: str) -> str:
        """Give a policy another text; the version's id."""
        path = f"{self.path('policies', name=policy)}/versions"
        made: str = self.send("POST", path, cedar_raw=cedar, schema_version=SCHEMA)["id"]
        return made

    def new_version(self, *policies: tuple[str, str]) -> str:
        """Let the set consist of these (policy id, version id); the version's address."""
        entries = [{"policy_id": policy, "policy_version_id": version} for policy, version in policies]
        path = f"{self.path('policy-sets', name='main')}/versions"
        made = self.send("POST", path, manifest={"entries": entries}, schema_version=SCHEMA)
        return f"{path}/{made['id']}"

    def activate(self, version: str) -> None:
        """Let a version of a policy set decide."""
        self.send("PATCH", version, active=True)

    def platform_name(self) -> str:
        """What the service's own policy set is called."""
        name: str = self._platform_set()["name"]
        return name

    def _platform_set(self) -> Mapping[str, Any]:
        (found,) = [each for each in self.items("policy-sets") if each["owner_type"] == "platform"]
        made: Mapping[str, Any] = found
        return made

    def platform_version(self) -> str:
        """The address of the version of the service's own policy set."""
        found = self._platform_set()
        return f"{self.collection('policy-sets')}/{found['id']}/versions/{found['latest_version_id']}"

    def items(self, collection: str) -> list[Any]:
        """What is in a collection of the zone."""
        found: list[Any] = self.client.get(self.collection(collection), params={"limit": 100}).json()["items"]
        return found

    def deciding(self) -> str:
        """The address of the version of the set `main` that decides."""
        path = self.path("policy-sets", name="main")
        return f"{path}/versions/{self.send('GET', path)['active_version_id']}"

    def decides(self) -> str:
        """The text of the one policy in what decides."""
        (version,) = self.send("GET", f"{self.deciding()}/policies")["items"]
        found: str = version["cedar_raw"].strip()
        return found

    def folder_text(self, name: str) -> str:
        """What a file of manifests says now."""
        return (self.folder.path / name).read_text(encoding="utf-8")


def sign_in(company: Company, zone_id: str, *names: str) -> None:
    """New users of a zone sign in."""

    async def add(parts: Services) -> None:
        async with parts.database.reading() as conn:
            zone = await entities.get(conn, ZONE, zone_id, within={})
        assert isinstance(zone, Zone)
        for name in names:
            await company_of(company.server).person(zone, f"{name}@acme.example")

    company.server.call(add)

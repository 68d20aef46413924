"""A zone that a configuration owns, with people, applications and resources that ask for tokens."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.runtime.management.changesets.conftest import git, shared_parts, storage
from tests.support.applying import Git, api, app, create, ref
from tests.support.factories import App, Company, Person
from tests.support.scene import Scene

from runtime.domain.errors import OAuthError
from runtime.domain.kinds import APPLICATION, RESOURCE, ZONE
from runtime.domain.kinds.zone import Zone
from runtime.services.issuing import policy_decision
from runtime.storage.sql import entities

__all__ = ["git", "shared_parts", "storage", "world"]

PEOPLE, APPS, APIS = ("ada", "bob"), ("agent", "batch"), ("payroll", "calendar")
SCOPES = ("read", "write")
Asked = tuple[str | None, str, str]  # for a user, by an application, at a resource
PERMIT = "permit (principal, action, resource);"


@dataclass(frozen=True)
class World:
    """A zone and who is in it; each application may ask for each resource, and each user has allowed it.

    Attributes:
        issued, denied: what was ever asked for and issued, or refused by policies: what is recorded.
    """

    git: Git
    zone: Zone
    apps: dict[str, App]
    people: dict[str, Person]
    tokens: dict[tuple[str, str], str]
    issued: set[Asked] = field(default_factory=set)
    denied: set[Asked] = field(default_factory=set)

    @property
    def company(self) -> Company:
        return self.git.company

    @property
    def scene(self) -> Scene:
        return Scene(self.company, self.zone)

    async def ask(self, user: str | None, application: str, resource: str) -> set[str] | None:
        """The scopes of the token that an application gets for a user, or itself; None for none."""
        target = f"https://{resource}.test"
        try:
            if user is None:
                form = {"grant_type": "client_credentials", "resource": target}
                answer = await self.scene.post([*form.items(), *self.apps[application].form.items()])
            else:
                subject = self.tokens[user, application]
                answer = await self.scene.exchange(self.apps[application], subject, target)
        except OAuthError as refusal:
            if refusal.members.get("reason") == policy_decision.POLICY_DENIED:
                self.denied.add((user, application, resource))
            return None
        self.issued.add((user, application, resource))
        return set(str(answer.get("scope", "")).split())

    async def ask_all(self) -> dict[Asked, set[str] | None]:
        """What everybody gets for everything."""
        return {
            (user, application, resource): await self.ask(user, application, resource)
            for user in (*PEOPLE, None)
            for application in APPS
            for resource in APIS
        }

    def policies(self, name: str, *texts: str, first: bool = True) -> list[dict[str, Any]]:
        """Operations that let policies of these texts decide, and no other."""
        made = [
            create("Policy", f"{name}-{index}", self.zone.id, name=f"{name}-{index}", cedar=text)
            for index, text in enumerate(texts)
        ]
        policies = [ref("Policy", each["name"]) for each in made]
        return [*made, create("PolicySet", name, self.zone.id, name=name, policies=policies)]

    async def tried(self, *operations: Any, git: Git | None = None) -> list[dict[str, Any]]:
        """What a dry run says of its impact on recorded decisions."""
        await self.company.services.decisions.flush()
        answer = await (git or self.git).apply(*operations, dry_run=True)
        return list(answer.get("decision_impact", []))


@pytest.fixture
async def world(git: Git) -> World:
    """A world of its own for each test."""
    await git.apply(create("Zone", "acme", name="Acme"))
    zone_id = git.id("Zone", "acme")
    await git.apply(
        *(api(name, zone_id, scopes=list(SCOPES)) for name in APIS),
        *(
            app(name, zone_id, consent="implicit", dependencies=[ref("Resource", each) for each in APIS])
            for name in APPS
        ),
        create("Group", "staff", zone_id, name="Staff"),
        create("Role", "auditor", zone_id, identifier="auditor"),
    )
    company = git.company
    async with company.services.database.reading() as conn:
        zone = await entities.get(conn, ZONE, zone_id, within={})
        applications = {
            name: await entities.get(
                conn, APPLICATION, git.id("Application", name), within={"zone_id": zone_id}
            )
            for name in APPS
        }
        resources = [
            await entities.get(conn, RESOURCE, git.id("Resource", name), within={"zone_id": zone_id})
            for name in APIS
        ]
    apps = {name: await company.credential(zone, each) for name, each in applications.items()}
    people = {name: await company.person(zone, f"{name}@acme.example") for name in PEOPLE}
    for person in people.values():
        for resource in resources:
            await company.grant(zone, person.user, resource, SCOPES)
    tokens = {
        (name, application): await company.token(zone, apps[application], person)
        for name, person in people.items()
        for application in APPS
    }
    return World(git, zone, apps, people, tokens)

"""Expansions: deprecated objects inside an entity, and the users who changed it."""

from typing import Any

import pytest
from sqlalchemy import event
from tests.runtime.management.conftest import Api, Zone

from runtime.contract.routes import ROUTES
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import POLICY, POLICY_SET, POLICY_SET_VERSION, POLICY_VERSION, Entity
from runtime.domain.kinds.organization import OrganizationUser
from runtime.services.container import Services
from runtime.services.management.access.caller import Caller
from runtime.services.management.policies import policies, policy_set_versions, policy_sets, policy_versions
from runtime.services.management.unit_of_work import unit_of_work

TEXT = {"schema_version": "2026-11-21", "cedar_raw": "permit (principal, action, resource);"}


@pytest.fixture(scope="module")
def filled(api: Api) -> dict[str, tuple[str, dict[str, Any]]]:
    """One of everything that embeds something: its path, and what it embeds by member."""
    zone = api.zone()
    application, provider = zone.make("applications"), zone.make("providers")
    target = zone.make("resources", application_id=application["id"], credential_provider_id=provider["id"])
    user = zone.user().id
    api.ok("PUT", zone.path(f"/applications/{application['id']}/dependencies/{target['id']}"))
    token = zone.make(
        "application-credentials",
        type="token",
        application_id=application["id"],
        provider_id=provider["id"],
        subject="s",
    )
    sts = api.ok("GET", zone.path("/providers?filter[type]=service-sts"))["items"][0]
    application = api.ok("GET", zone.path(f"/applications/{application['id']}"))
    plain = {name: target[name] for name in target}
    person = api.ok("GET", zone.path(f"/users/{user}"))
    of_target = {"application": application, "credential_provider": provider}
    return {
        "resource": (zone.path(f"/resources/{target['id']}"), of_target),
        "dependency": (
            zone.path(f"/applications/{application['id']}/dependencies/{target['id']}"),
            of_target,
        ),
        "token": (
            zone.path(f"/application-credentials/{token['id']}"),
            {"application": application, "provider": provider},
        ),
        "password": (
            zone.path(f"/application-credentials/{zone.password(application['id'])['id']}"),
            {"application": application},
        ),
        "session": (zone.path(f"/sessions/{zone.session(user)}"), {"user": person}),
        "delegated grant": (
            zone.path(f"/delegated-grants/{zone.grant(user, target['id'])}"),
            {"user": person, "resource": plain, "provider": sts},
        ),
    }


@pytest.mark.parametrize(
    "what", ["resource", "dependency", "token", "password", "session", "delegated grant"]
)
def test_a_retrieve_shows_the_entities_whose_ids_it_has(
    api: Api, filled: dict[str, tuple[str, dict[str, Any]]], what: str
) -> None:
    """Each as its own retrieve shows it, but for what that one would embed; lists show ids alone."""
    known = {"application", "credential_provider", "provider", "resource", "user", "user_agent"}
    path, embedded = filled[what]
    found = api.ok("GET", path)
    assert {name: found[name] for name in known & set(found)} == embedded
    collection, _, wanted = path.rpartition("/")
    query = "?include_nested=true" if collection.endswith("sessions") else ""
    listed = api.ok("GET", f"{collection}{query}")["items"]
    (same,) = [one for one in listed if one["id"] == wanted]
    assert same == {name: value for name, value in found.items() if name not in embedded}


def by_a_person(api: Api, zone: Zone, person: OrganizationUser) -> dict[str, str]:
    """A policy and a policy set, each with a version, made by a user: path -> operation."""
    caller = Caller(person.id, "system", api.organization_id, "org_admin", "somebody")
    parents = {"zone_id": zone.id}

    async def make(services: Services) -> tuple[Entity, Entity, Entity, Entity]:
        async with unit_of_work(services, caller, new_id()) as unit:
            policy = await policies.create(unit, POLICY, parents, {"name": api.named()})
            of_policy = {**parents, "policy_id": policy.id}
            version = await policy_versions.create(unit, POLICY_VERSION, of_policy, TEXT)
            chosen = await policy_sets.create(unit, POLICY_SET, parents, {"name": api.named()})
            of_set = {**parents, "policy_set_id": chosen.id}
            entries = [{"policy_id": policy.id, "policy_version_id": version.id}]
            body = {"schema_version": TEXT["schema_version"], "manifest": {"entries": entries}}
            composed = await policy_set_versions.create(unit, POLICY_SET_VERSION, of_set, body)
            spare = await policy_versions.create(unit, POLICY_VERSION, of_policy, TEXT)
            await policy_versions.archive(unit, POLICY_VERSION, of_policy, spare.id)
        return policy, spare, chosen, composed

    policy, version, chosen, composed = api.server.call(make)
    return {
        zone.path(f"/policies/{policy.id}"): "created updated",
        zone.path(f"/policies/{policy.id}/versions/{version.id}"): "created archived",
        zone.path(f"/policy-sets/{chosen.id}"): "created updated",
        zone.path(f"/policy-sets/{chosen.id}/versions/{composed.id}"): "created",
    }


def test_expand_user_names_the_person_behind_a_change(api: Api) -> None:
    """As the user of the organization's zone, on every policy path; keys are nobody, and nobody unasked."""
    zone, person = api.zone(), api.person()
    told = {"id": person.zone_user_id, "email": person.email, "zone_id": api.home_zone().id}
    wanted, shown, listed, unasked = {}, {}, {}, []
    for path, changes in by_a_person(api, zone, person).items():
        wanted[path] = {f"{change}_by_user": told for change in changes.split()}
        shown[path] = api.ok("GET", f"{path}?expand=user")
        collection, _, id_ = path.rpartition("/")
        items = api.ok("GET", f"{collection}?expand[]=user")["items"]
        listed[path] = next(one for one in items if one["id"] == id_)
        unasked += [name for name in api.ok("GET", path) if name.endswith("_by_user")]

    assert {
        path: {name: value for name, value in one.items() if name.endswith("_by_user")}
        for path, one in shown.items()
    } == wanted
    assert listed == shown
    assert not unasked
    made = zone.make("policies")
    assert "created_by_user" not in api.ok("GET", zone.path(f"/policies/{made['id']}?expand=user"))


@pytest.mark.threat("27p")
def test_who_may_not_see_people_is_not_told_of_them(api: Api) -> None:
    """A key for zones alone reads the policy; who made it is no more its business than a list."""
    zone, person = api.zone(), api.person()
    path = next(iter(by_a_person(api, zone, person)))
    viewer = api.with_role("zone_viewer")
    assert api.ok("GET", f"{path}?expand[]=user")["created_by_user"]["email"] == person.email
    viewer.refused(404, "GET", f"/organizations/{api.organization_id}/users")
    told = viewer.ok("GET", f"{path}?expand[]=user")
    assert told["created_by"] == person.id
    assert "created_by_user" not in told


def test_people_cost_one_query_however_many_entities(api: Api) -> None:
    """The statements of a list with `expand=user` do not grow with its rows."""
    zone, counted = api.zone(), [0]

    def note(*_: Any) -> None:
        counted[0] += 1

    def cost_of(path: str) -> int:
        counted[0] = 0
        page = api.ok("GET", zone.path(f"{path}?expand=user"))
        assert any("created_by_user" in one for one in page["items"])
        return counted[0]

    engine = api.server.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        costs = []
        for more in (1, 4):
            for _ in range(more):
                by_a_person(api, zone, api.person())
            # The lower of two: a job may run meanwhile.
            costs += [min(cost_of(path), cost_of(path)) for path in ("/policies", "/policy-sets")]
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert costs[:2] == costs[2:]


def test_every_route_that_takes_expand_user_is_a_policy_path() -> None:
    """Where it is asked there is somebody to name."""
    asked = {route.operation_id.split(".")[0] for route in ROUTES if "user" in route.expands}
    assert asked == {
        "policies", "policy_versions", "policy_sets", "policy_set_versions", "policy_schemas"
    }  # fmt: skip

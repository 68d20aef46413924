"""Resources and references that the server refuses or counts: one suite for it and its fake."""

from typing import Any

import pytest
from tests.reconciler.factories import OWNER, manifest, plan_for, settle, without, zone
from tests.reconciler.fake_server import Refused, World
from tests.reconciler.real_server import RealWorld

from reconciler.apply.changeset_body import changeset_body
from reconciler.kinds import Manifest

Anywhere = World | RealWorld
THEIRS = "others"
ZONES: dict[str, str | None] = {"workforce": OWNER}
API = "https://payroll.example/api"


def resource(name: str, identifier: str, **spec: Any) -> Manifest:
    """A resource's manifest."""
    return manifest("Resource", name, name="R", identifier=identifier, **spec)


def send(world: Anywhere, manifests: list[Manifest], owner: str = OWNER) -> tuple[int, str, str] | None:
    """How a plan is refused, tried out and applied; None where it is applied."""
    zones = ZONES if owner != OWNER else None
    plan = plan_for(world, manifests, owner, zones=zones)
    body = changeset_body(plan, plan.operations)
    found = []
    for answer in (world.tried, world.changeset):
        try:
            answer(body)
        except Refused as refused:
            found.append((refused.status, refused.code, refused.field))
    assert found in ([], [*found[:1]] * 2)
    return found[0] if found else None


@pytest.mark.parametrize(
    "spelt",
    [
        "HTTPS://payroll.example/api",
        "https://PAYROLL.example:443/api",
        f"{API}/",
        "https://payroll.example/%61pi",
    ],
)
def test_one_url_is_one_resource(any_world: Anywhere, spelt: str) -> None:
    """Whoever makes the second, and also where one is renamed; what was there may change otherwise."""
    settle(any_world, [zone(), resource("one", API), resource("other", f"{API}/more")])
    assert send(any_world, [resource("mine", spelt)], THEIRS) == (
        409,
        "conflict",
        "operations[0].spec.identifier",
    )
    renamed = [zone(), resource("one", API), resource("other", spelt)]
    assert send(any_world, renamed) == (409, "conflict", "operations[0].spec.identifier")
    assert send(any_world, [zone(), resource("one", spelt), resource("other", f"{API}/more")]) is None
    assert (
        send(any_world, [zone(), resource("one", spelt, scopes=["a"]), resource("other", f"{API}/more")])
        is None
    )


def test_nothing_beneath_a_prefix_of_others(any_world: Anywhere) -> None:
    """Made, moved there, or with another `prefix`; beside it, and by whoever is bound to nobody, it goes."""
    settle(any_world, [zone(), resource("all", API, prefix=True)])
    bound = any_world.bound(THEIRS)
    assert send(bound, [resource("mine", "https://payroll.example/apis")], THEIRS) is None
    assert {
        (send(bound, beneath, THEIRS) or ())[:2]
        for beneath in (
            [resource("mine", f"{API}/x")],
            [resource("mine", "https://payroll.example/apis"), resource("more", f"{API}/x")],
        )
    } == {(403, "forbidden")}


@pytest.mark.parametrize(
    ("member", "kind"), [("application", "Application"), ("credential_provider", "Provider")]
)
def test_references_that_lend_are_ones_own(any_world: Anywhere, member: str, kind: str) -> None:
    """An application or a provider of others is named by no resource of a bound credential's."""
    spec = {"identifier": "https://id.example", "client_id": "c"} if kind == "Provider" else {}
    settle(any_world, [zone(), manifest(kind, "theirs", name="T", **spec)])
    bound = any_world.bound(THEIRS)
    own = {**spec, **({"identifier": "https://own.example"} if spec else {})}
    mine = manifest(kind, "mine", name="M", **own)
    assert send(bound, [mine, resource("r", API, **{member: "mine"})], THEIRS) is None
    named = {member: {"owner": OWNER, "name": "theirs"}}
    refused = send(
        bound, [mine, resource("r", API, **{member: "mine"}), resource("s", f"{API}/s", **named)], THEIRS
    )
    assert (refused or ())[:2] == (403, "forbidden")
    assert send(bound, [mine, resource("r", API, **named)], THEIRS) == refused


@pytest.mark.parametrize("gone", ["agent", "api", "reader", "staff", "okta", "agent-key"])
def test_a_dry_run_counts_what_a_deletion_takes_along(any_world: Anywhere, gone: str) -> None:
    """What a dry run counts of a deletion; and what is left afterwards."""
    company = [
        zone(),
        manifest("Provider", "okta", name="O", identifier="https://okta.example"),
        manifest("Application", "agent", name="A", dependencies=["api"]),
        manifest("Application", "other", name="B", dependencies=["api"]),
        resource("api", API),
        manifest("ApplicationCredential", "agent-key", application="agent", type="public", identifier="k"),
        manifest("ApplicationCredential", "other-key", application="other", type="public", identifier="l"),
        manifest(
            "ApplicationCredential", "job", application="other", type="token", provider="okta", subject="j"
        ),
        manifest("Group", "staff", name="S", members=["a@example.com", "b@example.com"]),
        manifest("Role", "reader"),
        manifest("RoleAssignment", "staff-reads", role="reader", principal={"group": "staff"}),
        manifest("RoleAssignment", "agent-reads", role="reader", principal={"application": "agent"}),
    ]
    settle(any_world, company)
    entity = next(
        each
        for each in any_world.snapshot().entities
        if each.ownership is not None and each.ownership.name == gone
    )
    operation = {"op": "delete", "kind": entity.kind, "id": entity.id, "zone": {"id": entity.zone_id}}
    plan = plan_for(any_world, without(company, gone) if gone == "agent-key" else company)
    body = {**changeset_body(plan, []), "plan_digest": gone, "operations": [operation]}
    (done,) = any_world.tried(body)["operations"]
    assert (done["takes_along"], done["in_use"]) == (COUNTED[gone], False)
    any_world.changeset(body)
    left = {each.ownership.name for each in any_world.snapshot().entities if each.ownership is not None}
    assert {each.name for each in company} - left == {gone, *WITH.get(gone, ())}


COUNTED: dict[str, dict[str, int]] = {
    "agent": {"application_credentials": 1, "dependencies": 1, "role_assignments": 1},
    "api": {"dependencies": 2},
    "reader": {"role_assignments": 2},
    "staff": {"members": 2, "role_assignments": 1},
    "okta": {"application_credentials": 1},
    "agent-key": {},
}
WITH = {
    "agent": ["agent-key", "agent-reads"],
    "reader": ["staff-reads", "agent-reads"],
    "staff": ["staff-reads"],
    "okta": ["job"],
}

"""One bad operation, and nothing of a changeset has happened; and dry runs, after which nothing ever has."""

from typing import Any

import pytest
from tests.support.applying import Git, adopt, api, app, create, on, ref, update
from tests.support.factories import found_company

from runtime.domain.errors import Conflict, Forbidden, ManagementError, NotFound, ValidationFailed

BAD: list[tuple[str, type[ManagementError], str, Any]] = [
    ("unknown member", ValidationFailed, "operations[1].spec.nme", lambda z, a: app("y", z, nme="x")),
    ("wrong type", ValidationFailed, "operations[1].spec.name", lambda z, a: app("y", z, name=1)),
    ("read-only member", ValidationFailed, "operations[1].spec.slug", lambda z, a: app("y", z, slug="y")),
    ("unknown kind", ValidationFailed, "operations[1].kind", lambda z, a: create("Session", "y", z)),
    ("kind not in git", ValidationFailed, "operations[1].kind", lambda z, a: create("User", "y", z)),
    (
        "taken identifier",
        Conflict,
        "operations[1].spec.identifier",
        lambda z, a: app("y", z, identifier="agent"),
    ),
    ("taken name", Conflict, "operations[1]", lambda z, a: app("agent", z, identifier="z")),
    ("name twice", Conflict, "operations[0]", lambda z, a: {**app("x", z, identifier="z"), "local_id": "z"}),
    ("no zone", ValidationFailed, "operations[1]", lambda z, a: app("y", None)),
    ("other zone", NotFound, "operations[1]", lambda z, a: app("y", "0" * 26)),
    (
        "forward reference",
        ValidationFailed,
        "operations[1].spec.application_id",
        lambda z, a: api("y", z, application_id=ref("Application", "z")),
    ),
    (
        "unknown reference",
        ValidationFailed,
        "operations[1].spec.application_id",
        lambda z, a: api("y", z, application_id="0" * 26),
    ),
    (
        "bad pointer",
        ValidationFailed,
        "operations[1]",
        lambda z, a: api("y", z, application_id={"address_of": {"id": z}, "member": "secret"}),
    ),
    ("unknown id", NotFound, "operations[1]", lambda z, a: update("Application", "0" * 26, "y", z, name="y")),
    ("id of another kind", NotFound, "operations[1]", lambda z, a: update("Resource", a, "y", z, name="y")),
    (
        "wrong zone",
        NotFound,
        "operations[1]",
        lambda z, a: update("Application", a, "agent", "0" * 26, name="y"),
    ),
    (
        "bad address",
        ValidationFailed,
        "operations[1].spec.protocols.oauth2.redirect_uris[0]",
        lambda z, a: app("y", z, protocols={"oauth2": {"redirect_uris": ["http://x.test/cb"]}}),
    ),
    ("no name", ValidationFailed, "operations[1]", lambda z, a: {**app("y", z), "name": None}),
    (
        "fixed member",
        ValidationFailed,
        "operations[1].spec.application_id",
        lambda z, a: update("ApplicationCredential", a, "k", z, application_id=a),
    ),
    (
        "unknown dependency",
        ValidationFailed,
        "operations[1].spec.dependencies",
        lambda z, a: app("y", z, dependencies=["0" * 26]),
    ),
    (
        "placeholder",
        ValidationFailed,
        "operations[1].spec.client_secret",
        lambda z, a: create("Provider", "y", z, name="y", client_secret={"secret": {"from_env": "X"}}),
    ),
    (
        "no principal",
        ValidationFailed,
        "operations[1].spec.principal",
        lambda z, a: create("RoleAssignment", "y", z, role_id=a, principal={}),
    ),
    (
        "empty composition",
        ValidationFailed,
        "operations[1].spec.policies",
        lambda z, a: create("PolicySet", "y", z),
    ),
]


@pytest.mark.parametrize(("case", "error", "where", "make"), BAD, ids=[case[0] for case in BAD])
async def test_bad_operation_applies_none(
    git: Git, zone: str, case: str, error: type[ManagementError], where: str, make: Any
) -> None:
    """The first operation is good, the second is not: nothing has happened, and the place is named."""
    await git.apply(
        app("agent", zone),
        create(
            "ApplicationCredential", "k", zone, application_id=ref("Application", "agent"), type="password"
        ),
    )
    subject = (
        git.id("ApplicationCredential", "k") if case == "fixed member" else git.id("Application", "agent")
    )
    before, revision = await git.snapshot(), await git.revision()
    with pytest.raises(error) as refused:
        await git.apply(app("x", zone), make(zone, subject))
    assert refused.value.problems[0].field == where
    assert await git.snapshot() == before
    assert await git.revision() == revision


@pytest.mark.threat("27o")
@pytest.mark.parametrize(
    "pointer",
    [
        {"address_of": {"id": ""}, "member": "__class__"},
        {"address_of": {"id": ""}, "member": ["issuer"]},
        {"address_of": {"id": ["x"]}, "member": "issuer"},
        {"address_of": 5, "member": "issuer"},
        {"external": "x", "kind": "Nope"},
        {"external": "x", "kind": ["Provider"]},
        {"external": "x", "kind": "Provider", "owner_type": ["platform"]},
        {"external": "x", "kind": "RoleAssignment"},
        {"external": "robot", "kind": "ServiceAccount"},
    ],
    ids=str,
)
async def test_pointers_lead_nowhere_else(git: Git, zone: str, pointer: dict[str, Any]) -> None:
    """What a pointer may say is checked wherever it stands, and shows nothing that the caller cannot see."""
    await git.apply(app("agent", zone), create("ServiceAccount", "robot", name="robot"))
    key = create(
        "ApplicationCredential", "k", zone, application_id=git.id("Application", "agent"), type="public"
    )
    await git.apply(key)
    issuer = {"address_of": {"id": zone}, "member": "issuer"}
    subject = git.id("ApplicationCredential", "k")
    await git.apply(update("ApplicationCredential", subject, "k", zone, identifier=issuer))

    if pointer.get("address_of") == {"id": ""}:
        pointer = {**pointer, "address_of": {"id": zone}}
    for operation in (
        update("ApplicationCredential", subject, "k", zone, identifier=pointer),
        create("Group", "g", zone, name=pointer),
    ):
        with pytest.raises(ValidationFailed):
            await git.as_role("zone_manager").apply(operation)


async def test_all_bad_specs_are_told_at_once(git: Git, zone: str) -> None:
    """What can be seen without the database is told for all operations together."""
    with pytest.raises(ValidationFailed) as refused:
        await git.apply(app("x", zone, consent="maybe"), app("y", zone), api("z", zone, prefix="no", nme="x"))
    assert {problem.field for problem in refused.value.problems} == {
        "operations[0].spec.consent",
        "operations[2].spec.prefix",
        "operations[2].spec.nme",
    }


@pytest.mark.parametrize("role", ["org_viewer", "zone_viewer"])
async def test_dry_run_needs_reading_only(git: Git, zone: str, role: str) -> None:
    """A plan is checked by whoever may read; applying it takes more."""
    await git.as_role(role).apply(app("x", zone), dry_run=True)
    with pytest.raises(Forbidden):
        await git.as_role(role).apply(app("x", zone))


async def test_dry_run_of_what_is_not_seen(git: Git) -> None:
    """A kind that the role does not see does not exist for it."""
    with pytest.raises(NotFound):
        await git.as_role("zone_viewer").apply(create("ServiceAccount", "x"), dry_run=True)


async def test_permissions_are_those_of_single_calls(git: Git, zone: str) -> None:
    """Who may not delete zones one by one may not do it in a changeset."""
    await git.as_role("org_member").apply(app("x", zone))
    with pytest.raises(Forbidden) as refused:
        await git.as_role("org_member").apply(on("delete", "Zone", zone))
    assert refused.value.problems[0].field == "operations[0]"


async def test_other_organizations_entities_are_not_there(git: Git, zone: str) -> None:
    """Ids of another organization are unknown, whatever the operation."""
    await git.apply(app("a", zone))
    other = Git(await found_company(git.company.services, "Other"))
    agent = git.id("Application", "a")
    for operation in (
        update("Application", agent, "a", zone, name="x"),
        adopt("Application", agent, "a", zone),
        on("delete", "Application", agent),
        on("rename", "Application", agent, name="b"),
        on("release", "Application", agent),
        app("b", zone),
        api("c", zone),
    ):
        with pytest.raises(NotFound):
            await other.apply(operation)

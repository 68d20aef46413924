"""Changesets: all or nothing, over both databases."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select
from tests.support.applying import OWNER, Git, adopt, create, local, on, ref, update
from tests.support.factories import found_company, opened_parts

from runtime.domain.errors import Conflict, Forbidden, ManagementError, NotFound, ValidationFailed
from runtime.domain.errors import PreconditionFailed as Stale
from runtime.domain.kinds import APPLICATION, RESOURCE, ZONE
from runtime.services.management.changes import changesets, receipts
from runtime.services.management.listing import ListQuery
from runtime.services.management.people import groups
from runtime.services.management.unit import record_hash, unit_of_work
from runtime.services.management.zones import applications
from runtime.storage.sql import ledger
from runtime.storage.sql.tables import METADATA

PERMIT = "permit(principal, action, resource);"
FORBID = "forbid(principal, action, resource);"


@pytest.fixture
async def git(database_url: str, tmp_path: Path) -> AsyncIterator[Git]:
    """A configuration for a new company."""
    async with opened_parts(
        tmp_path / "data", database_url=database_url, public_url="https://zones.test"
    ) as parts:
        yield Git(await found_company(parts, "Example"))


@pytest.fixture
async def zone(git: Git) -> str:
    """The id of a zone that the configuration owns."""
    await git.apply(create("Zone", "acme", name="Acme"))
    return git.id("Zone", "acme")


def app(name: str, zone: Any, /, **spec: Any) -> dict[str, Any]:
    """A new application."""
    return create("Application", name, zone, **{"name": name, "identifier": name, **spec})


def api(name: str, zone: Any, /, **spec: Any) -> dict[str, Any]:
    """A new resource."""
    return create("Resource", name, zone, **{"name": name, "identifier": f"https://{name}.test", **spec})


def everything() -> list[dict[str, Any]]:
    """One of each kind that git can describe, in a new zone."""
    zone = ref("Zone", "acme")
    return [
        create("ServiceAccount", "ci", description="Builds"),
        create("Zone", "acme", name="Acme", protocols={"oauth2": {"cimd": {"enabled": True}}}),
        create("Provider", "corp", zone, name="Corp", identifier="https://corp.test", client_secret="hush"),
        app("agent", zone, protocols={"oauth2": {"redirect_uris": ["https://a.test/cb"]}}),
        api("calendar", zone, application_id=ref("Application", "agent"), scopes=["read"]),
        create(
            "ApplicationCredential", "key", zone, application_id=ref("Application", "agent"), type="password"
        ),
        create("Role", "auditor", zone, description="Looks"),
        create("Group", "staff", zone, name="Staff", members=["Ann@Example.org"]),
        create(
            "RoleAssignment",
            "staff-audits",
            zone,
            role_id=ref("Role", "auditor"),
            principal={"group_id": ref("Group", "staff")},
        ),
        create("Policy", "all", zone, cedar=PERMIT, description="Everything"),
        create("PolicySet", "main", zone, policies=[ref("Policy", "all")]),
        {
            "op": "update",
            "kind": "Zone",
            "local_id": local("Zone", "acme"),
            "name": "acme",
            "spec": {"user_identity_provider_id": ref("Provider", "corp")},
            "fields": ["name", "protocols.oauth2.cimd.enabled", "user_identity_provider_id"],
        },
        {
            "op": "update",
            "kind": "Application",
            "local_id": local("Application", "agent"),
            "zone": zone,
            "name": "agent",
            "spec": {"dependencies": [ref("Resource", "calendar")]},
            "fields": ["name", "identifier", "protocols.oauth2.redirect_uris", "dependencies"],
        },
    ]


# --- what one changeset can do


async def test_one_of_each_kind(git: Git) -> None:
    """A whole configuration is created at once, with references in every direction."""
    answer = await git.apply(*everything())
    assert [done["status"] for done in answer["operations"]] == ["done"] * 13
    specs = {
        line["kind"]: line["spec"] for line in await git.snapshot("acme") if line.get("ownership") is not None
    }
    assert set(specs) == {operation["kind"] for operation in everything()}
    assert specs["Zone"]["user_identity_provider_id"] == git.id("Provider", "corp")
    assert specs["Zone"]["protocols"]["oauth2"]["cimd"]["enabled"] is True
    assert specs["Application"]["dependencies"] == [git.id("Resource", "calendar")]
    assert specs["Resource"]["application_id"] == git.id("Application", "agent")
    assert specs["Group"]["members"] == ["ann@example.org"]
    assert specs["RoleAssignment"] == {
        "role_id": git.id("Role", "auditor"),
        "principal": {"group_id": git.id("Group", "staff")},
    }
    assert specs["Policy"]["cedar"].strip().startswith("permit")
    assert specs["PolicySet"] == {"name": "main", "policies": [git.id("Policy", "all")], "active": True}
    assert specs["Role"]["identifier"] == "auditor"
    assert specs["ServiceAccount"] == {"name": "ci", "description": "Builds"}


async def test_records_hold_what_was_applied(git: Git) -> None:
    """The record has the owner, the fields and their values; references as ids, secrets not at all."""
    await git.apply(*everything(), source={"repository": "acme/identity", "commit": "abc"})
    records = {
        line["kind"]: line["ownership"] for line in await git.snapshot() if line.get("ownership") is not None
    }
    assert {record["owner"] for record in records.values()} == {OWNER}
    assert records["Application"]["applied"] == {
        "name": "agent",
        "identifier": "agent",
        "protocols": {"oauth2": {"redirect_uris": ["https://a.test/cb"]}},
        "dependencies": [git.id("Resource", "calendar")],
    }
    assert records["Zone"]["applied"]["user_identity_provider_id"] == git.id("Provider", "corp")
    assert records["Resource"]["applied"]["application_id"] == git.id("Application", "agent")
    assert "client_secret" in records["Provider"]["fields"]
    assert "client_secret" not in records["Provider"]["applied"]
    assert records["Provider"]["source"] == {"repository": "acme/identity", "commit": "abc"}


async def test_address_of_another_zone(git: Git) -> None:
    """A zone can be another zone's provider before either exists."""
    upstream, address = ref("Zone", "upstream"), {"address_of": ref("Zone", "upstream"), "member": "issuer"}
    await git.apply(
        create("Zone", "upstream", name="Upstream"),
        create("Zone", "acme", name="Acme"),
        create(
            "Provider",
            "up",
            ref("Zone", "acme"),
            name="Up",
            identifier="https://up.test",
            protocols={"oauth2": {"issuer": address}},
        ),
        app(
            "down",
            upstream,
            protocols={
                "oauth2": {"redirect_uris": [{"address_of": ref("Zone", "acme"), "member": "redirect_uri"}]}
            },
        ),
    )
    issuer = (await git.found("Zone", "upstream"))["spec"]["addresses"]["issuer"]
    assert (await git.found("Provider", "up"))["spec"]["protocols"]["oauth2"]["issuer"] == issuer
    callback = (await git.found("Zone", "acme"))["spec"]["addresses"]["redirect_uri"]
    assert (await git.found("Application", "down"))["spec"]["protocols"]["oauth2"]["redirect_uris"] == [
        callback
    ]


async def test_address_of_a_zone_that_is_there(git: Git, zone: str) -> None:
    """Addresses are also taken from zones that exist already."""
    address = {"address_of": {"id": zone}, "member": "token_endpoint"}
    await git.apply(
        create(
            "Provider",
            "self",
            zone,
            name="S",
            identifier="https://self.test",
            protocols={"oauth2": {"token_endpoint": address}},
        )
    )
    found = await git.found("Provider", "self")
    assert found["spec"]["protocols"]["oauth2"]["token_endpoint"].endswith("/oauth/token")


async def test_handle_is_the_name_in_git(git: Git, zone: str) -> None:
    """A spec without a handle gets the manifest's name as one."""
    await git.apply(create("Application", "agent", zone, name="Agent"))
    assert (await git.found("Application", "agent"))["spec"]["identifier"] == "agent"


async def test_update_changes_only_what_it_names(git: Git, zone: str) -> None:
    """An update is a merge patch, and the record keeps what was applied before."""
    await git.apply(app("agent", zone, description="old", consent="implicit"))
    operation = update("Application", git.id("Application", "agent"), "agent", zone, description="new")
    await git.apply({**operation, "fields": ["name", "identifier", "description", "consent"]})
    found = await git.found("Application", "agent")
    assert found["spec"]["description"] == "new"
    assert found["spec"]["consent"] == "implicit"
    assert found["ownership"]["applied"] == {
        "name": "agent",
        "identifier": "agent",
        "description": "new",
        "consent": "implicit",
    }


@pytest.mark.parametrize(
    ("kind", "spec", "cleared", "expected"),
    [
        ("Application", {"description": "x"}, "description", None),
        ("Application", {"consent": "implicit"}, "consent", "required"),
        ("Resource", {"prefix": False, "identifier": "https://x.test/a"}, "prefix", False),
        ("Resource", {"scopes": ["a"]}, "scopes", None),
        ("ServiceAccount", {"description": "x"}, "description", None),
        ("Policy", {"cedar": PERMIT, "description": "x"}, "description", None),
        ("Group", {"members": ["a@test.org"]}, "members", []),
    ],
)
async def test_null_puts_back_the_default(
    git: Git, zone: str, kind: str, spec: dict[str, Any], cleared: str, expected: Any
) -> None:
    """What leaves a manifest goes back to its default, also where a single update takes no null."""
    place = None if kind == "ServiceAccount" else zone
    await git.apply(create(kind, "thing", place, **{"name": "thing", **spec}))
    operation = update(kind, git.id(kind, "thing"), "thing", place, **{cleared: None})
    await git.apply({**operation, "fields": ["name"]})
    found = await git.found(kind, "thing")
    assert found["spec"].get(cleared) == expected
    assert found["ownership"]["fields"] == ["name"]
    assert cleared not in found["ownership"]["applied"]


async def test_members_join_once_they_are_known(git: Git, zone: str) -> None:
    """Users with a verified address are members; the others are invited, and both are shown."""
    company = git.company
    there = next(iter([await company.run(ZONE, changesets.Verb.RETRIEVE, {}, zone)]))
    await company.user(there, "ann@example.org")
    await git.apply(
        create("Group", "staff", zone, name="Staff", members=["Ann@example.org", "bob@example.org"])
    )
    group = git.id("Group", "staff")
    assert (await git.found("Group", "staff"))["spec"]["members"] == ["ann@example.org", "bob@example.org"]
    assert len(await _rows(git, "group_members")) == 1
    assert len(await _rows(git, "group_invitees")) == 1
    await git.apply(update("Group", group, "staff", zone, members=["bob@example.org"]))
    assert len(await _rows(git, "group_members")) == 0


async def test_role_of_a_user(git: Git, zone: str) -> None:
    """A user is named by address, and must be known to the zone."""
    there = await git.company.run(ZONE, changesets.Verb.RETRIEVE, {}, zone)
    role = create("Role", "auditor", zone)
    given = create(
        "RoleAssignment", "x", zone, role_id=ref("Role", "auditor"), principal={"user": "ann@example.org"}
    )
    with pytest.raises(ValidationFailed, match="nobody with the verified address"):
        await git.apply(role, given)
    await git.company.user(there, "ann@example.org")
    await git.apply(role, given)
    found = await git.found("RoleAssignment", "x")
    assert found["spec"]["principal"] == {"user": "ann@example.org"}
    await git.apply(on("delete", "RoleAssignment", found["id"]))
    assert await git.names("RoleAssignment") == set()


async def test_password_is_shown_once(git: Git, zone: str) -> None:
    """The answer has the password; history and a replay do not."""
    changeset = await git.body(
        app("agent", zone),
        create(
            "ApplicationCredential", "key", zone, application_id=ref("Application", "agent"), type="password"
        ),
    )
    first = await git.send(changeset)
    password = first.answer["operations"][1]["shown_once"]["password"]
    assert len(password) > 20
    again = await git.send(changeset)
    assert again.replayed
    assert password not in str(again.answer)
    assert password not in str(await _rows(git, "changesets"))
    assert password not in str(await _rows(git, "audit_events"))


async def test_progress_is_told(git: Git, zone: str) -> None:
    """Whoever asks hears how far it is."""
    told: list[tuple[int, int]] = []

    async def progress(done: int, total: int) -> None:
        told.append((done, total))

    await git.send(await git.body(*(app(f"a{n}", zone) for n in range(250))), progress=progress)
    assert told == [(100, 250), (200, 250), (250, 250)]


# --- policies


async def test_new_text_reaches_the_active_set(git: Git, zone: str) -> None:
    """When a policy of the active set changes, the set gets a new version at once."""
    await git.apply(
        create("Policy", "a", zone, cedar=PERMIT),
        create("Policy", "b", zone, cedar=PERMIT),
        create("PolicySet", "main", zone, policies=[ref("Policy", "a"), ref("Policy", "b")]),
    )
    before = await _bound(git, zone)
    await git.apply(update("Policy", git.id("Policy", "a"), "a", zone, cedar=FORBID))
    after = await _bound(git, zone)
    assert [entry["policy_id"] for entry in after] == [entry["policy_id"] for entry in before]
    assert after[0]["policy_version_id"] != before[0]["policy_version_id"]
    assert after[1] == before[1]


async def test_same_text_is_no_new_version(git: Git, zone: str) -> None:
    """Writing the text that stands there changes nothing."""
    await git.apply(create("Policy", "a", zone, cedar=PERMIT))
    await git.apply(update("Policy", git.id("Policy", "a"), "a", zone, cedar=f"{PERMIT}\n"))
    versions = [
        row for row in await _rows(git, "policy_versions") if row["policy_id"] == git.id("Policy", "a")
    ]
    assert len(versions) == 1


async def test_bad_policy_text(git: Git, zone: str) -> None:
    """Cedar's complaint comes back at the member."""
    with pytest.raises(ValidationFailed) as refused:
        await git.apply(app("x", zone), create("Policy", "a", zone, cedar="permit(nobody);"))
    assert refused.value.problems[0].field == "operations[1].spec.cedar"


async def test_one_policy_set_makes_way_for_another(git: Git, zone: str) -> None:
    """The old set can be deleted before the new one is named: archiving waits until the end."""
    await git.apply(
        create("Policy", "a", zone, cedar=PERMIT),
        create("PolicySet", "old", zone, policies=[ref("Policy", "a")]),
    )
    await git.apply(
        on("delete", "PolicySet", git.id("PolicySet", "old")),
        on("delete", "Policy", git.id("Policy", "a")),
        create("Policy", "b", zone, cedar=PERMIT),
        create("PolicySet", "new", zone, policies=[ref("Policy", "b")]),
    )
    assert await git.names("PolicySet") == {"new"}
    assert await git.names("Policy") == {"b"}


async def test_set_that_decides_cannot_go(git: Git, zone: str) -> None:
    """Deleting what decides, with nothing in its place, is refused."""
    await git.apply(
        create("Policy", "a", zone, cedar=PERMIT),
        create("PolicySet", "main", zone, policies=[ref("Policy", "a")]),
    )
    with pytest.raises(Conflict, match="activate another"):
        await git.apply(on("delete", "PolicySet", git.id("PolicySet", "main")))


async def test_archived_name_is_free(git: Git, zone: str) -> None:
    """A policy that was archived through the API does not keep its name in git."""
    await git.apply(create("Policy", "a", zone, cedar=PERMIT))
    policy = git.id("Policy", "a")
    await git.company.run(changesets.BY_NAME["Policy"], changesets.Verb.ARCHIVE, {"zone_id": zone}, policy)
    await git.apply(create("Policy", "a", zone, cedar=PERMIT))
    assert git.id("Policy", "a") != policy


# --- all or nothing

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
    ("name twice", Conflict, "operations[1]", lambda z, a: {**app("x", z, identifier="z"), "local_id": "z"}),
    ("no zone", ValidationFailed, "operations[1]", lambda z, a: app("y", None)),
    ("other zone", NotFound, "operations[1]", lambda z, a: app("y", "0" * 26)),
    (
        "forward reference",
        ValidationFailed,
        "operations[1]",
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


@pytest.mark.threat(27)
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


# --- dry run


async def test_dry_run_leaves_nothing(git: Git) -> None:
    """A dry run says what would be, and undoes it."""
    before, revision = await git.snapshot(), await git.revision()
    operations = everything()
    operations[2]["spec"]["client_secret"] = {"secret": {"from_env": "S", "version": "3"}}
    answer = await git.apply(*operations, dry_run=True)
    assert answer["id"] is None
    assert answer["dry_run"] is True
    assert len(answer["operations"]) == len(operations)
    assert "shown_once" not in str(answer)
    assert await git.snapshot() == before
    assert await git.revision() == revision
    assert await _rows(git, "changesets") == []


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


# --- base revision


async def test_stale_base_says_who(git: Git, zone: str) -> None:
    """Something that the changeset touches was changed since: 412, with who did it and what."""
    await git.apply(app("agent", zone))
    base, agent = await git.revision(), git.id("Application", "agent")
    await git.company.update(APPLICATION, zone, agent, name="Renamed by hand")
    with pytest.raises(Stale) as refused:
        await git.apply(update("Application", agent, "agent", zone, name="x"), base=base)
    problem = refused.value.problems[0]
    assert problem.field == "operations[0]"
    assert "`agent` was changed by system `tester`" in problem.message
    assert "applications.update" in problem.message


async def test_stale_members_and_dependencies(git: Git, zone: str) -> None:
    """Members and dependencies that the plan has not seen make its base stale too."""
    await git.apply(create("Group", "staff", zone, name="Staff"), app("agent", zone), api("calendar", zone))
    base, parents = await git.revision(), {"zone_id": zone}
    group, agent = git.id("Group", "staff"), git.id("Application", "agent")
    there = await git.company.run(ZONE, changesets.Verb.RETRIEVE, {}, zone)
    ann = await git.company.user(there, "ann@example.org")
    async with unit_of_work(git.company.parts, git.company.caller, "r") as unit:
        await groups.add_member(unit, parents, group, ann.id)
        await applications.add_dependency(unit, parents, agent, git.id("Resource", "calendar"), ())
    with pytest.raises(Stale, match="group_members"):
        await git.apply(update("Group", group, "staff", zone, members=[]), base=base)
    with pytest.raises(Stale, match="application_dependencies"):
        await git.apply(update("Application", agent, "agent", zone, dependencies=[]), base=base)


async def test_unrelated_changes_do_not_matter(git: Git, zone: str) -> None:
    """Only what is touched is compared with the base."""
    await git.apply(app("agent", zone), app("other", zone))
    base = await git.revision()
    await git.company.update(APPLICATION, zone, git.id("Application", "other"), name="x")
    await git.apply(update("Application", git.id("Application", "agent"), "agent", zone, name="x"), base=base)


async def test_deleting_a_zone_touches_what_is_inside(git: Git, zone: str) -> None:
    """A zone does not go with something in it that the plan has not seen."""
    base = await git.revision()
    await git.company.create(RESOURCE, zone, identifier="https://late.test", name="Late")
    with pytest.raises(Stale):
        await git.apply(on("delete", "Zone", zone), base=base)
    await git.apply(on("delete", "Zone", zone))


async def test_base_of_the_future(git: Git, zone: str) -> None:
    """A revision that has never been is no base."""
    with pytest.raises(Stale, match="yet to come"):
        await git.apply(app("x", zone), base=await git.revision() + 1)


# --- sent twice


async def test_sent_again_is_answered_again(git: Git, zone: str) -> None:
    """The same body under the same digest is answered with the first result, and nothing happens."""
    changeset = await git.body(app("agent", zone))
    first, again = await git.send(changeset), await git.send(changeset)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.answer == first.answer
    assert len(await _rows(git, "changesets")) == 2  # the zone's, and this one


async def test_other_body_under_the_same_digest(git: Git, zone: str) -> None:
    """A digest stands for one body."""
    await git.send(await git.body(app("agent", zone), plan_digest="sha256:same"))
    with pytest.raises(Conflict, match="another body"):
        await git.send(await git.body(app("other", zone), plan_digest="sha256:same"))


async def test_sent_at_the_same_time(git: Git, zone: str) -> None:
    """Of two equal changesets at once one is applied, and both get its answer."""
    changeset = await git.body(app("agent", zone))
    outcomes = await asyncio.gather(git.send(changeset), git.send(changeset))
    assert sorted(outcome.replayed for outcome in outcomes) == [False, True]
    assert outcomes[0].answer == outcomes[1].answer


# --- history


async def test_receipt(git: Git, zone: str) -> None:
    """History has the receipt: digest, revisions, who, and the range of audit records."""
    base = await git.revision()
    answer = await git.apply(app("a", zone), app("b", zone), source={"commit": "abc"})
    company = git.company
    receipt = await receipts.retrieve(
        company.parts, company.caller, company.organization_id, answer["id"], request_id="r"
    )
    assert receipt.base_revision == base
    assert receipt.revision == base + 1 == answer["revision"]
    assert receipt.operations == 2
    assert receipt.owner == OWNER
    assert receipt.source.commit == "abc"
    assert receipt.created_by == company.caller.id
    assert receipt.audit is not None
    assert receipt.audit.model_dump() == answer["audit"]


async def test_audit_records_belong_to_the_changeset(git: Git, zone: str) -> None:
    """One record an operation, in a chain that can be checked."""
    answer = await git.apply(app("a", zone), app("b", zone))
    async with git.company.parts.database.reading() as conn:
        records = await ledger.audit_range(conn, git.company.organization_id, **answer["audit"])
    assert [record["action"] for record in records] == ["applications.create"] * 2
    assert {record["changeset_id"] for record in records} == {answer["id"]}
    for record in records:
        assert record_hash({k: v for k, v in record.items() if k != "hash"}) == record["hash"]


async def test_history_is_newest_first(git: Git, zone: str) -> None:
    """History comes in pages, in both directions."""
    ids = [(await git.apply(app(f"a{n}", zone)))["id"] for n in range(4)]
    ids = [(await _rows(git, "changesets"))[0]["id"], *ids]  # the zone's own comes first
    newest = ids[::-1]
    company, places = git.company, []

    async def page(**query: Any) -> tuple[list[str], bool, bool]:
        listed = await receipts.history(
            company.parts,
            company.caller,
            company.organization_id,
            ListQuery(limit=2, **query),
            request_id="r",
        )
        places.append(listed.edges)
        return [item.id for item in listed.items], listed.has_next, listed.has_previous

    assert await page() == (newest[:2], True, False)
    assert await page(after=places[-1][1]) == (newest[2:4], True, True)
    assert await page(after=places[-1][1]) == (newest[4:], False, True)
    assert await page(before=places[-1][0]) == (newest[2:4], True, True)
    assert await page(before=places[-1][0]) == (newest[:2], True, False)


async def test_receipts_stay_in_the_organization(git: Git, zone: str) -> None:
    """Another organization's changeset is not there."""
    answer = await git.apply(app("a", zone))
    other = await found_company(git.company.parts, "Other")
    with pytest.raises(NotFound):
        await receipts.retrieve(
            other.parts, other.caller, other.organization_id, answer["id"], request_id="r"
        )
    with pytest.raises(NotFound):
        await receipts.retrieve(
            other.parts, other.caller, git.company.organization_id, answer["id"], request_id="r"
        )


async def test_other_organizations_entities_are_not_there(git: Git, zone: str) -> None:
    """Ids of another organization are unknown, whatever the operation."""
    await git.apply(app("a", zone))
    other = Git(await found_company(git.company.parts, "Other"))
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


async def test_creates_cost_about_one_statement_each(git: Git, zone: str) -> None:
    """Ten thousand creates must not mean tens of thousands of trips to the database."""
    statements = 0

    def count(*_: Any) -> None:
        nonlocal statements
        statements += 1

    engine = git.company.parts.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", count)
    try:
        await git.apply(
            *(app(f"a{n}", zone) for n in range(200)),
            *(api(f"r{n}", zone, application_id=ref("Application", f"a{n}")) for n in range(200)),
        )
    finally:
        event.remove(engine, "before_cursor_execute", count)
    assert statements < 400 * 1.2


async def _rows(git: Git, table: str) -> list[dict[str, Any]]:
    async with git.company.parts.database.reading() as conn:
        rows = await conn.execute(select(METADATA.tables[table]))
        return [dict(row) for row in rows.mappings()]


async def _bound(git: Git, zone: str) -> list[dict[str, Any]]:
    """The entries of the policy set version that decides in a zone."""
    bindings = [row for row in await _rows(git, "policy_set_bindings") if row["zone_id"] == zone]
    versions = {row["id"]: row for row in await _rows(git, "policy_set_versions")}
    entries: list[dict[str, Any]] = versions[bindings[0]["policy_set_version_id"]]["manifest"]["entries"]
    return entries


async def test_credentials_of_workloads(git: Git, zone: str) -> None:
    """They need no name: the service gives one, and a snapshot tells only what was said."""
    agent, corp = ref("Application", "agent"), ref("Provider", "corp")
    members: dict[str, dict[str, Any]] = {
        "build": {"type": "token", "provider_id": corp, "subject": "repo:acme/app"},
        "any": {"type": "token", "provider_id": corp, "any_subject": True},
        "signer": {"type": "public-key", "jwks_uri": "https://agent.test/keys"},
        "client": {"type": "url", "identifier": "https://agent.test/client"},
    }
    await git.apply(
        create("Provider", "corp", zone, name="Corp", identifier="https://corp.test"),
        app("agent", zone),
        *(
            create("ApplicationCredential", name, zone, application_id=agent, **spec)
            for name, spec in members.items()
        ),
    )

    lines = {
        line["ownership"]["name"]: line
        for line in await git.snapshot()
        if line.get("kind") == "ApplicationCredential" and line["ownership"]  # the platform's own has none
    }
    assert {name: line["handle"] for name, line in lines.items()} == {
        "build": None,
        "any": None,
        "signer": "signer",
        "client": "https://agent.test/client",
    }
    ids = {"application_id": git.id("Application", "agent"), "provider_id": git.id("Provider", "corp")}
    assert lines["build"]["spec"] == {"type": "token", "subject": "repo:acme/app", **ids}
    assert lines["any"]["spec"] == {"type": "token", "any_subject": True, **ids}


async def test_a_workloads_credential_is_not_widened_by_an_oversight(git: Git, zone: str) -> None:
    """A manifest that loses its subject is refused; one that says that any will do is not."""
    await git.apply(
        create("Provider", "corp", zone, name="Corp", identifier="https://corp.test"),
        app("agent", zone),
        create(
            "ApplicationCredential",
            "build",
            zone,
            application_id=ref("Application", "agent"),
            type="token",
            provider_id=ref("Provider", "corp"),
            subject="repo:acme/app",
        ),
    )
    made = git.id("ApplicationCredential", "build")
    with pytest.raises(ValidationFailed):
        await git.apply(update("ApplicationCredential", made, "build", subject=None))
    await git.apply(update("ApplicationCredential", made, "build", subject=None, any_subject=True))
    await git.apply(update("ApplicationCredential", made, "build", subject="repo:acme/b", any_subject=None))

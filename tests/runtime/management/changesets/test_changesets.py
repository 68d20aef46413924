"""Changesets: what one can do, over both databases."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import event
from tests.support.applying import OWNER, Git, api, app, create, local, ref, update
from tests.support.factories import found_company

from runtime.domain.errors import Conflict, ValidationFailed
from runtime.domain.kinds import APPLICATION_CREDENTIAL
from runtime.services.container import Services

PERMIT = "permit(principal, action, resource);"


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


@dataclass(frozen=True)
class Applied:
    """A configuration with one of each kind: the answer to its changeset, and each kind's spec afterwards."""

    git: Git
    answer: Mapping[str, Any]
    specs: Mapping[str, Any]


@pytest.fixture(scope="module")
async def applied(shared_parts: Services) -> Applied:
    """What `everything` comes to in a new company, applied once for the tests that read it."""
    git = Git(await found_company(shared_parts, "Example"))
    answer = await git.apply(*everything())
    lines = await git.snapshot("acme")
    specs = {line["kind"]: line["spec"] for line in lines if line.get("ownership") is not None}
    return Applied(git, answer, specs)


class TestOneOfEachKind:
    """A whole configuration is created by one changeset, with references in every direction."""

    def test_every_operation_is_done(self, applied: Applied) -> None:
        """The answer has a status for each of the 13 operations."""
        assert [done["status"] for done in applied.answer["operations"]] == ["done"] * 13

    def test_a_snapshot_has_every_kind(self, applied: Applied) -> None:
        """What the changeset made is owned by the configuration, and nothing else is."""
        assert set(applied.specs) == {operation["kind"] for operation in everything()}

    def test_a_zone_refers_to_a_provider_that_was_made_after_it(self, applied: Applied) -> None:
        """The update at the end sets the reference, and leaves the settings of the create."""
        spec = applied.specs["Zone"]
        assert spec["user_identity_provider_id"] == applied.git.id("Provider", "corp")
        assert spec["protocols"]["oauth2"]["cimd"]["enabled"] is True

    def test_an_application_and_its_resource_refer_to_each_other(self, applied: Applied) -> None:
        """The resource belongs to the application, which depends on it."""
        git, specs = applied.git, applied.specs
        assert specs["Application"]["dependencies"] == [git.id("Resource", "calendar")]
        assert specs["Resource"]["application_id"] == git.id("Application", "agent")

    def test_addresses_of_members_are_in_small_letters(self, applied: Applied) -> None:
        """`Ann@Example.org` in the manifest is `ann@example.org` in the group."""
        assert applied.specs["Group"]["members"] == ["ann@example.org"]

    def test_a_role_is_held_by_a_group_of_the_same_changeset(self, applied: Applied) -> None:
        """Both references of the assignment are the ids of what was made."""
        assert applied.specs["RoleAssignment"] == {
            "role_id": applied.git.id("Role", "auditor"),
            "principal": {"group_id": applied.git.id("Group", "staff")},
        }

    def test_a_policy_set_is_active_with_its_policy(self, applied: Applied) -> None:
        """The policy has its Cedar text, and the set that names it decides at once."""
        git, specs = applied.git, applied.specs
        assert specs["Policy"]["cedar"].strip().startswith("permit")
        assert specs["PolicySet"] == {"name": "main", "policies": [git.id("Policy", "all")], "active": True}

    def test_a_role_is_identified_by_its_name_in_git(self, applied: Applied) -> None:
        """Its manifest gives no identifier."""
        assert applied.specs["Role"]["identifier"] == "auditor"

    def test_a_service_account_has_its_name_in_git(self, applied: Applied) -> None:
        """Its manifest gives a description alone."""
        assert applied.specs["ServiceAccount"] == {"name": "ci", "description": "Builds"}


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
    assert password not in str(await git.rows("changesets"))
    assert password not in str(await git.rows("audit_events"))


async def test_progress_is_told(git: Git, zone: str) -> None:
    """Whoever asks hears how far it is."""
    told: list[tuple[int, int]] = []

    async def progress(done: int, total: int) -> None:
        told.append((done, total))

    await git.send(await git.body(*(app(f"a{n}", zone) for n in range(250))), progress=progress)
    assert told == [(100, 250), (200, 250), (250, 250)]


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
    assert await git.rows("changesets") == []


async def test_creates_cost_about_one_statement_each(git: Git, zone: str) -> None:
    """Ten thousand creates must not mean tens of thousands of trips to the database."""
    statements = 0

    def count(*_: Any) -> None:
        nonlocal statements
        statements += 1

    engine = git.company.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", count)
    try:
        await git.apply(
            *(app(f"a{n}", zone) for n in range(200)),
            *(api(f"r{n}", zone, application_id=ref("Application", f"a{n}")) for n in range(200)),
        )
    finally:
        event.remove(engine, "before_cursor_execute", count)
    # The name of an application is a statement of its own on SQLite, where no statement is a trip.
    of_names = 200 if git.company.services.database.dialect == "sqlite" else 0
    assert statements < 400 * 1.2 + of_names


async def test_credentials_of_workloads_need_no_name(git: Git, zone: str) -> None:
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


@pytest.mark.threat("33g")
async def test_a_manifest_says_that_a_workloads_credential_is_for_any_subject(git: Git, zone: str) -> None:
    """What is left out of a manifest is not seen in a review; one that says it is accepted."""
    await git.apply(
        create("Provider", "corp", zone, name="Corp", identifier="https://corp.test"), app("agent", zone)
    )
    ids = {"application_id": git.id("Application", "agent"), "provider_id": git.id("Provider", "corp")}
    credential: dict[str, Any] = {"type": "token", **ids}
    with pytest.raises(ValidationFailed):
        await git.apply(create("ApplicationCredential", "any", zone, **credential))
    await git.apply(create("ApplicationCredential", "any", zone, **credential, any_subject=True))


async def test_a_snapshot_says_that_a_credential_made_by_hand_is_for_any_subject(git: Git, zone: str) -> None:
    """Somebody's call need not say it, but a plan shows it, and a manifest that is imported says it."""
    await git.apply(
        create("Provider", "corp", zone, name="Corp", identifier="https://corp.test"), app("agent", zone)
    )
    ids = {"application_id": git.id("Application", "agent"), "provider_id": git.id("Provider", "corp")}
    made = await git.company.create(APPLICATION_CREDENTIAL, zone, type="token", **ids)

    (line,) = [each for each in await git.snapshot() if each.get("id") == made.id]
    assert line["ownership"] is None
    assert line["spec"] == {"type": "token", "any_subject": True, **ids}


@pytest.mark.threat("33g")
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


async def test_a_dry_run_tells_everything_that_is_wrong(git: Git, zone: str) -> None:
    """Each at its operation; not what rests on something that was refused, which may be right."""
    await git.apply(app("taken", zone))
    with pytest.raises(Conflict) as failure:
        await git.apply(
            app("a", zone, identifier="taken"),
            create(
                "ApplicationCredential", "key", zone, application_id=ref("Application", "a"), type="public"
            ),
            app("b", zone),
            create("RoleAssignment", "r", zone, role_id="0" * 26, principal={"user": "ann@acme.test"}),
            app("c", zone, identifier="taken"),
            dry_run=True,
        )
    fields = [problem.field or "" for problem in failure.value.problems]
    assert [field.partition("]")[0] for field in fields] == ["operations[0", "operations[3", "operations[4"]
    assert failure.value.detail.endswith("(and 2 more)")
    assert await git.names("Application") == {"taken"}


async def test_type_of_a_resource_and_redirect_uris_change_together(git: Git, zone: str) -> None:
    """Neither fits the other until both are written; what does not fit then is told of its operation."""
    web, local = (
        {"oauth2": {"redirect_uris": [uri]}} for uri in ("https://a.test/cb", "http://localhost/cb")
    )
    await git.apply(
        app("agent", zone, protocols=web),
        api("calendar", zone, application_id=ref("Application", "agent"), application_type="web"),
    )
    ids = git.id("Application", "agent"), git.id("Resource", "calendar")
    await git.apply(
        update("Application", ids[0], "agent", protocols=local),
        update("Resource", ids[1], "calendar", application_type="native"),
    )
    with pytest.raises(ValidationFailed) as failure:
        await git.apply(update("Resource", ids[1], "calendar", application_type="web"))
    assert failure.value.problems[0].field == "operations[0].spec.application_type"

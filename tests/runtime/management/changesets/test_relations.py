"""Relations in changesets: policy texts, entries of policy sets, group members, role assignments."""

from typing import Any

import pytest
from tests.support.applying import Git, api, app, create, on, ref, update

from runtime.domain.errors import Conflict, ValidationFailed
from runtime.domain.kinds import BY_NAME, USER, ZONE, Verb
from runtime.storage.sql import session_roots, users

PERMIT = "permit(principal, action, resource);"
FORBID = "forbid(principal, action, resource);"


async def test_members_join_once_they_are_known(git: Git, zone: str) -> None:
    """Users with a verified address are members; the others are invited, and both are shown."""
    company = git.company
    there = next(iter([await company.run(ZONE, Verb.RETRIEVE, {}, zone)]))
    await company.user(there, "ann@example.org")
    await git.apply(
        create("Group", "staff", zone, name="Staff", members=["Ann@example.org", "bob@example.org"])
    )
    group = git.id("Group", "staff")
    assert (await git.found("Group", "staff"))["spec"]["members"] == ["ann@example.org", "bob@example.org"]
    assert len(await git.rows("group_members")) == 1
    assert len(await git.rows("group_invitees")) == 1
    await git.apply(update("Group", group, "staff", zone, members=["bob@example.org"]))
    assert len(await git.rows("group_members")) == 0


def _given(zone: str, address: str = "Ann@example.org") -> tuple[dict[str, Any], dict[str, Any]]:
    """A role, and that it is given to an address."""
    role = create("Role", "auditor", zone)
    principal = {"user": address}
    return role, create("RoleAssignment", "x", zone, role_id=ref("Role", "auditor"), principal=principal)


async def test_role_of_a_user(git: Git, zone: str) -> None:
    """A user is named by address."""
    ann = await git.company.user(await git.company.run(ZONE, Verb.RETRIEVE, {}, zone), "ann@example.org")
    await git.apply(*_given(zone))
    found = await git.found("RoleAssignment", "x")
    assert found["spec"]["principal"] == {"user": "ann@example.org"}
    assert [row["principal_id"] for row in await git.rows("role_assignments")][-1] == ann.id
    await git.apply(on("delete", "RoleAssignment", found["id"]))
    assert await git.names("RoleAssignment") == set()


@pytest.mark.parametrize("known", [False, True])
async def test_a_role_waits_for_its_user(git: Git, zone: str, known: bool) -> None:
    """Who has the address one day gets the role; until then, and while it is not verified, nobody does."""
    there = await git.company.run(ZONE, Verb.RETRIEVE, {}, zone)
    ann = await git.company.user(there, "ann@example.org", verified=False) if known else None
    await git.apply(*_given(zone))
    found = await git.found("RoleAssignment", "x")
    assert found["spec"]["principal"] == {"user": "ann@example.org"}
    if ann is not None:
        async with git.company.services.database.reading() as conn:
            assert (await session_roots.memberships(conn, zone, ann.id)).roles == ()
    again = {"role_id": git.id("Role", "auditor"), "principal": {"user": "ANN@example.org"}}
    with pytest.raises(Conflict, match="assigned already"):
        await git.apply(create("RoleAssignment", "y", zone, **again))
    await git.apply(on("delete", "RoleAssignment", found["id"]))
    assert await git.names("RoleAssignment") == set()


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


async def test_an_older_version_that_decides_is_told(git: Git, zone: str) -> None:
    """Lines say which version is in force, and what it says where that is not what was written last."""
    await git.apply(
        create("Policy", "a", zone, cedar=PERMIT),
        create("PolicySet", "main", zone, policies=[ref("Policy", "a")]),
    )
    older = (await git.bound_version(zone))["id"]
    await git.apply(
        update("Policy", git.id("Policy", "a"), "a", zone, cedar=FORBID),
        create("Policy", "b", zone, cedar=FORBID),
    )
    both = [git.id("Policy", "a"), git.id("Policy", "b")]
    await git.apply(update("PolicySet", git.id("PolicySet", "main"), "main", zone, policies=both))
    assert (await git.found("Policy", "a"))["in_force"] == {"version": 2, "latest_version": 2, "spec": {}}
    assert (await git.found("PolicySet", "main"))["in_force"] == {
        "version": 3,
        "latest_version": 3,
        "spec": {},
    }

    await _activate(git, zone, older)
    policy, policy_set = await git.found("Policy", "a"), await git.found("PolicySet", "main")
    text = policy["in_force"]["spec"]["cedar"]
    activations = [line["in_force"].pop("activated") for line in (policy, policy_set)]
    assert {(each["action"], each["changeset_id"]) for each in activations} == {
        ("policy_set_versions.activate", None)
    }
    assert text.startswith("permit")
    assert policy["in_force"] == {"version": 1, "latest_version": 2, "spec": {"cedar": text}}
    assert policy["spec"]["cedar"].startswith("forbid")
    assert policy_set["in_force"] == {
        "version": 1,
        "latest_version": 3,
        "spec": {"policies": both[:1]},
        "contents": [{"kind": "Policy", "id": both[0], "name": "a", "version": 1, "spec": {"cedar": text}}],
    }
    assert "in_force" not in await git.found("Policy", "b")


async def test_the_text_that_stands_there_decides_again(git: Git, zone: str) -> None:
    """Writing a text lets it decide, also where it was written before; the list in force stays."""
    await git.apply(
        create("Policy", "a", zone, cedar=PERMIT),
        create("Policy", "b", zone, cedar=PERMIT),
        create("PolicySet", "main", zone, policies=[ref("Policy", "a")]),
    )
    older, policy = (await git.bound_version(zone))["id"], git.id("Policy", "a")
    await git.apply(update("Policy", policy, "a", zone, cedar=FORBID))
    both = [policy, git.id("Policy", "b")]
    await git.apply(update("PolicySet", git.id("PolicySet", "main"), "main", zone, policies=both))
    await _activate(git, zone, older)

    await git.apply(update("Policy", policy, "a", zone, cedar=FORBID))
    assert (await git.found("Policy", "a"))["in_force"]["version"] == 2
    assert [entry["policy_id"] for entry in await _bound(git, zone)] == [policy]


async def _activate(git: Git, zone: str, version: str) -> None:
    """Let a version of the set `main` decide, as a hand does."""
    parents = {"zone_id": zone, "policy_set_id": git.id("PolicySet", "main")}
    await git.company.run(BY_NAME["PolicySetVersion"], Verb.UPDATE, parents, version, {"active": True})


async def test_same_text_is_no_new_version(git: Git, zone: str) -> None:
    """Writing the text that stands there changes nothing."""
    await git.apply(create("Policy", "a", zone, cedar=PERMIT))
    await git.apply(update("Policy", git.id("Policy", "a"), "a", zone, cedar=f"{PERMIT}\n"))
    versions = [row for row in await git.rows("policy_versions") if row["policy_id"] == git.id("Policy", "a")]
    assert len(versions) == 1


async def test_cedars_complaint_comes_back_at_the_member(git: Git, zone: str) -> None:
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


async def test_when_the_set_that_decides_goes(git: Git, zone: str) -> None:
    """Where git has nothing in its place, the zone's first policies decide again, as before it."""
    first = await git.bound_version(zone)
    await git.apply(
        create("Policy", "a", zone, cedar=PERMIT),
        create("PolicySet", "main", zone, policies=[ref("Policy", "a")]),
    )
    assert (await git.bound_version(zone))["id"] != first["id"]
    await git.apply(on("delete", "PolicySet", git.id("PolicySet", "main")))
    assert (await git.bound_version(zone))["id"] == first["id"]
    assert await git.names("PolicySet") == set()


async def test_archived_name_is_free(git: Git, zone: str) -> None:
    """A policy that was archived through the API does not keep its name in git."""
    await git.apply(create("Policy", "a", zone, cedar=PERMIT))
    policy = git.id("Policy", "a")
    await git.company.run(BY_NAME["Policy"], Verb.ARCHIVE, {"zone_id": zone}, policy)
    await git.apply(create("Policy", "a", zone, cedar=PERMIT))
    assert git.id("Policy", "a") != policy


async def _bound(git: Git, zone: str) -> list[dict[str, Any]]:
    """The entries of the policy set version that decides in a zone."""
    entries: list[dict[str, Any]] = (await git.bound_version(zone))["manifest"]["entries"]
    return entries


@pytest.mark.parametrize("what", ["Group", "Application", "Zone"])
async def test_nothing_is_joined_to_what_is_gone_again(git: Git, zone: str, what: str) -> None:
    """What the same changeset creates and deletes leaves nothing to be written in the end."""
    brief = f"brief-{what.lower()}"
    place = ref("Zone", brief)
    operations = [
        create("Zone", brief, name="Brief"),
        api("payroll", place),
        app("agent", place, dependencies=[ref("Resource", "payroll")]),
        create("Group", "team", place, name="Team", identifier="team", members=["ada@acme.test"]),
    ]
    name = {"Group": "team", "Application": "agent", "Zone": brief}[what]
    in_zone = {} if what == "Zone" else {"zone": place}
    await git.apply(*operations, {"op": "delete", "kind": what, "local_id": f"{what}:{name}", **in_zone})
    there = {
        (line["kind"], line["ownership"]["name"]) for line in await git.snapshot() if line.get("ownership")
    }
    assert ((what, name) in there, ("Resource", "payroll") in there) == (False, what != "Zone")


async def test_an_accountable_user_is_named_by_address(git: Git, zone: str) -> None:
    """The application has the user's id, a manifest the address in lower case."""
    ann = await git.company.user(await git.company.run(ZONE, Verb.RETRIEVE, {}, zone), "ann@example.org")
    await git.apply(app("agent", zone, accountable_user="Ann@example.org"))
    found = await git.found("Application", "agent")
    assert found["spec"]["accountable_user"] == "ann@example.org"
    assert ann.id in [row["accountable_user_id"] for row in await git.rows("applications")]


async def test_an_application_waits_for_its_accountable_user(git: Git, zone: str) -> None:
    """Whoever has the verified address one day is accountable; until then the address stands there."""
    await git.apply(app("agent", zone, accountable_user="Ann@example.org"))
    assert (await git.found("Application", "agent"))["spec"]["accountable_user"] == "ann@example.org"
    services = git.company.services
    ann = await git.company.user(await git.company.run(ZONE, Verb.RETRIEVE, {}, zone), "ann@example.org")
    async with services.database.transaction() as conn:
        await users.bind_invitations(conn, ann, now=services.clock())
    assert ann.id in [row["accountable_user_id"] for row in await git.rows("applications")]
    assert (await git.found("Application", "agent"))["spec"]["accountable_user"] == "ann@example.org"


async def test_a_deleted_accountable_user_differs_from_the_manifest(git: Git, zone: str) -> None:
    """The snapshot has the id in place of the address, so that a plan shows that somebody else is needed."""
    ann = await git.company.user(await git.company.run(ZONE, Verb.RETRIEVE, {}, zone), "ann@example.org")
    await git.apply(app("agent", zone, accountable_user="ann@example.org"))
    await git.company.delete(USER, zone, ann.id)
    assert (await git.found("Application", "agent"))["spec"]["accountable_user"] == ann.id


async def test_an_update_without_dependencies_keeps_them(git: Git, zone: str) -> None:
    """The accountable user is written apart from the other relations of an application."""
    await git.apply(api("notes", zone), app("agent", zone, dependencies=[ref("Resource", "notes")]))
    before = await git.found("Application", "agent")
    await git.apply(update("Application", before["id"], "agent", zone, accountable_user="ann@example.org"))
    assert (await git.found("Application", "agent"))["spec"]["dependencies"] == before["spec"]["dependencies"]


async def test_an_accountable_user_is_cleared(git: Git, zone: str) -> None:
    """A manifest that no longer names anybody leaves nobody accountable."""
    await git.apply(app("agent", zone, accountable_user="ann@example.org"))
    before = await git.found("Application", "agent")
    await git.apply(update("Application", before["id"], "agent", zone, accountable_user=None))
    assert "accountable_user" not in (await git.found("Application", "agent"))["spec"]


@pytest.mark.parametrize("to_group", [True, False])
async def test_a_group_and_a_user_replace_each_other(git: Git, zone: str, to_group: bool) -> None:
    """One operation clears the one and sets the other, whichever is written first."""
    await git.apply(create("Group", "team", zone, name="Team"))
    group, user = {"accountable_group_id": git.id("Group", "team")}, {"accountable_user": "ann@example.org"}
    first, then = (user, group) if to_group else (group, user)
    await git.apply(app("agent", zone, **first))
    found = await git.found("Application", "agent")
    await git.apply(update("Application", found["id"], "agent", zone, **dict.fromkeys(first), **then))
    spec = (await git.found("Application", "agent"))["spec"]
    assert {name: spec[name] for name in {**group, **user} if name in spec} == then


async def test_a_group_beside_an_accountable_user_is_refused(git: Git, zone: str) -> None:
    """A changeset that leaves both accountable changes nothing."""
    await git.apply(create("Group", "team", zone, name="Team"))
    with pytest.raises(ValidationFailed, match="conflicts with `accountable_user_id`"):
        await git.apply(
            app("agent", zone, accountable_user="a@b.test", accountable_group_id=git.id("Group", "team"))
        )
    assert await git.names("Application") == set()


@pytest.mark.parametrize("first", ["create", "delete"])
async def test_who_takes_the_name_of_what_goes_has_none_of_its_tokens(
    git: Git, zone: str, first: str
) -> None:
    """In one changeset, in which the former application has a placeholder for a while."""
    await git.apply(app("agent", zone))
    gone = on("delete", "Application", git.id("Application", "agent"))
    made = app("successor", zone, identifier="agent")

    await git.apply(*((made, gone) if first == "create" else (gone, made)))

    names = {(row["claim"], row["name"]) for row in await git.rows("withdrawn_names")}
    assert ("actor", "agent") in names
    assert not [name for _, name in names if name.startswith("urn:zonewright")]

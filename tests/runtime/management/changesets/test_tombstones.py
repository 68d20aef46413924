"""Tombstones: a deleted object is reported to its owner once; and secrets that others have written."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.applying import OWNER, Git, app, create, on, ref, update

from runtime.domain.kinds import BY_NAME, Verb
from runtime.storage.sql import tombstones

GROUP, POLICY, PROVIDER, ZONE = (BY_NAME[name] for name in ("Group", "Policy", "Provider", "Zone"))


async def graves(git: Git, *zones: str) -> list[dict[str, Any]]:
    """The lines of a snapshot that say what is gone."""
    return [line for line in await git.snapshot(*zones) if line["type"] == "tombstone"]


async def names(git: Git) -> list[tuple[str, str, str]]:
    """Kind, name and owner of what is gone."""
    return [(each["kind"], each["name"], each["owner"]) for each in await graves(git)]


async def test_what_a_hand_deletes_is_told(git: Git, zone: str) -> None:
    """The owner, the name in git, the zone, the time and who it was are kept."""
    await git.apply(create("Group", "staff", zone, name="Staff"))
    group = git.id("Group", "staff")
    await git.company.delete(GROUP, zone, group)
    (gone,) = await graves(git)
    assert gone.pop("deleted_at") == (await git.rows("tombstones"))[0]["deleted_at"].isoformat().replace(
        "+00:00", "Z"
    )
    assert gone == {
        "type": "tombstone",
        "kind": "Group",
        "id": group,
        "zone_id": zone,
        "zone": "acme",
        "owner": OWNER,
        "name": "staff",
        "revision": await git.revision(),
        "actor": {"type": git.company.caller.kind, "id": git.company.caller.id},
        "changeset_id": None,
    }


async def test_what_was_never_managed_leaves_nothing(git: Git, zone: str) -> None:
    """No owner waits for it."""
    made = await git.company.create(GROUP, zone, name="By hand")
    await git.company.delete(GROUP, zone, made.id)
    assert await names(git) == []


async def test_what_goes_along_is_told(git: Git, zone: str) -> None:
    """A role's grants go with the group that holds it, and everything goes with a zone."""
    await git.apply(
        create("Group", "staff", zone, name="Staff"),
        create("Role", "auditor", zone),
        create(
            "RoleAssignment",
            "x",
            zone,
            role_id=ref("Role", "auditor"),
            principal={"group_id": ref("Group", "staff")},
        ),
    )
    await git.company.delete(GROUP, zone, git.id("Group", "staff"))
    assert await names(git) == [("Group", "staff", OWNER), ("RoleAssignment", "x", OWNER)]
    await git.company.run(ZONE, Verb.DELETE, {}, zone)
    assert await names(git) == [
        ("Group", "staff", OWNER),
        ("Role", "auditor", OWNER),
        ("RoleAssignment", "x", OWNER),
        ("Zone", "acme", OWNER),
    ]


async def test_archived_is_gone(git: Git, zone: str) -> None:
    """A policy is never deleted; archived, it is managed no more."""
    await git.apply(create("Policy", "a", zone, cedar="permit(principal, action, resource);"))
    await git.company.run(POLICY, Verb.ARCHIVE, {"zone_id": zone}, git.id("Policy", "a"))
    assert await names(git) == [("Policy", "a", OWNER)]
    assert await git.rows("ownerships") != []
    assert not [row for row in await git.rows("ownerships") if row["kind"] == "Policy"]


async def test_what_the_owner_deletes_leaves_nothing(git: Git, zone: str) -> None:
    """A changeset's own deletions need no telling; what they take from another owner does."""
    other = git.as_owner("other/team")
    await git.apply(create("Role", "auditor", zone))
    await other.apply(create("Group", "shared", zone, name="Shared"))
    principal = {"group_id": other.id("Group", "shared")}
    await git.apply(
        create("RoleAssignment", "x", zone, role_id=git.id("Role", "auditor"), principal=principal)
    )
    done = await other.apply(on("delete", "Group", other.id("Group", "shared")))
    (gone,) = await graves(git)
    assert (gone["kind"], gone["owner"], gone["changeset_id"]) == ("RoleAssignment", OWNER, done["id"])


async def test_the_next_changeset_of_the_owner_acknowledges(git: Git, zone: str) -> None:
    """What was gone when the owner planned is forgotten; what went since, and what was others', is not."""
    other = git.as_owner("other/team")
    await git.apply(*(create("Group", name, zone, name=name) for name in ("a", "b")))
    await other.apply(create("Group", "c", zone, name="c"))
    for name in ("a", "c"):
        await git.company.delete(GROUP, zone, git.ids[f"Group:{name}"])
    base = await git.revision()
    await git.company.delete(GROUP, zone, git.id("Group", "b"))
    await git.apply(create("Group", "a", zone, name="a"), dry_run=True)
    assert [name for _, name, _ in await names(git)] == ["a", "b", "c"]
    await git.apply(create("Group", "a", zone, name="a"), base=base)
    assert await names(git) == [("Group", "b", OWNER), ("Group", "c", "other/team")]


async def test_graves_of_one_zone(git: Git, zone: str) -> None:
    """A snapshot of one zone has its own, and those of zones that are gone: nobody can ask for them."""
    await git.apply(create("Zone", "beta", name="Beta"), create("Zone", "gone", name="Gone"))
    zones = ("acme", "beta", "gone")
    await git.apply(*(create("Group", name, git.id("Zone", name), name=name) for name in zones))
    for name in zones:
        await git.company.delete(GROUP, git.id("Zone", name), git.id("Group", name))
    await git.company.run(ZONE, Verb.DELETE, {}, git.id("Zone", "gone"))
    assert {each["name"] for each in await graves(git, "acme")} == {"acme", "gone"}


async def test_who_did_it_is_told_to_those_who_may_know(git: Git, zone: str) -> None:
    """Without the audit log there are no names: neither of deletions nor of changes."""
    await git.apply(*(create("Group", name, zone, name=name) for name in ("a", "b")))
    await git.company.delete(GROUP, zone, git.id("Group", "a"))
    await git.company.update(GROUP, zone, git.id("Group", "b"), name="by hand")
    last = (await git.found("Group", "b"))["last_change"]
    assert last["action"] == "groups.update"
    assert last["actor"] == {"type": git.company.caller.kind, "id": git.company.caller.id}
    viewer = git.as_role("org_viewer")
    (gone,) = await graves(viewer)
    assert not {"actor", "changeset_id"} & gone.keys()
    assert "last_change" not in await viewer.found("Group", "b")


async def test_what_the_owner_wrote_last_has_no_other_writer(git: Git, zone: str) -> None:
    """Who has written is told of what others have written since, not of what the owner did."""
    await git.apply(create("Group", "a", zone, name="a"))
    assert "last_change" not in await git.found("Group", "a")
    await git.company.update(GROUP, zone, git.id("Group", "a"), name="by hand")
    assert "last_change" in await git.found("Group", "a")
    await git.apply(update("Group", git.id("Group", "a"), "a", zone, name="a"))
    assert "last_change" not in await git.found("Group", "a")


async def test_old_graves_are_forgotten(git: Git, zone: str) -> None:
    """A configuration that nobody applies any more does not keep them for ever."""
    async with git.company.services.database.transaction() as conn:
        soon = git.company.services.clock() + timedelta(seconds=1)
        await tombstones.forget(conn, before=soon, limit=1000)  # those of other tests
    await git.apply(create("Group", "a", zone, name="a"))
    await git.company.delete(GROUP, zone, git.id("Group", "a"))
    now = git.company.services.clock()
    async with git.company.services.database.transaction() as conn:
        kept = timedelta(days=git.company.services.settings.tombstones_days)
        assert await tombstones.forget(conn, before=now - kept, limit=10) == 0
        assert await tombstones.forget(conn, before=now + timedelta(seconds=1), limit=10) == 1
    assert await names(git) == []


async def test_a_secret_that_others_wrote_is_told(git: Git, zone: str) -> None:
    """Written by hand, also with the same value; not by the owner, whatever else the owner writes."""
    secret = {"client_secret": "hush!hush"}
    body = {"name": "Corp", "identifier": "https://corp.test"}
    versions = {"secret_versions": {"client_secret": "1"}}
    await git.apply(create("Provider", "corp", zone, **body, **secret) | versions)
    provider = git.id("Provider", "corp")
    assert "secrets_overwritten" not in await git.found("Provider", "corp")
    await git.company.update(PROVIDER, zone, provider, name="Other")
    assert "secrets_overwritten" not in await git.found("Provider", "corp")

    await git.company.update(PROVIDER, zone, provider, **secret)
    line = await git.found("Provider", "corp")
    assert line["secrets_overwritten"] == ["client_secret"]
    assert "stamp" not in str(line)
    await git.apply(update("Provider", provider, "corp", zone, name="Corp") | versions)
    assert (await git.found("Provider", "corp"))["secrets_overwritten"] == ["client_secret"]
    await git.apply(update("Provider", provider, "corp", zone, **secret) | versions)
    assert "secrets_overwritten" not in await git.found("Provider", "corp")


@pytest.mark.parametrize("applied", [True, False])
async def test_deleting_the_organization_s_things_leaves_no_grave_behind(
    git: Git, zone: str, applied: bool
) -> None:
    """An organization that goes takes its graves along."""
    await git.apply(app("a", zone))
    await git.company.run(ZONE, Verb.DELETE, {}, zone)
    if applied:
        await git.apply(create("Zone", "acme", name="Acme"))
        await git.company.run(ZONE, Verb.DELETE, {}, git.id("Zone", "acme"))
    assert await git.rows("tombstones") != []
    await git.company.run(BY_NAME["Organization"], Verb.DELETE, {}, git.company.organization_id)
    assert await git.rows("tombstones") == []

"""Effects of deletions that a dry run counts: they exist, and are gone when the changeset is applied."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.support.applying import Git, api, app, create, on, ref
from tests.support.factories import Person

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ALL, ZONE, Verb
from runtime.domain.kinds.zone import Zone
from runtime.services.decision_log import Decision
from runtime.storage.sql import deletion_effects, entities, refresh_families
from runtime.storage.sql.reference_cleanup import pointing_at
from runtime.storage.sql.refresh_families import RefreshFamily
from runtime.storage.sql.tables import METADATA, TABLES


async def tried(git: Git, *operations: Any) -> list[dict[str, Any]]:
    """What a dry run says of operations, which leaves everything as it is."""
    return (await git.apply(*operations, dry_run=True))["operations"]


async def entity(git: Git, zone_id: str) -> Zone:
    """The zone."""
    async with git.company.services.database.reading() as conn:
        found = await entities.get(conn, ZONE, zone_id, within={})
    assert isinstance(found, Zone)
    return found


async def refresh_token(git: Git, zone: str, application_id: str, person: Person, **more: Any) -> None:
    """A refresh token of an application."""
    services, now = git.company.services, git.company.services.clock()
    family = RefreshFamily(
        id=new_id(),
        zone_id=zone,
        application_id=application_id,
        client_id="agent",
        session_id=person.session_id,
        user_id=person.user.id,
        scopes=["openid"],
        resources={},
        current_hash=services.hasher.hash(new_id()),
        created_at=now,
        **({"expires_at": now + timedelta(hours=1)} | more),
    )
    async with services.database.transaction() as conn:
        await refresh_families.add(conn, family)


async def token_issued(
    git: Git, zone: str, application_id: str, *, ago: timedelta, credential_id: str | None = None
) -> None:
    """A token that an application got some time ago; by which credential is known since that is recorded."""
    services = git.company.services
    decision = Decision(git.company.organization_id, zone, services.clock() - ago, new_id())
    decision.application_id, decision.credential_id = application_id, credential_id
    decision.issue()
    services.decisions.record(decision)
    await services.decisions.flush()


@pytest.fixture
async def agent(git: Git, zone: str) -> str:
    """An application with a credential and a role; its id."""
    await git.apply(
        api("payroll", zone),
        app("agent", zone, dependencies=[ref("Resource", "payroll")]),
        create(
            "ApplicationCredential",
            "key",
            zone,
            application_id=ref("Application", "agent"),
            type="public",
            identifier="agent-key",
        ),
        create("Role", "auditor", zone, identifier="auditor"),
        create(
            "RoleAssignment",
            "audits",
            zone,
            role_id=ref("Role", "auditor"),
            principal={"application_id": ref("Application", "agent")},
        ),
    )
    return git.id("Application", "agent")


async def test_what_goes_with_an_application(git: Git, zone: str, agent: str) -> None:
    """What belongs to it, and what it holds for users; of what has ended nothing is said."""
    ann = await git.company.person(await entity(git, zone), "ann@acme.test")
    await refresh_token(git, zone, agent, ann)
    await refresh_token(git, zone, agent, ann, expires_at=git.company.services.clock() - timedelta(hours=1))
    (done,) = await tried(git, on("delete", "Application", agent))
    assert done["takes_along"] == {
        "application_credentials": 1,
        "dependencies": 1,
        "refresh_tokens": 1,
        "role_assignments": 1,
    }
    assert done["in_use"] is True


async def test_nothing_goes_with_what_is_alone(git: Git, zone: str, agent: str) -> None:
    """And other operations say nothing of it."""
    await git.apply(create("Group", "staff", zone, name="Staff"))
    role = on("rename", "Role", git.id("Role", "auditor"), name="auditing")
    done = await tried(git, on("delete", "Group", git.id("Group", "staff")), role)
    assert (done[0]["takes_along"], done[0]["in_use"]) == ({}, False)
    assert done[1].get("takes_along") is done[1].get("in_use") is None


async def test_a_zone_takes_its_people_along(git: Git, zone: str, agent: str) -> None:
    """Which no manifest brings back."""
    people = await entity(git, zone)
    for name in ("ann", "bob"):
        await git.company.person(people, f"{name}@acme.test")
    await git.company.user(people, "cy@acme.test")
    (done,) = await tried(git, on("delete", "Zone", zone))
    told = done["takes_along"]
    assert (told["users"], told["sessions"], told["applications"]) == (3, 2, 1)


@pytest.mark.parametrize(("days", "used"), [(29, True), (31, False)])
async def test_what_got_a_token_lately_is_in_use(
    git: Git, zone: str, agent: str, days: int, used: bool
) -> None:
    """So are its credentials."""
    key = git.id("ApplicationCredential", "key")
    assert [each["in_use"] for each in await tried(git, on("delete", "Application", agent))] == [False]
    await token_issued(git, zone, agent, ago=timedelta(days=days))
    assert not [
        operation
        for operation in (on("delete", "Application", agent), on("delete", "ApplicationCredential", key))
        if [each["in_use"] for each in await tried(git, operation)] != [used]
    ]


async def test_a_credential_is_in_use_where_tokens_were_got_by_it(git: Git, zone: str, agent: str) -> None:
    """Of two of one application, the one; each, while that is not known."""
    await git.apply(
        create(
            "ApplicationCredential", "other", zone, application_id=agent, type="public", identifier="other"
        )
    )
    keys = {name: git.id("ApplicationCredential", name) for name in ("key", "other")}

    async def in_use() -> set[str]:
        return {
            name
            for name, key in keys.items()
            if (await tried(git, on("delete", "ApplicationCredential", key)))[0]["in_use"]
        }

    assert await in_use() == set()
    ago = timedelta(days=1)
    await token_issued(git, zone, agent, ago=ago, credential_id=keys["other"])
    assert await in_use() == {"other"}
    ann = await git.company.person(await entity(git, zone), "ann@acme.test")
    await refresh_token(git, zone, agent, ann)
    assert await in_use() == {"other"}
    await token_issued(git, zone, agent, ago=ago)
    assert await in_use() == {"key", "other"}


async def test_what_refreshes_without_a_trace_may_be_any(git: Git, zone: str, agent: str) -> None:
    """A refresh token that stands, and no record of how it was got."""
    ann = await git.company.person(await entity(git, zone), "ann@acme.test")
    await refresh_token(git, zone, agent, ann)
    (done,) = await tried(git, on("delete", "ApplicationCredential", git.id("ApplicationCredential", "key")))
    assert done["in_use"] is True


async def test_another_company_s_entity_is_not_counted(git: Git, zone: str) -> None:
    """Its id is refused like any that is not there."""
    async with git.company.services.database.reading() as conn:
        assert await deletion_effects.owned(conn, ZONE, git.company.organization_id, [zone]) == {zone: {zone}}
        assert await deletion_effects.owned(conn, ZONE, new_id(), [zone]) == {}


async def test_what_is_told_is_what_goes(git: Git, zone: str, agent: str) -> None:
    """When the zone is deleted, nothing of what was counted is left."""
    await git.company.person(await entity(git, zone), "ann@acme.test")
    (done,) = await tried(git, on("delete", "Zone", zone))
    tables = {word: name for name, word in deletion_effects.WORDS.items() if word != "members"}
    counted = {tables[word]: number for word, number in done["takes_along"].items() if word in tables}
    assert await rows(git, zone, counted) == counted
    await git.apply(on("delete", "Zone", zone))
    assert await rows(git, zone, counted) == dict.fromkeys(counted, 0)


async def rows(git: Git, zone: str, tables: Any) -> dict[str, int]:
    """How many rows of a zone some tables have."""
    async with git.company.services.database.reading() as conn:
        return {
            name: int(
                await conn.scalar(
                    select(func.count())
                    .select_from(METADATA.tables[name])
                    .where(METADATA.tables[name].c.zone_id == zone)
                )
                or 0
            )
            for name in tables
        }


def test_every_table_is_told_of_or_left_out_on_purpose() -> None:
    """A new table that goes with something has a word, or is named as one that nobody needs to hear of."""
    going = {
        table.name
        for kind in ALL
        if kind.manifest and Verb.ARCHIVE not in kind.verbs
        for table, _, _, ondelete in pointing_at(TABLES[kind.name])
        if ondelete is not None
    } | {table.name for table in METADATA.tables.values() if "zone_id" in table.c}
    assert going <= deletion_effects.WORDS.keys() | deletion_effects.UNTOLD
    assert not deletion_effects.WORDS.keys() & deletion_effects.UNTOLD

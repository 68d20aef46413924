"""Deletions of a dry run go in groups, which come to the same as deletions one by one."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event, select
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.applying import Git, api, app, create, on, ref

from runtime.contract.changes import Changeset
from runtime.domain.errors import Conflict
from runtime.domain.kinds import BY_NAME, Kind
from runtime.services.management.changesets import deletion_groups
from runtime.services.management.changesets.changeset import DeleteOperation, PackedOperation, packed
from runtime.services.management.kind_handlers import DELETES_MANY
from runtime.storage.sql import deletion_effects, entities
from runtime.storage.sql.batches import BATCH
from runtime.storage.sql.tables import METADATA

GROUPED = sorted(DELETES_MANY)
_OPERATION = st.tuples(
    st.sampled_from(["delete", "release"]),
    st.sampled_from(["Role", "Group", "Zone"]),
    st.sampled_from(["1", "2", "3", "4"]),
)


def operations(chosen: Sequence[tuple[str, str, str]]) -> Sequence[PackedOperation]:
    """Operations by what they do, their kind and id."""
    body = {"base_revision": 1, "owner": "acme/identity", "plan_digest": "sha256:1"}
    written = [{"op": op, "kind": kind, "id": entity_id} for op, kind, entity_id in chosen]
    return packed(Changeset.model_validate({**body, "operations": written})).operations


@given(st.lists(_OPERATION, min_size=1, max_size=20), st.booleans())
def test_groups_are_the_operations_in_their_order(chosen: list[tuple[str, str, str]], together: bool) -> None:
    """Each with its place, and none twice."""
    given_ = operations(chosen)
    groups = list(deletion_groups.split(given_, together=together))
    placed = [(first + n, one) for first, group in groups for n, one in enumerate(group)]
    assert placed == list(enumerate(given_))


@given(st.lists(_OPERATION, min_size=1, max_size=20))
def test_a_group_is_of_deletions_of_entities_of_one_kind(chosen: list[tuple[str, str, str]]) -> None:
    """Each entity once: the second deletion of it has to be refused."""
    found = [group for _, group in deletion_groups.split(operations(chosen), together=True) if len(group) > 1]
    assert all(isinstance(one, DeleteOperation) and one.kind in GROUPED for group in found for one in group)
    assert all(len({one.kind for one in group}) == 1 for group in found)
    assert all(len({one.id for one in group}) == len(group) for group in found)


def test_neighbours_are_in_one_group() -> None:
    """Up to as many as are done at once."""
    many = operations([("delete", "Role", f"{n}") for n in range(deletion_groups.SIZE + 1)])
    sizes = [len(group) for _, group in deletion_groups.split(many, together=True)]
    assert sizes == [deletion_groups.SIZE, 1]


def test_what_is_to_be_alone_is_alone() -> None:
    """As in an apply, and where all problems are asked for."""
    two = operations([("delete", "Role", "1"), ("delete", "Role", "2")])
    assert [len(group) for _, group in deletion_groups.split(two, together=False)] == [1, 1]


# --- the same as one by one


@pytest.fixture
async def company(git: Git, zone: str) -> Git:
    """Three of each kind that goes in groups, which have to do with one another."""
    made: list[dict[str, Any]] = []
    for n in range(3):
        key = {"application_id": ref("Application", f"app-{n}"), "type": "password", "identifier": f"id-{n}"}
        made += [
            create("ServiceAccount", f"account-{n}", name=f"Account {n}"),
            create("Provider", f"idp-{n}", zone, name=f"IdP {n}", identifier=f"https://idp-{n}.test"),
            create("Group", f"group-{n}", zone, name=f"Group {n}", members=[f"ann-{n}@acme.test"]),
            api(f"api-{n}", zone, credential_provider_id=ref("Provider", f"idp-{n}")),
            app(
                f"app-{n}",
                zone,
                dependencies=[ref("Resource", f"api-{n}")],
                accountable_group_id=ref("Group", f"group-{n}"),
            ),
            create("ApplicationCredential", f"key-{n}", zone, **key),
            create("ApplicationCredential", f"next-{n}", zone, **key),
            create("Role", f"role-{n}", zone, identifier=f"role-{n}"),
            create(
                "RoleAssignment",
                f"holds-{n}",
                zone,
                role_id=ref("Role", f"role-{n}"),
                principal={"application_id": ref("Application", f"app-{n}")},
            ),
        ]
    await git.apply(*made)
    return git


def ids_of(git: Git, kind: str) -> list[str]:
    """The ids of the entities of a kind that were made."""
    return [entity_id for local_id, entity_id in git.ids.items() if local_id.startswith(f"{kind}:")]


def within(git: Git, kind: Kind, zone: str) -> dict[str, str]:
    """The parents of entities of a kind."""
    return {"zone_id": zone} if kind.zoned else {"organization_id": git.company.organization_id}


async def everything(conn: AsyncConnection) -> dict[str, Counter[str]]:
    """All rows of the database, by table."""
    return {
        name: Counter(repr(tuple(row)) for row in await conn.execute(select(table)))
        for name, table in METADATA.tables.items()
    }


@pytest.mark.parametrize("name", GROUPED)
async def test_removing_many_leaves_what_removing_each_leaves(company: Git, zone: str, name: str) -> None:
    """And the same ownership records go."""
    kind, ids = BY_NAME[name], ids_of(company, name)[:2]
    parents = within(company, kind, zone)
    left = []
    async with company.company.services.database.transaction() as conn:
        for chunks in ([[one] for one in ids], [ids]):
            async with conn.begin_nested() as savepoint:
                gone = [await entities.remove_many(conn, kind, chunk, within=parents) for chunk in chunks]
                records = Counter(repr(each) for one in gone for each in one)
                left.append((await everything(conn), records))
                await savepoint.rollback()
    assert left[0] == left[1]
    assert left[0][1]


@pytest.mark.parametrize("name", GROUPED)
async def test_effects_of_many_are_those_of_each(company: Git, zone: str, name: str) -> None:
    """Counted together or one by one."""
    kind, ids = BY_NAME[name], ids_of(company, name)
    tenant, now = next(iter(within(company, kind, zone).values())), company.company.services.clock()
    organization = company.company.organization_id
    async with company.company.services.database.reading() as conn:
        together = await deletion_effects.count(conn, kind, tenant, ids, now=now)
        used = await deletion_effects.used(conn, kind, organization, tenant, ids, now=now)
        each = [await deletion_effects.count(conn, kind, tenant, [one], now=now) for one in ids]
        each_used = [
            await deletion_effects.used(conn, kind, organization, tenant, [one], now=now) for one in ids
        ]
    assert dict(together) == {entity_id: found for one in each for entity_id, found in one.items()}
    assert used == set().union(*each_used)


@pytest.mark.parametrize("name", GROUPED)
async def test_a_dry_run_of_many_accepts_what_is_applied(company: Git, name: str) -> None:
    """`apply` tries it first, in a group, and then does it one by one."""
    done = await company.apply(*(on("delete", name, one) for one in ids_of(company, name)))
    assert [one["id"] for one in done["operations"]] == ids_of(company, name)


async def test_a_name_is_free_after_a_group(company: Git, zone: str) -> None:
    """What is made after the deletions may be called as what is gone; what is left may not."""
    deletions = [on("delete", "Application", one) for one in ids_of(company, "Application")[:2]]
    await company.apply(*deletions, app("app-0", zone), dry_run=True)
    with pytest.raises(Conflict, match="app-2"):
        await company.apply(*deletions, app("app-2", zone), dry_run=True)


async def test_what_is_gone_with_another_may_be_deleted_after_it(company: Git) -> None:
    """The credentials of applications go with them, and are named in the same changeset."""
    whole = [on("delete", "Application", one) for one in ids_of(company, "Application")]
    parts = [on("delete", "ApplicationCredential", one) for one in ids_of(company, "ApplicationCredential")]
    done = await company.apply(*whole, *parts)
    assert len(done["operations"]) == 9


async def test_one_that_is_protected_is_named_among_many(company: Git, zone: str) -> None:
    """All others are fine: without it, the group is accepted."""
    ids = ids_of(company, "Role")
    guard = {"op": "update", "kind": "Role", "id": ids[1], "name": "role-1", "spec": {}, "protect": True}
    await company.apply(guard | {"fields": []})
    await company.apply(*(on("delete", "Role", one) for one in (ids[0], ids[2])), dry_run=True)
    with pytest.raises(Conflict) as refused:
        await company.apply(*(on("delete", "Role", one) for one in ids), dry_run=True)
    assert [(each.field, "is protected" in each.message) for each in refused.value.problems] == [
        ("operations[1]", True)
    ]


async def test_what_takes_something_protected_along_is_named_among_many(company: Git, zone: str) -> None:
    """The application whose credential is protected, and no other."""
    ids, key = ids_of(company, "Application"), company.id("ApplicationCredential", "key-1")
    guard = {"op": "update", "kind": "ApplicationCredential", "id": key, "name": "key-1", "spec": {}}
    await company.apply(guard | {"fields": [], "protect": True})
    await company.apply(*(on("delete", "Application", one) for one in (ids[0], ids[2])), dry_run=True)
    with pytest.raises(Conflict) as refused:
        await company.apply(*(on("delete", "Application", one) for one in ids), dry_run=True)
    assert [each.field for each in refused.value.problems] == ["operations[1]"]


async def test_one_that_is_named_twice_is_refused(company: Git) -> None:
    """The second time there is none."""
    ids = ids_of(company, "Role")
    await company.apply(*(on("delete", "Role", one) for one in ids), dry_run=True)
    with pytest.raises(Conflict) as refused:
        await company.apply(*(on("delete", "Role", one) for one in (*ids, ids[0])), dry_run=True)
    assert [each.field for each in refused.value.problems] == ["operations[3]"]


# --- statements


@pytest.mark.parametrize("name", GROUPED)
async def test_a_dry_run_takes_as_many_statements_for_many_as_for_few(company: Git, name: str) -> None:
    """A few of each group, none of each entity."""
    assert len(ids_of(company, name)) <= min(BATCH, deletion_groups.SIZE)
    two, all_ = (
        [on("delete", name, one) for one in chosen]
        for chosen in (ids_of(company, name)[:2], ids_of(company, name))
    )
    assert len(all_) > len(two)
    await company.apply(*two, dry_run=True)  # what is looked up once
    assert await statements(company, all_) == await statements(company, two)


async def statements(git: Git, asked: Sequence[dict[str, Any]]) -> list[str]:
    """What a dry run sends to the database, without the number of its values."""
    database, sent = git.company.services.database, list[str]()

    def note(_conn: Any, clause: Any, *_rest: Any) -> None:
        sent.append(str(clause))

    engines = [database.engine.sync_engine, database._dry_runs._engine.sync_engine]
    for engine in engines:
        event.listen(engine, "before_execute", note)
    try:
        await git.apply(*asked, dry_run=True)
    finally:
        for engine in engines:
            event.remove(engine, "before_execute", note)
    return sent

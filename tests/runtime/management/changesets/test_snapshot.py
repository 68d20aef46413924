"""Snapshots: one stream with everything the caller may read."""

from typing import Any

import pytest
from sqlalchemy import event
from tests.support.applying import Git, create, ref
from tests.support.factories import Company, found_company

from runtime.contract.changes import SnapshotEntity
from runtime.domain.errors import NotFound
from runtime.domain.kinds import ALL, ORGANIZATION, Verb
from runtime.services.management.snapshots.snapshot import SnapshotFilter, open_snapshot

ORDER = [kind.name for kind in ALL if kind.manifest]


@pytest.fixture
async def git(git: Git) -> Git:
    """A configuration with two zones, one of them filled."""
    zone = ref("Zone", "acme")
    await git.apply(
        create("ServiceAccount", "ci"),
        create("Zone", "acme", name="Acme"),
        create("Zone", "beta", name="Beta"),
        create(
            "Provider",
            "corp",
            zone,
            name="Corp",
            identifier="https://corp.test",
            client_secret="hush!hush",
        ),
        create("Application", "agent", zone, name="Agent", identifier="agent"),
    )
    return git


async def label_of(company: Company) -> str:
    """The other name of its organization."""
    organization_id = company.organization_id
    return str((await company.run(ORGANIZATION, Verb.RETRIEVE, {}, organization_id)).label)


async def test_first_and_last_line(git: Git) -> None:
    """The stream says what it is of, and how many lines there were: a cut one is noticed."""
    lines = await git.snapshot()
    assert lines[0] == {
        "type": "snapshot",
        "organization_id": git.company.organization_id,
        "label": await label_of(git.company),
        "revision": await git.revision(),
        "names_writers": True,
        "sees_all": True,
    }
    assert lines[-1] == {"type": "end", "count": len(lines) - 2}


async def test_lines_are_what_the_contract_says(git: Git) -> None:
    """Every line has the members of its class, parents first."""
    entities = (await git.snapshot())[1:-1]
    for line in entities:
        SnapshotEntity.model_validate(line)
    kinds = [ORDER.index(line["kind"]) for line in entities]
    assert kinds == sorted(kinds)


async def test_entity_without_a_record(git: Git) -> None:
    """What nobody owns is shown too, with who manages it."""
    builtin = [line for line in await git.snapshot("acme") if line.get("ownership", 0) is None]
    assert {line["owner_type"] for line in builtin} == {"platform"}
    assert {"Provider", "Role", "Policy", "PolicySet"} <= {line["kind"] for line in builtin}


async def test_zone_shows_settings_and_addresses(git: Git) -> None:
    """What git can set is in `protocols`; what follows from the zone stands beside it."""
    zone = await git.found("Zone", "acme")
    assert zone["zone"] is None
    assert zone["handle"] == zone["spec"]["slug"] == "acme"
    assert set(zone["spec"]["protocols"]) == {"oauth2"}
    assert set(zone["spec"]["protocols"]["oauth2"]) == {
        *("cimd", "dcr_enabled", "pkce_required", "strict_assertion_audience")
    }
    assert zone["spec"]["addresses"]["token_endpoint"].endswith("/oauth/token")


async def test_secrets_only_say_that_they_are_set(git: Git) -> None:
    """No sealed byte is in the stream."""
    provider = await git.found("Provider", "corp")
    assert provider["secrets_set"] == ["client_secret"]
    assert "client_secret" not in provider["spec"]
    assert "hush!hush" not in str(await git.snapshot())


@pytest.mark.parametrize("by", ["slug", "id"])
async def test_a_zone_is_named_by_slug_or_id(git: Git, by: str) -> None:
    """A zone is named by slug or id; organization-level entities come along."""
    zone = await git.found("Zone", "acme")
    lines = (await git.snapshot("acme" if by == "slug" else zone["id"]))[1:-1]
    assert {line["zone"] for line in lines} == {"acme", None}
    assert [line["handle"] for line in lines if line["kind"] == "Zone"] == ["acme"]
    assert [line["handle"] for line in lines if line["kind"] == "ServiceAccount"] == ["ci"]


async def test_what_concerns_an_owner(git: Git) -> None:
    """All zones; the inside of its own, of those it has something in, of nobody's, and of those it names."""
    others = git.as_owner("acme/others")
    for name in ("shared", "theirs", "named"):
        zone = create("Zone", name, name=name.title())
        await others.apply(zone, create("Role", "auditor", ref("Zone", name), identifier="auditor"))
    shared = (await others.found("Zone", "shared"))["id"]
    await git.apply(create("Role", "ours", shared, identifier="ours"))
    loose = await git.company.zone("Loose")

    lines = (await git.snapshot("named", owner=git.owner))[1:-1]
    slugs = {line["handle"] for line in lines if line["kind"] == "Zone"}
    assert slugs >= {"acme", "shared", "theirs", "named", loose.slug}
    inside = {line["zone"] for line in lines}
    assert inside >= {None, "acme", "shared", "named", loose.slug}
    assert "theirs" not in inside
    by_id = (await git.found("Zone", "theirs"))["id"]
    assert "theirs" in {line["zone"] for line in await git.snapshot(by_id, owner=git.owner) if "zone" in line}
    assert "theirs" in {line.get("zone") for line in await git.snapshot(owner="acme/others")}


async def test_a_zone_of_nobody_or_somebody_else_is_not_there(git: Git) -> None:
    """A zone of nobody, and a zone of somebody else, are both not there."""
    other = await found_company(git.company.services, "Other")
    elsewhere = await other.zone("Elsewhere")
    for zone in ("nowhere", elsewhere.id, "elsewhere"):
        with pytest.raises(NotFound):
            await git.snapshot(zone)


async def test_other_organizations_are_not_in_it(git: Git) -> None:
    """A snapshot is of one organization, by id or label, and only by its own callers."""
    other = Git(await found_company(git.company.services, "Other"))
    await other.apply(create("Zone", "hidden", name="Hidden"))
    assert "Hidden" not in str(await git.snapshot())
    label = await label_of(other.company)
    with pytest.raises(NotFound):
        async with open_snapshot(git.company.services, git.company.caller, label, SnapshotFilter(), "r"):
            pass


@pytest.mark.parametrize(
    ("role", "hidden"),
    [
        ("org_admin", set()),
        ("org_viewer", set()),
        ("service_account", set()),
        ("zone_manager", {"ServiceAccount"}),
        ("zone_viewer", {"ServiceAccount"}),
    ],
)
async def test_only_what_the_role_sees(git: Git, role: str, hidden: set[str]) -> None:
    """Kinds that a role does not see are left out."""
    everything = {line["kind"] for line in (await git.snapshot())[1:-1]}
    seen = {line["kind"] for line in (await git.as_role(role).snapshot())[1:-1]}
    assert everything - seen == hidden


async def test_cost_does_not_grow_with_entities(git: Git) -> None:
    """The number of statements is the same for one entity and for many."""
    engine = git.company.services.database.engine.sync_engine
    counted: list[int] = []

    async def statements() -> int:
        seen: list[Any] = []

        def count(*arguments: Any) -> None:
            seen.append(arguments[2])

        event.listen(engine, "before_cursor_execute", count)
        try:
            await git.snapshot()
        finally:
            event.remove(engine, "before_cursor_execute", count)
        return len(seen)

    counted.append(await statements())
    zone = git.id("Zone", "acme")
    await git.apply(
        *(create("Application", f"a{n}", zone, name="A", identifier=f"a{n}") for n in range(60)),
        *(create("Group", f"g{n}", zone, name="G", members=["a@test.org"]) for n in range(60)),
    )
    counted.append(await statements())
    assert counted[0] == counted[1]


async def test_stream_is_one_instant(git: Git) -> None:
    """What is written while a snapshot is read is not in it."""
    company = git.company
    label = await label_of(company)
    async with open_snapshot(company.services, company.caller, label, SnapshotFilter(), "r") as opened:
        revision = opened.revision
        await git.apply(create("Zone", "late", name="Late"))
        text = b"".join([chunk async for chunk in opened.chunks])
    assert b"Late" not in text
    assert await git.revision() == revision + 1

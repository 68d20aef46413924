"""What a question calls its parties: ids, identifiers, manifest names and e-mail addresses."""

import pytest
from tests.runtime.explain.test_agreement import Case, case

from runtime.contract.decisions import ExplainBody, Explanation
from runtime.domain.kinds import APPLICATION, RESOURCE, Kind
from runtime.services.explain import explanations
from runtime.storage.sql import ownership
from runtime.storage.sql.ownership import OwnershipRecord

__all__ = ["case"]


async def named(case: Case, kind: Kind, entity_id: str, name: str, owner: str = "acme/identity") -> None:
    """Have an owner manage an object under that name."""
    zone, services = case.scene.zone, case.scene.services
    record = OwnershipRecord(zone.id, kind.name, entity_id, owner, name)
    async with services.epochs.transaction() as (conn, _):
        await ownership.add(conn, zone.organization_id, [record], revision=1, now=services.clock())


async def explained(case: Case, **asked: object) -> Explanation:
    body = {"application": "agent", "user": "ann@acme.test", "resource": "https://api.test", **asked}
    return await explanations.explain(
        case.scene.services,
        case.scene.company.caller,
        case.scene.zone,
        ExplainBody.model_validate(body),
    )


@pytest.mark.parametrize("user", ["ann@acme.test", None], ids=["user", "own"])
async def test_manifest_names_name_what_identifiers_do(case: Case, user: str | None) -> None:
    """An application and a resource, as git has them; for a user's token and for one of its own."""
    by_identifier = await explained(case, user=user)
    await named(case, APPLICATION, case.agent.id, "mail-agent")
    await named(case, RESOURCE, case.api.id, "mail-api")

    by_name = await explained(case, user=user, application="mail-agent", resource="mail-api")

    assert by_identifier.allowed
    assert (by_name.allowed, by_name.unresolved) == (True, [])
    assert by_name.hops[0].resource == "https://api.test"
    assert by_name.hops[0].scopes == by_identifier.hops[0].scopes


async def test_a_chain_is_named_by_manifest_names(case: Case) -> None:
    """`via` as well as the application that asks."""
    await named(case, APPLICATION, case.agent.id, "first")
    await named(case, APPLICATION, case.gateway.id, "second")

    told = await explained(case, application="second", via=["first"])

    assert (told.allowed, [hop.application for hop in told.hops]) == (True, ["first", "second"])


@pytest.mark.parametrize("name", ["api", "agent", "https://api.test"], ids=["owners", "identifier", "url"])
async def test_an_ambiguous_name_says_what_it_could_be(case: Case, name: str) -> None:
    """Two owners have the name, or one object has it as identifier and another one as manifest name."""
    kind, member = (APPLICATION, "application") if name == "agent" else (RESOURCE, "resource")
    other = case.gateway.id if name == "agent" else case.door.id
    first = case.agent.id if name == "agent" else case.api.id
    if name == "api":
        await named(case, RESOURCE, first, name, "acme/identity")
    assert (await explained(case, **{member: name})).allowed
    await named(case, kind, other, name, "acme/web")

    told = await explained(case, **{member: name})

    (unresolved,) = told.unresolved
    assert (told.allowed, unresolved.member, unresolved.name) == (False, member, name)
    assert unresolved.reason.startswith(f"`{name}` may be ")
    assert f"(id `{other}`, `{name}` in the manifests of `acme/web`)" in unresolved.reason
    assert f"(id `{first}`" in unresolved.reason
    assert unresolved.remedy == "name the one that is meant by its id"
    assert (await explained(case, **{member: first})).allowed


async def test_names_of_another_zone_are_none_here(case: Case) -> None:
    """A manifest name belongs to a zone."""
    elsewhere = await case.scene.company.zone()
    api = await case.scene.company.resource(elsewhere, "https://elsewhere.test")
    services = case.scene.services
    record = OwnershipRecord(elsewhere.id, RESOURCE.name, api.id, "acme/identity", "mail-api")
    async with services.epochs.transaction() as (conn, _):
        await ownership.add(conn, elsewhere.organization_id, [record], revision=1, now=services.clock())

    told = await explained(case, resource="mail-api")

    assert [each.member for each in told.unresolved] == ["resource"]


async def test_every_name_of_nothing_is_told_at_once(case: Case) -> None:
    """Also those behind the first refusal, each with what would mend it."""
    told = await explained(
        case, application="agnt", via=["gatway"], user="eve@acme.test", resource="https://apj.test"
    )

    assert [(each.member, each.reason) for each in told.unresolved] == [
        ("via", "there is no application `gatway` in the zone"),
        ("application", "there is no application `agnt` in the zone"),
        ("resource", "there is no resource `https://apj.test` in the zone"),
        ("user", "there is no user `eve@acme.test` in the zone"),
    ]
    assert told.unresolved[-1].remedy.startswith("`eve@acme.test` has to sign in to the zone once")
    assert not told.allowed

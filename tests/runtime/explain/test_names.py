"""What a question calls its parties: ids, identifiers, manifest names and e-mail addresses."""

import pytest
from tests.runtime.explain.test_agreement import Case, case

from runtime.contract.decisions import ExplainBody, Explanation
from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, PROVIDER, RESOURCE, Kind, Verb
from runtime.services.explain import explanations
from runtime.services.management.access import permissions
from runtime.services.management.access.permissions import Roles
from runtime.storage.sql import ownership
from runtime.storage.sql.ownership import OwnershipRecord
from runtime.storage.sql.similar_names import MOST_BESIDE, MOST_CHARS

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
        ("via", "there is no application `gatway` in the zone; did you mean `gateway`?"),
        ("application", "there is no application `agnt` in the zone; did you mean `agent`?"),
        ("resource", "there is no resource `https://apj.test` in the zone; did you mean `https://api.test`?"),
        ("user", "there is no user `eve@acme.test` in the zone; did you mean `ann@acme.test`?"),
    ]
    assert told.unresolved[-1].remedy.startswith("`eve@acme.test` has to sign in to the zone once")
    assert not told.allowed


async def test_an_application_is_found_by_its_client_id(case: Case) -> None:
    """That is what a client sends, and its requests are recorded with; a slip is told the nearest one."""
    client_id = case.agent.client_id
    assert client_id not in {case.agent.id, case.agent.application.identifier}

    assert (await explained(case, application=client_id)).allowed

    (slip,) = (await explained(case, application=client_id[:-1])).unresolved
    assert slip.reason.endswith(f"did you mean `{client_id}`?")


async def test_the_subject_of_a_federated_credential_is_no_client_id(case: Case) -> None:
    """`*` is anybody's subject, and names no application."""
    company, zone = case.scene.company, case.scene.zone
    provider = await company.create(
        PROVIDER, zone.id, name="CI", identifier="https://ci.test", type="external"
    )
    body = {"type": "token", "provider_id": provider.id, "subject": "ci-runner-7"}
    made = await company.create(APPLICATION_CREDENTIAL, zone.id, application_id=case.agent.id, **body)
    assert made.identifier == "ci-runner-7"

    (told,) = (await explained(case, application="ci-runner-7")).unresolved

    assert told.reason == "there is no application `ci-runner-7` in the zone"


async def test_similar_names_are_those_of_the_zone(case: Case) -> None:
    """Another zone's objects are not there, however alike they are called."""
    elsewhere = await case.scene.company.zone()
    await case.scene.company.resource(elsewhere, "https://elsewhere.test")

    (told,) = (await explained(case, resource="https://elsewhere.tst")).unresolved

    assert "elsewhere.test" not in told.reason


@pytest.mark.parametrize("verbs", ["may list", "may not"])
async def test_similar_names_are_told_to_who_may_list_them(
    case: Case, verbs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every role of today that may ask may list, too: this holds for those of tomorrow."""
    allows = permissions.allows

    def only(roles: Roles, subject: str, verb: Verb) -> bool:
        is_listed = subject == RESOURCE.operations and verb is Verb.LIST
        return allows(roles, subject, verb) and not (is_listed and verbs == "may not")

    monkeypatch.setattr(permissions, "allows", only)

    (told,) = (await explained(case, resource="https://apj.test")).unresolved

    assert told.reason.endswith("did you mean `https://api.test`?") is (verbs == "may list")


async def test_similar_names_are_found_beside_many(case: Case) -> None:
    """Of many objects only those next to the name are compared; and a name that is too long with none."""
    company, zone = case.scene.company, case.scene.zone
    for number in range(2 * MOST_BESIDE + 10):
        await company.resource(zone, f"https://api-{number:03}.test/tickets")

    (told,) = (await explained(case, resource="https://api-073.test/tickts")).unresolved
    (long,) = (await explained(case, resource=f"https://api.test{'t' * MOST_CHARS}")).unresolved

    assert told.reason.endswith("did you mean `https://api-073.test/tickets`?")
    assert "did you mean" not in long.reason

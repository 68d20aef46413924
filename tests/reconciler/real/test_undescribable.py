"""Objects that no kind of manifest describes: plans count them, and `drift` lists them."""

import pytest
from tests.reconciler.real.company import Company
from tests.support.factories import company_of, operator

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ORGANIZATION, ZONE, Verb
from runtime.domain.kinds.values import OrganizationRole
from runtime.services.container import Services
from runtime.services.management.members import organization_users
from runtime.services.management.unit_of_work import unit_of_work

CANARY = "canary-of-a-secret-value"
HEAD = "apiVersion: zonewright/v1\n"


def keeps_a_secret(company: Company) -> str:
    """A hand puts a secret for git's application into the vault; its id."""
    application = company.found("applications", identifier="agent")["id"]
    data = {"type": "token", "token": CANARY}
    path = company.collection("secrets")
    made: str = company.send("POST", path, name="upstream", entity_id=application, data=data)["id"]
    return made


def makes_a_member(company: Company) -> str:
    """A hand lets somebody of the organization manage the zone; their address."""
    organization_id, email = company.server.organization_id, f"{new_id()}@acme.example"

    async def join(parts: Services) -> str:
        acme = company_of(company.server)
        organization = await acme.run(ORGANIZATION, Verb.RETRIEVE, {}, organization_id)
        user = await acme.user(await acme.run(ZONE, Verb.RETRIEVE, {}, organization.zone_id), email)
        async with unit_of_work(parts, operator(organization_id), new_id()) as unit:
            return (await organization_users.add_home_user(unit, user, OrganizationRole.MEMBER)).id

    person_id = company.server.call(join)
    company.send("POST", company.collection("members"), organization_user_id=person_id, role="zone_manager")
    return email


def makes_a_credential(company: Company) -> str:
    """A hand makes a credential of git's service account; the account's name."""
    name = f"account-{company.zone}"
    company.write("account.yaml", f"{HEAD}kind: ServiceAccount\nmetadata: {{name: {name}}}\nspec: {{}}\n")
    company.apply()
    accounts = f"/organizations/{company.server.organization_id}/service-accounts"
    listed = company.send("GET", f"{accounts}?limit=100")["items"]
    (account,) = [each["id"] for each in listed if each["name"] == name]
    company.send("POST", f"{accounts}/{account}/credentials", name="by hand")
    return name


def test_what_no_manifest_describes_is_listed(company: Company) -> None:
    """With what it belongs to and who wrote it, without secrets; and it is no drift."""
    assert "? " not in company.drift("--unmanaged", expect=0)
    assert "in no configuration" not in company.plan(expect=0).out
    keeps_a_secret(company)
    email, account = makes_a_member(company), makes_a_credential(company)
    said = company.drift("--unmanaged", expect=0)
    of_a_kind = "  of a kind that no manifest describes"
    assert f"? Secret {company.zone}/upstream{of_a_kind}, attached to Application/agent\n" in said
    assert f"? ZoneMember {company.zone}/zone_manager -> {email}{of_a_kind}\n" in said
    credential = f"? ServiceAccountCredential by hand{of_a_kind}, attached to ServiceAccount/{account}\n"
    assert credential in said
    assert said.count("    last written by api_key ") == 3
    assert CANARY not in said
    line = "3 objects in these zones and in the organization are in no configuration"
    told = (company.drift(expect=0), company.plan(expect=0).out)
    assert [text.split("\n", 1)[0] for text in told] == ["no drift", "12 manifests: nothing to do"]
    assert not [text for text in told if line not in text]


def test_documents_tell_it(company: Company) -> None:
    """Each with what it is attached to, and that no manifest describes such."""
    assert company.drift_json("--unmanaged")["unmanaged"] == company.plan_json()["unmanaged"] == []
    secret = keeps_a_secret(company)
    told = company.drift_json("--unmanaged")
    (found,) = told["unmanaged"]
    assert company.plan_json()["unmanaged"] == [found]
    assert found.pop("write")["actor"].startswith("api_key ")
    assert found == {
        "kind": "Secret",
        "zone": company.zone,
        "name": "upstream",
        "id": secret,
        "attached_to": ["Application/agent"],
        "describable": False,
    }
    assert (told["unmanaged_count"], told["attached"]) == (1, [])


@pytest.mark.parametrize("role", ["org_viewer", "org_member"])
def test_a_reader_sees_it_without_names(company: Company, role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wrote it is told to those who may read the audit log."""
    keeps_a_secret(company)
    (told,) = company.drift_json("--unmanaged")["unmanaged"]
    assert "write" in told
    company.as_key(role, monkeypatch)
    (seen,) = company.drift_json("--unmanaged")["unmanaged"]
    assert seen == {name: value for name, value in told.items() if name != "write"}

"""The role that each job of a pipeline needs: the table in docs/zonectl.md, on a real server."""

import re
from typing import Any

import pytest
from tests.reconciler.real.company import COMPANY, Company
from tests.reconciler.real.test_reviewing_plans import HEAD, called
from tests.support.server import Server

EDITED = ("groups.yaml", called("on-call", "standby"))
BINDINGS = {
    "unbound": {},
    "to the owner": {"owner": True},
    "to the zone": {"zones": True},
    "to both": {"owner": True, "zones": True},
}


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest, company: Company) -> dict[str, Any]:
    """What a key of this team may be bound to."""
    bound: dict[str, Any] = dict(BINDINGS[request.param])
    if "owner" in bound:
        bound["owner"] = f"acme/{company.zone}"
    if "zones" in bound:
        bound["zones"] = [company.zone_id]
    return bound


def key(company: Company, role: str, **bound: Any) -> str:
    """A new key of that role."""
    path = f"/organizations/{company.server.organization_id}/api-keys"
    made: str = company.send("POST", path, name=role, role=role, expires_in_seconds=3600, **bound)["api_key"]
    return made


def digest(text: str) -> str:
    """The name of a plan."""
    found = re.search(r"digest (sha256:\w+)", text)
    assert found is not None, text
    return found[1]


def test_a_viewer_plans_and_sees_drift(
    company: Company, binding: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is the one that an administrator gets; nothing can be applied with it."""
    company.write(*EDITED)
    company.send("PATCH", company.path("groups", identifier="staff"), name="By hand")
    viewer = key(company, "org_viewer", **binding)
    expected = digest(company.plan(expect=2).out)
    monkeypatch.setenv("ZONECTL_API_KEY", viewer)

    assert digest(company.plan(expect=2).out) == expected
    assert '"By hand" -> "Staff"' in company.drift(expect=3)
    assert "may not" in company.apply(expect=1).err
    assert not [each for each in company.items("groups") if each["identifier"] == "on-call"]


def test_a_member_applies_what_a_viewer_has_planned(
    company: Company, binding: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the digest from the pull request, and with a key of its own that is bound as the viewer's."""
    company.write(*EDITED)
    viewer, member = (key(company, role, **binding) for role in ("org_viewer", "org_member"))
    monkeypatch.setenv("ZONECTL_API_KEY", viewer)
    planned = digest(company.plan(expect=2).out)
    monkeypatch.setenv("ZONECTL_API_KEY", member)
    company.apply("--expect", planned)
    company.plan(expect=0)


@pytest.mark.parametrize("bound", [False, True])
def test_a_member_makes_zones_and_deletes_none(
    company: Company, bound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also bound to the owner. What deletes a zone takes an administrator."""
    binding = {"owner": f"acme/{company.zone}"} if bound else {}
    monkeypatch.setenv("ZONECTL_API_KEY", key(company, "org_member", **binding))
    company.write("zone.yaml", COMPANY["zone.yaml"])
    shop = f"{HEAD}kind: Zone\nmetadata: {{name: {{zone}}-shop}}\nspec: {{name: Shop}}\n"
    company.write("shop.yaml", shop)
    company.apply()
    (company.folder.path / "shop.yaml").unlink()
    assert "may not delete" in company.apply("--consent", "deletes=1", expect=1).err
    monkeypatch.setenv("ZONECTL_API_KEY", company.server.api_key)
    company.apply("--consent", "deletes=1")


def test_service_accounts_take_an_administrator(
    company: Company, served: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They act for the organization, and a member makes none."""
    name = f"account-{company.zone}"
    company.write("account.yaml", f"{HEAD}kind: ServiceAccount\nmetadata: {{name: {name}}}\nspec: {{}}\n")
    monkeypatch.setenv("ZONECTL_API_KEY", key(company, "org_member"))
    assert "may not create" in company.apply(expect=1).err
    monkeypatch.setenv("ZONECTL_API_KEY", served.api_key)
    company.apply()


@pytest.mark.parametrize(("member", "told"), [("", True), ("role", False), ("zones", False)])
def test_a_service_account_may_know_who_did_it(
    company: Company, member: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless its credential is one that only reads, or is bound to zones."""
    accounts = f"/organizations/{company.server.organization_id}/service-accounts"
    account = company.send("POST", accounts, name=f"drift-{company.zone}")["id"]
    bound = {"role": {"role": "org_viewer"}, "zones": {"zones": [company.zone_id]}}.get(member, {})
    made = company.send("POST", f"{accounts}/{account}/credentials", name="drift", **bound)
    company.send("PATCH", company.path("groups", identifier="staff"), name="By hand")
    monkeypatch.delenv("ZONECTL_API_KEY")
    monkeypatch.setenv("ZONECTL_CLIENT_ID", made["client_id"])
    monkeypatch.setenv("ZONECTL_CLIENT_SECRET", made["client_secret"])
    said = company.drift(expect=3)
    assert ("    last written by api_key " in said) is told
    assert ("this credential may not read" in said) is not told

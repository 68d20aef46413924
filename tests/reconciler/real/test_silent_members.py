"""Members that no manifest sets: values set by hand are listed as unmanaged, and are no drift."""

import pytest
from tests.reconciler.real.company import Company


def listed(company: Company) -> dict[str, list[object]]:
    """What `drift --unmanaged` says of members."""
    found = company.drift_json("--unmanaged")["unmanaged"]
    return {f"{each['kind']}.{each['member']}": each["values"] for each in found if "member" in each}


@pytest.mark.parametrize(
    ("kind", "member", "label"),
    [
        ("providers", "user_identity_provider_id", "Provider/corp"),
        ("resources", "default_resource_id", "Resource/payroll"),
    ],
)
def test_a_reference_of_a_zone(company: Company, kind: str, member: str, label: str) -> None:
    """Who signs people in is told where the manifest is silent, and in a plan's one line."""
    company.apply()
    assert listed(company) == {}
    assert "member" not in company.plan(expect=0).out
    (target,) = [each["id"] for each in company.items(kind) if each.get("owner_type") != "platform"]
    company.send("PATCH", f"/zones/{company.zone_id}", **{member: target})
    assert listed(company) == {f"Zone.{member}": [label]}
    assert "1 member in these zones is in no configuration" in company.plan(expect=0).out
    assert f"`{member}` is in no manifest" in company.drift("--unmanaged", expect=0)


def test_consent_and_endpoints_other_than_the_default_are_kept(company: Company) -> None:
    """Whatever is other than its default, and nothing else of the same objects."""
    company.apply()
    assert listed(company) == {}
    company.send("PATCH", company.path("applications", identifier="agent"), consent="implicit")
    endpoint = {"openid": {"user_identifier_claim": "email"}}
    company.send("PATCH", company.path("providers", identifier="https://corp.example"), protocols=endpoint)
    told = listed(company)
    assert told["Application.consent"] == ["implicit"]
    assert told["Provider.protocols.openid.user_identifier_claim"] == ["email"]
    assert len(told) == 2

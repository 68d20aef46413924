"""Whose the partitions of outbound requests are: an organization has one share with all its zones."""

from tests.support.factories import Company

from runtime.domain.identifiers import new_id


async def test_partitions_of_all_zones_are_their_organizations(company: Company) -> None:
    """Providers' partitions, too; what strangers ask for has a share of its own."""
    registry, organization = company.services.zones, company.organization_id
    zones = [await registry.get((await company.zone(name)).id) for name in ("First", "Second")]

    for zone in zones:
        partitions = [zone.id, f"{zone.id} {new_id()}"]
        assert [registry.tenant_of(each) for each in partitions] == [organization] * 2
        strangers = [zone.sites_of_clients, f"{zone.sites_of_clients}, https://{new_id()}.test"]
        assert [registry.tenant_of(each) for each in strangers] == [f"clients of {organization}"] * 2
        assert registry.tenant_of(zone.sites_of_applications) == f"applications of {organization}"


async def test_a_zone_that_is_not_cached_is_its_own_tenant(company: Company) -> None:
    """Such as one that is gone, whose users' tokens are still revoked."""
    registry, gone = company.services.zones, new_id()
    assert registry.tenant_of(f"{gone} {new_id()}") == gone
    assert registry.tenant_of("") == ""

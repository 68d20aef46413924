"""Accounts of organizations: what a management token still has to be true, and which issuers others trust."""

import pytest
from tests.runtime.authority.admitting import (
    FederatedZone,
    admit,
    change_row,
    connect,
    connected_home,
    home_of,
    member,
    verified,
)
from tests.support.factories import Company, found_company

from runtime.domain.errors import SignInRefused
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.organization import OrganizationUser
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import OrganizationRole
from runtime.domain.kinds.zone import Zone
from runtime.services.authority.admission import JoiningAccount, ManagementToken
from runtime.services.authority.admission.organization_accounts import trusted_issuer
from runtime.services.container import Services
from runtime.services.management.members import organization_users
from runtime.services.management.unit_of_work import unit_of_work
from runtime.storage.sql.tables import TABLES

ADA = "ada@acme.example"


def token_of(home: Zone, ada: User, **changes: str) -> ManagementToken:
    """A token that Ada has got at home, with her password and by the service's own client."""
    said = {"account_id": ada.id, "home_id": home.id, "issuer": str(home.protocols.oauth2.issuer), **changes}
    return ManagementToken(**said, source=None, by_platform=True)


async def acting(services: Services) -> tuple[Zone, User, OrganizationUser]:
    """Ada, who acts for the organization whose home zone has her."""
    company = await found_company(services, "home")
    home = await home_of(company)
    ada = await company.user(home, ADA)
    return home, ada, await member(company, ada)


async def acting_elsewhere(services: Services) -> tuple[Company, Zone, User]:
    """Ada, whom another organization than hers knows by her password."""
    company, away = await found_company(services, "home"), await found_company(services, "away")
    home = await home_of(company)
    ada = await company.user(home, ADA)
    await member(company, ada)
    async with unit_of_work(services, away.caller, new_id()) as unit:
        joining = JoiningAccount(token_of(home, ada), home, ada, None)
        await organization_users.add_external_account(unit, OrganizationRole.MEMBER, joining)
    return company, home, ada


async def test_a_management_token_is_of_the_organization_user(services: Services) -> None:
    """While all of it holds, the token is admitted as the account's user and organization user."""
    home, ada, organization_user = await acting(services)

    admitted = await admit(services, home, token_of(home, ada))

    assert (admitted.user.id, admitted.member and admitted.member.id) == (ada.id, organization_user.id)


async def test_a_disabled_organization_user_is_refused(services: Services) -> None:
    """Also while the user in the home zone is active."""
    home, ada, organization_user = await acting(services)
    await change_row(services, TABLES["OrganizationUser"], organization_user.id, status="disabled")

    with pytest.raises(SignInRefused) as refusal:
        await admit(services, home, token_of(home, ada))

    assert refusal.value.internal == "the organization user is disabled"


async def test_a_disabled_user_of_the_home_zone_is_refused(services: Services) -> None:
    """Also while the organization user is active."""
    home, ada, _ = await acting(services)
    await change_row(services, TABLES["User"], ada.id, status="disabled")

    with pytest.raises(SignInRefused) as refusal:
        await admit(services, home, token_of(home, ada))

    assert refusal.value.internal == "the user is disabled"


async def test_an_account_of_another_issuer_is_refused(services: Services) -> None:
    """The account's id alone is not the account: another zone's tokens may name the same one."""
    home, ada, _ = await acting(services)

    with pytest.raises(SignInRefused, match="issued for an account of another zone"):
        await admit(services, home, token_of(home, ada, issuer="https://other.example"))


async def test_a_provider_by_the_zones_own_issuer_takes_over_no_account_that_acts_elsewhere(
    services: Services,
) -> None:
    """Other organizations know passwords by the zone's issuer: a provider of that name is not meant by it."""
    company, home, ada = await acting_elsewhere(services)
    site = await connect(company, str(home.protocols.oauth2.issuer))

    with pytest.raises(SignInRefused, match="acts for other organizations"):
        await site.sign_in("ada", verified(ada.email))

    assert [each.issuer for each in await site.users()] == [None]


@pytest.mark.parametrize(("own", "trusted"), [(False, True), (True, False)])
async def test_other_organizations_trust_an_issuer_that_is_not_the_zone(
    services: Services, own: bool, trusted: bool
) -> None:
    """A provider that speaks for itself counts elsewhere unless it goes by the zone's own issuer."""
    site: FederatedZone = await (connected_home(services, None) if own else connected_home(services))

    assert trusted_issuer(site.zone, site.provider) == (site.provider.identifier if trusted else None)

"""Local accounts: an invitation makes users only in zones of the organization that it invites to."""

from dataclasses import replace
from typing import cast

import pytest
from tests.runtime.authority.admitting import admit, home_of, member, users_of
from tests.support.factories import Company, found_company

from runtime.domain.errors import SignInRefused
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import INVITATION, Verb
from runtime.domain.kinds.invitation import Invitation
from runtime.domain.kinds.values import OrganizationRole
from runtime.services.authority.admission import INVITATION_OVER, InvitedRegistration
from runtime.services.container import Services


async def invitation_of(company: Company) -> Invitation:
    """A pending invitation to act for an organization, sent by an administrator of it."""
    boss = await company.user(await home_of(company), f"boss-{new_id()[:8]}@acme.example")
    sender = await member(company, boss, OrganizationRole.ADMIN)
    acting = replace(company, caller=replace(company.caller, id=sender.id))
    body = {"email": f"guest-{new_id()[:8]}@acme.example", "role": "org_member"}
    parents = {"organization_id": company.organization_id}
    return cast(Invitation, await acting.run(INVITATION, Verb.CREATE, parents, body))


async def test_an_invitation_registers_in_a_zone_of_its_organization(company: Company) -> None:
    """The user has the invited address, verified by the mail that it came with."""
    zone, invitation = await company.zone(), await invitation_of(company)

    admitted = await admit(company.services, zone, InvitedRegistration(invitation, "hash"))

    assert (admitted.user.email, admitted.user.email_verified) == (invitation.email, True)


async def test_an_invitation_of_another_organization_registers_nobody(
    company: Company, services: Services
) -> None:
    """Whoever administrates one organization invites nobody to the zones of another."""
    zone, invitation = await company.zone(), await invitation_of(await found_company(services, "Other"))

    with pytest.raises(SignInRefused) as refusal:
        await admit(services, zone, InvitedRegistration(invitation, "hash"))

    assert refusal.value.detail == INVITATION_OVER
    assert await users_of(services, zone) == []

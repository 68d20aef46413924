"""Admission requests made by hand, in zones whose identity provider nobody has to run."""

from dataclasses import dataclass
from typing import Any, cast

from tests.support.factories import Company, found_company

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ORGANIZATION, PROVIDER, USER, ZONE, Verb
from runtime.domain.kinds.organization import Organization, OrganizationUser
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import OrganizationRole
from runtime.domain.kinds.zone import Zone
from runtime.services.authority import admission
from runtime.services.authority.admission import AdmissionRequest, AdmittedUser, UpstreamSignIn
from runtime.services.container import Services
from runtime.services.management.members import organization_users
from runtime.services.management.organizations import sso
from runtime.services.management.unit_of_work import unit_of_work
from runtime.storage.sql import entities

ISSUER = "https://login.acme.example"


def verified(email: str) -> dict[str, object]:
    """The claims of somebody whose address the provider has verified."""
    return {"email": email, "email_verified": True}


async def admit(services: Services, zone: Zone, by: AdmissionRequest) -> AdmittedUser:
    """What `admit` decides, committed and published as the sign-in does it."""
    async with services.epochs.transaction() as (conn, bumped):
        admitted = await admission.admit(conn, zone, by, now=services.clock())
        bumped.update(admitted.epochs)
    return admitted


async def users_of(services: Services, zone: Zone) -> list[User]:
    """Every user of a zone."""
    async with services.database.reading() as conn:
        return [cast(User, each) async for each in entities.all_of(conn, USER, within={"zone_id": zone.id})]


@dataclass(frozen=True)
class FederatedZone:
    """A zone as its provider's sign-ins find it."""

    company: Company
    zone: Zone
    provider: Provider

    @property
    def services(self) -> Services:
        return self.company.services

    def says(self, subject: str, claims: dict[str, object]) -> UpstreamSignIn:
        """The provider has signed that subject in, with these claims."""
        oauth2 = self.provider.protocols and self.provider.protocols.oauth2
        issuer = oauth2.issuer if oauth2 else self.provider.identifier
        return UpstreamSignIn(self.provider, str(issuer), subject, claims)

    async def sign_in(self, subject: str, claims: dict[str, object]) -> User:
        """The user whom a sign-in at the provider ends at."""
        return (await admit(self.services, self.zone, self.says(subject, claims))).user

    async def users(self) -> list[User]:
        return await users_of(self.services, self.zone)


async def federated_zone(company: Company) -> FederatedZone:
    """A zone of a customer whose users sign in at ISSUER."""
    zone = await company.zone()
    provider = await company.create(PROVIDER, zone.id, identifier=ISSUER, name="Login", client_id="zone")
    zone = await company.run(ZONE, Verb.UPDATE, {}, zone.id, {"user_identity_provider_id": provider.id})
    return FederatedZone(company, zone, provider)


async def home_of(company: Company) -> Zone:
    """The zone in which an organization's users sign in."""
    async with company.services.database.reading() as conn:
        owner = cast(Organization, await entities.get(conn, ORGANIZATION, company.organization_id, within={}))
        return cast(Zone, await entities.get(conn, ZONE, str(owner.zone_id), within={}))


async def connected_home(services: Services, issuer: str | None = ISSUER) -> FederatedZone:
    """A new organization's home zone, whose users sign in at that issuer; None: at the zone's own."""
    company = await found_company(services, f"Acme {new_id()[:8]}")
    zone = await home_of(company)
    return await connect(company, issuer or str(zone.protocols.oauth2.issuer))


async def connect(company: Company, issuer: str) -> FederatedZone:
    """Have an organization's users sign in at an issuer."""
    body = {"client_id": "organization", "client_secret": "s", "identifier": issuer}
    async with unit_of_work(company.services, company.caller, new_id()) as unit:
        await sso.enable(unit, {"organization_id": company.organization_id}, body)
    view = await company.services.zones.get((await home_of(company)).id)
    return FederatedZone(company, view.entity, cast(Provider, await view.user_provider()))


async def member(
    company: Company, user: User, role: OrganizationRole = OrganizationRole.MEMBER
) -> OrganizationUser:
    """Have a user of the home zone act for the organization."""
    async with unit_of_work(company.services, company.caller, new_id()) as unit:
        return await organization_users.add_home_user(unit, user, role)


async def change_row(services: Services, table: Any, entity_id: str, **values: Any) -> None:
    """Change a row beside the service, to see a condition alone that others come with."""
    async with services.database.transaction() as conn:
        await conn.execute(table.update().where(table.c.id == entity_id).values(**values))

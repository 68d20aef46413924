"""Home zones: their entities, made when the service starts, and their first users, made by the operator."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError as PydanticError
from tests.support.factories import Company, found_company, opened_parts

from runtime.domain.errors import Conflict, NotFound, ServiceError, ValidationFailed
from runtime.domain.kinds import APPLICATION, RESOURCE
from runtime.domain.kinds.values import OrganizationRole
from runtime.services.authority import users
from runtime.services.management.members import provisioning
from runtime.services.management.organizations import organizations
from runtime.storage.sql import applications, entities

PASSWORD = "correct horse battery"


@pytest.fixture
async def company(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Company]:
    """An organization in a database of its own."""
    async with opened_parts(tmp_path / "data", database_url=sqlite_url) as services:
        yield await found_company(services)


async def test_another_public_address_gets_a_resource_of_its_own(company: Company) -> None:
    """The client depends on it besides; a second start finds nothing to do."""
    settings = company.services.settings.model_copy(update={"public_url": "http://moved.test"})
    moved = replace(company.services, settings=settings)
    for _ in range(2):
        await organizations.complete_home_zones(moved)
    ((organization, issuer),) = await organizations.every(company.services)
    assert issuer.startswith("http://zones.test/")
    within = {"zone_id": str(organization.zone_id)}
    async with company.services.database.reading() as conn:
        there = [one async for one in entities.all_of(conn, RESOURCE, within=within)]
        client = await entities.find_by(conn, APPLICATION, "identifier", "zonectl", within=within)
        assert client is not None
        depends_on = await applications.dependencies_of(conn, client.id, zone_id=within["zone_id"])
    assert {getattr(one, "identifier", None) for one in there} == {"http://zones.test", "http://moved.test"}
    assert set(depends_on) == {one.id for one in there}


async def test_the_operator_brings_in_the_first_person(company: Company) -> None:
    """By label or id, with a password or as somebody whom the zone knows; and refusals by name."""
    services = company.services
    ((organization, _),) = await organizations.every(services)

    async def add(email: str, *, password: str | None = None, to: str = organization.label) -> str:
        made = await provisioning.add(
            services, to, email=email, role=OrganizationRole.ADMIN, password=password
        )
        return made.zone_user_id

    ada = await add("ada@acme.example", password=PASSWORD)
    assert ada
    bob = await users.create_local_user(
        services, str(organization.zone_id), "bob@acme.example", PASSWORD, verified=True
    )
    assert await add("Bob@acme.example", to=organization.id) == bob.id
    refusals: list[tuple[type[ServiceError], dict[str, str]]] = [
        (Conflict, {"email": "ada@acme.example"}),
        (Conflict, {"email": "ada@acme.example", "password": PASSWORD}),
        (NotFound, {"email": "carol@acme.example"}),
        (NotFound, {"email": "carol@acme.example", "to": "nobody"}),
        (ValidationFailed, {"email": "carol@acme.example", "password": "short"}),
        (ValidationFailed, {"email": "carol", "password": PASSWORD}),
    ]
    for refusal, asked in refusals:
        with pytest.raises(refusal):
            await add(**asked)


async def test_the_operator_brings_in_somebody_wholly_or_not_at_all(company: Company) -> None:
    """Where the second half fails, nobody is left behind with a password, and it can be tried again."""
    ((organization, _),) = await organizations.every(company.services)

    async def add(role: OrganizationRole) -> None:
        await provisioning.add(
            company.services, organization.id, email="dan@acme.example", role=role, password=PASSWORD
        )

    with pytest.raises(PydanticError):
        await add(cast(Any, "no role"))
    await add(OrganizationRole.MEMBER)

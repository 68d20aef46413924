"""Entities by tenant: nothing of another is found, referred to or changed."""

import pytest
from tests.support import entities as make
from tests.support.entities import stored, within

from runtime.domain.errors import NotFound, ValidationFailed
from runtime.domain.kinds import (
    APPLICATION,
    ORGANIZATION,
    POLICY,
    POLICY_VERSION,
    PROVIDER,
    RESOURCE,
    SERVICE_ACCOUNT,
    SERVICE_ACCOUNT_CREDENTIAL,
    ZONE,
)
from runtime.storage.sql import entities


class TestTenancy:
    async def test_another_zone_does_not_have_it(self, conn, zone):
        """The right id in the wrong zone is not found, whatever is tried."""
        other = await make.add_zone(conn)
        mine = await stored(conn, APPLICATION, make.application(zone))

        with pytest.raises(NotFound, match=mine.id):
            await entities.get(conn, APPLICATION, mine.id, within=within(other))
        with pytest.raises(NotFound):
            await entities.replace(conn, APPLICATION, mine, within=within(other))
        with pytest.raises(NotFound):
            await entities.remove(conn, APPLICATION, mine.id, within=within(other))
        assert await entities.find_by(conn, APPLICATION, "slug", mine.slug, within=within(other)) is None
        assert await entities.many(conn, APPLICATION, [mine.id], within=within(other)) == []
        assert [one async for one in entities.all_of(conn, APPLICATION, within=within(other))] == []
        assert (await entities.page(conn, APPLICATION, within=within(other))).items == []
        assert await entities.get(conn, APPLICATION, mine.id, within=within(zone)) == mine

    async def test_another_parent_does_not_have_it(self, conn, zone):
        """A version is found under its own policy only."""
        mine, other = await stored(conn, POLICY, make.policy(zone), make.policy(zone))
        version = await stored(conn, POLICY_VERSION, make.policy_version(mine))

        with pytest.raises(NotFound):
            await entities.get(
                conn, POLICY_VERSION, version.id, within=within(zone) | {"policy_id": other.id}
            )

    async def test_a_query_without_the_tenant_is_a_bug(self, conn, zone):
        """Nothing of a zone can be asked for without naming the zone."""
        for parents in ({}, {"organization_id": zone.organization_id}):
            with pytest.raises(ValueError, match="zone_id"):
                await entities.get(conn, APPLICATION, "a", within=parents)

    async def test_tenants_themselves_are_found_without_one(self, conn, zone):
        """Zones and organizations may be looked up by id alone."""
        assert await entities.get(conn, ZONE, zone.id, within={}) == zone
        assert (
            await entities.get(conn, ORGANIZATION, zone.organization_id, within={})
        ).id == zone.organization_id

    async def test_a_client_id_is_found_without_the_organization(self, conn, zone):
        """A service account that asks for a token names only its client id; no other member will do."""
        owner = await entities.get(conn, ORGANIZATION, zone.organization_id, within={})
        account = await stored(conn, SERVICE_ACCOUNT, make.service_account(owner))
        mine = await stored(conn, SERVICE_ACCOUNT_CREDENTIAL, make.service_account_credential(account))
        find = entities.find_by

        assert await find(conn, SERVICE_ACCOUNT_CREDENTIAL, "client_id", mine.client_id, within={}) == mine
        with pytest.raises(ValueError, match="organization_id"):
            await find(conn, SERVICE_ACCOUNT_CREDENTIAL, "name", mine.name, within={})

    async def test_a_reference_cannot_leave_the_zone(self, conn, zone):
        """The database refuses a resource whose application is in another zone."""
        other = await make.add_zone(conn)
        foreign = await stored(conn, APPLICATION, make.application(other))

        with pytest.raises(ValidationFailed, match=f"there is no Application `{foreign.id}`") as refused:
            async with conn.begin_nested():
                await entities.insert(conn, RESOURCE, make.resource(zone, application_id=foreign.id))
        assert [problem.field for problem in refused.value.problems] == ["application_id"]

    async def test_a_zone_cannot_refer_into_another_zone(self, conn, zone):
        """Nor may a zone's own settings point at another zone's entities."""
        other = await make.add_zone(conn)
        foreign = await stored(conn, PROVIDER, make.provider(other))
        changed = zone.model_copy(update={"user_identity_provider_id": foreign.id})

        with pytest.raises(ValidationFailed, match="user_identity_provider_id"):
            async with conn.begin_nested():
                await entities.replace(conn, ZONE, changed, within={"organization_id": zone.organization_id})

"""References to a removed entity: some go with it, some are only cleared."""

from datetime import UTC, datetime

from sqlalchemy import insert, select
from tests.support import entities as make
from tests.support.entities import stored, within

from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    GROUP,
    PROVIDER,
    RESOURCE,
    ROLE,
    ROLE_ASSIGNMENT,
    USER,
    ZONE,
)
from runtime.storage.sql import entities
from runtime.storage.sql.tables import TABLES, consents, group_members, ownerships, user_credentials


class TestRemoval:
    async def test_optional_references_are_cleared(self, conn, zone):
        """What may be without an application stays, without it; so does a zone's default."""
        application = await stored(conn, APPLICATION, make.application(zone))
        resource = await stored(conn, RESOURCE, make.resource(zone, application_id=application.id))
        changed = zone.model_copy(update={"default_mcp_gateway_application_id": application.id})
        await entities.replace(conn, ZONE, changed, within={"organization_id": zone.organization_id})

        await entities.remove(conn, APPLICATION, application.id, within=within(zone))

        found = await entities.get(conn, RESOURCE, resource.id, within=within(zone))
        assert found == resource.model_copy(update={"application_id": None})
        assert await entities.get(conn, ZONE, zone.id, within={}) == zone

    async def test_parts_go_with_the_whole(self, conn, zone):
        """Credentials cannot be without their application."""
        application = await stored(conn, APPLICATION, make.application(zone))
        await stored(conn, APPLICATION_CREDENTIAL, make.public_credential(application))

        await entities.remove(conn, APPLICATION, application.id, within=within(zone))

        assert await entities.count(conn, APPLICATION_CREDENTIAL, within=within(zone)) == 0

    async def test_what_a_principal_held_goes_with_it(self, conn, zone):
        """Role assignments name principals of several kinds, and still do not outlive them."""
        role = await stored(conn, ROLE, make.role(zone))
        group, user = make.group(zone), make.user(zone)
        await stored(conn, GROUP, group)
        await stored(conn, USER, user)
        mine, others = make.role_assignment(role, group), make.role_assignment(role, user)
        await stored(conn, ROLE_ASSIGNMENT, mine, others)

        await entities.remove(conn, GROUP, group.id, within=within(zone))

        assert [one async for one in entities.all_of(conn, ROLE_ASSIGNMENT, within=within(zone))] == [others]

    async def test_ownership_records_go_too(self, conn, zone):
        """Neither the entity's own record stays behind nor those of its parts."""
        application = await stored(conn, APPLICATION, make.application(zone))
        credential = await stored(conn, APPLICATION_CREDENTIAL, make.public_credential(application))
        kept = await stored(conn, RESOURCE, make.resource(zone))
        for kind, entity in (
            (APPLICATION, application),
            (APPLICATION_CREDENTIAL, credential),
            (RESOURCE, kept),
        ):
            await conn.execute(insert(ownerships), _ownership(kind, entity))

        await entities.remove(conn, APPLICATION, application.id, within=within(zone))

        assert (await conn.execute(select(ownerships.c.entity_id))).scalars().all() == [kept.id]

    async def test_a_user_keeps_a_credential_whose_provider_is_gone(self, conn, zone):
        """Who signed in at a provider is still known by issuer and subject."""
        provider = await stored(conn, PROVIDER, make.provider(zone))
        user = await stored(conn, USER, make.user(zone))
        now = datetime.now(UTC)
        await conn.execute(
            insert(user_credentials),
            {
                "id": "c",
                "zone_id": zone.id,
                "user_id": user.id,
                "type": "federation",
                "provider_id": provider.id,
                "issuer": "https://i",
                "subject": "s",
                "created_at": now,
                "updated_at": now,
            },
        )

        await entities.remove(conn, PROVIDER, provider.id, within=within(zone))

        rows = (await conn.execute(select(user_credentials.c.provider_id, user_credentials.c.subject))).all()
        assert rows == [(None, "s")]

    async def test_consents_to_a_resource_go_with_it(self, conn, zone):
        """Consents to signing in, which name no resource, stay."""
        user = await stored(conn, USER, make.user(zone))
        application = await stored(conn, APPLICATION, make.application(zone))
        resource = await stored(conn, RESOURCE, make.resource(zone))
        now = datetime.now(UTC)
        for resource_id in ("", resource.id):
            await conn.execute(
                insert(consents),
                {
                    "id": f"consent-{resource_id}",
                    "zone_id": zone.id,
                    "user_id": user.id,
                    "application_id": application.id,
                    "resource_id": resource_id,
                    "scopes": ["a"],
                    "created_at": now,
                    "updated_at": now,
                },
            )

        await entities.remove(conn, RESOURCE, resource.id, within=within(zone))

        assert (await conn.execute(select(consents.c.resource_id))).scalars().all() == [""]

    async def test_a_zone_goes_with_everything_in_it(self, conn, zone):
        """References within the zone do not stand in the way; another zone keeps its own."""
        other = await make.add_zone(conn)
        await stored(conn, USER, make.user(other))
        provider = await stored(conn, PROVIDER, make.provider(zone))
        application = await stored(conn, APPLICATION, make.application(zone))
        resource = make.resource(zone, application_id=application.id, credential_provider_id=provider.id)
        await stored(conn, RESOURCE, resource)
        user, group = make.user(zone), make.group(zone)
        await stored(conn, USER, user)
        await stored(conn, GROUP, group)
        member = {
            "zone_id": zone.id,
            "group_id": group.id,
            "user_id": user.id,
            "created_at": datetime.now(UTC),
        }
        await conn.execute(insert(group_members), member)
        changed = zone.model_copy(
            update={"default_resource_id": resource.id, "user_identity_provider_id": provider.id}
        )
        scope = {"organization_id": zone.organization_id}
        await entities.replace(conn, ZONE, changed, within=scope)

        await entities.remove(conn, ZONE, zone.id, within=scope)

        left = {
            name: (await conn.execute(select(table))).all()
            for name, table in TABLES.items()
            if "zone_id" in table.c
        }
        assert {name for name, rows in left.items() if rows} - {"Organization"} == {"User"}
        assert (await conn.execute(select(group_members))).all() == []


def _ownership(kind, entity):
    return {
        "organization_id": entity.organization_id,
        "zone_id": entity.zone_id,
        "kind": kind.name,
        "entity_id": entity.id,
        "owner": "acme/identity",
        "name": entity.slug,
        "fields": [],
        "applied": {},
        "secret_versions": {},
        "protect": False,
        "revision": 1,
        "updated_at": datetime.now(UTC),
    }

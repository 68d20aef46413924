"""What the generic queries promise, on SQLite and on PostgreSQL."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import insert, select
from tests.support import entities as make

from runtime.domain.errors import Conflict, NotFound, ValidationFailed
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    GROUP,
    ORGANIZATION,
    POLICY,
    POLICY_VERSION,
    PROVIDER,
    RESOURCE,
    ROLE,
    ROLE_ASSIGNMENT,
    SERVICE_ACCOUNT,
    SERVICE_ACCOUNT_CREDENTIAL,
    USER,
    ZONE,
)
from runtime.storage.sql import entities
from runtime.storage.sql.tables import TABLES, consents, group_members, ownerships, user_credentials


@pytest.fixture
async def conn(database):
    """A connection in a write transaction."""
    async with database.transaction() as opened:
        yield opened


@pytest.fixture
async def zone(conn):
    """A stored zone."""
    return await make.add_zone(conn)


def within(zone):
    return {"zone_id": zone.id}


async def stored(conn, kind, *made):
    for entity in made:
        await entities.insert(conn, kind, entity)
    return made[0] if len(made) == 1 else made


class TestRoundTrip:
    async def test_an_entity_comes_back_as_it_went_in(self, conn, zone):
        """Every type of member survives: parts, lists, dicts, enums, times, bytes."""
        provider = make.provider(
            zone,
            client_id="c",
            client_secret=b"\x00sealed\xff",
            metadata={"icon_url": "https://example.com/i.png"},
            protocols={
                "oauth2": {
                    "issuer": "https://issuer.example",
                    "authorization_parameters": {"z": "1", "a": "2"},
                    "scopes_supported": ["openid", "émail"],
                },
                "openid": {"single_logout_enabled": False},
            },
            revision=2**40,
        )
        await stored(conn, PROVIDER, provider)

        assert await entities.get(conn, PROVIDER, provider.id, within=within(zone)) == provider

    async def test_variants_come_back_as_what_they_are(self, conn, zone):
        """A kind with variants gives each entity its own class."""
        application = await stored(conn, APPLICATION, make.application(zone))
        credentials = make.password_credential(application), make.public_credential(application)
        await stored(conn, APPLICATION_CREDENTIAL, *credentials)

        found = [one async for one in entities.all_of(conn, APPLICATION_CREDENTIAL, within=within(zone))]

        assert found == list(credentials)
        assert list(map(type, found)) == list(map(type, credentials))

    async def test_times_are_kept_as_instants(self, conn, zone):
        """A time given in another zone comes back in UTC, to the microsecond."""
        east = datetime(2026, 5, 1, 1, 2, 3, 456789, tzinfo=timezone(timedelta(hours=2)))
        application = make.application(zone).model_copy(update={"updated_at": east})
        await stored(conn, APPLICATION, application)

        found = await entities.get(conn, APPLICATION, application.id, within=within(zone))

        assert found.updated_at == east
        assert found.updated_at.tzinfo is UTC

    async def test_optional_parts_are_null_in_the_table(self, conn, zone):
        """An absent part is SQL's NULL, so that `IS NULL` finds it."""
        await stored(conn, APPLICATION, make.application(zone))
        table = TABLES["Application"]

        assert (await conn.execute(select(table.c.id).where(table.c.protocols.is_(None)))).first()

    async def test_arbitrary_json_survives(self, conn, zone):
        """Nested JSON of a policy version comes back the same, members in their order."""
        policy = await stored(conn, POLICY, make.policy(zone))
        version = make.policy_version(policy, cedar_json={"b": [1, 2.5, None, {"é": True}], "a": "x"})
        await stored(conn, POLICY_VERSION, version)

        found = await entities.get(
            conn, POLICY_VERSION, version.id, within=within(zone) | {"policy_id": policy.id}
        )

        assert found == version
        assert list(found.cedar_json) == ["b", "a"]


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


class TestUniqueness:
    async def test_a_taken_handle_is_a_conflict_that_names_it(self, conn, zone):
        """The problem names the member, the message its value."""
        taken = await stored(conn, APPLICATION, make.application(zone, identifier="agent"))

        with pytest.raises(Conflict, match="identifier `agent`") as refused:
            async with conn.begin_nested():
                await entities.insert(conn, APPLICATION, make.application(zone, identifier="agent"))
        assert [problem.field for problem in refused.value.problems] == ["identifier"]
        with pytest.raises(Conflict, match="slug"):
            async with conn.begin_nested():
                await entities.insert(conn, APPLICATION, make.application(zone, slug=taken.slug))

    async def test_a_change_to_a_taken_handle_is_a_conflict(self, conn, zone):
        """Replacing runs into uniqueness as inserting does."""
        one, other = await stored(conn, APPLICATION, make.application(zone), make.application(zone))
        changed = other.model_copy(update={"identifier": one.identifier})

        with pytest.raises(Conflict, match="identifier"):
            async with conn.begin_nested():
                await entities.replace(conn, APPLICATION, changed, within=within(zone))

    async def test_another_zone_may_use_the_same_handle(self, conn, zone):
        """Handles are unique in a zone, not in the service."""
        other = await make.add_zone(conn)
        await stored(conn, APPLICATION, make.application(zone, identifier="agent"))

        await stored(conn, APPLICATION, make.application(other, identifier="agent"))

    async def test_a_role_identifier_is_unique_per_owner_type(self, conn, zone):
        """A customer's role may be called as a platform's role is."""
        await stored(conn, ROLE, make.role(zone, identifier="admin", owner_type="platform"))
        await stored(conn, ROLE, make.role(zone, identifier="admin"))

        with pytest.raises(Conflict, match="identifier `admin`"):
            async with conn.begin_nested():
                await entities.insert(conn, ROLE, make.role(zone, identifier="admin"))

    async def test_an_archived_name_is_free_again(self, conn, zone):
        """Only living policies take a name, and lookups by name find the living one."""
        gone = make.policy(zone, name="rules", archived_at=datetime.now(UTC))
        living = make.policy(zone, name="rules")
        await stored(conn, POLICY, gone, living)

        assert await entities.find_by(conn, POLICY, "name", "rules", within=within(zone)) == living
        with pytest.raises(Conflict, match="name `rules`"):
            async with conn.begin_nested():
                await entities.insert(conn, POLICY, make.policy(zone, name="rules"))

    async def test_the_longest_identifier_can_be_kept(self, conn, zone):
        """2048 characters fit into the unique index."""
        identifier = "https://" + "".join(chr(97 + i * 7 % 26) for i in range(2040))

        await stored(conn, RESOURCE, make.resource(zone, identifier=identifier))

        assert await entities.find_by(conn, RESOURCE, "identifier", identifier, within=within(zone))


class TestMany:
    async def test_many_keeps_the_order_asked(self, conn, zone):
        """Ids that lead nowhere are left out, doubles come once."""
        one, two = await stored(conn, USER, make.user(zone), make.user(zone))

        found = await entities.many(conn, USER, [two.id, "nobody", one.id, two.id], within=within(zone))

        assert found == [two, one]

    async def test_thousands_at_once(self, conn, zone):
        """Inserting, streaming and asking for thousands works, and gives all of them, oldest first."""
        users = [make.user(zone) for _ in range(1_201)]
        await entities.insert_many(conn, USER, users)

        assert [one async for one in entities.all_of(conn, USER, within=within(zone))] == users
        assert await entities.many(conn, USER, [one.id for one in users], within=within(zone)) == users

    async def test_a_refused_one_among_many_is_named(self, conn, zone):
        """The refusal is in the words of a single insert."""
        users = [make.user(zone) for _ in range(3)]
        users[2] = users[2].model_copy(update={"identifier": users[0].identifier})

        with pytest.raises(Conflict, match=f"identifier `{users[0].identifier}`"):
            async with conn.begin_nested():
                await entities.insert_many(conn, USER, users)

    async def test_a_stream_can_be_left_early(self, conn, zone):
        """Whoever stops reading leaves the connection usable."""
        await entities.insert_many(conn, USER, [make.user(zone) for _ in range(20)])
        stream = entities.all_of(conn, USER, within=within(zone))
        await anext(stream)
        await stream.aclose()

        assert await entities.count(conn, USER, within=within(zone)) == 20


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

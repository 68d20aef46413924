"""Generic queries for any kind, on SQLite and on PostgreSQL."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import select
from tests.support import entities as make
from tests.support.entities import stored, within

from runtime.domain.errors import Conflict
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    POLICY,
    POLICY_VERSION,
    PROVIDER,
    RESOURCE,
    ROLE,
    USER,
)
from runtime.storage.sql import entities
from runtime.storage.sql.tables import TABLES


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

"""Names that are given once, as storage itself keeps them, on SQLite and on PostgreSQL."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from alembic import command
from sqlalchemy import JSON, Connection, MetaData, insert, select, text
from tests.support import entities as make
from tests.support.entities import stored, within

from runtime.domain.errors import Conflict, ValidationFailed
from runtime.domain.kinds import APPLICATION, ORGANIZATION, USER, ZONE
from runtime.storage.sql import entities, names, users
from runtime.storage.sql import migrate as migrations
from runtime.storage.sql.database import Database
from runtime.storage.sql.migrate import migrate
from runtime.storage.sql.tables import TABLES, subjects


class TestOneNamespace:
    @pytest.mark.threat("40k")
    @pytest.mark.parametrize("name", ["ann", "ANN", "a\u006en\u200b", "\uff41nn"])
    async def test_no_application_is_called_as_a_user_is(self, conn, zone, name):
        """The name is taken where the row is written, whoever writes it. Other zones have other names."""
        await stored(conn, USER, make.user(zone, identifier="ann"))
        elsewhere = await make.add_zone(conn)
        await stored(conn, APPLICATION, make.application(elsewhere, identifier=name))

        with pytest.raises(Conflict, match="there is already a User with the identifier `ann`") as refused:
            await stored(conn, APPLICATION, make.application(zone, identifier=name))

        assert refused.value.problems[0].field == "identifier"

    @pytest.mark.parametrize("name", ["billing", "Billing", "BILLING "])
    async def test_no_user_is_called_as_an_application_is(self, conn, zone, name):
        """The reverse."""
        await stored(conn, APPLICATION, make.application(zone, identifier="billing"))
        await users.add(conn, make.user(zone, identifier="bill"))

        with pytest.raises(Conflict, match="there is already an Application with the identifier `billing`"):
            await users.add(conn, make.user(zone, identifier=name))

    async def test_two_of_a_kind_differ_by_more_than_case(self, conn, zone):
        """Two users, or two applications."""
        await stored(conn, USER, make.user(zone, identifier="ann"))
        await stored(conn, APPLICATION, make.application(zone, identifier="billing"))

        with pytest.raises(Conflict, match="differs in case or form alone"):
            await stored(conn, USER, make.user(zone, identifier="Ann"))
        with pytest.raises(Conflict, match="differs in case or form alone"):
            await stored(conn, APPLICATION, make.application(zone, identifier="Billing"))

    async def test_a_rename_takes_a_name_as_a_new_one_does(self, conn, zone):
        """Its own it may write otherwise, another's it does not get, and the former one stays its own."""
        await stored(conn, USER, make.user(zone, identifier="ann"))
        application = await stored(conn, APPLICATION, make.application(zone, identifier="billing"))

        for name in ("Billing", "invoices", "billing"):
            renamed = application.model_copy(update={"identifier": name})
            await entities.replace(conn, APPLICATION, renamed, within=within(zone))
        called_ann = application.model_copy(update={"identifier": "Ann"})
        with pytest.raises(Conflict):
            await entities.replace(conn, APPLICATION, called_ann, within=within(zone))
        for name in ("billing", "invoices"):
            with pytest.raises(Conflict):
                await stored(conn, USER, make.user(zone, identifier=name))

    async def test_clients_that_register_themselves_are_told_apart_by_name(self, conn, zone):
        """Policies know both as applications."""
        await stored(conn, APPLICATION, make.application(zone, identifier="ua-1"))

        with pytest.raises(ValidationFailed, match="`identifier`"):
            await stored(conn, APPLICATION, make.application(zone, identifier="UA:1"))

    async def test_of_two_at_once_one_gets_the_name(self, database):
        """The database decides, whatever each has seen before."""
        async with database.transaction() as conn:
            zone = await make.add_zone(conn)
        both_ready = asyncio.Barrier(2) if database.dialect == "postgresql" else None

        async def take(kind: Any, entity: Any) -> bool:
            async with database.transaction() as conn:
                await conn.execute(select(TABLES["Zone"]))
                if both_ready is not None:
                    await both_ready.wait()
                await stored(conn, kind, entity)
            return True

        outcomes = []
        for number in range(5):
            done = await asyncio.gather(
                take(USER, make.user(zone, identifier=f"racer-{number}")),
                take(APPLICATION, make.application(zone, identifier=f"Racer-{number}")),
                return_exceptions=True,
            )
            outcomes.append(sorted(map(type, done), key=str))
        assert outcomes == [[bool, Conflict]] * 5

    async def test_what_signs_in_cannot_rename(self, conn, zone):
        """The narrow update of users has no way to a name."""
        user = await stored(conn, USER, make.user(zone))
        await users.change(conn, user, email="new@example.com")

        with pytest.raises(ValueError, match="name"):
            await users.change(conn, user, identifier="other")


class TestForEver:
    @pytest.mark.threat("40l")
    async def test_a_user_who_is_gone_leaves_the_name_behind(self, conn, zone):
        """Nobody gets it but the same person, from the same provider."""
        known = {"issuer": "https://idp.example", "subject": "1"}
        ann = await stored(conn, USER, make.user(zone, identifier="ann", **known))
        await entities.remove(conn, USER, ann.id, within=within(zone))

        for other in ({}, known | {"subject": "2"}, known | {"issuer": "https://other.example"}):
            with pytest.raises(Conflict, match="was the name of another User, which was deleted"):
                await stored(conn, USER, make.user(zone, identifier="ann", **other))
        with pytest.raises(Conflict, match="the name of another User"):
            await stored(conn, APPLICATION, make.application(zone, identifier="Ann"))
        await stored(conn, USER, make.user(zone, identifier="ann", **known))

    async def test_a_name_that_was_changed_is_as_gone(self, conn, zone):
        """Only who had it may have it again."""
        ann = await stored(conn, USER, make.user(zone, identifier="ann"))
        await entities.replace(
            conn, USER, ann.model_copy(update={"identifier": "ann.lee"}), within=within(zone)
        )

        with pytest.raises(Conflict, match="deleted or renamed"):
            await stored(conn, USER, make.user(zone, identifier="ann"))
        await entities.replace(conn, USER, ann, within=within(zone))

    async def test_who_was_bound_to_a_provider_later_is_known_by_that(self, conn, zone):
        """What counts is who the user was when they went."""
        ann = await stored(conn, USER, make.user(zone, identifier="ann"))
        await users.change(conn, ann, issuer="https://idp.example", subject="1")
        await entities.remove(conn, USER, ann.id, within=within(zone))

        with pytest.raises(Conflict):
            await stored(conn, USER, make.user(zone, identifier="ann"))
        again = make.user(zone, identifier="ann", issuer="https://idp.example", subject="1")
        await stored(conn, USER, again)

    async def test_an_application_comes_back_from_git(self, conn, zone):
        """It is made again under its name; no user ever is."""
        gone = await stored(conn, APPLICATION, make.application(zone, identifier="billing"))
        await entities.remove(conn, APPLICATION, gone.id, within=within(zone))

        with pytest.raises(Conflict, match="the name of another Application"):
            await stored(conn, USER, make.user(zone, identifier="billing"))
        await stored(conn, APPLICATION, make.application(zone, identifier="billing"))

    async def test_names_of_people_are_not_kept_in_clear(self, conn, zone):
        """A name that only serves comparison is kept as a digest."""
        ann = make.user(zone, identifier="ann@example.com", issuer="https://idp.example", subject="ann-1")
        await stored(conn, USER, ann)
        await entities.remove(conn, USER, ann.id, within=within(zone))

        (row,) = await conn.execute(select(subjects).where(subjects.c.holder_id == ann.id))

        assert not row.is_held
        assert not [each for each in ("ann@", "example.com", "ann-1") if each in str(row)]

    async def test_names_go_with_their_zone(self, conn, zone):
        """Its issuer never comes back, so they mean nothing any more."""
        await stored(conn, USER, make.user(zone, identifier="ann"))
        await entities.remove(conn, ZONE, zone.id, within={"organization_id": zone.organization_id})

        assert (await conn.execute(select(subjects).where(subjects.c.zone_id == zone.id))).first() is None


class TestInTheService:
    @pytest.mark.threat("47k")
    async def test_an_issuer_is_given_once(self, conn, zone):
        """Neither while its zone is there nor afterwards; neither to others nor to the same organization."""
        owner = await entities.get(conn, ORGANIZATION, zone.organization_id, within={})
        other = await stored(conn, ORGANIZATION, make.organization())
        await entities.replace(conn, ZONE, zone, within={"organization_id": owner.id})
        shouting = zone.protocols.oauth2.issuer.replace("localhost", "LOCALHOST")
        protocols = zone.protocols.model_copy(
            update={"oauth2": zone.protocols.oauth2.model_copy(update={"issuer": shouting})}
        )
        for _ in range(2):
            for organization in (owner, other):
                for again in (zone.protocols, protocols):
                    with pytest.raises(Conflict, match="cannot be used again"):
                        await stored(conn, ZONE, make.zone(organization, protocols=again))
            await entities.remove(conn, ZONE, zone.id, within={"organization_id": owner.id})
            zone = await stored(conn, ZONE, make.zone(owner))

    async def test_a_label_is_given_once(self, conn, zone):
        """Scripts of the organization that had it still name it."""
        gone = await stored(conn, ORGANIZATION, make.organization(label="acme"))
        await entities.remove(conn, ORGANIZATION, gone.id, within={})

        with pytest.raises(Conflict, match="the label of another Organization"):
            await stored(conn, ORGANIZATION, make.organization(label="acme"))
        assert await names.is_assigned(conn, ORGANIZATION, "acme")
        assert not await names.is_assigned(conn, ORGANIZATION, "acme-2")


class TestWhatStoodBefore:
    async def test_everything_keeps_its_name_and_nobody_elses(self, empty_url: str):
        """Of duplicates the user has the name, then the older one; what the audit trail tells of is gone."""
        older = Database.open(empty_url, migrating=True)
        async with older.transaction() as conn:
            await conn.run_sync(_before_names)
        await older.close()

        await migrate(empty_url)

        newer = Database.open(empty_url)
        async with newer.transaction() as conn:
            held = {
                row.holder_id: row.is_held
                for row in await conn.execute(select(subjects.c.holder_id, subjects.c.is_held))
            }
            assert held == {
                "ann": True,
                "Ann": True,
                "billing": True,
                "Billing": True,
                "gone": False,
                "renamed": False,
            }
            assert await names.without_subject(conn) == [("zone", "called-ann", "ann")]
            assert await names.is_subject(conn, "zone", "billing")
            assert not await names.is_subject(conn, "zone", "called-ann")
            assert not [
                issuer
                for issuer in ("https://id.example/z/here", "https://id.example/z/gone")
                if not await names.is_assigned(conn, ZONE, issuer)
            ]
            assert not [
                label
                for label in ("acme", "dissolved")
                if not await names.is_assigned(conn, ORGANIZATION, label)
            ]
        await newer.close()

    async def test_who_has_no_name_is_written_as_before_and_may_be_renamed(self, conn, zone):
        """An application called as a user is may change in all else, and get a name of its own."""
        await stored(conn, USER, make.user(zone, identifier="ann"))
        application = await stored(conn, APPLICATION, make.application(zone, identifier="tmp"))
        table = TABLES["Application"]
        await conn.execute(text("DELETE FROM subjects WHERE holder_id = :id"), {"id": application.id})
        await conn.execute(table.update().where(table.c.id == application.id).values(identifier="ann"))
        application = application.model_copy(update={"identifier": "ann"})
        assert not await names.is_subject(conn, zone.id, application.id)

        described = application.model_copy(update={"name": "Another"})
        await entities.replace(conn, APPLICATION, described, within=within(zone))
        assert not await names.is_subject(conn, zone.id, application.id)

        renamed = application.model_copy(update={"identifier": "billing"})
        await entities.replace(conn, APPLICATION, renamed, within=within(zone))
        assert await names.is_subject(conn, zone.id, application.id)


def _before_names(connection: Connection) -> None:
    """A database as it was: with duplicates, and an audit trail of what is gone."""
    config = migrations._config()
    config.attributes["connection"] = connection
    command.upgrade(config, "0017-1")
    reflected = MetaData()
    reflected.reflect(connection)
    day = iter(range(1, 31))

    def at() -> Any:
        now = datetime(2026, 1, next(day), tzinfo=UTC)
        return now.isoformat(timespec="microseconds") if connection.dialect.name == "sqlite" else now

    def add(table: str, **given: Any) -> None:
        now, values = at(), {}
        for column in reflected.tables[table].columns:
            if not column.nullable:
                is_time = column.name.endswith("_at") or column.name == "at"
                values[column.name] = now if is_time else _something(column)
        known = {"organization_id": "organization", "zone_id": "zone"}
        values |= {name: value for name, value in known.items() if name in reflected.tables[table].c}
        connection.execute(insert(reflected.tables[table]).values(**{**values, **given}))

    def user(user_id: str, identifier: str) -> None:
        add("users", id=user_id, identifier=identifier)

    def application(application_id: str, identifier: str) -> None:
        add("applications", id=application_id, identifier=identifier, slug=f"slug-{next(day)}")

    def audit(sequence: int, action: str, kind: str, entity_id: str, before: Any, after: Any = None) -> None:
        told = {"action": action, "kind": kind, "entity_id": entity_id, "before": before, "after": after}
        add("audit_events", sequence=sequence, **told)

    add("organizations", id="organization", label="acme")
    issuer = {"oauth2": {"issuer": "https://id.example/z/here"}}
    add("zones", id="zone", protocols=issuer)
    application("called-ann", "ann")
    user("ann", "ann")
    user("Ann", "Ann")
    application("billing", "billing")
    application("Billing", "Billing")
    audit(
        1, "users.delete", "User", "gone", {"identifier": "gone", "issuer": "https://i.test", "subject": "1"}
    )
    audit(
        2,
        "applications.update",
        "Application",
        "renamed",
        {"identifier": "renamed"},
        {"identifier": "billing"},
    )
    audit(3, "users.update", "User", "ann", {"identifier": "ann"}, {"identifier": "ann"})
    audit(4, "zones.delete", "Zone", "z", {"protocols": {"oauth2": {"issuer": "https://ID.example/z/gone"}}})
    audit(5, "organizations.delete", "Organization", "o", {"label": "dissolved"})


def _something(column: Any) -> Any:
    if column.type.python_type is str:
        return f"{column.name}@example.com" if column.name == "email" else "x"
    if isinstance(column.type, JSON):
        return {}
    return {bool: False, int: 1, bytes: b"x"}[column.type.python_type]

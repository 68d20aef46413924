"""Units of work: revisions, the audit chain, epochs, and what is left of a unit that fails."""

import pytest
from tests.runtime.management.conftest import Api, Zone
from tests.support.factories import operator

from runtime.domain.kinds import APPLICATION
from runtime.services import epochs
from runtime.services.container import Services
from runtime.services.management import entities
from runtime.services.management.access.caller import Caller
from runtime.services.management.audit_chain import record_hash
from runtime.services.management.unit_of_work import UnitOfWork, dry_run_unit, unit_of_work
from runtime.storage.sql import organization_revision
from runtime.storage.sql.tables import audit_events, zone_internals


def acting(api: Api) -> Caller:
    return operator(api.organization_id)


async def revision(services: Services, api: Api) -> int:
    async with services.database.reading() as conn:
        return await organization_revision.revision(conn, api.organization_id)


def test_a_write_is_one_revision(api: Api, zone: Zone) -> None:
    """Each unit that writes takes one revision; what it writes carries it; reading takes none."""
    before = api.server.call(lambda services: revision(services, api))
    made = zone.make("applications", dependencies=[{"id": zone.make("resources")["id"]}])
    api.ok("GET", zone.path(f"/applications/{made['id']}"))
    api.ok("PATCH", zone.path(f"/applications/{made['id']}"), {})
    assert api.server.call(lambda services: revision(services, api)) == before + 2


def test_the_audit_chain_holds(api: Api, zone: Zone) -> None:
    """Every record has the hash of itself and of the one before it, without a gap."""
    zone.make("applications")

    async def read(services: Services) -> list[dict[str, object]]:
        async with services.database.reading() as conn:
            return await organization_revision.audit_range(conn, api.organization_id, first=1, last=10**9)

    records = api.server.call(read)
    hashes = [record["hash"] for record in records]
    assert [record["sequence"] for record in records] == list(range(1, len(records) + 1))
    assert [record["previous_hash"] for record in records] == [organization_revision.GENESIS, *hashes[:-1]]
    assert hashes == [record_hash(record) for record in records]
    assert record_hash({**records[-1], "action": "other"}) != records[-1]["hash"]


def test_a_failing_unit_leaves_nothing(api: Api, zone: Zone) -> None:
    """Entities, audit, revision and callbacks all go with the transaction."""
    called: list[str] = []

    async def attempt(services: Services, *, dry_run: bool) -> None:
        async def callback() -> None:
            called.append("x")

        if dry_run:
            begun = dry_run_unit(services, acting(api), "r", [zone.id])
        else:
            begun = unit_of_work(services, acting(api), "r")
        async with begun as unit:
            await _make(unit, zone, "never")
            unit.after_commit(callback)
            if not dry_run:
                raise ZeroDivisionError

    before = api.server.call(lambda services: revision(services, api))
    with pytest.raises(ZeroDivisionError):
        api.server.call(lambda services: attempt(services, dry_run=False))
    api.server.call(lambda services: attempt(services, dry_run=True))
    assert called == []
    assert api.server.call(lambda services: revision(services, api)) == before
    assert api.ok("GET", zone.path("/applications?identifier=never"))["items"] == []


def test_epochs_are_published_after_the_commit(api: Api, zone: Zone) -> None:
    """A write puts its zone's caches out of date, in the database and in short-lived state."""

    async def epoch(services: Services) -> tuple[int, int]:
        async with services.database.reading() as conn:
            row = (
                await conn.execute(zone_internals.select().where(zone_internals.c.zone_id == zone.id))
            ).one()
        published = await services.state.get(epochs.zone_key(zone.id))
        return row.epoch, int(published or 0)

    zone.make("applications")
    stored, published = api.server.call(epoch)
    assert stored == published
    zone.make("applications")
    assert api.server.call(epoch) == (stored + 1, published + 1)


def test_callbacks_run_after_the_commit(api: Api, zone: Zone) -> None:
    """What a callback sees is committed."""
    seen: list[bool] = []

    async def work(services: Services) -> None:
        async def callback() -> None:
            async with services.database.reading() as conn:
                query = audit_events.select().where(audit_events.c.request_id == "callback-test")
                seen.append((await conn.execute(query)).first() is not None)

        async with unit_of_work(services, acting(api), "callback-test") as unit:
            await _make(unit, zone, api.named())
            unit.after_commit(callback)

    api.server.call(work)
    assert seen == [True]


async def _make(unit: UnitOfWork, zone: Zone, identifier: str) -> None:
    body = {"identifier": identifier, "name": identifier}
    await entities.create(unit, APPLICATION, {"zone_id": zone.id}, body)

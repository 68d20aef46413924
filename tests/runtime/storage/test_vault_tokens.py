"""The vault's rows: one lease holder, no lost or overwritten refresh, and no way back from a revocation."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support import entities as make

from runtime.domain.delegated_grants import TRANSITIONS, Cause
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import PROVIDER, RESOURCE, USER
from runtime.domain.kinds.values import GrantStatus
from runtime.domain.kinds.zone import Zone
from runtime.storage.sql import consents, entities, vault_tokens
from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import delegated_grants
from runtime.storage.sql.vault_tokens import SealedTokens, VaultRecord, VaultState

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
T = TypeVar("T")


def sealed(value: str) -> SealedTokens:
    """Tokens that stand for a sealed pair."""
    return SealedTokens(value.encode(), b"refresh of " + value.encode(), "Bearer", NOW + MINUTE)


@dataclass(frozen=True)
class Place:
    """A user, a resource and a provider of a zone: what a grant is for."""

    zone: Zone
    user_id: str
    resource_id: str
    provider_id: str

    async def authorize(self, conn: AsyncConnection, now: datetime = NOW) -> str:
        """The user's word; the grant's id."""
        grant_id, _ = await consents.grant(
            conn,
            organization_id=self.zone.organization_id,
            zone_id=self.zone.id,
            user_id=self.user_id,
            resource_id=self.resource_id,
            provider_id=self.provider_id,
            scopes=["read"],
            now=now,
        )
        return grant_id

    async def put(self, conn: AsyncConnection, value: str, now: datetime = NOW) -> str:
        """A credential that the user has authorized; the row's id."""
        grant_id, row_id = await self.authorize(conn, now), new_id()
        await vault_tokens.put(conn, row_id, sealed(value), zone_id=self.zone.id, grant_id=grant_id, now=now)
        return row_id

    async def find(self, conn: AsyncConnection, now: datetime = NOW) -> VaultRecord | None:
        return await vault_tokens.find(
            conn,
            zone_id=self.zone.id,
            user_id=self.user_id,
            resource_id=self.resource_id,
            provider_id=self.provider_id,
            now=now,
        )

    async def grant(self, conn: AsyncConnection) -> Any:
        """The grant's row; None without one."""
        return (
            await conn.execute(
                select(delegated_grants).where(
                    delegated_grants.c.zone_id == self.zone.id, delegated_grants.c.user_id == self.user_id
                )
            )
        ).one_or_none()

    async def revoke(self, conn: AsyncConnection, now: datetime = NOW) -> bool:
        found = await self.grant(conn)
        return found is not None and await consents.revoke(conn, found.id, zone_id=self.zone.id, now=now)

    async def lease(
        self, conn: AsyncConnection, row_id: str, owner: str, *, version: int = 1, now: datetime = NOW
    ) -> bool:
        return await vault_tokens.take_lease(
            conn,
            row_id,
            zone_id=self.zone.id,
            version=version,
            owner=owner,
            now=now,
            until=now + MINUTE,
        )

    async def replace(
        self, conn: AsyncConnection, row_id: str, value: str, *, version: int = 1, now: datetime = NOW
    ) -> bool:
        return await vault_tokens.replace(
            conn, row_id, sealed(value), zone_id=self.zone.id, version=version, now=now
        )

    async def fail(
        self, conn: AsyncConnection, row_id: str, owner: str, *, version: int = 1
    ) -> VaultState | None:
        return await vault_tokens.note_failure(
            conn, row_id, zone_id=self.zone.id, version=version, owner=owner, dead_after=2, now=NOW
        )


async def place_in(conn: AsyncConnection, zone: Zone) -> Place:
    """A new user, resource and provider of a zone."""
    user, resource, provider = make.user(zone), make.resource(zone), make.provider(zone)
    for kind, made in ((USER, user), (RESOURCE, resource), (PROVIDER, provider)):
        await entities.insert(conn, kind, made)
    return Place(zone, user.id, resource.id, provider.id)


@pytest.fixture
async def place(database: Database) -> Place:
    """A place of a zone of its own, in each kind of database in turn."""
    async with database.transaction() as conn:
        return await place_in(conn, await make.add_zone(conn))


async def test_a_hundred_attempts_at_once_give_one_holder_of_the_lease(
    database: Database, place: Place
) -> None:
    """Of all who want to refresh the same version one does."""
    async with database.transaction() as conn:
        row_id = await place.put(conn, "first")

    async def attempt(owner: str) -> bool:
        async with database.transaction() as conn:
            return await place.lease(conn, row_id, owner)

    taken = await asyncio.gather(*(attempt(f"worker {number}") for number in range(100)))

    assert sum(taken) == 1


async def test_a_lease_is_free_again_when_its_time_is_over(conn: AsyncConnection, zone: Zone) -> None:
    """A refresher that was killed holds nobody up for longer than its lease."""
    place = await place_in(conn, zone)
    row_id = await place.put(conn, "first")
    assert await place.lease(conn, row_id, "killed")

    assert not await place.lease(conn, row_id, "next", now=NOW + MINUTE - timedelta(seconds=1))
    assert await place.lease(conn, row_id, "next", now=NOW + MINUTE)


async def test_a_refresh_replaces_the_tokens_and_ends_the_lease(conn: AsyncConnection, zone: Zone) -> None:
    """The next version is there, the grant says when, and anybody may refresh that version."""
    place = await place_in(conn, zone)
    row_id = await place.put(conn, "first")
    assert await place.lease(conn, row_id, "one")

    assert await place.replace(conn, row_id, "second")

    found, grant = await place.find(conn), await place.grant(conn)
    assert found is not None
    assert (found.version, found.tokens, found.lease_until) == (2, sealed("second"), None)
    assert (grant.refreshed_at, grant.refresh_token_set) == (NOW, True)
    assert await place.lease(conn, row_id, "other", version=2)


async def test_of_two_refreshes_the_second_overwrites_nothing(conn: AsyncConnection, zone: Zone) -> None:
    """Whoever compares with an old version has lost: a provider that rotates has ended their token."""
    place = await place_in(conn, zone)
    row_id = await place.put(conn, "first")
    assert await place.replace(conn, row_id, "second")

    assert not await place.replace(conn, row_id, "late")

    found = await place.find(conn)
    assert found is not None
    assert found.tokens == sealed("second")


async def test_a_refresh_from_before_a_new_credential_overwrites_nothing(
    conn: AsyncConnection, zone: Zone
) -> None:
    """The user's new credential has the version that the old one had, but is another row."""
    place = await place_in(conn, zone)
    old = await place.put(conn, "old")
    await place.put(conn, "new")

    assert not await place.replace(conn, old, "late")

    found = await place.find(conn)
    assert found is not None
    assert found.tokens == sealed("new")


async def test_a_refresh_that_was_under_way_revives_no_revoked_grant(
    conn: AsyncConnection, zone: Zone
) -> None:
    """What the provider answers after the revocation is dropped."""
    place = await place_in(conn, zone)
    row_id = await place.put(conn, "first")
    assert await place.lease(conn, row_id, "one")
    assert await place.revoke(conn)

    assert not await place.replace(conn, row_id, "second")

    assert (await place.grant(conn)).status == "revoked"
    assert await place.find(conn) is None


async def test_a_revocation_during_a_refresh_waits_for_nobody_for_ever(
    database: Database, place: Place
) -> None:
    """Both lock the grant first, so neither can block the other; in the end it is revoked."""
    for _ in range(10):
        async with database.transaction() as conn:
            row_id = await place.put(conn, "first")

        async def refresh(row_id: str = row_id) -> None:
            async with database.transaction() as conn:
                await place.replace(conn, row_id, "second")

        async def end() -> None:
            async with database.transaction() as conn:
                await place.revoke(conn)

        await asyncio.gather(refresh(), end())

        async with database.reading() as conn:
            assert (await place.grant(conn)).status == "revoked"
            assert await place.find(conn) is None


async def test_a_credential_is_dead_after_two_refusals_in_a_row(conn: AsyncConnection, zone: Zone) -> None:
    """Nobody gets the lease of a dead one; the user's next authorization makes a live one."""
    place = await place_in(conn, zone)
    row_id = await place.put(conn, "first")
    states = []
    for owner in ("one", "two"):
        assert await place.lease(conn, row_id, owner)
        states.append(await place.fail(conn, row_id, owner))

    assert states == [VaultState.LIVE, VaultState.DEAD]
    assert not await place.lease(conn, row_id, "three")
    await place.put(conn, "again")
    found = await place.find(conn)
    assert found is not None
    assert (found.state, found.failures) == (VaultState.LIVE, 0)


async def test_only_the_holder_of_the_lease_counts_a_refusal(conn: AsyncConnection, zone: Zone) -> None:
    """A refusal of a refresher that lost its lease is of a token that another one has used."""
    place = await place_in(conn, zone)
    row_id = await place.put(conn, "first")
    assert await place.lease(conn, row_id, "slow")
    assert await place.lease(conn, row_id, "next", now=NOW + MINUTE)

    assert await place.fail(conn, row_id, "slow") is None

    found = await place.find(conn)
    assert found is not None
    assert found.failures == 0


async def test_only_the_holder_of_the_lease_ends_it_for_a_pause(conn: AsyncConnection, zone: Zone) -> None:
    """One that lost its lease lets nobody in beside the next holder, and keeps nobody out for longer."""
    place = await place_in(conn, zone)
    row_id, until = await place.put(conn, "first"), NOW + 3 * MINUTE
    assert await place.lease(conn, row_id, "slow")
    assert await place.lease(conn, row_id, "next", now=NOW + MINUTE)

    held = []
    for owner in ("slow", "next"):
        await vault_tokens.pause(conn, row_id, zone_id=zone.id, version=1, owner=owner, until=until)
        found = await place.find(conn)
        assert found is not None
        held.append((found.lease_owner, found.lease_until))

    assert held == [("next", NOW + 2 * MINUTE), (None, until)]


async def test_a_success_forgets_the_refusals_before(conn: AsyncConnection, zone: Zone) -> None:
    """Only refusals in a row make a credential dead."""
    place = await place_in(conn, zone)
    row_id = await place.put(conn, "first")
    assert await place.lease(conn, row_id, "one")
    await place.fail(conn, row_id, "one")

    await place.replace(conn, row_id, "second")

    found = await place.find(conn)
    assert found is not None
    assert found.failures == 0


def test_every_status_is_reached_and_left_as_the_table_says() -> None:
    """The user's word leads from anywhere to active; nothing else leaves `revoked` or `expired` for it."""
    leading = {cause for cause, each in TRANSITIONS.items() if each.target is GrantStatus.ACTIVE}
    out_of_revoked = {cause for cause, each in TRANSITIONS.items() if GrantStatus.REVOKED in each.sources}

    assert TRANSITIONS.keys() == set(Cause)
    assert {each.target for each in TRANSITIONS.values()} == set(GrantStatus)
    assert leading == {Cause.AUTHORIZATION, Cause.REFRESH}
    assert out_of_revoked == {Cause.AUTHORIZATION}
    assert [cause for cause, each in TRANSITIONS.items() if each.creates] == [Cause.AUTHORIZATION]


class GrantMachine(RuleBasedStateMachine):
    """One grant, what is remembered of it, and a refresher that may come late.

    Attributes:
        run: gives what is done with a connection, in a transaction of its own.
    """

    run: ClassVar[Callable[..., Any]]
    zone: ClassVar[Zone]

    def __init__(self) -> None:
        super().__init__()
        self.place: Place = self.run(lambda conn: place_in(conn, self.zone))
        self.now = NOW
        self.numbers = 0
        self.token: bytes | None = None  # what must be in the vault
        self.before: GrantStatus | None = None
        self.held: VaultRecord | None = None  # read by a refresher

    def status(self) -> GrantStatus | None:
        row = self.run(self.place.grant)
        if row is None:
            return None
        over = row.status == "active" and row.expires_at is not None and row.expires_at <= self.now
        return GrantStatus.EXPIRED if over else GrantStatus(row.status)

    def moved(self, cause: Cause, *, applied: bool = True) -> None:
        """Compare with the table; what does not apply changes nothing."""
        before, after, transition = self.before, self.status(), TRANSITIONS[cause]
        applies = transition.creates if before is None else before in transition.sources
        assert not applied or applies
        assert after == (transition.target if applied else before)

    def next_value(self) -> str:
        self.numbers += 1
        return f"token {self.numbers}"

    @rule()
    def consent(self) -> None:
        self.before = self.status()
        self.run(lambda conn: self.place.authorize(conn, self.now))
        self.moved(Cause.AUTHORIZATION)

    @rule()
    def store(self) -> None:
        self.before, value = self.status(), self.next_value()
        self.run(lambda conn: self.place.put(conn, value, self.now))
        self.token = value.encode()
        self.moved(Cause.AUTHORIZATION)

    @precondition(lambda self: self.status() is GrantStatus.ACTIVE)
    @rule(minutes=st.integers(0, 2))
    def end_later(self, minutes: int) -> None:
        ends = self.now + minutes * MINUTE
        self.before = self.status()
        self.run(
            lambda conn: conn.execute(
                update(delegated_grants)
                .where(delegated_grants.c.user_id == self.place.user_id)
                .values(expires_at=ends)
            )
        )
        if minutes == 0:
            self.moved(Cause.EXPIRY)

    @rule()
    def wait(self) -> None:
        self.before = self.status()
        self.now += MINUTE
        after = self.status()
        if after is not self.before:
            self.moved(Cause.EXPIRY)

    @rule()
    def revoke(self) -> None:
        self.before = self.status()
        done = self.run(lambda conn: self.place.revoke(conn, self.now))
        if done:
            self.token = None
        self.moved(Cause.REVOCATION, applied=done)
        assert done == (self.before in TRANSITIONS[Cause.REVOCATION].sources)

    @rule()
    def begin_refresh(self) -> None:
        found = self.run(lambda conn: self.place.find(conn, self.now))
        if found is not None and self.run(
            lambda conn: self.place.lease(
                conn, found.id, self.next_value(), version=found.version, now=self.now
            )
        ):
            self.held = found

    @precondition(lambda self: self.held is not None)
    @rule()
    def finish_refresh(self) -> None:
        assert self.held is not None
        self.before, value, held = self.status(), self.next_value(), self.held
        done = self.run(
            lambda conn: self.place.replace(conn, held.id, value, version=held.version, now=self.now)
        )
        assert not done or self.token == held.tokens.access_token
        if done:
            self.token = value.encode()
        self.moved(Cause.REFRESH, applied=done)

    @invariant()
    def the_vault_has_what_was_written_last(self) -> None:
        found, status = self.run(lambda conn: self.place.find(conn, self.now)), self.status()
        usable = self.token if status is GrantStatus.ACTIVE else None
        assert (found.tokens.access_token if found else None) == usable


def test_no_sequence_of_events_leaves_the_table_of_transitions(sqlite_url: str) -> None:
    """Whatever the order of consents, stored credentials, refreshes, expiries and revocations."""
    with asyncio.Runner() as runner:
        database = Database.open(sqlite_url)

        def in_transaction(work: Callable[[AsyncConnection], Coroutine[Any, Any, T]]) -> T:
            async def run() -> T:
                async with database.transaction() as conn:
                    return await work(conn)

            return runner.run(run())

        zone = in_transaction(make.add_zone)
        members = {"run": staticmethod(in_transaction), "zone": zone}
        machine = type("BoundGrantMachine", (GrantMachine,), members)
        run_state_machine_as_test(
            machine, settings=settings(max_examples=30, stateful_step_count=30, deadline=None)
        )
        runner.run(database.close())

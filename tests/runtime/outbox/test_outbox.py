"""The outbox: nothing is lost, nothing is sent for a write that did not happen, nothing is tried for ever."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.support.factories import found_company, opened_parts
from tests.support.logs import logged_lines
from tests.support.mail import in_folder
from tests.support.waiting import let_elapse

from runtime.adapters.keys.sealing import Sealer, new_data_key
from runtime.services.container import Services
from runtime.services.outbox import (
    Message,
    MessageHandler,
    NotDelivered,
    Outbox,
    Undeliverable,
    delivery,
    mail,
)
from runtime.storage.sql import outbox as rows
from runtime.storage.sql.batches import BATCH
from runtime.storage.sql.database import Database

CANARY = "canary-token-4711"


@dataclass
class Office:
    """An outbox with one topic, whose deliveries can be made to fail, and a clock that is set by hand."""

    services: Services
    now: datetime = datetime(2026, 3, 1, tzinfo=UTC)
    failure: Exception | None = None
    delivered: list[Message] = field(default_factory=list)
    gate: asyncio.Event | None = None
    holding: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def outbox(self) -> Outbox:
        return self.services.outbox

    async def deliver(self, message: Message) -> None:
        self.holding.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.delivered.append(message)

    async def put(self, value: str = CANARY, **more: Any) -> None:
        async with self.services.database.transaction() as conn:
            await self.outbox.enqueue(conn, "test", {"value": value}, **more)

    async def rows(self) -> list[dict[str, Any]]:
        async with self.services.database.reading() as conn:
            return [dict(row) for row in (await conn.execute(text("SELECT * FROM outbox"))).mappings()]

    async def fail(self, *, times: int) -> None:
        """Add a message, and let that many attempts to deliver it fail."""
        await self.put()
        self.failure = NotDelivered("away")
        for _ in range(times):
            await self.after(minutes=10)

    async def after(self, **span: float) -> int:
        self.now += timedelta(**span)
        return await self.outbox.deliver_due()


def opened(
    services: Services, *, sealer: Sealer | None = None, attempts: int = 3, **more: MessageHandler
) -> Office:
    office = Office(services)
    handlers = {"test": MessageHandler(office.deliver, attempts=attempts, first_delay_seconds=60), **more}
    outbox = Outbox(
        services.database, lambda: office.now, sealer or Sealer(new_data_key()), handlers, services.jobs
    )
    office.services = replace(services, outbox=outbox, clock=lambda: office.now)
    return office


@pytest.fixture
async def services(storage: Services) -> Services:
    """The same, with nothing in the outbox."""
    async with storage.database.transaction() as conn:
        await conn.execute(text("DELETE FROM outbox"))
    return storage


@pytest.fixture
def office(services: Services) -> Office:
    return opened(services)


async def test_what_is_put_in_leaves_once(office: Office):
    """What was delivered is gone, and what waited was never in clear."""
    await office.put()
    [row] = await office.rows()
    assert CANARY.encode() not in bytes(row["payload_sealed"])

    assert await office.after() == 1
    assert await office.after() == 0

    assert [message.payload for message in office.delivered] == [{"value": CANARY}]
    assert CANARY not in repr(office.delivered)
    assert await office.rows() == []


async def test_messages_that_are_put_in_together_are_each_for_their_receiver(office: Office):
    """Also where they are more than one statement adds."""
    receivers = [f"receiver-{number}" for number in range(BATCH + 1)]
    async with office.services.database.transaction() as conn:
        messages = [(each, {"value": each}) for each in receivers]
        await office.outbox.enqueue_many(conn, "test", messages)
    added = {row["id"]: row["receiver"] for row in await office.rows()}
    assert sorted(added.values()) == sorted(receivers)

    await office.after()

    assert {message.id: message.payload["value"] for message in office.delivered} == added


async def test_a_receiver_that_never_answers_holds_up_no_other_topic(services: Services):
    """Strangers choose where some messages go: others leave, also those that are put in meanwhile."""
    left: asyncio.Queue[str] = asyncio.Queue()

    async def deliver(message: Message) -> None:
        left.put_nowait(message.payload["value"])

    async def put_prompt(value: str) -> None:
        async with services.database.transaction() as conn:
            await office.outbox.enqueue(conn, "prompt", {"value": value})

    office = opened(services, prompt=MessageHandler(deliver))
    await put_prompt("alone")
    assert await office.outbox.deliver_due() == 1
    assert await left.get() == "alone"

    office.gate = asyncio.Event()
    for _ in range(45):
        await office.put()
    await put_prompt("before")
    delivering = asyncio.create_task(office.outbox.deliver_due())
    async with asyncio.timeout(20):
        assert await left.get() == "before"
        await office.holding.wait()
        for value in ("meanwhile", "later"):
            await let_elapse(delivery._LOOK_AGAIN_SECONDS)  # so that its topic has had nothing to do
            await put_prompt(value)
            assert await left.get() == value
    assert (office.delivered, delivering.done()) == ([], False)

    office.gate.set()
    assert await delivering == 48
    assert await office.rows() == []


async def test_slow_messages_of_a_zone_leave_slots_to_others(services: Services):
    """Few of one zone are under way at a time: another goes on beside them, and beside a slow one of its."""
    company = await found_company(services)
    zones = [(await company.zone()).id for _ in range(2)]
    gate, slow = asyncio.Event(), list[str]()
    left: asyncio.Queue[str] = asyncio.Queue()

    async def deliver(message: Message) -> None:
        assert message.zone_id is not None
        if message.payload["to"] == "slow":
            slow.append(message.zone_id)
            await gate.wait()
        left.put_nowait(message.payload["to"])

    async def put(zone_id: str, to: str, messages: int) -> None:
        async with services.database.transaction() as conn:
            for number in range(messages):
                await office.outbox.enqueue(
                    conn,
                    "logout",
                    {"to": to},
                    organization_id=company.organization_id,
                    zone_id=zone_id,
                    receiver=f"{to} {number}",
                )

    office = opened(services, logout=MessageHandler(deliver))
    await put(zones[0], "slow", 30)
    await put(zones[1], "slow", 1)
    await put(zones[1], "quick", 30)
    delivering = asyncio.create_task(office.outbox.deliver_due())
    async with asyncio.timeout(20):
        assert {await left.get() for _ in range(30)} == {"quick"}
        await put(zones[1], "late", 2)
        assert {await left.get() for _ in range(2)} == {"late"}
    assert Counter(slow) == {zones[0]: 5, zones[1]: 1}

    gate.set()
    assert await delivering == 63
    assert Counter(slow) == {zones[0]: 30, zones[1]: 1}


@pytest.mark.parametrize("failure", [None, Undeliverable("gone")], ids=["delivered", "given up"])
async def test_a_message_that_somebody_holds_is_delivered_again(
    postgres_url: str, tmp_path: Path, failure: Exception | None
):
    """As one of a zone that is deleted in a long transaction is held: the run goes on with the others."""
    async with opened_parts(tmp_path / "data", database_url=postgres_url) as services:
        impatient = Database.open(postgres_url, statement_timeout_seconds=1)
        office = opened(replace(services, database=impatient))
        office.failure = failure
        office.gate = asyncio.Event()
        await office.put("held")
        with logged_lines() as lines:
            async with services.database.transaction() as conn:
                delivering = asyncio.create_task(office.after())
                await office.holding.wait()
                await conn.execute(text("SELECT id FROM outbox FOR UPDATE"))
                await office.put("other")
                office.gate.set()
                assert await delivering == (0 if failure else 2)
        told = [line for line in lines if line["event"].startswith("message not removed")]
        [held] = [row for row in await office.rows() if not row["parked_at"]]
        assert [(line["log_level"], line["message_id"]) for line in told] == [("warning", held["id"])]

        office.failure = None
        assert await office.after(minutes=2) == 1
        assert office.delivered[-1].payload["value"] == "held"
        assert all(row["parked_at"] for row in await office.rows())
        await impatient.close()


async def test_a_run_ends_though_somebody_never_answers(office: Office, monkeypatch: pytest.MonkeyPatch):
    """What is under way then is cut off and tried again; the next run takes what is left."""
    monkeypatch.setattr(delivery, "_LONGEST_SECONDS", 0.5)
    monkeypatch.setattr(delivery, "_GRACE_SECONDS", 0.1)
    office.gate = asyncio.Event()
    await office.put()
    async with asyncio.timeout(20):
        assert await office.after() == 0
    assert office.holding.is_set()

    office.gate.set()
    assert await office.after(minutes=2) == 1
    assert await office.rows() == []


async def test_zones_and_receivers_take_turns(services: Services):
    """However many messages wait for one who does not answer, others' leave; it is asked now and then."""
    company = await found_company(services)
    zones = [(await company.zone()).id for _ in range(2)]
    left: list[str] = []
    is_dead, tries = True, 0

    async def deliver(message: Message) -> None:
        nonlocal tries
        if message.payload["to"] == "dead":
            tries += 1
            if is_dead:
                raise NotDelivered("no answer")
        left.append(message.payload["to"])

    async def put(zone_id: str, receiver: str, messages: int = 1) -> None:
        async with services.database.transaction() as conn:
            for _ in range(messages):
                await office.outbox.enqueue(
                    conn,
                    "logout",
                    {"to": receiver},
                    organization_id=company.organization_id,
                    zone_id=zone_id,
                    receiver=receiver,
                )

    office = opened(services, logout=MessageHandler(deliver, first_delay_seconds=60))
    await put(zones[0], "dead", 100)
    await put(zones[0], "alive", 2)
    await put(zones[1], "another", 30)

    async with services.database.transaction() as conn:
        first = await rows.due(conn, "logout", now=office.now, limit=20)
    assert Counter(row.receiver for row in first) == {"dead": 8, "alive": 2, "another": 10}
    assert (await office.after(), tries) == (32, 3)

    await put(zones[0], "dead")
    assert (await office.after(seconds=30), tries) == (0, 3)
    assert (await office.after(seconds=50), tries) == (0, 3 + 5)
    assert Counter(row["attempts"] for row in await office.rows()) == {0: 96, 1: 2, 2: 3}

    is_dead = False
    assert await office.after(seconds=160) == 101
    assert await office.rows() == []

    is_dead = True
    await put(zones[0], "dead", 50)
    for _ in range(3):
        await office.after(hours=9)
    assert await office.outbox.run_job() == 50
    assert all(row["parked_at"] for row in await office.rows())


async def test_a_write_that_is_rolled_back_sends_nothing(office: Office):
    async def fail() -> None:
        async with office.services.database.transaction() as conn:
            await office.outbox.enqueue(conn, "test", {})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    await office.put("stands")

    assert await office.after() == 1
    assert [message.payload["value"] for message in office.delivered] == ["stands"]


@pytest.mark.parametrize(("failures", "before", "after"), [(1, 59, 17), (2, 119, 32)])
async def test_the_delay_doubles_with_each_failure(office: Office, failures: int, before: int, after: int):
    """A minute after the first failure, two after the second, and up to a quarter more."""
    await office.fail(times=failures)

    await office.after(seconds=before)
    assert (await office.rows())[0]["attempts"] == failures
    await office.after(seconds=after)
    assert (await office.rows())[0]["attempts"] == failures + 1


async def test_a_message_is_a_dead_letter_after_its_last_attempt(office: Office):
    """It stays in the outbox with the time, and is not sent when the receiver is back."""
    await office.fail(times=3)

    [dead] = await office.rows()
    assert (dead["attempts"], dead["parked_at"] is not None) == (3, True)
    office.failure = None
    assert await office.after(days=29) == 0


@pytest.mark.parametrize("failure", [NotDelivered("away"), ValueError(CANARY)], ids=["told", "a bug"])
async def test_what_failed_is_delivered_later(
    office: Office, failure: Exception, capsys: pytest.CaptureFixture[str]
):
    """Whatever went wrong; and the log says what, without a secret."""
    await office.put()
    office.failure = failure
    assert await office.after() == 0
    office.failure = None

    assert await office.after(minutes=2) == 1
    assert [message.attempts for message in office.delivered] == [2]
    captured = capsys.readouterr()
    assert CANARY not in captured.out + captured.err


async def test_what_can_never_leave_is_given_up_at_once(office: Office, services: Services):
    """Also what was sealed under a key that is gone; the others still leave."""
    await opened(services).put("sealed by a stranger")
    await office.put()
    office.failure = Undeliverable("no such address")
    assert await office.after() == 0
    assert all(row["parked_at"] for row in await office.rows())

    office.failure = None
    await office.put("next")
    assert await office.after() == 1


async def test_no_letter_is_in_two_hands(services: Services):
    """Two workers at once deliver each message once; one that dies with a message leaves it for the other."""
    sealer = Sealer(new_data_key())
    one, two = opened(services, sealer=sealer), opened(services, sealer=sealer)
    for number in range(30):
        await one.put(str(number))

    await asyncio.gather(one.after(), two.after())
    got = [message.payload["value"] for message in one.delivered + two.delivered]
    assert sorted(got, key=int) == [str(number) for number in range(30)]

    await one.put("held")
    one.gate, one.holding = asyncio.Event(), asyncio.Event()
    dying = asyncio.create_task(one.after())
    await one.holding.wait()
    assert await two.after() == 0
    dying.cancel()
    assert await two.after(minutes=2) == 1


async def test_mail_goes_out_and_an_organizations_goes_with_it(services: Services):
    """Through the real outbox and the file transport; no organization, nothing to send for it."""
    company = await found_company(services)
    organization_id = company.organization_id
    async with services.database.transaction() as conn:
        await mail.enqueue(
            conn,
            services.outbox,
            organization_id=organization_id,
            recipient="ada@acme.example",
            subject="Come in",
            text=f"Your token: {CANARY}\n",
        )
    assert await services.outbox.deliver_due() == 1
    [sent] = in_folder(services.settings.mail_folder)
    assert (sent["To"], CANARY in sent.get_content()) == ("ada@acme.example", True)

    office = opened(services)
    await office.put(organization_id=organization_id)
    async with services.database.transaction() as conn:
        await conn.execute(text("DELETE FROM organizations WHERE id = :id"), {"id": organization_id})
    assert await office.rows() == []

"""Every decision is recorded, and what cannot be recorded is not issued."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.factories import App, Company, Person
from tests.support.logs import logged_lines
from tests.support.scene import Scene
from tests.support.waiting import until

from runtime.domain.errors import (
    InvalidClient,
    InvalidGrant,
    InvalidRequest,
    InvalidTarget,
    OAuthError,
    TemporarilyUnavailable,
    TooManyRequests,
    Unavailable,
)
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION_CREDENTIAL, SESSION, USER
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.exchange import ACCESS_TOKEN
from runtime.domain.oauth.exchange import GRANT_TYPE as TOKEN_EXCHANGE
from runtime.domain.oauth.exchange_steps import Step
from runtime.services import rate_limits, refused_requests
from runtime.services.container import Services
from runtime.services.decision_log import Decision, DecisionLog
from runtime.services.rate_limiter import RateLimiter
from runtime.services.rate_limits import MAX_SECRET_GUESSES, RECORDED_REFUSALS_OF_ADDRESS
from runtime.services.tokens import revocation
from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import token_events


@pytest.fixture(scope="module")
async def api(scene: Scene) -> Resource:
    return await scene.company.resource(scene.zone, "https://api.test")


@dataclass(frozen=True)
class Recorded:
    """An exchange that succeeded and three that did not, and the rows that tell of them, oldest first."""

    api: Resource
    agent: App
    ann: Person
    subject: str
    rows: Sequence[Any]


@pytest.fixture(scope="module")
async def recorded(company: Company) -> Recorded:
    own = Scene(company, await company.zone())
    api = await company.resource(own.zone, "https://api.test")
    agent = await company.app(own.zone, "agent", dependencies=[api])
    ann = await company.person(own.zone, "ann@acme.test")
    subject = await company.token(own.zone, agent, ann)
    await own.exchange(agent, subject, api)
    with pytest.raises(InvalidTarget):
        await own.exchange(agent, subject, "https://unknown.test")
    with pytest.raises(InvalidGrant):
        await own.exchange(agent, subject[:-4] + "AAAA", api)
    wrong = App(agent.application, agent.client_id, "wrong", agent.credential_id)
    with pytest.raises(InvalidClient):
        await own.exchange(wrong, subject, api)
    return Recorded(api, agent, ann, subject, await _rows(own))


async def test_each_request_is_one_row_with_its_outcome_and_step(recorded: Recorded) -> None:
    """What was issued has no step; what was refused has the step of the exchange that refused it."""
    assert [(row.outcome, row.step) for row in recorded.rows] == [
        ("issued", None),
        ("refused", 7),
        ("refused", 4),
        ("refused", 3),
    ]


async def test_the_record_of_an_issued_token_names_everybody_in_it(recorded: Recorded) -> None:
    """The user, the application with its credential, the resource, and who acts."""
    issued = recorded.rows[0]

    assert issued.user_id == recorded.ann.user.id
    assert (issued.application_id, issued.credential_id) == (
        recorded.agent.id,
        recorded.agent.credential_id,
    )
    assert issued.resource_id == recorded.api.id
    assert issued.actors == ["agent"]


async def test_the_record_of_an_issued_token_tells_the_request_and_the_rules(recorded: Recorded) -> None:
    """What was asked, in which request, when, and which rules of policy decided."""
    issued = recorded.rows[0]

    assert issued.event == "token_exchange"
    assert issued.request_id == "test-request"
    assert issued.determining
    assert abs((issued.at - datetime.now(UTC)).total_seconds()) < 60


_ENDS = {
    "session ended": (SESSION, lambda ann: ann.session_id, {"status": "revoked"}, Step.SESSION),
    "user disabled": (USER, lambda ann: ann.user.id, {"status": "disabled"}, Step.SESSION),
}


@pytest.mark.parametrize("is_cached", [True, False], ids=["cached", "read"])
@pytest.mark.parametrize("end", _ENDS)
async def test_a_refusal_for_what_has_ended_names_user_and_resource(
    company: Company, end: str, is_cached: bool
) -> None:
    """Whose token it was is known by then, whether the session was at hand or comes from the database."""
    own = Scene(company, await company.zone())
    api = await company.resource(own.zone, "https://api.test")
    agent = await company.app(own.zone, "agent", dependencies=[api])
    ann = await company.person(own.zone, "ann@acme.test")
    subject = await company.token(own.zone, agent, ann)
    if is_cached:
        await own.exchange(agent, subject, api)
    kind, id_of, patch, step = _ENDS[end]
    await company.update(kind, own.zone.id, id_of(ann), **patch)

    with pytest.raises(InvalidGrant):
        await own.exchange(agent, subject, api)

    refused = (await _rows(own))[-1]
    assert (refused.outcome, refused.step) == ("refused", step)
    assert (refused.user_id, refused.resource_id) == (ann.user.id, api.id)


@pytest.mark.parametrize("is_over", [False, True], ids=["session goes on", "session over"])
async def test_a_refusal_of_an_expired_token_names_user_resource_and_when(
    company: Company, is_over: bool
) -> None:
    """The zone has signed it: whose it was is known, also of a session that ended with it."""
    own = Scene(company, await company.zone())
    api = await company.resource(own.zone, "https://api.test")
    agent = await company.app(own.zone, "agent", dependencies=[api])
    ann = await company.person(own.zone, "ann@acme.test", hours=-0.5 if is_over else 8)
    began = own.services.clock() - timedelta(hours=2)
    lifetime = timedelta(hours=1)
    expired = await company.token(own.zone, agent, ann, now=began, lifetime=lifetime)
    if not is_over:
        assert await own.exchange(agent, await company.token(own.zone, agent, ann), api)

    with pytest.raises(InvalidGrant):
        await own.exchange(agent, expired, api)

    refused = (await _rows(own))[-1]
    assert (refused.outcome, refused.step) == ("refused", Step.SUBJECT_TOKEN)
    assert (refused.user_id, refused.resource_id) == (ann.user.id, api.id)
    ended = began + lifetime
    why = f"the token expired at {ended:%Y-%m-%d %H:%M:%S}Z (session `{ann.session_id}`)"
    assert refused.reason == f"invalid_grant: {why}"


async def test_a_refusal_of_a_revoked_token_names_user_and_resource(company: Company) -> None:
    """The token alone is revoked; the session goes on."""
    own = Scene(company, await company.zone())
    api = await company.resource(own.zone, "https://api.test")
    agent = await company.app(own.zone, "agent", dependencies=[api])
    ann = await company.person(own.zone, "ann@acme.test")
    subject = await company.token(own.zone, agent, ann)
    await own.exchange(agent, subject, api)
    view = await own.services.zones.get(own.zone.id)
    client = await view.clients.get(agent.client_id)
    assert client is not None
    unrecorded = Decision(own.zone.organization_id, own.zone.id, own.services.clock(), "")
    await revocation.revoke(own.services, view, client, subject, own.services.clock(), unrecorded)

    with pytest.raises(InvalidGrant):
        await own.exchange(agent, subject, api)

    refused = (await _rows(own))[-1]
    assert refused.reason == "invalid_grant: the token has been revoked"
    assert (refused.user_id, refused.resource_id) == (ann.user.id, api.id)


async def test_a_wrong_secret_is_recorded_with_the_application_that_the_client_id_names(
    recorded: Recorded,
) -> None:
    """Nobody has proved to be it, so there is no credential; the reason tells a wrong secret from none."""
    wrong = recorded.rows[3]

    assert wrong.reason == "invalid_client: wrong client secret"
    assert (wrong.application_id, wrong.credential_id) == (recorded.agent.id, None)


@pytest.mark.usefixtures("one_window")
async def test_a_refusal_is_recorded_with_what_its_sender_was_told(company: Company) -> None:
    """A parameter that is missing; a secret that has expired; an address that is refused too often."""
    own = Scene(company, await company.zone())
    agent = await company.app(own.zone, "agent")
    ann = await company.person(own.zone, "ann@acme.test")
    subject = await company.token(own.zone, agent, ann)
    exchange = [
        ("grant_type", TOKEN_EXCHANGE),
        ("subject_token", subject),
        ("subject_token_type", ACCESS_TOKEN),
        *agent.form.items(),
    ]
    with pytest.raises(InvalidRequest):
        await own.post(exchange)
    wrong = [("grant_type", "client_credentials"), ("client_id", agent.client_id), ("client_secret", "wrong")]
    for _ in range(MAX_SECRET_GUESSES):
        with pytest.raises(InvalidClient):
            await own.post(wrong, address="203.0.113.9")
    with pytest.raises(TooManyRequests):
        await own.post(wrong, address="203.0.113.9")
    end = own.services.clock() + timedelta(hours=1)
    await company.update(APPLICATION_CREDENTIAL, own.zone.id, agent.credential_id, expires_at=end)
    with pytest.raises(InvalidClient):
        await own.post(
            [*wrong[:2], ("client_secret", agent.secret or "")],
            services=replace(own.services, clock=lambda: end),
        )

    rows = await _rows(own)
    missing, *_, blocked, expired = rows
    assert missing.reason == "invalid_request: `resource` is required"
    assert blocked.reason.startswith("too_many_requests: too many failed client authentications")
    assert expired.reason.startswith(f"invalid_client: the secret of credential `{agent.credential_id}`")
    assert expired.application_id == agent.id


@pytest.mark.usefixtures("one_window")
async def test_a_refusal_that_is_one_too_many_names_the_application(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is answered in place of `invalid_client` is recorded as that, for the same application."""
    own = Scene(company, await company.zone())
    agent = await company.app(own.zone, "agent")
    wrong = [("grant_type", "client_credentials"), ("client_id", agent.client_id), ("client_secret", "wrong")]
    with pytest.raises(InvalidClient):
        await own.post(wrong, address="203.0.113.10")
    monkeypatch.setattr(refused_requests, "REFUSED_REQUESTS", replace(rate_limits.REFUSED_REQUESTS, amount=1))

    with pytest.raises(TooManyRequests):
        await own.post(wrong, address="203.0.113.10")

    instead = (await _rows(own))[-1]
    assert instead.reason == "too_many_requests: over the quota `refusals`, invalid_client"
    assert instead.application_id == agent.id


async def test_no_record_holds_the_subject_token(recorded: Recorded) -> None:
    """Records are read by people: there is no token in them."""
    assert recorded.subject not in str(recorded.rows)


def _recording(services: Services, database: Database | None = None, *, max_queued: int = 20_000) -> Services:
    """The services with a queue of decisions of their own, written to that database."""
    decisions = DecisionLog(
        database or services.database, services.clock, services.rate_limiter, max_queued=max_queued
    )
    return replace(services, decisions=decisions)


async def test_full_queue_answers_503_and_loses_nothing(
    scene: Scene, agent: App, api: Resource, ann: Person
) -> None:
    """When the record cannot keep up no token is given out; everything queued is still written."""
    services = _recording(scene.services, max_queued=3)
    decisions = services.decisions
    subject = await scene.company.token(scene.zone, agent, ann)
    before = await _count(scene)
    assert all([await scene.exchange(agent, subject, api, services=services) for _ in range(3)])

    with pytest.raises(TemporarilyUnavailable):
        await scene.exchange(agent, subject, api, services=services)

    await decisions.stop()
    assert await _count(scene) == before + 3
    assert await scene.exchange(agent, subject, api, services=services)
    await decisions.flush()


class _LostAnswers(Database):
    """A database whose answer to the first commit does not arrive."""

    lost = False

    @asynccontextmanager
    async def transaction(self, *arguments: Any, **named: Any) -> AsyncIterator[AsyncConnection]:
        async with super().transaction(*arguments, **named) as conn:
            yield conn
        if not self.lost:
            self.lost = True
            raise Unavailable("the database does not answer", internal="no answer to a commit")


async def test_what_is_written_again_is_there_once(scene: Scene) -> None:
    """A commit whose answer is lost has been made: the batch is sent again, and adds nothing."""
    database = _LostAnswers.open(scene.services.settings.resolved_database_url)
    decisions, before = _recording(scene.services, database).decisions, await _count(scene)
    for number in range(3):
        decision = Decision(
            scene.zone.organization_id, scene.zone.id, scene.services.clock(), f"request-{number}"
        )
        decision.issue()
        decisions.record(decision)

    with pytest.raises(Unavailable):
        await decisions.flush()
    await decisions.flush()

    await database.close()
    assert decisions.queued == 0
    assert await _count(scene) == before + 3


@pytest.mark.parametrize("comes_back", [True, False])
async def test_what_the_database_does_not_take_before_the_end_is_in_the_log(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    """Each event with what its row would have, and their number; one that comes back in time gets them."""
    monkeypatch.setattr("runtime.services.decision_log.LAST_SECONDS", 1.5)
    database = Database.open("sqlite+aiosqlite:////not/there/zonewright.db")
    decisions = _recording(scene.services, database).decisions
    await decisions.start()
    at, before = scene.services.clock(), await _count(scene)
    for number in range(2):
        decision = Decision(scene.zone.organization_id, scene.zone.id, at, f"request-{number}")
        decision.user_id = "ann"
        decision.issue()
        decisions.record(decision)

    with logged_lines() as logged:
        if comes_back:
            decisions._database = scene.services.database
        await decisions.stop()
    await database.close()

    told = [line["token_event"] for line in logged if line["event"] == "token event not recorded"]
    if comes_back:
        assert (await _count(scene), told) == (before + 2, [])
        return
    assert await _count(scene) == before
    assert [each["request_id"] for each in told] == ["request-0", "request-1"]
    assert (
        told[0].items()
        >= {
            "outcome": "issued",
            "user_id": "ann",
            "zone_id": scene.zone.id,
            "at": at.isoformat(),
        }.items()
    )
    assert any(line.get("events") == 2 for line in logged)
    await decisions.flush()
    assert await _count(scene) == before


@pytest.mark.threat("31u")
@pytest.mark.parametrize("odd", ["half of a character: \ud800", "NUL: \0"], ids=["surrogate", "nul"])
async def test_a_record_that_no_database_takes_holds_up_no_other(scene: Scene, odd: str) -> None:
    """Those before and behind it, of the same batch, are written."""
    services, marks = _recording(scene.services), [new_id(), new_id()]

    await _record(services, scene, marks[0], odd, marks[1])

    assert {row.reason for row in await _rows(scene)} >= {*marks}


async def test_a_record_that_no_database_takes_is_in_the_log(scene: Scene) -> None:
    """In the words of the row that it would have been."""
    with logged_lines() as logged:
        await _record(_recording(scene.services), scene, "half of a character: \ud800")

    (told,) = (line for line in logged if line["event"].startswith("token event not recorded"))
    assert (told["token_event"]["event"], told["token_event"]["outcome"]) == ("token", "refused")


async def _record(services: Services, scene: Scene, *reasons: str) -> None:
    """Have refusals for these reasons written as one batch."""
    zone, at = scene.zone, services.clock()
    for reason in reasons:
        services.decisions.record(Decision(zone.organization_id, zone.id, at, "", reason=reason))
    await services.decisions.flush()


async def test_large_batches_are_written(scene: Scene) -> None:
    """More decisions than a batch holds, with every kind of value in them."""
    decisions = _recording(scene.services).decisions
    await decisions.start()
    before = await _count(scene)
    for number in range(5_000):
        decision = Decision(
            scene.zone.organization_id, scene.zone.id, scene.services.clock(), "r'; --\n\"", reason=None
        )
        decision.actors = ('a"b', "ü") if number % 2 else ()
        decisions.record(decision)

    await decisions.stop()

    assert await _count(scene) == before + 5_000


@pytest.mark.threat("0e", "41a", "41c", "41k")
@pytest.mark.usefixtures("one_window")
async def test_what_strangers_are_refused_is_counted(own_scene: Scene) -> None:
    """1,500 refusals leave few rows, which say how many there were; who sends more is told to wait.

    Whoever is known has a row for each, as before, and who is in order is answered at the same address.
    """
    company, zone, services = own_scene.company, own_scene.zone, own_scene.services
    api = await company.resource(zone, "https://api.test")
    agent = await company.app(zone, "agent", dependencies=[api])
    spa = await company.app(zone, "spa", public=True)
    ann = await company.person(zone, "ann@acme.test")
    subject = await company.token(zone, agent, ann)
    assert await own_scene.exchange(agent, subject, api)
    for _ in range(80):
        with pytest.raises(InvalidTarget):
            await own_scene.exchange(agent, subject, "https://unknown.test")
    known = await _rows(own_scene)
    assert [row.outcome for row in known] == ["issued"] + ["refused"] * 80

    told: Counter[int] = Counter()
    waits = set()
    for number in range(1_500):
        form = {"grant_type": f"urn:fresh:{number}", "client_id": f"nobody-{number}", "client_secret": "x"}
        if number % 2:
            form = {"grant_type": f"urn:fresh:{number}", **spa.form}
        with pytest.raises(OAuthError) as refused:
            await own_scene.post(list(form.items()))
        told[refused.value.status] += 1
        if isinstance(refused.value, TooManyRequests):
            waits.add(refused.value.retry_after_seconds)
    assert waits <= {*range(1, 62)}

    most = services.settings.refusals_a_minute
    assert told == {401: most // 2, 400: most // 2, 429: 1_500 - most}
    rows = (await _rows(own_scene))[len(known) :]
    recorded = RECORDED_REFUSALS_OF_ADDRESS.amount_under(services.settings)
    single, summed = (
        [row for row in rows if (row.requests is None) is is_single] for is_single in (True, False)
    )
    assert (len(single), len(summed)) == (recorded, 3)
    assert sum(row.requests for row in summed) == 1_500 - recorded
    assert {(row.event, row.reason) for row in summed} == {
        ("unknown_grant_type", reason)
        for reason in ("invalid_client", "unsupported_grant_type", "too_many_requests")
    }
    assert await own_scene.exchange(agent, subject, api)
    with pytest.raises(InvalidTarget):
        await own_scene.exchange(agent, subject, "https://unknown.test")
    other = await company.zone("other")
    with pytest.raises(InvalidClient):
        await Scene(company, other).post([("grant_type", "x"), ("client_id", "nobody")])


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("recorded_refusals_a_minute", 3), ("zone_recorded_refusals_a_minute", 3)],
)
@pytest.mark.usefixtures("one_window")
async def test_settings_say_how_many_refusals_have_a_record(
    own_scene: Scene, setting: str, expected: int
) -> None:
    """From one address, and in a zone; the rest is counted, and no request id finds it."""
    zone, clock = own_scene.zone, own_scene.services.clock
    settings = own_scene.services.settings.model_copy(update={setting: expected})
    limiter = RateLimiter(own_scene.services.state, clock, settings)
    decisions = DecisionLog(own_scene.services.database, clock, limiter)

    for number in range(8):
        decision = Decision(zone.organization_id, zone.id, clock(), f"request-{number}")
        address = "192.0.2.1" if setting == "recorded_refusals_a_minute" else f"192.0.2.{number}"
        await decisions.refused(decision, InvalidClient(), address=address)
    await decisions.flush()

    rows = await _rows(own_scene)
    assert [row.request_id for row in rows if row.requests is None] == ["request-0", "request-1", "request-2"]


async def test_what_was_counted_is_written_in_time(own_scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the task in the background, though nothing else happens."""
    monkeypatch.setattr("runtime.services.decision_log._TALLY_SECONDS", 0.05)
    decisions = _recording(own_scene.services).decisions
    await decisions.start()
    zone = own_scene.zone
    for _ in range(RECORDED_REFUSALS_OF_ADDRESS.amount_under(own_scene.services.settings) + 5):
        decision = Decision(zone.organization_id, zone.id, own_scene.services.clock(), "r")
        await decisions.refused(decision, InvalidClient(), address="192.0.2.1")

    summed: list[Any] = []

    async def is_written() -> bool:
        summed[:] = [row for row in await _rows(own_scene) if row.requests is not None]
        return bool(summed)

    await until(is_written)
    assert [row.requests for row in summed] == [5]
    await decisions.stop()


async def _rows(scene: Scene) -> Sequence[Any]:
    await scene.services.decisions.flush()
    async with scene.services.database.reading() as conn:
        found = await conn.execute(
            select(token_events).where(token_events.c.zone_id == scene.zone.id).order_by(token_events.c.at)
        )
        return found.all()


async def _count(scene: Scene) -> int:
    await scene.services.decisions.flush()
    async with scene.services.database.reading() as conn:
        return await conn.scalar(select(func.count()).select_from(token_events)) or 0

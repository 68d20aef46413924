"""The decision log: every decision on a sign-in or a token, queued in memory and written in batches.

A full queue means that the database does not keep up: then requests are answered 503, because a token
that nobody can account for is not issued.

Anybody can be refused as often as they like. So refusals of clients that prove nothing, or that registered
themselves, and of whoever is at a browser, have a row each only up to so many a minute from an address and in
a zone; what is beyond is counted, and one row a minute tells how many of a sort there were.

What the database does not take before the process ends stands in the log, each with all that its row would
have.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from time import monotonic

from cachetools import TTLCache
from prometheus_client import Counter
from sqlalchemy.exc import DBAPIError

from runtime.domain.errors import (
    OAuthError,
    ServiceError,
    TemporarilyUnavailable,
    Unavailable,
    codes,
)
from runtime.domain.oauth.decision_events import DecisionEvent, DecisionOutcome
from runtime.domain.oauth.exchange_steps import Step
from runtime.logs import log
from runtime.metrics import REFUSALS, TOKENS
from runtime.services.client_types import ApplicationClient, Client, is_known
from runtime.services.rate_limiter import RateLimiter, network_of
from runtime.services.rate_limits import RECORDED_REFUSALS, RECORDED_REFUSALS_OF_ADDRESS
from runtime.services.refused_requests import count_refusal
from runtime.storage.sql import token_events as storage
from runtime.storage.sql.database import Database
from runtime.storage.sql.token_events import TokenEvent, UnstorableEvents

MAX_QUEUED = 20_000
_MAX_BATCH = 2_000
_GATHER_SECONDS = 0.05
_RETRY_SECONDS = 0.5
_TALLY_SECONDS = 60
MOST_SEEN = 10_000
_SEEN_EVERY = timedelta(days=1)
LAST_SECONDS = 5.0  # for a database that is away when the process ends
REFUSED = DecisionOutcome.REFUSED
_MAX_DETAIL = 500  # characters of what the sender of a refused request was told: it may have sent them
INACTIVE = DecisionOutcome.INACTIVE
IGNORED = DecisionOutcome.IGNORED
REGISTERED = DecisionOutcome.REGISTERED
_COUNTED_OUTCOMES = (INACTIVE, IGNORED, REGISTERED)  # besides refusals, which are counted by their code
_FAILURES = (DBAPIError, OSError, Unavailable)


@dataclass(slots=True)
class Decision:
    """What a request comes to. Filled in as the request is worked on, then recorded.

    Attributes:
        event: the endpoint, or the grant type in short.
        outcome: None for what comes to nothing yet, such as a page that is shown.
        reason: the error code of a refusal, with what the log may know besides.
        step: the step of a token request that refused.
        determining: names of the policy rules that decided.
        credential_id: what an application has proved itself by.
        is_known: an application that the zone's people made has proved itself.
        provider: identifier of the outside provider that the request was waiting for.
        warning: a log event for who configures the zone, which is written where the record is.
        requests: how many requests the record stands for, when it is not one.
        id: of the record; made when it is queued.
    """

    organization_id: str
    zone_id: str
    at: datetime
    request_id: str
    event: DecisionEvent = DecisionEvent.TOKEN
    outcome: DecisionOutcome | None = REFUSED
    reason: str | None = None
    step: Step | None = None
    user_id: str | None = None
    application_id: str | None = None
    user_agent_id: str | None = None
    credential_id: str | None = None
    resource_id: str | None = None
    actors: tuple[str, ...] = ()
    determining: tuple[str, ...] = ()
    is_known: bool = False
    provider: str | None = None
    warning: tuple[str, Mapping[str, str]] | None = None
    requests: int | None = None
    id: str = ""

    @property
    def is_of_a_client(self) -> bool:
        """Tell whether the request came as far as being some client's."""
        return self.application_id is not None or self.user_agent_id is not None

    @property
    def is_made(self) -> bool:
        """Tell whether there is anything to record."""
        return self.outcome is not None

    def name_client(self, client: Client) -> None:
        """The request is about that client; nobody has proved to be it."""
        self.application_id, self.user_agent_id = (
            client.client_ref.application_id,
            client.client_ref.user_agent_id,
        )

    def identify(self, client: Client) -> None:
        """The request comes from that client, as far as it has proved."""
        self.name_client(client)
        self.is_known = is_known(client)
        if isinstance(client, ApplicationClient):
            self.credential_id = client.credential.id

    def issue(self) -> None:
        """The request got what it asked for."""
        self.succeed(DecisionOutcome.ISSUED)

    def succeed(self, outcome: DecisionOutcome) -> None:
        """The request came to that, and to no refusal."""
        self.outcome, self.reason, self.step = outcome, None, None

    def refuse(self, refusal: ServiceError) -> None:
        """The request was refused for that reason."""
        named = refusal.members.get("reason") if isinstance(refusal, OAuthError) else None
        told = (each for each in (named, refusal.internal) if each)
        known = ": ".join(told) or refusal.detail[:_MAX_DETAIL]
        if self.provider is not None:
            known = f"provider `{self.provider}`: {known}"
        code = refusal.recorded_as or refusal.code
        self.outcome, self.reason = REFUSED, _storable(f"{code}: {known}" if known else code)
        if isinstance(refusal, OAuthError) and not self.is_of_a_client:
            self.application_id = refusal.application_id


# The decision of the browser's request that is being worked on; its steps are in many rooms.
_current: ContextVar[Decision | None] = ContextVar("current_decision", default=None)


@contextmanager
def recorded_request(decision: Decision) -> Iterator[None]:
    """Let `current_decision` be this one in the block."""
    before = _current.set(decision)
    try:
        yield
    finally:
        _current.reset(before)


def current_decision() -> Decision:
    """The decision of the browser's request that is being worked on; elsewhere one that nobody records."""
    found = _current.get()
    return found if found is not None else Decision("", "", datetime.now(UTC), "")


@dataclass(slots=True)
class _Tally:
    """How many refusals of one sort there were, and when the first was."""

    at: datetime
    requests: int = 0


class DecisionLog:
    """The queue of decisions in this process, and the task that writes it to the database."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime],
        rate_limiter: RateLimiter,
        *,
        max_queued: int = MAX_QUEUED,
    ) -> None:
        self._database = database
        self._clock = clock
        self._rate_limiter = rate_limiter
        self._max_queued = max_queued
        self._queued: list[Decision] = []  # which become rows a batch at a time: that takes half as long
        # (organization, zone, event, code): all of them from short lists.
        self._tallies: dict[tuple[str, str, DecisionEvent, str], _Tally] = {}
        # Credentials whose use this process has recorded within a day.
        self._seen: TTLCache[str, bool] = TTLCache(
            MOST_SEEN, _SEEN_EVERY.total_seconds(), timer=lambda: clock().timestamp()
        )
        self._ids = _EventIds()
        self._wake = asyncio.Event()
        self._stopping = False
        self._writer: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    async def start(self) -> None:
        """Write what is recorded, from now on, in the background."""
        self._stopping = False
        if self._writer is None:
            self._writer = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write everything that is queued, and end. What the database does not take goes to the log."""
        self._stopping = True
        self._wake.set()
        try:
            async with asyncio.timeout(LAST_SECONDS):
                if self._writer is not None:
                    await self._writer
                await self._write_last()
        except TimeoutError:
            self._log_lost()
        finally:
            self._writer = None

    def record(self, decision: Decision) -> None:
        """Queue a decision. Raises TemporarilyUnavailable when the queue is full, or is not to be written."""
        refusal = self._database.refusal
        if refusal is not None or len(self._queued) >= self._max_queued:
            why = "the queue of decisions is full" if refusal is None else refusal.internal
            raise TemporarilyUnavailable("please try again shortly", internal=why)
        _count(decision.event, decision.outcome, (decision.reason or "").partition(":")[0])
        self._queue(decision)

    def _queue(self, decision: Decision) -> None:
        decision.id = self._ids.next(decision.at)
        self._queued.append(decision)
        if not self._wake.is_set():
            self._wake.set()

    def record_use(self, organization_id: str, zone_id: str, client: Client) -> None:
        """Have it recorded that an application has proved itself, once a day for each credential.

        For requests that come to no decision: what only asks about tokens is in use, too. What anybody may
        say proves nothing. A full queue leaves it out.
        """
        if not isinstance(client, ApplicationClient) or client.is_public:
            return
        if client.credential.id in self._seen or len(self._queued) >= self._max_queued:
            return
        self._seen[client.credential.id] = True
        use = Decision(organization_id, zone_id, self._clock(), "", event=storage.USE, outcome=storage.PROVED)
        use.identify(client)
        self._queue(use)

    @property
    def queued(self) -> int:
        """The number of rows that wait to be written."""
        return len(self._queued)

    async def refused(self, decision: Decision, refusal: OAuthError, *, address: str) -> OAuthError:
        """Record a refusal; what its sender is told, which may be to wait.

        Args:
            address: whom the request comes from.
        Raises: TemporarilyUnavailable when the queue is full.
        """
        # Who did not get as far as being somebody was counted where that was refused.
        if decision.is_of_a_client and not decision.is_known:
            whose = decision.user_id or network_of(address)
            refusal = await count_refusal(self._rate_limiter, decision.zone_id, refusal, whose=whose)
        decision.refuse(refusal)
        self._record_refusal(decision, address)
        return refusal

    def record_sampled(self, decision: Decision, *, address: str) -> None:
        """Record what anybody can bring about as often as they like: beyond the limits it is only counted.

        Args:
            address: whom the request comes from.
        Raises: TemporarilyUnavailable when the queue is full.
        """
        decision.is_known = False
        if self._record_refusal(decision, address) and decision.warning is not None:
            event, facts = decision.warning
            log.warning(
                event,
                zone_id=decision.zone_id,
                request_id=decision.request_id,
                reason=decision.reason,
                **facts,
            )

    def _record_refusal(self, decision: Decision, address: str) -> bool:
        """Queue the row of a refusal, or count it; whether it has a row."""
        if not decision.is_known and self._is_beyond_limits(decision.zone_id, network_of(address)):
            self._tally(decision, (decision.reason or decision.outcome or REFUSED).partition(":")[0])
            return False
        self.record(decision)
        if decision.outcome is None or decision.outcome is REFUSED:
            _log_refusal(decision)
        return True

    def _is_beyond_limits(self, zone_id: str, place: str) -> bool:
        """Tell whether an address, or a zone, has had its rows of this minute."""
        return bool(
            self._rate_limiter.hit_local(RECORDED_REFUSALS_OF_ADDRESS, zone_id, place)
            or self._rate_limiter.hit_local(RECORDED_REFUSALS, zone_id)
        )

    def _tally(self, decision: Decision, code: str) -> None:
        _count(decision.event, decision.outcome, code)
        sort = (decision.organization_id, decision.zone_id, decision.event, code)
        tally = self._tallies.setdefault(sort, _Tally(decision.at))
        tally.requests += 1

    def _queue_tallies(self) -> None:
        """Have a row written for each sort of refusals that were only counted."""
        tallies, self._tallies = self._tallies, {}
        for (organization_id, zone_id, event, code), tally in tallies.items():
            outcome = DecisionOutcome(code) if code in _COUNTED_OUTCOMES else REFUSED
            summed = Decision(
                organization_id, zone_id, tally.at, request_id="", event=event, outcome=outcome, reason=code
            )
            summed.id, summed.requests = self._ids.next(tally.at), tally.requests
            self._queued.append(summed)

    async def flush(self) -> None:
        """Write everything that is recorded. Raises what the database raises; nothing is lost by that."""
        self._queue_tallies()
        await self._write_queued()

    async def _write_last(self) -> None:
        while True:
            try:
                return await self.flush()
            except _FAILURES as failure:
                self._log_failure(failure)
                await asyncio.sleep(_RETRY_SECONDS)

    def _log_lost(self) -> None:
        """Give up what is queued: say how much that is, and what."""
        self._queue_tallies()
        lost, self._queued = self._queued, []
        log.error(
            "token events are not recorded: the database did not take them before this process ended;"
            " each follows here",
            events=len(lost),
        )
        for decision in lost:
            log.error("token event not recorded", token_event=_told(_row(decision)))

    def _log_failure(self, failure: BaseException) -> None:
        if self._database.refusal is not None:  # which is logged already, and lasts
            return
        reason = failure.internal or failure.detail if isinstance(failure, Unavailable) else repr(failure)
        log.error("token events not written yet", queued=len(self._queued), reason=reason)

    async def _write_queued(self) -> None:
        """Write what is queued now; what comes meanwhile gathers, for a transaction costs as many rows do."""
        left = len(self._queued)
        while left > 0:
            async with self._writing:
                batch = self._queued[: min(left, _MAX_BATCH)]
                if not batch:
                    return  # somebody else has written them
                await self._write([_row(decision) for decision in batch])
                del self._queued[: len(batch)]
                left -= len(batch)

    async def _run(self) -> None:
        told_at = monotonic()
        while not self._stopping:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TALLY_SECONDS):
                    await self._wake.wait()
            if not self._stopping:
                await asyncio.sleep(_GATHER_SECONDS)
            self._wake.clear()
            if monotonic() - told_at >= _TALLY_SECONDS:
                self._queue_tallies()
                told_at = monotonic()
            try:
                await self._write_queued()
            except _FAILURES as failure:
                self._log_failure(failure)
                self._wake.set()
                await asyncio.sleep(_RETRY_SECONDS)

    async def _write(self, batch: list[TokenEvent]) -> None:
        try:
            async with self._database.transaction() as conn:
                await storage.add(conn, batch)
        except UnstorableEvents:
            if len(batch) == 1:
                log.error("token event not recorded: the database refuses it", token_event=_told(batch[0]))
                return
            # One that no database would ever take must not keep the others from being written.
            middle = len(batch) // 2
            await self._write(batch[:middle])
            await self._write(batch[middle:])


class _EventIds:
    """Ids of events, unique among all processes, which grow with time.

    So rows come to the end of the index of their ids. With random ones each would change a page of its own.
    """

    def __init__(self) -> None:
        self._process = secrets.token_hex(5)
        self._count = 0

    def next(self, at: datetime) -> str:
        """An id for what happened then: milliseconds, a number of this process, and the process; in hex."""
        self._count = (self._count + 1) % 0x10000
        return f"{int(at.timestamp() * 1000):012x}{self._count:04x}{self._process}"


def _row(decision: Decision) -> TokenEvent:
    """The row of a decision."""
    return TokenEvent(
        decision.id,
        decision.organization_id,
        decision.zone_id,
        decision.at,
        decision.event,
        decision.outcome or REFUSED,
        decision.reason,
        decision.step,
        decision.user_id,
        decision.application_id,
        decision.user_agent_id,
        decision.resource_id,
        decision.actors,
        decision.determining,
        decision.request_id or None,
        decision.requests,
        decision.credential_id,
    )


def _told(row: TokenEvent) -> dict[str, object]:
    """A row as the log has it."""
    members = {name: value for name, value in row._asdict().items() if value}
    return members | {"at": row.at.isoformat(), "event": str(row.event), "outcome": str(row.outcome)}


def _storable(text: str) -> str:
    """A text as every database takes it: what the sender of a request has a part in may be anything."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _log_refusal(decision: Decision) -> None:
    """Tell who operates the service what its record tells who administers the zone, in the same words."""
    facts = {
        "step": None if decision.step is None else decision.step.label,
        "application_id": decision.application_id,
        "user_agent_id": decision.user_agent_id,
        "user_id": decision.user_id,
        "resource_id": decision.resource_id,
    }
    log.info(
        "request refused",
        request=str(decision.event),
        reason=decision.reason,
        zone_id=decision.zone_id,
        request_id=decision.request_id,
        **{name: value for name, value in facts.items() if value is not None},
    )


def _count(event: DecisionEvent, outcome: DecisionOutcome | None, code: str) -> None:
    """Count a decision, and the code of a refusal: all of them from short lists."""
    _counter(event, outcome).inc()
    if outcome is None or outcome is REFUSED:
        _refusals(event, code).inc()


@lru_cache(maxsize=1_024)
def _refusals(event: DecisionEvent, code: str) -> Counter:
    return REFUSALS.labels(event, code if code in codes() else REFUSED)


@lru_cache(maxsize=256)
def _counter(event: DecisionEvent, outcome: DecisionOutcome | None) -> Counter:
    """The counter of what requests of that sort come to; both are from short lists."""
    return TOKENS.labels(event, outcome or REFUSED)

"""HTTP handlers of snapshots and changesets: streams of JSON lines, and idempotent responses."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import orjson
from sanic import Request
from sanic.response import HTTPResponse

from runtime.api.management.answering import send, send_page
from runtime.api.management.calls import Call, Handler
from runtime.api.management.changeset_bodies import READERS, WRITERS, ChangesetSizeLimits, read_changeset
from runtime.api.shared.errors import answer_failure
from runtime.api.shared.etags import seen
from runtime.api.shared.response_streams import TimedResponse
from runtime.contract.answers import part_answer
from runtime.domain.errors import TooLarge, ValidationFailed
from runtime.domain.kinds import ORGANIZATION, Verb
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import Caller
from runtime.services.management.changesets import authorization, concurrency_limits, pipeline, receipts
from runtime.services.management.changesets.changeset import PackedChangeset
from runtime.services.management.changesets.phases import Progress
from runtime.services.management.snapshots.snapshot import SnapshotFilter, open_snapshot

LINES = "application/x-ndjson"
QUIET_SECONDS = 5.0
_TOLD_EVERY_SECONDS = 0.2
_NO_STORE = {"Cache-Control": "no-store"}
_REPLAYED = {"Idempotent-Replay": "true"}


async def snapshot(call: Call) -> HTTPResponse | None:
    """Everything the caller may read, one entity a line."""
    wanted = SnapshotFilter(call.query.get("zone", ()), call.parameter("owner"))
    organization = call.path["organization_id"]
    with concurrency_limits.snapshot_slot(call.services, call.caller):
        return await _sent(call, organization, wanted)


async def _sent(call: Call, organization: str, wanted: SnapshotFilter) -> HTTPResponse | None:
    async with open_snapshot(call.services, call.caller, organization, wanted, call.request_id) as opened:
        headers = {"ETag": opened.etag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}
        if seen(call.request.headers.get("if-none-match"), opened.etag):
            return HTTPResponse(status=304, headers=headers)
        response = await call.request.respond(headers=headers, content_type=LINES)
        departure = TimedResponse(call.request, response)
        async for chunk in opened.chunks:
            await departure.send(chunk)
        await departure.end()
    return None


@asynccontextmanager
async def admitted(call: Call) -> AsyncIterator[None]:
    """A place for a changeset whose body has not been read yet: its sender may send one, and how large.

    Raises: NotFound, Forbidden, TooLarge, RateLimited, ValidationFailed for the query.
    """
    dry_run, cap = _is_dry_run(call), _cap(call.caller)
    authorization.acting_caller(call.caller, dry_run=dry_run)
    if dry_run:  # before its body is read, and again by the operation itself
        concurrency_limits.require_dry_run_budget(call.services, call.caller)
    announced = call.request.headers.get("content-length", "")
    size = int(announced) if announced.isdecimal() else cap.size
    if size > cap.size:
        raise TooLarge(f"the body has more than {cap.size} bytes")
    with concurrency_limits.changeset_slot(call.services, call.caller, size, cap.size, dry_run=dry_run):
        if call.request.stream is not None:
            call.request.stream.request_max_size = cap.size
        yield


def _is_dry_run(call: Call) -> bool:
    return call.parameter("dry_run") == "true"


def _cap(caller: Caller) -> ChangesetSizeLimits:
    may_apply = permissions.allows(caller.roles_anywhere, receipts.SUBJECT, Verb.CREATE)
    return WRITERS if may_apply else READERS


async def create_changeset(call: Call) -> HTTPResponse | None:
    """Apply a changeset, or only check it."""
    dry_run, request = _is_dry_run(call), call.request
    changeset = await read_changeset(request.body, request.headers.get("content-type"), _cap(call.caller))
    request.body = b""  # it may be large, and what comes may take a while
    key = call.request.headers.get("idempotency-key")
    if key is not None and key != changeset.plan_digest:
        raise ValidationFailed.of("Idempotency-Key", "must be the `plan_digest` of the body")
    if LINES in call.request.headers.get("accept", ""):
        return await _in_lines(call, changeset, dry_run=dry_run)
    outcome = await _applied(call, changeset, dry_run=dry_run)
    return send(outcome.answer, headers=_REPLAYED if outcome.replayed else None)


async def _applied(
    call: Call, changeset: PackedChangeset, *, dry_run: bool, progress: Progress | None = None
) -> receipts.AppliedChangeset:
    return await pipeline.apply_changeset(
        call.services,
        call.caller,
        call.path["organization_id"],
        changeset,
        request_id=call.request_id,
        dry_run=dry_run,
        progress=progress,
    )


async def _in_lines(call: Call, changeset: PackedChangeset, *, dry_run: bool) -> HTTPResponse | None:
    """The answer as lines. What is refused before the first line keeps its status."""
    lines = _Lines(call.request, len(changeset.operations))
    try:
        async with lines.at_least_every(QUIET_SECONDS):
            outcome = await _applied(call, changeset, dry_run=dry_run, progress=lines.progress)
    except Exception as failure:  # noqa: BLE001 - told and logged as any other, but on a line
        refused = answer_failure(call.request, failure)
        line = _line({"type": "error", **orjson.loads(refused.body or b"{}")})
        status, headers = refused.status, dict(refused.headers)
    else:
        line = _line({"type": "result", **outcome.answer})
        status, headers = 200, {**_NO_STORE, **(_REPLAYED if outcome.replayed else {})}
    if lines.departure is None:
        return HTTPResponse(line, status=status, headers=headers, content_type=LINES)
    await lines.departure.send(line)
    await lines.departure.end()
    return None


@dataclass
class _Lines:
    """Lines about the progress of a changeset, which begin the answer.

    Whoever does not read them holds nobody up: they are sent while the organization's turn to write is taken.
    """

    request: Request
    total: int
    departure: TimedResponse | None = None
    _done: int = 0
    _last: float = field(default_factory=monotonic)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def progress(self, done: int, total: int) -> None:
        """Tell how many operations are done, a few times a second."""
        if self.departure is not None and done < total and monotonic() - self._last < _TOLD_EVERY_SECONDS:
            self._done = done
            return
        async with self._turn:
            if self.departure is None:
                stream = await self.request.respond(headers=_NO_STORE, content_type=LINES)
                self.departure = TimedResponse(self.request, stream)
            self._done, self._last = done, monotonic()
            await self.departure.send(_line({"type": "progress", "done": done, "total": total}))

    @asynccontextmanager
    async def at_least_every(self, seconds: float) -> AsyncIterator[None]:
        """While the block runs, say again how far it is when nothing was said for so long.

        Nobody between here and the caller takes the connection for one that hangs.
        """
        repeating = asyncio.create_task(self._repeat(seconds))
        try:
            yield
        finally:
            repeating.cancel()
            await asyncio.gather(repeating, return_exceptions=True)  # the last line fails where this did

    async def _repeat(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(max(0.0, self._last + seconds - monotonic()))
            if monotonic() - self._last >= seconds:
                await self.progress(self._done, self.total)


def _line(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value) + b"\n"


async def list_changesets(call: Call) -> HTTPResponse:
    """What was applied, newest first."""
    query = call.list_query()
    organization = call.path["organization_id"]
    listed = await receipts.history(
        call.services, call.caller, organization, query, request_id=call.request_id
    )
    return send_page(call, ORGANIZATION, listed, query)


async def retrieve_changeset(call: Call) -> HTTPResponse:
    """One receipt."""
    organization, changeset_id = call.path["organization_id"], call.path["changeset_id"]
    receipt = await receipts.retrieve(
        call.services, call.caller, organization, changeset_id, request_id=call.request_id
    )
    return send(part_answer(receipt))


HANDLERS: dict[str, Handler] = {
    "snapshot.retrieve": snapshot,
    "changesets.create": create_changeset,
    "changesets.list": list_changesets,
    "changesets.retrieve": retrieve_changeset,
}

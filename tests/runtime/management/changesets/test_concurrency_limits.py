"""Limits of changesets: who sends too much is refused before it is read, and nobody else notices."""

import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from sqlalchemy import func
from sqlalchemy import select as sql_select
from tests.runtime.management.changesets.test_changesets_http import a_zone, changeset
from tests.runtime.management.conftest import Api
from tests.support.applying import app, create, update
from tests.support.waiting import let_pass, wait_until

from runtime.api.management.changeset_bodies import READERS, WRITERS
from runtime.api.shared import request_bodies
from runtime.contract.bodies import MAX_PROBLEMS
from runtime.domain.identifiers import new_id
from runtime.services import rate_limits
from runtime.services.container import Services
from runtime.services.management.changesets import concurrency_limits, dry_run
from runtime.services.management.changesets.concurrency_limits import (
    BESIDE_BYTES,
    BYTES,
    OF_CALLER,
    OF_ORGANIZATION,
)
from runtime.storage.sql.database import DRY_RUNS
from runtime.storage.sql.tables import METADATA

MANY = 400
MIB = 1024 * 1024


def path_of(api: Api, *, dry_run: bool = True) -> str:
    return f"/organizations/{api.organization_id}/changesets{'?dry_run=true' if dry_run else ''}"


@pytest.fixture(scope="module")
def reader(api: Api) -> Api:
    """Somebody who may read, and whose places nobody else takes."""
    return api.with_role("org_viewer")


@pytest.fixture(scope="module")
def writer(api: Api) -> Api:
    return api.with_role("org_member")


class Upload:
    """A request whose body is announced, and comes when the test says so."""

    def __init__(self, api: Api, length: int, *, dry_run: bool = True) -> None:
        server = urlsplit(api.server.url)
        self._socket = socket.create_connection((str(server.hostname), server.port or 0), timeout=30)
        head = (
            f"POST {path_of(api, dry_run=dry_run)} HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: {api.client.headers['Authorization']}\r\nContent-Length: {length}\r\n\r\n"
        )
        self._socket.sendall(f"{head}{{".encode())

    def status(self, *, within_seconds: float = 30) -> int | None:
        """The status of the answer, though the body has not come; None while there is none."""
        self._socket.settimeout(within_seconds)
        try:
            return int(self._socket.recv(64).split()[1])
        except TimeoutError:
            return None

    def is_answered(self) -> bool:
        """Whether there is an answer, though the body has not come."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def drip(self) -> None:
        self._socket.sendall(b" ")

    def close(self) -> None:
        self._socket.close()


def under_way(api: Api) -> int:
    """How many changesets of the organization have a place."""
    taken = concurrency_limits._taken.get(api.server.services.database, {})
    return sum(taken.get((api.organization_id, each), 0) for each in ("tried", "applied"))


@contextmanager
def uploads(api: Api, count: int, *, length: int = 1000, dry_run: bool = True) -> Iterator[None]:
    """So many changesets under way, which do not end by themselves."""
    opened: list[Upload] = []
    try:
        for _ in range(count):
            before = under_way(api)
            opened.append(Upload(api, length, dry_run=dry_run))
            wait_until(lambda before=before: under_way(api) > before or opened[-1].is_answered())
        yield
    finally:
        for each in opened:
            each.close()


def eventually(api: Api, body: Any) -> httpx.Response:
    """The answer to a dry run once there is a place again: the server notices hung-up senders by itself."""
    answers: list[httpx.Response] = []

    def has_a_place() -> bool:
        answers.append(api("POST", path_of(api), body))
        return answers[-1].status_code != 429

    wait_until(has_a_place)
    return answers[-1]


def memory_mib() -> float:
    """What this process has in memory; the server runs in it."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def rows(api: Api) -> dict[str, int]:
    """How many rows each table has."""

    async def count(services: Services) -> dict[str, int]:
        async with services.database.reading() as conn:
            return {
                name: int((await conn.execute(sql_select(func.count()).select_from(table))).scalar_one())
                for name, table in METADATA.tables.items()
            }

    return api.server.call(count)


@pytest.mark.threat("41f", "41i", "41j", "41k")
def test_bodies_larger_than_a_reader_has_a_use_for(api: Api, reader: Api, writer: Api) -> None:
    """By the length that is announced, before anything has come; or as soon as more has come."""
    zone = a_zone()
    assert reader("POST", path_of(api), changeset(api, zone)).status_code == 200
    before, kept = memory_mib(), rows(api)
    for _ in range(1_500):
        upload = Upload(reader, 80 * MIB)
        assert upload.status() == 413
        upload.close()
    assert memory_mib() - before < 100
    assert rows(api) == kept
    for sender, cap in ((reader, READERS), (writer, WRITERS)):
        too_long = Upload(sender, cap.size + 1)
        assert too_long.status() == 413
        too_long.close()
        fitting = Upload(sender, cap.size)
        assert fitting.status(within_seconds=0.5) is None
        fitting.close()

    def without_length() -> Iterator[bytes]:
        for _ in range(80):
            yield b" " * MIB

    with suppress(httpx.TransportError):  # the server hangs up on the rest
        assert reader.client.post(path_of(api), content=without_length()).status_code == 413
    assert memory_mib() - before < 100


@pytest.mark.threat("41i")
def test_who_may_not_apply_is_told_before_the_body(api: Api, reader: Api) -> None:
    """Nothing of a body is read for somebody who can do nothing with it."""
    upload = Upload(reader, 1000, dry_run=False)
    assert upload.status() == 403
    upload.close()
    assert reader("POST", path_of(api, dry_run=False), changeset(api, a_zone())).status_code == 403


@pytest.mark.threat("41e", "41i")
def test_places_are_counted(api: Api, other: Api) -> None:
    """So many at once of one caller, and of one organization; others have their own, and places come back."""
    first, second, third, fourth = (api.with_role("org_viewer") for _ in range(4))
    body = changeset(api, a_zone())
    assert first("POST", path_of(api), body).status_code == 200
    with uploads(first, OF_CALLER):
        refused = first("POST", path_of(api), body)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limit_exceeded")
        assert int(refused.headers["retry-after"]) > 0
        assert second("POST", path_of(api), body).status_code == 200
        with uploads(second, OF_CALLER), uploads(fourth, OF_ORGANIZATION - 2 * OF_CALLER):
            assert third("POST", path_of(api), body).status_code == 429
            assert other("POST", path_of(other), changeset(other, a_zone())).status_code == 200
            # Who applies does not wait for those who try out.
            assert api("POST", path_of(api, dry_run=False), changeset(api, a_zone())).status_code == 200
    body = changeset(api, a_zone())  # what was planned before the apply is refused for that
    assert {eventually(sender, body).status_code for sender in (first, third)} == {200}


@pytest.mark.threat("41e", "41i")
def test_large_ones_come_one_after_the_other(api: Api, other: Api) -> None:
    """What the bodies under way may have together is counted; small ones find a place beside a large one."""
    first, second, third = (api.with_role("org_viewer") for _ in range(3))
    small = changeset(api, a_zone())
    upload = Upload(first, READERS.size)
    assert upload.status(within_seconds=0.5) is None
    assert first("POST", path_of(api), small).status_code == 200
    for sender, size in ((first, BESIDE_BYTES + 1), (third, BYTES - 2 * READERS.size + 1)):
        beside = Upload(second, READERS.size)
        assert beside.status(within_seconds=0.5) is None
        refused = Upload(sender, size)
        assert refused.status() == 429
        for each in (refused, beside):
            each.close()
        eventually(second, small)
    elsewhere = Upload(other.with_role("org_viewer"), READERS.size)
    assert elsewhere.status(within_seconds=0.5) is None
    for each in (upload, elsewhere):
        each.close()
    again = Upload(first, READERS.size)
    while (status := again.status(within_seconds=0.5)) == 429:  # the server notices hung-up senders by itself
        again.close()
        again = Upload(first, READERS.size)
    assert status is None
    again.close()


@pytest.mark.threat("41e", "41i")
def test_a_reader_takes_nothing_from_an_administrator(api: Api) -> None:
    """Whatever one reader announces and leaves open, the largest of somebody who applies has a place."""
    assert OF_CALLER < DRY_RUNS
    reader, writer = (api.with_role(role) for role in ("org_viewer", "org_member"))
    assert reader("POST", path_of(api), changeset(api, a_zone())).status_code == 200
    with uploads(reader, 1, length=READERS.size), uploads(reader, OF_CALLER, length=BESIDE_BYTES // 2):
        assert reader("POST", path_of(api), changeset(api, a_zone())).status_code == 429
        largest = Upload(writer, WRITERS.size)
        assert largest.status(within_seconds=0.5) is None
        largest.close()
        assert api("POST", path_of(api), changeset(api, a_zone())).status_code == 200


@pytest.mark.threat("41e", "41i")
def test_one_who_applies_leaves_places(api: Api) -> None:
    """Applies that never arrive are counted for who sends them; the others of the organization apply."""
    member = api.with_role("org_member")
    path = path_of(api, dry_run=False)
    assert member("POST", path, changeset(api, a_zone())).status_code == 200
    with uploads(member, OF_ORGANIZATION, length=4 * MIB, dry_run=False):
        assert member("POST", path, changeset(api, a_zone())).status_code == 429
        assert api("POST", path, changeset(api, a_zone())).status_code == 200


@pytest.mark.threat("41e", "41i")
def test_a_large_body_has_to_keep_coming(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes at a rate takes its time; what drips is not waited for, however large it was to be."""
    reader = api.with_role("org_viewer")
    monkeypatch.setattr(request_bodies, "MAX_LAG_SECONDS", 1.0)
    monkeypatch.setattr(request_bodies, "BYTES_A_SECOND", MIB)
    zone = api.zone()
    apps = [app(f"a{number}", zone.id, description="x" * 2000) for number in range(1_200)]
    large = json.dumps(changeset(api, *apps)).encode()
    assert len(large) > 2 * MIB

    def steadily() -> Iterator[bytes]:
        for begin in range(0, len(large), MIB // 4):
            yield large[begin : begin + MIB // 4]
            let_pass(0.15)

    headers = {"Content-Length": str(len(large))}
    answer = reader.client.post(path_of(api), content=steadily(), headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text

    upload, began = Upload(reader, READERS.size), time.monotonic()
    while (status := upload.status(within_seconds=0.2)) is None and time.monotonic() - began < 20:
        upload.drip()
    assert status == 408
    upload.close()


@pytest.mark.threat("41e", "41i")
def test_one_after_the_other_they_take_so_long_in_an_hour(
    api: Api, other: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused ones count as well; then the caller waits, before a body is read, and nobody else does."""
    first, second = (api.with_role("org_viewer") for _ in range(2))
    zone, body = api.zone(), changeset(api)
    good = {**body, "operations": [a_zone()]}
    taken = {**body, "operations": [update("Zone", zone.id, "zone", name="Zone")]}  # nobody has adopted it
    assert first("POST", path_of(api), good).status_code == 200
    little = replace(rate_limits.DRY_RUN_MILLISECONDS, name="dry-run-little", amount=60)
    monkeypatch.setattr(rate_limits, "DRY_RUN_MILLISECONDS", little)
    for _ in range(60):
        answer = first("POST", path_of(api), taken)
        if answer.status_code != 409:
            break
    assert (answer.status_code, answer.json()["code"]) == (429, "rate_limit_exceeded")
    assert "this hour; try again in" in answer.json()["message"]
    assert int(answer.headers["retry-after"]) > 0
    upload = Upload(first, 1000)
    assert upload.status() == 429
    upload.close()

    assert second("POST", path_of(api), good).status_code == 200
    assert other("POST", path_of(other), changeset(other, a_zone())).status_code == 200
    first.ok("GET", "/zones")
    # Who may apply is counted apart there: nothing is taken from what an apply needs.
    monkeypatch.setattr(rate_limits, "DRY_RUN_MILLISECONDS", replace(little, name="dry-run-less", amount=1))
    assert api("POST", path_of(api), {**changeset(api), "operations": [a_zone()]}).status_code == 200
    assert api("POST", path_of(api), changeset(api, a_zone())).status_code == 429
    assert api("POST", path_of(api, dry_run=False), changeset(api, a_zone())).status_code == 200


@pytest.mark.threat("41e", "41j", "41k")
def test_many_dry_runs_leave_nothing(api: Api, reader: Api) -> None:
    """Hundreds, each about something else, accepted or refused: memory is flat and no row is left."""
    zone, body = api.zone(), changeset(api)

    def attempt(number: int) -> None:
        name = new_id()
        group = create("Group", name, zone.id, name=name, members=[f"{name}@example.org"])
        wrong = [app(name, zone.id, nme="x")] if number % 3 else []
        answer = reader("POST", path_of(api), {**body, "operations": [group, *wrong]})
        assert answer.status_code == (400 if wrong else 200), answer.text

    for number in range(100):
        attempt(number)
    before, kept = memory_mib(), rows(api)
    for number in range(MANY):
        attempt(number)
    assert memory_mib() - before < 8  # 20 KiB each
    assert rows(api) == kept


@pytest.mark.threat("41l")
def test_others_are_served_during_dry_runs(api: Api, other: Api, reader: Api) -> None:
    """Sixty zones are tried out; whoever writes meanwhile, in the same organization too, does not wait."""
    zones = [{**a_zone(), "local_id": str(number)} for number in range(60)]
    apps = [app(f"a{number}", {"local_id": str(number % 60)}) for number in range(120)]
    body = changeset(api, *zones, *apps)
    mine, theirs = api.zone(), other.zone()
    answers: list[httpx.Response] = []
    trying = threading.Thread(target=lambda: answers.append(reader("POST", path_of(api), body)))
    written = 0
    trying.start()
    while trying.is_alive():
        for zone in (mine, theirs):
            zone.make("roles")
            written += 1
    trying.join()
    assert answers[0].status_code == 200, answers[0].text
    assert written >= 6, "the dry run has waited for the writes, or they for it"


@pytest.mark.threat("41i")
def test_a_dry_run_that_takes_too_long_is_stopped(
    api: Api, reader: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to do, and that it is of no use to try the same again."""
    body = changeset(api, a_zone())
    assert reader("POST", path_of(api), body).status_code == 200
    with monkeypatch.context() as patched:
        patched.setattr(dry_run, "DRY_RUN_SECONDS", 0.0)
        patched.setattr(dry_run, "OPERATION_SECONDS", 0.001)
        refused = reader.refused(413, "POST", path_of(api), body)
    assert "fewer zones" in refused["message"]
    assert reader("POST", path_of(api), body).status_code == 200


WRONG = {"op": "create", "kind": "Application", "name": "a", "spec": {"identifier": "a", "name": "a"}}


@pytest.mark.threat("41j", "31u")
def test_a_long_name_is_not_repeated_in_full(api: Api, reader: Api) -> None:
    """A member of 500,000 characters that nothing has is refused in a short answer."""
    wrong = {**WRONG, "spec": {"x" * 500_000: 1}}
    few = reader.refused(400, "POST", path_of(api), changeset(api, *[wrong] * 3))
    assert len(json.dumps(few)) < 100_000
    assert "unknown member" in few["details"][-1]["message"]


@pytest.mark.threat("41j", "31u")
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({**WRONG, "spec": {"nme": 1}}, id="unknown member"),
        pytest.param({**WRONG, "kind": "Nothing"}, id="unknown kind"),
        pytest.param({}, id="empty"),
    ],
)
def test_a_refusal_has_a_hundred_problems_at_most(api: Api, reader: Api, bad: dict[str, Any]) -> None:
    """However many of the operations are wrong."""
    response = reader("POST", path_of(api), changeset(api, *[bad] * 5_000))
    assert response.status_code == 400
    assert len(response.json()["details"]) == MAX_PROBLEMS
    assert len(response.content) < 100_000

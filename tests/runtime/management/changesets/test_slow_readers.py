"""Snapshots that nobody reads: each holds a database connection, so there are few, and none for long."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from sqlalchemy.pool import QueuePool
from tests.runtime.management.changesets.test_changesets_http import a_zone, changeset, post
from tests.runtime.management.conftest import Api, caller
from tests.support.applying import app
from tests.support.server import Server
from tests.support.waiting import wait_until

from runtime.api.shared import response_streams
from runtime.services.management.changesets.concurrency_limits import (
    SNAPSHOTS_OF_CALLER,
    SNAPSHOTS_OF_ORGANIZATION,
)
from runtime.services.management.organizations import organizations

pytestmark = pytest.mark.long

# Together far more than what the kernel keeps of an answer that is not read.
APPLICATIONS = 2_500


@pytest.fixture(scope="module")
def large(server: Server) -> Api:
    """The administrator of an organization of its own, whose snapshot is large."""
    made, key = server.call(lambda services: organizations.create_organization(services, "Large company"))
    admin = caller(server, key, made.id)
    admin.client.timeout = httpx.Timeout(120)
    apps = [app(f"a{number}", {"local_id": "z"}, description="x" * 2000) for number in range(APPLICATIONS)]
    answer = post(admin, changeset(admin, {**a_zone(), "local_id": "z"}, *apps))
    assert answer.status_code == 200, answer.text
    return admin


def snapshot(api: Api) -> httpx.Response:
    return api("GET", f"/organizations/{api.organization_id}/snapshot")


def held(api: Api) -> int:
    """How many connections of the database are in use."""
    pool = api.server.services.database.engine.pool
    assert isinstance(pool, QueuePool)
    return pool.checkedout()


def held_at_last(api: Api, most: int, *, within_seconds: float = 10) -> int:
    """How many connections are in use once callers have been read: at most *most*, or else too many."""
    wait_until(lambda: held(api) <= most, seconds=within_seconds, otherwise=lambda: f"{held(api)} in use")
    return held(api)


def asking(api: Api) -> socket.socket:
    """A connection that has asked for a snapshot, and of which nothing is read."""
    server = urlsplit(api.server.url)
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    opened.settimeout(60)
    opened.connect((str(server.hostname), server.port or 0))
    opened.sendall(
        f"GET /organizations/{api.organization_id}/snapshot HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: {api.client.headers['Authorization']}\r\n\r\n".encode()
    )
    return opened


@contextmanager
def unread(api: Api, count: int) -> Iterator[None]:
    """So many snapshots that are being sent or were refused, and are not read."""
    opened = [asking(api) for _ in range(count)]
    for each in opened:
        each.recv(1, socket.MSG_PEEK)  # has been answered; the byte stays unread
    try:
        yield
    finally:
        for each in opened:
            each.close()


def eventually(api: Api, *, within_seconds: float = 10) -> httpx.Response:
    """The snapshot once there is a place again: the server notices by itself that one is free."""
    answers: list[httpx.Response] = []

    def has_a_place() -> bool:
        answers.append(snapshot(api))
        return answers[-1].status_code != 429

    wait_until(has_a_place, seconds=within_seconds)
    return answers[-1]


@pytest.mark.threat("41e", "41i")
def test_one_caller_takes_few(large: Api, other: Api) -> None:
    """Forty that one reader leaves unread are refused but two; everybody else reads, writes and signs in."""
    first, second, third = (large.with_role("org_viewer") for _ in range(3))
    whole = snapshot(first)
    assert (whole.status_code, '"type":"end"' in whole.text[-100:]) == (200, True)
    with unread(first, 40):
        refused = snapshot(first)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limit_exceeded")
        assert int(refused.headers["retry-after"]) > 0
        assert held_at_last(large, SNAPSHOTS_OF_CALLER) <= SNAPSHOTS_OF_CALLER
        assert large("GET", "/readyz").status_code == 200
        assert snapshot(second).status_code == 200
        assert post(large, changeset(large, a_zone())).status_code == 200
        with unread(second, SNAPSHOTS_OF_ORGANIZATION - SNAPSHOTS_OF_CALLER):
            assert snapshot(third).status_code == 429
            assert snapshot(other).status_code == 200
    assert {eventually(each).status_code for each in (first, third)} == {200}


@pytest.mark.threat("41e", "41i")
def test_who_reads_a_little_now_and_then_is_cut_off(large: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that stay open and drip give back their places, and what they hold of the database."""
    reader = large.with_role("org_viewer")
    monkeypatch.setattr(response_streams, "MAX_LAG_SECONDS", 3.0)
    assert snapshot(reader).status_code == 200
    with unread(reader, SNAPSHOTS_OF_CALLER - 1):
        dripping = asking(reader)
        assert dripping.recv(64).startswith(b"HTTP/1.1 200")
        assert snapshot(reader).status_code == 429
        wait_until(lambda: dripping.recv(1) and not held(large))
        assert held(large) == 0
        assert snapshot(reader).status_code == 200
        dripping.close()

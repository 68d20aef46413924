"""Snapshots and changesets over HTTP."""

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.runtime.management.signing_in import someone
from tests.support.applying import create, local, ref

from runtime.domain.identifiers import new_id
from runtime.services.management.authentication.callers import authenticate

LINES = {"Accept": "application/x-ndjson"}


def changeset(api: Any, *operations: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A changeset over what stands now."""
    return {
        "base_revision": api.revision(),
        "owner": "acme/identity",
        "plan_digest": f"sha256:{new_id()}",
        "operations": list(operations),
        **more,
    }


def post(api: Any, body: Any, query: str = "", **more: Any) -> httpx.Response:
    """Send a changeset."""
    response: httpx.Response = api(
        "POST", f"/organizations/{api.organization_id}/changesets{query}", body, **more
    )
    return response


def a_zone(name: str | None = None) -> dict[str, Any]:
    """A new zone."""
    return create("Zone", name or f"zone-{new_id()[:8]}", name="Zone")


def test_snapshot_is_cached_by_revision(api: Any) -> None:
    """An unchanged organization is answered 304; a changed one is not."""
    path = f"/organizations/{api.organization_id}/snapshot"
    first = api("GET", path)
    assert first.status_code == 200
    assert first.headers["content-type"] == "application/x-ndjson"
    assert json.loads(first.text.splitlines()[-1])["type"] == "end"
    tag = first.headers["etag"]
    tags = (tag, f"W/{tag}", f'"x", {tag}')
    again = [api("GET", path, headers={"If-None-Match": seen}) for seen in tags]
    assert [(each.status_code, each.content) for each in again] == [(304, b"")] * len(tags)
    api.zone()
    assert api("GET", path, headers={"If-None-Match": tag}).status_code == 200


def test_snapshot_by_label_and_zone(api: Any) -> None:
    """The organization is named by its label too; zones narrow the stream."""
    label = api.ok("GET", f"/organizations/{api.organization_id}")["label"]
    zone = api.zone()
    lines = api("GET", f"/organizations/{label}/snapshot?zone={zone.id}").text.splitlines()
    told = [json.loads(line) for line in lines[1:-1]]
    zones = {line.get("zone_id") for line in told if line["type"] != "tombstone"}  # of zones that are gone
    assert zones == {zone.id, None}
    api.refused(404, "GET", f"/organizations/{label}/snapshot?zone=nowhere")
    api.refused(404, "GET", "/organizations/nobody/snapshot")


def test_changeset_answers_json(api: Any) -> None:
    """Without asking for lines the answer is one object."""
    body = changeset(api, a_zone())
    response = post(api, body)
    assert response.status_code == 200
    answer = response.json()
    assert answer["revision"] == body["base_revision"] + 1
    assert answer["operations"][0]["status"] == "done"
    again = post(api, body, headers={"Idempotency-Key": body["plan_digest"]})
    assert again.headers["idempotent-replay"] == "true"
    assert again.json() == answer
    receipt = api.ok("GET", f"/organizations/{api.organization_id}/changesets/{answer['id']}")
    assert receipt["plan_digest"] == body["plan_digest"]
    page = api.ok("GET", f"/organizations/{api.organization_id}/changesets?limit=1")
    assert page["items"] == [receipt]


def test_lines_tell_progress_and_then_the_result(api: Any) -> None:
    """Progress comes while it runs, then the result."""
    zone = a_zone()
    place = {"local_id": zone["local_id"]}
    apps = [create("Application", f"a{n}", place, name="A", identifier=f"a{n}") for n in range(120)]
    body = changeset(api, zone, *apps)
    lines = [json.loads(line) for line in post(api, body, headers=LINES).text.splitlines()]
    assert lines[0] == {"type": "progress", "done": 100, "total": 121}
    assert lines[-1]["type"] == "result"
    assert len(lines[-1]["operations"]) == 121
    again = post(api, body, headers=LINES)
    assert again.headers["idempotent-replay"] == "true"
    assert json.loads(again.text)["type"] == "result"


def test_lines_come_while_nothing_is_done(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks up, copies and finishes says so, too: nobody takes the connection for one that hangs."""
    body = changeset(api, a_zone())
    alone = [
        json.loads(line) for line in post(api, body, headers=LINES, query="?dry_run=true").text.splitlines()
    ]
    assert [line["type"] for line in alone] == ["progress", "result"]
    monkeypatch.setattr("runtime.api.management.changes.QUIET_SECONDS", 0.001)
    lines = [
        json.loads(line) for line in post(api, body, headers=LINES, query="?dry_run=true").text.splitlines()
    ]
    assert lines[0] == {"type": "progress", "done": 0, "total": 1}
    assert [line["type"] for line in lines[-2:]] == ["progress", "result"]


def test_a_refusal_is_a_line_with_its_status(api: Any) -> None:
    """A refusal is a line as well, with its status inside, and the progress before it was for nothing."""
    zone = a_zone()
    place = {"local_id": zone["local_id"]}
    apps = [create("Application", f"a{n}", place, name="A", identifier=f"a{n % 119}") for n in range(120)]
    lines = [
        json.loads(line) for line in post(api, changeset(api, zone, *apps), headers=LINES).text.splitlines()
    ]
    assert lines[0]["type"] == "progress"
    assert (lines[-1]["type"], lines[-1]["status"], lines[-1]["code"]) == ("error", 409, "conflict")
    assert lines[-1]["details"][0]["field"] == "operations[120].spec.identifier"


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"operations": []}, 400, "validation_error"),
        ({"operations": [{"op": "create", "kind": "Nothing"}]}, 400, "validation_error"),
        ({"operations": [{"op": "destroy", "kind": "Zone"}]}, 400, "validation_error"),
        ({"owner": ""}, 400, "validation_error"),
        ({"extra": 1}, 400, "validation_error"),
        ({"base_revision": 10**9}, 412, "precondition_failed"),
        ({"base_revision": -1}, 400, "validation_error"),
    ],
)
@pytest.mark.parametrize("headers", [{}, LINES], ids=["json", "lines"])
def test_a_changeset_that_cannot_begin_has_its_status(
    api: Any, headers: dict[str, str], more: dict[str, Any], status: int, code: str
) -> None:
    """A changeset that cannot begin is refused with its status, in either form."""
    response = post(api, {**changeset(api, a_zone()), **more}, headers=headers)
    assert (response.status_code, response.json()["code"]) == (status, code)


@pytest.mark.threat("31r")
def test_only_changesets_are_large_and_only_from_those_who_are_known(api: Any) -> None:
    """Nobody makes the service keep more of a body than its operation has a use for."""
    much = [a_zone() | {"fields": ["x" * 1000] * 1000} for _ in range(5)]
    assert post(api, changeset(api, *much)).status_code == 200

    path = f"/organizations/{api.organization_id}/changesets"
    assert answered_before_the_body(api, path) == 401
    assert answered_before_the_body(api, path, "Bearer zwk_none") == 401


@pytest.mark.threat("31r")
@pytest.mark.parametrize("path", ["/zones", "/service-account-token", "/z/nowhere/oauth/token"])
def test_no_other_body_is_large(api: Any, path: str) -> None:
    """413 as soon as the head of a request announces more than its operation has a use for."""
    assert answered_before_the_body(api, path) == 413


def answered_before_the_body(api: Any, path: str, authorization: str | None = None) -> int:
    """The status of the answer to the head of a request that announces 50 MB."""
    server = urlsplit(api.server.url)
    told = f"Authorization: {authorization}\r\n" if authorization else ""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{told}Content-Length: 52428800\r\n\r\n{{"
    with socket.create_connection((server.hostname, server.port), timeout=10) as connection:
        connection.sendall(head.encode())
        return int(connection.recv(64).split()[1])


@pytest.mark.threat("18m")
def test_who_is_nobody_any_more_when_the_body_has_come(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large body may take minutes: what its sender is allowed is looked at when it is there."""
    path, known = f"/organizations/{api.organization_id}", threading.Event()

    async def knowing(*arguments: Any) -> Any:
        caller = await authenticate(*arguments)
        known.set()
        return caller

    monkeypatch.setattr("runtime.api.management.authenticate", knowing)

    def slowly(name: str, *, ends: bool) -> int:
        ada = someone(api, "org_admin")
        sender = ada.calling()
        body = json.dumps(changeset(api, a_zone(name))).encode()

        def services() -> Iterator[bytes]:
            known.clear()
            yield body[:10]
            assert known.wait(30)
            if ends:
                api.ok("DELETE", ada.path)
            yield body[10:]

        headers = {"Content-Type": "application/json"}
        response = sender.client.post(f"{path}/changesets", content=services(), headers=headers)
        return int(response.status_code)

    stays, ends = api.named("stays"), api.named("ends")
    assert slowly(stays, ends=False) == 200
    assert slowly(ends, ends=True) == 401
    snapshot = api("GET", f"{path}/snapshot").text
    assert (stays in snapshot, ends in snapshot) == (True, False)


def test_key_must_be_the_digest(api: Any) -> None:
    """The idempotency key is the digest, or nothing."""
    response = post(api, changeset(api, a_zone()), headers={"Idempotency-Key": "mine"})
    assert response.status_code == 400


def test_a_dry_run_answers_as_the_real_one(api: Any) -> None:
    """A dry run answers as the real one would, for a reader as well."""
    body = changeset(api, a_zone())
    path = f"/organizations/{api.organization_id}/changesets?dry_run=true"
    viewer = api.with_role("org_viewer")
    assert viewer.ok("POST", path, body)["dry_run"] is True
    assert post(viewer, body).status_code == 403
    assert post(api, body).status_code == 200


def test_secrets_come_back_once(api: Any) -> None:
    """The password is in the answer of the apply, and nowhere after it."""
    zone = a_zone()
    place = {"local_id": zone["local_id"]}
    body = changeset(
        api,
        zone,
        create("Application", "agent", place, name="A", identifier="agent"),
        create(
            "ApplicationCredential",
            "key",
            place,
            application_id=ref("Application", "agent"),
            type="password",
        ),
    )
    assert body["operations"][1]["local_id"] == local("Application", "agent")
    answer = post(api, body).json()
    password = answer["operations"][2]["shown_once"]["password"]
    again = post(api, body)
    assert password not in again.text
    assert password not in api("GET", f"/organizations/{api.organization_id}/snapshot").text
    assert password not in api("GET", f"/organizations/{api.organization_id}/changesets/{answer['id']}").text

"""A server killed in the middle of a changeset restarts with all of it or nothing."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from acme import Server

pytestmark = pytest.mark.long

CREATES = 750


def changeset(server: Server, count: int = CREATES) -> dict[str, Any]:
    """A changeset that makes one zone and *count* resources in it."""
    with server.management() as client:
        snapshot = client.get(f"/organizations/{server.organization_id}/snapshot")
    revision = json.loads(snapshot.text.splitlines()[0])["revision"]
    zone = {"op": "create", "kind": "Zone", "local_id": "z", "name": "big", "spec": {"name": "Big"}}
    resources = [
        {
            "op": "create",
            "kind": "Resource",
            "local_id": f"r{number}",
            "zone": {"local_id": "z"},
            "name": f"resource-{number}",
            "spec": {"identifier": f"https://api-{number}.acme.example", "name": f"API {number}"},
            "fields": ["identifier", "name"],
        }
        for number in range(count)
    ]
    return {
        "base_revision": revision,
        "owner": "acme/test",
        "plan_digest": "sha256:" + "0" * 64,
        "source": {},
        "operations": [zone | {"fields": ["name"]}, *resources],
    }


def found(server: Server) -> tuple[int, int, int]:
    """How many zones and resources are owned, and how many changesets are recorded."""
    with server.management() as client:
        snapshot = client.get(f"/organizations/{server.organization_id}/snapshot")
        history = client.get(f"/organizations/{server.organization_id}/changesets")
    entities = [json.loads(line) for line in snapshot.text.splitlines()]
    owned = [each["kind"] for each in entities if each.get("ownership")]
    return owned.count("Zone"), owned.count("Resource"), len(history.json()["items"])


def send_and_kill(server: Server, body: dict[str, Any], at: float) -> bool:
    """Send a changeset and kill the server once that share of it is done. True when the answer came first."""
    headers = {"Idempotency-Key": body["plan_digest"], "Accept": "application/x-ndjson"}
    path = f"/organizations/{server.organization_id}/changesets"
    try:
        with server.management() as client, client.stream("POST", path, json=body, headers=headers) as answer:
            for line in answer.iter_lines():
                event = json.loads(line)
                if event["type"] == "result":
                    return True
                if event["type"] == "progress" and event["done"] >= at * event["total"]:
                    server.kill()
    except httpx.TransportError:
        pass
    return False


@pytest.mark.parametrize("at", [0.01, 0.5, 1.0])
def test_killed_during_a_changeset(at: float, database_url: str, make_server: Callable[..., Server]):
    """Whatever the moment: after a restart the changeset is there whole or not at all; sent again, it is."""
    server = make_server(ZONED_DATABASE_URL=database_url)
    server.start()
    body = changeset(server)

    answered = send_and_kill(server, body, at)
    server.kill()
    server.start()

    after = found(server)
    if at < 1:
        assert not answered, "the server was not killed in the middle"
        assert after == (0, 0, 0)
    assert after in ((0, 0, 0), (1, CREATES, 1))
    assert not answered or after == (1, CREATES, 1), "what was answered is kept"

    with server.management() as client:
        again = client.post(
            f"/organizations/{server.organization_id}/changesets",
            json=body,
            headers={"Idempotency-Key": body["plan_digest"]},
        )
    assert again.status_code == 200, again.text
    assert found(server) == (1, CREATES, 1)

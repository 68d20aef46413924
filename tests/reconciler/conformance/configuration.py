"""One configuration on a server of the management API: the model of it, or `zoned` itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Protocol

import httpx
from tests.reconciler.fake_server import World
from tests.support.server import Server, revision_of

from runtime.domain.kinds import BY_NAME

NDJSON = "application/x-ndjson"
_numbers = count(1)


class Hand(Protocol):
    """Changes objects as somebody does outside of git, and looks at what only the server has."""

    def revision(self) -> int:
        """The organization's revision."""

    def create(self, kind: str, zone_id: str, **spec: Any) -> str:
        """Make an object; gives its id."""

    def update(self, kind: str, zone_id: str, entity_id: str, **members: Any) -> None:
        """Give members of an object other values."""

    def delete(self, kind: str, zone_id: str, entity_id: str) -> None:
        """Delete an object."""

    def bound(self, client: httpx.Client, owner: str) -> httpx.Client:
        """Who sends with a credential that is bound to that owner, from now on."""


@dataclass(frozen=True)
class FakeHand:
    """Changes the model's objects in its memory: it serves no other calls than zonectl's."""

    world: World

    def revision(self) -> int:
        return self.world.revision

    def create(self, kind: str, zone_id: str, **spec: Any) -> str:
        return str(self.world.create_by_hand(kind, zone_id, spec))

    def update(self, kind: str, zone_id: str, entity_id: str, **members: Any) -> None:
        self.world.update_by_hand(entity_id, members)

    def delete(self, kind: str, zone_id: str, entity_id: str) -> None:
        self.world.delete_by_hand(entity_id)

    def bound(self, client: httpx.Client, owner: str) -> httpx.Client:
        self.world.bound(owner)  # it knows one credential
        return client


@dataclass(frozen=True)
class HttpHand:
    """Changes a real server's objects through the management API."""

    client: httpx.Client
    server: Server

    def revision(self) -> int:
        return revision_of(self.server)

    def create(self, kind: str, zone_id: str, **spec: Any) -> str:
        answer = self.client.post(self._path(kind, zone_id), json=spec)
        return str(answer.raise_for_status().json()["id"])

    def update(self, kind: str, zone_id: str, entity_id: str, **members: Any) -> None:
        path = f"{self._path(kind, zone_id)}/{entity_id}"
        self.client.patch(path, json=members).raise_for_status()

    def delete(self, kind: str, zone_id: str, entity_id: str) -> None:
        self.client.delete(f"{self._path(kind, zone_id)}/{entity_id}").raise_for_status()

    def bound(self, client: httpx.Client, owner: str) -> httpx.Client:
        path = f"/organizations/{self.server.organization_id}/api-keys"
        made = client.post(path, json={"name": "team", "role": "org_member", "owner": owner})
        key = made.raise_for_status().json()["api_key"]
        client.headers["Authorization"] = f"Bearer {key}"
        return client

    @staticmethod
    def _path(kind: str, zone_id: str) -> str:
        return f"/zones/{zone_id}/{BY_NAME[kind].collection}"


@dataclass(frozen=True)
class Configuration:
    """What one owner sends, and what the server says; the zone and the owner are this test's own.

    Attributes:
        zone: the name of its zone, which is there once `apply_zone` was called.
    """

    client: httpx.Client
    organization: str
    hand: Hand
    owner: str
    zone: str

    @classmethod
    def new(cls, client: httpx.Client, organization: str, hand: Hand) -> "Configuration":
        """A configuration of an owner that manages nothing yet."""
        name = f"zone-{next(_numbers)}"
        return cls(client, organization, hand, f"acme/{name}", name)

    def as_owner(self, owner: str) -> "Configuration":
        """Another owner's, about the same zone."""
        return replace(self, owner=owner)

    def bound(self) -> "Configuration":
        """The same owner's, sent with a credential that is bound to that owner."""
        return replace(self, client=self.hand.bound(self.client, self.owner))

    # --- snapshots

    def snapshot(self, *, etag: str | None = None, **query: Any) -> httpx.Response:
        """The answer of a snapshot for this owner, or for the given query."""
        headers = {"Accept": NDJSON} | ({"If-None-Match": etag} if etag else {})
        path = f"/organizations/{self.organization}/snapshot"
        return self.client.get(path, headers=headers, params=query or {"owner": self.owner})

    def lines(self, **query: Any) -> list[dict[str, Any]]:
        """The lines of a snapshot."""
        answer = self.snapshot(**query)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.content.splitlines()]

    @property
    def revision(self) -> int:
        """The organization's revision."""
        return self.hand.revision()

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        """The snapshot's line of what has this name in git, else this handle; None where there is none."""
        for line in self.lines():
            names = ((line.get("ownership") or {}).get("name"), line.get("handle"))
            if line["type"] == "entity" and line["kind"] == kind and name in names:
                return line
        return None

    def entity(self, kind: str, name: str) -> dict[str, Any]:
        """The same, of what has to be there."""
        found = self.find(kind, name)
        assert found is not None, (kind, name)
        return found

    def id(self, kind: str, name: str) -> str:
        """The id of what has this name in git."""
        return str(self.entity(kind, name)["id"])

    @property
    def tombstones(self) -> list[dict[str, Any]]:
        """The lines of what is gone and this owner manages."""
        return [each for each in self.lines() if each["type"] == "tombstone" and each["owner"] == self.owner]

    # --- changesets

    def body(self, *operations: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """A changeset of these operations over the present revision."""
        return {
            "base_revision": more.pop("base", None) or self.revision,
            "owner": self.owner,
            "plan_digest": f"sha256:{self.zone}-{next(_numbers)}",
            "source": {"repository": "https://git.example/acme"},
            "operations": [dict(each) for each in operations],
            **more,
        }

    def post(
        self, body: Any, *, dry_run: bool = False, accept: str = "application/json", key: str | None = None
    ) -> httpx.Response:
        """Send the body of a changeset, with its plan digest as the idempotency key unless *key* says."""
        if key is None and not dry_run and isinstance(body, dict):
            key = str(body.get("plan_digest", "none"))
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.post(
            f"/organizations/{self.organization}/changesets",
            content=content,
            params={"dry_run": "true"} if dry_run else None,
            headers={"Accept": accept, "Content-Type": "application/json"}
            | ({"Idempotency-Key": key} if key else {}),
        )

    def send(self, *operations: Mapping[str, Any], dry_run: bool = False, **more: Any) -> httpx.Response:
        """Send a changeset of these operations."""
        return self.post(self.body(*operations, **more), dry_run=dry_run)

    def apply(self, *operations: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Apply what has to be accepted; gives the answer."""
        answer = self.send(*operations, **more)
        assert answer.status_code == 200, answer.text
        applied: dict[str, Any] = answer.json()
        return applied

    def dry_run(self, *operations: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Try out what has to be accepted; gives the answer."""
        answer = self.send(*operations, dry_run=True, **more)
        assert answer.status_code == 200, answer.text
        tried: dict[str, Any] = answer.json()
        return tried


@dataclass(frozen=True)
class Refused:
    """How something is refused: status, `code`, and the `field` of the first detail."""

    status: int
    code: str
    field: str = ""

    @classmethod
    def read(cls, answer: httpx.Response) -> "Refused":
        """What an error answer says."""
        body = answer.json()
        details = body.get("details") or [{}]
        return cls(answer.status_code, body["code"], details[0].get("field") or "")

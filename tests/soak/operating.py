"""The operator of a soak: policies are changed back and forth, and keys are rotated."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import jwt
from acme import Server
from benchmarks.exchange import TOOLS
from tests.soak.people import CALM, CONTESTED, WITHIN_SECONDS, Desk, Withdrawn
from tests.soak.record import Record

ZONE = "acme-product"
_FORBID = f"""\
forbid (principal, action == Action::"exchange", resource == Resource::"{TOOLS}")
when {{ context.scopes.contains("{CONTESTED}") }};
"""


class Policies:
    """Changes what is allowed, and sees at a desk of its own that it counts."""

    def __init__(self, server: Server, desk: Desk) -> None:
        self._desk = desk
        self._management = server.management()
        self._zone = f"/zones/{server.zone(ZONE)['id']}"
        self._usual, self._strict = self._versions()
        desk.sign_in()

    def close(self) -> None:
        """Leave."""
        self._management.close()
        self._desk.close()

    def change(self) -> None:
        """Forbid one scope, and allow it again, for a token that was got when it was allowed."""
        self._desk.refresh()
        try:
            for version, is_allowed in ((self._strict, False), (self._usual, True)):
                self._ok("PATCH", version, {"active": True})
                wait(self._desk.record, "policy", WITHIN_SECONDS, lambda so=is_allowed: self._allows() is so)
                self._desk.record.done("policy changes")
        finally:  # its key may be withdrawn in between
            self._ok("PATCH", self._usual, {"active": True})

    def _allows(self) -> bool:
        return CONTESTED in self._desk.exchange(f"{CALM} {CONTESTED}", "exchanges, cold")

    def _versions(self) -> tuple[str, str]:
        """Paths of two versions of the zone's policy set: as it is, and with one more policy."""
        (found,) = self._ok("GET", f"{self._zone}/policy-sets?filter[active]=true")["items"]
        versions = f"{self._zone}/policy-sets/{found['id']}/versions"
        usual = self._ok("GET", f"{versions}/{found['active_version_id']}")
        policy = self._ok("POST", f"{self._zone}/policies", {"name": "soak"})
        written = {"schema_version": usual["schema_version"], "cedar_raw": _FORBID}
        added = self._ok("POST", f"{self._zone}/policies/{policy['id']}/versions", written)
        entries = [
            {name: entry[name] for name in ("policy_id", "policy_version_id")}
            for entry in usual["manifest"]["entries"]
        ]
        entries.append({"policy_id": policy["id"], "policy_version_id": added["id"]})
        body = {"schema_version": usual["schema_version"], "manifest": {"entries": entries}}
        return f"{versions}/{usual['id']}", f"{versions}/{self._ok('POST', versions, body)['id']}"

    def _ok(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer: httpx.Response = self._management.request(method, path, json=body)
        answer.raise_for_status()
        told: dict[str, Any] = answer.json()
        return told


class Keys:
    """Rotates them, and sees at a desk of its own that it counts.

    Args:
        notices_seconds: how soon the server knows what a `zoned` command has changed.
    """

    def __init__(self, server: Server, desk: Desk, *, notices_seconds: float) -> None:
        self._server, self._desk, self._record = server, desk, desk.record
        self._notices_seconds = notices_seconds
        desk.sign_in()

    def close(self) -> None:
        """Leave."""
        self._desk.close()

    def rotate(self) -> None:
        """Publish the next key. What the present one has signed stays good."""
        kid = self._server.run("keys", "rotate", "--zone", ZONE).strip()
        wait(self._record, "rotation", self._notices_seconds, lambda: kid in self._desk.published())
        self._record.done("rotations")

    def withdraw(self) -> None:
        """Replace the signing key at once: its tokens are refused, and refreshing gives a good one."""
        old = jwt.get_unverified_header(self._desk.access)["kid"]
        self._record.withdrawn.add(old)
        self._server.run("keys", "rotate", "--zone", ZONE, "--at-once")
        wait(self._record, "rotation", self._notices_seconds, self._is_withdrawn)
        self._desk.refresh()
        if jwt.get_unverified_header(self._desk.access)["kid"] == old:
            self._record.broke("rotation", "the withdrawn key still signs")
        self._desk.exchange(CALM)
        self._record.done("rotations at once")

    def _is_withdrawn(self) -> bool:
        try:
            self._desk.introspect()
        except Withdrawn:
            return True
        return False


def wait(record: Record, promise: str, seconds: float, is_so: Callable[[], bool]) -> None:
    """Look until something is so; it breaks a promise when that takes longer than it may."""
    began = time.monotonic()
    while not is_so():
        if time.monotonic() > began + seconds:
            record.broke(promise, f"not within {seconds:.0f} s")
            return
        time.sleep(0.02)
    record.took(promise, time.monotonic() - began)

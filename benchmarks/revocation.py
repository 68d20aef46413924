"""The time from a revocation at one node until another one refuses, while both exchange tokens under load."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import jwt
from acme import ACCESS_TOKEN, TOKEN_EXCHANGE, Application, Server

from benchmarks import servers
from benchmarks.exchange import TOOLS, Stage, empty_rate, prepare, put
from benchmarks.load import Load, Outcome
from benchmarks.table import Row

_PEOPLE = 25  # for sessions and grants, as many for users; two more for the load and to be accountable
_LOAD_SECONDS = 30.0
_CONNECTIONS = 8  # to each node
_SETTING = "require-active-accountable"


@dataclass
class OtherNode(Server):
    """A second node of a service whose addresses are those of the first."""

    public_url: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """As of any server, with the first node's address."""
        return {**super().environment, "ZONED_PUBLIC_URL": self.public_url}


@dataclass(frozen=True)
class Revocation:
    """One thing to revoke, and the question that is refused from then on.

    Attributes:
        undo: makes the same thing work again, where it can be revoked another time.
    """

    revoke: Callable[[], None]
    ask: Callable[[], bool]
    undo: Callable[[], None] = lambda: None


@dataclass
class Measured:
    """Seconds from each revocation's answer to the first refusal, and what was granted in between."""

    took: list[float]
    granted: int = 0

    def note(self) -> str:
        """The percentiles, as the table shows them."""
        took = sorted(self.took)
        p50, p99 = (1000 * took[min(len(took) - 1, len(took) * share // 100)] for share in (50, 99))
        return f"{len(took)}: p50 {p50:.0f} ms, p99 {p99:.0f} ms, {self.granted} granted after"


def measure(directory: Path) -> Iterator[Row]:
    """A row for each sort of revocation, with the rate of exchanges at both nodes meanwhile."""
    with (
        servers.postgresql(directory / "revocation-pg") as database,
        servers.redis(directory / "revocation-redis") as state,
        contextlib.ExitStack() as cleanup,
    ):
        settings = {"ZONED_DATABASE_URL": database, "ZONED_REDIS_URL": state}
        first = Server(directory / "revocation", settings)
        first.init()
        first.start()
        cleanup.callback(first.stop)
        stage = prepare(first, directory / "revocation-config", people=2 * _PEOPLE + 2)
        nodes = Nodes(first, OtherNode(first.directory, settings, public_url=first.url), stage)
        nodes.second.start()
        cleanup.callback(nodes.second.stop)
        cleanup.callback(nodes.close)
        empty = empty_rate(nodes.body)
        for what, revocations in nodes.revocations().items():
            measured, rate = nodes.under_load(revocations)
            yield Row(f"exchange, {what}", rate, empty, measured.note())


class Nodes:
    """Two nodes, and people of whom each has a token that the agent exchanges."""

    def __init__(self, first: Server, second: Server, stage: Stage) -> None:
        self.first, self.second, self.stage = first, second, stage
        self.body = self._form(stage.subject)
        self._management = first.management()
        self._http = httpx.Client(trust_env=False, timeout=30)
        self._zone = first.zone("acme-product")["id"]

    def close(self) -> None:
        """Close the connections to both nodes."""
        self._management.close()
        self._http.close()

    def revocations(self) -> dict[str, Sequence[Revocation]]:
        """What is revoked, by its name in the table."""
        of_sessions, of_users = self.stage.subjects[1 : _PEOPLE + 1], self.stage.subjects[_PEOPLE + 1 : -1]
        return {
            "session revoked": [self._session(token) for token in of_sessions],
            "user disabled": [self._user(token) for token in of_users],
            "accountable user disabled": [self._accountable()] * _PEOPLE,
        }

    def under_load(self, revocations: Sequence[Revocation]) -> tuple[Measured, float]:
        """Revoke one after the other for as long as both nodes have something to do; the load's rate, too."""
        measured = Measured([])
        with ThreadPoolExecutor(2) as pool:
            loads = [
                pool.submit(
                    put,
                    Load(
                        self._at(node, "token"),
                        self.body,
                        connections=_CONNECTIONS,
                        seconds=_LOAD_SECONDS,
                    ),
                )
                for node in (self.first, self.second)
            ]
            time.sleep(2.0)
            for each in revocations:
                self._take(each, measured, loads)
            return measured, sum(load.result().rate for load in loads)

    def _take(self, revocation: Revocation, measured: Measured, loads: Sequence[Future[Outcome]]) -> None:
        if not (revocation.ask() and revocation.ask()):
            raise RuntimeError("what is going to be revoked does not work")
        revocation.revoke()
        answered_at = time.perf_counter()
        while revocation.ask():
            measured.granted += 1
        took = time.perf_counter() - answered_at
        revocation.undo()
        if not any(load.done() for load in loads):  # else it was not under load
            measured.took.append(took)

    def _session(self, token: str) -> Revocation:
        path = f"/zones/{self._zone}/sessions/{_claims(token)['sid']}"
        return Revocation(lambda: self._patch(path, status="revoked"), lambda: self._exchanges(token))

    def _user(self, token: str) -> Revocation:
        path = self._path_of_user(token)
        return Revocation(lambda: self._patch(path, status="disabled"), lambda: self._exchanges(token))

    def _accountable(self) -> Revocation:
        """The user who is accountable for the tool server, which introspects the load's token."""
        path, server = self._path_of_user(self.stage.subjects[-1]), self.stage.tool_server
        items = self._management.get(f"/zones/{self._zone}/applications", params={"limit": 100})
        (application,) = [each for each in items.json()["items"] if each["name"] == "Calendar tools"]
        self._patch(
            f"/zones/{self._zone}/applications/{application['id']}",
            accountable_user_id=path.rpartition("/")[2],
        )
        self.first.run("zone", "set", "--zone", "acme-product", _SETTING, "on")

        def is_client() -> bool:
            form = urlencode({"token": self.stage.subject, **_credentials(server)})
            return self._post("introspect", form).status_code == 200

        def undo() -> None:
            self._patch(path, status="active")
            while not is_client():
                pass

        return Revocation(lambda: self._patch(path, status="disabled"), is_client, undo)

    def _path_of_user(self, token: str) -> str:
        found = self._management.get(
            f"/zones/{self._zone}/users", params={"filter[identifier]": _claims(token)["sub"]}
        )
        (user,) = found.raise_for_status().json()["items"]
        return f"/zones/{self._zone}/users/{user['id']}"

    def _patch(self, path: str, **members: str) -> None:
        self._management.patch(path, json=members).raise_for_status()

    def _exchanges(self, token: str) -> bool:
        return self._post("token", self._form(token)).status_code == 200

    def _post(self, endpoint: str, form: str) -> httpx.Response:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._http.post(self._at(self.second, endpoint), content=form, headers=headers)

    def _form(self, token: str) -> str:
        return urlencode(
            {
                "grant_type": TOKEN_EXCHANGE,
                "subject_token": token,
                "subject_token_type": ACCESS_TOKEN,
                "resource": TOOLS,
                **_credentials(self.stage.agent),
            }
        )

    def _at(self, node: Server, endpoint: str) -> str:
        return f"{self.stage.agent.issuer}/oauth/{endpoint}".replace(self.first.url, node.url)


def _credentials(application: Application) -> dict[str, str]:
    return {"client_id": application.client_id, "client_secret": application.secret or ""}


def _claims(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return claims

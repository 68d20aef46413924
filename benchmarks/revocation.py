"""The time from a revocation at one node until another one refuses, while both exchange tokens under load.

What is asked of the other node is an exchange of the revoked token, a further link of the chain that began
with it, and introspection of what it was exchanged for: the time is over when all of them refuse.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import jwt
from acme import ACCESS_TOKEN, TOKEN_EXCHANGE, Application, Browser, Page, Server, written_secret

from benchmarks import servers
from benchmarks.exchange import TOOLS, Stage, empty_rate, prepare, put, sign_in
from benchmarks.load import Load, Outcome
from benchmarks.table import Row

BOUND_SECONDS = 1.0  # of p99, over everything that was revoked
_EACH = 18  # revocations of each sort, by as many people; two more for the load and to be accountable
_LOAD_SECONDS = 30.0
_CONNECTIONS = 8  # to each node
_LONGEST_SECONDS = 10.0  # that a revocation may be without effect before this gives up
_SETTING = "require-active-accountable"
_CALENDAR = "https://calendar.acme.example/api"
_APPLICATION = """
---
apiVersion: zonewright/v1
kind: Application
metadata: {{zone: product, name: {name}}}
spec:
  name: {name}
  consent: implicit
  protocols: {{oauth2: {{redirect_uris: [http://localhost:8600/callback]}}}}
  dependencies: [calendar-tools]
---
apiVersion: zonewright/v1
kind: ApplicationCredential
metadata: {{zone: product, name: {name}}}
spec: {{application: {name}, type: password}}
"""


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
    """One thing to revoke, and the questions that are refused from then on.

    Attributes:
        asked: each tells whether it was granted.
        undo: makes the same thing work again, where it can be revoked another time.
    """

    revoke: Callable[[], None]
    asked: Mapping[str, Callable[[], bool]]
    undo: Callable[[], None] = lambda: None

    def granted(self) -> list[str]:
        """What is granted now, all of it asked at once."""
        with ThreadPoolExecutor(len(self.asked)) as pool:
            answers = pool.map(lambda ask: ask(), self.asked.values())
            return [name for name, is_granted in zip(self.asked, answers, strict=True) if is_granted]


@dataclass
class Measured:
    """Seconds from each revocation's answer to the first refusal of all, and what was granted in between."""

    took: list[float] = field(default_factory=list)
    granted: int = 0

    def percentile(self, share: int) -> float:
        """Below which so many of a hundred are."""
        return sorted(self.took)[min(len(self.took) - 1, len(self.took) * share // 100)]

    def note(self) -> str:
        """The percentiles, as the table shows them."""
        p50, p99 = (1000 * self.percentile(share) for share in (50, 99))
        return f"{len(self.took)}: p50 {p50:.0f} ms, p99 {p99:.0f} ms, {self.granted} granted after"


def measure(directory: Path) -> Iterator[Row]:
    """A row for each sort of revocation, with the rate of exchanges meanwhile, and one for all of them.

    Raises RuntimeError when their p99 is above the bound.
    """
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
        config = directory / "revocation-config"
        stage = prepare(first, config, people=_EACH + 2)
        nodes = Nodes(first, OtherNode(first.directory, settings, public_url=first.url), stage, config)
        nodes.second.start()
        cleanup.callback(nodes.second.stop)
        cleanup.callback(nodes.close)
        empty, everything, rates = empty_rate(nodes.body), Measured(), []
        for what, prepared in nodes.sorts().items():
            measured, rate = nodes.under_load(prepared())
            yield Row(f"exchange, {what}", rate, empty, measured.note())
            everything.took += measured.took
            everything.granted += measured.granted
            rates.append(rate)
        measured, rate = nodes.restarted()
        yield Row("exchange, session revoked before a restart", rate, empty, measured.note())
        yield Row("exchange, whatever is revoked", sum(rates) / len(rates), empty, everything.note())
        if measured.granted:
            raise RuntimeError("a node that was restarted has granted what was revoked before")
        if everything.percentile(99) > BOUND_SECONDS:
            raise RuntimeError(
                f"p99 of revocations is {everything.percentile(99):.1f} s, more than {BOUND_SECONDS:.0f} s"
            )


class Nodes:
    """Two nodes, and people of whom each has a token that the agent exchanges."""

    def __init__(self, first: Server, second: Server, stage: Stage, config: Path) -> None:
        self.first, self.second, self.stage, self.config = first, second, stage, config
        self.body = urlencode(self._form(stage.subject))
        self._management = first.management()
        self._http = httpx.Client(trust_env=False, timeout=30)
        self._zone = f"/zones/{first.zone('acme-product')['id']}"

    def close(self) -> None:
        """Close the connections to both nodes."""
        self._management.close()
        self._http.close()

    def sorts(self) -> dict[str, Callable[[], Sequence[Revocation]]]:
        """What is revoked, by its name in the table; made when its turn has come."""
        return {
            "session revoked": lambda: [self._session(token) for token in self.stage.subjects[1:-1]],
            "grant revoked": lambda: [self._grant(token) for token in self._tokens()],
            "consent withdrawn": lambda: [self._consent(address) for address in self._addresses],
            "application deleted": self._applications,
            "accountable user disabled": lambda: [self._accountable()] * _EACH,
            "user disabled": lambda: [self._user(token) for token in self._tokens()],
        }

    def under_load(self, revocations: Sequence[Revocation]) -> tuple[Measured, float]:
        """Revoke one after the other for as long as both nodes have something to do; the load's rate, too."""
        measured = Measured()
        with self._loaded(self.first, self.second) as loads:
            for each in revocations:
                self._take(each, measured, loads)
        return measured, sum(load.result().rate for load in loads)

    def restarted(self) -> tuple[Measured, float]:
        """Revoke sessions while the second node is away; seconds from when it is back until all refuse."""
        for path in {self._path_of_user(token) for token in self.stage.subjects[1:-1]}:
            self._patch(path, status="active")
        revocations, measured = [self._session(token) for token in self._tokens()], Measured()
        for each in revocations:
            _require_granted(each)
        self.second.kill()
        with self._loaded(self.first) as loads:
            for each in revocations:
                each.revoke()
            self.second.start()
            for each in revocations:
                took, granted = self._until_refused(each)
                measured.took.append(took)
                measured.granted += granted
        return measured, sum(load.result().rate for load in loads)

    @contextlib.contextmanager
    def _loaded(self, *nodes: Server) -> Iterator[Sequence[Future[Outcome]]]:
        """Exchanges at these nodes, without a pause."""
        with ThreadPoolExecutor(len(nodes)) as pool:
            loads = [
                Load(self._at(node, "token"), self.body, connections=_CONNECTIONS, seconds=_LOAD_SECONDS)
                for node in nodes
            ]
            done = [pool.submit(put, load) for load in loads]
            time.sleep(2.0)
            yield done

    def _take(self, revocation: Revocation, measured: Measured, loads: Sequence[Future[Outcome]]) -> None:
        if any(load.done() for load in loads):
            return
        _require_granted(revocation)
        revocation.revoke()
        took, granted = self._until_refused(revocation)
        revocation.undo()
        if not any(load.done() for load in loads):  # else it was not under load
            measured.took.append(took)
            measured.granted += granted

    @staticmethod
    def _until_refused(revocation: Revocation) -> tuple[float, int]:
        """Seconds until everything is refused, and how much was granted meanwhile."""
        began, count = time.perf_counter(), 0
        while granted := revocation.granted():
            count += len(granted)
            if time.perf_counter() - began > _LONGEST_SECONDS:
                raise RuntimeError(f"still granted after {_LONGEST_SECONDS:.0f} s: {', '.join(granted)}")
        return time.perf_counter() - began, count

    @property
    def _addresses(self) -> list[str]:
        """Of everybody but who stands for the load, and who is accountable."""
        return self.stage.addresses[1:-1]

    def _tokens(self) -> list[str]:
        """New tokens of everybody, from sign-ins in which they allow what they have taken back."""
        return [self._signed_in(address)[0] for address in self._addresses]

    def _signed_in(self, address: str, application: Application | None = None) -> tuple[str, Browser]:
        browser = Browser()
        return sign_in(application or self.stage.agent, browser, address, self.stage.password), browser

    def _session(self, token: str) -> Revocation:
        path = f"{self._zone}/sessions/{_claims(token)['sid']}"
        return Revocation(lambda: self._patch(path, status="revoked"), self._of_chain(token))

    def _user(self, token: str) -> Revocation:
        path = self._path_of_user(token)
        return Revocation(lambda: self._patch(path, status="disabled"), self._of_chain(token))

    def _grant(self, token: str) -> Revocation:
        """The user's authorization of the tool server, whoever asks for it."""
        user_id = self._path_of_user(token).rpartition("/")[2]
        grants = self._items("delegated-grants", user_id=user_id, status="active")
        paths = [f"{self._zone}/delegated-grants/{each['id']}" for each in grants]

        def revoke() -> None:
            for path in paths:
                self._patch(path, status="revoked")

        return Revocation(revoke, self._of_chain(token))

    def _consent(self, address: str) -> Revocation:
        """What somebody lets the agent do, taken back on their account page."""
        token, browser = self._signed_in(address)
        account, (agent,) = f"{self.stage.agent.issuer}/account", self._named("Calendar agent")
        page = browser.open(account, until="nowhere")
        if not isinstance(page, Page):
            raise RuntimeError(f"the account page redirects to {page}")

        def revoke() -> None:
            browser.submit(page, {}, button=agent["id"], until=f"{account}?done")

        return Revocation(revoke, self._of_chain(token))

    def _applications(self) -> list[Revocation]:
        """Applications of their own for this, each with somebody's token."""
        names = [f"ending-{number}" for number in range(_EACH)]
        (self.config / "product" / "ending.yaml").write_text(
            "".join(_APPLICATION.format(name=name) for name in names), "utf-8"
        )
        written = self.config.parent / "ending-secrets"
        self.first.zonectl("apply", str(self.config), "--yes", "--secrets-dir", str(written))
        issuer = self.stage.agent.issuer
        applications = [Application(issuer, name, written_secret(written, "product", name)) for name in names]
        return [
            self._application(application, address)
            for application, address in zip(applications, self._addresses, strict=True)
        ]

    def _application(self, application: Application, address: str) -> Revocation:
        token, _ = self._signed_in(address, application)
        (found,) = self._named(application.client_id)
        path = f"{self._zone}/applications/{found['id']}"
        return Revocation(lambda: self._delete(path), self._of_chain(token, application))

    def _accountable(self) -> Revocation:
        """The user who is accountable for the tool server, which introspects and exchanges a token."""
        path = self._path_of_user(self.stage.subjects[-1])
        (application,) = self._named("Calendar tools")
        self._patch(
            f"{self._zone}/applications/{application['id']}",
            accountable_user_id=path.rpartition("/")[2],
        )
        self.first.run("zone", "set", "--zone", "acme-product", _SETTING, "on")
        asked = self._of_chain(self.stage.subject)
        del asked["exchange"]  # which is the agent's

        def undo() -> None:
            self._patch(path, status="active")
            deadline = time.perf_counter() + _LONGEST_SECONDS
            while len(revocation.granted()) < len(asked) and time.perf_counter() < deadline:
                pass

        revocation = Revocation(lambda: self._patch(path, status="disabled"), asked, undo)
        return revocation

    def _of_chain(self, token: str, application: Application | None = None) -> dict[str, Callable[[], bool]]:
        """What the second node is asked about a token, and about what it was exchanged for at the first."""
        agent, tools = application or self.stage.agent, self.stage.tool_server
        first = self._post(self.first, "token", self._form(token, agent)).raise_for_status()
        exchanged = first.json()["access_token"]

        def grants(form: dict[str, str]) -> bool:
            return self._post(self.second, "token", form).status_code == 200

        def is_active() -> bool:
            answer = self._post(self.second, "introspect", {"token": exchanged, **_credentials(tools)})
            return answer.status_code == 200 and bool(answer.json()["active"])

        return {
            "exchange": lambda: grants(self._form(token, agent)),
            "a further link": lambda: grants(self._form(exchanged, tools, _CALENDAR)),
            "introspection": is_active,
        }

    def _path_of_user(self, token: str) -> str:
        (user,) = self._items("users", **{"filter[identifier]": _claims(token)["sub"]})
        return f"{self._zone}/users/{user['id']}"

    def _named(self, name: str) -> list[dict[str, Any]]:
        return [each for each in self._items("applications") if each["name"] == name]

    def _items(self, collection: str, **query: str) -> list[dict[str, Any]]:
        found = self._management.get(f"{self._zone}/{collection}", params={"limit": 100, **query})
        items: list[dict[str, Any]] = found.raise_for_status().json()["items"]
        return items

    def _patch(self, path: str, **members: str) -> None:
        self._management.patch(path, json=members).raise_for_status()

    def _delete(self, path: str) -> None:
        self._management.delete(path).raise_for_status()

    def _post(self, node: Server, endpoint: str, form: dict[str, str]) -> httpx.Response:
        return self._http.post(self._at(node, endpoint), data=form)

    def _form(
        self, token: str, application: Application | None = None, resource: str = TOOLS
    ) -> dict[str, str]:
        return {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": token,
            "subject_token_type": ACCESS_TOKEN,
            "resource": resource,
            **_credentials(application or self.stage.agent),
        }

    def _at(self, node: Server, endpoint: str) -> str:
        return f"{self.stage.agent.issuer}/oauth/{endpoint}".replace(self.first.url, node.url)


def _require_granted(revocation: Revocation) -> None:
    """See that it works before, twice: what is cached counts. Raises RuntimeError."""
    for _ in range(2):
        if missing := revocation.asked.keys() - set(revocation.granted()):
            raise RuntimeError(f"what is going to be revoked does not work: {', '.join(sorted(missing))}")


def _credentials(application: Application) -> dict[str, str]:
    return {"client_id": application.client_id, "client_secret": application.secret or ""}


def _claims(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return claims

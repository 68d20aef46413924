"""The load of a scenario: requests at a constant rate, whether earlier ones were answered or not.

Everything goes through the balancer, but what asks whether nodes agree: those ask each node for itself.
"""

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from benchmarks.exchange import CALLBACK, SCOPES, TOOLS, Stage, exchange_form
from tests.chaos.ledger import Answer, Ledger
from tests.support.possession import Holder

from runtime.domain.oauth.pkce import challenge_of

TIMEOUT_SECONDS = 20.0
EXCHANGE = "exchange"
# Requests a second of each kind.
RATES = {EXCHANGE: 15.0, "cold": 4.0, "create": 4.0, "revoke": 2.0, "proof": 2.0, "code": 1.0, "check": 6.0}
# What a client sends whose next request waits for the answer.
_IN_TURN = (EXCHANGE, "cold", EXCHANGE, "revoke", EXCHANGE, "cold", "create")
_VERIFIER = "verifier-" * 6


@dataclass
class Site:
    """Where the load goes.

    Attributes:
        url: of the balancer.
        nodes: the base address of each node.
        management: the path of the zone's groups, and the headers of an administrator.
    """

    url: str
    nodes: tuple[str, ...]
    stage: Stage
    groups: str
    headers: dict[str, str]


class Load:
    """Sends until stopped, and writes everything down."""

    def __init__(self, site: Site, ledger: Ledger, *, seed: int = 1) -> None:
        self._site, self._ledger = site, ledger
        self._chance = random.Random(seed)
        self._numbers = itertools.count(1)
        self._client: httpx.AsyncClient
        self._holder = Holder()
        self._used_proofs: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._kinds: dict[str, Callable[[float], Awaitable[None]]] = {
            EXCHANGE: self._exchange,
            "cold": self._cold,
            "create": self._create,
            "revoke": self._revoke,
            "proof": self._proof,
            "code": self._code,
            "check": self._check,
        }

    async def run(self, until: asyncio.Event, *, clients: int | None = None) -> None:
        """Send until that is set; returns when the last answer is there.

        Args:
            clients: so many send through the balancer alone, each the next after an answer; without,
                requests are sent at constant rates.
        """
        # A connection for each request, as from many clients: what one is kept on does not matter here.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False, limits=limits) as self._client:
            if clients is None:
                await asyncio.gather(*(self._pace(kind, rate, until) for kind, rate in RATES.items()))
            else:
                await asyncio.gather(*(self._send_in_turn(number, until) for number in range(clients)))
            await asyncio.gather(*self._tasks)

    async def _send_in_turn(self, first: int, until: asyncio.Event) -> None:
        for kind in itertools.islice(itertools.cycle(_IN_TURN), first, None):
            if until.is_set():
                return
            await self._attempt(kind, time.monotonic())

    async def _pace(self, kind: str, rate: float, until: asyncio.Event) -> None:
        began_at = time.monotonic()
        for number in itertools.count():
            due_at = began_at + number / rate
            try:
                async with asyncio.timeout(max(0.0, due_at - time.monotonic())):
                    await until.wait()
            except TimeoutError:
                pass
            if until.is_set():
                return
            task = asyncio.create_task(self._attempt(kind, due_at))  # type: ignore[arg-type]
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _attempt(self, kind: str, due_at: float) -> None:
        try:
            await self._kinds[kind](due_at)
        except httpx.HTTPError as failure:
            self._note(kind, due_at, 0, type(failure).__name__)

    def _note(self, kind: str, due_at: float, status: int, told: str = "") -> None:
        self._ledger.answers.append(Answer(kind, due_at, time.monotonic(), status, told[:90]))

    async def _ask(
        self, kind: str, due_at: float, path: str, form: dict[str, str], **options: Any
    ) -> httpx.Response:
        issuer = options.pop("issuer", self._site.stage.agent.issuer)
        answer = await self._client.post(f"{issuer}/oauth/{path}", data=form, **options)
        told = "" if answer.status_code == 200 else answer.text
        self._note(kind, due_at, answer.status_code, told)
        if kind in (EXCHANGE, "cold") and answer.status_code == 200:
            self._ledger.issued.add(answer.json()["access_token"])
        return answer

    async def _exchange(self, due_at: float) -> None:
        await self._ask(EXCHANGE, due_at, "token", exchange_form(self._site.stage))

    async def _cold(self, due_at: float) -> None:
        await self._ask("cold", due_at, "token", self._unusual())

    def _unusual(self) -> dict[str, str]:
        """The exchange for scopes that hardly anybody has asked for before."""
        chosen = " ".join(sorted(self._chance.sample(SCOPES, 6)))
        return exchange_form(self._site.stage) | {"scope": chosen}

    async def _create(self, due_at: float) -> None:
        name = f"chaos-{next(self._numbers)}"
        answer = await self._client.post(
            f"{self._site.url}{self._site.groups}",
            json={"identifier": name, "name": name},
            headers=self._site.headers,
        )
        self._note("create", due_at, answer.status_code, answer.text if answer.is_error else "")
        if answer.status_code in (200, 201):
            self._ledger.created[name] = answer.json()["id"]

    async def _revoke(self, due_at: float) -> None:
        """Get a token, end it, and remember when that was acknowledged."""
        got = await self._ask("revoke", due_at, "token", self._unusual())
        if got.status_code != 200:
            return
        token = got.json()["access_token"]
        proof = {name: exchange_form(self._site.stage)[name] for name in ("client_id", "client_secret")}
        ended = await self._ask("revoke", time.monotonic(), "revoke", {"token": token, **proof})
        if ended.status_code == 200:
            self._ledger.revoked[token] = time.monotonic()

    async def _check(self, due_at: float) -> None:
        """Ask one node whether a token that was ended is good; twice what was ended last."""
        ended = list(self._ledger.revoked)
        if not ended:
            return
        token = self._chance.choice(ended[-6:] if self._chance.random() < 0.6 else ended)
        tools, node = self._site.stage.tool_server, self._chance.choice(self._site.nodes)
        form = {"token": token, "client_id": tools.client_id, "client_secret": tools.secret or ""}
        asked_at = time.monotonic()
        try:
            answer = await self._client.post(f"{self._at(node)}/oauth/introspect", data=form)
        except httpx.HTTPError:
            return  # a node that is down is no news: the balancer's are counted
        is_allowed = answer.status_code == 200 and answer.json().get("active")
        if is_allowed and self._ledger.is_past_grace(token, asked_at):
            late = asked_at - self._ledger.revoked[token]
            self._ledger.wrong.append(f"a token is active {late:.1f} s after its end, at {node}")

    async def _proof(self, due_at: float) -> None:
        """Use one proof at all nodes at once, and one that was used before at one of them."""
        uri = f"{self._site.stage.agent.issuer}/oauth/token"
        proof = self._holder.proof(uri)
        await self._use_at_all(proof, due_at)
        if self._used_proofs:
            again = self._chance.choice(self._used_proofs[-40:])
            await self._use(again, self._chance.choice(self._site.nodes), time.monotonic())

    async def _use_at_all(self, proof: str, due_at: float) -> None:
        await asyncio.gather(*(self._use(proof, node, due_at) for node in self._site.nodes))
        if self._ledger.accepted[f"proof {proof[-20:]}"]:
            self._used_proofs.append(proof)

    async def _use(self, proof: str, node: str, due_at: float) -> None:
        try:
            answer = await self._client.post(
                f"{self._at(node)}/oauth/token",
                data=exchange_form(self._site.stage),
                headers={"DPoP": proof},
            )
        except httpx.HTTPError:
            return
        self._note("proof", due_at, answer.status_code, answer.text if answer.is_error else "")
        self._ledger.accepted[f"proof {proof[-20:]}"] += answer.status_code == 200

    async def _code(self, due_at: float) -> None:
        """Get a code with the cookie of somebody who is signed in, and redeem it at all nodes at once."""
        stage = self._site.stage
        asked = {
            "response_type": "code",
            "client_id": stage.agent.client_id,
            "redirect_uri": CALLBACK,
            "scope": "openid",
            "code_challenge": challenge_of(_VERIFIER),
            "code_challenge_method": "S256",
            "resource": TOOLS,
        }
        address, cookies = f"{stage.agent.issuer}/oauth/authorize", {"Cookie": stage.cookies[0]}
        answer = await self._client.get(address, params=asked, headers=cookies)
        self._note("code", due_at, answer.status_code, answer.reason_phrase)
        back = parse_qs(urlsplit(answer.headers.get("location", "")).query)
        if "code" not in back:
            return
        (code,) = back["code"]
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": _VERIFIER,
            "client_id": stage.agent.client_id,
            "client_secret": stage.agent.secret or "",
        }
        await asyncio.gather(*(self._redeem(code, form, node) for node in self._site.nodes))

    async def _redeem(self, code: str, form: dict[str, str], node: str) -> None:
        try:
            answer = await self._client.post(f"{self._at(node)}/oauth/token", data=form)
        except httpx.HTTPError:
            return
        self._ledger.accepted[f"code {code[:8]}"] += answer.status_code == 200

    def _at(self, node: str) -> str:
        return self._site.stage.agent.issuer.replace(self._site.url, node)


def begin(site: Site, ledger: Ledger, *, clients: int | None = None) -> Callable[[], None]:
    """Begin a load in a thread; the function that ends it, and returns when the last answer is there.

    Args:
        clients: as `Load.run` takes it.
    """
    loop, over = asyncio.new_event_loop(), asyncio.Event()
    load = Load(site, ledger).run(over, clients=clients)
    thread = threading.Thread(target=loop.run_until_complete, args=(load,))
    thread.start()

    def stop() -> None:
        loop.call_soon_threadsafe(over.set)
        thread.join()

    return stop


def look_for_created(site: Site, ledger: Ledger) -> None:
    """Write down what the database has of all that was acknowledged."""
    with httpx.Client(base_url=site.nodes[0], headers=site.headers, timeout=30, trust_env=False) as client:
        for name in ledger.created:
            answer = client.get(site.groups, params={"filter[identifier]": name}).raise_for_status()
            ledger.found[name] = [each["id"] for each in answer.json()["items"]]

"""People who sign in, let an agent work for them, and take it back again: round after round."""

import random
import re
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from typing import Any

import httpx
import jwt
from acme import ACCESS_TOKEN, TOKEN_EXCHANGE, Application, Browser, Page, Unexpected
from benchmarks.exchange import CALLBACK, SCOPES, TOOLS, Stage
from tests.soak.record import Record
from tests.soak.wire import Answer, Wire

WITHIN_SECONDS = 1.0
# One scope is left to whoever changes policies; nobody else asks for it.
CONTESTED, CALM = SCOPES[-1], SCOPES[0]
_TIMEOUT_SECONDS = 5.0
_SERVER_ERROR = re.compile(r"(?:^|: )5\d\d\b")  # a status, as `Unexpected` tells it
_CHOSEN = 5
_TURNS = 6  # in a round
_ROUNDS_A_BROWSER = 4  # then with a new one, and so with the password


class Withdrawn(Exception):
    """A token was refused, as it should be: its key is withdrawn."""


@dataclass(frozen=True)
class Account:
    """Somebody who can sign in."""

    email: str
    password: str


class Desk:
    """One person at a browser, with the agent and the tool server that work for them.

    Two connections: one for what is done, one for what is seen of it. The server may have a worker for each.
    """

    def __init__(self, stage: Stage, account: Account, record: Record) -> None:
        self.stage, self.account, self.record = stage, account, record
        self.browser = Browser()
        self.access = self.refresh_token = ""
        self._doing, self._seeing = Wire(stage.agent.issuer), Wire(stage.agent.issuer)

    def close(self) -> None:
        """Leave."""
        self.browser.close()
        self._doing.close()
        self._seeing.close()

    def other_browser(self) -> None:
        """Go on with a browser that knows nothing."""
        self.browser.close()
        self.browser = Browser()

    def sign_in(self) -> None:
        """Get tokens for the agent: asked for the password in a new browser, and once for consent."""
        tokens = self.stage.agent.sign_in(
            self.browser, CALLBACK, self._answer, scope="openid", resources=[TOOLS]
        )
        self._take(tokens, "sign-ins")

    def sign_out(self) -> None:
        """Leave the zone, by its own page."""
        page = self.browser.open(f"{self.stage.agent.issuer}/openid/logout", until="nowhere:")
        if not isinstance(page, Page):
            raise Unexpected(f"signing out leads to {page}")
        self.browser.submit(page, {}, until="nowhere:")
        self.record.done("sign-outs")

    def refresh(self) -> None:
        """Get the next pair of tokens. It does not matter what became of the key of the last one."""
        answer = self._send(self._doing, self.stage.agent, "token", self._refreshing())
        if answer.status != 200:
            self.record.broke_with("refused", "refresh", answer)
            raise Unexpected(str(answer))
        self._take(answer.json, "refreshes")

    def exchange(self, scope: str, what: str = "exchanges, warm") -> list[str]:
        """The scopes of a token that the agent gets for the tool server. Raises Withdrawn, Unexpected."""
        answer = self._send(self._seeing, self.stage.agent, "token", self._exchanging(scope))
        if answer.status != 200:
            raise self._refused(what, answer)
        self.record.done(what)
        granted: str = answer.json["scope"]
        self.verify(answer.json["access_token"])
        return granted.split()

    def introspect(self) -> None:
        """Ask, as the tool server, whether the token is good. Raises Withdrawn, Unexpected."""
        answer = self._introspected()
        if answer.json.get("active") is not True:
            raise self._refused("introspection", answer)
        self.record.done("introspections")

    def revoke(self, token: str, what: str) -> None:
        """Give a token up."""
        answer = self._send(self._doing, self.stage.agent, "revoke", {"token": token})
        if answer.status != 200:
            self.record.broke_with("refused", what, answer)
        self.record.done(what)

    def verify(self, token: str) -> None:
        """Hold the token against the keys that are published now, as a resource would."""
        kid = jwt.get_unverified_header(token)["kid"]
        deadline = time.monotonic() + WITHIN_SECONDS
        while kid not in (keys := self.published()) and time.monotonic() < deadline:
            time.sleep(0.02)
        if kid in keys:
            jwt.decode(token, keys[kid], ["RS256", "ES256"], audience=TOOLS, issuer=self.stage.agent.issuer)
        elif kid not in self.record.withdrawn:
            self.record.broke("unverified", f"no key `{kid}` among {', '.join(keys)}")

    def published(self) -> dict[str, jwt.PyJWK]:
        """kid -> key of the zone's JWK set."""
        told = self._seeing.get(f"{self.stage.agent.issuer}/.well-known/jwks.json").json
        return {str(key.key_id): key for key in jwt.PyJWKSet.from_dict(told).keys}

    def expect_the_end(self, what: str) -> None:
        """Nothing of what was ended is good any more, within a second."""
        issuer_says: dict[str, Callable[[], bool]] = {
            "exchange": lambda: self._is_refused(self._exchanging(CALM)),
            "introspection": lambda: self._introspected().json.get("active") is False,
            "refresh": lambda: self._is_refused(self._refreshing()),
        }
        began = time.monotonic()
        for name, is_over in issuer_says.items():
            while not is_over():
                if time.monotonic() > began + _TIMEOUT_SECONDS:
                    self.record.broke("slow", f"{name} after {what}")
                    return
                time.sleep(0.02)
        seconds = time.monotonic() - began
        self.record.took("slow", seconds)
        if seconds > WITHIN_SECONDS:
            self.record.broke("slow", f"{seconds:.1f} s after {what}")

    def _is_refused(self, form: dict[str, str]) -> bool:
        answer = self._send(self._seeing, self.stage.agent, "token", form)
        if answer.status >= 500:
            self.record.broke_with("error", "after the end", answer)
        return answer.status == 400 and answer.json.get("error") == "invalid_grant"

    def _introspected(self) -> Answer:
        return self._send(self._seeing, self.stage.tool_server, "introspect", {"token": self.access})

    def _refused(self, what: str, answer: Answer) -> Exception:
        if answer.status < 500 and jwt.get_unverified_header(self.access)["kid"] in self.record.withdrawn:
            return Withdrawn()
        self.record.broke_with("refused", what, answer)
        return Unexpected(str(answer))

    def _take(self, tokens: dict[str, Any], what: str) -> None:
        self.access, self.refresh_token = tokens["access_token"], tokens["refresh_token"]
        self.record.done(what)
        self.verify(self.access)

    def _answer(self, browser: Browser, page: Page, until: str) -> Page | str:
        if "password" in page.forms[0]["fields"]:
            values = {"email": self.account.email, "password": self.account.password}
            return browser.submit(page, values, until=until)
        return browser.submit(page, {}, button="allow", until=until)

    def _refreshing(self) -> dict[str, str]:
        return {"grant_type": "refresh_token", "refresh_token": self.refresh_token}

    def _exchanging(self, scope: str) -> dict[str, str]:
        return {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": self.access,
            "subject_token_type": ACCESS_TOKEN,
            "resource": TOOLS,
            "scope": scope,
        }

    def _send(self, wire: Wire, client: Application, endpoint: str, form: dict[str, str]) -> Answer:
        proof = {"client_id": client.client_id, "client_secret": client.secret or ""}
        return wire.post(f"{client.issuer}/oauth/{endpoint}", form | proof)


def attempt(record: Record, work: Callable[[], None]) -> None:
    """Do something as far as it goes; what goes wrong is in the record afterwards."""
    try:
        work()
    except Withdrawn:
        record.done("refusals of withdrawn keys")
    except Unexpected as failure:
        told = str(failure)[:300]
        record.broke("error" if _SERVER_ERROR.search(told) else "refused", told)
    except jwt.InvalidTokenError as failure:
        record.broke("unverified", repr(failure))
    except (httpx.HTTPError, HTTPException, OSError, subprocess.CalledProcessError) as failure:
        record.broke("error", repr(failure))


class Person(threading.Thread):
    """Works until told to stop; what goes wrong is in the record, and then a new round begins."""

    def __init__(self, desk: Desk, over: threading.Event, *, seed: int) -> None:
        super().__init__(daemon=True)
        self._desk, self._over, self._chance = desk, over, random.Random(seed)

    def run(self) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            if number % _ROUNDS_A_BROWSER == 0:
                self._desk.other_browser()
            attempt(self._desk.record, partial(self._round, number))
        self._desk.close()

    def _round(self, number: int) -> None:
        """A sign-in, work with what it gave, and the end of that."""
        desk = self._desk
        desk.sign_in()
        for _ in range(_TURNS):
            for _ in range(4):
                desk.exchange(CALM)
            scopes = self._chance.sample(SCOPES[:-1], _CHOSEN)
            desk.exchange(" ".join(scopes), "exchanges, cold")
            desk.introspect()
            desk.refresh()
            if self._over.wait(0.05):
                return
        endings: dict[str, Callable[[], None]] = {
            "a sign-out": desk.sign_out,
            "revoking the refresh token": lambda: desk.revoke(desk.refresh_token, "refresh tokens revoked"),
            "revoking the access token": lambda: desk.revoke(desk.access, "access tokens revoked"),
        }
        what, end = [*endings.items()][number % len(endings)]
        if jwt.get_unverified_header(desk.access)["kid"] not in desk.record.withdrawn:
            end()
            desk.expect_the_end(what)

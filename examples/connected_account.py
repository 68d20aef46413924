"""The demo's second act: a user connects an account at another company, and takes it back.

A tool server two hops away from her calls the other company's API with her account there. It never sees her
password or a refresh token: it gets access tokens one by one, by token exchange.
"""

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from acme import Application, Browser, Page, Server, Unexpected
from story import chapter, outcome_of, require, say, shortened, show
from tool_server import ToolServer
from tracker import Tracker

MANIFESTS = Path(__file__).resolve().parent / "tracker_config" / "tracker.yaml"
PLACEHOLDER = "http://127.0.0.1:8700"  # in the manifests, for the tracker's address
TOOLS = "https://tools.acme.example/mcp"
CALENDAR = "https://calendar.acme.example/api"
ANYWHERE = "http://nowhere.invalid"  # no redirect begins with it: the browser goes on to the last page
TOKEN_SECONDS = 4  # lifetime of the tracker's access tokens
PROMISED_SECONDS = 1.0


class ConnectedAccount:
    """The state of the second act.

    Attributes:
        browser: in which the user is signed in to the zone.
        tool_server: what verifies the calls of the tool server's tools.
        upstream_token: the tracker's token that the tool server got last.
    """

    def __init__(
        self, server: Server, config: Path, issuer: str, browser: Browser, tool_server: ToolServer
    ) -> None:
        self.server, self.config, self.issuer, self.browser = server, config, issuer, browser
        self.tool_server = tool_server
        self.tracker = Tracker(
            client_secret=secrets.token_urlsafe(24),
            redirect_uris=(f"{issuer}/oauth/callback",),
            expires_in=TOKEN_SECONDS,
        )
        self.upstream_token = ""

    def close(self) -> None:
        """Stop the tracker."""
        self.tracker.stop()

    def configure(self) -> None:
        """Another company's issue tracker, as a provider and a resource of the zone."""
        chapter(7, "Another company's issue tracker, which she has an account at")
        self.tracker.start()
        say(f"examples/tracker.py answers at {self.tracker.url}: an OAuth provider, and an API behind it")
        product = self.config / "product"
        manifests = MANIFESTS.read_text("utf-8").replace(PLACEHOLDER, self.tracker.url)
        (product / "tracker.yaml").write_text(manifests, "utf-8")
        tools = (product / "tools.yaml").read_text("utf-8")
        declared = tools.replace("[calendar-api]", "[calendar-api, issue-tracker]")
        (product / "tools.yaml").write_text(declared, "utf-8")
        applied = self.server.zonectl(
            "apply",
            str(self.config),
            "--yes",
            "--allow-env=TRACKER_CLIENT_SECRET",
            TRACKER_CLIENT_SECRET=self.tracker.client_secret,
        )
        show(outcome_of(applied.stdout))
        say("created: the tracker as a provider, and its API as a resource whose tokens the tracker issues;")
        say("updated: calendar-tools, which may ask for that resource from now on")

    def connect(self, tools: Application, tool_token: str) -> None:
        """The refused exchange, the connect link, and the exchange again."""
        chapter(8, "The tool server asks for her account there, and she connects it")
        refused = self._exchange(tools, tool_token)
        body = refused.json()
        reason, link = body.get("reason"), body.get("error_uri", "")
        require(reason == "user_authorization_required", f"the exchange was answered {body}")
        say(f"calendar-tools asks for {self._resource}: refused, {body['error']} ({reason})")
        say("the answer has a link, which the tool server passes on to her:")
        say(f"  {self._named(link.partition('link=')[0])}link=...")
        visited = len(self.browser.visited)
        self._open(link)
        for step in self.browser.visited[visited:]:
            say(f"  {self._named(step)}")
        say("the zone has redeemed the tracker's code; calendar-tools only ever gets access tokens")
        self.upstream_token = self._granted(tools, tool_token)
        say(f"calendar-tools asks again: a token of the tracker's, {shortened(self.upstream_token)}")
        answer = self._call()
        require(answer.status_code == 200, f"the API answered {answer.status_code}")
        found = answer.json()
        say(f"the tracker's API knows it as {found['account']}, and lists {len(found['issues'])} issues")

    def refresh(self, tools: Application, tool_token: str) -> None:
        """The tracker's token expires, and the next exchange returns another one."""
        chapter(9, f"The tracker's tokens expire after {TOKEN_SECONDS} seconds")
        former, deadline = self.upstream_token, time.monotonic() + 10 * TOKEN_SECONDS
        while self._call().status_code == 200:
            require(time.monotonic() < deadline, "the tracker's token does not expire")
            time.sleep(0.1)
        say("the tracker's API refuses the former token")
        self.upstream_token = self._granted(tools, tool_token)
        require(self.upstream_token != former, "the exchange returned the expired token")
        require(self._call().status_code == 200, "the API refuses the refreshed token")
        refreshed = self.tracker.requests["refresh_token"]
        say(f"calendar-tools exchanges again: another token, which works (refresh requests: {refreshed})")
        say(
            "the zone has sent the refresh token to the tracker meanwhile; calendar-tools has asked as before"
        )

    def revoke(self, agent: Application, agent_token: str, tools: Application, tool_token: str) -> None:
        """She disconnects the account, then the agent's access, and everybody refuses."""
        chapter(10, "She takes it back, on her account page")
        (grant,) = self._grants()
        disconnected = self._press(grant)
        say("she presses Disconnect, for the issue tracker")
        self._measure(
            "calendar-tools is refused the tracker's token",
            disconnected,
            lambda: self._exchange(tools, tool_token).status_code,
            400,
        )
        self._measure(
            "the tracker's API refuses the token that calendar-tools has",
            disconnected,
            lambda: self._call().status_code,
            401,
        )
        require(self.tool_server.status_of_call(tool_token) == 200, "calendar-tools refuses the agent's call")
        removed = self._press(self._id_of("applications", agent.client_id))
        say("she presses Remove access, for the calendar agent")
        self._measure(
            "calendar-agent is refused any token",
            removed,
            lambda: agent.exchange(agent_token, TOOLS).status_code,
            400,
        )
        self._measure(
            "calendar-tools is refused any token",
            removed,
            lambda: tools.exchange(tool_token, CALENDAR).status_code,
            400,
        )
        self._measure(
            "calendar-tools refuses the agent's calls, by the revocation list,",
            removed,
            lambda: self.tool_server.status_of_call(tool_token),
            401,
        )

    def _press(self, button: str) -> float:
        """Press a button on the account page, and when the answer was there."""
        page = self.browser.open(f"{self.issuer}/account", until=ANYWHERE)
        if isinstance(page, str):
            raise Unexpected(f"the account page redirects to {page}")
        require(
            any(value == button for form in page.forms for _, value in form["buttons"]), f"no button {button}"
        )
        self.browser.submit(page, {}, button=button, until=ANYWHERE)
        return time.monotonic()

    @staticmethod
    def _measure(what: str, started: float, ask: Callable[[], int], refused: int) -> None:
        """Ask until the status is that, and print how long that took. Raises Unexpected after a second."""
        while (status := ask()) != refused:
            require(time.monotonic() <= started + PROMISED_SECONDS, f"{what}: still {status} after a second")
            time.sleep(0.01)
        say(f"  {what} {(time.monotonic() - started) * 1000:.0f} ms later")

    def _named(self, step: str) -> str:
        """A step with names in place of addresses, as in the first act."""
        return step.replace(self.issuer, "acme-product").replace(self.tracker.url, "tracker")

    @property
    def _resource(self) -> str:
        return f"{self.tracker.url}/api"

    def _open(self, link: str) -> None:
        """Follow the link and agree, on the zone's page and then on the tracker's."""
        place = self.browser.open(link, until=ANYWHERE)
        for _ in range(5):
            if isinstance(place, str) or not _asks(place):
                return
            where = "the tracker's page" if place.url.startswith(self.tracker.url) else "the zone's page"
            self.browser.visited.append(f"     she reads {where}, and agrees")
            place = self.browser.submit(place, {}, button="allow", until=ANYWHERE)
        raise Unexpected("the pages do not end")

    def _exchange(self, tools: Application, tool_token: str) -> httpx.Response:
        return tools.exchange(tool_token, self._resource, "issues.read")

    def _granted(self, tools: Application, tool_token: str) -> str:
        answer = self._exchange(tools, tool_token)
        require(answer.status_code == 200, f"the exchange was answered {answer.status_code} {answer.text}")
        require("refresh_token" not in answer.json(), "the tool server got a refresh token")
        token: str = answer.json()["access_token"]
        return token

    def _call(self) -> httpx.Response:
        """The tracker's API, with the token that the tool server got last."""
        return httpx.get(
            f"{self._resource}/issues",
            headers={"Authorization": f"Bearer {self.upstream_token}"},
            timeout=10,
            trust_env=False,
        )

    def _grants(self) -> list[str]:
        """Ids of the active grants for the tracker."""
        found = self._listed("delegated-grants", resource_id=self._id_of("resources", self._resource))
        return [each["id"] for each in found if each["status"] == "active"]

    def _id_of(self, collection: str, identifier: str) -> str:
        """The id of an object of the zone."""
        (found,) = self._listed(collection, identifier=identifier)
        found_id: str = found["id"]
        return found_id

    def _listed(self, collection: str, **query: str) -> list[dict[str, Any]]:
        """A list of the management API."""
        zone = self.server.zone("acme-product")["id"]
        with self.server.management() as client:
            answer = client.get(f"/zones/{zone}/{collection}", params=query)
        answer.raise_for_status()
        items: list[dict[str, Any]] = answer.json()["items"]
        return items


def _asks(page: Page) -> bool:
    return any(value == "allow" for form in page.forms for _, value in form["buttons"])

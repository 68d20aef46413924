"""A sign-in with everything that can rest on it, and a question for each: does it still work?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from tests.runtime.authorization.pushed_requests import bring, push
from tests.runtime.connect.conftest import vault_of
from tests.runtime.management.conftest import Api, caller
from tests.runtime.management.members.inviting import token_of
from tests.runtime.management.signing_in import Someone, someone, with_own_application
from tests.support.factories import App
from tests.support.oauth_site import Answer, Browser, Chain, Client, Page, Site, chained
from tests.support.waiting import wait_until

from runtime.domain.kinds import RESOURCE
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE

TOOLS = "https://tools.example"
API = "https://api.example"
FILES = "https://files.example"  # the agent depends on it, and Ada has not been asked
KEYS = "https://keys.example"  # of the vault, where Ada has stored a key
PERMIT = "permit (principal, action, resource);"


def let_a_second_pass(site: Site) -> None:
    """Tokens say whole seconds: whatever is issued next is issued in a later one than all before."""
    second = int(site.services.clock().timestamp())
    wait_until(lambda: int(site.services.clock().timestamp()) != second)


def answered(response: httpx.Response) -> str:
    """`works`, or the status with the error code."""
    if response.status_code in (200, 201, 204):
        return "works"
    told: Any = {}
    if response.headers.get("content-type", "").startswith("application/json"):
        told = response.json()
    code = told.get("error", "") if isinstance(told, dict) else ""
    return f"{response.status_code} {code}".strip()


@dataclass
class SignIn:
    """Ada has signed in to an agent, which acts for her through a tool server at an API.

    The agent asks for consent. `offline` is a second application that she lets act when she is away.

    Attributes:
        keys: a resource of the vault, for which she has stored a key that the agent may use.
        chain: the zones, when hers signs in at another one.
    """

    site: Site
    zone: Any
    agent: Client
    offline: Client
    tool_server: Client
    provider: App
    tools: Resource
    api: Resource
    keys: Resource
    chain: Chain | None = None
    browser: Browser = field(default_factory=Browser)
    tokens: dict[str, str] = field(default_factory=dict)
    away: dict[str, str] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        page = self.browser.open(self.agent.url(resources=[TOOLS], scope="openid email policy_bundle"))
        self.tokens = self.redeemed(self.agent, self.browser.sign_in(page), resource=self.agent.issuer)
        asked = self.browser.open(self.offline.url(scope="openid offline_access"))
        assert isinstance(asked, Page)
        agreed = self.browser.send(asked, decision="allow")
        assert isinstance(agreed, Answer)
        self.away = self.redeemed(self.offline, agreed)
        first = self.first_link()
        assert first.status_code == 200, first.text
        self.links = [first.json()["access_token"]]
        second = self.second_link()
        assert second.status_code == 200, second.text
        self.links.append(second.json()["access_token"])
        self.connect_link = self.refused(FILES)
        question = self.browser.open(self.refused(KEYS))
        assert isinstance(question, Page)
        stored = self.browser.send(question, decision="allow", credential="sk-of-ada")
        assert isinstance(stored, Page)
        assert stored.response.status_code == 200, stored.text
        self.waiting, self.waiting_for_tools = self.code(), self.code(resources=[TOOLS])
        self.pushed, self.pushed_for_tools = self.push(), self.push(resource=TOOLS)

    @staticmethod
    def redeemed(client: Client, answer: Answer, **changes: str) -> dict[str, str]:
        redeemed = client.redeem(answer.code, **changes)
        assert redeemed.status_code == 200, redeemed.text
        return dict(redeemed.json())

    @property
    def subject(self) -> str:
        """The agent's access token for the zone itself."""
        return self.tokens["access_token"]

    def exchange(self, client: Client, token: str, resource: str) -> httpx.Response:
        return client.token(
            grant_type=GRANT_TYPE, subject_token=token, subject_token_type=ACCESS_TOKEN, resource=resource
        )

    def refused(self, resource: str) -> str:
        """The `error_uri` of an exchange that the agent is refused."""
        refused = self.exchange(self.agent, self.subject, resource).json()
        assert refused["reason"] == "user_authorization_required", refused
        return str(refused["error_uri"])

    def push(self, **changes: str) -> str:
        """The `request_uri` of a request that the agent has pushed."""
        pushed = push(self.agent, **changes)
        assert pushed.status_code == 201, pushed.text
        return str(pushed.json()["request_uri"])

    def vault(self) -> httpx.Response:
        """Have the key of the vault handed out."""
        return self.exchange(self.agent, self.subject, KEYS)

    def first_link(self) -> httpx.Response:
        return self.exchange(self.agent, self.subject, TOOLS)

    def second_link(self) -> httpx.Response:
        return self.exchange(self.tool_server, self.links[0], API)

    def refresh(self) -> httpx.Response:
        answer = self.agent.refresh(self.tokens["refresh_token"])
        if answer.status_code == 200:
            self.tokens |= {"refresh_token": answer.json()["refresh_token"]}
        return answer

    def refresh_offline(self) -> httpx.Response:
        answer = self.offline.refresh(self.away["refresh_token"])
        if answer.status_code == 200:
            self.away |= {"refresh_token": answer.json()["refresh_token"]}
        return answer

    def introspect(self, token: str, asks: App) -> str:
        answer = httpx.post(
            f"{self.agent.issuer}/oauth/introspect", data={"token": token, **asks.form}, timeout=30
        )
        if answer.status_code != 200:
            return answered(answer)
        return "works" if answer.json()["active"] else "inactive"

    def bundle(self) -> httpx.Response:
        return httpx.get(
            f"{self.site.server.url}/policy/bundle",
            headers={"Authorization": f"Bearer {self.subject}"},
            timeout=30,
        )

    def code(self, **request: Any) -> str:
        """A code that the browser's session gives without a question."""
        answer = self.browser.open(self.agent.url(**request))
        assert isinstance(answer, Answer), answer
        return answer.code

    def authorize(self, url: str | None = None) -> str:
        """What a further request in the browser comes to, without a page to fill in."""
        place = self.browser.open(url or self.agent.url(prompt="none"))
        if isinstance(place, Page):
            return f"{place.response.status_code} page"
        return place.values.get("error", "works")

    def connect(self) -> str:
        """What the link of a refused exchange comes to in the browser: the question, or another page."""
        place = self.browser.open(self.connect_link)
        assert isinstance(place, Page), place
        asks = place.action.endswith("/oauth/connect")
        return "works" if asks else f"{place.response.status_code} page"

    def bring_for_tools(self) -> str:
        """What the pushed request for the tools comes to: its code is redeemed, where there is one."""
        place = self.browser.open(bring(self.agent, self.pushed_for_tools))
        if isinstance(place, Page):
            return f"{place.response.status_code} page"
        return answered(self.agent.redeem(place.code)) if "code" in place.values else place.values["error"]

    def still(self) -> Mapping[str, Callable[[], str]]:
        """What rests on the sign-in, by name, each asked anew at every call."""
        return {
            "exchange": lambda: answered(self.first_link()),
            "further link": lambda: answered(self.second_link()),
            "refresh": lambda: answered(self.refresh()),
            "offline refresh": lambda: answered(self.refresh_offline()),
            "introspection": lambda: self.introspect(self.links[0], self.tool_server.app),
            "introspection, further link": lambda: self.introspect(self.links[1], self.provider),
            "userinfo": lambda: answered(self.agent.userinfo(self.subject)),
            "policy bundle": lambda: answered(self.bundle()),
            "single sign-on": self.authorize,
            "connect link": self.connect,
            "vault": lambda: answered(self.vault()),
        }

    def pending(self) -> Mapping[str, Callable[[], str]]:
        """What waits to be used and works once: asked at the end alone."""
        return {
            "pending code": lambda: answered(self.agent.redeem(self.waiting)),
            "pending code for the tools": lambda: answered(self.agent.redeem(self.waiting_for_tools)),
            "pushed request": lambda: self.authorize(bring(self.agent, self.pushed)),
            "pushed request for the tools": self.bring_for_tools,
        }


def make_sign_in(site: Site, *, upstream: bool = False) -> SignIn:
    """A new zone, everything in it, and Ada signed in.

    Args:
        upstream: she signs in at another zone.
    """
    chain = chained(site) if upstream else None
    zone = chain.product if chain else site.zone()
    if chain is None:
        site.user(zone)

    async def resources() -> tuple[App, App, Resource, Resource, Resource, Resource]:
        made = site.company
        provider = await made.app(zone, "api-server")
        api = await made.resource(zone, API, scopes=["read"], application_id=provider.id)
        server = await made.app(zone, "tool-server", dependencies=[api])
        tools = await made.resource(zone, TOOLS, scopes=["call", "other"], application_id=server.id)
        files = await made.resource(zone, FILES, scopes=["read"])
        vault = await vault_of(site, zone)
        keys = await made.resource(zone, KEYS, scopes=["use"], credential_provider_id=vault.id)
        await made.policies(zone, PERMIT)
        return provider, server, tools, api, files, keys

    provider, server, tools, api, files, keys = site.run(resources())
    agent = site.app(zone, "agent", consent="required", dependencies=[tools, files, keys])
    offline = site.app(zone, "assistant", consent="required")
    return SignIn(site, zone, agent, offline, Client(zone, server), provider, tools, api, keys, chain)


@dataclass
class Manager:
    """Somebody who manages their organization with a token of its home zone, one swapped for it, and keys."""

    site: Site
    api: Api
    ada: Someone

    def __post_init__(self) -> None:
        self.token = self.ada.tokens()["access_token"]
        self.mine = self.ada.with_token(self.token)
        self.theirs = self.ada.exchanged(self.mine)
        self.key_id, self.key = self.mine.key()
        self.further_id, self.further = self.key.key()
        self.invited = [token_of(self.api, by.invite()["email"]) for by in (self.mine, self.key)]

    def still(self) -> Mapping[str, Callable[[], str]]:
        """What works with the two tokens, with a key that they have made, and with one made with that."""
        return {
            "management API": lambda: answered(self.mine("GET", "/zones")),
            "organization token": lambda: answered(self.theirs("GET", "/zones")),
            "another organization token": lambda: answered(
                self.mine("POST", f"/organizations/{self.api.organization_id}/token")
            ),
            "change by token": lambda: answered(self.change(self.mine)),
            "API key": lambda: answered(self.key("GET", "/zones")),
            "change by API key": lambda: answered(self.change(self.key)),
            "API key made with it": lambda: answered(self.further("GET", "/zones")),
            "change by that": lambda: answered(self.change(self.further)),
            "invitation": lambda: self.invitation(0),
            "invitation by API key": lambda: self.invitation(1),
        }

    def invitation(self, which: int) -> str:
        """What the person who was invited is told of it."""
        told = self.api("GET", f"/invitations/{self.invited[which]}").json()["status"]
        return "works" if told == "pending" else str(told)

    def change(self, sender: Api) -> httpx.Response:
        """A change that an administrator alone may make, and that changes nothing."""
        path = f"/organizations/{self.api.organization_id}"
        return sender("PATCH", path, {"name": self.api.ok("GET", path)["name"]})


def make_manager(site: Site, role: str = "org_admin", *, own_application: bool = False) -> Manager:
    """Somebody new in the organization of the site.

    Args:
        own_application: they sign in to an application of the organization, not to the platform's.
    """
    api = caller(site.server, site.server.api_key, site.server.organization_id)
    someone(api, "org_admin")  # so that she is not the last one
    who = someone(api, role)
    return Manager(site, api, with_own_application(api, who) if own_application else who)


__all__ = ["RESOURCE", "Manager", "SignIn", "make_manager", "make_sign_in"]

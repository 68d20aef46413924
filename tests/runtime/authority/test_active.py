"""One function tells whether somebody may still act: when it says no, nothing of a sign-in works."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.runtime.management.conftest import caller
from tests.runtime.management.signing_in import someone, status
from tests.support.factories import App
from tests.support.oauth_site import Answer, Browser, Page, Site

from runtime.domain.kinds import RESOURCE
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.services.authority import active
from runtime.services.authority.active import NotActive

STORAGE = ("embedded", "servers")
API = "https://api.example"

Outcome = tuple[int, str]


def outcome(response: httpx.Response) -> Outcome:
    """Status, and the error code of an answer in JSON."""
    told = response.json() if response.headers.get("content-type", "").startswith("application/json") else {}
    return response.status_code, str(told.get("error", "")) if isinstance(told, dict) else ""


class Ways:
    """Everything that a sign-in can be used for, each tried anew at every call."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.zone = site.zone()
        site.user(self.zone)
        api = site.run(site.company.resource(self.zone, API, scopes=["read"]))
        self.notes = site.app(self.zone, dependencies=[api])
        owned = site.run(site.company.app(self.zone, "api-server"))
        self.provider: App = owned
        site.run(
            site.company.update(
                RESOURCE,
                self.zone.id,
                api.id,
                application_id=owned.id,
            )
        )
        site.run(site.company.policies(self.zone, "permit (principal, action, resource);"))
        self.browser = Browser()
        self.tokens = self.notes.sign_in(self.browser, scope="openid email policy_bundle")
        self.ada = someone(caller(site.server, site.server.api_key, site.server.organization_id))
        management = self.ada.tokens()["access_token"]
        self.mine = self.ada.with_token(management)
        self.theirs = self.ada.exchanged(self.mine)

    def code(self) -> str:
        """A code that the browser's session gives without a question."""
        answer = self.browser.open(self.notes.url())
        assert isinstance(answer, Answer)
        return answer.code

    def exchange(self) -> httpx.Response:
        return self.notes.token(
            grant_type=GRANT_TYPE,
            subject_token=self.tokens["access_token"],
            subject_token_type=ACCESS_TOKEN,
            resource=API,
        )

    def refresh(self) -> httpx.Response:
        answer = self.notes.refresh(self.tokens["refresh_token"])
        if answer.status_code == 200:
            self.tokens |= {"refresh_token": answer.json()["refresh_token"]}
        return answer

    def bundle(self) -> httpx.Response:
        return httpx.get(
            f"{self.site.server.url}/policy/bundle",
            headers={"Authorization": f"Bearer {self.tokens['access_token']}"},
            timeout=30,
        )

    def is_active(self, token: str, asks: App) -> bool:
        answer = httpx.post(
            f"{self.notes.issuer}/oauth/introspect", data={"token": token, **asks.form}, timeout=30
        )
        return bool(answer.json()["active"])

    def page(self, path: str) -> "Page | Answer":
        return self.browser.open(f"{self.notes.issuer}{path}")


@pytest.mark.threat("18l")
def test_nothing_works_without_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subject token, a refresh token, a code, a bearer and a cookie all pass the one `require_active`."""
    ways = Ways(site)
    exchanged = ways.exchange().json()["access_token"]
    waiting = ways.code()
    tried: dict[str, Callable[[], Any]] = {
        "exchange": lambda: outcome(ways.exchange()),
        "refresh": lambda: outcome(ways.refresh()),
        "userinfo": lambda: ways.notes.userinfo(ways.tokens["access_token"]).status_code,
        "policy bundle": lambda: ways.bundle().status_code,
        "introspection of an access token": lambda: ways.is_active(exchanged, ways.provider),
        "introspection of a refresh token": lambda: ways.is_active(
            ways.tokens["refresh_token"], ways.notes.app
        ),
        "management API, access token": lambda: status(ways.mine),
        "management API, organization token": lambda: status(ways.theirs),
        "authorization endpoint": lambda: isinstance(ways.browser.open(ways.notes.url()), Answer),
    }

    assert {name: attempt() for name, attempt in tried.items()} == {
        "exchange": (200, ""),
        "refresh": (200, ""),
        "userinfo": 200,
        "policy bundle": 200,
        "introspection of an access token": True,
        "introspection of a refresh token": True,
        "management API, access token": 200,
        "management API, organization token": 200,
        "authorization endpoint": True,
    }
    assert ways.notes.redeem(ways.code()).status_code == 200

    def nobody(*_given: Any, **_more: Any) -> None:
        raise NotActive("broken for a test")

    monkeypatch.setattr(active, "require_active", nobody)

    assert {name: attempt() for name, attempt in tried.items()} == {
        "exchange": (400, "invalid_grant"),
        "refresh": (400, "invalid_grant"),
        "userinfo": 401,
        "policy bundle": 401,
        "introspection of an access token": False,
        "introspection of a refresh token": False,
        "management API, access token": 401,
        "management API, organization token": 401,
        "authorization endpoint": False,
    }
    assert outcome(ways.notes.redeem(waiting)) == (400, "invalid_grant")


# Who else may look at a status, and what for. The list only shrinks.
LOOKS = {
    "authority/active.py": "the one function",
    "management/members/organization_users.py": "an organization keeps an active administrator",
    "management/people/user_imports.py": "a user of a file is active unless the file says otherwise",
    "management/people/users.py": "an organization keeps an active administrator; disabling ends sessions",
}


def test_no_other_module_reads_whether_somebody_is_active() -> None:
    """What says `UserStatus.ACTIVE` or `OrganizationStatus.ACTIVE` in a service decides by itself."""
    says = re.compile(r"\b(User|Organization)Status\.ACTIVE\b|\.status (==|!=|is|is not) \"active\"")
    services = Path(active.__file__).parent.parent
    looks = {
        str(path.relative_to(services)) for path in services.rglob("*.py") if says.search(path.read_text())
    }

    assert looks == LOOKS.keys()

"""A person with a browser, an application that signs people in, and a site with zones for both."""

import base64
import hashlib
import re
import secrets
import ssl
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx
import jwt
from tests.support.factories import App, Company
from tests.support.server import Server

from runtime.domain.kinds import PROVIDER, ZONE, Verb
from runtime.domain.kinds.role import User
from runtime.domain.kinds.zone import Zone
from runtime.services.authority import users
from runtime.services.container import Services

PASSWORD = "correct horse battery"
CALLBACK = "https://app.example/callback"
_T = TypeVar("_T")


@dataclass
class Site:
    """A running server, and an organization on it."""

    server: Server
    company: Company

    @property
    def services(self) -> Services:
        return self.server.services

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do something on the server's own loop."""
        return self.server.call(lambda _services: work)

    def zone(self, name: str = "Acme", **body: Any) -> Zone:
        """A new zone."""
        return self.run(self.company.zone(name, **body))

    def app(self, zone: Zone, identifier: str = "notes", **body: Any) -> "Client":
        """A new application that may be answered at CALLBACK."""
        body.setdefault("protocols", {"oauth2": {"redirect_uris": [CALLBACK]}})
        return Client(zone, self.run(self.company.app(zone, identifier, **body)))

    def stranger(self, zone: Zone, client_id: str, redirect_uri: str) -> "Client":
        """A client that nobody here registered: by its client id alone."""
        return Client(zone, App(cast(Any, None), client_id, None, ""), redirect_uri)

    def user(self, zone: Zone, email: str = "ada@acme.example", *, verified: bool = True) -> User:
        """A new user with PASSWORD."""
        return self.run(users.create_local_user(self.services, zone.id, email, PASSWORD, verified=verified))


@dataclass(frozen=True)
class Chain:
    """A zone whose users sign in at another zone.

    Attributes:
        home: where people have their passwords.
        product: where applications are.
        door: the product zone, as an application of the home zone.
    """

    home: Zone
    product: Zone
    door: App


def chained(site: Site, **openid: Any) -> Chain:
    """Two zones, one signing in at the other.

    Args:
        openid: settings of the product zone's provider.
    """
    home, product = site.zone("Workforce"), site.zone("Product")
    site.user(home)
    addresses = {
        "redirect_uris": [str(product.protocols.oauth2.redirect_uri)],
        "post_logout_redirect_uris": [product.protocols.oauth2.post_logout_redirect_uri],
        "backchannel_logout_uri": product.protocols.oauth2.backchannel_logout_uri,
    }
    door = site.app(home, "product-zone", public=True, protocols={"oauth2": addresses}).app
    issuer = str(home.protocols.oauth2.issuer)
    provider = site.run(
        site.company.create(
            PROVIDER,
            product.id,
            identifier=issuer,
            name="Workforce",
            client_id=door.client_id,
            protocols={"oauth2": {"issuer": issuer}, "openid": openid},
        )
    )
    patch = {"user_identity_provider_id": provider.id}
    product = site.run(site.company.run(ZONE, Verb.UPDATE, {}, product.id, patch))
    return Chain(home, product, door)


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.labels: set[str] = set()
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = values.get("action", "")
        elif tag == "input":
            self.fields[values["name"]] = values.get("value", "")
            if values.get("type") != "hidden":
                self.ids.add(values.get("id", values["name"]))
        elif tag == "label":
            self.labels.add(values["for"])


@dataclass
class Page:
    """A page with its form."""

    response: httpx.Response

    def __post_init__(self) -> None:
        self._forms = _Forms()
        self._forms.feed(self.response.text)

    @property
    def text(self) -> str:
        """What can be read on it, without markup."""
        body = self.response.text.partition("<body>")[2]
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)).strip()

    @property
    def fields(self) -> dict[str, str]:
        return dict(self._forms.fields)

    @property
    def action(self) -> str:
        return urljoin(str(self.response.url), self._forms.action)

    @property
    def unlabelled(self) -> set[str]:
        """Visible fields without a label."""
        return self._forms.ids - self._forms.labels


class Browser:
    """Keeps cookies and goes where it is sent, until it comes to a page or to an application's address.

    Args:
        trusted: the certificates that it checks a site's with, in place of the usual ones.
    """

    def __init__(self, trusted: ssl.SSLContext | None = None) -> None:
        self.http = httpx.Client(timeout=30, verify=trusted or True)
        self.visited: list[httpx.Response] = []

    def open(self, url: str) -> "Page | Answer":
        """Go to an address."""
        return self._follow(self.http.get(url))

    def send(self, page: Page, **values: str) -> "Page | Answer":
        """Fill in the page's form and send it."""
        return self._follow(self.post(page, **values))

    def post(self, page: Page, *, headers: Mapping[str, str] | None = None, **values: str) -> httpx.Response:
        """Send the page's form, and stay."""
        return self.http.post(
            page.action,
            data={**page.fields, **values},
            headers={"Sec-Fetch-Site": "same-origin", **(headers or {})},
        )

    def sign_in(
        self, page: "Page | Answer", email: str = "ada@acme.example", password: str = PASSWORD
    ) -> "Answer":
        """Sign in on that page, and agree if asked; what the application hears."""
        assert isinstance(page, Page), page
        place = self.send(page, email=email, password=password)
        if isinstance(place, Page) and place.action.endswith("/oauth/consent"):
            place = self.send(place, decision="allow")
        assert isinstance(place, Answer), place.text
        return place

    def _follow(self, response: httpx.Response) -> "Page | Answer":
        for _ in range(20):
            self.visited.append(response)
            if not response.has_redirect_location:
                return Page(response)
            assert response.status_code in (302, 303)
            location = urljoin(str(response.url), response.headers["location"])
            where = urlsplit(location)
            if where.path.removeprefix("/") == "callback" or where.hostname not in ("127.0.0.1", "localhost"):
                return Answer(location)
            response = self.http.get(location)
        raise AssertionError("redirects without end")


@dataclass(frozen=True)
class Answer:
    """What an application hears at its redirect URI."""

    location: str

    @property
    def values(self) -> dict[str, str]:
        pairs = parse_qsl(urlsplit(self.location).query)
        assert len(dict(pairs)) == len(pairs), "a parameter appears twice"
        return dict(pairs)

    @property
    def code(self) -> str:
        assert "code" in self.values, self.values
        return self.values["code"]


@dataclass
class Client:
    """An application as it signs people in: authorization code with PKCE.

    Attributes:
        request: sends its requests, with the parameters of `httpx.request`.
    """

    zone: Zone
    app: App
    redirect_uri: str = CALLBACK
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    state: str = field(default_factory=lambda: secrets.token_urlsafe(8))
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(8))
    request: Callable[..., httpx.Response] = httpx.request

    @property
    def issuer(self) -> str:
        return str(self.zone.protocols.oauth2.issuer)

    @property
    def challenge(self) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()

    def url(
        self, *, resources: Iterable[str] = (), extra: Iterable[tuple[str, str]] = (), **changes: Any
    ) -> str:
        """The authorize address; a change of None leaves a parameter out."""
        query = {
            "response_type": "code",
            "client_id": self.app.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": "openid email",
            "state": self.state,
            "nonce": self.nonce,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
        } | changes
        pairs = [(name, value) for name, value in query.items() if value is not None]
        pairs += [("resource", each) for each in resources]
        return f"{self.issuer}/oauth/authorize?{urlencode([*pairs, *extra])}"

    def token(self, *, authenticate: bool = True, **form: Any) -> httpx.Response:
        """A token request, with client authentication."""
        fields = {**(self.app.form if authenticate else {}), **form}
        encoded = urlencode({name: value for name, value in fields.items() if value is not None}, doseq=True)
        return self.request(
            "POST",
            f"{self.issuer}/oauth/token",
            content=encoded,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            timeout=30,
        )

    def redeem(self, code: str, **changes: Any) -> httpx.Response:
        """Redeem a code, as it should be done unless changed."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
        }
        return self.token(**{**form, **changes})

    def refresh(self, refresh_token: str, **changes: Any) -> httpx.Response:
        """Use a refresh token."""
        return self.token(**{"grant_type": "refresh_token", "refresh_token": refresh_token, **changes})

    def answering(self, zone: Zone) -> "Client":
        """The same application, answered at the callback of a zone that signs people in with it."""
        return replace(self, redirect_uri=str(zone.protocols.oauth2.redirect_uri))

    def sign_in(self, browser: Browser | None = None, **changes: Any) -> dict[str, Any]:
        """Sign Ada in, and the tokens for it."""
        browser = browser or Browser()
        place = browser.open(self.url(**changes))
        answer = place if isinstance(place, Answer) else browser.sign_in(place)
        redeemed = self.redeem(answer.code)
        assert redeemed.status_code == 200, redeemed.text
        tokens: dict[str, Any] = redeemed.json()
        return tokens

    def userinfo(self, access_token: str, method: str = "GET") -> httpx.Response:
        """Ask who the token is about."""
        return self.request(
            method,
            f"{self.issuer}/openid/userinfo",
            headers={"Authorization": f"Bearer {access_token}"},
            timeout=30,
        )


def claims(token: str) -> dict[str, Any]:
    """What a token says, unverified."""
    read: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return read


def assert_page(response: httpx.Response, status: int) -> None:
    """A page, and nothing that a browser would follow."""
    assert response.status_code == status, response.text
    assert "location" not in response.headers
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["cache-control"] == "no-store"
    assert "<script" not in response.text
    assert "style=" not in response.text

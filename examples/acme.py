"""The parties around the example configuration: a server process, a browser, applications that want tokens.

The demo, the end-to-end tests and the benchmarks all drive the product from outside through these; nothing
here imports the service or the reconciler.
"""

import base64
import contextlib
import hashlib
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx

CONFIG = Path(__file__).resolve().parent / "config"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})


class Unexpected(Exception):
    """The product did something else than the example says it does."""


def free_port() -> int:
    """A port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@cache
def trust() -> ssl.SSLContext:
    """The certificates that this machine trusts; SSL_CERT_FILE names others."""
    return ssl.create_default_context()


def command(name: str) -> list[str]:
    """How to run `zoned` or `zonectl` of the environment this runs in."""
    return [str(Path(sys.executable).parent / name)]


def clean_environment(**settings: str) -> dict[str, str]:
    """The environment without settings of either program, and then with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ZONED_", "ZONECTL_"))}
    return kept | settings


@dataclass
class Server:
    """One `zoned` as a process of its own, with its data in *directory*.

    Attributes:
        settings: further settings by their environment names, `ZONED_DATABASE_URL` for one.
    """

    directory: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    organization_id: str = ""
    api_key: str = ""
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """The base address of the management API."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What `zoned` runs with. Outbound requests may reach this machine: both zones live on it."""
        return clean_environment(
            ZONED_DATA_DIR=str(self.directory),
            ZONED_LISTEN=f"127.0.0.1:{self.port}",
            ZONED_PUBLIC_URL=self.url,
            ZONED_ALLOW_PRIVATE_ADDRESSES="true",
            ZONED_LOG_LEVEL="warning",
            **self.settings,
        )

    @property
    def log(self) -> Path:
        """Where the server's own words go."""
        return self.directory / "zoned.log"

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a `zoned` command to its end and give what it printed. Raises Unexpected."""
        done = self.execute(arguments, stdin)
        if done.returncode != 0:
            raise Unexpected(
                f"zoned {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done.stdout

    def execute(self, arguments: Sequence[str], stdin: str | None) -> "subprocess.CompletedProcess[str]":
        """A `zoned` command as a process that has come to its end."""
        return subprocess.run(
            [*command("zoned"), *arguments],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def init(self) -> dict[str, Any]:
        """Create storage, keys, the first organization and its API key."""
        self.directory.mkdir(parents=True, exist_ok=True)
        made: dict[str, Any] = json.loads(self.run("init", "--json"))
        self.organization_id, self.api_key = made["organization_id"], made["api_key"]
        return made

    def launch(self) -> "subprocess.Popen[bytes]":
        """Start serving, and do not wait until the server is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command("zoned"), "serve"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self.process

    def start(self, *, seconds: float = 90) -> None:
        """Start serving and return when the server says that it is ready. Raises Unexpected."""
        process = self.launch()
        deadline = time.monotonic() + seconds
        with httpx.Client(verify=trust(), timeout=2, trust_env=False) as client:
            while time.monotonic() < deadline and process.poll() is None:
                with contextlib.suppress(httpx.TransportError):
                    if client.get(f"{self.url}/readyz").status_code == 200:
                        return
                time.sleep(0.05)
        self.stop()
        raise Unexpected(f"zoned does not become ready:\n{self.log.read_text()[-4000:]}")

    def stop(self) -> None:
        """Ask the server to stop, and insist after ten seconds."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the server and its workers at once, as a power cut would."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)

    @property
    def client_settings(self) -> dict[str, str]:
        """What `zonectl` is told in its environment to work against this server."""
        return {
            "ZONECTL_SERVER": self.url,
            "ZONECTL_API_KEY": self.api_key,
            "ZONECTL_CACHE_DIR": str(self.directory / "cache"),
            "ZONECTL_STATE_DIR": str(self.directory / "state"),
            "NO_COLOR": "1",
            "COLUMNS": "120",
        }

    def zonectl(
        self, *arguments: str, expect: Iterable[int] = (0,), **settings: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a `zonectl` command against this server. Raises Unexpected when it exits otherwise."""
        done = subprocess.run(
            [*command("zonectl"), *arguments],
            env=clean_environment(**(self.client_settings | settings)),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode not in set(expect):
            said = f"{done.stdout}{done.stderr}"
            raise Unexpected(f"zonectl {' '.join(arguments)}: exit {done.returncode}\n{said}")
        return done

    def management(self) -> httpx.Client:
        """A client of the management API with the administrator's key."""
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.api_key}"},
            verify=trust(),
            timeout=60,
            trust_env=False,
        )

    def zone(self, slug: str) -> dict[str, Any]:
        """The zone with that slug."""
        with self.management() as client:
            answer = client.get("/zones", params={"slug": slug})
        answer.raise_for_status()
        found = answer.json()["items"]
        if len(found) != 1:
            raise Unexpected(f"there are {len(found)} zones with the slug `{slug}`")
        zone: dict[str, Any] = found[0]
        return zone


class _Forms(HTMLParser):
    """Collects the forms of a page: where they go, their fields and their buttons."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[dict[str, Any]] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._open = True
            method = attributes.get("method", "get").lower()
            self.forms.append(
                {"action": attributes.get("action", ""), "method": method, "fields": {}, "buttons": []}
            )
        elif self._open and tag in ("input", "button") and "disabled" not in attributes:
            self._field(tag, attributes)

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "form"

    def _field(self, tag: str, attributes: dict[str, str]) -> None:
        kind = attributes.get("type", "submit" if tag == "button" else "text")
        name, value, form = attributes.get("name", ""), attributes.get("value", ""), self.forms[-1]
        if kind == "submit":
            form["buttons"].append((name, value))
        elif name and (kind not in ("checkbox", "radio") or "checked" in attributes):
            form["fields"][name] = value or ("on" if kind == "checkbox" else "")


@dataclass
class Page:
    """A page that waits for the person."""

    url: str
    html: str
    forms: list[dict[str, Any]]
    referrer_policy: str


class Browser:
    """What a person uses: keeps cookies, follows redirects, fills in the forms it is shown."""

    def __init__(self) -> None:
        self.client = httpx.Client(verify=trust(), follow_redirects=False, timeout=30, trust_env=False)
        self.visited: list[str] = []

    def close(self) -> None:
        self.client.close()

    def open(self, url: str, *, until: str) -> Page | str:
        """Go to an address. Gives the page it ends at, or the address as soon as that begins with *until*."""
        return self._follow("GET", url, until=until)

    def submit(
        self, page: Page, values: Mapping[str, str], *, button: str | None = None, until: str
    ) -> Page | str:
        """Fill in a page's form and send it.

        Args:
            button: the value of the button to press; the first one when there is only one to choose.
        """
        form = next((form for form in page.forms if form["method"] == "post"), None)
        if form is None:
            raise Unexpected(f"the page at {page.url} has no form:\n{page.html}")
        data = form["fields"] | {name: value for name, value in values.items() if name in form["fields"]}
        pressed = [each for each in form["buttons"] if button is None or each[1] == button]
        if pressed and pressed[0][0]:
            data[pressed[0][0]] = pressed[0][1]
        parts = urlsplit(page.url)
        # As browsers do: a page that hides its address also hides its origin.
        origin = "null" if "no-referrer" in page.referrer_policy else f"{parts.scheme}://{parts.netloc}"
        target = urljoin(page.url, form["action"] or page.url)
        return self._follow("POST", target, data=data, headers={"Origin": origin}, until=until)

    def _follow(self, method: str, url: str, *, until: str, **request: Any) -> Page | str:
        for _ in range(20):
            self.visited.append(f"{method:<4} {url.split('?', 1)[0]}")
            answer = self.client.request(method, url, **request)
            if answer.status_code not in REDIRECT_STATUSES:
                if answer.status_code >= 400:
                    raise Unexpected(f"{method} {url}: {answer.status_code}\n{answer.text}")
                reader = _Forms()
                reader.feed(answer.text)
                policy = answer.headers.get("referrer-policy", "")
                return Page(str(answer.url), answer.text, reader.forms, policy)
            url = urljoin(str(answer.url), answer.headers["location"])
            if url.startswith(until):
                return url
            method, request = "GET", {}
        raise Unexpected(f"redirects without end, the last one to {url}")


def exchange_form(subject_token: str, resource: str) -> dict[str, str]:
    """A request for a token for *resource* with the authority of another token (RFC 8693, section 2.1)."""
    return {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": subject_token,
        "subject_token_type": ACCESS_TOKEN,
        "resource": resource,
    }


@dataclass(frozen=True)
class Application:
    """A client of a zone, with the secret that an apply wrote for it; without one it is a public client."""

    issuer: str
    client_id: str
    secret: str | None = None

    def token(self, form: Mapping[str, str] | list[tuple[str, str]]) -> httpx.Response:
        """Send a form to the zone's token endpoint."""
        return httpx.post(
            f"{self.issuer}/oauth/token",
            content=urlencode(
                [*(form.items() if isinstance(form, Mapping) else form), *self.proof().items()]
            ),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            verify=trust(),
            timeout=30,
            trust_env=False,
        )

    def proof(self) -> dict[str, str]:
        """The fields by which the zone knows the application."""
        return {"client_id": self.client_id} | (
            {"client_secret": self.secret} if self.secret is not None else {}
        )

    def exchange(self, subject_token: str, resource: str, scope: str | None = None) -> httpx.Response:
        """Ask for a token for *resource* with the authority of another token."""
        return self.token(exchange_form(subject_token, resource) | ({"scope": scope} if scope else {}))

    def sign_in(
        self,
        browser: Browser,
        redirect_uri: str,
        answer: Callable[[Browser, Page, str], Page | str],
        *,
        scope: str,
        resources: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Send the person to the zone and come back with tokens: authorization code with PKCE.

        Args:
            answer: what the person does with each page on the way.
        """
        verifier, state, nonce = (
            secrets.token_urlsafe(48),
            secrets.token_urlsafe(16),
            secrets.token_urlsafe(16),
        )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = [
            ("response_type", "code"),
            ("client_id", self.client_id),
            ("redirect_uri", redirect_uri),
            ("scope", scope),
            ("state", state),
            ("nonce", nonce),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256"),
            *(("resource", resource) for resource in resources),
        ]
        place = browser.open(f"{self.issuer}/oauth/authorize?{urlencode(query)}", until=redirect_uri)
        for _ in range(10):
            if isinstance(place, str):
                break
            place = answer(browser, place, redirect_uri)
        if not isinstance(place, str):
            raise Unexpected(f"the sign-in does not end; the last page is {place.url}")
        back = {name: values[0] for name, values in parse_qs(urlsplit(place).query).items()}
        if back.get("state") != state or back.get("iss") != self.issuer or "code" not in back:
            raise Unexpected(f"the zone answered {back}")
        redeemed = self.token(
            {
                "grant_type": "authorization_code",
                "code": back["code"],
                "redirect_uri": redirect_uri,
                "code_verifier": verifier,
            }
        )
        if redeemed.status_code != 200:
            raise Unexpected(f"the code was not redeemed: {redeemed.status_code} {redeemed.text}")
        tokens: dict[str, Any] = redeemed.json()
        if "id_token" in tokens and claims(tokens["id_token"])["nonce"] != nonce:
            raise Unexpected("the ID token carries another nonce")
        return tokens


def written_secret(directory: Path, zone: str, name: str) -> str:
    """The secret that `zonectl apply --secrets-dir` wrote for a credential."""
    file = directory / f"{zone}.ApplicationCredential.{name}.json"
    secret: str = json.loads(file.read_text("utf-8"))["password"]
    return secret


def claims(token: str) -> dict[str, Any]:
    """What a JWT says. Reading is not checking: the resources that get it verify the signature."""
    body = token.split(".")[1]
    read: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return read

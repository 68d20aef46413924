"""Token exchange under load: warm (the token is in the cache) and cold (a new one is made each time)."""

import contextlib
import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from acme import ACCESS_TOKEN, CONFIG, TOKEN_EXCHANGE, Application, Browser, Page, Server, written_secret

from benchmarks import servers
from benchmarks.load import Load, Outcome
from benchmarks.table import Row

PERSON = "ada@acme.example"
TOOLS = "https://tools.acme.example/mcp"
CALLBACK = "http://localhost:8600/callback"
# So many that the same five of them are hardly ever asked for twice.
SCOPES = [f"tool.{number:02}" for number in range(48)]


def measure(directory: Path) -> Iterator[Row]:
    """A row for each algorithm and storage, warm and cold."""
    yield from _on("SQLite", Server(directory / "sqlite"), directory)
    with servers.postgresql(directory / "pg") as database, servers.redis(directory / "redis") as state:
        settings = {"ZONED_DATABASE_URL": database, "ZONED_REDIS_URL": state}
        yield from _on("PostgreSQL + Redis", Server(directory / "postgresql", settings), directory)


def put(load: Load) -> Outcome:
    """The outcome of a load, from a process of its own. Raises RuntimeError when anything was refused."""
    outcome = run_load(load)
    if outcome.refused:
        raise RuntimeError(f"{load.url} refused {outcome.refused} requests, one with {outcome.sample}")
    return outcome


def run_load(load: Load) -> Outcome:
    """The same, whatever was refused."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"],
        input=json.dumps(load.__dict__),
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parent.parent,
    )
    return Outcome(**json.loads(done.stdout))


def _on(storage: str, server: Server, directory: Path) -> Iterator[Row]:
    server.init()
    server.start()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(server.stop)
        stage = prepare(server, directory / f"config-{server.port}")
        for algorithm in ("RS256", "ES256"):
            server.run("keys", "use", "--zone", "acme-product", "--algorithm", algorithm)
            server.stop()
            server.start()
            address, body = f"{stage.agent.issuer}/oauth/token", urlencode(exchange_form(stage))
            empty = empty_rate(body)
            warm = put(Load(address, body))
            yield row(f"exchange, warm, {algorithm}, {storage}", warm, empty)
            cold = put(Load(address, body, scopes=SCOPES))
            yield row(f"exchange, cold, {algorithm}, {storage}", cold, empty)


def row(what: str, outcome: Outcome, empty: float) -> Row:
    return Row(what, outcome.rate, empty, f"p50 {outcome.p50_ms:.1f} ms, p99 {outcome.p99_ms:.1f} ms")


def empty_rate(body: str) -> float:
    with servers.empty_sanic() as url:
        return put(Load(f"{url}/empty", body, seconds=3)).rate


@dataclass(frozen=True)
class Stage:
    """The example configuration in use.

    Attributes:
        subject: the token that a person's sign-in gave the agent, for the tool server.
        subjects: those of all people, in turn, with that one at the head.
        cookies: what browsers of people who are signed in send; of one person, unless more were asked for.
        addresses, password: of everybody who has signed in.
    """

    agent: Application
    tool_server: Application
    subject: str
    subjects: list[str]
    cookies: list[str]
    addresses: list[str]
    password: str


def exchange_form(stage: Stage) -> dict[str, str]:
    """What the agent sends to exchange its user's token for one for the tool server."""
    return {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": stage.subject,
        "subject_token_type": ACCESS_TOKEN,
        "resource": TOOLS,
        "client_id": stage.agent.client_id,
        "client_secret": stage.agent.secret or "",
    }


def prepare(server: Server, config: Path, *, people: int = 1, browsers: int = 1) -> Stage:
    """The example configuration with many scopes, and people signed in.

    Args:
        browsers: of each person, every one with a session of its own.
    """
    shutil.copytree(CONFIG, config)
    tools = config / "product" / "tools.yaml"
    text = tools.read_text("utf-8")
    tools.write_text(text.replace("scopes: [calendar.use]", f"scopes: [{', '.join(SCOPES)}]"), "utf-8")
    written = config.parent / f"secrets-{server.port}"
    server.zonectl("apply", str(config), "--yes", "--secrets-dir", str(written))
    issuer = server.zone("acme-product")["protocols"]["oauth2"]["issuer"]
    agent = Application(issuer, "calendar-agent", written_secret(written, "product", "calendar-agent"))
    password = secrets.token_urlsafe(12)
    addresses = [PERSON, *(f"person-{number}@acme.example" for number in range(1, people))]
    for address in addresses:
        add = ("user", "add", "--zone", "acme-workforce", "--email", address, "--password-stdin")
        server.run(*add, stdin=password)
    signed_in = [_signed_in(agent, address, password) for address in addresses for _ in range(browsers)]
    tool_server = Application(issuer, "calendar-tools", written_secret(written, "product", "calendar-tools"))
    subjects, cookies = ([each[part] for each in signed_in] for part in (0, 1))
    return Stage(agent, tool_server, subjects[0], subjects, cookies, addresses, password)


def _signed_in(agent: Application, address: str, password: str) -> tuple[str, str]:
    """A person's token for the tool server, and the cookies of the zone in the browser it was got with."""
    browser = Browser()
    try:
        token = sign_in(agent, browser, address, password)
        jar = [each for each in browser.client.cookies.jar if agent.issuer.endswith(each.path)]
        return token, "; ".join(f"{each.name}={each.value}" for each in jar)
    finally:
        browser.close()


def sign_in(application: Application, browser: Browser, address: str, password: str) -> str:
    """A person's token for the tool server, of a sign-in to an application that they allow everything."""

    def answer(browser: Browser, page: Page, until: str) -> Page | str:
        if "password" in page.forms[0]["fields"]:
            return browser.submit(page, {"email": address, "password": password}, until=until)
        return browser.submit(page, {}, button="allow", until=until)

    tokens = application.sign_in(browser, CALLBACK, answer, scope="openid", resources=[TOOLS])
    return str(tokens["access_token"])

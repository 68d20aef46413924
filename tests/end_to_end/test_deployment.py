"""The files of deploy/, run: each proxy in front of two nodes with TLS, and systemd's socket and units."""

import asyncio
import configparser
import getpass
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import acme
import httpx
import pytest
from tests.end_to_end.fleet import Node
from tests.support.certificates import self_signed, trusting
from tests.support.factories import found_company, opened_parts
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer
from tests.support.systemd import complaints, needs_systemd
from tests.support.waiting import wait_until

from runtime.cli.worker import BACKLOG, STOP_SECONDS
from runtime.services import readiness

pytestmark = pytest.mark.long

DEPLOY = Path(__file__).parents[2] / "deploy"
PUBLIC_URL = "https://id.example"
DRAIN_SECONDS = 5  # as docs/operating/serving.md recommends
EXCHANGED = '"path":"/oauth/token"'  # in the access log of a node, of each exchange
SETTINGS = {
    "ZONED_ZONE_URL_TEMPLATE": "https://{slug}.id.example",
    "ZONED_PROXIES": "1",
    "ZONED_DRAIN_SECONDS": str(DRAIN_SECONDS),
}
# The file, and how its program is started with it; the folder is for what it writes.
PROXIES = {
    "nginx": (
        "nginx/zoned.conf",
        ["nginx", "-p", "{folder}", "-c", "{folder}/nginx.conf", "-g", "daemon off;"],
    ),
    "caddy": ("caddy/Caddyfile", ["caddy", "run", "--adapter", "caddyfile", "--config", "{file}"]),
    "haproxy": ("haproxy/haproxy.cfg", ["haproxy", "-db", "-f", "{file}"]),
}
NGINX = """\
user {account};
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {file};
}}
"""


@dataclass
class Site:
    """Two nodes and the proxy in front of them, as callers see both."""

    nodes: tuple[Node, Node]
    port: int
    certificate: Path

    @contextmanager
    def client(self, host: str) -> Iterator["Caller"]:
        """A caller of one host name, by connections that it keeps."""
        with httpx.Client(verify=trusting(self.certificate), trust_env=False, timeout=60) as client:
            yield Caller(client, f"https://127.0.0.1:{self.port}", host)


@dataclass
class Caller:
    client: httpx.Client
    address: str
    host: str

    def request(self, method: str, path: str, **more: object) -> httpx.Response:
        """Ask for a path at the host."""
        headers = {"Host": self.host, **more.pop("headers", {})}  # type: ignore[dict-item]
        extensions = {"sni_hostname": self.host}
        return self.client.request(
            method,
            self.address + path,
            headers=headers,
            extensions=extensions,
            **more,  # type: ignore[arg-type]
        )


@pytest.fixture(scope="module")
def nodes(
    postgres: PostgresServer, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Node, Node]]:
    """Both, with an organization and the zone `acme`; tests that stop one start it again."""
    redis_server.clear()
    folder = tmp_path_factory.mktemp("nodes")
    database_url = asyncio.run(postgres.migrated())
    storage = {"ZONED_DATABASE_URL": database_url, "ZONED_REDIS_URL": redis_server.url}
    settings = storage | SETTINGS | {"ZONED_ACCESS_LOG": "json"}
    made = Node(folder, settings), Node(folder, settings)
    for node in made:
        node.public_url = PUBLIC_URL
    made[0].init()
    made[1].organization_id, made[1].api_key = made[0].organization_id, made[0].api_key
    try:
        for node in made:
            node.start(seconds=120)
        yield made
    finally:
        for node in made:
            node.kill()
        asyncio.run(postgres.drop(database_url))


@pytest.fixture(params=PROXIES)
def site(request: pytest.FixtureRequest, nodes: tuple[Node, Node], tmp_path: Path) -> Iterator[Site]:
    """A proxy with its file as it is, but for addresses and where the certificate is."""
    name = request.param
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} on this machine")
    certificate = self_signed(tmp_path / "id.example.pem", "id.example", also=["*.id.example"])
    file, command = PROXIES[name]
    port, text = acme.free_port(), (DEPLOY / file).read_text()
    for old, new in (
        ("10.0.0.11:8080", f"127.0.0.1:{nodes[0].port}"),
        ("10.0.0.12:8080", f"127.0.0.1:{nodes[1].port}"),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("bind :443 ssl", f"bind 127.0.0.1:{port} ssl"),
        (
            "https://id.example, https://*.id.example {",
            f"https://id.example:{port}, https://*.id.example:{port} {{",
        ),
        ("/etc/zoned/tls/id.example.crt", str(certificate)),
        ("/etc/zoned/tls/id.example.key", str(certificate)),
        ("/etc/zoned/tls/id.example.pem", str(certificate)),
    ):
        text = text.replace(old, new)
    written = tmp_path / Path(file).name
    written.write_text(text)
    (tmp_path / "nginx.conf").write_text(
        NGINX.format(folder=tmp_path, file=written, account=getpass.getuser())
    )
    arguments = [part.format(folder=tmp_path, file=written) for part in command]
    log = tmp_path / "proxy.log"
    with log.open("wb") as output:
        environment = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
        process = subprocess.Popen(arguments, stdout=output, stderr=output, env=environment)
    made = Site(nodes, port, certificate)
    try:
        with made.client("id.example") as base:

            def answers() -> bool:
                assert process.poll() is None, log.read_text()
                try:
                    return base.request("GET", "/openapi.json").status_code == 200
                except httpx.TransportError:
                    return False

            wait_until(answers, seconds=60, otherwise=log.read_text)
        yield made
    finally:
        process.terminate()
        process.wait(20)


@dataclass(frozen=True)
class Exchange:
    """A request for a token with somebody's authority: the host of its zone, and the form."""

    host: str
    form: dict[str, str]


@pytest.fixture(scope="module")
def exchange(nodes: tuple[Node, Node]) -> Exchange:
    """One that may be sent again and again."""
    return asyncio.run(prepare_exchange(nodes[0]))


async def prepare_exchange(node: Node) -> Exchange:
    """Make a zone with an agent and an API, and sign somebody in."""
    names = ("database_url", "redis_url", "zone_url_template")
    settings = {name: node.settings[f"ZONED_{name.upper()}"] for name in names}
    async with opened_parts(node.directory, public_url=PUBLIC_URL, **settings) as services:
        company = await found_company(services, "Shop")
        zone = await company.zone("Shop")
        api = await company.resource(zone, "https://api.shop.example")
        agent = await company.app(zone, "agent", dependencies=[api])
        token = await company.token(zone, agent, await company.person(zone, "ann@shop.example"))
        issuer = (await services.zones.get(zone.id)).issuer
    return Exchange(issuer.removeprefix("https://"), acme.exchange_form(token, api.identifier) | agent.form)


class Asking(threading.Thread):
    """Asks the same on one connection to the proxy until told otherwise.

    Attributes:
        told: the status of each answer.
        failed: what went wrong where there was none.
        is_over: is set when it is to end.
    """

    def __init__(self, site: Site, host: str, method: str, path: str, request: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self._site, self._host, self._method, self._path, self._request = site, host, method, path, request
        self.told: list[int] = []
        self.failed: list[str] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        with self._site.client(self._host) as caller:
            while not self.is_over.is_set():
                try:
                    answer = caller.request(self._method, self._path, **self._request)
                    self.told.append(answer.status_code)
                except httpx.TransportError as failure:
                    self.failed.append(repr(failure))


def make_zone(caller: Caller, key: str, name: str) -> dict[str, object]:
    answer = caller.request("POST", "/zones", json={"name": name}, headers={"Authorization": f"Bearer {key}"})
    assert answer.is_success, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("file", [file for file, _ in PROXIES.values()])
def test_each_proxy_tells_the_scheme_of_its_caller(file: str) -> None:
    """A zone that was moved from http to https is known by it."""
    assert "X-Forwarded-Proto" in (DEPLOY / file).read_text("utf-8")


@pytest.mark.parametrize(
    ("file", "setting"),
    [("haproxy/haproxy.cfg", r"timeout check (\d+)s"), ("caddy/Caddyfile", r"health_timeout (\d+)s")],
)
def test_each_health_check_outwaits_readiness(file: str, setting: str) -> None:
    """A database that is slow to answer takes no node out of service."""
    (seconds,) = re.findall(setting, (DEPLOY / file).read_text("utf-8"))
    assert int(seconds) > max(readiness.DATABASE_SECONDS, readiness.STATE_SECONDS)


class TestProxies:
    def test_a_zone_is_served_at_its_host(self, site: Site) -> None:
        """The management API at the base address, and at neither of them the other's."""
        with site.client("id.example") as base:
            zone = make_zone(base, site.nodes[0].api_key, "Host Mode")
        issuer = zone["protocols"]["oauth2"]["issuer"]  # type: ignore[index]
        host = issuer.removeprefix("https://")
        assert host.endswith(".id.example")
        with site.client(host) as own, site.client("other.id.example") as other:
            told = own.request("GET", "/.well-known/openid-configuration")
            unknown = other.request("GET", "/.well-known/openid-configuration")
        assert told.json()["issuer"] == issuer
        assert "max-age" in told.headers["strict-transport-security"]
        assert unknown.status_code == 404

    def test_the_address_is_the_callers(self, site: Site) -> None:
        """Whatever address a caller claims to come from: limits go by it."""
        with site.client("id.example") as base:
            ids = [
                base.request("GET", "/openapi.json", headers=claimed).headers["x-request-id"]
                for claimed in ({}, {"X-Forwarded-For": "203.0.113.7"})
            ]

        def lines() -> dict[str, dict[str, str]]:
            said = [line for node in site.nodes for line in node.log.read_text().splitlines()]
            found = [json.loads(line) for line in said if line.startswith("{")]
            return {each["request_id"]: each for each in found if "request_id" in each}

        wait_until(lambda: set(ids) <= set(lines()), seconds=20)
        assert {lines()[each]["address"] for each in ids} == {"127.0.0.1"}

    def test_what_is_for_operators_stays_inside(self, site: Site) -> None:
        """Nodes answer it; through the proxy nobody gets it, at any host."""
        for path in ("/metrics", "/healthz", "/readyz"):
            assert (
                httpx.get(f"http://127.0.0.1:{site.nodes[0].port}{path}", trust_env=False).status_code == 200
            )
            for host in ("id.example", "acme.id.example"):
                with site.client(host) as caller:
                    spellings = (path, f"{path}/", f"/{path}", f"{path}//", f"{path}?a=b", f"/.{path}")
                    assert {caller.request("GET", each).status_code for each in spellings} == {404}

    def test_a_large_changeset_comes_through(self, site: Site) -> None:
        """Proxies refuse what is larger than a megabyte, unless they are told."""
        body = json.dumps({"operations": [{"padding": "x" * 100_000}] * 50}).encode()
        headers = {
            "Authorization": f"Bearer {site.nodes[0].api_key}",
            "Content-Type": "application/json",
        }
        path = f"/organizations/{site.nodes[0].organization_id}/changesets"
        with site.client("id.example") as base:
            answer = base.request("POST", path, content=body, headers=headers)
        assert answer.status_code == 400, answer.text
        assert answer.json()["code"] == "validation_error"  # the service's word, not the proxy's

    def test_a_node_that_stops_costs_no_request(self, site: Site, exchange: Exchange) -> None:
        """It is asked to stop under load, and is started again; callers keep their connections.

        Neither do token requests fail, which no proxy may send twice, nor what only reads.
        """
        first, process = site.nodes[0], site.nodes[0].process
        assert process is not None
        reading = {"headers": {"Authorization": f"Bearer {first.api_key}"}}
        callers = [
            *(Asking(site, exchange.host, "POST", "/oauth/token", {"data": exchange.form}) for _ in range(4)),
            Asking(site, "id.example", "GET", "/zones?limit=1", reading),
        ]

        def wait_for_more() -> None:
            before = [len(each.told) for each in callers]
            wait_until(
                lambda: all(len(each.told) > old + 50 for each, old in zip(callers, before, strict=True)),
                seconds=60,
            )

        for each in callers:
            each.start()
        try:
            wait_for_more()
            process.terminate()
            assert process.wait(60) == 0
            wait_for_more()
            first.start(seconds=120)
            exchanged = first.log.read_text().count(EXCHANGED)
            wait_until(lambda: first.log.read_text().count(EXCHANGED) > exchanged + 50, seconds=60)
            wait_for_more()
        finally:
            for each in callers:
                each.is_over.set()
            for each in callers:
                each.join(60)
            if first.process is None or first.process.poll() is not None:
                first.start(seconds=120)
        assert [each.failed for each in callers] == [[]] * len(callers)
        assert {status for each in callers for status in each.told} == {200}


class Activated(acme.Server):
    """A server whose socket is passed to it, as systemd does."""

    passed: socket.socket

    def start(self, *, seconds: float = 90) -> None:
        """Start, and do not wait until it serves."""
        # Between fork and exec: the descriptor and the process id are those of the program itself then.
        wrapper = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3); os.set_inheritable(3, True); "
            "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2]); "
            "os.execv(sys.argv[3], sys.argv[3:])"
        )
        number = self.passed.fileno()
        self.process = subprocess.Popen(
            [sys.executable, "-c", wrapper, str(number), "1", *acme.command("zoned"), "serve"],
            env=self.environment,
            pass_fds=[number],
            stdout=subprocess.DEVNULL,
            stderr=self.log.open("ab"),
        )


@pytest.fixture
def activated(tmp_path: Path) -> Iterator[Activated]:
    made = Activated(tmp_path / "data")
    made.init()
    with socket.create_server(("127.0.0.1", made.port)) as made.passed:
        yield made
        made.stop()


def longest_queue(listening: socket.socket) -> int:
    """How many connections may wait to be accepted: `tcpi_sacked` of tcp(7), for a socket that listens."""
    return int(struct.unpack_from("I", listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64), 28)[0])


class TestSystemd:
    def test_connections_wait_while_the_service_is_restarted(self, activated: Activated) -> None:
        """None is refused: the socket belongs to systemd, before the first start and after each stop."""
        statuses = []
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", activated.port), timeout=90) as early:
                early.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                activated.start()
                statuses.append(early.recv(100).split(b"\r\n")[0])
                activated.stop()
        assert statuses == [b"HTTP/1.1 200 OK"] * 2, activated.log.read_text()

    def test_as_many_connections_may_wait_as_the_socket_unit_says(self, activated: Activated) -> None:
        """Also once the service has listened there, and while it is restarted."""
        unit = configparser.RawConfigParser(strict=False)
        unit.read(DEPLOY / "systemd/zoned.socket")
        assert int(unit["Socket"]["Backlog"]) == BACKLOG
        activated.passed.listen(BACKLOG)
        before = longest_queue(activated.passed)
        activated.start()
        assert httpx.get(f"{activated.url}/readyz", trust_env=False, timeout=90).status_code == 200
        assert longest_queue(activated.passed) == before > 100

    def test_the_socket_of_another_process_is_not_taken(self, make_server, monkeypatch) -> None:  # type: ignore[no-untyped-def]
        """A variable that was inherited says nothing of this process, which listens on its own address."""
        server = make_server(LISTEN_PID="1", LISTEN_FDS="1")
        server.start()
        assert httpx.get(f"{server.url}/readyz", trust_env=False).status_code == 200

    def test_settings_of_the_unit_are_settings(self) -> None:
        """The unit starts `zoned serve` on the address of its socket, and outwaits its shutdown."""
        unit = configparser.RawConfigParser(strict=False)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read(DEPLOY / "systemd/zoned.service")
        assert unit["Service"]["ExecStart"].endswith("/bin/zoned serve")
        assert unit["Unit"]["Requires"] == "zoned.socket"
        assert int(unit["Service"]["TimeoutStopSec"]) > STOP_SECONDS + DRAIN_SECONDS

    @needs_systemd
    def test_the_units_are_what_systemd_reads(self, tmp_path: Path) -> None:
        """Every name and value; with the program where one is."""
        for name in ("zoned.service", "zoned.socket"):
            text = (DEPLOY / "systemd" / name).read_text()
            (tmp_path / name).write_text(text.replace("/opt/zonewright/bin/zoned", acme.command("zoned")[0]))
        assert complaints(tmp_path / "zoned.service") == []

"""A peer as the yardstick: exchanges beside the grants of node-oidc-provider, in turns, on the same machine.

The peer is a certified authorization server that has everything in memory. Its client-credentials grant signs
a token each time. Node.js and npm have to be there; npm installs the packages that
`benchmarks/peer/package-lock.json` names into a folder of the environment.

Both answer the same load generator over as many kept connections, with a secret in the form and a JWT in the
answer. The peer does less: it checks no subject token, session, consent or policy, and records nothing.

It also signs in threads of its own, so that on two cores it may take what the generator leaves of the other
one. Therefore all is measured twice: with one core for the server, threads included, and the rest for the
generator; and as the system places them. The floors are of one core, where both servers have as much. What is
left of the other one for the peer's threads is a matter of the generator and the machine, so what is measured
on any core has no verdict. What does not depend on who else uses the machine is how long a request keeps a
core busy, all threads of the server counted.
"""

import contextlib
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from acme import Server, free_port

from benchmarks import cores
from benchmarks.exchange import SCOPES, TOOLS, Stage, exchange_form, prepare, row
from benchmarks.load import Load
from benchmarks.servers import empty_sanic
from benchmarks.table import Row
from benchmarks.turns import Asked

_SOURCE = Path(__file__).resolve().parent / "peer"
_INSTALLED = Path(sys.prefix) / "peer"
_ROUNDS = 3
_WARM_UP_SECONDS = 3.0  # until Node.js has compiled what it runs


class PeerUnavailable(Exception):
    """The peer cannot be run here; the message says what is missing."""


@dataclass(frozen=True)
class Goal:
    """How many times as many requests a second as the peer: the least, and what is aimed at."""

    floor: float
    aim: float


# What is measured, by algorithm: a warm exchange signs nothing.
GOALS = {
    ("warm", "ES256"): Goal(1.6, 2.5),
    ("cold", "ES256"): Goal(1.1, 1.5),
    ("cold", "RS256"): Goal(1.0, 1.3),
}


def measure(directory: Path) -> Iterator[Row]:
    """A row for the peer and for each sort of exchange, by algorithm. Raises PeerUnavailable."""
    folder = install()
    server = Server(directory / "peers")
    server.init()
    server.start()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(server.stop)
        stage = prepare(server, directory / "config-peers")
        for algorithm in ("ES256", "RS256"):
            server.run("keys", "use", "--zone", "acme-product", "--algorithm", algorithm)
            for one_core in (True, False) if cores.can_be_shared_out() else (False,):
                server.stop()
                yield from _placed(server, stage, folder, algorithm, one_core=one_core)


def _placed(server: Server, stage: Stage, folder: Path, algorithm: str, *, one_core: bool) -> Iterator[Row]:
    """The rows of one algorithm, with one core for each server, or with any.

    Args:
        server: does not run yet.
    """
    address, body = f"{stage.agent.issuer}/oauth/token", urlencode(exchange_form(stage))
    with contextlib.ExitStack() as cleanup:
        with cores.started_on(cores.SERVER if one_core else None):
            server.start()
            empty_address = cleanup.enter_context(empty_sanic())
            peer = cleanup.enter_context(running(folder, algorithm))
        loads = {
            "empty": Asked(Load(f"{empty_address}/empty", body)),
            "peer": peer,
            "warm": Asked.of(server, Load(address, body)),
            "cold": Asked.of(server, Load(address, body, scopes=SCOPES)),
        }
        with cores.started_on(cores.LOAD if one_core else None):
            yield from _compared(algorithm, loads, one_core=one_core)


def _compared(algorithm: str, loads: dict[str, Asked], *, one_core: bool) -> Iterator[Row]:
    """The rows of one algorithm. Each load has its turn in every round, so that all meet the same machine."""
    told = [{name: each.put() for name, each in loads.items()} for _ in range(_ROUNDS)]
    place = "one core" if one_core else "any core"
    rounds = [{name: turn.outcome for name, turn in each.items()} for each in told]
    rates = {name: median(each[name].rate for each in rounds) for name in loads}
    busy = {name: median(each[name].busy_us for each in told) for name in loads}
    yield row(f"peer, client credentials, {algorithm}, {place}", rounds[-1]["peer"], rates["empty"])
    for name in ("warm", "cold"):
        if (goal := GOALS.get((name, algorithm))) is not None:
            ratio = median(each[name].rate / each["peer"].rate for each in rounds)
            beside_peer = compared(ratio, goal if one_core else None)
            yield Row(
                f"exchange, {name}, {algorithm}, SQLite, {place}",
                rates[name],
                rates["empty"],
                f"{beside_peer}; {busy[name]:.0f} µs of a core, the peer {busy['peer']:.0f}",
            )


def compared(ratio: float, goal: Goal | None) -> str:
    """What the table says of a rate beside the peer's; without a goal there is no verdict."""
    if goal is None:
        return f"{ratio:.2f} times the peer (no verdict: it signs on the generator's core, too)"
    met = "" if ratio >= goal.floor else ", BELOW THE FLOOR"
    return f"{ratio:.2f} times the peer (floor {goal.floor}, aim {goal.aim}){met}"


def install() -> Path:
    """The folder with the peer and its packages. Raises PeerUnavailable."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise PeerUnavailable(f"PEERS=1 runs node-oidc-provider, and there is no `{program}` here")
    lock, installed = _SOURCE / "package-lock.json", _INSTALLED / "package-lock.json"
    is_there = installed.exists() and installed.read_bytes() == lock.read_bytes()
    shutil.copytree(_SOURCE, _INSTALLED, dirs_exist_ok=True)
    if not is_there or not (_INSTALLED / "node_modules").exists():
        done = subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund"],
            cwd=_INSTALLED,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            installed.unlink()
            raise PeerUnavailable(f"npm could not install the peer:\n{done.stderr[-2000:]}")
    return _INSTALLED


@contextlib.contextmanager
def running(folder: Path, algorithm: str) -> Iterator[Asked]:
    """The peer as a process, and a request for a token of it."""
    port, client_id, secret = free_port(), "agent", secrets.token_urlsafe(32)
    process = subprocess.Popen(
        ["node", "server.mjs", str(port), algorithm, client_id, secret, TOOLS],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        if process.stdout is None or process.stdout.readline().strip() != "ready":
            raise PeerUnavailable("the peer does not start: `node server.mjs` in the folder says why")
        form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": secret,
            "resource": TOOLS,
            "scope": "tool.use",
        }
        load = Load(f"http://127.0.0.1:{port}/token", urlencode(form), warm_up=_WARM_UP_SECONDS)
        yield Asked(load, process.pid)
    finally:
        process.terminate()
        process.wait(10)

"""`zonectl` over generated configurations: validate, apply of creates, a plan that finds nothing changed."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from acme import Server, Unexpected, clean_environment, command

from benchmarks.cores import busy_seconds
from benchmarks.exchange import put
from benchmarks.load import Load
from benchmarks.servers import empty_sanic
from benchmarks.table import Row

SIZES = (1_000, 10_000, 100_000)
_PER_FILE = 25
_CHANGES, _REFUSED, _BEYOND_BUDGET = 2, 1, 5  # exit codes of `zonectl plan`

_HEAD = "apiVersion: zonewright/v1\nkind: {kind}\nmetadata: {{zone: bench, name: {name}}}\nspec:\n"
_SPECS = {
    "Resource": """\
  name: API {n}
  identifier: https://api-{n}.acme.example/v1
  scopes: [read, write]
  credential_provider: {{external: service-sts}}
""",
    "Application": """\
  name: Service {n}
  description: One of many
  consent: implicit
  protocols:
    oauth2:
      redirect_uris: ["https://app-{n}.acme.example/callback"]
  dependencies: [resource-{below}]
""",
    "Role": """\
  description: May do what number {n} needs
""",
    "Group": """\
  name: Team {n}
  members: [ada-{n}@acme.example, grace-{n}@acme.example]
""",
}
_WRONG = "  description: The same name as another\n  identifier: role-2\n"


def generate(directory: Path, count: int) -> None:
    """Write a configuration of *count* manifests, one of them the zone that all others are in."""
    directory.mkdir(parents=True)
    (directory / "zonectl.yaml").write_text("owner: acme/bench\n")
    zone = "apiVersion: zonewright/v1\nkind: Zone\nmetadata: {name: bench}\nspec: {name: Bench}\n"
    documents = [zone]
    for number in range(count - 1):
        kind, spec = list(_SPECS.items())[number % len(_SPECS)]
        head = _HEAD.format(kind=kind, name=f"{kind.lower()}-{number}")
        documents.append(head + spec.format(n=number, below=number - number % len(_SPECS)))
    for start in range(0, count, _PER_FILE):
        file = directory / f"{start // _PER_FILE:04}.yaml"
        file.write_text("---\n".join(documents[start : start + _PER_FILE]), "utf-8")


def measure(directory: Path, only: set[str]) -> Iterator[Row]:
    """Rows of validate, plan and apply for each size, those of them that *only* names."""
    with empty_sanic() as url:
        empty = put(Load(f"{url}/empty", "a=b", seconds=3)).rate
    for size in SIZES:
        config = directory / f"manifests-{size}"
        generate(config, size)
        run = _Runs(Server(directory / f"server-{size}"), directory / f"cache-{size}", size, empty)
        if "validate" in only:
            for state in ("cold", "warm"):
                yield run.row(f"validate, {state}, {size:,} manifests", "validate", str(config))
        if only & {"apply", "plan"}:
            run.server.init()
            run.server.start()
            try:
                yield from _against(run, config, size, only)
            finally:
                run.server.stop()


def _against(run: "_Runs", config: Path, size: int, only: set[str]) -> Iterator[Row]:
    creating = []
    if "plan" in only:
        # The first one also parses the manifests, and finds a server that has done nothing yet.
        creating = [
            run.row(f"plan, {size:,} creates, {state}", "plan", str(config), expect=_CHANGES)
            for state in ("cold", "warm")
        ]
    apply = run.row(f"apply, {size:,} creates", "apply", str(config), "--yes")
    for each in creating:
        yield replace(each, note=f"{each.note}, {apply.rate / each.rate:.2f} of the apply")
    if "apply" in only:
        yield apply
    if "plan" in only:
        shutil.rmtree(run.cache, ignore_errors=True)
        for state in ("cold", "warm"):
            yield run.row(f"plan, nothing changed, {state}, {size:,}", "plan", str(config))
        wrong = config / "wrong.yaml"
        wrong.write_text(_HEAD.format(kind="Role", name="wrong") + _WRONG, "utf-8")
        _touch_all(config)
        yield run.row(f"plan, {size // 4:,} updates and one refused", "plan", str(config), expect=_REFUSED)
        for file in config.glob("[0-9w]*.yaml"):
            if file.name != "0000.yaml":
                file.unlink()
        yield run.row(f"plan, {size:,} deletions", "plan", str(config), expect=_BEYOND_BUDGET)


def _touch_all(config: Path) -> None:
    """Change every application."""
    for file in config.glob("[0-9]*.yaml"):
        file.write_text(file.read_text("utf-8").replace("One of many", "One of very many"), "utf-8")


@dataclass(frozen=True)
class _Runs:
    """Runs of `zonectl` against one server, each a row.

    Its note says how long it took, how long `zonectl` and the server kept a core busy, and how much memory
    they held at most.
    """

    server: Server
    cache: Path
    size: int
    empty: float

    def row(self, what: str, *arguments: str, expect: int = 0) -> Row:
        """Run a command. Raises Unexpected when it exits otherwise."""
        settings = self.server.client_settings | {"ZONECTL_CACHE_DIR": str(self.cache)}
        with tempfile.TemporaryFile() as said:
            started, busy = time.perf_counter(), _busy(self.server)
            process = subprocess.Popen(
                [*command("zonectl"), *arguments],
                env=clean_environment(**settings),
                stdout=said,
                stderr=subprocess.STDOUT,
            )
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - started
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != expect:
                said.seek(0)
                raise Unexpected(f"{what}: exit {process.returncode}\n{said.read().decode()[-2000:]}")
        held, worked = [f"{used.ru_maxrss // 1024:,}"], [f"{used.ru_utime + used.ru_stime:.2f}"]
        if (of_server := _most_memory(self.server)) is not None:
            held.append(f"{of_server:,}")
        if busy is not None:
            worked.append(f"{(_busy(self.server) or busy) - busy:.2f}")
        note = f"{seconds:.2f} s ({' + '.join(worked)} of a core), {' + '.join(held)} MiB"
        return Row(what, self.size / seconds, self.empty, note)


def _busy(server: Server) -> float | None:
    """How long the server's process has kept cores busy, in seconds; None where nobody says."""
    return busy_seconds(server.process.pid) if server.process else None


def _most_memory(server: Server) -> int | None:
    """MiB that the server's process has held at most; None where the system does not say so."""
    try:
        status = Path(f"/proc/{server.process.pid}/status").read_text("ascii") if server.process else ""
    except OSError:
        return None
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) // 1024 if found else None

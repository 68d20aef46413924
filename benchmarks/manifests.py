"""`zonectl` over generated configurations: validate, apply of creates, a plan that finds nothing changed."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from acme import Server

from benchmarks.exchange import put
from benchmarks.load import Load
from benchmarks.servers import empty_sanic
from benchmarks.table import Row

SIZES = (1_000, 10_000)
_PER_FILE = 25

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
    """Rows of validate, apply and plan for each size, those of them that *only* names."""
    with empty_sanic() as url:
        empty = put(Load(f"{url}/empty", "a=b", seconds=3)).rate
    for size in SIZES:
        config = directory / f"manifests-{size}"
        generate(config, size)
        server = Server(directory / f"server-{size}")
        cache = directory / f"cache-{size}"
        if "validate" in only:
            for state in ("cold", "warm"):
                seconds = _timed(server, cache, "validate", str(config))
                yield _row(f"validate, {state}, {size:,} manifests", size, seconds, empty)
        if only & {"apply", "plan"}:
            server.init()
            server.start()
            try:
                yield from _against(server, cache, config, size, empty, only)
            finally:
                server.stop()


def _against(
    server: Server, cache: Path, config: Path, size: int, empty: float, only: set[str]
) -> Iterator[Row]:
    seconds = _timed(server, cache, "apply", str(config), "--yes")
    if "apply" in only:
        yield _row(f"apply, {size:,} creates", size, seconds, empty)
    if "plan" in only:
        shutil.rmtree(cache, ignore_errors=True)
        for state in ("cold", "warm"):
            seconds = _timed(server, cache, "plan", str(config))
            yield _row(f"plan, nothing changed, {state}, {size:,}", size, seconds, empty)


def _timed(server: Server, cache: Path, *arguments: str) -> float:
    started = time.perf_counter()
    server.zonectl(*arguments, ZONECTL_CACHE_DIR=str(cache))
    return time.perf_counter() - started


def _row(what: str, size: int, seconds: float, empty: float) -> Row:
    return Row(what, size / seconds, empty, f"{seconds:.2f} s")

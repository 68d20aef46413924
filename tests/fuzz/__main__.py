"""`make fuzz`: a long run of schemathesis, and of chains of exchanges, on both databases."""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.fuzz.running import fuzz
from tests.support import attenuated_zone, attenuation, chains
from tests.support.postgres import running_postgres
from tests.support.redis import running_redis
from tests.support.server import Server, serve


def main() -> int:
    """Fuzz a server over each kind of storage. 1 when one of them failed a check."""
    arguments = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    arguments.add_argument("--examples", type=int, default=100, help="requests an operation gets at most")
    arguments.add_argument("--seed", type=int, default=int(time.time()), help="to repeat a run")
    arguments.add_argument("--chains", type=int, default=2_000, help="chains of exchanges, 50 a second or so")
    arguments.add_argument("--steps", type=int, default=1_000_000, help="which must widen nothing")
    arguments.add_argument("--phases", default="coverage,fuzzing", help="of schemathesis")
    arguments.add_argument("--on", default="sqlite,postgresql", help="which storages, with commas")
    asked = arguments.parse_args()
    print(f"seed {asked.seed}")
    passed = not asked.steps or _attenuated(asked.steps)
    with tempfile.TemporaryDirectory(prefix="zonewright-fuzz-") as directory:
        for storage in asked.on.split(","):
            with served(storage, Path(directory) / storage) as server:
                print(f"== {storage}")
                if asked.examples:
                    outcome = fuzz(
                        server, Path(directory), phases=asked.phases, examples=asked.examples, seed=asked.seed
                    )
                    print(outcome.report)
                    passed &= outcome.passed
                if asked.chains:
                    passed &= _chained(server, asked.chains, asked.seed)
    return 0 if passed else 1


def _attenuated(steps: int) -> bool:
    """Take random steps over the pure core, a hundredth as many in a zone; whether nothing has widened."""
    try:
        print(attenuation.run(steps))
        print(attenuated_zone.run(steps // 100))
    except AssertionError as failure:
        print(f"a token is wider than what it is made from: {failure}")
        return False
    return True


def _chained(server: Server, count: int, seed: int) -> bool:
    """Walk chains of exchanges, and tell what came of them; whether each was as it had to be."""
    try:
        print(chains.walk(chains.estates(server, Random(seed), 20), examples=count, chance=seed))
    except AssertionError as failure:
        print(f"a chain of exchanges: {failure}")
        return False
    return True


@contextlib.contextmanager
def served(storage: str, directory: Path) -> Iterator[Server]:
    """A server over `sqlite` alone, or over `postgresql` with Redis."""
    with contextlib.ExitStack() as stack:
        settings = {}
        if storage == "postgresql":
            postgres = stack.enter_context(running_postgres())
            settings["database_url"] = asyncio.run(postgres.migrated())
            settings["redis_url"] = stack.enter_context(running_redis()).url
        yield stack.enter_context(serve(directory, **settings))


if __name__ == "__main__":
    sys.exit(main())

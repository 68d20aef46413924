"""No chain of exchanges gains authority at a server, whatever it is asked over HTTP along the way."""

import asyncio
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support import chains
from tests.support.server import serve

pytestmark = pytest.mark.long

CHAINS = 250  # `make fuzz` walks as many as it is told to
SECONDS = 10.0
FEWEST = 25  # on the slowest machine


@pytest.mark.threat("15d", "16e")
@pytest.mark.parametrize("storage", ["sqlite", "postgresql"])
def test_chains_never_grow(request: pytest.FixtureRequest, tmp_path: Path, storage: str) -> None:
    """Exactly what may be had is issued, and everything else is refused with a code that says why.

    Generated chains of up to eight exchanges, over zones set up by chance: more scopes, resources that nobody
    declared, agreed to or knows, two at once, other audiences, refresh tokens, tokens in wrong hands.
    """
    settings: dict[str, Any] = {}
    if storage == "postgresql":
        settings["database_url"] = asyncio.run(request.getfixturevalue("postgres").migrated())
        settings["redis_url"] = request.getfixturevalue("redis_url")
    with serve(tmp_path, **settings) as server:
        made = chains.estates(server, Random(storage), 6)
        ends = time.monotonic() + SECONDS
        tally = chains.walk(made, examples=CHAINS, chance=16, until=lambda: time.monotonic() > ends)

    assert tally.chains >= FEWEST
    assert tally.issued > tally.chains / 2, "it is no proof when most of it is refused"
    assert tally.deepest >= 3
    assert tally.refused.keys() >= {"invalid_target", "invalid_scope", "invalid_grant"}

"""The comparison with another server: its packages come from whatever index npm is set to, as they were."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from benchmarks import cores, peers  # noqa: E402


def test_the_lock_pins_packages_by_digest_and_names_no_index() -> None:
    """Whoever installs the peer gets these packages, from the index that they have chosen."""
    lock = json.loads((ROOT / "benchmarks/peer/package-lock.json").read_text("utf-8"))
    packages = {name: each for name, each in lock["packages"].items() if name}

    assert "node_modules/oidc-provider" in packages
    assert {name for name, each in packages.items() if "integrity" not in each} == set()
    assert {name for name, each in packages.items() if "resolved" in each} == set()


@pytest.mark.parametrize(("ratio", "is_below"), [(1.6, False), (1.59, True)])
def test_the_table_says_when_a_rate_is_below_its_floor(ratio: float, is_below: bool) -> None:
    """A rate at the floor has met it; one below is marked."""
    told = peers.compared(ratio, peers.Goal(floor=1.6, aim=2.5))

    assert ("BELOW THE FLOOR" in told) is is_below


def test_a_rate_on_any_core_has_no_verdict() -> None:
    """There the peer has what the load generator leaves of its core, and the word says so."""
    told = peers.compared(0.5, None)

    assert told == "0.50 times the peer (no verdict: it signs on the generator's core, too)"


@pytest.mark.skipif(not cores.can_be_shared_out(), reason="one core, or a system that does not let choose")
def test_server_and_load_have_cores_of_their_own() -> None:
    """What is started as the one shares no core with the other's; afterwards all are free."""
    free = os.sched_getaffinity(0)
    placed = {}
    for part in (cores.SERVER, cores.LOAD, None):
        with cores.started_on(part):
            told = subprocess.run(
                [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"],
                capture_output=True,
                text=True,
                check=True,
            )
        placed[part] = set(map(int, told.stdout.split()))

    assert len(placed[cores.SERVER]) == 1
    assert placed[cores.LOAD] == free - placed[cores.SERVER]
    assert placed[None] == os.sched_getaffinity(0) == free


@pytest.mark.skipif(cores.busy_seconds(os.getpid()) is None, reason="the system does not say it")
def test_a_process_is_busy_for_as_long_as_it_computes() -> None:
    """What this process has used, by two ways to ask; of a process that is gone nothing is known."""
    before = cores.busy_seconds(os.getpid())
    used = sum(os.times()[:2])
    after = cores.busy_seconds(os.getpid())

    assert before is not None
    assert after is not None
    assert before - 0.02 <= used <= after + 0.02
    assert cores.busy_seconds(2**22 + 1) is None

"""The comparison with another server: its packages come from whatever index npm is set to, as they were."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from benchmarks import peers  # noqa: E402


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

"""Upgrades under load, without one failed exchange, and with nodes of both releases at work."""

import json
from pathlib import Path

import pytest
from tests.end_to_end.fleet import Node
from tests.shipping import releases
from tests.shipping.rolling import failures, run_by, running
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer

pytestmark = pytest.mark.long


@pytest.fixture(params=["from the previous release", "to the next release"])
def trees(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """The release before an upgrade, and the one after it."""
    if request.param == "to the next release":
        return releases.ROOT, releases.following(tmp_path / "next")
    return releases.previous(tmp_path / "previous"), releases.ROOT


def test_no_exchange_fails_in_an_upgrade(
    postgres: PostgresServer, redis_server: RedisServer, tmp_path: Path, trees: tuple[Path, Path]
):
    """As docs/operating/serving.md says: migrate while the older release serves, then replace each node."""
    older, newer = trees
    with running(postgres, redis_server, tmp_path, older) as platform:
        first, second = platform.nodes
        operator = Node(first.directory, run_by(first, newer))
        with platform.under_load() as ledger:
            assert "up to date" in operator.run("migrate")
            platform.go_on(ledger)
            platform.restart(second)  # the older release, anew, on the newer database
            findings = json.loads(second.run("doctor", "--json"))["findings"]
            platform.go_on(ledger)
            for node in platform.nodes:
                platform.restart(node, newer)
                platform.go_on(ledger)
    assert failures(ledger) == {}
    verdicts = {each["check"]: each["verdict"] for each in findings}
    assert "problem" not in verdicts.values()
    assert verdicts["schema"] == ("ok" if releases.newest(older) == releases.newest(newer) else "warning")

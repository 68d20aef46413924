"""Requests made to exhaust a parser, at a server of its own process: what they cost it, and what stays."""

from collections import Counter
from pathlib import Path

import pytest
from acme import Server
from benchmarks.exchange import prepare
from tests.soak.exhaustion import Hostile, cost, requests
from tests.soak.vitals import Vitals, settled
from tests.soak.wire import Wire

pytestmark = pytest.mark.long

TIMES = 100  # of each; the system counts processor time in hundredths of a second
# Times what a token exchange takes: the dearest was 8; 5 ms, which `make soak` holds all to, were 13. Both
# sides are measured in one run, so that a slow or a busy machine changes nothing.
MOST = 25
GROWTH = 0.25


@pytest.mark.threat("31a", "31b", "31c", "31d", "31e", "31j", "31k", "31l", "31n", "31o", "31p", "31q", "31r")
def test_what_is_hostile_is_cheap(server: Server, tmp_path: Path) -> None:
    """Each is refused for little processor time, and memory is as it was after the first of each."""
    stage, vitals = prepare(server, tmp_path / "config"), Vitals(server)
    good, *hostile = requests(server, stage)
    answered: dict[str, Counter[int]] = {each.what: Counter() for each in (good, *hostile)}

    def used(each: Hostile, times: int = TIMES) -> float:
        source = f"127.31.0.{[*answered].index(each.what) + 1}"  # so that none waits for what another did
        with Wire(server.url, source) as wire:
            return cost(wire, vitals, each, times, answered[each.what])

    for each in (good, *hostile):
        used(each, TIMES // 2)
    before = settled(vitals)
    plain = used(good, 5 * TIMES) / 5
    dear = {each.what: used(each) / plain for each in hostile}
    after = settled(vitals)

    assert not [
        (each.what, answered[each.what])
        for each in (good, *hostile)
        if not set(answered[each.what]) <= each.statuses
    ]
    assert plain > 0
    assert {what: times for what, times in dear.items() if times > MOST} == {}
    assert after <= before * (1 + GROWTH)

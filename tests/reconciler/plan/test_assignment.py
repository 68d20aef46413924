"""Assignments: as many as possible get something, at the least cost; held against trying everything."""

import itertools
from collections.abc import Mapping

import hypothesis
from hypothesis import strategies as st

from reconciler.plan.assignment import Cost, assign

COSTS = st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1))
OFFERS = st.dictionaries(
    st.sampled_from("abcde"), st.dictionaries(st.sampled_from("vwxyz"), COSTS, max_size=4), max_size=5
)


def worth(offers: Mapping[str, Mapping[str, Cost]], found: Mapping[str, str]) -> tuple[int, ...]:
    """How many have nothing, then what the rest costs."""
    costs = [offers[each][one] for each, one in found.items()]
    return (-len(found), *(sum(part) for part in zip(*costs, strict=True))) if costs else (0,)


def all_ways(offers: Mapping[str, Mapping[str, Cost]]) -> list[dict[str, str]]:
    """Every assignment in which no two get the same."""
    choices = [[None, *offered] for offered in offers.values()]
    ways = (
        {each: one for each, one in zip(offers, way, strict=True) if one}
        for way in itertools.product(*choices)
    )
    return [way for way in ways if len(set(way.values())) == len(way)]


@hypothesis.given(OFFERS)
def test_it_is_the_best_of_all_ways(offers: dict[str, dict[str, Cost]]) -> None:
    found = assign(offers)

    assert worth(offers, found) == min(worth(offers, way) for way in all_ways(offers))
    assert len(set(found.values())) == len(found)
    assert all(one in offers[each] for each, one in found.items())


def test_a_long_chain_moves_by_one() -> None:
    """Each takes what the next had, though everybody but the last could keep what they have."""
    offers = {each: {each: (0, 0), each - 1: (1, 1)} for each in range(1, 300)}
    offers[300] = {299: (0, 1)}

    assert assign(offers) == {each: each - 1 for each in range(1, 301)}

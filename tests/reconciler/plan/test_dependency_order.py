"""The topological order: dependencies come before what depends on them."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.plan.dependency_order import dependency_order

_NEEDS = st.integers(0, 12).flatmap(
    lambda count: st.lists(st.sets(st.integers(0, max(count - 1, 0))), min_size=count, max_size=count).map(
        lambda found: [needed - {position} for position, needed in enumerate(found)]
    )
)


def _reached(needs: list[set[int]], start: int) -> set[int]:
    found: set[int] = set()
    waiting = [start]
    while waiting:
        for each in needs[waiting.pop()] - found:
            found.add(each)
            waiting.append(each)
    return found


@given(_NEEDS)
def test_each_comes_once_after_all_that_it_needs_and_that_does_not_need_it(needs: list[set[int]]) -> None:
    order = dependency_order(needs)
    place = {position: number for number, position in enumerate(order)}

    assert sorted(order) == list(range(len(needs)))
    reached = [_reached(needs, position) for position in range(len(needs))]
    circling = {position for position, found in enumerate(reached) if position in found}
    late = {
        position
        for position, needed in enumerate(needs)
        if any(place[each] >= place[position] for each in needed)
    }
    # What waits for a circle is let go together with it.
    assert not [each for each in late if not circling & (reached[each] | {each})]


@given(_NEEDS)
def test_what_needs_nothing_of_later_ones_stays_where_it_is(needs: list[set[int]]) -> None:
    backwards = [{each for each in needed if each < position} for position, needed in enumerate(needs)]

    assert dependency_order(backwards) == list(range(len(needs)))


def test_a_circle_is_entered_at_its_lowest_position() -> None:
    assert dependency_order([{2}, set(), {0}]) == [1, 0, 2]


def test_a_long_chain_is_turned_round() -> None:
    count = 50_000

    assert dependency_order([{n + 1} for n in range(count - 1)] + [set()]) == list(reversed(range(count)))

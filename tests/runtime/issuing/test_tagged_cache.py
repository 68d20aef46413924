"""Tagged caches: an entry counts until one of its tags changes, whatever changes besides and in any order."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.services.zones import tagged_cache
from runtime.services.zones.tagged_cache import ChangeHistory, TaggedCache, collect, collecting

TAGS = st.frozensets(st.sampled_from("abcdef"), max_size=3)
CHANGES = st.lists(TAGS, max_size=30)


def after(history: ChangeHistory, changes: Collection[frozenset[str]]) -> None:
    for tags in changes:
        history.add(history.epoch + 1, tags)


def kept(tags: str) -> tuple[ChangeHistory, TaggedCache[str]]:
    """A cache with one entry of these tags, at epoch 7."""
    history = ChangeHistory(7)
    cache: TaggedCache[str] = TaggedCache(10, history)
    cache.keep("key", "value", tags, as_of=7)
    return history, cache


def test_what_has_not_changed_counts() -> None:
    history, cache = kept("ab")
    after(history, [frozenset("c"), frozenset("d")])
    assert (history.epoch, cache.get("key")) == (9, "value")


def test_what_has_changed_does_not() -> None:
    history, cache = kept("ab")
    assert cache.get("key") == "value"
    history.add(8, {"b"})
    assert cache.get("key") is None


def test_a_fill_that_is_late_does_not_count() -> None:
    """The query was asked before the change, and has answered after it was known."""
    history, cache = kept("a")
    as_of = history.epoch
    history.add(8, {"a"})
    cache.keep("key", "of before", "a", as_of=as_of)
    assert cache.get("key") is None
    cache.keep("key", "of now", "a", as_of=8)
    assert cache.get("key") == "of now"


def test_what_is_older_than_the_history_does_not_count() -> None:
    """A process that has begun later cannot tell what changed before."""
    _, cache = kept("a")
    cache.keep("key", "value", "a", as_of=6)
    assert cache.get("key") is None


@given(tags=TAGS, before=CHANGES, since=CHANGES)
def test_it_counts_if_none_of_its_tags_has_changed_since(
    tags: frozenset[str], before: list[frozenset[str]], since: list[frozenset[str]]
) -> None:
    history = ChangeHistory(1)
    cache: TaggedCache[str] = TaggedCache(10, history)
    after(history, before)
    cache.keep("key", "value", tags, as_of=history.epoch)
    for change in since:
        after(history, [change])
        is_there = cache.get("key") == "value"
        seen = since[: history.epoch - len(before) - 1]
        assert is_there == all(tags.isdisjoint(each) for each in seen)


@given(tags=TAGS, changes=st.lists(TAGS, min_size=1, max_size=60), at=st.integers(0, 59))
def test_a_history_that_forgets_says_since_when_it_is_complete(
    tags: frozenset[str], changes: list[frozenset[str]], at: int
) -> None:
    """Nothing that has changed is ever taken for unchanged: what cannot be told does not count."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tagged_cache, "MOST_TAGS", 3)
        history = ChangeHistory(0)
        after(history, changes)
        as_of = min(at, len(changes))
        has_changed = any(not tags.isdisjoint(each) for each in changes[as_of:])
        assert history.epoch == len(changes)
        assert max(len(history._newer), len(history._older)) <= 3
        if has_changed:
            assert history.changed_at(tags) > as_of
        elif history.changed_at(tags) > as_of:
            assert history.complete_since > as_of


def test_tags_of_what_is_looked_up_are_collected() -> None:
    """By everything around it, too: what is made of something depends on what that was made of."""
    history, cache = kept("ab")
    with collecting() as outer:
        collect("z")
        with collecting() as inner:
            cache.get("key")
            cache.get("not there")
        cache.keep("other", "value", "c", as_of=history.epoch)
    cache.get("key")

    assert (inner, outer) == ({"a", "b"}, {"a", "b", "c", "z"})

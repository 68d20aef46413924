"""The bounded cache: what it evicts, and how long keys are held."""

import pytest

from runtime.services.bounded_cache import BoundedCache


def test_a_cached_value_is_found() -> None:
    """By its key."""
    cache = BoundedCache[int](2)
    cache["a"] = 1
    assert cache.get("a") == 1


def test_a_missing_key_has_no_value() -> None:
    """`get` does not raise."""
    assert BoundedCache[int](2).get("a") is None


def test_the_oldest_entry_is_evicted_when_the_cache_is_full() -> None:
    """First in, first out: a look-up does not keep an entry."""
    cache = BoundedCache[int](2)
    cache["a"], cache["b"] = 1, 2
    cache.get("a")
    cache["c"] = 3
    assert [cache.get(key) for key in "abc"] == [None, 2, 3]


def test_replacing_a_value_evicts_nothing() -> None:
    """A full cache takes a new value of a key that it has."""
    cache = BoundedCache[int](2)
    cache["a"], cache["b"] = 1, 2
    cache["a"] = 3
    assert [cache.get(key) for key in "ab"] == [3, 2]


@pytest.mark.threat("41h")
def test_a_long_key_is_held_as_its_digest() -> None:
    """A request cannot make an entry as large as itself."""
    cache = BoundedCache[int](2)
    cache["k" * 1_000_000] = 1
    assert max(map(len, cache)) < 100


def test_a_long_key_is_found_again() -> None:
    """Its digest stands for it in every operation."""
    cache, key = BoundedCache[int](2), "k" * 1_000
    cache[key] = 1
    assert (cache.get(key), cache[key], key in cache) == (1, 1, True)


def test_long_keys_that_begin_alike_are_told_apart() -> None:
    """The digest is of the whole key."""
    cache = BoundedCache[int](2)
    cache["k" * 1_000 + "a"], cache["k" * 1_000 + "b"] = 1, 2
    assert cache.get("k" * 1_000 + "a") == 1


def test_an_entry_with_a_long_key_is_removed() -> None:
    """`pop` finds it by the same digest."""
    cache, key = BoundedCache[int](2), "k" * 1_000
    cache[key] = 1
    cache.pop(key, None)
    assert cache.get(key) is None


def test_entries_with_long_keys_are_evicted() -> None:
    """The bound counts them like any other."""
    cache = BoundedCache[int](1)
    cache["a" * 1_000], cache["b" * 1_000] = 1, 2
    assert (len(cache), cache.get("a" * 1_000)) == (1, None)

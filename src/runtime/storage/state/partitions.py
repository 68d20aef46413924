"""A bounded dictionary partitioned by flow and zone: one zone's entries evict none of another's.

A share is what the first two parts of a key name, `kind:zone`. Each kind has a bound for what one zone may
have of it; where all shares together are too much, the largest makes room.

No cache of cachetools does this: those evict when they are full, where a replay mark must be refused instead,
and each has a bound of its own, where the shares here, thousands of small ones, have a bound in common.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain

Entry = tuple[float, bytes]  # until when, and the value


class PartitionedEntries:
    """A bounded dictionary of entries, which knows the oldest of each share.

    Args:
        capacity: entries of all shares. A share that has less than its part may go beyond that.
        bounds: kind -> entries that one zone may have of it. A kind that is not named is a mistake; None lets
            each share have all there is.
    """

    def __init__(self, capacity: int, bounds: Mapping[str, int] | None) -> None:
        self._capacity = capacity
        self._bounds = bounds
        self._shares: dict[str, dict[str, Entry]] = {}
        self._held = 0

    def __len__(self) -> int:
        return self._held

    def get(self, key: str) -> Entry | None:
        """What is held under the key, expired or not."""
        share = self._shares.get(_share_of(key))
        return share.get(key) if share is not None else None

    def items(self) -> Iterator[tuple[str, Entry]]:
        """Every key with what is held under it, expired or not."""
        return chain.from_iterable(share.items() for share in self._shares.values())

    def set(self, key: str, entry: Entry) -> None:
        """Hold an entry in place of one that is there, or beside all others: whoever adds has made room."""
        share = self._shares.setdefault(_share_of(key), {})
        self._held += key not in share
        share[key] = entry

    def pop(self, key: str) -> None:
        """Let go of what is held under the key."""
        name = _share_of(key)
        share = self._shares.get(name)
        if share is not None and share.pop(key, None) is not None:
            self._held -= 1
            if not share:
                del self._shares[name]

    def has_room(self, key: str) -> bool:
        """Tell whether the key's share may have one more."""
        name = _share_of(key)
        there = len(self._shares.get(name, ()))
        if there >= self._bound(name):
            return False
        return self._held < self._capacity or there < self._capacity // len(self._shares)

    def make_room(self, key: str) -> None:
        """Let go of the oldest entry of the key's share when that is full, or else of the largest share."""
        name = _share_of(key)
        share = self._shares.get(name, {})
        if len(share) < self._bound(name):
            if self._held < self._capacity:
                return
            share = max(self._shares.values(), key=len)
        self.pop(next(iter(share)))

    def sweep(self, now: float) -> None:
        """Let go of what has expired."""
        alive = {
            name: {key: entry for key, entry in share.items() if entry[0] > now}
            for name, share in self._shares.items()
        }
        self._shares = {name: share for name, share in alive.items() if share}
        self._held = sum(map(len, self._shares.values()))

    def clear(self) -> None:
        """Let go of everything."""
        self._shares.clear()
        self._held = 0

    def _bound(self, name: str) -> int:
        return self._capacity if self._bounds is None else self._bounds[name.partition(":")[0]]


@lru_cache(maxsize=4096)  # every request asks for the epochs of its zone, its user and its session
def _share_of(key: str) -> str:
    second = key.find(":", key.find(":") + 1)
    return key[:second] if second > 0 else key.partition(":")[0]

"""A FIFO cache for data that can be read again; a long key takes no more memory than a short one."""

from hashlib import sha256
from typing import TypeVar

from cachetools import FIFOCache

from runtime.services.cache_sizes import CacheSize

T = TypeVar("T")

_MAX_KEY_CHARS = 200
_UNCOUNTED = CacheSize("", 0)


class BoundedCache(FIFOCache[str, T]):
    """A `cachetools.FIFOCache` whose keys may be as long as a request: a long one is held as its digest.

    FIFO rather than LRU: a token exchange looks up a dozen keys, and noting each use costs more than the rare
    entry that is read again because it was evicted while in use.
    """

    def __init__(self, limit: int) -> None:
        """Args:
        limit: of entries; one of `cache_sizes` counts lookups, too.
        """
        super().__init__(limit)
        self._size = limit if isinstance(limit, CacheSize) else _UNCOUNTED
        self._size.caches[id(self)] = self

    def get(self, key: str) -> T | None:  # type: ignore[override]  # no default: no caller has one
        """The value; None when there is none."""
        try:
            found = FIFOCache.__getitem__(self, key if len(key) <= _MAX_KEY_CHARS else _short(key))
        except KeyError:
            self._size.misses += 1
            return None
        self._size.hits += 1
        return found

    def __getitem__(self, key: str) -> T:
        return FIFOCache.__getitem__(self, _short(key))

    def __setitem__(self, key: str, value: T) -> None:
        FIFOCache.__setitem__(self, _short(key), value)

    def __delitem__(self, key: str) -> None:
        FIFOCache.__delitem__(self, _short(key))

    def __contains__(self, key: object) -> bool:
        return FIFOCache.__contains__(self, _short(str(key)))


def _short(key: str) -> str:
    """The key, or the digest that stands for a long one; no key of a caller begins with NUL."""
    if len(key) <= _MAX_KEY_CHARS:
        return key
    return f"\0{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"

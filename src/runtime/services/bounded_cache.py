"""A FIFO cache for data that can be read again; a long key takes no more memory than a short one."""

from collections import OrderedDict
from hashlib import sha256
from typing import Any, TypeVar

from runtime.services.cache_sizes import CacheSize

T = TypeVar("T")

_MAX_KEY_CHARS = 200
_UNCOUNTED = CacheSize("", 0)
_find = OrderedDict[str, Any].get


class BoundedCache(OrderedDict[str, T]):
    """A dictionary of bounded size, whose keys may be as long as a request: a long one is held as its digest.

    FIFO rather than LRU: a token exchange looks up a dozen keys, and noting each use costs more than the rare
    entry that is read again because it was evicted while in use. A cache of cachetools takes twice as long.
    """

    def __init__(self, limit: int) -> None:
        """Args:
        limit: of entries; one of `cache_sizes` counts lookups, too.
        """
        super().__init__()
        self._limit = int(limit)
        self._size = limit if isinstance(limit, CacheSize) else _UNCOUNTED
        self._size.caches[id(self)] = self

    def get(self, key: str) -> T | None:  # type: ignore[override]  # no default: no caller has one
        """The value; None when there is none."""
        found: T | None = _find(self, key if len(key) <= _MAX_KEY_CHARS else _short(key))
        if found is None:
            self._size.misses += 1
        else:
            self._size.hits += 1
        return found

    def pop(self, key: str, default: Any = None) -> Any:
        """The value, which is not kept any longer."""
        return super().pop(_short(key), default)

    def __getitem__(self, key: str) -> T:
        return super().__getitem__(_short(key))

    def __setitem__(self, key: str, value: T) -> None:
        key = _short(key)
        if super().__contains__(key):
            self.move_to_end(key)
        elif len(self) >= self._limit:
            self.popitem(last=False)
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(_short(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(_short(str(key)))


def _short(key: str) -> str:
    """The key, or the digest that stands for a long one; no key of a caller begins with NUL."""
    if len(key) <= _MAX_KEY_CHARS:
        return key
    return f"\0{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"

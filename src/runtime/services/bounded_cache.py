"""A FIFO cache for data that can be read again; a long key takes no more memory than a short one."""

from hashlib import sha256
from typing import TypeVar

from cachetools import FIFOCache

T = TypeVar("T")

_MAX_KEY_CHARS = 200


class BoundedCache(FIFOCache[str, T]):
    """A `cachetools.FIFOCache` whose keys may be as long as a request: a long one is held as its digest.

    FIFO rather than LRU: a token exchange looks up a dozen keys, and noting each use costs more than the rare
    entry that is read again because it was evicted while in use.
    """

    def get(self, key: str) -> T | None:  # type: ignore[override]  # no default: no caller has one
        """The value; None when there is none."""
        try:
            return FIFOCache.__getitem__(self, key if len(key) <= _MAX_KEY_CHARS else _short(key))
        except KeyError:
            return None

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

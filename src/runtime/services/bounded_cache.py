"""A FIFO cache for data that can be read again; a long key takes no more memory than a short one."""

from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from hashlib import sha256
from typing import TypeVar

T = TypeVar("T")

_MAX_KEY_CHARS = 200


class BoundedCache(MutableMapping[str, T]):
    """A cache that evicts its oldest entry when it is full. A key as long as a request is held as its digest.

    A dictionary with a bound, where each look-up is one of the dictionary: a token exchange makes a dozen.
    FIFO rather than LRU, for noting each use costs more than the rare entry that is read again because it was
    evicted while in use.

    Attributes:
        maxsize: the most entries that are held.
    """

    __slots__ = ("_held", "maxsize")

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self._held: OrderedDict[str, T] = OrderedDict()  # a plain one finds its oldest entry slowly

    def get(self, key: str) -> T | None:  # type: ignore[override]  # no default: no caller has one
        """The value; None when there is none."""
        return self._held.get(key if len(key) <= _MAX_KEY_CHARS else _short(key))

    def __getitem__(self, key: str) -> T:
        return self._held[_short(key)]

    def __setitem__(self, key: str, value: T) -> None:
        key = _short(key)
        self._held.pop(key, None)  # what is replaced is as new as what is added
        if len(self._held) >= self.maxsize:
            self._held.popitem(last=False)
        self._held[key] = value

    def __delitem__(self, key: str) -> None:
        del self._held[_short(key)]

    def __contains__(self, key: object) -> bool:
        return _short(str(key)) in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


def _short(key: str) -> str:
    """The key, or the digest that stands for a long one; no key of a caller begins with NUL."""
    if len(key) <= _MAX_KEY_CHARS:
        return key
    return f"\0{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"

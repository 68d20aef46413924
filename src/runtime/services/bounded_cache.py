"""A bounded in-memory cache."""

from hashlib import sha256
from typing import Generic, TypeVar

T = TypeVar("T")

_MAX_NAME_CHARS = 200


class BoundedCache(Generic[T]):
    """A bounded dictionary that forgets what it has held longest; a long key costs as much as a short one."""

    __slots__ = ("_items", "_limit")

    def __init__(self, limit: int) -> None:
        self._items: dict[str, T] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self._items)

    @property
    def limit(self) -> int:
        """How many it holds at most."""
        return self._limit

    def get(self, key: str) -> T | None:
        """What is kept under the key."""
        return self._items.get(_name(key))

    def put(self, key: str, value: T) -> None:
        """Keep a value in place of what is there."""
        name = _name(key)
        if len(self._items) >= self._limit and name not in self._items:
            del self._items[next(iter(self._items))]
        self._items[name] = value

    def drop(self, key: str) -> None:
        """Forget what is kept under the key."""
        self._items.pop(_name(key), None)


def _name(key: str) -> str:
    """What is kept of a key, which may be as long as a request; no key begins with NUL."""
    if len(key) <= _MAX_NAME_CHARS:
        return key
    return f"\0{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"

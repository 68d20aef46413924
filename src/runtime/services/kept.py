"""A memory with a bound, for what can be read again."""

from typing import Generic, TypeVar

T = TypeVar("T")

_LIMIT = 20_000


class Kept(Generic[T]):
    """A bounded dictionary that forgets what it has held longest."""

    __slots__ = ("_items", "_limit")

    def __init__(self, limit: int = _LIMIT) -> None:
        self._items: dict[str, T] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str) -> T | None:
        """What is kept under the key."""
        return self._items.get(key)

    def put(self, key: str, value: T) -> None:
        """Keep a value in place of what is there."""
        if len(self._items) >= self._limit and key not in self._items:
            del self._items[next(iter(self._items))]
        self._items[key] = value

    def drop(self, key: str) -> None:
        """Forget what is kept under the key."""
        self._items.pop(key, None)

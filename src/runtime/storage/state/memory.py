"""Short-lived state in this process, for a single worker."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic, time

from runtime.domain.errors import Unavailable
from runtime.storage.state.partitions import PartitionedEntries
from runtime.storage.state.protocol import FORGOTTEN

_SWEEP_EVERY = 4096


class InProcessState:
    """Values in two dictionaries, each bounded and forgetting lazily, with a share for each flow of a zone.

    What `put` keeps is a cache: when a share is full, its oldest entry goes. What `add` and `count` keep are
    marks that something must not happen again: when a share of those is full, the newcomer is refused.
    """

    def __init__(
        self,
        *,
        capacity: int = 200_000,
        bounds: Mapping[str, int] | None = None,
        clock: Callable[[], float] = monotonic,
        wall: Callable[[], float] = time,
    ) -> None:
        """Empty state.

        Args:
            capacity: entries in each of the two dictionaries.
            bounds: kind of key -> entries that one zone may have of it; see `PartitionedEntries`.
            clock: seconds, only ever growing.
            wall: seconds since the epoch, as others write them into what they sign.
        """
        self._clock = clock
        self._cached = PartitionedEntries(capacity, bounds)
        self._marks = PartitionedEntries(capacity, bounds)
        self._began = wall()
        self._writes = 0
        self.version: int | None = 0
        self._full_until = 0.0

    def __len__(self) -> int:
        """How many entries are held, those included that have expired and were not looked at since."""
        return len(self._cached) + len(self._marks)

    async def put(self, key: str, value: bytes, *, ttl_seconds: int) -> None:
        """Keep a value, in place of one that is there."""
        self._put(key, value, ttl_seconds)

    async def get(self, key: str) -> bytes | None:
        """The value, or None when there is none or it has expired."""
        return self._get(key)

    async def take(self, key: str) -> bytes | None:
        """What `put_once` kept, which is gone afterwards."""
        value = self._get(key)
        self._forget(key)
        return value

    async def put_once(self, key: str, value: bytes, *, ttl_seconds: int) -> None:
        """Keep a value for one `take` or `claim`."""
        self._put(key, value, ttl_seconds)

    async def claim(
        self, key: str, *, mark: str, value: bytes, ttl_seconds: int
    ) -> tuple[bytes | None, bytes | None]:
        """Take what is kept, and leave *value* under *mark*; or hear what was left there.

        Raises `Unavailable` without room; what is kept stays then.
        """
        kept = self._get(key)
        if kept is None:
            return None, self._get(mark)
        self._mark(mark, value, self._clock() + ttl_seconds)
        self._forget(key)
        return kept, None

    async def add(self, key: str, value: bytes, *, ttl_seconds: int) -> bool:
        """Keep a value unless there is one; tell whether it was kept. Raises `Unavailable` without room."""
        if self._get(key) is not None:
            return False
        self._mark(key, value, self._clock() + ttl_seconds)
        return True

    async def begin(self) -> None:
        """Nothing: this state remembers since it was made."""

    async def use_once(self, key: str, *, made_at: float, ttl_seconds: int) -> bool:
        """Take note that something is used; tell whether this is the first time. Raises `Unavailable`."""
        if self._get(key) is not None:
            return False
        if made_at < self._began:
            raise Unavailable(FORGOTTEN, internal="made before this process")
        self._mark(key, b"1", self._clock() + ttl_seconds)
        return True

    async def delete(self, *keys: str) -> None:
        """Forget these."""
        for key in keys:
            self._forget(key)

    async def fetch(self, keys: Sequence[str]) -> list[bytes | None]:
        """Many values, in the order asked."""
        return [self._get(key) for key in keys]

    async def raise_all(self, numbers: Mapping[str, int], *, ttl_seconds: int) -> None:
        """Keep each decimal number unless a greater one is there."""
        for key, number in numbers.items():
            if number >= int(self._get(key) or 0):
                self._put(key, b"%d" % number, ttl_seconds)

    async def count(self, key: str, *, ttl_seconds: int) -> int:
        """Add one to a counter that lives that long from its first use. Raises `Unavailable` without room."""
        there = self._get(key)
        if there is None:
            self._mark(key, b"1", self._clock() + ttl_seconds)
            return 1
        counted = int(there) + 1
        for where in (self._marks, self._cached):
            if (entry := where.get(key)) is not None:
                where.set(key, (entry[0], b"%d" % counted))
                self._change()
                break
        return counted

    async def ping(self) -> None:
        """Return at once: this process can always be reached."""

    def measure(self) -> None:
        """Do nothing: there is nothing that could be away."""

    async def facts(self) -> Mapping[str, str]:
        """Nothing: there is no server."""
        return {}

    async def close(self) -> None:
        """Forget everything."""
        self._change()
        self._cached.clear()
        self._marks.clear()

    def _get(self, key: str) -> bytes | None:
        entry = self._cached.get(key) or self._marks.get(key)
        if entry is None:
            return None
        if entry[0] <= self._clock():
            self._forget(key)
            return None
        return entry[1]

    def _change(self) -> None:
        if self.version is not None:
            self.version += 1

    def _forget(self, key: str) -> None:
        self._change()
        self._cached.pop(key)
        self._marks.pop(key)

    def _put(self, key: str, value: bytes, ttl_seconds: int) -> None:
        self._forget(key)
        if not self._cached.has_room(key):
            self._cached.make_room(key)
        self._cached.set(key, (self._clock() + ttl_seconds, value))
        self._written()

    def _mark(self, key: str, value: bytes, until: float) -> None:
        if not self._marks.has_room(key):
            self._make_room(key)
        self._marks.set(key, (until, value))
        self._change()
        self._written()

    def _make_room(self, key: str) -> None:
        """Drop expired marks, looking through all of them at most once a second."""
        now = self._clock()
        if now >= self._full_until:
            self._marks.sweep(now)
            self._full_until = now + 1.0
        if not self._marks.has_room(key):
            raise Unavailable("the replay cache is full; retry later")

    def _written(self) -> None:
        self._writes += 1
        if self._writes % _SWEEP_EVERY == 0:
            now = self._clock()
            self._cached.sweep(now)
            self._marks.sweep(now)

"""Short-lived states that count, or that are away, and parts that work with them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.support.rewired import with_limits_on, with_new_zones

from runtime.domain.errors import Unavailable
from runtime.services.clock import Clock
from runtime.services.container import Services
from runtime.services.epochs import Epochs
from runtime.storage.state import StateStore
from runtime.storage.state.memory import InProcessState


class Counting(InProcessState):
    """A state that passes everything on and notes what was asked."""

    def __init__(self, inner: StateStore) -> None:
        super().__init__()
        self.inner = inner
        self.version = None
        self.calls: list[str] = []

    async def fetch(self, keys: Sequence[str]) -> list[bytes | None]:
        self.calls.append("fetch")
        return await self.inner.fetch(keys)

    async def get(self, key: str) -> bytes | None:
        self.calls.append("get")
        return await self.inner.get(key)

    async def put(self, key: str, value: bytes, *, ttl_seconds: int) -> None:
        self.calls.append("put")
        await self.inner.put(key, value, ttl_seconds=ttl_seconds)

    async def raise_all(self, numbers: Mapping[str, int], *, ttl_seconds: int) -> None:
        self.calls.append("raise_all")
        await self.inner.raise_all(numbers, ttl_seconds=ttl_seconds)


class Away(InProcessState):
    """A state that cannot be reached."""

    async def fetch(self, keys: Sequence[str]) -> list[bytes | None]:
        raise Unavailable("away")

    async def put(self, key: str, value: bytes, *, ttl_seconds: int) -> None:
        raise Unavailable("away")

    async def raise_all(self, numbers: Mapping[str, int], *, ttl_seconds: int) -> None:
        raise Unavailable("away")

    async def count(self, key: str, *, ttl_seconds: int) -> int:
        raise Unavailable("away")


def remembering(services: Services) -> Services:
    """These parts with a state whose memory reaches back further than any assertion."""
    return replace(services, state=InProcessState(wall=lambda: 0.0))


def with_state(services: Services, state: StateStore) -> Services:
    """Another process, as far as memory goes, over the same database and with that state."""
    if state is services.state:
        state.version = None  # from now on two write to it
    epochs = Epochs(services.database, state, Clock())
    return with_new_zones(with_limits_on(services, state), epochs=epochs)

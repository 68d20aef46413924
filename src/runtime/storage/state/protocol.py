"""The interface of short-lived state: codes, sign-in state, token cache, replay protection, epochs.

The database stays the only truth: whatever is lost here costs speed or a second sign-in, never a wrong allow.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

FORGOTTEN = "the replay cache was lost; retry with a new assertion, proof or token"


class StateStore(Protocol):
    """What forgets by itself. Keys are `kind:zone:...`, values are bytes, every entry has a lifetime.

    Attributes:
        version: a number that grows with each write; None where other processes write, too.
    """

    version: int | None

    async def put(self, key: str, value: bytes, *, ttl_seconds: int) -> None:
        """Keep a value, in place of one that is there."""

    async def get(self, key: str) -> bytes | None:
        """The value, or None when there is none or it has expired."""

    async def put_once(self, key: str, value: bytes, *, ttl_seconds: int) -> None:
        """Keep a value for one `take` or `claim`.

        It is gone where it cannot be told any more whether it was taken: when the state has lost what was
        written last.
        """

    async def take(self, key: str) -> bytes | None:
        """What `put_once` kept under a key, which is gone afterwards: of many callers exactly one gets it."""

    async def claim(
        self, key: str, *, mark: str, value: bytes, ttl_seconds: int
    ) -> tuple[bytes | None, bytes | None]:
        """Take what `put_once` kept under a key, and leave *value* under *mark* for those who come later.

        Of many callers exactly one gets what was kept; the others get what that one left, as long as that
        lives. In one step: no caller finds both gone.
        """

    async def add(self, key: str, value: bytes, *, ttl_seconds: int) -> bool:
        """Keep a value unless there is one; tell whether it was kept. Of many callers one hears True."""

    async def begin(self) -> None:
        """Remember from now on what is used once, if nobody does so yet."""

    async def use_once(self, key: str, *, made_at: float, ttl_seconds: int) -> bool:
        """Take note that something is used; tell whether this is the first time.

        Args:
            made_at: seconds since the epoch, before which it cannot have been used.
        Raises: Unavailable when that was before what is remembered begins: a state that was lost tells
            nobody that something is new.
        """

    async def delete(self, *keys: str) -> None:
        """Forget these."""

    async def fetch(self, keys: Sequence[str]) -> list[bytes | None]:
        """Many values in one round trip, in the order asked."""

    async def raise_all(self, numbers: Mapping[str, int], *, ttl_seconds: int) -> None:
        """Keep each decimal number unless a greater one is there, in one round trip.

        Epochs use this: a reader that is late with an old number cannot undo a newer one. Nor does it make
        that live longer: what is ahead of a database that was set back ends by itself.
        """

    async def count(self, key: str, *, ttl_seconds: int) -> int:
        """Add one to a counter, which lives that long from its first use; answer its value."""

    async def ping(self) -> None:
        """Return when the state can be reached, and written to. Raises `Unavailable`."""

    def measure(self) -> None:
        """Set the metrics of what is, not of what happens."""

    async def facts(self) -> Mapping[str, str]:
        """What the server says of itself, as `INFO` of Redis names it, and its clock as `time`.

        In seconds since 1970. Nothing where there is no server. Raises `Unavailable`.
        """

    async def close(self) -> None:
        """Let go of connections."""

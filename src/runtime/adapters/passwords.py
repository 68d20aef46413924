"""Password hashing (argon2id) in a bounded thread pool, at the same cost when the user does not exist."""

import re
from collections.abc import Callable
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from runtime.adapters.tenant_threads import TenantThreads, TooManyWaiting

_T = TypeVar("_T")

MAX_PASSWORD_CHARS = 1024
# Of a hash that was made elsewhere: every sign-in costs that much.
MAX_MEMORY_KIB, MAX_PASSES, MAX_LANES = 262_144, 10, 16
_ENCODED = re.compile(
    r"\$argon2(?:id|i|d)\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=(\d{1,3})"
    r"\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{16,172}",
    re.ASCII,
)
MAX_WAITING = 64


class PasswordsBusy(Exception):
    """More sign-ins of a tenant wait than can be worked off soon; the caller should answer 503."""


def require_known(hashed: str) -> None:
    """Refuse a hash that `Passwords.verify` cannot check, or not at a cost that a sign-in may have.

    Spec: the encoded form of the argon2 reference implementation (PHC string format). Raises ValueError.
    """
    if hashed.startswith(("$2a$", "$2b$", "$2y$")):
        raise ValueError("is a bcrypt hash, and only argon2 hashes are known here")
    if (found := _ENCODED.fullmatch(hashed)) is None:
        raise ValueError("is no argon2 hash in its encoded form, `$argon2id$v=19$m=..,t=..,p=..$salt$hash`")
    memory, passes, lanes = map(int, found.groups())
    if not (8 * lanes <= memory <= MAX_MEMORY_KIB and 1 <= passes <= MAX_PASSES and 1 <= lanes <= MAX_LANES):
        raise ValueError(
            f"has other costs than m=8*p to {MAX_MEMORY_KIB} KiB, t=1 to {MAX_PASSES}, p=1 to {MAX_LANES}"
        )


class Passwords:
    """Hashes and verifies passwords without holding up the event loop (argon2 releases the interpreter
    lock).

    Tenants take turns: nobody waits behind a flood of sign-ins of another, or behind their expensive hashes.

    Args:
        workers: threads, each of which takes 64 MiB while it hashes.
        max_waiting: requests of a tenant under way, waiting ones included, before PasswordsBusy.
        hasher: other argon2 parameters, for tests.
    """

    def __init__(
        self, *, workers: int = 2, max_waiting: int = MAX_WAITING, hasher: PasswordHasher | None = None
    ) -> None:
        self._hasher = hasher or PasswordHasher()
        self._threads = TenantThreads(workers, name="passwords", max_waiting=max_waiting)
        self._dummy = self._hasher.hash("no user has this password")

    async def hash(self, password: str, *, tenant: str) -> str:
        """The argon2id hash in its encoded form.

        Args:
            tenant: the organization whose user's it is.
        Raises: ValueError above 1,024 characters, PasswordsBusy.
        """
        if len(password) > MAX_PASSWORD_CHARS:
            raise ValueError(f"a password has at most {MAX_PASSWORD_CHARS} characters")
        return await self._run(tenant, lambda: self._hasher.hash(password))

    async def verify(self, hashed: str | None, password: str, *, tenant: str) -> bool:
        """Tell whether the password is the hashed one.

        Args:
            hashed: None for a user who does not exist or has no password: costs the same, and is False.
            tenant: the organization whose user's it is.
        Raises: PasswordsBusy.
        """
        known = hashed is not None and len(password) <= MAX_PASSWORD_CHARS
        against = hashed if hashed is not None and known else self._dummy
        matched = await self._run(tenant, lambda: self._matches(against, password[:MAX_PASSWORD_CHARS]))
        return matched and known

    def needs_rehash(self, hashed: str) -> bool:
        """Tell whether the hash was made with weaker parameters than today's."""
        return self._hasher.check_needs_rehash(hashed)

    def close(self) -> None:
        """Stop the threads; what is under way finishes."""
        self._threads.close()

    def _matches(self, hashed: str, password: str) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return False

    async def _run(self, tenant: str, work: Callable[[], _T]) -> _T:
        try:
            return await self._threads.run(tenant, work)
        except TooManyWaiting:
            raise PasswordsBusy from None

"""Generated identifiers: entity ids and slugs, and those that examples have."""

import os
import re
import secrets
import unicodedata
from functools import lru_cache
from hashlib import sha256

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # 32 characters, so that a random byte picks one evenly
ID_LENGTH = 26
_DRAW_BYTES = 16
DRAWS_AT_ONCE = 256
_CHARACTERS = (ALPHABET * (256 // len(ALPHABET))).encode()

_NOT_SLUG = re.compile(r"[^a-z0-9]+")


class _Draws:
    """Random bytes of the system, some hundred draws at a time: each is given out once, to one thread."""

    def __init__(self) -> None:
        self._left: list[bytes] = []
        os.register_at_fork(after_in_child=self._left.clear)  # two processes must not have the same ones

    def next(self) -> bytes:
        try:
            return self._left.pop()
        except IndexError:
            fresh = secrets.token_bytes(_DRAW_BYTES * DRAWS_AT_ONCE)
            first, *others = (fresh[at : at + _DRAW_BYTES] for at in range(0, len(fresh), _DRAW_BYTES))
            self._left.extend(others)
            return first


_draws = _Draws()


def random_draw() -> bytes:
    """16 bytes from the system's random source, for an identifier that is unique and nobody's secret.

    Asking the system for each would be a tenth of the work of an answer from a cache.
    """
    return _draws.next()


def new_id() -> str:
    """A random entity id: 26 characters that need no escaping in URLs and host names (130 bits)."""
    return secrets.token_bytes(ID_LENGTH).translate(_CHARACTERS).decode()


def new_ordered_id(at_ms: int) -> str:
    """An id of the same length and alphabet that begins with an instant: later ones sort after it.

    An index by such ids grows at its end; a random id would change a page anywhere in it.

    Args:
        at_ms: milliseconds since 1970.
    Spec: ULID; 48 bits of time, 80 random ones.
    """
    return _instant(at_ms) + random_draw().translate(_CHARACTERS).decode()


@lru_cache(maxsize=2)
def _instant(at_ms: int) -> str:
    return "".join(ALPHABET[at_ms >> shift & 31] for shift in range(45, -1, -5))


def example_id(name: str) -> str:
    """The id that the examples of OpenAPI have for that name, such as `Application`: always the same one."""
    number, characters = int.from_bytes(sha256(name.encode()).digest()), []
    for _ in range(ID_LENGTH):
        number, place = divmod(number, len(ALPHABET))
        characters.append(ALPHABET[place])
    return "".join(characters)


def example_digest(name: str) -> str:
    """A SHA-256 digest in hex for the examples of OpenAPI, that of the name."""
    return sha256(name.encode()).hexdigest()


def slug_of(name: str) -> str:
    """The slug a display name suggests: lower case, single hyphens, 1 to 63 characters.

    Uniqueness is the caller's affair: see `with_suffix`.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return _NOT_SLUG.sub("-", plain).strip("-")[:63].strip("-") or "unnamed"


def with_suffix(slug: str) -> str:
    """Another slug for the same name, for when the plain one is taken."""
    suffix = "".join(secrets.choice(ALPHABET) for _ in range(6))
    return f"{slug[: 63 - 7].strip('-')}-{suffix}"

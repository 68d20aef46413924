"""Names that the service makes up: entity ids and slugs."""

import re
import secrets
import unicodedata

ALPHABET = "0123456789abcdefghijkmnopqrstuvwxyz"
ID_LENGTH = 26
_IDS = len(ALPHABET) ** ID_LENGTH

_NOT_SLUG = re.compile(r"[^a-z0-9]+")


def new_id() -> str:
    """A random entity id: 26 characters that need no escaping in URLs and host names (133 bits)."""
    number, characters = secrets.randbelow(_IDS), []
    for _ in range(ID_LENGTH):
        number, place = divmod(number, len(ALPHABET))
        characters.append(ALPHABET[place])
    return "".join(characters)


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

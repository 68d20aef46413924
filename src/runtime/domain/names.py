"""Reserved names: the canonical forms of `sub` values and issuers, by which reuse is detected.

A zone's users and applications share one namespace, for tokens call both `sub` and chains call both `act`.
Whoever reads tokens may compare without regard to case, or normalize first; so names that differ in no more
than that are the same name here.
"""

import unicodedata
from hashlib import sha256
from urllib.parse import urlsplit

# Clients that registered themselves are called so; policies tell them from applications by the name alone.
RESERVED_PREFIX = "ua:"
# What shows nothing, besides the format characters (category Cf).
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")


def canonical(identifier: str) -> str:
    """An identifier as it is compared: without regard to case, composition, width, and what does not show.

    Keys of names that were given away are made from this, and cannot be made anew: it never changes.

    Spec: Unicode, NFKC_Casefold (section 5.18); space around a name, and how much of it, counts for nothing.
    """
    if identifier.isascii():
        return " ".join(identifier.lower().split())
    folded = unicodedata.normalize("NFD", identifier).casefold()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", folded).casefold())
    return " ".join("".join(each for each in folded if _shows(each)).split())


def key_of(identifier: str) -> str:
    """What stands for a name where it is kept for ever: of one length, and without telling the name."""
    return _digest(canonical(identifier))


def key_as_written(identifier: str) -> str:
    """As `key_of`, for a name that is told from others by each character, as all were once."""
    return _digest(f"as written\0{identifier}")


def identity_of(issuer: str | None, subject: str | None) -> str | None:
    """What stands for the person whom a provider knows; None for somebody whom none vouches for."""
    if issuer is None or subject is None:
        return None
    return _digest(f"{issuer}\0{subject}")


def is_reserved(identifier: str) -> bool:
    """Tell whether no application may be called so."""
    return canonical(identifier).startswith(RESERVED_PREFIX)


def canonical_issuer(issuer: str) -> str:
    """An issuer as it is compared: scheme and host in lower case, without a slash at the end."""
    parts = urlsplit(issuer)
    return parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower()).geturl().rstrip("/")


def _shows(character: str) -> bool:
    is_selector = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return not (unicodedata.category(character) == "Cf" or character in _INVISIBLE or is_selector)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

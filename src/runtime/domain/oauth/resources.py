"""Resolves the `resource` of a request to one registered resource. Spec: RFC 8707."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict

from runtime.domain.errors import InvalidTarget

T = TypeVar("T")

MAX_RESOURCE_CHARS = 2048
_DEFAULT_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443"}
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)\Z", re.DOTALL)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PLAIN = re.compile(r"[\x21-\x7e]+\Z")
_BOUNDARY = re.compile(r"[/?]")


class RequestedResource(BaseModel):
    """A registered resource that a request names, and the scopes of it that are asked for or were granted."""

    model_config = ConfigDict(frozen=True)

    id: str
    identifier: str
    scopes: frozenset[str]


def at_most_one(named: Sequence[str]) -> str | None:
    """The resource that a request for one access token names; None when it names none.

    Raises: InvalidTarget for several: an access token has one audience.
    """
    if len(named) > 1:
        raise InvalidTarget("send one `resource`: an access token is for one resource")
    return named[0] if named else None


def canonical(identifier: str) -> str | None:
    """One spelling for all spellings of the same resource; None for what names no resource.

    Scheme and host in lower case, no default port, no lone slash after the host, escapes in upper case and
    only where needed. An identifier that is no URL with a host (`urn:...`, a plain name) is its own
    spelling. User information, fragments, backslashes and dot segments are refused: readers disagree about
    them.
    """
    if not identifier or len(identifier) > MAX_RESOURCE_CHARS or not _PLAIN.match(identifier):
        return None
    if "#" in identifier or "\\" in identifier:
        return None
    match = _ABSOLUTE.match(identifier)
    if match is None:
        return identifier
    scheme, authority, rest = match[1].lower(), match[2].lower(), match[3]
    if not authority or "@" in authority or "%" in authority:
        return None
    host, colon, port = authority.rpartition(":")
    if colon and not authority.endswith("]"):
        if not host or not port.isdecimal():
            return None
        authority = host if port == _DEFAULT_PORTS.get(scheme) else authority
    rest = _ESCAPE.sub(_normal_escape, rest)
    path = rest.partition("?")[0]
    if any(segment.partition(";")[0] in (".", "..") for segment in unquote(path).split("/")):
        return None
    if rest == "/" or rest.startswith("/?"):
        rest = rest[1:]
    return f"{scheme}://{authority}{rest}"


def is_issuer(identifier: str, issuer: str) -> bool:
    """Tell whether an identifier is an issuer, in whatever spelling: what an audience says would be both."""
    return comparable(identifier) == comparable(issuer)


def comparable(identifier: str) -> str:
    """What two identifiers have in common that readers may take for one another.

    Beside the spellings that `canonical` knows, URLs whose paths differ in slashes at the end: requests
    tell them apart, but the server behind them often does not.
    """
    key = canonical(identifier) or identifier
    if "://" not in key:
        return key
    path, mark, query = key.partition("?")
    return f"{path.rstrip('/')}{mark}{query}"


def host_of(identifier: str) -> str:
    """Scheme, host and port of a URL as all its spellings begin, but for case; empty for what has none."""
    match = _ABSOLUTE.match(canonical(identifier) or "")
    return "" if match is None else f"{match[1]}://{match[2]}"


def above(identifier: str) -> Iterator[str]:
    """What a prefix above an identifier may be, in canonical spelling, the nearest first."""
    return _shorter(canonical(identifier) or "")


class ResourceIndex(Generic[T]):
    """The resources of one zone, built once; finding takes a look-up for each boundary in what is asked."""

    __slots__ = ("_exact", "_prefixes")

    def __init__(self, resources: Iterable[tuple[str, bool, T]]) -> None:
        """Args:
        resources: identifier as registered, whether it stands for everything below it, and what to find.
            Identifiers that name no resource are left out; of two spellings of one resource the first
            counts.
        """
        self._exact: dict[str, T] = {}
        self._prefixes: dict[str, T] = {}
        for identifier, is_prefix, value in resources:
            if (key := canonical(identifier)) is None:
                continue
            self._exact.setdefault(key, value)
            if is_prefix:
                self._prefixes.setdefault(key, value)

    def find(self, requested: str) -> T | None:
        """The resource of that name, else the one with the longest prefix of it, else None.

        A prefix ends at a path or query boundary, with scheme, host and port equal.
        Spec: zone interface, section 6, rule 3.
        """
        if (key := canonical(requested)) is None:
            return None
        if (found := self._exact.get(key)) is not None:
            return found
        if not self._prefixes:
            return None
        for prefix in _shorter(key):
            if (found := self._prefixes.get(prefix)) is not None:
                return found
        return None


def _shorter(key: str) -> Iterator[str]:
    """Every prefix of a canonical URL that ends just before or just after a boundary, longest first."""
    match = _ABSOLUTE.match(key)
    if match is None:
        return
    for boundary in reversed([found.start() for found in _BOUNDARY.finditer(key, match.end(2))]):
        yield key[: boundary + 1]
        yield key[:boundary]


def _normal_escape(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else f"%{match[1].upper()}"

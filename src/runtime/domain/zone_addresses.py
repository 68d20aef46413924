"""The addresses of a zone: its issuer now, and those that it had before it was moved.

An issuer is an address: clients find everything there, and every token says it. So a zone that is moved is
answered at both for a while, and at each in the words of that address. A former issuer is of no other zone,
also when it has ended.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}
_PLACEHOLDER = re.compile(r"\{(?:zone_id|slug)\}")
_NAME = r"([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)"


@dataclass(frozen=True, slots=True)
class FormerIssuer:
    """An issuer that a zone had.

    Attributes:
        moved_at: when the zone was moved away from it.
        ends_at: until when it is answered; None until an operator ends it.
    """

    issuer: str
    moved_at: datetime
    ends_at: datetime | None = None

    def is_answered(self, now: datetime) -> bool:
        """Whether requests that are sent there are answered, and its tokens accepted."""
        return self.ends_at is None or now < self.ends_at


class SentTo(NamedTuple):
    """Where a request was sent, as far as it tells. It chooses among addresses that are stored, and no more.

    Attributes:
        scheme: None where nobody who is trusted says.
        authority: host and port.
    """

    scheme: str | None
    authority: str

    def is_at(self, issuer: str) -> bool:
        """Tell whether a request for an issuer is sent there."""
        parts = urlsplit(issuer)
        if self.scheme is not None and self.scheme != parts.scheme:
            return False
        return _authority(parts.scheme, self.authority) == _authority(parts.scheme, parts.netloc)

    def issuer(self, scheme: str, path: str) -> str:
        """The issuer that has this address, and that path."""
        return f"{scheme}://{_authority(scheme, self.authority)}{path}"


def host_pattern(template: str, public_url: str) -> re.Pattern[str] | None:
    """What the host of a zone looks like, with its name as the group; None when zones stand at paths.

    Args:
        template: of issuers, with `{public_url}`, `{zone_id}` and `{slug}`.
    """
    authority = template.replace("{public_url}", public_url).partition("://")[2].partition("/")[0]
    if not _PLACEHOLDER.search(authority):
        return None
    return re.compile(_NAME.join(re.escape(part) for part in _PLACEHOLDER.split(authority)) + r"\Z")


def chosen(current: str, former: Collection[FormerIssuer], sent_to: SentTo) -> str:
    """The issuer whose address a request was sent to: the present one where that is open."""
    if sent_to.is_at(current):
        return current
    latest_first = sorted(former, key=lambda each: each.moved_at, reverse=True)
    return next((each.issuer for each in latest_first if sent_to.is_at(each.issuer)), current)


def issuer_at(former: Collection[FormerIssuer], instant: datetime) -> str | None:
    """The issuer that a zone had at an instant; None for the one that it has now."""
    left = [each for each in former if each.moved_at > instant]
    return min(left, key=lambda each: each.moved_at).issuer if left else None


def new_issuer(current: str, to: str) -> str:
    """The issuer of a zone after a move: its path stays, for everything that is below it does.

    Args:
        to: an origin, or that with the path of the present issuer.
    Raises: ValueError, with what is wrong.
    """
    try:
        parts = urlsplit(to)
        port = parts.port
    except ValueError as failure:
        raise ValueError(str(failure)) from None
    host = parts.hostname or ""
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise ValueError("must be an address that begins with `https://` or `http://`")
    if parts.query or parts.fragment or "@" in parts.netloc or not to.isascii() or "?" in to or "#" in to:
        raise ValueError("must have no user, query or fragment, and only ASCII characters")
    shown = f"[{host}]" if ":" in host else host
    authority = shown if port in (None, _DEFAULT_PORTS[parts.scheme]) else f"{shown}:{port}"
    path, own = parts.path.rstrip("/"), urlsplit(current).path
    if path not in ("", own):
        raise ValueError(f"must have no path, or that of the present issuer, `{own}`: a move keeps it")
    return f"{parts.scheme}://{authority}{own}"


def is_downgrade(current: str, new: str) -> bool:
    """Tell whether tokens and cookies would travel in clear from then on, which they did not before."""
    return _scheme(current) == "https" and _scheme(new) != "https"


def in_words_of(issuer: str, former: Collection[str], claims: Mapping[str, Any]) -> dict[str, Any]:
    """What a token says, in the words of one address of its zone.

    Args:
        issuer: of that address.
        former: the other issuers of the zone.
        claims: of a token that the zone has signed: `iss`, its own `aud`, and who acts or may act.
    """
    renamed = dict(claims)
    for name in ("iss", "aud"):
        if renamed.get(name) in former:
            renamed[name] = issuer
    for name in ("act", "may_act"):
        if isinstance(renamed.get(name), Mapping):
            renamed[name] = _renamed(renamed[name], issuer, former)
    return renamed


def _renamed(level: Mapping[str, Any], issuer: str, former: Collection[str]) -> dict[str, Any]:
    told = dict(level)
    if told.get("iss") in former:
        told["iss"] = issuer
    if isinstance(told.get("act"), Mapping):
        told["act"] = _renamed(told["act"], issuer, former)
    return told


def origin_of(issuer: str) -> str:
    """Scheme, host and port."""
    parts = urlsplit(issuer)
    return f"{parts.scheme}://{parts.netloc}"


def _scheme(issuer: str) -> str:
    return urlsplit(issuer).scheme


def _authority(scheme: str, authority: str) -> str:
    return authority.lower().removesuffix(f":{_DEFAULT_PORTS.get(scheme)}")

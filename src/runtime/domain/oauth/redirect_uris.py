"""Redirect URIs: rules for registration, and the comparison of a requested one with the registered ones.

A URI is taken apart only to refuse it. Whether it is allowed is a comparison of raw strings, so no two
parsers can disagree about it; the port of a loopback address is the single variation.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from runtime.domain.kinds.values import ApplicationType

Refusal = Literal[
    "malformed",
    "fragment",
    "userinfo",
    "scheme",
    "insecure",
    "host",
    "dot_segment",
    "response_parameter",
    "private_scheme",
    "application_type",
]

# What a URI has to be instead, as the rest of a sentence about it.
EXPLANATIONS: Mapping[Refusal, str] = {
    "malformed": "is not a well-formed absolute URI (lower-case scheme, printable ASCII)",
    "fragment": "must not have a fragment",
    "userinfo": "must not have a user name or password",
    "scheme": "has a scheme that browsers execute or display",
    "insecure": "must use https; http is allowed for `localhost`, `127.0.0.1` and `[::1]`",
    "host": "has an invalid port, or a host that is not in canonical form",
    "dot_segment": "must not have `.` or `..` segments in its path",
    "response_parameter": "must not have a parameter of an authorization response, such as `code`",
    "private_scheme": "must have a private-use scheme with a dot in it, such as `com.example.app`",
    "application_type": "is not allowed for a `web` client: use https and a host that is not loopback,"
    " or register as `native`",
}

# What the redirect URIs of an application have to be, as the rest of a sentence about its type.
TYPES: Mapping[ApplicationType, str] = {
    ApplicationType.NATIVE: "needs `localhost` URLs or URIs of a private-use scheme",
    ApplicationType.WEB: "needs https URLs with another host than `localhost`",
}

MAX_URI_CHARS = 2048
_MAX_REMEMBERED_CHARS = 300
LOOPBACK_HOSTS = ("127.0.0.1", "[::1]", "localhost")
# Members of an authorization response: in a registered URI they would let an attacker fix part of the
# answer.
RESPONSE_PARAMETERS = frozenset(
    {
        "code",
        "state",
        "iss",
        "error",
        "error_description",
        "error_uri",
        "id_token",
        "access_token",
        "response",
    }
)
_DANGEROUS_SCHEMES = frozenset(
    {
        "javascript",
        "data",
        "vbscript",
        "file",
        "blob",
        "about",
        "filesystem",
        "view-source",
        "ws",
        "wss",
        "ftp",
    }
)
_PLAIN = re.compile(r"[\x21-\x7e]+\Z")
_UNSAFE = re.compile(r"[\\<>\"^`{|}]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\Z")
_FORM_ORIGIN = re.compile(r"(https?://[a-z0-9.-]+(?::[0-9]+)?)(?:[/?]|\Z)")
_IPV6 = re.compile(r"\[[0-9a-f:.]+\]\Z")
_PORT = re.compile(r"[0-9]+(?:[/?]|\Z)")
_LOOPBACK = re.compile(r"(http://(?:127\.0\.0\.1|\[::1\]|localhost))(?::[0-9]{1,5})?((?:[/?].*)?)\Z")


def allows(registered: Iterable[str], requested: str) -> bool:
    """Tell whether an application that registered those URIs may be answered at the requested one.

    Spec: RFC 9700 section 4.1.3 (exact comparison); RFC 8252 section 7.3 (any port on loopback, `localhost`
        included, which is not another name for 127.0.0.1 here).
    """
    if refusal(requested) is not None:
        return False
    wanted = _without_loopback_port(requested)
    return any(entry == requested or _without_loopback_port(entry) == wanted for entry in registered)


def is_loopback(uri: str) -> bool:
    """Tell whether the answer goes to the user's own machine over plain HTTP; consent pages say so."""
    return _LOOPBACK.match(uri) is not None


def host_of(uri: str) -> str:
    """The recipient of the response as consent pages show it: a host, or the scheme of a private-use URI."""
    parts = urlsplit(uri)
    # What stands where a host would in `app.private://bank.example` is nobody's.
    is_web = parts.scheme in ("http", "https")
    return (parts.hostname if is_web else None) or f"{parts.scheme}:"


def form_origin(uri: str) -> str | None:
    """Where a form is sent that a browser posts to this redirect URI, as a content policy names it.

    None where no form can be sent: to a private-use scheme, and to an IPv6 address, which no policy can name.
    Spec: Content Security Policy Level 3 section 2.3.1 (host-source).
    """
    match = _FORM_ORIGIN.match(uri)
    return match[1] if match is not None and refusal(uri) is None else None


def refusal(uri: str, *, dotted_scheme: bool = False) -> Refusal | None:
    """Why no client may have this redirect URI; None when one may.

    Args:
        dotted_scheme: a private-use scheme must hold a dot, as the reversed domain of its owner does:
            asked of clients that register themselves. Spec: RFC 8252 section 7.1.
    """
    if len(uri) > MAX_URI_CHARS:
        return "malformed"
    judge = _remembered if len(uri) <= _MAX_REMEMBERED_CHARS else _judged
    return judge(uri, dotted_scheme)


def _judged(uri: str, dotted_scheme: bool) -> Refusal | None:
    match = _SCHEME.match(uri)
    if match is None or not _PLAIN.match(uri) or _UNSAFE.search(uri):
        return "malformed"
    if "#" in uri:
        return "fragment"
    scheme = match[1]
    if scheme.lower() in _DANGEROUS_SCHEMES:
        return "scheme"
    if scheme.lower() in ("http", "https"):
        return _web_refusal(uri, scheme)
    if _PORT.match(uri[match.end() :]):
        return "malformed"  # `localhost:9999/cb`: a host and a port whose scheme was forgotten
    if dotted_scheme and "." not in scheme:
        return "private_scheme"
    return _common_refusal(uri)


# Those in use are a few, and each sign-in asks about its own.
_remembered = lru_cache(maxsize=2048)(_judged)


def registration_refusal(uri: str, application_type: ApplicationType) -> Refusal | None:
    """Why a client of that type cannot register this by itself; None when it can.

    A `web` client is answered at https on a host of its own. A `native` one listens on loopback, has a
    private-use scheme that holds a dot, or claims https links.

    Spec: RFC 8252 section 7; OpenID Connect Dynamic Client Registration section 2.
    """
    if (reason := refusal(uri, dotted_scheme=True)) is not None:
        return reason
    if application_type is ApplicationType.WEB and not fits(uri, application_type):
        return "application_type"
    return None


def fits(uri: str, application_type: ApplicationType) -> bool:
    """Tell whether an application of that type is answered at such a URI, one that `refusal` lets pass.

    A `web` application is at https, on a host of its own; a `native` one on the user's own machine, or at a
    private-use scheme.

    Spec: service interface, Resource; OpenID Connect Dynamic Client Registration section 2.
    """
    parts = urlsplit(uri)
    is_loopback_host = _split_port(parts.netloc)[0] in LOOPBACK_HOSTS
    if application_type is ApplicationType.WEB:
        return parts.scheme == "https" and not is_loopback_host
    return is_loopback_host or parts.scheme not in ("http", "https")


def _without_loopback_port(uri: str) -> str:
    match = _LOOPBACK.match(uri)
    return uri if match is None else f"{match[1]}{match[2]}"


def _web_refusal(uri: str, scheme: str) -> Refusal | None:
    if scheme not in ("http", "https") or not uri.startswith(f"{scheme}://"):
        return "malformed"  # `HTTPS:` and `https:/host`: browsers repair both, each in its own way
    authority = re.split(r"[/?]", uri[len(scheme) + 3 :], maxsplit=1)[0]
    if "@" in authority:
        return "userinfo"
    host, port = _split_port(authority)
    if port is not None and not (port.isdecimal() and 0 < int(port) < 65536 and not port.startswith("0")):
        return "host"
    if not (_HOST.match(host) or _IPV6.match(host)):
        return "host"  # upper case, a trailing dot, an encoded or empty host
    if scheme == "http" and host not in LOOPBACK_HOSTS:
        return "insecure"
    return _common_refusal(uri)


def _split_port(authority: str) -> tuple[str, str | None]:
    if authority.endswith("]"):
        return authority, None
    host, colon, port = authority.rpartition(":")
    return (host, port) if colon else (authority, None)


def _query(text: str) -> list[tuple[str, str]]:
    return parse_qsl(text, keep_blank_values=True, max_num_fields=100)


def _common_refusal(uri: str) -> Refusal | None:
    try:
        parts = urlsplit(uri)
        names = {name.lower() for name, _ in _query(parts.query)}
    except ValueError:
        return "malformed"
    if "@" in parts.netloc:
        return "userinfo"
    # `..;` is a parent segment to some servers, and `%252e` is one to those that decode twice.
    path = unquote(unquote(parts.path)).replace("\\", "/")
    if any(segment.split(";", 1)[0] in (".", "..") for segment in path.split("/")):
        return "dot_segment"
    if not RESPONSE_PARAMETERS.isdisjoint(names):
        return "response_parameter"
    return None

"""Renders the HTML pages: on the server, not framed, never cached, and without scripts but for one line.

The page that posts an authorization response sends its form by itself: that script is named by its hash.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from sanic.response import HTTPResponse

from runtime.domain.errors import AccountNotConnected, ConsentDenied, ServiceError, ValidationFailed
from runtime.domain.oauth import redirect_uris
from runtime.services.zones import CachedZone

# No `form-action`: Chromium applies it to every redirect that follows a form, and where an application's
# redirect URI sends the browser next is not known here. Values are escaped, so no form can be injected.
_POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'"
_SUBMIT = "document.forms[0].submit()"
_SUBMIT_HASH = b64encode(sha256(_SUBMIT.encode()).digest()).decode("ascii")
PRIVATE = {
    "Cache-Control": "no-store",
    "Pragma": "no-cache",
    "Referrer-Policy": "no-referrer",
}
HEADERS = {
    **PRIVATE,
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "Cross-Origin-Opener-Policy": "same-origin",
}
LABELS = {
    "email": "E-mail address",
    "password": "Password",
    "current_password": "Current password",
    "new_password": "New password",
    "": "The form",
}
_TITLES = {
    400: "This link does not work",
    403: "This is not allowed",
    404: "Page not found",
    413: "This link does not work",
    429: "Please wait a moment",
    502: "The account was not connected",
    503: "Please try again shortly",
}
_TITLES_OF: dict[type[ServiceError], str] = {
    ConsentDenied: "You have not allowed this",
    AccountNotConnected: _TITLES[502],
}
_FORM_TITLE = "This form was not accepted"
_AWAY = "A service that this page depends on is not available. Reload the page in a moment."
_WHEN = {503: {"Retry-After": "2"}}


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with a form: the field, when it is one field's, and what to do about it."""

    field: str | None
    message: str


def mistake_of(failure: ValidationFailed) -> Mistake:
    """The first problem of a form, as its page tells it."""
    problem = failure.problems[0]
    return Mistake(problem.field, f"{LABELS[problem.field or '']} {problem.message}.")


def page(
    zone: CachedZone, name: str, *, status: int = 200, headers: dict[str, str] | None = None, **values: Any
) -> HTTPResponse:
    """A page of a zone."""
    root = urlsplit(zone.issuer).path
    standing = {"zone": zone.entity, "root": root, "base": f"{root}/oauth", "labels": LABELS}
    return _rendered(name, status, headers or {}, **standing, **values)


@dataclass(frozen=True, slots=True)
class ContinueLink:
    """Where somebody may go on to who trusts it: nobody is sent there unasked.

    Attributes:
        form: what is posted there, name -> value; None for a link.
    """

    application: str
    host: str
    address: str
    form: Mapping[str, str] | None = None


def error(
    zone: CachedZone,
    refusal: ServiceError,
    *,
    headers: dict[str, str] | None = None,
    onward: ContinueLink | None = None,
    is_of_form: bool = False,
) -> HTTPResponse:
    """The page that tells a person what is wrong, because no application can be told, or none is trusted.

    Its status is the refusal's, if that is one that means something to a browser.

    Args:
        is_of_form: what is wrong is a form of one of the zone's pages, and no link.
    """
    status = refusal.status if refusal.status in _TITLES else 400
    detail = re.sub("`([^`]*)`", "\u201c\\1\u201d", refusal.detail)
    message = f"{detail[:1].upper()}{detail[1:]}."
    title = _TITLES_OF.get(type(refusal)) or (_FORM_TITLE if is_of_form else _TITLES[status])
    values = {"title": title, "message": message, "onward": onward}
    headers = {**_WHEN.get(status, {}), **(headers or {})}
    if onward is not None and onward.form is not None:
        headers |= _posting_to(onward.address)
    return page(zone, "error", status=status, headers=headers, **values)


def form_post(zone: CachedZone, redirect_uri: str, form: Mapping[str, str]) -> HTTPResponse:
    """The page that posts an authorization response to the application, at once or with a button.

    Args:
        redirect_uri: one that a form can be sent to.
    Spec: OAuth 2.0 Form Post Response Mode section 2.
    """
    headers = _posting_to(redirect_uri, f"'sha256-{_SUBMIT_HASH}'")
    values: dict[str, Any] = {"host": redirect_uris.host_of(redirect_uri), "address": redirect_uri}
    return page(zone, "form-post", headers=headers, form=form, script=_SUBMIT, **values)


def _posting_to(redirect_uri: str, script: str = "'none'") -> dict[str, str]:
    """The policy of a page whose form goes to the application, and nowhere else."""
    origin = redirect_uris.form_origin(redirect_uri) or "'none'"
    return {"Content-Security-Policy": f"{_POLICY}; script-src {script}; form-action {origin}"}


def away(zone: CachedZone | None) -> HTTPResponse:
    """The page for a time when something that is needed does not answer; of no zone if that is what it is."""
    if zone is None:
        return _of_no_zone(503, _AWAY)
    values = {"title": _TITLES[503], "message": _AWAY, "onward": None}
    return page(zone, "error", status=503, headers=_WHEN[503], **values)


def nowhere() -> HTTPResponse:
    """The page for an address of a zone that does not exist."""
    return _of_no_zone(404, "There is no zone at this address.")


def _of_no_zone(status: int, message: str) -> HTTPResponse:
    values = {"zone": None, "base": None, "title": _TITLES[status], "message": message, "onward": None}
    return _rendered("error", status, _WHEN.get(status, {}), **values)


def style_sheet(if_none_match: str | None, name: str = "style.css") -> HTTPResponse:
    """A style sheet: of the pages of zones, or the one that is named."""
    text, version = _style(name)
    headers = {
        "Cache-Control": "public, max-age=86400",
        "ETag": f'"{version}"',
        "X-Content-Type-Options": "nosniff",
    }
    if if_none_match == headers["ETag"]:
        return HTTPResponse(status=304, headers=headers)
    return HTTPResponse(text, headers=headers, content_type="text/css; charset=utf-8")


def render(name: str, *, style: str = "style.css", **values: Any) -> str:
    """The text of a page, which refers to its style sheet by version."""
    return _templates().get_template(f"{name}.html").render(style_version=_style(style)[1], **values)


def _rendered(name: str, status: int, headers: dict[str, str], **values: Any) -> HTTPResponse:
    text = render(name, **values)
    return HTTPResponse(
        text, status=status, headers={**HEADERS, **headers}, content_type="text/html; charset=utf-8"
    )


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("runtime.api.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


@lru_cache(maxsize=8)
def _style(name: str) -> tuple[str, str]:
    text = (files("runtime.api.pages") / "static" / name).read_text("utf-8")
    return text, sha256(text.encode()).hexdigest()[:16]

"""Token responses (RFC 6749 sections 5.1 and 5.2), read tolerantly where providers are off the standard.

An answer becomes `UpstreamTokens` or an `UpstreamRefusal`; nothing else comes out, whatever a provider sends,
and no text of the provider's is repeated but error codes: those that are known beforehand, and words that
can be no token.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl

from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.outbound import HttpAnswer
from runtime.domain import strict_json
from runtime.domain.kinds.provider import leads_to_other_token

MAX_RESPONSE_BYTES = 64 * 1024
MAX_DEPTH = 16
MAX_TOKEN_CHARS = 32 * 1024
MAX_SCOPES = 500
MAX_LIFETIME_SECONDS = 10 * 366 * 86_400
MAX_RETRY_AFTER_SECONDS = 86_400

_VISIBLE = re.compile(r"[\x20-\x7e]+")
_SCOPE_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,1024}")
_SETTING = "`token_response_access_token_pointer`"
# An error code in plain words, as GitHub's `bad_verification_code`. Tokens and secrets are not made of these.
_WORDS = re.compile(r"[a-z]{1,16}(?:_[a-z]{1,16}){1,5}")
# Possessive, and closed by the end of the text as well: linear, whatever the text is.
_STRING = re.compile(r'"(?:[^"\\]|\\.?)*+(?:"|\Z)', re.DOTALL)
# Registered token types that are used otherwise than as a bearer token. Others than these are labels: Slack
# says `user` or `bot` for what it takes as a bearer token.
_OTHER_TOKEN_TYPES = frozenset({"dpop", "pop", "mac", "n_a"})


# Scopes that ask for nothing but a refresh token, so one that comes proves them: Microsoft never lists its
# own among those that it has granted. OpenID Connect Core section 11; Salesforce's word for the same.
_PROVED_BY_REFRESH_TOKEN = frozenset({"offline_access", "refresh_token"})


class RefusalKind(StrEnum):
    """What a refusal asks for: a new authorization by the user, a mended configuration, or a later try."""

    DEAD_GRANT = "dead_grant"
    MISCONFIGURED = "misconfigured"
    TEMPORARY = "temporary"


@dataclass(frozen=True, slots=True)
class UpstreamRefusal:
    """Why there are no tokens.

    Attributes:
        code: an error code of the standard or of the provider's settings, or one of this service's:
            `circuit_open`, `busy`, `unreachable`, `address_refused`, `invalid_response`, `issuer_mismatch`,
            `not_configured`, `redirected`, `rate_limited`, `unavailable`, `unknown_error`.
        retry_after_seconds: of a temporary one, where it is known when it is worth asking again.
        status: the HTTP status, where there was an answer.
        detail: what of the answer is amiss, in this service's words.
    """

    kind: RefusalKind
    code: str
    retry_after_seconds: int | None = None
    status: int | None = None
    detail: str = field(default="", compare=False)

    @property
    def explanation(self) -> str:
        """What administrators are told: codes and this service's words, nothing else that was received."""
        said = [f"`{self.code}`"] + ([self.detail] if self.detail else [])
        return ", ".join(said if self.status is None else [*said, f"HTTP status {self.status}"])


@dataclass(frozen=True, slots=True)
class UpstreamTokens:
    """What a provider issued.

    Attributes:
        expires_in_seconds: of the access token; None when neither the provider nor a setting says.
        refresh_token: the one to use from now on: the new one, or the old one where none came.
        is_refresh_token_new: the provider sent it now, and the old one may be worth nothing any more.
        scopes: those the provider names, or those that were requested where it names none; and those that ask
            for a refresh token, where they were requested and there is one.
        has_named_scopes: the provider named them.
    """

    access_token: str = field(repr=False)
    expires_in_seconds: int | None
    refresh_token: str | None = field(repr=False)
    is_refresh_token_new: bool
    refresh_token_expires_in_seconds: int | None
    scopes: frozenset[str]
    has_named_scopes: bool
    id_token: str | None = field(repr=False, default=None)


# What a code means that a token endpoint answers. RFC 6749 section 5.2, RFC 8628 section 3.5, OpenID Connect
# Core section 3.1.2.6; those that ask for a person answer refresh requests where the user is wanted again.
_MEANINGS = {
    "invalid_grant": RefusalKind.DEAD_GRANT,
    "interaction_required": RefusalKind.DEAD_GRANT,
    "login_required": RefusalKind.DEAD_GRANT,
    "consent_required": RefusalKind.DEAD_GRANT,
    "invalid_client": RefusalKind.MISCONFIGURED,
    "invalid_request": RefusalKind.MISCONFIGURED,
    "invalid_scope": RefusalKind.MISCONFIGURED,
    "invalid_target": RefusalKind.MISCONFIGURED,
    "invalid_token": RefusalKind.MISCONFIGURED,
    "unauthorized_client": RefusalKind.MISCONFIGURED,
    "unsupported_grant_type": RefusalKind.MISCONFIGURED,
    "unsupported_token_type": RefusalKind.MISCONFIGURED,
    "access_denied": RefusalKind.MISCONFIGURED,
    "server_error": RefusalKind.TEMPORARY,
    "slow_down": RefusalKind.TEMPORARY,
    "temporarily_unavailable": RefusalKind.TEMPORARY,
}


def read_token_response(
    settings: ProviderSettings,
    answer: HttpAnswer,
    *,
    scopes: frozenset[str],
    refresh_token: str | None = None,
    now: datetime | None = None,
) -> UpstreamTokens | UpstreamRefusal:
    """What a token endpoint's answer comes to.

    Args:
        scopes: requested, or granted until now: what counts when the provider names none.
        refresh_token: the one that was used, for a refresh; None for a code.
        now: what a `Retry-After` date is compared with; without it such a date is not read.
    """
    members = read_members(answer)
    if refusal := read_refusal(settings, answer, members, now=now):
        return refusal
    found = _access_token(settings, members or {}, is_refresh=refresh_token is not None)
    pointer = settings.token_response_access_token_pointer
    if leads_to_other_token(pointer):
        return _invalid(answer, f"`{pointer}` is no access token: change {_SETTING}")
    if found is None:
        return _invalid(answer, f"no access token at `{pointer}`, where {_SETTING} leads")
    access_token, beside = found
    token_type = beside.get("token_type")
    if isinstance(token_type, str) and token_type.casefold() in _OTHER_TOKEN_TYPES:
        return _invalid(answer, "the access token is no bearer token")
    if other := (_other_tokens(members or {}) | _other_tokens(beside)).get(access_token):
        return _invalid(answer, f"the token at `{pointer}` is the {other}: change {_SETTING}")
    new_refresh_token = _token(beside.get("refresh_token"))
    named = _scopes(settings, beside.get("scope", beside.get("scopes")), requested=scopes)
    kept = new_refresh_token or refresh_token
    proved = _PROVED_BY_REFRESH_TOKEN & scopes if kept is not None else frozenset[str]()
    return UpstreamTokens(
        access_token=access_token,
        expires_in_seconds=_seconds(beside.get("expires_in"))
        or settings.token_response_default_expires_in_seconds,
        refresh_token=kept,
        is_refresh_token_new=new_refresh_token is not None and new_refresh_token != refresh_token,
        refresh_token_expires_in_seconds=_seconds(beside.get("refresh_token_expires_in")),
        scopes=scopes if named is None else named | proved,
        has_named_scopes=named is not None,
        id_token=_token(beside.get("id_token")),
    )


def pointed_at(answer: Any, pointer: str) -> Any:
    """The member a pointer names: a plain name, dotted names, or a JSON Pointer. Spec: RFC 6901."""
    if pointer.startswith("/"):
        steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]
    else:
        steps = [pointer] if pointer in answer else pointer.split(".")
    for step in steps:
        if not isinstance(answer, Mapping) or step not in answer:
            return None
        answer = answer[step]
    return answer


def read_members(answer: HttpAnswer) -> Mapping[str, Any] | None:
    """The members of a JSON object or of a form; None for any other body."""
    try:
        text = answer.body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded" and (members := _json_object(text)) is not None:
        return members
    return _form(text)


def read_refusal(
    settings: ProviderSettings, answer: HttpAnswer, members: Mapping[str, Any] | None, *, now: datetime | None
) -> UpstreamRefusal | None:
    """The refusal an answer is, by its status or by its body; None when it is a success."""
    status = answer.status
    if status in (408, 425, 429) or status >= 500:
        code = "rate_limited" if status == 429 else "unavailable"
        return UpstreamRefusal(RefusalKind.TEMPORARY, code, _retry_after(answer, now), status)
    if 300 <= status < 400:
        return UpstreamRefusal(RefusalKind.MISCONFIGURED, "redirected", status=status)
    is_success = 200 <= status < 300
    if members is None:
        return None if is_success and not answer.body else _invalid(answer, "neither JSON nor a form")
    error = members.get("error")
    configured = pointed_at(members, settings.token_response_error_pointer)
    # What stands in another place than the standard's may be a word of success as well, `status: success`.
    if not is_success or _is_known(settings, configured):
        error = configured or error
    # Some providers report errors with status 200, and some say `ok` beside.
    if is_success and not error and members.get("ok") is not False:
        return None
    return _refused(settings, error, answer, now)


def _is_known(settings: ProviderSettings, code: Any) -> bool:
    return isinstance(code, str) and (code in _MEANINGS or code in settings.token_response_dead_grant_errors)


def _refused(
    settings: ProviderSettings, error: Any, answer: HttpAnswer, now: datetime | None
) -> UpstreamRefusal:
    code = error if isinstance(error, str) else ""
    if code in settings.token_response_dead_grant_errors:
        return UpstreamRefusal(RefusalKind.DEAD_GRANT, code, status=answer.status)
    kind = _MEANINGS.get(code)
    if kind is None:
        # What is not in plain words may be what the provider was sent, repeated.
        unknown = "invalid_client" if answer.status == 401 else "unknown_error"
        detail = f"the provider's error `{code}`" if _WORDS.fullmatch(code) else ""
        return UpstreamRefusal(RefusalKind.MISCONFIGURED, unknown, status=answer.status, detail=detail)
    retry_after = _retry_after(answer, now) if kind is RefusalKind.TEMPORARY else None
    return UpstreamRefusal(kind, code, retry_after, answer.status)


def _invalid(answer: HttpAnswer, detail: str) -> UpstreamRefusal:
    if answer.status == 401:
        return UpstreamRefusal(RefusalKind.MISCONFIGURED, "invalid_client", status=401)
    return UpstreamRefusal(RefusalKind.MISCONFIGURED, "invalid_response", status=answer.status, detail=detail)


def _json_object(text: str) -> Mapping[str, Any] | None:
    if _depth(text) > MAX_DEPTH:
        return None
    try:
        value = strict_json.parse(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _depth(text: str) -> int:
    """How deep arrays and objects are nested, before anything is made of them."""
    deepest = depth = 0
    for character in _STRING.sub("", text):
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _form(text: str) -> Mapping[str, str] | None:
    """The members of a form, each given once: what GitHub answers to those who do not ask for JSON."""
    try:
        pairs = parse_qsl(text, strict_parsing=True, max_num_fields=100)
    except ValueError:
        return None
    members = dict(pairs)
    return members if len(members) == len(pairs) and members.keys() & {"access_token", "error"} else None


def _access_token(
    settings: ProviderSettings, members: Mapping[str, Any], *, is_refresh: bool
) -> tuple[str, Mapping[str, Any]] | None:
    """The access token, and the members that belong to it.

    Beside a nested token those of the answer itself count only where they cannot be another token's. Only an
    answer to a refresh may have the token in the standard's place instead of the configured one: Slack nests
    the user's token beside the application's own, and answers a refresh flat.
    """
    pointer = settings.token_response_access_token_pointer
    if access_token := _token(pointed_at(members, pointer)):
        parent = _parent(members, pointer)
        return access_token, parent if "access_token" in members else {**members, **parent}
    if is_refresh and (access_token := _token(members.get("access_token"))):
        return access_token, members
    return None


def _other_tokens(members: Mapping[str, Any]) -> dict[str, str]:
    """The refresh token and the ID token: no pointer makes an access token of what applications never get.

    Returns:
        Token -> `refresh token` or `ID token`.
    """
    return {
        value: "refresh token" if "refresh" in name.casefold() else "ID token"
        for name, value in members.items()
        if leads_to_other_token(name) and isinstance(value, str)
    }


def _parent(members: Mapping[str, Any], pointer: str) -> Mapping[str, Any]:
    """The object that holds what a pointer names."""
    if pointer in members:
        return members
    above = pointer.rpartition("/" if pointer.startswith("/") else ".")[0]
    parent = pointed_at(members, above) if above else members
    return parent if isinstance(parent, Mapping) else members


def _token(value: Any) -> str | None:
    """A token: visible characters alone. Spec: RFC 6749 appendix A."""
    if isinstance(value, str) and 0 < len(value) <= MAX_TOKEN_CHARS and _VISIBLE.fullmatch(value):
        return value
    return None


def _seconds(value: Any) -> int | None:
    """A lifetime as a number or as text; None for what is missing, unreadable, or not ahead."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{1,9})?", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 1:
        return None
    return int(min(value, MAX_LIFETIME_SECONDS))


def _scopes(settings: ProviderSettings, value: Any, *, requested: frozenset[str]) -> frozenset[str] | None:
    """The scopes an answer names, as text or as a list; None when it names none, empty for an empty text."""
    if isinstance(value, list):
        named: Iterator[Any] = iter(value)
    elif isinstance(value, str):
        named = iter(_split(settings, value, requested))
    else:
        return None
    found = [each for each in named if isinstance(each, str) and _SCOPE_TOKEN.fullmatch(each)]
    return frozenset(found[:MAX_SCOPES])


def _split(settings: ProviderSettings, text: str, requested: frozenset[str]) -> list[str]:
    """Scopes of one text, apart by spaces, the configured separator, and commas where no scope has one."""
    for separator in {settings.scope_separator, ","} - {" ", ""}:
        if separator == settings.scope_separator or not any("," in each for each in requested):
            text = text.replace(separator, " ")
    return text.split()


def _retry_after(answer: HttpAnswer, now: datetime | None) -> int | None:
    """Seconds of a `Retry-After` header, given as such or as a date. Spec: RFC 9110 section 10.2.3."""
    value = answer.headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", value):
        return min(int(value), MAX_RETRY_AFTER_SECONDS)
    try:
        until = parsedate_to_datetime(value) if 0 < len(value) <= 64 else None
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    if until is None or now is None:
        return None
    seconds = ((until if until.tzinfo else until.replace(tzinfo=UTC)) - now).total_seconds()
    return int(min(max(seconds, 0), MAX_RETRY_AFTER_SECONDS))

"""Checks the claims of JWTs that authenticate a client or name a user, after signature verification.

Spec: RFC 7521, RFC 7523 section 3 and its successor draft; zone interface, section 4.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from runtime.domain.oauth.claims import is_time

CLIENT_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# What clients may sign with: a key allows those that fit its type.
ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
MAX_AHEAD_SECONDS = 3600  # an assertion is for one request, but a widespread client gives it an hour
MAX_VOUCHED_AHEAD_SECONDS = 600  # a provider that vouches for a user does so for now
MAX_WORKLOAD_AHEAD_SECONDS = 86_400  # a workload's token lies in a file and is used again
LEEWAY_SECONDS = 60
MAX_ID_CHARS = 512


class InvalidAssertion(Exception):
    """The claims are not what they must be. The message is for the log alone and holds nothing of them."""


def check_times(claims: Mapping[str, Any], *, now: datetime, max_ahead_seconds: int) -> float:
    """Check `exp`, which must be there and near, and `iat` and `nbf`; the end.

    A clock that differs is put up with for the beginning alone: an end that has come has come.
    Raises InvalidAssertion.
    """
    at, end = now.timestamp(), claims.get("exp")
    if not is_time(end) or end <= at:
        raise InvalidAssertion("`exp` is missing or in the past")
    if end > at + max_ahead_seconds + LEEWAY_SECONDS:
        raise InvalidAssertion("`exp` is too far in the future")
    for name in ("iat", "nbf"):
        if name in claims and (not is_time(claims[name]) or claims[name] > at + LEEWAY_SECONDS):
            raise InvalidAssertion(f"`{name}` is in the future")
    return end


def made_at(claims: Mapping[str, Any], *, ends: float, max_ahead_seconds: int) -> float:
    """The instant before which an assertion with these times, once checked, cannot have been used.

    One that does not say is as old as its end allows. A clock that is ahead is believed.
    """
    told = [float(claims[name]) for name in ("iat", "nbf") if name in claims]
    return max(told) if told else ends - max_ahead_seconds - LEEWAY_SECONDS


def check_audience(claims: Mapping[str, Any], accepted: Collection[str], *, listed: bool = False) -> None:
    """Check that `aud` is one single text among those accepted.

    Args:
        listed: take a list of one too, which is how some platforms write a single audience.
    Raises InvalidAssertion; for several audiences too, because each of them could use the assertion here.
    """
    audience = claims.get("aud")
    if listed and isinstance(audience, list) and len(audience) == 1:
        audience = audience[0]
    if not isinstance(audience, str) or audience not in accepted:
        raise InvalidAssertion("`aud` must be this server alone")


def token_id(claims: Mapping[str, Any]) -> str:
    """The `jti`, by which a second use is recognised. Raises InvalidAssertion."""
    found = claims.get("jti")
    if not isinstance(found, str) or not 0 < len(found) <= MAX_ID_CHARS:
        raise InvalidAssertion("`jti` is missing or too long")
    return found


def named(claims: Mapping[str, Any], name: str) -> str:
    """A claim that must be text. Raises InvalidAssertion."""
    found = claims.get(name)
    if not isinstance(found, str) or not found:
        raise InvalidAssertion(f"`{name}` is missing or not a string")
    return found

"""Scope strings, and the rules that limit the scopes of an exchanged token."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from runtime.domain.errors import InvalidScope

# To see and replace the policies with which a user limits what applications may do for them.
POLICY_BUNDLE = "policy_bundle"
# Scopes that no administrator can agree to in a user's place: whatever the application's setting, the user is
# asked. What keeps an application within bounds must not be theirs to give it.
ALWAYS_ASKED = frozenset({POLICY_BUNDLE})
# What signing in asks for, of no resource. Spec: OpenID Connect Core sections 5.4 and 11.
SIGN_IN_SCOPES = frozenset({"openid", "profile", "email", "offline_access", POLICY_BUNDLE})
_NONE = frozenset[str]()
MAX_SCOPES = 200
MAX_SCOPE_CHARS = 8192

_TOKEN = r"[\x21\x23-\x5B\x5D-\x7E]+"
_SCOPE = re.compile(rf"{_TOKEN}(?: {_TOKEN})*\Z")


class ScopeRestriction(NamedTuple):
    """The outcome: `issued` stays within every limit; `refused` was asked for and is beyond one."""

    issued: frozenset[str]
    refused: frozenset[str]


def narrow(requested: frozenset[str] | None, *bounds: frozenset[str] | None) -> ScopeRestriction:
    """Intersect what is asked for with every bound.

    Args:
        requested: None when the request names no scope: everything within the bounds is meant, and nothing
            when no side sets one.
        bounds: of each side: the resource, the user's word, the subject token. None where a side sets none;
            the empty set allows nothing.
    Spec: zone interface, section 6, rule 2.
    """
    issued = requested
    for bound in bounds:
        if bound is not None:
            issued = bound if issued is None else issued & bound
    if issued is None:
        return ScopeRestriction(_NONE, _NONE)
    if requested is None or issued == requested:
        return ScopeRestriction(issued, _NONE)
    return ScopeRestriction(issued, requested - issued)


def parse(text: str) -> frozenset[str]:
    """The scopes in a `scope` parameter; none in the empty text.

    Raises: InvalidScope when it is not scope tokens with single spaces between them, or too much of it.
    Spec: RFC 6749 section 3.3.
    """
    if not text:
        return frozenset()
    if len(text) > MAX_SCOPE_CHARS or not _SCOPE.match(text):
        raise InvalidScope("`scope` is malformed or too long")
    scopes = frozenset(text.split(" "))
    if len(scopes) > MAX_SCOPES:
        raise InvalidScope(f"`scope` names more than {MAX_SCOPES} scopes")
    return scopes


def to_text(scopes: Iterable[str]) -> str:
    """The `scope` parameter or claim, in one order however the set was made."""
    return " ".join(sorted(scopes))


_remembered_text = lru_cache(maxsize=1024)(to_text)


def member(scopes: frozenset[str]) -> dict[str, str]:
    """The `scope` of a response; left out when there is none, which the grammar has no text for.

    Spec: RFC 6749 sections 3.3 and 5.1; RFC 8693 section 2.2.1; RFC 7662 section 2.2.
    """
    text = _remembered_text(scopes)
    return {"scope": text} if text else {}

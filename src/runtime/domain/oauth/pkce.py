"""Proof Key for Code Exchange, S256 only. Spec: RFC 7636; zone interface, section 4."""

import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest

from runtime.domain.errors import InvalidGrant, InvalidRequest

_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}\Z")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}\Z")  # a SHA-256 digest in base64url is always this long


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier."""
    return urlsafe_b64encode(sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def check_challenge(challenge: str | None, method: str | None, *, required: bool) -> str | None:
    """What an authorize request says about PKCE: the challenge to keep with the code, or None without one.

    Raises: InvalidRequest when it is required and missing, when the method is not S256 (an absent method
        means `plain`), or when the challenge is not a SHA-256 digest.
    """
    if challenge is None:
        if method is not None:
            raise InvalidRequest("`code_challenge_method` without `code_challenge`")
        if required:
            raise InvalidRequest("`code_challenge` is required here")
        return None
    if method != "S256":
        raise InvalidRequest("`code_challenge_method` must be `S256`")
    if not _CHALLENGE.match(challenge):
        raise InvalidRequest("`code_challenge` is not a SHA-256 digest in base64url")
    return challenge


def check_verifier(verifier: str | None, challenge: str | None) -> None:
    """Check what a token request proves against what the authorize request announced.

    A verifier without a stored challenge is refused too: someone removed the challenge on the way
    (downgrade).

    Raises: InvalidRequest for a verifier that is not 43 to 128 unreserved characters; InvalidGrant
        otherwise.
    """
    if verifier is not None and not _VERIFIER.match(verifier):
        raise InvalidRequest("`code_verifier` is not 43 to 128 unreserved characters")
    if verifier is None and challenge is None:
        return
    if verifier is None or challenge is None or not compare_digest(challenge_of(verifier), challenge):
        raise InvalidGrant("the code is not valid for this request", internal="PKCE does not match")

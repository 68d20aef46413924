"""Revocation requests (RFC 7009): telling a provider that a token is to be worth nothing."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.outbound import HttpAnswer
from runtime.adapters.upstream_oauth.token_response import (
    RefusalKind,
    UpstreamRefusal,
    read_members,
    read_refusal,
)

TokenTypeHint = Literal["access_token", "refresh_token"]


class RevocationOutcome(StrEnum):
    """What a revocation at a provider came to."""

    REVOKED = "revoked"
    NOT_SUPPORTED = "not_supported"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class UpstreamRevocation:
    """The outcome, with the reason of one that failed: a temporary one is worth another attempt."""

    outcome: RevocationOutcome
    refusal: UpstreamRefusal | None = None


REVOKED = UpstreamRevocation(RevocationOutcome.REVOKED)
NOT_SUPPORTED = UpstreamRevocation(RevocationOutcome.NOT_SUPPORTED)


def revocation(token: str, hint: TokenTypeHint) -> dict[str, str]:
    """The members of a revocation request. Spec: RFC 7009 section 2.1."""
    return {"token": token, "token_type_hint": hint}


def read_revocation_response(
    settings: ProviderSettings, answer: HttpAnswer, *, now: datetime
) -> UpstreamRevocation:
    """What a revocation endpoint's answer comes to. Spec: RFC 7009 section 2.2."""
    is_success = 200 <= answer.status < 300
    members = read_members(answer)
    if is_success and members is None:
        return REVOKED  # the standard leaves the body of a success open
    refusal = read_refusal(settings, answer, members, now=now)
    # A token that the provider no longer knows is what was wanted.
    if refusal is None or refusal.kind is RefusalKind.DEAD_GRANT or refusal.code == "invalid_token":
        return REVOKED
    return NOT_SUPPORTED if refusal.code == "unsupported_token_type" else failed_revocation(refusal)


def failed_revocation(refusal: UpstreamRefusal) -> UpstreamRevocation:
    """A revocation that did not take place."""
    return UpstreamRevocation(RevocationOutcome.FAILED, refusal)

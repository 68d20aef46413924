"""Delegated grants: the states of one, and the transitions between them. There are no others.

`expired` is never stored: a grant is expired when it is stored as `active` and its `expires_at` is over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.values import GrantStatus


class Cause(StrEnum):
    """What moves a delegated grant from one state to another."""

    AUTHORIZATION = "authorization"  # the user consents, connects an account, or stores a credential
    REFRESH = "refresh"  # the provider has answered with new tokens
    EXPIRY = "expiry"  # `expires_at` is over
    REVOCATION = "revocation"  # the user or an administrator revokes it


@dataclass(frozen=True, slots=True)
class Transition:
    """The states that a cause applies to, and the one that it leads to.

    Attributes:
        creates: whether it also makes a grant where there is none.
    """

    sources: frozenset[GrantStatus]
    target: GrantStatus
    creates: bool = False


# Only the user's own word ends `revoked` and `expired`: no refresh that was under way revives such a grant.
# The access token of an active grant may well have expired, which is what a refresh is for.
TRANSITIONS: Mapping[Cause, Transition] = MappingProxyType(
    {
        Cause.AUTHORIZATION: Transition(frozenset(GrantStatus), GrantStatus.ACTIVE, creates=True),
        Cause.REFRESH: Transition(frozenset({GrantStatus.ACTIVE}), GrantStatus.ACTIVE),
        Cause.EXPIRY: Transition(frozenset({GrantStatus.ACTIVE}), GrantStatus.EXPIRED),
        Cause.REVOCATION: Transition(
            frozenset({GrantStatus.ACTIVE, GrantStatus.EXPIRED}), GrantStatus.REVOKED
        ),
    }
)


def issuing_addresses(provider: Provider) -> tuple[str | None, ...]:
    """Who issues a provider's tokens, where they are refreshed and revoked, and to which client.

    Its grants end when one of these changes: a refresh token goes to no other address than it came from.
    """
    oauth2 = provider.protocols.oauth2 if provider.protocols else None
    return (
        (oauth2.issuer if oauth2 else None) or provider.identifier,
        oauth2.token_endpoint if oauth2 else None,
        oauth2.revocation_endpoint if oauth2 else None,
        provider.client_id,
    )

"""Lifetimes: is a session, refresh family or grant active? And the issuer that a provider's tokens name."""

from datetime import datetime
from typing import Protocol

from runtime.domain.kinds.provider import Provider, ProviderOAuth2, ProviderOpenID

ACTIVE = "active"


class Lifetime(Protocol):
    """Something that can be revoked and may expire.

    Attributes:
        status: `active` until it is revoked; that it has expired is not written down anywhere.
        expires_at: None for what does not end by itself.
    """

    @property
    def status(self) -> str:
        """See above."""

    @property
    def expires_at(self) -> datetime | None:
        """See above."""


def is_active(lifetime: Lifetime, now: datetime) -> bool:
    """Tell whether it is neither revoked nor expired."""
    return lifetime.status == ACTIVE and (lifetime.expires_at is None or lifetime.expires_at > now)


def speaks_for_itself(provider: Provider) -> bool:
    """Tell whether it is the issuer that says who somebody is.

    Where an administrator has written down by hand where people are sent, whose keys count, where codes are
    redeemed, who is asked about a person, or which claim is the subject, it is the administrator.
    """
    oauth2, openid = _parts_of(provider)
    by_hand = (
        oauth2.authorization_endpoint or oauth2.jwks_uri or oauth2.token_endpoint or openid.userinfo_endpoint
    )
    return not by_hand and openid.external_id_claim in (None, "sub")


def issuer_of(provider: Provider) -> str:
    """The issuer that its tokens name."""
    return _parts_of(provider)[0].issuer


def _parts_of(provider: Provider) -> tuple[ProviderOAuth2, ProviderOpenID]:
    protocols = provider.protocols
    # Not validated: an identifier that is no address is refused where it would be fetched.
    bare = ProviderOAuth2.model_construct(issuer=provider.identifier)
    return (protocols and protocols.oauth2) or bare, (protocols and protocols.openid) or ProviderOpenID()

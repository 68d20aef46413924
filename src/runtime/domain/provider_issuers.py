"""The issuer of a provider: what its tokens name, and whether it or an administrator says who somebody is."""

from runtime.domain.kinds.provider import Provider, ProviderOAuth2, ProviderOpenID


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
    """The issuer that its tokens name: the identifier of the provider where none is configured."""
    return _parts_of(provider)[0].issuer


def _parts_of(provider: Provider) -> tuple[ProviderOAuth2, ProviderOpenID]:
    protocols = provider.protocols
    # Not validated: an identifier that is no address is refused where it would be fetched.
    bare = ProviderOAuth2.model_construct(issuer=provider.identifier)
    return (protocols and protocols.oauth2) or bare, (protocols and protocols.openid) or ProviderOpenID()

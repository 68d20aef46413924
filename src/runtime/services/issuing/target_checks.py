"""Checks of the target of a token: a known resource, a declared dependency, with tokens issued here."""

from runtime.domain.errors import AccessDenied, InvalidTarget, UnauthorizedClient
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import ProviderType
from runtime.domain.oauth.exchange import GRANT_TYPE, TARGET_REFUSED
from runtime.domain.oauth.sent_values import shown
from runtime.services.client_types import ApplicationClient
from runtime.services.clients import client_lookup
from runtime.services.zones import CachedZone

EXCHANGE_REQUIRED = "token_exchange_required"
PROVIDER_DELETED = "credential_provider_deleted"
_DELETED = (
    "the credential provider of the resource was deleted; an administrator has to set"
    " `credential_provider_id` of the resource: to another provider, or to the zone's `service-sts` if it"
    " accepts access tokens of the zone"
)
_EXCHANGE = (
    "The resource takes a stored key or a connected account of the user: exchange a token of the user for it"
    f" (`grant_type={GRANT_TYPE}`)"
)
_SHARED = (
    "; a key that an administrator has stored for all users is also handed out for a token that the"
    " application got on its own behalf (without `resource`): exchange that"
)


async def require_resource(
    zone: CachedZone, named: str | None, found: Resource | None, audiences: tuple[str, ...]
) -> Resource:
    """The target, which every `audience` must mean too. Raises InvalidTarget.

    Args:
        named: what the request calls it, for the decision record.
        found: what that resolves to.
    """
    if found is None:
        raise InvalidTarget(TARGET_REFUSED, internal=f"unknown resource `{shown(named or '')}`")
    for audience in audiences:
        meant = await zone.resources.resolve(audience)
        if meant is None or meant.id != found.id:
            raise InvalidTarget(TARGET_REFUSED, internal="`audience` and `resource` name different resources")
    return found


async def require_dependency(zone: CachedZone, client: ApplicationClient, resource: Resource) -> None:
    """Check that the application declares the resource. Raises InvalidTarget, as for an unknown resource."""
    if not await client_lookup.may_request(zone, client, resource):
        raise InvalidTarget(TARGET_REFUSED, internal="not a declared dependency")


async def require_principal(zone: CachedZone, client: ApplicationClient) -> None:
    """Check that no user is called as the application is. Raises UnauthorizedClient.

    Names have one owner by now; an application that was called as a user is before that may not act.
    """
    if not await zone.applications.is_principal(client.application):
        raise UnauthorizedClient(
            "the application has the identifier of a user of the zone; give it another one"
        )


async def require_own_tokens(zone: CachedZone, resource: Resource, *, has_user: bool) -> None:
    """Check that the zone itself makes the resource's tokens. Raises AccessDenied.

    A credential of the vault, a stored key or an outside provider's token, is handed out by token exchange
    alone.

    Args:
        has_user: whether the request is for a token of a user.
    """
    provider = await find_credential_provider(zone, resource)
    if provider is not None:
        shared = _SHARED if provider.type is ProviderType.SERVICE_VAULT else ""
        told = _EXCHANGE if has_user else f"client credentials have no user. {_EXCHANGE}{shared}"
        raise AccessDenied(told, reason=EXCHANGE_REQUIRED)


async def find_credential_provider(zone: CachedZone, resource: Resource) -> Provider | None:
    """The provider whose credentials the vault keeps for a resource; None where the zone makes its tokens.

    A provider of type `service-vault` has the keys that users have stored; one of type `external` the tokens
    of the accounts that they have connected.

    Raises: AccessDenied when the provider was deleted: what takes its place is for the owner to choose.
    """
    if await issues_itself(zone, resource):
        return None
    provider = await zone.providers.get(resource.credential_provider_id or "")
    if provider is None:
        deleted = resource.deleted_credential_provider_id or resource.credential_provider_id
        internal = f"the credential provider `{deleted}` was deleted"
        raise AccessDenied(_DELETED, reason=PROVIDER_DELETED, internal=internal)
    return provider


async def issues_itself(zone: CachedZone, resource: Resource) -> bool:
    """Tell whether the zone issues the tokens that a resource accepts, and has not only lost who does."""
    if resource.credential_provider_id is None:
        return resource.deleted_credential_provider_id is None
    provider = await zone.providers.get(resource.credential_provider_id)
    return provider is not None and provider.type is ProviderType.SERVICE_STS

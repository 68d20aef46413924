"""Checks of the target of a token: a known resource, a declared dependency, with tokens issued here."""

from runtime.domain.errors import InvalidTarget, UnauthorizedClient
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import ProviderType
from runtime.domain.oauth.exchange import TARGET_REFUSED
from runtime.services.authority.consents import authorization_required
from runtime.services.client_types import ApplicationClient, Client
from runtime.services.clients import client_lookup
from runtime.services.zones import CachedZone


async def require_resource(zone: CachedZone, found: Resource | None, audiences: tuple[str, ...]) -> Resource:
    """The target, which every `audience` must mean too. Raises InvalidTarget."""
    if found is None:
        raise InvalidTarget(TARGET_REFUSED, internal="unknown resource")
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


async def require_own_tokens(zone: CachedZone, client: Client, resource: Resource) -> None:
    """Check that the zone itself makes the resource's tokens. Raises AccessDenied.

    A token of another issuer takes an account that the user has connected, and none is.
    """
    if resource.credential_provider_id is None:
        return
    provider = await zone.providers.get(resource.credential_provider_id)
    if provider is None or provider.type != ProviderType.SERVICE_STS:
        raise authorization_required(zone, client, resource, internal="no connected account")

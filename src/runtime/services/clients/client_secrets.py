"""A client id with a secret, in the header or in the body, or with none at all.

Spec: RFC 6749 section 2.3.
"""

import base64
import binascii
from urllib.parse import unquote_plus

from runtime.domain.errors import InvalidClient
from runtime.domain.kinds.application import PasswordCredential
from runtime.services.client_types import ApplicationClient, Client
from runtime.services.clients.client_revalidation import revalidated_client
from runtime.services.container import Services
from runtime.services.zones import CachedZone

_NOBODY = bytes(32)  # compared with when there is no such client, so that takes as long


def basic_credentials(authorization: str | None) -> list[tuple[str, str]]:
    """The client id and secret in a Basic header, decoded as OAuth wants it first, as they stand second.

    Many clients leave the form encoding out. Raises InvalidClient for a header that cannot be read.
    """
    if authorization is None:
        return []
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        raise InvalidClient(internal="another scheme than Basic", basic=True)
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise InvalidClient(internal="malformed Basic header", basic=True) from None
    client_id, colon, secret = text.partition(":")
    if not colon or "\0" in text:
        raise InvalidClient(internal="malformed Basic header", basic=True)
    decoded = unquote_plus(client_id), unquote_plus(secret)
    return [decoded] if decoded == (client_id, secret) else [decoded, (client_id, secret)]


async def client_with_secret(
    services: Services, zone: CachedZone, client_id: str, secret: str | None
) -> Client | None:
    """The client that shows this secret, or is public and shows none; None when nobody does.

    Whoever guesses cannot tell from the time it takes which clients exist: before a refusal the database is
    asked about either, and a digest is compared for either.
    """
    client = await zone.clients.get(client_id)
    if client is None:
        services.hasher.matches(secret or "", _NOBODY)
        return None
    if _proves(services, client, secret) and (admitted := await revalidated_client(zone, client)) is not None:
        return admitted
    await zone.clients.query_again(client_id)
    return None


def _proves(services: Services, client: Client, secret: str | None) -> bool:
    """Tell whether this secret, or its absence, is what the client's credential asks for."""
    if client.is_public:
        return secret is None
    credential = client.credential if isinstance(client, ApplicationClient) else None
    expected = credential.secret_hash if isinstance(credential, PasswordCredential) else None
    matches = services.hasher.matches(secret or "", expected or _NOBODY)
    return matches and secret is not None and expected is not None

"""A client id with a secret, in the header or in the body, or with none at all.

Spec: RFC 6749 section 2.3.
"""

import base64
import binascii
from datetime import datetime
from urllib.parse import unquote_plus

from runtime.domain.errors import InvalidClient
from runtime.domain.kinds.application import PasswordCredential
from runtime.domain.kinds.values import rfc3339
from runtime.services.client_types import ApplicationClient, Client
from runtime.services.clients.client_revalidation import revalidated_client
from runtime.services.container import Services
from runtime.services.zones import CachedZone

_NOBODY = bytes(32)  # compared with when there is no such secret, so that takes as long


class SecretExpired(Exception):
    """The secret belonged to a credential that has expired; the message names it, for the log."""


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

    Whoever guesses cannot tell from the time it takes which clients exist, how many secrets one has, or which
    of them it is: before a refusal the database is asked about any, and two digests are compared with any.

    Raises: SecretExpired.
    """
    client = await zone.clients.get(client_id)
    proved = _proved(services, client, secret)
    if client is None:
        return None
    expired = _expired(proved, services.clock()) if proved is not None else ""
    if proved and not expired and (admitted := await revalidated_client(zone, proved)) is not None:
        return admitted
    await zone.clients.query_again(client_id)
    if expired:
        raise SecretExpired(expired)
    return None


def _proved(services: Services, client: Client | None, secret: str | None) -> Client | None:
    """The client, with the credential that this secret, or its absence, belongs to."""
    if client is not None and client.is_public:
        return client if secret is None else None
    own = client if isinstance(client, ApplicationClient) else None
    shown, found = services.hasher.hash(secret or ""), None
    for candidate in (own, own.other_secret if own is not None else None):
        credential = candidate.credential if candidate is not None else None
        expected = credential.secret_hash if isinstance(credential, PasswordCredential) else None
        if services.hasher.are_same(shown, expected or _NOBODY) and secret is not None and expected:
            found = candidate
    return found


def _expired(client: Client, now: datetime) -> str:
    """What the log says when the client's credential has expired by now; empty when it has not."""
    credential = client.credential if isinstance(client, ApplicationClient) else None
    if not isinstance(credential, PasswordCredential) or credential.expires_at is None:
        return ""
    if not credential.has_expired(now):
        return ""
    return f"the secret of credential `{credential.id}` expired at `{rfc3339(credential.expires_at)}`"

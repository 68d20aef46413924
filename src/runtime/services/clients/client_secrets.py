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
from runtime.domain.oauth.sent_values import unknown_client_id
from runtime.services.client_types import ApplicationClient, Client
from runtime.services.clients.client_revalidation import revalidated_client
from runtime.services.container import Services
from runtime.services.zones import CachedZone

_OTHERWISE = "the client's metadata document says another authentication method by now"
_NOBODY = bytes(32)  # compared with when there is no such secret, so that takes as long


class SecretRefused(Exception):
    """No client has proved itself by a secret. The message says why, for decision records alone.

    Attributes:
        application_id: the application whose client id it is, where there is one.
        is_guess: False for the secret of a credential that has expired, or of a suspended application.
    """

    def __init__(self, reason: str, client: Client | None, *, is_guess: bool) -> None:
        super().__init__(reason)
        self.application_id = client.client_ref.application_id if client is not None else None
        self.is_guess = is_guess


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
    services: Services, zone: CachedZone, client_id: str, secret: str | None, now: datetime
) -> Client:
    """The client that shows this secret, or is public and shows none.

    Whoever guesses cannot tell from the time it takes which clients exist, how many secrets one has, or which
    of them it is: before a refusal the database is asked about any, and two digests are compared with any.

    Raises: SecretRefused.
    """
    found = await zone.clients.find_cached(client_id)
    client = found.client if found is not None else None
    proved = _proved(services, client, secret)
    if found is not None and proved is not None and not found.is_active:
        # Not for who guesses: that would take longer than for other clients.
        found = await zone.clients.find_now(client_id)
        client = found.client if found is not None else None
        proved = _proved(services, client, secret)
    useless = _useless(proved, now) if proved else ""
    if found is not None and proved is not None and not found.is_active:
        useless = useless or found.why_inactive
    if proved and not useless and (admitted := await revalidated_client(zone, proved)) is not None:
        return admitted
    if found is not None:  # an unknown one was just asked for
        await zone.clients.query_again(client_id)
    # Of a public client nothing was proved: who names it learns no more than who guesses.
    is_guess = proved is None or proved.is_public
    reason = useless or (_OTHERWISE if proved else _mistake(client_id, client, secret))
    raise SecretRefused(reason, client, is_guess=is_guess)


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


def _useless(client: Client, now: datetime) -> str:
    """Why a credential that was shown counts for nothing by now; empty when it counts."""
    credential = client.credential if isinstance(client, ApplicationClient) else None
    if isinstance(credential, PasswordCredential) and credential.has_expired(now):
        ended = rfc3339(credential.expires_at) if credential.expires_at else ""
        return f"the secret of credential `{credential.id}` expired at `{ended}`"
    return ""


def _mistake(client_id: str, client: Client | None, secret: str | None) -> str:
    """Why a request without a credential of the client is not the client's."""
    if client is None:
        return unknown_client_id(client_id)
    if secret is None:
        return "no client secret, and no assertion"
    return "a public client, which has no secret" if client.is_public else "wrong client secret"

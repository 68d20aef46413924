"""Client authentication at the token endpoint: a secret in the header or in the body, or none at all.

Spec: RFC 6749 section 2.3; zone interface, section 3.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from runtime.domain.errors import InvalidClient, InvalidRequest, TooManyRequests, Unavailable
from runtime.services.zones import Client, Kept, ZoneView

if TYPE_CHECKING:
    from runtime.services.parts import Parts

MAX_FAILURES = 20
WINDOW_SECONDS = 60
_NOBODY = bytes(32)  # compared with when there is no such client, so that takes as long
_FAILED = "client authentication failed"


class SecretGuessing:
    """Who has guessed wrong too often: counted for a client and an address together.

    So nobody can lock an application out from elsewhere. Failures are counted in the shared state; that a
    pair is over the limit is remembered here, so a request that is in order costs no trip.
    """

    def __init__(self) -> None:
        self._blocked: Kept[float] = Kept()

    def check(self, zone_id: str, client_id: str, address: str, *, now: float) -> None:
        """Raises TooManyRequests while the pair has to wait."""
        until = self._blocked.get(f"{zone_id}\0{client_id}\0{address}")
        if until is not None and now < until:
            raise TooManyRequests("too many failed attempts", retry_after_seconds=int(until - now) + 1)

    async def failed(self, parts: "Parts", zone_id: str, client_id: str, address: str, *, now: float) -> None:
        """Count a failure of the pair."""
        pair = f"{zone_id}\0{client_id}\0{address}"
        window = int(now) // WINDOW_SECONDS
        try:
            failures = await parts.state.count(f"guess:{pair}:{window}", ttl_seconds=WINDOW_SECONDS)
        except Unavailable:
            return  # the secret is still checked; only the counting is away
        if failures >= MAX_FAILURES:
            self._blocked.put(pair, float((window + 1) * WINDOW_SECONDS))


def basic_credentials(authorization: str | None) -> list[tuple[str, str]]:
    """The client id and secret in a Basic header, decoded as OAuth wants it first, as they stand second.

    Many clients leave the form encoding out. Raises InvalidClient for a header that cannot be read.
    """
    if authorization is None:
        return []
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        raise InvalidClient(_FAILED, internal="another scheme than Basic", basic=True)
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise InvalidClient(_FAILED, internal="malformed Basic header", basic=True) from None
    client_id, colon, secret = text.partition(":")
    if not colon or "\0" in text:
        raise InvalidClient(_FAILED, internal="malformed Basic header", basic=True)
    decoded = unquote_plus(client_id), unquote_plus(secret)
    return [decoded] if decoded == (client_id, secret) else [decoded, (client_id, secret)]


async def authenticate_client(
    parts: "Parts",
    view: ZoneView,
    form: Mapping[str, str],
    *,
    authorization: str | None,
    address: str,
    guessing: SecretGuessing,
) -> Client:
    """The client that a token request proves to come from.

    Raises:
        InvalidRequest: two mechanisms in one request, or two client ids.
        InvalidClient: unknown client, wrong secret, no secret where one is due, or one where none is.
        TooManyRequests: this client was guessed at too often from this address.
    """
    basic = basic_credentials(authorization)
    if "client_assertion" in form or "client_assertion_type" in form:
        raise InvalidClient(_FAILED, internal="assertions are not accepted", basic=bool(basic))
    if basic and "client_secret" in form:
        raise InvalidRequest("one way of client authentication at a time")
    pairs: list[tuple[str, str | None]] = [*basic]
    if not basic:
        pairs.append((form.get("client_id", ""), form.get("client_secret")))
    if basic and "client_id" in form and form["client_id"] not in {client_id for client_id, _ in basic}:
        raise InvalidRequest("`client_id` names another client than the Authorization header")
    if not pairs[0][0]:
        raise InvalidClient(_FAILED, internal="no client id", basic=bool(basic))
    now = parts.clock().timestamp()
    guessing.check(view.id, pairs[0][0], address, now=now)
    for client_id, secret in pairs:
        client = await view.client(client_id)
        if client is not None and _proves(parts, client, secret):
            return client
        if client is None:
            parts.hasher.matches(secret or "", _NOBODY)
    await guessing.failed(parts, view.id, pairs[0][0], address, now=now)
    raise InvalidClient(_FAILED, basic=bool(basic))


def _proves(parts: "Parts", client: Client, secret: str | None) -> bool:
    """Tell whether this secret, or its absence, is what the client's credential asks for."""
    if client.is_public:
        return secret is None
    expected = client.credential.secret_hash
    matches = parts.hasher.matches(secret or "", expected or _NOBODY)
    return matches and secret is not None and expected is not None

"""Which client a request proves to come from. Spec: RFC 6749 section 2.3; zone interface, section 3."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from runtime.domain.errors import InvalidClient, InvalidRequest
from runtime.services import refusals
from runtime.services.clients import assertions
from runtime.services.clients.guessing import SecretGuessing
from runtime.services.clients.secrets import basic_credentials, client_with_secret
from runtime.services.limits import place_of
from runtime.services.parties import Client
from runtime.services.zones import ZoneView

if TYPE_CHECKING:
    from runtime.services.parts import Parts


async def authenticate_client(
    parts: "Parts",
    view: ZoneView,
    form: Mapping[str, str],
    *,
    authorization: str | None,
    address: str,
    guessing: SecretGuessing,
) -> Client:
    """The client that a request proves to come from. Who proves nothing is counted.

    Raises:
        InvalidRequest: two mechanisms in one request, or two client ids.
        InvalidClient: unknown client, wrong secret, no secret where one is due, one where none is, or an
            assertion that does not prove it. One text for all.
        TooManyRequests: this client was guessed at too often from this address, or the address was refused
            too often.
        Unavailable: whether an assertion was used before cannot be told now.
    """
    try:
        return await _proved(parts, view, form, authorization, address, guessing)
    except (InvalidClient, InvalidRequest) as refusal:
        raise await refusals.told(parts, view.id, refusal, whose=place_of(address)) from None


async def _proved(
    parts: "Parts",
    view: ZoneView,
    form: Mapping[str, str],
    authorization: str | None,
    address: str,
    guessing: SecretGuessing,
) -> Client:
    """Raises as above, without a count."""
    if "client_assertion" in form or "client_assertion_type" in form:
        return await _asserted(parts, view, form, authorization, address, guessing)
    basic = basic_credentials(authorization)
    if basic and "client_secret" in form:
        raise InvalidRequest("one way of client authentication at a time")
    pairs: list[tuple[str, str | None]] = [(client_id, secret or None) for client_id, secret in basic]
    if not basic:
        pairs.append((form.get("client_id", ""), form.get("client_secret")))
    if basic and "client_id" in form and form["client_id"] not in {client_id for client_id, _ in basic}:
        raise InvalidRequest("`client_id` names another client than the Authorization header")
    claimed = pairs[0][0]
    if not claimed:
        raise InvalidClient(internal="no client id", basic=bool(basic))
    now = parts.clock().timestamp()
    guessing.check(view.id, claimed, address, now=now)
    for client_id, secret in pairs:
        client = await client_with_secret(parts, view, client_id, secret)
        if client is not None:
            return client
    await guessing.failed(parts, view.id, claimed, address, now=now)
    raise InvalidClient(internal="unknown client, or another secret", basic=bool(basic))


async def _asserted(
    parts: "Parts",
    view: ZoneView,
    form: Mapping[str, str],
    authorization: str | None,
    address: str,
    guessing: SecretGuessing,
) -> Client:
    """The client that a JWT in the request speaks for."""
    if authorization is not None or "client_secret" in form:
        raise InvalidRequest("one way of client authentication at a time")
    now = parts.clock()
    assertion = assertions.read(form)
    guessing.check(view.id, assertion.claimed, address, now=now.timestamp())
    try:
        return await assertions.client_of(parts, view, assertion, now, sender=place_of(address))
    except InvalidClient:
        await guessing.failed(parts, view.id, assertion.claimed, address, now=now.timestamp())
        raise

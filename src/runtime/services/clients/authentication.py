"""Client authentication (RFC 6749 section 2.3): a secret, an assertion, or none for public clients."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from runtime.domain.errors import InvalidClient, InvalidRequest, TooManyRequests
from runtime.services.client_types import Client
from runtime.services.clients import assertions
from runtime.services.clients.authentication_throttling import FailedAuthenticationThrottle
from runtime.services.clients.client_secrets import SecretRefused, basic_credentials, client_with_secret
from runtime.services.clients.last_used import LAST_USED
from runtime.services.container import Services
from runtime.services.rate_limiter import network_of
from runtime.services.refused_requests import count_refusal
from runtime.services.zones import CachedZone


async def authenticate_client(
    services: Services,
    zone: CachedZone,
    form: Mapping[str, str],
    *,
    authorization: str | None,
    address: str,
    throttle: FailedAuthenticationThrottle,
) -> Client:
    """The client that a request proves to come from. Who proves nothing is counted.

    A secret whose credential has expired is refused as any other, but is no guess: instances that still have
    it do not block the client id for those behind the same address that have the new one. Nor is the secret
    of a suspended application, which is let in at once when somebody active is accountable for it again.

    Raises:
        InvalidRequest: two mechanisms in one request, or two client ids.
        InvalidClient: unknown client, wrong secret, no secret where one is due, one where none is, or an
            assertion that does not prove it. One text for all.
        TooManyRequests: this client was guessed at too often from this address, or the address was refused
            too often.
        Unavailable: whether an assertion was used before cannot be told now.
    """
    now = services.clock()
    try:
        client = await _proved(services, zone, form, authorization, address, throttle, now)
    except (InvalidClient, InvalidRequest) as refusal:
        raise await count_refusal(
            services.rate_limiter, zone.id, refusal, whose=network_of(address)
        ) from None
    LAST_USED.record(services, client, now)
    return client


async def _proved(
    services: Services,
    zone: CachedZone,
    form: Mapping[str, str],
    authorization: str | None,
    address: str,
    throttle: FailedAuthenticationThrottle,
    now: datetime,
) -> Client:
    """Raises as above, without a count."""
    if "client_assertion" in form or "client_assertion_type" in form:
        return await _asserted(services, zone, form, authorization, address, throttle, now)
    basic = basic_credentials(authorization)
    if basic and "client_secret" in form:
        raise InvalidRequest("use one client authentication method per request")
    pairs: list[tuple[str, str | None]] = [(client_id, secret or None) for client_id, secret in basic]
    if not basic:
        pairs.append((form.get("client_id", ""), form.get("client_secret")))
    if basic and "client_id" in form and form["client_id"] not in {client_id for client_id, _ in basic}:
        raise InvalidRequest("`client_id` is not the client of the Authorization header")
    claimed = pairs[0][0]
    if not claimed:
        raise InvalidClient(internal="no client id", basic=bool(basic))
    _require_not_blocked(zone, claimed, address, throttle, now.timestamp())
    try:
        return await _with_secret(services, zone, pairs, now)
    except SecretRefused as refused:
        if refused.is_guess:
            await throttle.record_failure(
                services.rate_limiter,
                zone.id,
                claimed,
                address,
                application_id=refused.application_id,
                now=now.timestamp(),
            )
        raise InvalidClient(
            internal=str(refused), basic=bool(basic), application_id=refused.application_id
        ) from None


def _require_not_blocked(
    zone: CachedZone, claimed: str, address: str, throttle: FailedAuthenticationThrottle, now: float
) -> None:
    """Raises TooManyRequests; its record has the application as far as that is known without a query."""
    try:
        throttle.require_not_blocked(zone.id, claimed, address, now=now)
    except TooManyRequests as refusal:
        refusal.application_id = refusal.application_id or zone.clients.cached_application(claimed)
        raise


async def _with_secret(
    services: Services, zone: CachedZone, pairs: Sequence[tuple[str, str | None]], now: datetime
) -> Client:
    """The client that one of these readings of a header, or of a form, belongs to. Raises SecretRefused."""
    *others, last = pairs
    for client_id, secret in others:
        try:
            return await client_with_secret(services, zone, client_id, secret, now)
        except SecretRefused as refused:
            if not refused.is_guess:
                raise
    return await client_with_secret(services, zone, *last, now)


async def _asserted(
    services: Services,
    zone: CachedZone,
    form: Mapping[str, str],
    authorization: str | None,
    address: str,
    throttle: FailedAuthenticationThrottle,
    now: datetime,
) -> Client:
    """The client that a JWT in the request speaks for."""
    if authorization is not None or "client_secret" in form:
        raise InvalidRequest("use one client authentication method per request")
    assertion = assertions.read(form)
    _require_not_blocked(zone, assertion.claimed, address, throttle, now.timestamp())
    try:
        return await assertions.client_of(services, zone, assertion, now, sender=network_of(address))
    except InvalidClient as refused:
        await throttle.record_failure(
            services.rate_limiter,
            zone.id,
            assertion.claimed,
            address,
            application_id=refused.application_id,
            now=now.timestamp(),
        )
        raise

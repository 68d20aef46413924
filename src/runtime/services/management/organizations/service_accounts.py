"""Service accounts: credentials whose secret is shown once, and the tokens they are exchanged for."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from runtime.adapters.keys.sealing import new_secret
from runtime.contract.answers import TokenResponse
from runtime.domain.errors import InvalidClient
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ORGANIZATION, SERVICE_ACCOUNT_CREDENTIAL, Entity, Kind, Verb
from runtime.domain.kinds.organization import ServiceAccountCredential
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.services.clients import FailedAuthenticationThrottle
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.management import entities
from runtime.services.management.access.caller import TOKEN_TYPE
from runtime.services.management.entities import Parents
from runtime.services.management.organizations import credential_zones
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.rate_limiter import network_of
from runtime.services.refused_requests import count_refusal
from runtime.storage.sql import entities as storage

TOKEN_LIFETIME = timedelta(hours=1)
_USE_RECORDED_EVERY = timedelta(minutes=1)
_GUESSED_AT = "management"
_throttle = FailedAuthenticationThrottle()


async def create_credential(
    unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]
) -> Entity:
    """Make a credential. Its secret stands in `unit.shown_once`, nowhere else."""
    scope = await entities.scope_of(unit, SERVICE_ACCOUNT_CREDENTIAL, parents)
    entities.require(unit, SERVICE_ACCOUNT_CREDENTIAL, Verb.CREATE, scope)
    await unit.next_revision()  # the zones that are looked up stay until this is written
    await credential_zones.check(unit, body.get("zones"))
    secret, seconds = new_secret(), body.get("expires_in_seconds")
    made = await entities.new_entity(
        unit,
        SERVICE_ACCOUNT_CREDENTIAL,
        scope,
        {**body, "zones": credential_zones.ordered(body.get("zones"))},
        client_id=new_id(),
        expires_at=None if seconds is None else unit.now + timedelta(seconds=seconds),
        secret_hash=unit.services.hasher.hash(secret),
    )
    await entities.add(unit, SERVICE_ACCOUNT_CREDENTIAL, made)
    unit.shown_once[made.id] = {"client_secret": secret}
    return made


async def issue_token(
    services: Services,
    client_id: str,
    client_secret: str,
    *,
    address: str,
    request_id: str,
    basic: bool = False,
) -> TokenResponse:
    """A bearer token for the management API.

    Args:
        address: where the request comes from; failures are counted by client id and address.
        basic: whether the secret came by HTTP Basic, which a refusal asks for again.
    Raises: InvalidClient, TooManyRequests.
    """
    now = services.clock()
    _throttle.require_not_blocked(_GUESSED_AT, client_id, address, now=now.timestamp())
    async with services.database.reading() as conn:
        found = await storage.find_by(conn, SERVICE_ACCOUNT_CREDENTIAL, "client_id", client_id, within={})
        # The same work for an unknown client id as for a wrong secret.
        stored = found.secret_hash if isinstance(found, ServiceAccountCredential) else None
        matches = services.hasher.matches(client_secret, stored or bytes(32))
        over = isinstance(found, ServiceAccountCredential) and found.has_expired(now)
        if not isinstance(found, ServiceAccountCredential) or stored is None or not matches or over:
            await _throttle.record_failure(
                services.rate_limiter, _GUESSED_AT, client_id, address, now=now.timestamp()
            )
            refusal = InvalidClient(basic=basic)
            raise await count_refusal(services.rate_limiter, _GUESSED_AT, refusal, whose=network_of(address))
        organization = await storage.get(conn, ORGANIZATION, found.organization_id, within={})
    zone = await services.zones.get(cast(str, organization.zone_id))
    ends_at = min(filter(None, (now + TOKEN_LIFETIME, found.expires_at)))
    issued_at, ends = int(now.timestamp()), int(ends_at.timestamp())
    token = zone.signing(zone.access_token_algorithm).sign(
        {
            "iss": zone.issuer,
            "sub": found.service_account_id,
            "aud": services.settings.public_url,
            "client_id": found.client_id,
            "credential_id": found.id,
            "organization_id": organization.id,
            "iat": issued_at,
            "exp": ends,
            "jti": new_id(),
        },
        typ=TOKEN_TYPE,
    )
    decision = Decision(organization.id, zone.id, now, request_id, event=DecisionEvent.SERVICE_ACCOUNT_TOKEN)
    decision.application_id = found.service_account_id
    decision.issue()
    services.decisions.record(decision)
    if found.last_used_at is None or now - found.last_used_at >= _USE_RECORDED_EVERY:
        await _record_use(services, found)
    return TokenResponse(access_token=token, expires_in=ends - issued_at)


async def _record_use(services: Services, credential: ServiceAccountCredential) -> None:
    within = {
        "organization_id": credential.organization_id,
        "service_account_id": credential.service_account_id,
    }
    async with services.database.transaction(tenant=credential.organization_id) as conn:
        current = await storage.get(conn, SERVICE_ACCOUNT_CREDENTIAL, credential.id, within=within)
        used = current.model_copy(update={"last_used_at": services.clock()})
        await storage.replace(conn, SERVICE_ACCOUNT_CREDENTIAL, used, within=within)

"""Authenticates the caller of the management API: an API key, a service account or a user."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from cachetools import LRUCache
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.signing import InvalidJwt
from runtime.domain.errors import NotFound, Unauthorized, Unavailable
from runtime.domain.kinds import ORGANIZATION, SERVICE_ACCOUNT, SERVICE_ACCOUNT_CREDENTIAL
from runtime.domain.kinds.api_key import KEY_PREFIX, ApiKey
from runtime.domain.kinds.values import ServiceAccountRole, rfc3339
from runtime.domain.oauth.claims import ACCESS_TOKEN_TYPE
from runtime.logs import log
from runtime.services.clients.dpop_verification import PresentedToken
from runtime.services.container import Services
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import REFUSED, TOKEN_TYPE, Caller, CredentialScope
from runtime.services.management.authentication import unverified, user_tokens, verified
from runtime.storage.sql import api_keys, entities

_KEY_ID_CHARS = 26
_SECRET_CHARS = 43
_USE_RECORDED_EVERY = timedelta(minutes=1)
MAX_NOTED = 10_000
_noted: LRUCache[str, datetime] = LRUCache(MAX_NOTED)  # key id -> when this process last had its use recorded
# Kept here so that they are not collected before they have run.
_background: set[asyncio.Task[None]] = set()


async def authenticate(services: Services, presented: PresentedToken | None) -> Caller:
    """The caller whose credential a request presents. Raises Unauthorized."""
    if presented is None:
        raise Unauthorized("send `Authorization: Bearer` with an API key or a token")
    credential = presented.token
    if credential.startswith(KEY_PREFIX) and not presented.is_bound:
        return await _by_api_key(services, credential)
    if unverified.is_of_type(credential, ACCESS_TOKEN_TYPE):
        return await user_tokens.by_access_token(services, presented)
    if unverified.claim(credential, "sid") is not None:
        return await user_tokens.by_organization_token(services, presented)
    if presented.is_bound:
        raise Unauthorized(REFUSED, internal="an unbound credential, presented with the scheme DPoP")
    return await _by_token(services, credential)


async def _by_api_key(services: Services, credential: str) -> Caller:
    key_id, separator, secret = credential[len(KEY_PREFIX) :].partition("_")
    if not separator or len(key_id) != _KEY_ID_CHARS or len(secret) != _SECRET_CHARS:
        raise Unauthorized(REFUSED)

    async def look_up(conn: AsyncConnection) -> Caller:
        found = await api_keys.find(conn, key_id)
        if found is None or not services.hasher.matches(secret, found.key.secret_hash):
            raise Unauthorized(REFUSED)
        key, role = found.key, _role_of(found)
        if key.expires_at is not None and key.has_expired(services.clock()):
            raise Unauthorized(f"the API key expired at `{rfc3339(key.expires_at)}`; make another one")
        _record_use(services, key)
        bound = CredentialScope.of(key.owner, key.zones)
        return Caller(
            key.id,
            "api_key",
            key.organization_id,
            bound.role(role),
            key.name,
            scope=bound,
            looked_up=look_up,
        )

    await services.epochs.recent()  # whether it has expired is asked of a clock that is right
    async with services.database.querying() as conn:
        return await look_up(conn)


def _role_of(found: api_keys.PresentedKey) -> str:
    """What a key may do today: at most what the person at whose word it was made may. Raises Unauthorized."""
    if found.key.person_id is None:
        return found.key.role
    if found.person_role is None:
        raise Unauthorized(REFUSED, internal="the creator of the key no longer belongs to the organization")
    return found.key.role if permissions.reaches(found.person_role, found.key.role) else found.person_role


def _record_use(services: Services, key: ApiKey) -> None:
    """Have it recorded that the key is in use, at most once a minute and behind the answer."""
    now = services.clock()
    noted = max((each for each in (key.last_used_at, _noted.get(key.id)) if each), default=None)
    if noted is not None and now - noted < _USE_RECORDED_EVERY:
        return
    _noted[key.id] = now
    task = asyncio.get_running_loop().create_task(record_use(services, key))
    _background.add(task)
    task.add_done_callback(_background.discard)


async def record_use(services: Services, key: ApiKey) -> None:
    """Record that a key is in use. Where that cannot be, the log says so: its request is answered already."""
    try:
        async with services.database.transaction(tenant=key.organization_id) as conn:
            await api_keys.record_use(conn, key.id, now=services.clock(), every=_USE_RECORDED_EVERY)
    except (SQLAlchemyError, Unavailable) as failure:
        log.warning("use of an API key not recorded", key_id=key.id, reason=type(failure).__name__)


async def _by_token(services: Services, token: str) -> Caller:
    """The service account a token was issued to.

    Its claims say where to look; nothing of them counts before the signature is verified. The credential
    is looked up each time: deleting it ends its tokens at once.
    """
    organization_id = unverified.claim(token, "organization_id")
    if organization_id is None:
        raise Unauthorized(REFUSED)
    try:
        async with services.database.reading() as conn:
            organization = await entities.get(conn, ORGANIZATION, organization_id, within={})
        if organization.zone_id is None:
            raise Unauthorized(REFUSED)
        zone = await services.zones.get(organization.zone_id)
        claims = verified.claims(services, zone, token, typ=TOKEN_TYPE)
        account_id, credential_id = str(claims["sub"]), str(claims["credential_id"])
    except (InvalidJwt, NotFound, KeyError) as failure:
        raise Unauthorized(REFUSED, internal=str(failure)) from None

    async def look_up(conn: AsyncConnection) -> Caller:
        return await _service_account(services, conn, organization.id, account_id, credential_id, look_up)

    async with services.database.reading() as conn:
        return await look_up(conn)


async def _service_account(
    services: Services,
    conn: AsyncConnection,
    organization_id: str,
    account_id: str,
    credential_id: str,
    look_up: Callable[[AsyncConnection], Awaitable[Caller]],
) -> Caller:
    """The service account that has this credential. Raises Unauthorized."""
    within = {"organization_id": organization_id}
    try:
        account = await entities.get(conn, SERVICE_ACCOUNT, account_id, within=within)
        below = {**within, "service_account_id": account_id}
        credential = await entities.get(conn, SERVICE_ACCOUNT_CREDENTIAL, credential_id, within=below)
    except NotFound as failure:
        raise Unauthorized(REFUSED, internal=str(failure)) from None
    if credential.has_expired(services.clock()):
        raise Unauthorized(REFUSED, internal="the credential has expired")
    bound = CredentialScope.of(credential.owner, credential.zones)
    role = bound.role((credential.role or ServiceAccountRole.WHOLE).value)
    name = account.name
    return Caller(account_id, "service_account", organization_id, role, name, scope=bound, looked_up=look_up)

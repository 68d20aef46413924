"""On-demand checks of a provider: reachability, metadata, endpoints, credentials. Results are not stored.

Details are in this service's own words: nothing that a provider sends, and no secret, is repeated in them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from runtime.adapters.identity_providers.answers import ProviderRefused, endpoints_of, metadata_address
from runtime.adapters.identity_providers.settings import ProviderSettings, settings_of
from runtime.adapters.keys.sealing import SealBroken
from runtime.adapters.outbound import OutboundFailed, OutboundRefused
from runtime.adapters.upstream_oauth.client_authentication import (
    ASSERTION_ALGORITHM,
    client_certificate,
    signs_assertions,
)
from runtime.adapters.upstream_oauth.token_response import RefusalKind, UpstreamRefusal, UpstreamTokens
from runtime.contract.answers import ValidationCheck, ValidationResult
from runtime.domain.kinds import PROVIDER, Verb
from runtime.domain.kinds.values import ProviderType
from runtime.services import address_bound_secrets, zone_keys
from runtime.services.container import Services
from runtime.services.management import entities
from runtime.services.management.entities import Parents
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import entities as storage

CheckName = Literal[
    "issuer_reachability",
    "metadata_retrieval",
    "endpoint_consistency",
    "authorization_endpoint_reachability",
    "credential_exchange",
]
_ORDER: tuple[CheckName, ...] = (
    "issuer_reachability",
    "metadata_retrieval",
    "endpoint_consistency",
    "authorization_endpoint_reachability",
    "credential_exchange",
)
_GRANT = "client_credentials"
_COMPARED = (
    "authorization_endpoint",
    "token_endpoint",
    "revocation_endpoint",
    "jwks_uri",
    "userinfo_endpoint",
)
# A page that wants parameters may answer nearly anything; these say that there is no such page.
_NOT_THERE = (404, 410)
_UNREACHABLE = "the token endpoint cannot be reached"


@dataclass(frozen=True, slots=True)
class _Found:
    """What a check came to; `why` is empty exactly when it passed."""

    status: Literal["pass", "fail", "skipped_with_reason", "not_applicable"]
    why: str = ""


_PASS = _Found("pass")


def _fail(why: str) -> _Found:
    return _Found("fail", why)


def _skip(why: str) -> _Found:
    return _Found("skipped_with_reason", why)


def _beside_the_point(why: str) -> _Found:
    return _Found("not_applicable", why)


async def settings_to_check(unit: UnitOfWork, parents: Parents, provider_id: str) -> ProviderSettings | None:
    """How to talk to a provider, its secret opened; None for those that are part of this service.

    The checks send the secret out, so they take the right to change the provider. Raises NotFound, Forbidden.
    """
    scope = await entities.scope_of(unit, PROVIDER, parents)
    provider = await storage.get(unit.conn, PROVIDER, provider_id, within=scope)
    entities.require(unit, PROVIDER, Verb.UPDATE, scope)
    if provider.type is not ProviderType.EXTERNAL:
        return None
    sealer = await zone_keys.sealer(unit.services.data_keys, unit.conn, provider.zone_id)
    try:
        secret = address_bound_secrets.opened(sealer, PROVIDER, provider, "client_secret")
    except SealBroken:
        secret = None
    return settings_of(provider, client_secret=secret)


async def run(services: Services, provider_id: str, settings: ProviderSettings | None) -> ValidationResult:
    """Run the checks; whatever a provider does, there is a result. Spec: `ValidationResult`."""
    if settings is None:
        found = [_beside_the_point("the provider is part of this service")] * len(_ORDER)
    else:
        found = await _checked(services, settings)
    return ValidationResult(
        checks=[
            ValidationCheck(check=name, status=each.status, detail=each.why or None)
            for name, each in zip(_ORDER, found, strict=True)
        ],
        provider_id=provider_id,
        status="fail" if any(each.status == "fail" for each in found) else "pass",
        validated_at=services.clock(),
    )


async def _checked(services: Services, settings: ProviderSettings) -> list[_Found]:
    """What the five checks of an outside provider come to, in their order."""
    reached, retrieved, published = await _metadata(services, settings)
    consistent = _consistency(settings, retrieved, published)
    # Where an issuer that is not the configured one sends us, we do not go.
    trusted = published if consistent.status == "pass" else {}
    authorization = await _authorization(services, settings, consistent, trusted)
    return [
        reached,
        retrieved,
        consistent,
        authorization,
        await _credentials(services, settings, consistent, trusted),
    ]


async def _metadata(
    services: Services, settings: ProviderSettings
) -> tuple[_Found, _Found, Mapping[str, Any]]:
    """Whether the issuer answers, whether with metadata, and that metadata."""
    try:
        fetched = await services.outbound.get_json(metadata_address(settings), partition=settings.partition)
    except OutboundRefused as refused:
        return _fail(f"not an address to talk to: {refused}"), _skip("the issuer cannot be reached"), {}
    except OutboundFailed as failed:
        if failed.status is None:
            return _fail(str(failed)), _skip("the issuer cannot be reached"), {}
        if failed.status in _NOT_THERE and settings.is_complete(needs_keys=False):
            message = "the provider publishes no metadata, and every endpoint is configured"
            return _PASS, _beside_the_point(message), {}
        return _PASS, _fail(str(failed)), {}
    if not isinstance(fetched.json, dict):
        return _PASS, _fail("the answer is not provider metadata"), {}
    return _PASS, _PASS, fetched.json


def _consistency(settings: ProviderSettings, retrieved: _Found, published: Mapping[str, Any]) -> _Found:
    """Whether what is published is what is configured, and enough for what the provider is there for."""
    if retrieved.status == "not_applicable":
        return _beside_the_point("there is no metadata to compare with")
    if retrieved.status != "pass":
        return _skip("there is no metadata to compare with")
    wrong = []
    if published.get("issuer") != settings.issuer:
        wrong.append("the provider publishes another issuer than configured")
    for name in _COMPARED:
        configured, told = getattr(settings, name), published.get(name)
        if configured is not None and told is not None and configured != told:
            wrong.append(f"the configured `{name}` differs from the published one")
    endpoints = endpoints_of(settings, published)
    # Where this service has no client, nobody signs in: such a provider only issues tokens to verify.
    needed = ["jwks_uri", *(["authorization_endpoint", "token_endpoint"] if settings.client_id else [])]
    wrong += [
        f"`{name}` is neither configured nor published" for name in needed if not getattr(endpoints, name)
    ]
    return _fail("; ".join(wrong)) if wrong else _PASS


async def _authorization(
    services: Services, settings: ProviderSettings, consistent: _Found, published: Mapping[str, Any]
) -> _Found:
    """Whether there is a page to send browsers to. Any answer will do but that there is none."""
    address = endpoints_of(settings, published).authorization_endpoint
    if address is None and consistent.status in ("pass", "not_applicable"):
        return _beside_the_point("the provider has no authorization endpoint")
    if address is None:
        return _skip("the endpoint is not configured, and there is no trusted metadata to read it from")
    try:
        await services.outbound.get_json(address, partition=settings.partition)
    except OutboundRefused as refused:
        return _fail(f"not an address to talk to: {refused}")
    except OutboundFailed as failed:
        if failed.status is None or failed.status in _NOT_THERE or failed.status >= 500:
            return _fail(str(failed))
    return _PASS


async def _credentials(
    services: Services, settings: ProviderSettings, consistent: _Found, published: Mapping[str, Any]
) -> _Found:
    """Whether the provider takes our client id and secret, where it gives clients tokens of their own.

    Whether a certificate is one, and has not expired, needs no provider to tell.
    """
    try:
        if settings.shows_certificate and settings.client_secret is not None:
            client_certificate(settings.client_secret, now=services.clock())
    except ProviderRefused as refused:
        return _fail(str(refused))
    if consistent.status == "not_applicable":
        return _beside_the_point(f"the provider does not advertise the {_GRANT} grant")
    if consistent.status != "pass":
        return _skip("not checked: the client secret is not sent without trusted metadata")
    grants = published.get("grant_types_supported")
    if not isinstance(grants, list) or _GRANT not in grants:
        return _beside_the_point(f"the provider does not advertise the {_GRANT} grant")
    is_signed = signs_assertions(settings)
    if settings.client_id is None or (settings.client_secret is None and not is_signed):
        return _skip("no client id with a secret is stored for these addresses")
    answer = await services.upstream_oauth.request_own_token(
        settings,
        published,
        signing_key=(await services.zones.get(settings.partition)).signing(ASSERTION_ALGORITHM)
        if is_signed
        else None,
    )
    return _PASS if isinstance(answer, UpstreamTokens) else _fail(_reason(answer))


def _reason(refusal: UpstreamRefusal) -> str:
    """Why the token endpoint gave no token; an unknown word of the provider's is never part of its code."""
    if refusal.kind is RefusalKind.TEMPORARY:
        return f"the token endpoint answered {refusal.status}" if refusal.status else _UNREACHABLE
    if refusal.code == "address_refused":
        return "the token endpoint is not an address to talk to"
    if refusal.code == "not_configured":
        return f"the token endpoint is not asked: {refusal.detail}"
    code = "an error" if refusal.code == "unknown_error" else f"`{refusal.code}`"
    return f"the token endpoint answers {code}"

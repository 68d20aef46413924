"""Workload identity: a client authenticates with a JWT that an identity provider issued to its workload.

The provider's issuer and the token's subject are matched exactly with a `token` credential; a credential
without a subject takes every subject of its provider, which whoever made it had to say. Such a token lies in
a file or comes from a metadata service, and is shown again and again until it ends. An access token is none,
also when it is meant for this server: it says what its holder may do, and travels with every call.
"""

from collections import defaultdict
from dataclasses import replace
from datetime import datetime

from runtime.adapters.identity_providers.answers import ProviderRefused
from runtime.adapters.identity_providers.settings import ProviderSettings, settings_of
from runtime.adapters.keys.jose import CompactJws, InvalidJwt, check_class
from runtime.adapters.outbound import OutboundFailed, OutboundRefused
from runtime.domain.errors import InvalidClient, Unavailable
from runtime.domain.kinds.application import TokenCredential
from runtime.domain.kinds.values import ProviderType
from runtime.domain.oauth import assertions as rules
from runtime.services.client_types import ApplicationClient
from runtime.services.clients.audiences import accepted_audiences
from runtime.services.container import Services
from runtime.services.zones import CachedZone
from runtime.services.zones.clients import SUSPENDED

# What platforms write, where they write anything: SPIFFE allows the second, RFC 7523's successor the third.
_TYPES = ("JWT", "JOSE", "client-authentication+jwt")
_MOST_SHOWN = 120


async def workload_of(
    services: Services,
    zone: CachedZone,
    jws: CompactJws,
    *,
    issuer: str,
    subject: str,
    client_id: str | None,
    now: datetime,
) -> ApplicationClient:
    """The client that the token of a provider stands for.

    Args:
        client_id: what the form names besides: the credential's id, or the subject.
    Raises: InvalidClient; Unavailable when the provider's keys cannot be had for now.
    """
    client, settings = await _meant(zone, issuer, subject, client_id)
    application_id = client.application.id
    try:
        check_class(jws, _TYPES)
        rules.check_audience(jws.unverified_claims, accepted_audiences(zone), listed=True)
        rules.check_times(jws.unverified_claims, now=now, max_ahead_seconds=rules.MAX_WORKLOAD_AHEAD_SECONDS)
        await services.openid.check_signature(settings, jws)
    except OutboundFailed as failure:
        if failure.temporary:
            raise Unavailable("the provider's keys cannot be had", internal=str(failure)) from None
        raise InvalidClient(internal=str(failure), application_id=application_id) from None
    except (InvalidJwt, rules.InvalidAssertion, ProviderRefused, OutboundRefused) as failure:
        raise InvalidClient(internal=str(failure), application_id=application_id) from None
    return replace(client, workload_claims=jws.unverified_claims)  # verified by now


def _shown(claim: str) -> str:
    """What a stranger has written, for the log: in one line, and not all of it."""
    return repr(claim[:_MOST_SHOWN])


async def _meant(
    zone: CachedZone, issuer: str, subject: str, client_id: str | None
) -> tuple[ApplicationClient, ProviderSettings]:
    """The one credential for that issuer and subject, and its provider. Raises InvalidClient.

    One that names the subject comes before one that takes any; of two that are alike neither is chosen. Those
    of suspended applications come last, and are not chosen: only the decision record is told of them.
    """
    found: dict[tuple[bool, bool], list[tuple[ApplicationClient, ProviderSettings]]] = defaultdict(list)
    for workload in await zone.clients.workloads(subject):
        client, credential = workload.client, workload.client.credential
        if not isinstance(credential, TokenCredential) or client_id not in (None, credential.id, subject):
            continue
        provider = await zone.providers.get(credential.provider_id)
        if provider is None or provider.type is ProviderType.SERVICE_STS:
            continue
        settings = settings_of(provider, client_secret=None)
        if settings.issuer == issuer:
            found[workload.is_active, credential.subject == subject].append((client, settings))
    fitting = found[True, True] or found[True, False]
    suspended = found[False, True] or found[False, False]
    if not fitting and suspended:
        ((client, _), *others) = suspended
        raise InvalidClient(internal=SUSPENDED, application_id=None if others else client.application.id)
    if len(fitting) != 1:
        number = "more than one credential is" if fitting else "no credential is"
        raise InvalidClient(
            internal=f"{number} for the issuer {_shown(issuer)} and the subject {_shown(subject)}"
        )
    return fitting[0]

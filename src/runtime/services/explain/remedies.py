"""Remedies of a refusal in plain words: one text for each step, with what is known of the case."""

from collections.abc import Sequence
from typing import Any

from runtime.contract.decisions import DecidingPolicy, ManifestSource
from runtime.domain.errors import OAuthError
from runtime.domain.kinds import APPLICATION, RESOURCE, Entity, Kind
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import ProviderType
from runtime.domain.oauth import exchange_steps as steps
from runtime.services.container import Services
from runtime.services.explain.exchanges import Hop
from runtime.services.explain.parties import UnknownParty
from runtime.services.management.policies.deciding_policies import source_of
from runtime.services.zones import CachedZone
from runtime.storage.sql import ownership

_LINK = "they open the link in `error_uri` of the refused exchange"


async def of(services: Services, zone: CachedZone, hop: Hop, policies: Sequence[DecidingPolicy]) -> list[str]:
    """What would fix the refusal of a hop; the places are those of the ownership records."""
    refusal = hop.refusal
    if isinstance(refusal, UnknownParty):
        return [f"{refusal.remedy}{await _place(services, zone, refusal.application, APPLICATION)}"]
    application = hop.client.identifier if hop.client else hop.name
    named = hop.resource_name or ""
    match hop.decision.step:
        case steps.CLIENT:
            told = f"give `{application}` a credential (ApplicationCredential) that is not public"
        case steps.SESSION:
            told = "the user has to be enabled, and to sign in again"
        case steps.PROVENANCE:
            told = (
                "if consent was withdrawn earlier in the chain, the user has to consent again there;"
                f" otherwise the token has to be for a resource that `{application}` provides"
            )
        case steps.RESOURCE:
            told = f"create a resource that covers `{named}`, or correct the request"
        case steps.DEPENDENCY:
            place = await _place(services, zone, hop.client.application if hop.client else None, APPLICATION)
            told = f"add `{named}` to the dependencies of `{application}`{place}"
        case steps.ALLOWANCE:
            told = await _authorization(zone, hop, application, named)
        case steps.SCOPES:
            told = await _scopes(services, zone, hop, application, named)
        case steps.POLICY:
            return _policy(policies, application, named)
        case _:
            return []
    return [told]


async def _authorization(zone: CachedZone, hop: Hop, application: str, named: str) -> str:
    resource, provider = hop.resource, None
    if isinstance(resource, Resource) and resource.credential_provider_id is not None:
        provider = await zone.providers.get(resource.credential_provider_id)
    consents = f"the user has to consent to `{application}` for `{named}`"
    if provider is not None and provider.type is ProviderType.SERVICE_VAULT:
        return (
            f"{consents}, and to store a credential for it at {zone.issuer}/account; or an administrator"
            " stores a secret of type `token` for the resource"
        )
    if provider is not None and provider.type is not ProviderType.SERVICE_STS:
        return f"{consents}, and to connect an account at `{provider.identifier}`: {_LINK}"
    return f"{consents}: {_LINK}"


async def _scopes(services: Services, zone: CachedZone, hop: Hop, application: str, named: str) -> str:
    if isinstance(hop.refusal, OAuthError) and "error_uri" in hop.refusal.members:
        return f"the user has to consent to `{application}` for all requested scopes of `{named}`: {_LINK}"
    entity = hop.resource if isinstance(hop.resource, Resource) else None
    offered = " ".join(sorted(entity.scopes or ())) if entity else ""
    place = await _place(services, zone, entity, RESOURCE)
    has = f"(`{offered}`){place}" if offered else f"(none){place}"
    return (
        f"request only scopes that `{named}` has {has}, and that the user has consented to, or omit `scope`;"
        " for others, add them to the resource, and the user has to consent again"
    )


def _policy(policies: Sequence[DecidingPolicy], application: str, named: str) -> list[str]:
    if not policies:
        return [f"add a policy to the active policy set that permits `{application}` to use `{named}`"]
    return [
        f"policy `{each.policy or each.policy_version_id}`, rule `{each.rule}`, forbids it{_at(each.source)}"
        for each in policies
    ]


async def _place(services: Services, zone: CachedZone, entity: Entity | None, kind: Kind[Any]) -> str:
    """Where the manifest of an application or a resource is, to follow its name; empty without one."""
    if entity is None:
        return ""
    async with services.database.querying() as conn:
        found = await ownership.of_entities(conn, zone.organization_id, kind, [entity.id])
    return _at(source_of(found.get(entity.id)))


def _at(source: ManifestSource | None) -> str:
    if source is None:
        return ""
    if source.file is None:
        return f" (in the manifests of `{source.owner}`)"
    line = f":{source.line}" if source.line else ""
    return f" ({source.file}{line}{_at_commit(source.commit)})"


def _at_commit(commit: str | None) -> str:
    """`@` and the commit in short. `+changes` stays: the files were not those of the commit."""
    name, plus, changes = (commit or "").partition("+")
    return f"@{name[:12]}{plus}{changes}" if name else ""

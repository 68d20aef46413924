"""Remedies of a refusal in plain words: one text for each step, with what is known of the case."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from runtime.contract.decisions import DecidingPolicy, ManifestSource
from runtime.domain.errors import OAuthError
from runtime.domain.kinds import APPLICATION, RESOURCE, SECRET, Entity, Kind
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import ProviderType, UserStatus
from runtime.domain.lifetimes import is_active
from runtime.domain.oauth.exchange_steps import Step
from runtime.domain.oauth.scopes import to_text
from runtime.services.authority.consents import find_allowance, grants_of
from runtime.services.container import Services
from runtime.services.explain.exchanges import Hop
from runtime.services.explain.participants import UnknownParticipant
from runtime.services.management.policies.determining_policies import source_of
from runtime.services.vault import credentials
from runtime.services.vault.credentials import KeptCredential
from runtime.services.zones import CachedZone, SessionRoot
from runtime.storage.sql import entities, ownership, resource_secrets

_LINK = "they open the link in `error_uri` of the refused exchange"


async def of(services: Services, zone: CachedZone, hop: Hop, policies: Sequence[DecidingPolicy]) -> list[str]:
    """What would fix the refusal of a hop; the places are those of the ownership records."""
    refusal = hop.refusal
    application = hop.client.identifier if hop.client else hop.name
    named = hop.resource_name or ""
    if (order := await _wrong_order(zone, hop, application)) is not None:
        return [order]
    if isinstance(refusal, UnknownParticipant):
        return [f"{refusal.remedy}{await _place(services, zone, refusal.application, APPLICATION)}"]
    match hop.decision.step:
        case Step.CLIENT:
            told = f"give `{application}` a credential (ApplicationCredential) that is not public"
        case Step.SESSION:
            told = _session(hop)
        case Step.CHAIN:
            told = (
                "if consent was withdrawn earlier in the chain, the user has to consent again there;"
                f" otherwise the token has to be for a resource that `{application}` provides"
            )
        case Step.RESOURCE:
            told = f"create a resource that covers `{named}`, or correct the name"
        case Step.DEPENDENCY:
            place = await _place(services, zone, hop.client.application if hop.client else None, APPLICATION)
            told = f"add `{named}` to the dependencies of `{application}`{place}"
        case Step.CONSENT:
            return await _authorization(services, zone, hop, application, named)
        case Step.SCOPES:
            told = await _scopes(services, zone, hop, application, named)
        case Step.POLICY:
            return _policy(policies, application, named)
        case _:
            return []
    return [told]


async def _wrong_order(zone: CachedZone, hop: Hop, application: str) -> str | None:
    """What is told where the token was to go from one application to another that calls it instead."""
    later = hop.next
    if later is None or hop.client is None:
        return None
    provided = await zone.resources.provided_by(hop.client.application.id)
    if not {each.id for each in provided} & set(await zone.applications.dependencies(later.id)):
        return None
    return (
        f"`{later.identifier}` depends on a resource of `{application}`, and not the other way round: name"
        f" `{later.identifier}` before `{application}` (`via`, and `application` last)"
    )


def _session(hop: Hop) -> str:
    user = hop.root.principal.user if hop.root is not None else None
    if user is not None and user.status is UserStatus.DISABLED:
        return f"enable user `{user.email or user.identifier}`, who has to sign in again afterwards"
    return "the user has to sign in again"


async def _authorization(
    services: Services, zone: CachedZone, hop: Hop, application: str, named: str
) -> list[str]:
    """What the user has not given: consent, a key, an account; only what is missing."""
    resource, client, root = hop.resource, hop.client, hop.root
    if not isinstance(resource, Resource) or client is None:
        return []
    if resource.deleted_credential_provider_id is not None:
        place = await _place(services, zone, resource, RESOURCE)
        chosen = "set another `credential_provider`, or `service-sts` if it accepts access tokens of the zone"
        return [f"the credential provider of `{named}` was deleted: {chosen}{place}"]
    provider = None
    if resource.credential_provider_id is not None:
        provider = await zone.providers.get(resource.credential_provider_id)
    if root is None:
        return await _own_token(services, zone, resource, provider, application)
    now = hop.decision.at
    allowance = await find_allowance(services, zone, client, root, resource, wanted=hop.scopes, now=now)
    told = [await _consent(zone, root, resource, application, now)] if allowance is None else []
    if provider is None or provider.type is ProviderType.SERVICE_STS:
        return told
    credential = await credentials.find(services, zone, root.principal.user.id, resource, provider, now)
    if credential is None and provider.type is ProviderType.SERVICE_VAULT:
        credential = await credentials.find_shared(services, zone, resource)
    if lacking := _lacking(zone, provider, resource, credential, hop.scopes, now):
        return [*told, lacking]
    if credential is not None and allowance is not None and not allowance.covers(credential.scopes):
        given, whole = to_text(allowance.scopes or ()), to_text(credential.scopes)
        all_of_them = f"the credential of `{named}`, which is handed out whole, has the scopes `{whole}`"
        return [
            f"the user has consented to `{given}`, and {all_of_them}: they have to consent to all: {_LINK}"
        ]
    return told


async def _own_token(
    services: Services,
    zone: CachedZone,
    resource: Resource,
    provider: Provider | None,
    application: str,
) -> list[str]:
    """What gets an application a credential that client credentials are refused."""
    named = resource.identifier
    of_user = (
        f"`{named}` takes a stored key or a connected account: exchange a token of a user for it; send `user`"
        " to have that explained (`zonectl explain --user`)"
    )
    if provider is None or provider.type is not ProviderType.SERVICE_VAULT:
        return [of_user]
    own = f"a token that `{application}` gets on its own behalf (client credentials without `resource`)"
    async with services.database.querying() as conn:
        shared = await resource_secrets.latest_token(
            conn, zone_id=zone.id, resource_id=resource.id, identifier=named
        )
        secret = None
        if shared is not None:
            secret = await entities.find_by(conn, SECRET, "id", shared[0], within={"zone_id": zone.id})
    if secret is None:
        stores = f"an administrator stores a secret of type `token` for `{named}`"
        return [of_user, f"{stores}: it is handed out to all users, and for {own}"]
    return [
        f"exchange {own} for `{named}`: the secret `{secret.name}` is handed out, which is for all users",
        of_user,
    ]


async def _consent(
    zone: CachedZone, root: SessionRoot, resource: Resource, application: str, now: datetime
) -> str:
    grants = await grants_of(zone, resource, root.delegated)
    if not all(is_active(each, now) for each in grants):
        return (
            f"the user's grant for `{resource.identifier}` was revoked or has expired: they have to authorize"
            f" `{application}` again: {_LINK}"
        )
    return f"the user has to consent to `{application}` for `{resource.identifier}`: {_LINK}"


def _lacking(
    zone: CachedZone,
    provider: Provider,
    resource: Resource,
    credential: KeptCredential | None,
    wanted: frozenset[str] | None,
    now: datetime,
) -> str | None:
    """What is missing of the credential itself, whatever the user has consented to; None for nothing."""
    named, account = resource.identifier, f"{zone.issuer}/account"
    if provider.type is ProviderType.SERVICE_VAULT and credential is None:
        return (
            f"the user has to store a key for `{named}` at {account}; or an administrator stores a secret of"
            " type `token` for the resource, again if its `identifier` was changed"
        )
    if credential is None:
        return f"the user has to connect an account at `{provider.identifier}`: {_LINK}"
    if not credential.is_usable(now):
        return (
            f"the account at `{provider.identifier}` has no valid tokens any more: the user has to connect it"
            f" again, at {account} or where {_LINK}"
        )
    offered = frozenset(resource.scopes or ())
    if lost := credential.scopes - offered:
        return (
            f"the user's credential has the scope `{to_text(lost)}`, which `{named}` no longer has: add it to"
            " the resource again, or the user has to store another key or connect the account again"
        )
    if provider.type is ProviderType.EXTERNAL and (beyond := (wanted or frozenset()) - credential.scopes):
        return (
            f"the account at `{provider.identifier}` is connected for `{to_text(credential.scopes)}`: the"
            f" user has to connect it again for `{to_text(beyond)}`: {_LINK}; or request no more than it has"
        )
    return None


async def _scopes(services: Services, zone: CachedZone, hop: Hop, application: str, named: str) -> str:
    if isinstance(hop.refusal, OAuthError) and "error_uri" in hop.refusal.members:
        return f"the user has to consent to `{application}` for all requested scopes of `{named}`: {_LINK}"
    entity = hop.resource if isinstance(hop.resource, Resource) else None
    offered = " ".join(sorted(entity.scopes or ())) if entity else ""
    is_known = entity is not None and (hop.scopes or frozenset()) <= frozenset(entity.scopes or ())
    if is_known and entity is not None and entity.credential_provider_id is not None:
        return f"request all scopes that the credential of `{named}` has, or omit `scope`: it is not narrowed"
    place = await _place(services, zone, entity, RESOURCE)
    has = f"(`{offered}`){place}" if offered else f"(none){place}"
    if not hop.has_user:
        return f"request only scopes that `{named}` has {has}, or omit `scope`; add others to the resource"
    return (
        f"request only scopes that `{named}` has {has}, and that the user has consented to, or omit `scope`;"
        " for others, add them to the resource, and the user has to consent again"
    )


def _policy(policies: Sequence[DecidingPolicy], application: str, named: str) -> list[str]:
    if not policies:
        return [f"add a policy to the active policy set that permits `{application}` to use `{named}`"]
    return [
        f"policy `{each.policy or each.policy_version_id}`, {_rule(each.rule)}, forbids it{_at(each.source)};"
        " if that is not intended, change the rule, or the groups and roles that it names"
        for each in policies
    ]


def _rule(name: str) -> str:
    """A rule by its `@id`, or by its position in the text, counted from 1 for people."""
    return f"rule {int(name) + 1}" if name.isascii() and name.isdecimal() else f"rule `{name}`"


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

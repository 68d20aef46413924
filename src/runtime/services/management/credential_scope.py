"""The scope of a credential: the zones that it is limited to, and the owner whose entities it changes."""

from collections.abc import Iterable, Mapping
from typing import cast

from runtime.domain.errors import Forbidden, NotFound
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    POLICY,
    POLICY_SET,
    POLICY_SET_VERSION,
    POLICY_VERSION,
    PROVIDER,
    RESOURCE,
    ROLE,
    ROLE_ASSIGNMENT,
    SECRET,
    ZONE,
    Entity,
    Kind,
)
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.base import ZoneEntity
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import ProviderType
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import applications, ownership
from runtime.storage.sql import entities as rows

# What is a part of something else: the member that names it, and the kinds that it may be of. Whoever has the
# whole has the part, unless a configuration manages the part itself. An assignment is a part of its role:
# whoever could give a role of others could make themselves what those let it do.
_PARTS: Mapping[str, tuple[str, tuple[Kind, ...]]] = {
    APPLICATION_CREDENTIAL.name: ("application_id", (APPLICATION,)),
    POLICY_VERSION.name: ("policy_id", (POLICY,)),
    POLICY_SET_VERSION.name: ("policy_set_id", (POLICY_SET,)),
    ROLE_ASSIGNMENT.name: ("role_id", (ROLE,)),
    SECRET.name: ("entity_id", (APPLICATION, PROVIDER, RESOURCE)),
}

# What may name what another configuration has: whoever names it has the word about the matter, and what is
# named lends nothing but its name. Any other reference across owners is refused.
NAMED: Mapping[tuple[str, str], str] = {
    (
        APPLICATION.name,
        "accountable_group_id",
    ): "who answers for an application, which lends it nothing",
    (
        APPLICATION.name,
        "dependencies",
    ): "what an application asks for; `refuse_lent_credentials` where that is more than the zone's tokens",
    (APPLICATION_CREDENTIAL.name, "provider_id"): "whose workloads an application takes for itself",
    (POLICY_SET.name, "policies"): "which texts of others whoever has the zone lets decide there",
    (ROLE_ASSIGNMENT.name, "group_id"): "whom the owner of a role gives it to",
    (ROLE_ASSIGNMENT.name, "application_id"): "whom the owner of a role gives it to",
    (ZONE.name, "default_mcp_gateway_application_id"): "what whoever has a zone takes for its gateway",
    (ZONE.name, "default_resource_id"): "what whoever has a zone takes for a resource that nobody names",
    (ZONE.name, "user_identity_provider_id"): "by whom whoever has a zone lets its users sign in",
}
# Why not, of those that are refused; without a row that it is a reference is all there is to say.
LENT: Mapping[tuple[str, str], str] = {
    (RESOURCE.name, "application_id"): "`application_id` refers to an application of another configuration",
    (RESOURCE.name, "credential_provider_id"): (
        "`credential_provider_id` refers to a provider of another configuration"
    ),
}


def require_reach(unit: UnitOfWork, kind: Kind, zone_id: str) -> None:
    """Raise NotFound for a zone out of the reach of the caller's credential, as for one that is not there."""
    if not unit.caller.scope.reaches(zone_id):
        raise NotFound(f"there is no {kind.name} `{zone_id}`")


def refuse_bound(unit: UnitOfWork, what: str) -> None:
    """Raise Forbidden for something that would outlive the bounds of a bound credential."""
    if unit.caller.scope:
        raise Forbidden(f"a credential that is bound to an owner or to zones {what}")


async def refuse_others(unit: UnitOfWork, kind: Kind, entity: Entity) -> None:
    """Raise Forbidden for what another configuration manages, to a caller who acts for one alone.

    So it does for part of that, and for kinds that no configuration has: people, and what they do.
    """
    own = unit.caller.scope.owner
    if own is None or await _owner_of(unit, kind, entity.id) == own:
        return
    await refuse_others_of(unit, kind, entity.id)
    await refuse_part(unit, kind, entity)


async def refuse_part(unit: UnitOfWork, kind: Kind, entity: Entity) -> None:
    """Raise Forbidden for an entity, new or nobody's, that is part of what another configuration manages.

    So it does for part of an application that has what another configuration lends: `refuse_lent`.
    """
    own = unit.caller.scope.owner
    if own is None:
        return
    if kind.name in _PARTS:
        member, wholes = _PARTS[kind.name]
        for whole in wholes:
            await refuse_others_of(unit, whole, getattr(entity, member))
        if APPLICATION in wholes:
            zone_id = cast(ZoneEntity, entity).zone_id
            await _refuse_lent_dependencies(unit, zone_id, getattr(entity, member))
    elif not kind.manifest:
        raise Forbidden(f"this credential is bound to `{own}`, and no configuration can manage {kind.one}")


async def refuse_others_of(
    unit: UnitOfWork, kind: Kind, entity_id: str, *, why: str = "", remedy: str = ""
) -> None:
    """Raise Forbidden for what another configuration manages itself, to a caller who acts for one alone.

    Args:
        why: what it has to do with the request, where that is not plain; the message begins with it.
        remedy: what to do about it, where that is not plain; the message ends with it.
    """
    own = unit.caller.scope.owner
    if own is None:
        return
    owner = await _owner_of(unit, kind, entity_id)
    if owner not in (None, own):
        raise Forbidden(
            f"{why}{kind.name} `{entity_id}` belongs to the configuration `{owner}`,"
            f" and this credential is bound to `{own}`{remedy}"
        )


async def refuse_lent(unit: UnitOfWork, kind: Kind, entity: Entity) -> None:
    """Raise Forbidden for changing or adopting what nobody manages and another configuration lends to.

    Whoever has an application has the credentials of what it depends on, and whoever has a resource has its
    provider's. What may not be set anew is not obtained by taking over what has it.
    """
    own = unit.caller.scope.owner
    if own is None or await _owner_of(unit, kind, entity.id) == own:
        return
    if isinstance(entity, Application):
        await _refuse_lent_dependencies(unit, entity.zone_id, entity.id)
    if isinstance(entity, Resource) and entity.credential_provider_id is not None:
        await refuse_references(
            unit, RESOURCE, "credential_provider_id", PROVIDER, [entity.credential_provider_id]
        )


async def _refuse_lent_dependencies(unit: UnitOfWork, zone_id: str, application_id: str) -> None:
    """Raise Forbidden for an application of nobody's that has what another configuration's vault keeps."""
    if await _owner_of(unit, APPLICATION, application_id) is not None:
        return
    depends_on = await applications.dependencies_of(unit.conn, application_id, zone_id=zone_id)
    remedy = (
        "; adopt the application, or remove the dependency, with a credential that is not bound to an owner"
    )
    await refuse_lent_credentials(unit, zone_id, depends_on, remedy=remedy)


async def refuse_lent_credentials(
    unit: UnitOfWork,
    zone_id: str,
    resource_ids: Iterable[str],
    *,
    remedy: str = "; ask for the dependency to be added with a credential that is not bound to an owner",
) -> None:
    """Raise Forbidden for a new dependency that would lend another configuration's stored credentials.

    For a resource whose tokens the zone makes, a dependency lends a name. For any other, token exchange hands
    out what its owner's vault keeps: shared keys, and tokens of the accounts that users have connected.
    """
    if unit.caller.scope.owner is None:
        return
    found = await rows.many(unit.conn, RESOURCE, sorted(resource_ids), within={"zone_id": zone_id})
    provided = {one.id: one.credential_provider_id for one in found if one.credential_provider_id is not None}
    providers = await rows.many(
        unit.conn, PROVIDER, sorted(set(provided.values())), within={"zone_id": zone_id}
    )
    issuing = {one.id for one in providers if one.type is ProviderType.SERVICE_STS}
    for resource_id, provider_id in provided.items():
        if provider_id not in issuing:
            await refuse_others_of(
                unit,
                RESOURCE,
                resource_id,
                why="a dependency on this resource lends the credentials that its provider keeps: ",
                remedy=remedy,
            )


async def refuse_references(unit: UnitOfWork, kind: Kind, member: str, of: Kind, ids: Iterable[str]) -> None:
    """Raise Forbidden for references that a body sets anew, to what another configuration manages.

    What a part says of its whole is asked where the part is made or changed: `refuse_part`.

    Args:
        of: what the member names.
    """
    place = (kind.name, member)
    if unit.caller.scope.owner is None or place in NAMED or _PARTS.get(kind.name, ("",))[0] == member:
        return
    why = LENT.get(place, f"`{member}` refers to an object of another configuration")
    for one in ids:
        await refuse_others_of(unit, of, one, why=f"{why}: ")


async def _owner_of(unit: UnitOfWork, kind: Kind, entity_id: str) -> str | None:
    key = (kind.name, entity_id)
    if key not in unit.cache.owners:
        found = await ownership.of_entities(unit.conn, unit.organization_id, kind, [entity_id])
        unit.cache.owners[key] = found[entity_id].owner if entity_id in found else None
    return unit.cache.owners[key]

"""Finds resources that stay and lose their credential provider.

An exchange for such a resource hands out a key of the vault, or the provider's token of a connected account.
Once its manifest names no provider any more, it hands out an access token of the zone, which the resource may
not accept. Where the provider is deleted under a resource that the plan leaves alone, it is refused.
"""

from collections.abc import Container, Iterable, Iterator, Mapping

from reconciler.kinds import Entity, Kinds

from .matching import SnapshotIndex
from .model import Action, LostProvider

_RESOURCE, _PROVIDER = "Resource", "Provider"
_MEMBER = "credential_provider_id"
# Identifiers of the providers that every zone is made with: no other one of the zone can have them.
_OF_THE_ZONE = "service-sts"
_VAULT = "service-vault"


def find_lost_providers(
    actions: Iterable[Action], index: SnapshotIndex, kinds: Kinds
) -> tuple[LostProvider, ...]:
    """Such resources of any owner, by zone and identifier; none that gets another provider."""
    if _RESOURCE not in kinds.by_name:
        return ()
    of_resources = {each.id: each for each in actions if each.kind == _RESOURCE and each.id is not None}
    deleted = {each.id: each for each in actions if each.kind == _PROVIDER and each.destroys}
    found = [*_removed(of_resources.values(), index, deleted), *_left_alone(of_resources, index, deleted)]
    return tuple(sorted(found, key=lambda each: (each.zone or "", each.resource)))


def _removed(
    actions: Iterable[Action], index: SnapshotIndex, deleted: Container[str | None]
) -> Iterator[LostProvider]:
    """The resources whose manifests name no provider any more."""
    for action in actions:
        names_none = any(each.path == _MEMBER and each.after is None for each in action.changes)
        resource = index.by_id.get(action.id or "")
        if resource is None or not names_none or action.destroys:
            continue
        provider = _provider_of(resource, index)
        if provider is not None:
            yield _lost(resource, provider, action.zone, is_deleted=provider.id in deleted)


def _left_alone(
    of_resources: Mapping[str, Action], index: SnapshotIndex, deleted: Mapping[str | None, Action]
) -> Iterator[LostProvider]:
    """The resources that name a provider which the plan deletes, and that no action gives another one."""
    settled = {
        each
        for each, action in of_resources.items()
        if action.destroys or any(change.path == _MEMBER for change in action.changes)
    }
    for provider_id, action in deleted.items():
        provider = index.by_id.get(provider_id or "")
        if provider is None:
            continue
        for resource in index.in_zone.get(provider.zone_id or "", ()):
            uses_it = resource.kind == _RESOURCE and resource.spec.get(_MEMBER) == provider.id
            if uses_it and resource.id not in settled:
                yield _lost(resource, provider, action.zone, is_deleted=True, is_refused=True)


def _provider_of(resource: Entity, index: SnapshotIndex) -> Entity | None:
    """The provider that a resource names; None where the zone issues its tokens anyway."""
    provider = index.by_id.get(str(resource.spec.get(_MEMBER)))
    return None if provider is None or provider.handle == _OF_THE_ZONE else provider


def _lost(
    resource: Entity, provider: Entity, zone: str | None, *, is_deleted: bool, is_refused: bool = False
) -> LostProvider:
    return LostProvider(
        zone=zone,
        resource=resource.handle or resource.id,
        provider=provider.handle or provider.id,
        is_deleted=is_deleted,
        is_refused=is_refused,
        has_stored_keys=provider.handle == _VAULT,
    )

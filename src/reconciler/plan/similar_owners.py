"""Suggests the owner that was intended: a misspelt one manages nothing, and everything would be created."""

from collections import Counter
from collections.abc import Sequence

from reconciler.kinds import Entity, Manifest
from reconciler.kinds.values import Key

from .matching import SnapshotIndex
from .model import SimilarOwner


def find_similar_owner(
    manifests: Sequence[Manifest], index: SnapshotIndex, owner: str
) -> SimilarOwner | None:
    """Who manages at least half of what the manifests name, where *owner* manages nothing; None otherwise."""
    if index.counts or not manifests:
        return None
    wanted = {manifest.key for manifest in manifests}
    named = Counter(
        entity.ownership.owner
        for entity in index.by_id.values()
        if entity.ownership is not None and _key(entity, index) in wanted
    )
    found = min(named, key=lambda other: (-named[other], other), default=owner)
    return SimilarOwner(found, named[found]) if 2 * named[found] >= len(wanted) else None


def _key(entity: Entity, index: SnapshotIndex) -> Key | None:
    """What its owner calls an entity; the zone by the name that manifests have for it."""
    if entity.ownership is None:
        return None
    zone = index.by_id.get(entity.zone_id or "")
    zone_name = zone.ownership.name if zone is not None and zone.ownership is not None else entity.zone
    return Key(zone_name, entity.kind, entity.ownership.name)

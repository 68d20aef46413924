"""Lookups of one unit of work: thousands of operations that need the same entity ask the database once."""

from dataclasses import dataclass, field

from runtime.adapters.keys.signing import SigningKey
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.resource_overlaps import ResourceOverlaps
from runtime.storage.sql.resources import ProvidedResource


@dataclass
class LookupCache:
    """Valid inside one transaction; whoever writes an entity keeps its entries right.

    Attributes:
        existing: (zone id, kind name, id) of entities that were seen to exist.
        zones: id -> zone.
        owners: (kind name, id) -> the configuration that manages the entity, or None.
        slugs: (kind name, ids of the scope) -> the slugs that are taken, once that has been worth asking.
        slugs_asked: how many slugs have been looked for there.
        client_ids: zone id -> client ids that may be taken, once that has been worth asking.
        client_ids_asked: zone id -> how many client ids have been looked for there.
        resource_overlaps: zone id -> its resources by URL, once all has been written.
        provided_resources: zone id -> the resources that its applications provide, once all has been written.
        signing_keys: zone id -> kid -> key, opened once.
    """

    existing: set[tuple[str, str, str]] = field(default_factory=set)
    zones: dict[str, Zone] = field(default_factory=dict)
    owners: dict[tuple[str, str], str | None] = field(default_factory=dict)
    slugs: dict[tuple[str, ...], set[str]] = field(default_factory=dict)
    slugs_asked: dict[tuple[str, ...], int] = field(default_factory=dict)
    client_ids: dict[str, set[str]] = field(default_factory=dict)
    client_ids_asked: dict[str, int] = field(default_factory=dict)
    resource_overlaps: dict[str, ResourceOverlaps] = field(default_factory=dict)
    provided_resources: dict[str, list[ProvidedResource]] = field(default_factory=dict)
    signing_keys: dict[str, dict[str, SigningKey]] = field(default_factory=dict, repr=False)

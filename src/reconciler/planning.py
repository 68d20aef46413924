"""Makes the plan of a configuration: reads a snapshot from the server and compares the manifests with it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import reconciler
from reconciler.apply import file_with_secret
from reconciler.client import Api
from reconciler.kinds import Kinds, Snapshot
from reconciler.manifests import Configuration
from reconciler.manifests.diagnostics import suggest
from reconciler.manifests.source_files import describe_commit
from reconciler.plan import Action, Plan, build_plan

_ZONE = "Zone"


def make_plan(
    api: Api,
    configuration: Configuration,
    kinds: Kinds,
    *,
    owner: str,
    server: str,
    budgets: Mapping[str, int | str] | None = None,
    renew: bool = False,
    secrets_directory: Path | None = None,
) -> Plan:
    """Read one snapshot and plan against it. Raises ApiError, PlanImpossible.

    Args:
        renew: replace objects whose one-time secret never arrived (`--renew-lost`).
        secrets_directory: the directory with the secrets that did arrive.
    """
    snapshot = _snapshot(api, configuration, owner)

    def is_lost(action: Action) -> bool:
        return renew and (
            secrets_directory is None
            or file_with_secret(snapshot.organization_id, action, secrets_directory) is None
        )

    return build_plan(
        configuration.manifests,
        snapshot,
        kinds,
        owner=owner,
        tool_version=reconciler.__version__,
        server=server,
        source=describe_commit(configuration.source),
        budgets=budgets,
        renew=is_lost,
        zones=configuration.zones,
        hint=suggest,
        now=datetime.now(UTC),
    )


def _snapshot(api: Api, configuration: Configuration, owner: str) -> Snapshot:
    """The snapshot of the owner's objects; of all objects of its zones where another owner has these."""
    found = api.snapshot(owner, configuration.zones)
    own = {manifest.name for manifest in configuration.manifests if manifest.kind.name == _ZONE}
    others = {
        record.name
        for zone in found.entities
        if zone.kind == _ZONE
        and (record := zone.ownership) is not None
        and record.owner != owner
        and record.name in own
    }
    return api.snapshot(owner, others.union(configuration.zones)) if others else found

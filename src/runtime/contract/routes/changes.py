"""The operations of the snapshot, changesets and the audit log."""

from runtime.contract import changes
from runtime.contract.queries import AFTER, AUDITED, BEFORE, LIMIT, SINCE, UNTIL, expand, paging
from runtime.contract.routes.route import Route, by_hand
from runtime.domain import kinds
from runtime.domain.kinds.base import PageShape
from runtime.domain.kinds.queries import Query

_ORGANIZATION = kinds.ORGANIZATION.item_path

ROUTES: tuple[Route, ...] = (
    by_hand(
        "snapshot.retrieve",
        "GET",
        f"{_ORGANIZATION}/snapshot",
        200,
        "Stream every object the caller may read, with its owner, one JSON object a line",
        query=(
            Query("zone", many=True, about="slugs or ids of zones; every zone when absent"),
            Query(
                "owner",
                about="an owner: all zones, and the objects in those that it or no owner manages, or"
                " where it manages objects, and in each `zone`, also by the name in its manifests",
            ),
        ),
        response=(
            changes.SnapshotStart,
            changes.SnapshotEntity,
            changes.SnapshotTombstone,
            changes.SnapshotEnd,
        ),
        media="application/x-ndjson",
        headers=("If-None-Match",),
        etag=True,
        errors=(304, 400, 403, 404),
    ),
    by_hand(
        "changesets.create",
        "POST",
        f"{_ORGANIZATION}/changesets",
        200,
        "Apply a list of operations, all or none; with `dry_run` only check them",
        query=(Query("dry_run", "boolean", about="check only, change nothing"),),
        body=(changes.Changeset,),
        response=(changes.ChangesetResult,),
        headers=("Idempotency-Key",),
        errors=(400, 403, 404, 409, 412, 413),
    ),
    by_hand(
        "changesets.list",
        "GET",
        f"{_ORGANIZATION}/changesets",
        200,
        "List the receipts of changesets, newest first",
        query=paging("permissions", "total_count"),
        response=(changes.Receipt,),
        envelope=PageShape.ORGANIZATION,
    ),
    by_hand(
        "changesets.retrieve",
        "GET",
        f"{_ORGANIZATION}/changesets/{{changeset_id}}",
        200,
        "Get the receipt of a changeset",
        response=(changes.Receipt,),
    ),
    by_hand(
        "audit_events.list",
        "GET",
        f"{_ORGANIZATION}/audit-events",
        200,
        "List the events of the audit trail, newest first",
        query=(
            AFTER,
            BEFORE,
            LIMIT,
            *AUDITED,
            SINCE,
            UNTIL,
            expand("permissions"),
        ),
        response=(changes.AuditEvent,),
        envelope=PageShape.ORGANIZATION,
    ),
)

"""Phase: apply once. A changeset sent again gets the first response; another body is a conflict."""

import json

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.sealing import SecretHasher
from runtime.domain.errors import Conflict, Problem
from runtime.services.management.changesets.changeset import PackedChangeset
from runtime.services.management.changesets.receipts import AppliedChangeset
from runtime.services.time_slices import TimeSlice
from runtime.storage.sql import changes as storage
from runtime.storage.sql.changes import ChangesetRecord


class AlreadyApplied(Exception):
    """Leaves the transaction: the same plan was applied before, maybe by a request at the same time."""

    def __init__(self, applied: ChangesetRecord) -> None:
        super().__init__(applied.id)
        self.applied = applied


async def require_not_applied(
    conn: AsyncConnection, organization_id: str, changeset: PackedChangeset
) -> None:
    """Raise AlreadyApplied when the owner has applied a changeset with this plan digest."""
    if applied := await storage.find_by_plan(conn, organization_id, changeset.owner, changeset.plan_digest):
        raise AlreadyApplied(applied)


def replayed(applied: ChangesetRecord, digest: str) -> AppliedChangeset:
    """The answer of the first time. Raises Conflict when the body was another one."""
    if applied.body_digest != digest:
        raise Conflict(
            f"changeset `{applied.id}` was applied with this plan digest and another body",
            problems=[Problem("conflict", "is the digest of a plan that is already applied", "plan_digest")],
        )
    return AppliedChangeset(applied.result, replayed=True)


async def body_digest(hasher: SecretHasher, changeset: PackedChangeset) -> str:
    """The keyed digest that tells two bodies apart: the secrets in a body cannot be guessed from it."""
    time_slice, digest = TimeSlice(), hasher.begin()
    rest = {
        "base_revision": changeset.base_revision,
        "owner": changeset.owner,
        "plan_digest": changeset.plan_digest,
        "source": changeset.source.model_dump(mode="json"),
        "operations": [],
    }
    before, place, after = json.dumps(rest, sort_keys=True).partition('"operations": [')
    digest.update(f"{before}{place}".encode())
    for index, operation in enumerate(changeset.operations):
        text = json.dumps(operation.as_json(), sort_keys=True)
        digest.update(f"{', ' if index else ''}{text}".encode())
        await time_slice.yield_if_due()
    digest.update(after.encode())
    return digest.hexdigest()

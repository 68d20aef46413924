"""Changesets and snapshots for tests: operations written shortly, and what the server says afterwards."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from sqlalchemy import select
from tests.support.factories import Company

from runtime.contract.changes import Changeset
from runtime.domain.errors import ManagementError
from runtime.domain.identifiers import new_id
from runtime.services.management.changesets import pipeline
from runtime.services.management.changesets.changeset import packed
from runtime.services.management.changesets.receipts import AppliedChangeset
from runtime.services.management.snapshots.snapshot import SnapshotFilter, open_snapshot
from runtime.storage.sql import organization_revision
from runtime.storage.sql.tables import METADATA

OWNER = "acme/identity"
# What a dry run accepts: from readers, without secrets, and more than once.
ONLY_WHEN_APPLIED = ("` may not ", "is a placeholder", "with this plan digest")
_numbers = count(1)


def paths(spec: Mapping[str, Any], before: str = "") -> list[str]:
    """The dotted paths of the leaves of a spec: what a record says is owned."""
    found: list[str] = []
    for name, value in spec.items():
        pointer = isinstance(value, dict) and value.keys() & {"local_id", "address_of", "secret"}
        if isinstance(value, dict) and value and not pointer:
            found += paths(value, f"{before}{name}.")
        else:
            found.append(f"{before}{name}")
    return found


def create(kind: str, name: str, zone: Any = None, /, **spec: Any) -> dict[str, Any]:
    """A create whose local id is `<kind>:<name>`; *zone* is an id, or `{"local_id": ..}`."""
    operation = {
        "op": "create",
        "kind": kind,
        "local_id": local(kind, name),
        "name": name,
        "spec": spec,
        "fields": paths(spec),
    }
    return operation | _zone(zone)


def app(name: str, zone: Any, /, **spec: Any) -> dict[str, Any]:
    """A new application."""
    return create("Application", name, zone, **{"name": name, "identifier": name, **spec})


def api(name: str, zone: Any, /, **spec: Any) -> dict[str, Any]:
    """A new resource."""
    return create("Resource", name, zone, **{"name": name, "identifier": f"https://{name}.test", **spec})


def update(kind: str, entity_id: str, name: str, zone: Any = None, /, **spec: Any) -> dict[str, Any]:
    """An update that owns what it writes."""
    operation = {"op": "update", "kind": kind, "id": entity_id, "name": name, "spec": spec}
    return operation | {"fields": paths(spec)} | _zone(zone)


def adopt(kind: str, entity_id: str, name: str, zone: Any = None, /, **spec: Any) -> dict[str, Any]:
    """An adoption."""
    return {**update(kind, entity_id, name, zone, **spec), "op": "adopt"}


def on(op: str, kind: str, entity_id: str, **more: Any) -> dict[str, Any]:
    """A delete, release or rename."""
    return {"op": op, "kind": kind, "id": entity_id, **more}


def local(kind: str, name: str) -> str:
    """The local id of what a create makes."""
    return f"{kind}:{name}"


def ref(kind: str, name: str) -> dict[str, str]:
    """A reference to what the same changeset creates."""
    return {"local_id": local(kind, name)}


def _zone(zone: Any) -> dict[str, Any]:
    if zone is None:
        return {}
    return {"zone": zone if isinstance(zone, dict) else {"id": zone}}


def _require_same(tried: ManagementError | None, refused: ManagementError) -> None:
    """Compare how a changeset was refused on a dry run, and then."""
    if any(words in refused.detail for words in ONLY_WHEN_APPLIED):
        return
    assert tried is not None, f"a dry run accepts what is refused: {refused.detail}"
    told = [(type(each), [one.field for one in each.problems]) for each in (tried, refused)]
    count = len(told[1][1])  # a dry run tells of everything, an apply stops at the first
    assert (told[0][0], told[0][1][:count]) == told[1], f"{tried.detail}; {refused.detail}"


@dataclass(frozen=True)
class Git:
    """A configuration that applies changesets to a company."""

    company: Company
    owner: str = OWNER
    ids: dict[str, str] = field(default_factory=dict)

    def as_owner(self, owner: str) -> "Git":
        """Another configuration of the same company."""
        return replace(self, owner=owner)

    def as_role(self, role: str) -> "Git":
        """The same configuration, applied with another role."""
        caller = replace(self.company.caller, role=role)
        return replace(self, company=replace(self.company, caller=caller))

    async def revision(self) -> int:
        """The revision that stands."""
        async with self.company.services.database.reading() as conn:
            return await organization_revision.revision(conn, self.company.organization_id)

    async def body(self, *operations: Mapping[str, Any], base: int | None = None, **more: Any) -> Changeset:
        """A changeset of these operations, over what stands now."""
        return Changeset.model_validate(
            {
                "base_revision": await self.revision() if base is None else base,
                "owner": self.owner,
                "plan_digest": f"sha256:{next(_numbers)}-{new_id()}",
                "operations": list(operations),
                **more,
            }
        )

    async def send(self, changeset: Changeset, *, dry_run: bool = False, **more: Any) -> AppliedChangeset:
        """Apply a changeset. It is tried out before, which has to come to the same."""
        if dry_run:
            return await self._send(changeset, dry_run=True, **more)
        tried = await self._refusal(changeset)
        try:
            outcome = await self._send(changeset, **more)
        except ManagementError as refused:
            _require_same(tried, refused)
            raise
        assert outcome.replayed or tried is None, f"a dry run refuses what is accepted: {tried}"
        return outcome

    async def _refusal(self, changeset: Changeset) -> ManagementError | None:
        """How a dry run refuses it; None when it does not."""
        try:
            await self._send(changeset, dry_run=True)
        except ManagementError as refused:
            return refused
        return None

    async def _send(self, changeset: Changeset, *, dry_run: bool = False, **more: Any) -> AppliedChangeset:
        return await pipeline.apply_changeset(
            self.company.services,
            self.company.caller,
            self.company.organization_id,
            packed(changeset),
            request_id="test",
            dry_run=dry_run,
            **more,
        )

    async def apply(self, *operations: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Apply operations over what stands now; ids of what was created are remembered in `ids`."""
        base, dry_run = more.pop("base", None), more.pop("dry_run", False)
        changeset = await self.body(*operations, base=base, **more)
        answer = (await self.send(changeset, dry_run=dry_run)).answer
        if not dry_run:
            for operation, done in zip(operations, answer["operations"], strict=True):
                if operation["op"] == "create":
                    self.ids[operation["local_id"]] = done["id"]
        return answer

    def id(self, kind: str, name: str) -> str:
        """The id of something that was created by `apply_changeset`."""
        return self.ids[local(kind, name)]

    async def snapshot(self, *zones: str, owner: str | None = None) -> list[dict[str, Any]]:
        """The lines of a snapshot."""
        wanted = SnapshotFilter(zones, owner)
        chunks = bytearray()
        services, caller = self.company.services, self.company.caller
        async with open_snapshot(services, caller, self.company.organization_id, wanted, "test") as opened:
            async for chunk in opened.chunks:
                chunks += chunk
        return [json.loads(line) for line in chunks.splitlines()]

    async def found(self, kind: str, name: str) -> dict[str, Any]:
        """The snapshot's line of what has that name in git. Raises LookupError."""
        for line in await self.snapshot():
            if line.get("kind") == kind and (line.get("ownership") or {}).get("name") == name:
                return line
        raise LookupError(f"{kind} {name}")

    async def names(self, kind: str) -> set[str]:
        """The names that entities of a kind have in git."""
        return {
            line["ownership"]["name"]
            for line in await self.snapshot()
            if line.get("kind") == kind and line.get("ownership")
        }

    async def rows(self, table: str) -> list[dict[str, Any]]:
        """Everything of the organization in a table."""
        kept, zones = METADATA.tables[table], METADATA.tables["zones"]
        own = zones.c.organization_id == self.company.organization_id
        if "organization_id" in kept.c:
            query = select(kept).where(kept.c.organization_id == self.company.organization_id)
        else:
            query = select(kept).where(kept.c.zone_id.in_(select(zones.c.id).where(own)))
        async with self.company.services.database.reading() as conn:
            rows = await conn.execute(query)
            return [dict(row) for row in rows.mappings()]

    async def bound_version(self, zone_id: str) -> dict[str, Any]:
        """The policy set version that decides in a zone."""
        bindings = [row for row in await self.rows("policy_set_bindings") if row["zone_id"] == zone_id]
        (found,) = [
            row
            for row in await self.rows("policy_set_versions")
            if row["id"] == bindings[0]["policy_set_version_id"]
        ]
        return found

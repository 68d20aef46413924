"""The real server under the reconciler's tests: `zoned`'s own changesets and snapshots, in this process.

`RealWorld` has the methods of `fake_server.World` that plans are made and carried out by, so that one test
can be run against both.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.reconciler.fake_server import Refused
from tests.support.applying import Git
from tests.support.factories import Company, found_company, opened_parts

from reconciler.client.api import read_snapshot
from reconciler.kinds import Entity, Kind, Kinds, MemberSchema, Ownership, Snapshot
from reconciler.plan.changeset import nest
from reconciler.plan.member_values import leaves, normalized
from runtime.contract.changes import Changeset
from runtime.domain.errors import ManagementError
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import BY_NAME, Verb
from runtime.services.management.access.caller import CredentialScope
from runtime.services.management.changesets import pipeline
from runtime.services.management.changesets.changeset import packed
from runtime.services.management.changesets.receipts import AppliedChangeset
from runtime.services.management.snapshots.snapshot import SnapshotFilter, open_snapshot


@dataclass(frozen=True)
class RealWorld:
    """An organization of a real server, driven as `World` is.

    `tries`: each changeset is tried out before, which has to come to the same.
    """

    kinds: Kinds
    company: Company
    run: Callable[[Coroutine[Any, Any, Any]], Any]
    tries: bool = True
    _kept: dict[str, Snapshot] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def running(cls, kinds: Kinds, directory: Path, database_url: str) -> Iterator["RealWorld"]:
        """An organization on a server over that database, whose tables are there."""
        with asyncio.Runner() as runner:
            stack = AsyncExitStack()

            async def begin() -> Company:
                settings = {"database_url": database_url, "public_url": "https://zones.test"}
                parts = await stack.enter_async_context(opened_parts(directory, **settings))
                return await found_company(parts, "Example")

            try:
                yield cls(kinds, runner.run(begin()), runner.run)
            finally:
                runner.run(stack.aclose())

    def another(self, *, tries: bool = True) -> "RealWorld":
        """A new organization of the same server, with nothing in it."""
        company = self.run(found_company(self.company.services, f"Example {new_id()}"))
        return RealWorld(self.kinds, company, self.run, tries)

    def snapshot(self) -> Snapshot:
        """The snapshot as the reconciler reads it, and keeps it: its tag says when it is unchanged."""
        kept: Snapshot = self.run(self._snapshot())
        return kept

    async def _snapshot(self) -> Snapshot:
        body, company = bytearray(), self.company
        async with open_snapshot(
            company.services, company.caller, company.organization_id, SnapshotFilter(), "test"
        ) as opened:
            if (kept := self._kept.get(opened.etag)) is not None:
                return kept
            async for chunk in opened.chunks:
                body += chunk
        self._kept.clear()
        self._kept[opened.etag] = read_snapshot(bytes(body))
        return self._kept[opened.etag]

    def bound(self, owner: str) -> "RealWorld":
        """The same, for a credential of that configuration."""
        caller = replace(self.company.caller, scope=CredentialScope.of(owner, None))
        return replace(self, company=replace(self.company, caller=caller))

    def changeset(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Apply a changeset. Raises Refused."""
        return self._answer(body, self._send)

    def tried(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What a dry run answers. Raises Refused."""
        return self._answer(body, partial(Git(self.company).send, dry_run=True))

    def _answer(
        self, body: Mapping[str, Any], send: Callable[[Changeset], Coroutine[Any, Any, AppliedChangeset]]
    ) -> dict[str, Any]:
        changeset = Changeset.model_validate({**body, "plan_digest": f"{body['plan_digest']}-{new_id()}"})
        try:
            answer: dict[str, Any] = self.run(send(changeset)).answer
        except ManagementError as refused:
            problem = refused.problems[0] if refused.problems else None
            field = problem.field or "" if problem else ""
            raise Refused(refused.status, refused.code, refused.detail, field) from refused
        return answer

    async def _send(self, changeset: Changeset) -> AppliedChangeset:
        company = self.company
        if self.tries:
            return await Git(company).send(changeset)
        return await pipeline.apply_changeset(
            company.services, company.caller, company.organization_id, packed(changeset), request_id="test"
        )

    def write(self, kind: str, zone_id: str | None, entity_id: str, **patch: Any) -> None:
        """Change an entity through the management API, as if somebody did it by hand."""
        parents = {"zone_id": zone_id} if zone_id else {"organization_id": self.company.organization_id}
        self.run(self.company.run(BY_NAME[kind], Verb.UPDATE, parents, entity_id, patch))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What a table has of this organization."""
        rows: list[dict[str, Any]] = self.run(Git(self.company).rows(table))
        return [row for row in rows if row["organization_id"] == self.company.organization_id]

    def make(self, kind: str, zone_id: str, **body: Any) -> str:
        """Make an entity by hand; its id."""
        made = self.run(self.company.run(BY_NAME[kind], Verb.CREATE, {"zone_id": zone_id}, body))
        return str(made.id)


def told(snapshot: Snapshot, kinds: Kinds) -> dict[str, Any]:
    """What a snapshot says of customers' entities, by their names in git in place of ids.

    What is the server's to make (slugs, addresses, revisions) is left out, or told by a name: it is another
    each time. So is the organization's home zone.
    """
    names = {entity.id: _name(entity) for entity in snapshot.entities}
    for entity in snapshot.entities:
        for member, address in entity.spec.get("addresses", {}).items():
            names[address] = f"{_name(entity)}/{member}"
    zones = {entity.id for entity in snapshot.entities if entity.kind == "Zone" and entity.ownership}
    found = {}
    for entity in snapshot.entities:
        if entity.id not in zones and entity.zone_id not in zones and entity.kind != "ServiceAccount":
            continue
        kind = kinds.by_name[entity.kind]
        if entity.owner_type == "platform":
            if entity.kind == "PolicySet" and entity.zone_id in zones:
                found[f"{entity.kind}/{entity.handle}"] = {"active": entity.spec.get("active")}
            continue
        place = f"{names.get(entity.zone_id or '', '')}/{names[entity.id]}"
        found[place] = _told(entity, kind, names)
    return found


def _name(entity: Entity) -> str:
    return f"{entity.kind}/{entity.ownership.name if entity.ownership else entity.handle or '?'}"


def _told(entity: Entity, kind: Kind, names: Mapping[str, str]) -> dict[str, Any]:
    spec = {name: value for name, value in entity.spec.items() if name not in ("slug", "addresses")}
    record = entity.ownership
    return {
        "spec": _named(kind.wire, spec, names),
        "secrets_set": sorted(entity.secrets_set),
        "ownership": record
        and {
            "owner": record.owner,
            "name": record.name,
            "fields": sorted(record.fields),
            "applied": _named(kind.wire, _applied(kind, record), names, entity.spec),
            "secret_versions": dict(record.secret_versions),
            "protect": record.protect,
        },
    }


def _applied(kind: Kind, record: Ownership) -> dict[str, Any]:
    """What git has written, without what only followed another member then: the record does not follow it."""
    return nest(
        {
            path: value
            for path, shape, value in leaves(kind.wire, record.applied)
            if shape.default_from is None or path in record.fields
        }
    )


def _named(
    shape: MemberSchema, value: Any, names: Mapping[str, str], whole: Mapping[str, Any] | None = None
) -> Any:
    """A value with names in place of ids, sets in order, and without what says nothing: defaults, and nulls.

    `whole`: the spec around it, whose members may be defaults.
    """
    whole = whole if whole is not None else value
    if shape.nested and isinstance(value, dict):
        below = shape.members
        members = {
            name: _named(below.get(name, MemberSchema()), each, names, whole) for name, each in value.items()
        }
        return {name: each for name, each in members.items() if each not in (None, [], {})}
    if isinstance(value, dict):
        return {name: _named(MemberSchema(), each, names, whole) for name, each in value.items()}
    if isinstance(value, list):
        named = [_named(MemberSchema(), each, names, whole) for each in value]
        return sorted(named) if shape.unordered else named
    by_default = shape.default_from is not None and value == whole.get(shape.default_from)
    if value is None or by_default or value == normalized(shape, None):
        return None
    return names.get(value, value) if isinstance(value, str) else value

"""Builds the plan: matches manifests with entities, diffs them, and orders the operations."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from reconciler.kinds import Entity, Kind, Kinds, Manifest, Snapshot, Tombstone, Write

from .changeset import ChangesetBuilder, local_ids, unlink
from .dependency_order import dependency_order
from .display_names import DisplayNames
from .exclusive_members import taken_from_others
from .matching import Match, Matcher, SnapshotIndex
from .missing_names import MissingNameSearch
from .model import BY_OTHERS, CHANGING, NO_MANIFEST, Action, ChangeState, FieldChange, Op, Plan, Unmanaged
from .other_owners import ReferenceUnresolved
from .policy_preview import ACTIVE, POLICY, POLICY_SET, TEXT, PolicyPreview
from .similar_owners import find_similar_owner
from .three_way_diff import (
    PROTECT,
    as_written,
    fixed_changes,
    foreign_secret_addresses,
    identity,
    leaves,
    stored_secrets,
    three_way_diff,
    value_at,
)
from .unmanaged import UnmanagedSearch
from .zone_moves import with_zone_moves


class PlanImpossible(Exception):
    """Manifests that cannot be brought together with what is on the server; one message a line."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def build_plan(
    manifests: Sequence[Manifest],
    snapshot: Snapshot,
    kinds: Kinds,
    *,
    owner: str,
    tool_version: str,
    server: str = "",
    source: Mapping[str, str] | None = None,
    budgets: Mapping[str, int | str] | None = None,
    renew: Callable[[Action], bool] = lambda _: False,
    zones: Mapping[str, str | None] | None = None,
    hint: Callable[[str, Iterable[str]], str] = lambda _word, _known: "",
) -> Plan:
    """Compute the plan that turns the snapshot into what the manifests describe; deterministic.

    Args:
        renew: tells whether to replace what has a secret that never arrived, as far as the server knows.
        zones: name of a zone that another configuration manages -> which one, where that is said.
        hint: what was probably meant by a word, among the known ones; put at the end of a message.

    Raises:
        PlanImpossible: a reference leads nowhere.
    """
    builder = _Builder(manifests, snapshot, kinds, owner, zones or {}, hint, renew=renew)
    builder.resolve()
    builder.prepare_replacements()
    for match in builder.in_order():
        builder.settle(match)
    builder.prune()
    following = builder.foresight().of(builder.operations.in_order())
    return Plan(
        tool_version=tool_version,
        owner=owner,
        organization_id=snapshot.organization_id,
        server=server,
        base_revision=snapshot.revision,
        source=dict(source or {}),
        actions=tuple(with_zone_moves(builder.actions)),
        operations=builder.operations.in_order(),
        owned=dict(sorted(builder.index.counts.items())),
        wanted=len(manifests),
        refused=tuple(builder.refused),
        budgets=dict(budgets or {}),
        deciding=following.deciding,
        widened=following.widened,
        exempt=following.exempt,
        unmanaged=builder.unmanaged(),
        unmanaged_truncated=snapshot.undescribable_truncated,
        missing_names=MissingNameSearch(builder.matcher, kinds, builder.zones_looked_at()[0], hint).all(),
        undelivered=builder.undelivered(),
        similar_owner=find_similar_owner(manifests, builder.index, owner),
        names_writers=snapshot.names_writers,
        sees_all=snapshot.sees_all,
    )


_SECRET = "its secret"


class _Builder:
    def __init__(
        self,
        manifests: Sequence[Manifest],
        snapshot: Snapshot,
        kinds: Kinds,
        owner: str,
        zones: Mapping[str, str | None],
        hint: Callable[[str, Iterable[str]], str],
        *,
        renew: Callable[[Action], bool],
    ) -> None:
        matcher = Matcher(manifests, snapshot, owner, zones)
        self.owner, self.hint, self.renew = owner, hint, renew
        self.matcher, self.index, self.kinds = matcher, matcher.index, kinds
        self.names = DisplayNames(matcher.index, owner, self._new_label, matcher.renamed())
        self.shown = self.names.shown
        # Parents first; within a kind changes before creations, so that a handle is free before it is taken.
        self.matches = sorted(
            matcher.matches.values(),
            key=lambda each: (
                each.manifest.kind.order,
                each.found is None,
                each.key.zone or "",
                each.key.name,
            ),
        )
        # What was deleted and is made again -> how the changeset refers to it: we had applied the former id.
        self._renewed: dict[str, Any] = {
            match.deleted.id: match.pointer.get("id", match.pointer)
            for match in self.matches
            if match.deleted is not None
        }
        self._by_local_id = {match.local_id: match for match in self.matches}
        self._gone_first: frozenset[str] = frozenset()
        self._unlinked: dict[str, Mapping[str, Any]] = {}  # id -> references that it loses
        self.operations = ChangesetBuilder()
        self.actions: list[Action] = []
        self.refused: list[str] = []

    def resolve(self) -> None:
        """Resolve every reference. What is replaced is known first: whoever refers to it gets a new id."""
        problems = []
        for match in self.matches:
            problems += self.matcher.missing(match)
            try:
                self.matcher.resolve(match)
            except ReferenceUnresolved as error:
                hint = self.hint(error.word, error.known)
                problems.append(f"{match.manifest.origin}: {error}{hint}")
                continue
            if match.found is not None and not match.released:
                match.replaced = fixed_changes(match.manifest.kind, match.wanted, match.found)
                lost = not match.replaced and _is_undelivered(match)
                if lost and self.renew(self._action(match, Op.UPDATE, ())):
                    match.replaced = [_SECRET]
        if problems:
            raise PlanImpossible(sorted(problems))

    def undelivered(self) -> tuple[Action, ...]:
        """What has a secret of which nobody has said that it arrived, and is not replaced."""
        return tuple(
            self._action(match, Op.UPDATE, ())
            for match in self.matches
            if not match.replaced and _is_undelivered(match)
        )

    def prepare_replacements(self) -> None:
        """What makes way for something new goes before that is created, and references to it go before it."""
        replaced = [match.found for match in self.matches if match.replaced and match.found is not None]
        going = sorted([*replaced, *self._displaced()], key=self._children_first)
        if not going:
            return
        self._gone_first = frozenset(entity.id for entity in going)
        # References were resolved while some replacements were not known yet.
        for match in self.matches:
            match.wanted.clear()
            match.secrets.clear()
            self.matcher.resolve(match)
        for match in self.matches:
            record = match.found.ownership if match.found is not None else None
            if match.found is None or match.replaced or record is None or record.owner != self.owner:
                continue
            cleared = unlink(match.found, match.manifest.kind, self._gone_first)
            if cleared:
                self.operations.first.append(_unlinking(match.found, cleared))
                self._unlinked[match.found.id] = cleared
        for entity in going:
            self.operations.delete(entity, first=True)

    def _displaced(self) -> list[Entity]:
        """What no manifest describes any more and something new is like, where only one can be like that."""
        taken = {
            place
            for match in self.matches
            if match.new and (place := _place(match.manifest.kind, self._zone_id(match), match.wanted))
        }
        found = []
        for entity in self.pruned() if taken else ():
            kind = self.kinds.by_name.get(entity.kind)
            values = {path: value for path, _, value in leaves(kind.wire, entity.spec)} if kind else {}
            if kind is not None and _place(kind, entity.zone_id, values) in taken:
                found.append(entity)
        return found

    def _zone_id(self, match: Match) -> str | None:
        return (self._zone_pointer(match) or {}).get("id")

    def in_order(self) -> list[Match]:
        """The matches, each after what it refers to of what is created, as far as there is no circle."""
        created = {match.local_id: n for n, match in enumerate(self.matches) if match.new}
        needs: list[set[int]] = []
        for match in self.matches:
            found = {created[each] for value in match.wanted.values() for each in local_ids(value)}
            if (zone := self._zone_pointer(match)) is not None and "local_id" in zone:
                found.add(created[zone["local_id"]])
            needs.append(found - {len(needs)})
        return [self.matches[n] for n in dependency_order(needs)]

    def settle(self, match: Match) -> None:
        """The action that one manifest needs, if any."""
        manifest = match.manifest
        if match.released:
            self._release(match)
            return
        if match.foreign is not None:
            title = f"{manifest.kind.name} `{match.handle or manifest.name}`"
            self.refused.append(
                f"{manifest.origin}: {title} belongs to the configuration `{match.foreign}`; name it "
                "{external: ...} where it is only referred to; to take it over, let "
                f"`{match.foreign}` apply `lifecycle: {{release: true}}` first"
            )
            return
        zone = self._zone_pointer(match)
        self._refuse_displacing(match, zone)
        if match.found is None:
            self._create(match, zone, Op.CREATE, None)
        elif match.replaced:
            self._replace(match, zone)
        else:
            self._change(match, zone)

    def _refuse_displacing(self, match: Match, zone: Mapping[str, str] | None) -> None:
        """Refuse what takes from another owner's object what one object of a zone has alone."""
        manifest, within = match.manifest, self.index.in_zone.get((zone or {}).get("id", ""), ())
        for member, record in taken_from_others(manifest.kind, match.wanted, within, self.owner):
            self.refused.append(
                f"{manifest.origin}: only one {manifest.kind.name} of a zone can have `{member}: true`, and"
                f" `{record.name}` of `{record.owner}` has it; write `{member}: false`, or let"
                f" `{record.owner}` do so first"
            )

    def _zone_pointer(self, match: Match) -> dict[str, str] | None:
        if not match.manifest.kind.zoned:
            return None
        return self.matcher.zone_pointer(match.manifest.zone or "")

    def _release(self, match: Match) -> None:
        """Stop managing an entity, which stays as it is; nothing to do where that is so already."""
        found = match.found
        if found is None or found.ownership is None or found.ownership.owner != self.owner:
            return
        self.operations.release(found)
        self.actions.append(self._action(match, Op.RELEASE, ()))

    def _create(
        self, match: Match, zone: Mapping[str, str] | None, op: Op, before: tuple[FieldChange, ...] | None
    ) -> None:
        changes = before
        if changes is None:
            changes = tuple(
                FieldChange(path, None, self.shown(value))
                for path, value in sorted(_all_values(match).items())
            )
        if match.manifest.lifecycle.get("protect"):
            changes = (*changes, FieldChange(PROTECT, None, True))
        self.operations.create(match, zone)
        kind = match.manifest.kind
        self.actions.append(self._action(match, op, changes, shown_once=kind.shows_once(match.manifest.spec)))

    def _replace(self, match: Match, zone: Mapping[str, str] | None) -> None:
        found = match.found
        assert found is not None  # noqa: S101 - a replacement replaces something
        if match.adopted:
            self.refused.append(
                f"{match.manifest.origin}: {found.kind} `{found.handle}` is not managed from git and differs "
                f"in {_listed(match.replaced)}, which cannot change; make the manifest fit it first"
            )
            return
        if found.kind == "Zone":
            self.refused.append(
                f"{match.manifest.origin}: {_listed(match.replaced)} of a zone cannot change; "
                "replacing the zone would delete everything in it"
            )
            return
        secrets = stored_secrets(found)
        old = {path: value for path, _, value in leaves(match.manifest.kind.wire, found.spec)} | secrets
        gone = dict.fromkeys((_owned(found) & old.keys()) | secrets.keys())
        changes = tuple(
            FieldChange(
                path,
                self.shown(old.get(path)),
                self.shown(value),
                ChangeState.KEEP if old.get(path) == value else None,
            )
            for path, value in sorted({**gone, **_all_values(match)}.items())
        )
        self._create(match, zone, Op.REPLACE, changes)

    def _change(self, match: Match, zone: Mapping[str, str] | None) -> None:
        found, manifest = match.found, match.manifest
        assert found is not None  # noqa: S101 - only existing entities change
        if self._renewed and found.ownership is not None:
            applied = with_new_ids(found.ownership.applied, self._renewed)
            found = replace(found, ownership=replace(found.ownership, applied=applied))
        protect = bool(manifest.lifecycle.get("protect", False))
        changes = three_way_diff(
            manifest.kind, match.wanted, match.secrets, found, protect=protect, ignores=match.ignores
        )
        for secret, address in foreign_secret_addresses(
            manifest.kind, match.wanted, found, changes, match.ignores
        ):
            self.refused.append(
                f"{manifest.origin}: `{secret}` would be sent by `{address}`, set on the server, which "
                "the manifest does not name; write it there, or `null` to clear it"
            )
        if match.previous_name is not None:
            self.operations.rename(match)
        if changes or match.adopted:
            self.operations.change("adopt" if match.adopted else "update", match, zone, changes)
        op = Op.ADOPT if match.adopted else Op.RENAME if match.previous_name else Op.UPDATE
        changes = sorted([*changes, *self._besides(match, found, changes)], key=lambda each: each.path)
        if changes or op is not Op.UPDATE:
            shown = tuple(
                replace(
                    each,
                    before=self.shown(as_written(manifest.kind, found, each.path, each.before)),
                    after=self.shown(each.after),
                    applied=self.shown(each.applied),
                )
                for each in changes
            )
            self.actions.append(self._action(match, op, shown))

    def _besides(self, match: Match, found: Entity, changes: Sequence[FieldChange]) -> Iterator[FieldChange]:
        """What is written besides what git changes: references to what goes, and what would follow others."""
        told = {each.path for each in changes}
        kind = match.manifest.kind
        for path, _, value in leaves(kind.wire, self._unlinked.get(found.id, {})):
            if path not in told:
                yield FieldChange(path, value_at(found.spec, path), value, ChangeState.PENDING)
        moved = {each.path for each in changes if each.state in CHANGING}
        for path, value in match.wanted.items():
            if path not in told and kind.leaf(path).default_from in moved:
                yield FieldChange(path, value, value, ChangeState.KEEP)

    def _action(
        self, match: Match, op: Op, changes: tuple[FieldChange, ...], *, shown_once: bool = False
    ) -> Action:
        manifest, found = match.manifest, match.found
        return Action(
            op=op,
            kind=manifest.kind.name,
            zone=manifest.zone,
            name=manifest.name,
            id=found.id if found is not None else None,
            reason=str(manifest.origin),
            changes=changes,
            handle=match.handle,
            protected=bool(found and found.ownership and found.ownership.protect),
            previous_name=match.previous_name,
            shown_once=shown_once,
            secret_ends=op is Op.REPLACE and found is not None and manifest.kind.shows_once(found.spec),
            deleted=match.deleted is not None and op in (Op.CREATE, Op.ADOPT),
            write=_write_of(match, changes, self.index.gone_by_id),
        )

    def pruned(self) -> list[Entity]:
        """What this owner manages and no manifest describes any more; children first."""
        gone = [entity for entity in self.index.owned.values() if entity.id not in self.matcher.taken]
        return sorted(gone, key=self._children_first)

    def _children_first(self, entity: Entity) -> tuple[int, str, str]:
        kind, record = self.kinds.by_name.get(entity.kind), entity.ownership
        return -(kind.order if kind else 0), entity.zone or "", record.name if record else ""

    def prune(self) -> None:
        """Delete what this owner manages and no manifest describes any more."""
        gone = self.pruned()
        gone_ids = {entity.id for entity in gone}
        for entity in gone:
            record = entity.ownership
            assert record is not None  # noqa: S101 - only owned entities are pruned
            if entity.id not in self._gone_first:
                self.operations.delete(entity)
            kind = self.kinds.by_name.get(entity.kind)
            old = leaves(kind.wire, entity.spec) if kind else ()
            self.actions.append(
                Action(
                    op=Op.DELETE,
                    kind=entity.kind,
                    zone=self._zone_name(entity),
                    name=record.name,
                    id=entity.id,
                    reason=NO_MANIFEST,
                    changes=tuple(
                        FieldChange(path, self.shown(as_written(kind, entity, path, value)), None)
                        for path, _, value in old
                        if path in record.fields
                    )
                    + tuple(FieldChange(path, told, None) for path, told in stored_secrets(entity).items()),
                    handle=entity.handle,
                    protected=record.protect,
                    takes_along=count_cascaded(self.index, entity.id, gone_ids),
                    secret_ends=kind is not None and kind.shows_once(entity.spec),
                )
            )

    def foresight(self) -> PolicyPreview:
        """What is known to work out what follows from the operations."""
        written = {
            _key(match): (str(text), match.manifest.files.get(TEXT))
            for match in self.matches
            if match.manifest.kind.name == POLICY and (text := match.wanted.get(TEXT))
        }
        return PolicyPreview(
            self.kinds,
            self.index.in_zone,
            self.names.zone,
            {each.local_id: each.found.id for each in self.matches if each.replaced and each.found},
            written,
            frozenset(self._out_of_force()),
            lambda key: self._new_label(key) if key in self._by_local_id else self.shown(key),
        )

    def _out_of_force(self) -> Iterator[str]:
        """Policy sets that decided as git says, until somebody deleted them or let others decide."""
        changed = {
            each.id
            for each in self.actions
            if each.kind == POLICY_SET
            for change in each.changes
            if change.path == ACTIVE and change.after is True and change.state in BY_OTHERS
        }
        for match in self.matches:
            if match.manifest.kind.name == POLICY_SET and (match.deleted or _key(match) in changed):
                yield _key(match)

    def unmanaged(self) -> tuple[Unmanaged, ...]:
        """What is in the zones of these manifests, whoever has the zones, and in no configuration.

        Of what is in no zone, that is said of the kinds that these manifests have.
        """
        zones, beside = self.zones_looked_at()
        taken = frozenset(self.matcher.taken)
        return UnmanagedSearch(
            self.index, self.kinds, zones, beside, taken, self.matcher.owner, self.shown
        ).all()

    def zones_looked_at(self) -> tuple[dict[str, str], set[str]]:
        """The zones of these manifests, whoever has them, id -> name; and the kinds that are in no zone."""
        zones: dict[str, str] = {}
        beside = set()
        for match in self.matches:
            kind = match.manifest.kind
            if kind.name == "Zone":
                zone_id = match.found.id if match.found is not None else ""
                zones[zone_id] = match.manifest.name
            elif kind.zoned:
                zones.setdefault(self.matcher.zone_id(match.manifest) or "", match.manifest.zone or "")
            else:
                beside.add(kind.name)
        zones.pop("", None)  # a zone that is yet to be made
        return zones, beside

    def _zone_name(self, entity: Entity) -> str | None:
        """The name that manifests have for an entity's zone; its slug when none manages it."""
        return self.names.zone(entity.zone_id) if entity.zone_id in self.index.by_id else entity.zone

    def _new_label(self, local_id: str) -> str:
        match = self._by_local_id[local_id]
        return f"{match.key.kind}/{match.key.name}" + (" (the new one)" if match.replaced else "")


def count_cascaded(index: SnapshotIndex, zone_id: str, gone: Set[str]) -> int:
    """How many objects in a zone go with it that are not deleted by themselves."""
    within = index.in_zone.get(zone_id, ())
    return sum(each.id not in gone and each.owner_type != "platform" for each in within)


def _key(match: Match) -> str:
    """The id of what a manifest describes; of what is yet to be made, the changeset's name."""
    return match.found.id if match.found is not None else match.local_id


def with_new_ids(value: Any, renewed: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: with_new_ids(each, renewed) for name, each in value.items()}
    if isinstance(value, list):
        return [with_new_ids(each, renewed) for each in value]
    return renewed.get(value, value) if isinstance(value, str) else value


def _write_of(match: Match, changes: Sequence[FieldChange], gone: Mapping[str, Tombstone]) -> Write | None:
    """Who has made what is there differ from git: by letting a version decide, by writing, by deleting.

    Args:
        gone: what was deleted, by id: references to it went, too.
    """
    if match.deleted is not None:
        return match.deleted.deleted
    activated = next((each.in_force.activated for each in changes if each.in_force is not None), None)
    if activated is not None or match.found is None or match.found.last_change is not None:
        return activated or (match.found.last_change if match.found is not None else None)
    applied = match.found.ownership.applied if match.found.ownership is not None else {}
    for change in changes:
        value = value_at(applied, change.path)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str) and one in gone:
                return gone[one].deleted
    return None


def _is_undelivered(match: Match) -> bool:
    found = match.found
    if found is None or found.ownership is None or match.foreign is not None or match.released:
        return False
    return found.ownership.undelivered and match.manifest.kind.shows_once(found.spec)


def _place(
    kind: Kind, zone_id: str | None, values: Mapping[str, Any]
) -> tuple[str, str | None, bytes | str] | None:
    """What only one entity can have that never changes; None for kinds whose handles can change hands."""
    if kind.handle is None:
        return kind.name, zone_id, identity(kind, values)
    handle = values.get(kind.handle) if kind.leaf(kind.handle).fixed else None
    return (kind.name, zone_id, handle) if isinstance(handle, str) else None


def _owned(found: Entity) -> frozenset[str]:
    return found.ownership.fields if found.ownership is not None else frozenset()


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths)


def _all_values(match: Match) -> dict[str, Any]:
    secrets = {path: {"secret": each} for path, each in match.secrets.items() if "keep" not in each}
    return {**match.wanted, **secrets}


def _unlinking(found: Entity, cleared: Mapping[str, Any]) -> dict[str, Any]:
    record = found.ownership
    return {
        "op": "update",
        "kind": found.kind,
        "id": found.id,
        **({"zone": {"id": found.zone_id}} if found.zone_id else {}),
        "name": record.name if record else "",
        "spec": dict(cleared),
        "fields": sorted(record.fields) if record else [],
        "secret_versions": dict(record.secret_versions) if record else {},
        "protect": bool(record and record.protect),
    }

"""Makes the actions of a plan: what a reviewer reads of the change of one entity."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reconciler.kinds import Entity, Kind, Kinds, Tombstone, Write

from .matching import Match
from .member_values import as_written, leaves, value_at
from .model import CHANGING, NO_MANIFEST, Action, ChangeState, FieldChange, Op
from .three_way_diff import stored_secrets


@dataclass(frozen=True)
class ActionFactory:
    """Makes actions, with values as people read them.

    Attributes:
        shown: a value for people, ids as names.
        gone: tombstones by id: references to these entities were removed with them.
    """

    kinds: Kinds
    shown: Callable[[Any], Any]
    gone: Mapping[str, Tombstone]

    def of_match(
        self, match: Match, op: Op, changes: tuple[FieldChange, ...], *, shown_once: bool = False
    ) -> Action:
        """The action for what a manifest describes."""
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
            write=writer_of(match, changes, self.gone),
        )

    def of_deletion(self, entity: Entity, zone: str | None, *, takes_along: int) -> Action:
        """The action that deletes an entity which no manifest describes any more.

        Args:
            zone: the name of its zone for people.
            takes_along: how many objects that this owner does not manage are deleted with it.
        """
        record = entity.ownership
        assert record is not None  # noqa: S101 - only owned entities are deleted
        kind = self.kinds.by_name.get(entity.kind)
        old = leaves(kind.wire, entity.spec) if kind else ()
        changes = [
            FieldChange(path, self.shown(as_written(kind, entity, path, value)), None)
            for path, _, value in old
            if path in record.fields
        ]
        changes += [FieldChange(path, stored, None) for path, stored in stored_secrets(entity).items()]
        return Action(
            op=Op.DELETE,
            kind=entity.kind,
            zone=zone,
            name=record.name,
            id=entity.id,
            reason=NO_MANIFEST,
            changes=tuple(changes),
            handle=entity.handle,
            protected=record.protect,
            takes_along=takes_along,
            secret_ends=kind is not None and kind.shows_once(entity.spec),
        )

    def creation_changes(self, match: Match) -> tuple[FieldChange, ...]:
        """All values of a new entity."""
        return tuple(
            FieldChange(path, None, self.shown(value)) for path, value in sorted(_all_values(match).items())
        )

    def replacement_changes(self, match: Match, found: Entity) -> tuple[FieldChange, ...]:
        """The values of an entity, and those of its replacement."""
        secrets = stored_secrets(found)
        old = {path: value for path, _, value in leaves(match.manifest.kind.wire, found.spec)} | secrets
        fields = found.ownership.fields if found.ownership is not None else frozenset()
        gone = dict.fromkeys((fields & old.keys()) | secrets.keys())
        return tuple(
            FieldChange(
                path,
                self.shown(old.get(path)),
                self.shown(value),
                ChangeState.KEEP if old.get(path) == value else None,
            )
            for path, value in sorted({**gone, **_all_values(match)}.items())
        )

    def shown_changes(
        self, kind: Kind, found: Entity, changes: Sequence[FieldChange]
    ) -> tuple[FieldChange, ...]:
        """Changes with names in place of ids, and texts as git has them."""
        return tuple(
            replace(
                each,
                before=self.shown(as_written(kind, found, each.path, each.before)),
                after=self.shown(each.after),
                applied=self.shown(each.applied),
            )
            for each in changes
        )

    @staticmethod
    def implied_changes(
        match: Match,
        found: Entity,
        changes: Sequence[FieldChange],
        unlinked: Mapping[str, Mapping[str, object]],
    ) -> Iterator[FieldChange]:
        """Writes besides git's changes: references to deleted objects, members that would follow others."""
        changed = {each.path for each in changes}
        kind = match.manifest.kind
        for path, _, value in leaves(kind.wire, unlinked.get(found.id, {})):
            if path not in changed:
                yield FieldChange(path, value_at(found.spec, path), value, ChangeState.PENDING)
        moved = {each.path for each in changes if each.state in CHANGING}
        for path, value in match.wanted.items() if moved else ():
            if path not in changed and kind.leaf(path).default_from in moved:
                yield FieldChange(path, value, value, ChangeState.KEEP)


def _all_values(match: Match) -> dict[str, Any]:
    secrets = {path: {"secret": each} for path, each in match.secrets.items() if "keep" not in each}
    return {**match.wanted, **secrets}


def writer_of(match: Match, changes: Sequence[FieldChange], gone: Mapping[str, Tombstone]) -> Write | None:
    """The write that made an object differ from git: an activation, an update or a deletion.

    Args:
        gone: tombstones by id: references to these entities were removed with them.
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

"""Verifies one action of a saved plan against the entity on the server: fields, drift, names and secrets."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import orjson

from reconciler.kinds import Entity, Kind, Snapshot, load_kinds

from .cascade import count_cascaded
from .display_names import DisplayNames
from .exclusive_members import taken_from_others
from .matching import SnapshotIndex
from .member_values import as_written, leaves, same_value, value_at
from .model import BY_OTHERS, NO_MANIFEST, Action, ChangeState, FieldChange, Op, Plan
from .plan_consistency import NEW_SUFFIX, ActionEffect, ActionOperations, is_secret, is_written
from .three_way_diff import foreign_secret_addresses, shape_in, stored_secrets, three_way_diff, with_new_ids

_ZONE = "Zone"
_PLACE = re.compile(r"[^\x00-\x1f\x7f]+\.ya?ml:[1-9][0-9]*")
_MAKING = (Op.CREATE, Op.REPLACE)
_STAYS = (ChangeState.CLAIM, ChangeState.RELEASE, ChangeState.KEEP)


class ActionChecker:
    """Checks the actions of a saved plan against a snapshot.

    Attributes:
        moved: the server was written to since the plan was made, so the plan may describe changes made
            already.
        made: local id -> the action that creates the entity.
        doing: the effect of the operations, by `id` of the action that describes them.
    """

    def __init__(self, plan: Plan, snapshot: Snapshot) -> None:
        self.plan, self.kinds = plan, load_kinds()
        self.moved = snapshot.revision > plan.base_revision
        self.index = SnapshotIndex(snapshot, plan.owner)
        self.tombstones = [each for each in snapshot.tombstones if each.owner == plan.owner]
        self.made = ActionOperations(plan).made
        self.effect = {id(action): effect for action, effect in ActionOperations.of(plan)}
        renamed = {each.id: each.name for each in plan.actions if each.id and each.previous_name}
        self.names = DisplayNames(self.index, plan.owner, self.made_label, renamed)

    def made_label(self, local_id: str) -> str:
        """The name that is shown for an entity that the changeset creates."""
        action = self.made.get(local_id)
        if action is None:
            return local_id
        return f"{action.kind}/{action.name}" + (NEW_SUFFIX if action.op is Op.REPLACE else "")

    def problems_of(self, action: Action) -> Iterator[str]:
        """Every difference between an action and its object on the server; one message each."""
        kind, effect = self.kinds.by_name.get(action.kind), self.effect.get(id(action))
        if kind is None:
            return
        if (action.zone is not None) != kind.zoned:
            yield f"the plan does not say that {kind.name} is {'of a' if kind.zoned else 'in no'} zone"
        yield from self._of_reason(action)
        yield from self._of_making(action, kind, effect)
        yield from self._of_deletion_by_others(action, kind)
        entity = self.index.by_id.get(action.id or "")
        yield from self._of_zone(action, entity)
        yield from self._of_keep(action, kind, entity)
        if entity is not None and entity.revision <= self.plan.base_revision:
            yield from self._of_object(action, kind, entity, effect)
            yield from self._of_members(action, kind, entity, effect)
            yield from self._forbidden(kind, entity, effect)
        if kind.sole and effect is not None:
            yield from self._displacing(kind, effect)

    # --- the object

    @staticmethod
    def _of_reason(action: Action) -> Iterator[str]:
        if action.op is Op.DELETE:
            if action.reason != NO_MANIFEST:
                yield "the saved plan has a wrong reason for the deletion: no manifest describes it"
        elif _PLACE.fullmatch(action.reason) is None:
            yield "the saved plan has no manifest file and line for this object"

    def _of_making(self, action: Action, kind: Kind, effect: ActionEffect | None) -> Iterator[str]:
        """Check a creation: its secret, its identifier, and that the object did not exist."""
        values = effect.values if effect is not None and action.op in _MAKING else {}
        yield from _differing(action.shown_once, kind.shows_once(values), "its secret is shown once")
        if action.op not in _MAKING:
            return
        handle = values.get(kind.handle) if kind.handle is not None else None
        if isinstance(handle, str) and action.handle != handle:
            yield f"the saved plan omits the identifier `{handle}`, which an operation sets"
        elif handle is None and action.handle not in (None, action.name):
            yield f"the saved plan shows the identifier `{action.handle}`, which no operation sets"
        if action.op is Op.CREATE:
            yield from _differing(action.protected, False, "it is protected")
            yield from _differing(action.secret_ends, False, "its secret stops working")
            if action.id is not None or action.previous_name or any(map(_has_before, action.changes)):
                yield "the saved plan has previous values for an object that it creates"

    def _of_deletion_by_others(self, action: Action, kind: Kind) -> Iterator[str]:
        """Check drift: others have deleted the object; a new object has no drift."""
        zones = self.zones_of(action) if kind.zoned else {None}
        of_kind = [each for each in self.tombstones if each.kind == action.kind]
        if action.op not in (Op.CREATE, Op.ADOPT):
            yield from _differing(action.deleted, False, "others have deleted it")
        elif self._is_done(action):
            return
        elif action.deleted and not any(each.zone_id in zones or None in zones for each in of_kind):
            yield "the saved plan reports a deletion on the server that did not happen"
        elif any(each.zone_id in zones and each.name == action.name for each in of_kind):
            yield from _differing(action.deleted, True, "others have deleted it")

    def _is_done(self, action: Action) -> bool:
        """Tell whether a later write left an object of this name as the action leaves it."""
        there = self._written_since.get((action.kind, action.name), ())
        return self.moved and bool(there)

    @cached_property
    def _written_since(self) -> Mapping[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for (_, kind, name), entity in self.index.owned.items():
            if entity.revision > self.plan.base_revision:
                found.setdefault((kind, name), []).append(entity.id)
        return found

    def _of_zone(self, action: Action, entity: Entity | None) -> Iterator[str]:
        """How many objects in a zone are deleted with it that this owner does not manage."""
        if action.kind != _ZONE or action.op is not Op.DELETE:
            others = 0
        elif entity is None:
            return
        else:
            others = count_cascaded(self.index, entity.id, self._deleted)
        if others > action.takes_along or (others < action.takes_along and not self.moved):
            yield f"the saved plan omits {others} objects of other owners, or of none, that are deleted too"

    @staticmethod
    def _of_keep(action: Action, kind: Kind, entity: Entity | None) -> Iterator[str]:
        """What to write to keep the object: its identifier, and only where it is replaced."""
        if action.keep is None or (entity is None and action.op is Op.REPLACE):
            return
        former = entity.handle if entity is not None else None
        if action.op is not Op.REPLACE or action.keep != (kind.handle, former):
            yield "the saved plan has a wrong identifier with which the object would be kept"

    @cached_property
    def _deleted(self) -> set[str]:
        return {each.id for each in self.plan.actions if each.op is Op.DELETE and each.id is not None}

    def _of_object(
        self, action: Action, kind: Kind, entity: Entity, effect: ActionEffect | None
    ) -> Iterator[str]:
        record = entity.ownership
        yield from _differing(action.protected, bool(record and record.protect), "it is protected")
        ends = action.destroys and kind.shows_once(entity.spec)
        yield from _differing(action.secret_ends, ends, "its secret stops working")
        handles = {entity.handle}
        if action.op is not Op.DELETE:
            written = effect.values.get(kind.handle or "") if effect is not None else None
            handles |= {None, *([action.name] if kind.handle is not None else [])}
            handles |= {written} if isinstance(written, str) else set()
        if action.handle not in handles:
            yield f"the saved plan omits the identifier `{entity.handle}` of the object on the server"
        is_own = record is not None and record.owner == self.plan.owner
        former = record.name if record is not None and is_own and record.name != action.name else None
        if action.previous_name != former:
            yield f"the saved plan has a wrong previous name: expected {f'`{former}`' if former else 'none'}"

    # --- the members

    def _of_members(
        self, action: Action, kind: Kind, entity: Entity, effect: ActionEffect | None
    ) -> Iterator[str]:
        by_path = {each.path: each for each in action.changes}
        if len(by_path) < len(action.changes):
            yield "the saved plan lists the same member twice"
        found = {each.path: each for each in self._changes(action, kind, entity, effect)}
        for path in dict.fromkeys([*found, *by_path]):
            if not self._is_so(action, kind, entity, by_path.get(path), found.get(path)):
                yield f"the saved plan has a wrong previous value or drift state for `{path}`"

    def _is_so(
        self,
        action: Action,
        kind: Kind,
        entity: Entity,
        change: FieldChange | None,
        found: FieldChange | None,
    ) -> bool:
        """Tell whether a member is shown as on the server; one that is not compared, as it is there."""
        if change is None:
            return False
        before = value_at(entity.spec, change.path) if found is None else found.before
        before = self.names.shown(as_written(kind, entity, change.path, before))
        if found is not None and change.state not in _STAYS:
            shown = replace(found, before=before, applied=self.names.shown(found.applied))
            return _form(change) == _form(shown)
        text = change.path in kind.files.values()
        is_there = same_value(
            shape_in(kind, change.path, entity), change.before, before, text=text
        ) and not _has_others(change)
        if change.state in _STAYS:
            fits = found is None or found.state in (change.state, None)
            return is_there and fits and change.before == change.after
        return is_there and (action.op is Op.REPLACE or change.state is ChangeState.PENDING)

    def _changes(
        self, action: Action, kind: Kind, entity: Entity, effect: ActionEffect | None
    ) -> Iterator[FieldChange]:
        owned = entity.ownership.fields if entity.ownership is not None else frozenset[str]()
        if action.destroys:
            shown_paths = {each.path for each in action.changes}
            for path, _, value in leaves(kind.wire, entity.spec):
                if path in owned or path in shown_paths:
                    yield FieldChange(path, value, None)
            yield from (FieldChange(path, there, None) for path, there in stored_secrets(entity).items())
        elif effect is not None and effect.fields is not None:
            yield from self._compared(kind, entity, effect, effect.fields)

    def _compared(
        self, kind: Kind, entity: Entity, effect: ActionEffect, fields: frozenset[str]
    ) -> list[FieldChange]:
        """The changes found when the plan was made, taking the written values as git's."""
        if entity.ownership is not None:
            applied = with_new_ids(entity.ownership.applied, self._renewed)
            entity = replace(entity, ownership=replace(entity.ownership, applied=applied))
        wanted, secrets = _wanted(kind, entity, effect, fields)
        return three_way_diff(
            kind,
            wanted,
            {path: each for path, each in secrets.items() if path in fields},
            entity,
            protect=bool(effect.protect),
            ignores=lambda path: not is_written(path, effect.values),
        )

    @cached_property
    def _renewed(self) -> dict[str, Any]:
        """Objects that others deleted and that the plan creates or adopts again: former id -> pointer."""
        found = {}
        pointers = {id(action): {"local_id": local_id} for local_id, action in self.made.items()}
        for action in self.plan.actions:
            if action.deleted:
                zones = self.zones_of(action)
                for each in self.tombstones:
                    fits = each.kind == action.kind and (each.zone_id in zones or None in zones)
                    if fits and each.name in (action.name, action.previous_name):
                        found[each.id] = action.id or pointers.get(id(action))
        return found

    def zones_of(self, action: Action) -> set[str | None]:
        """The ids of the zones of an action's operations; empty for a zone that does not exist yet."""
        effect = self.effect.get(id(action))
        return {*effect.zones} if effect is not None and effect.zones else {None}

    # --- problems that no consent lifts

    def _forbidden(self, kind: Kind, entity: Entity, effect: ActionEffect | None) -> Iterator[str]:
        """Secrets of git are sent to addresses of git only, never to one that somebody else has set."""
        if effect is None or effect.fields is None:
            return
        changes = self._compared(kind, entity, effect, effect.fields)
        wanted, _ = _wanted(kind, entity, effect, effect.fields)
        for secret, address in foreign_secret_addresses(kind, wanted, entity, changes, lambda _: False):
            yield (
                f"the saved plan omits that `{secret}` is sent to the `{address}` that is set on the server"
                " only; apply the manifests instead"
            )

    def _displacing(self, kind: Kind, effect: ActionEffect) -> Iterator[str]:
        within = (each for zone_id in effect.zones for each in self.index.in_zone.get(zone_id, ()))
        for member, record in taken_from_others(kind, effect.values, within, self.plan.owner):
            yield f"the saved plan omits that `{record.name}` of `{record.owner}` loses `{member}: true`"


def _wanted(
    kind: Kind, entity: Entity, effect: ActionEffect, fields: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """The managed values, written or left unchanged: leaf path -> value; and the secrets."""
    fields = frozenset(fields)
    wanted: dict[str, Any] = {}
    secrets: dict[str, Mapping[str, object]] = {}
    for path in fields | effect.values.keys():
        value = effect.values.get(path)
        if kind.leaf(path).secret:
            secrets[path] = value["secret"] if value and is_secret(value) else {"keep": True}
        elif path in fields:
            wanted[path] = _whole(value) if path in effect.values else value_at(entity.spec, path)
    return wanted, secrets


def _differing(claimed: bool, there: bool, what: str) -> Iterator[str]:
    if there and not claimed:
        yield f"the saved plan omits that {what}"
    elif claimed and not there:
        yield f"the saved plan states that {what}, which is not the case"


def _has_before(change: FieldChange) -> bool:
    return change.before is not None or change.state is not None or change.in_force is not None


def _has_others(change: FieldChange) -> bool:
    return change.state in BY_OTHERS or change.in_force is not None


def _form(change: FieldChange) -> bytes:
    """The part of a shown change besides the written value, which is compared with the operations."""
    compared = {name: value for name, value in change.as_json().items() if name != "after"}
    return orjson.dumps(compared, option=orjson.OPT_SORT_KEYS)


def _whole(value: object) -> Any:
    """A value after the operation; in a patch of a map, null removes a key."""
    if isinstance(value, dict):
        return {name: each for name, each in value.items() if each is not None}
    return value

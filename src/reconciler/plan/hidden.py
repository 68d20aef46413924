"""What a saved plan hides: its text and its guards go by it, and its operations do not say it.

How many objects there are, what goes with a zone, what is there before, what widens: zonectl works it out
from a snapshot and writes it down. Somebody else may have written something less harmful, with a digest that
fits. So it is worked out again, from the server as it is. A plan that says more than there is asks for more
consents, and is let through: what it is about may be done already, by this very plan.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import orjson

from reconciler.kinds import Entity, Kind, Snapshot, load_kinds

from .building import count_others, with_new_ids
from .comparing import as_written, compare, leaves, stored_secrets, value_at
from .foreseeing import ACTIVE, POLICY_SET, Foresight
from .matching import Index
from .model import BY_OTHERS, CHANGING, Action, FieldChange, Op, Plan
from .naming import Names
from .telling import AGAIN, NEW, Agreement, Doing, is_secret, is_written

_ZONE = "Zone"


def counted_on(plan: Plan, snapshot: Snapshot) -> Plan:
    """The same plan, with how many objects its owner has on the server, not how many it says.

    What it deletes and is gone counts: this plan may have been applied before.
    """
    plan.as_json()  # it keeps its digest
    there = {each.id for each in snapshot.entities}
    owned = Counter(each.kind for each in plan.destroying if each.id not in there)
    owned.update(
        each.kind for each in snapshot.entities if each.ownership and each.ownership.owner == plan.owner
    )
    return replace(plan, owned=dict(sorted(owned.items())))


def hidden(plan: Plan, snapshot: Snapshot) -> Iterator[str]:
    """What a saved plan does not say of the server as it is; one message each.

    Objects that have changed since the plan was made are left to the server, which refuses it for them.
    """
    return _Recount(plan, snapshot).problems()


class _Recount:
    def __init__(self, plan: Plan, snapshot: Snapshot) -> None:
        self.plan, self.kinds = plan, load_kinds()
        self.index = Index(snapshot, plan.owner)
        self.tombstones = [each for each in snapshot.tombstones if each.owner == plan.owner]
        self.made = Agreement(plan).made
        self.doing = {id(action): doing for action, doing in Agreement.of(plan)}
        renamed = {each.id: each.name for each in plan.actions if each.id and each.previous_name}
        self.names = Names(self.index, plan.owner, self._made_label, renamed)

    def _made_label(self, local_id: str) -> str:
        action = self.made.get(local_id)
        if action is None:
            return local_id
        return f"{action.kind}/{action.name}" + (NEW if action.op is Op.REPLACE else "")

    def problems(self) -> Iterator[str]:
        yield from self._everything_goes()
        for action in self.plan.actions:
            for problem in self._of_action(action):
                yield f"{action.title}: {problem}{AGAIN}"
        yield from self._consequences()

    def _everything_goes(self) -> Iterator[str]:
        """Without a manifest a plan is refused; one manifest leaves something, makes it or lets it go."""
        ops = Counter(action.op for action in self.plan.actions)
        missing = sum(
            action.op is Op.DELETE and action.id not in self.index.by_id for action in self.plan.actions
        )
        owned = len(self.index.owned) + missing
        if ops[Op.DELETE] and ops.keys() == {Op.DELETE} and ops[Op.DELETE] >= owned:
            yield f"the plan removes all that `{self.plan.owner}` manages, as without any manifest{AGAIN}"

    # --- one object

    def _of_action(self, action: Action) -> Iterator[str]:
        kind, doing = self.kinds.by_name.get(action.kind), self.doing.get(id(action))
        if kind is None:
            return
        yield from self._of_creation(action, kind, doing)
        entity = self.index.by_id.get(action.id or "")
        if entity is None:
            return
        gone = {each.id for each in self.plan.actions if each.op is Op.DELETE and each.id is not None}
        if entity.kind == _ZONE and action.op is Op.DELETE:
            others = count_others(self.index, entity.id, gone)
            if others > action.takes_along:
                yield f"the plan does not say that {others} objects of others go with it"
        if entity.revision > self.plan.base_revision:
            return
        if entity.ownership is not None and entity.ownership.protect and not action.protected:
            yield "the plan does not say that it is protected"
        if action.destroys and kind.shows_once(entity.spec) and not action.secret_ends:
            yield "the plan does not say that its secret stops working"
        if action.op is Op.DELETE and action.handle != entity.handle:
            yield f"the plan does not say that its identifier is `{entity.handle}`"
        yield from self._of_members(action, kind, entity, doing)

    def _of_creation(self, action: Action, kind: Kind, doing: Doing | None) -> Iterator[str]:
        if action.op not in (Op.CREATE, Op.REPLACE) or doing is None:
            return
        if kind.shows_once(doing.values) and not action.shown_once:
            yield "the plan does not say that its secret is shown once"
        handle = doing.values.get(kind.handle) if kind.handle is not None else None
        if isinstance(handle, str) and action.handle != handle:
            yield f"the plan does not say that its identifier is `{handle}`"

    def _of_members(self, action: Action, kind: Kind, entity: Entity, doing: Doing | None) -> Iterator[str]:
        told = {each.path: _form(each) for each in action.changes}
        for each in self._changes(action, kind, entity, doing):
            shown = replace(
                each,
                before=self.names.shown(as_written(kind, entity, each.path, each.before)),
                applied=self.names.shown(each.applied),
            )
            if told.get(each.path) != _form(shown):
                yield f"the plan does not say what `{each.path}` is before, or who has changed it"

    def _changes(
        self, action: Action, kind: Kind, entity: Entity, doing: Doing | None
    ) -> Iterator[FieldChange]:
        owned = entity.ownership.fields if entity.ownership is not None else frozenset[str]()
        if action.destroys:
            states = {each.path: each.state for each in action.changes}
            for path, _, value in leaves(kind.wire, entity.spec):
                if path in owned or path in states:
                    yield FieldChange(path, value, None, states.get(path))
            for path, told in stored_secrets(entity).items():
                yield FieldChange(path, told, None)
        elif doing is not None and doing.fields is not None:
            for each in self._compared(kind, entity, doing, doing.fields):
                if each.state in CHANGING:
                    yield each

    def _compared(
        self, kind: Kind, entity: Entity, doing: Doing, fields: frozenset[str]
    ) -> list[FieldChange]:
        """What changes, as it was found when the plan was made: git's values are those that are written."""
        if entity.ownership is not None:
            applied = with_new_ids(entity.ownership.applied, self._renewed)
            entity = replace(entity, ownership=replace(entity.ownership, applied=applied))
        wanted: dict[str, Any] = {}
        secrets: dict[str, Mapping[str, Any]] = {}
        for path in fields | doing.values.keys():
            value = doing.values.get(path)
            if kind.leaf(path).secret:
                secrets[path] = value["secret"] if value and is_secret(value) else {"keep": True}
            elif path in fields:
                wanted[path] = _whole(value) if path in doing.values else value_at(entity.spec, path)
        return compare(
            kind,
            wanted,
            {path: each for path, each in secrets.items() if path in fields},
            entity,
            protect=bool(doing.protect),
            ignores=lambda path: not is_written(path, doing.values),
        )

    @cached_property
    def _renewed(self) -> dict[str, Any]:
        """What others have deleted and the plan makes again or takes up: former id -> pointer."""
        found = {}
        pointers = {id(action): {"local_id": local_id} for local_id, action in self.made.items()}
        for action in self.plan.actions:
            if action.deleted:
                zones = self._zones_of(action)
                for each in self.tombstones:
                    fits = each.kind == action.kind and (each.zone_id in zones or None in zones)
                    if fits and each.name in (action.name, action.previous_name):
                        found[each.id] = action.id or pointers.get(id(action))
        return found

    # --- what follows

    def _consequences(self) -> Iterator[str]:
        deciding, widened = self._foresight().of(self.plan.operations)
        for each in deciding:
            if each not in self.plan.deciding:
                said = f"which policies decide in zone {each.zone}, or how much they forbid"
                yield f"the plan does not say {said}{AGAIN}"
        told = {replace(each, place="") for each in self.plan.widened}
        zones = dict.fromkeys(each.zone for each in widened if replace(each, place="") not in told)
        for zone in zones:
            yield f"the plan does not say that access is widened in zone {zone}{AGAIN}"

    def _foresight(self) -> Foresight:
        return Foresight(
            self.kinds,
            self.index.in_zone,
            self.names.zone,
            dict(self._same()),
            {},
            frozenset(self._out_of_force()),
            lambda key: self._made_label(key) if key in self.made else self.names.shown(key),
        )

    def _same(self) -> Iterator[tuple[str, str]]:
        """What is made in place of something that is there; or is there, made by this very plan."""
        for local_id, action in self.made.items():
            if action.id in self.index.by_id:
                yield local_id, str(action.id)
                continue
            for zone_id in self._zones_of(action):
                there = self.index.owned.get((zone_id, action.kind, action.name))
                if there is not None and there.revision > self.plan.base_revision:
                    yield local_id, there.id

    def _zones_of(self, action: Action) -> set[str | None]:
        doing = self.doing.get(id(action))
        return {*doing.zones} if doing is not None and doing.zones else {None}

    def _out_of_force(self) -> Iterator[str]:
        """Policy sets that decided as git says, until somebody deleted them or let others decide."""
        local_ids = {id(action): local_id for local_id, action in self.made.items()}
        for action in self.plan.actions:
            if action.kind == POLICY_SET and (action.deleted or any(map(_is_displaced, action.changes))):
                yield action.id or local_ids[id(action)]


def _is_displaced(change: FieldChange) -> bool:
    return change.path == ACTIVE and change.after is True and change.state in BY_OTHERS


def _form(change: FieldChange) -> bytes:
    """What is told of a member besides what is written to it, which is compared with the operations."""
    told = {name: value for name, value in change.as_json().items() if name != "after"}
    return orjson.dumps(told, option=orjson.OPT_SORT_KEYS)


def _whole(value: Any) -> Any:
    """A value as it is wanted; in a patch of a map, what goes is null."""
    if isinstance(value, dict):
        return {name: each for name, each in value.items() if each is not None}
    return value

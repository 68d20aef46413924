"""Checks that the actions of a plan describe exactly what its operations do: reviewers see only the actions.

zonectl makes both together, but a saved plan may have been edited by somebody else, with its digest
recomputed.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.kinds import Entity, Kind, MemberSchema, Snapshot, load_kinds

from .display_names import display_name
from .member_values import leaves
from .model import CHANGING, Action, ChangeState, FieldChange, Op, Plan
from .operations import Operation, place_of, spec_of, zone_id_of
from .three_way_diff import PROTECT

PLAN_AGAIN = "; plan again"
_ID = re.compile(r"[0-9a-z]{16,40}")
NEW_SUFFIX = " (the new one)"
_BY_ID: Mapping[str, tuple[Op, ...]] = {
    "update": (Op.UPDATE, Op.RENAME, Op.ADOPT),
    "adopt": (Op.ADOPT,),
    "rename": (Op.RENAME,),
    "release": (Op.RELEASE,),
}


def inconsistencies(plan: Plan) -> Iterator[str]:
    """Every disagreement between the operations and the actions; one message each.

    Whether an id belongs to the object that is named beside it is checked by `misidentified_objects`.
    """
    known = {str(op) for op in (Op.CREATE, Op.DELETE)} | _BY_ID.keys()
    for each in plan.operations:
        if each["op"] not in known or each["kind"] not in load_kinds().by_name:
            yield f"no action shows the operation `{each['op']}` on {each['kind']}{PLAN_AGAIN}"
            return
    deleted = Counter((each["kind"], each["id"]) for each in plan.operations if each["op"] == "delete")
    if deleted != Counter((action.kind, action.id) for action in plan.destroying):
        yield f"the operations and the actions delete different objects{PLAN_AGAIN}"
    created = [(each["kind"], each["name"]) for each in plan.operations if each["op"] == "create"]
    making = [action for action in plan.actions if action.op in (Op.CREATE, Op.REPLACE)]
    if created != [(action.kind, action.name) for action in making]:
        yield f"the operations and the actions create different objects{PLAN_AGAIN}"
        return
    yield from ActionOperations(plan).problems()


@dataclass
class ActionEffect:
    """What the operations do to one object, and the action that describes it.

    Attributes:
        ops: the operations that name it.
        values: dotted path -> the value that is written last.
        zones: ids of the zones of these operations.
        protect: the protection that is written last.
        fields: the managed fields that are written last; None where no operation writes them.
    """

    action: Action
    kind: Kind
    ops: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    zones: set[str] = field(default_factory=set)
    protect: bool | None = None
    fields: frozenset[str] | None = None


class ActionOperations:
    """Assigns each operation of a plan to the action that describes it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        making = [action for action in plan.actions if action.op in (Op.CREATE, Op.REPLACE)]
        self.by_id = {(action.kind, action.id): action for action in plan.actions if action.id is not None}
        self.names: dict[str, set[str]] = defaultdict(set)  # id -> names that references to it are shown as
        self.zones: dict[str, set[str]] = defaultdict(set)  # its entities are shown with its new names
        for action in plan.actions:
            if action.id is not None:
                self.names[action.id].add(_label_of(action))
                self.zones[action.id].add(f"{action.kind}/{action.name}")
        creations = [each for each in plan.operations if each["op"] == "create"]
        self.made = {each["local_id"]: action for each, action in zip(creations, making, strict=True)}

    @classmethod
    def of(cls, plan: Plan) -> Iterator[tuple[Action, ActionEffect]]:
        """The actions of a plan with the effect of their operations; deletions apart."""
        found: dict[int, ActionEffect] = {}
        for _ in cls(plan)._assigned(found):
            pass
        return ((each.action, each) for each in found.values())

    def problems(self) -> Iterator[str]:
        effect: dict[int, ActionEffect] = {}
        yield from self._assigned(effect)
        for action in self.plan.actions:
            if action.op is Op.DELETE:
                continue
            if id(action) not in effect:
                yield f"{action.title}: no operation matches the action `{action.op}`{PLAN_AGAIN}"
            else:
                yield from self._compared(effect[id(action)])

    def _assigned(self, effect: dict[int, ActionEffect]) -> Iterator[str]:
        """Assign each operation to the action that describes it, and report those without one."""
        for each in self.plan.operations:
            if each["op"] == "delete":
                continue
            action = self._action_of(each)
            if action is None:
                name = each.get("name") or each.get("id")
                yield f"no action shows the operation `{each['op']}` on {each['kind']} `{name}`{PLAN_AGAIN}"
                continue
            if place_of(each) not in (None, action.reason):
                yield f"{action.title}: the plan shows another file and line than its operation{PLAN_AGAIN}"
            kind = load_kinds().by_name[each["kind"]]
            done = effect.setdefault(id(action), ActionEffect(action, kind))
            done.ops.append(each["op"])
            if zone_id := zone_id_of(each):
                done.zones.add(zone_id)
            for path, _, value in leaves(kind.wire, spec_of(each) or {}):
                done.values[path] = value
            if each["op"] in ("create", "update", "adopt"):
                done.protect = each.get("protect")
                done.fields = frozenset(each.get("fields") or ())

    def _action_of(self, operation: Operation) -> Action | None:
        """The action that describes an operation, by kind, zone and name."""
        if operation["op"] == "create":
            made = self.made[operation["local_id"]]
            return made if self._is_in_zone(operation, made) else None
        if "id" not in operation:
            action = self.made.get(operation.get("local_id", ""))
            fits = operation["op"] == "update" and action is not None
            return action if fits and action is not None and operation["name"] == action.name else None
        action = self.by_id.get((operation["kind"], operation["id"]))
        if action is None or action.op not in _BY_ID[operation["op"]]:
            return None
        name = operation.get("name")
        fits = name in (None, action.name, action.previous_name) and self._is_in_zone(operation, action)
        return action if fits else None

    def _is_in_zone(self, operation: Operation, action: Action) -> bool:
        """Tell whether an operation is in the zone of its action, as far as the plan shows that zone."""
        zone = operation.get("zone") or {}
        if "local_id" in zone:
            return f"Zone/{action.zone}" in self._labels(zone, "")
        return f"Zone/{action.zone}" in self.zones.get(zone.get("id", ""), {f"Zone/{action.zone}"})

    def _compared(self, effect: ActionEffect) -> Iterator[str]:
        action = effect.action
        for op in (Op.ADOPT, Op.RENAME, Op.RELEASE):
            if action.op is op and str(op) not in effect.ops:
                yield f"{action.title}: no operation matches the action `{op}`{PLAN_AGAIN}"
        by_path = {change.path: change for change in action.changes}
        for path, value in effect.values.items():
            shape = effect.kind.leaf(path)
            if not self._is_shown(path, shape, value, by_path):
                yield f"{action.title}: the plan does not show the value written to `{path}`{PLAN_AGAIN}"
        for path, change in by_path.items():
            if path == PROTECT or change.state in (ChangeState.CLAIM, ChangeState.RELEASE):
                continue
            # In a creation, null is the default, and is not written.
            if (change.after, change.state) != (None, None) and not is_written(path, effect.values):
                yield f"{action.title}: no operation makes the change of `{path}`{PLAN_AGAIN}"
        stays = action.protected and action.op in (Op.UPDATE, Op.RENAME)
        protect = by_path[PROTECT].after if PROTECT in by_path else stays
        if effect.protect not in (None, protect):
            yield f"{action.title}: the plan does not show the change of `protect`{PLAN_AGAIN}"

    def _is_shown(
        self, path: str, shape: MemberSchema, value: Any, by_path: Mapping[str, FieldChange]
    ) -> bool:
        change = by_path.get(path)
        if change is None:
            # An object is removed, or emptied, with all its members.
            below = [
                each
                for name, each in by_path.items()
                if name.startswith(f"{path}.") and (each.state is None or each.state in CHANGING)
            ]
            return value in (None, {}) and bool(below) and all(each.after in (None, []) for each in below)
        if change.state is not None and change.state not in CHANGING and change.before != change.after:
            return False
        if is_secret(value):
            return shape.secret and bool(change.after == value)
        return self._same(shape, value, change.after)

    def _same(self, shape: MemberSchema, value: Any, shown: Any) -> bool:
        """Tell whether a value is the one that is shown: references and addresses as names."""
        if isinstance(value, list):
            return (
                isinstance(shown, list)
                and len(value) == len(shown)
                and all(self._same(shape, *pair) for pair in zip(value, shown, strict=True))
            )
        if isinstance(value, dict) and isinstance(shown, str):
            return shown.removesuffix(NEW_SUFFIX) in self._labels(value, shown.removesuffix(NEW_SUFFIX))
        if isinstance(value, dict) and isinstance(shown, dict):  # in a patch of a map, null removes a key
            return {name: each for name, each in value.items() if each is not None} == shown
        if isinstance(value, str) and isinstance(shown, str) and value != shown:
            if value in self.names and shape.ref is not None:
                return shown in self.names[value]
            return "/" in shown and _ID.fullmatch(value) is not None
        return bool(value == shown)

    def _labels(self, value: Mapping[str, Any], shown: str) -> set[str]:
        """The names that a pointer may be shown as; *shown* is the one in the action."""
        if "local_id" in value:
            action = self.made.get(value["local_id"])
            return {f"{action.kind}/{action.name}"} if action is not None else set()
        if "external" in value:
            return {f"{value.get('kind')}/{value['external']}"}
        if "address_of" in value:
            zone, member = value["address_of"], value.get("member")
            if "id" in zone and zone["id"] not in self.names:
                return {shown} if shown.startswith(f"{member} of Zone/") else set()
            names = self.names[zone["id"]] if "id" in zone else self._labels(zone, shown)
            return {f"{member} of {each}" for each in names}
        return set()


def is_written(path: str, values: Mapping[str, Any]) -> bool:
    """Tell whether a member is written, or removed with an object around it."""
    return path in values or any(path.startswith(f"{each}.") for each in values)


def is_secret(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"secret"} and isinstance(value["secret"], dict)


def zone_ids_of(plan: Plan) -> set[str]:
    """The ids of the zones that the operations are in."""
    return {zone_id for each in plan.operations if (zone_id := zone_id_of(each))}


def misidentified_objects(plan: Plan, snapshot: Snapshot) -> Iterator[str]:
    """Ids in the operations that belong to another object than the plan shows; one message each.

    Objects missing from the server are left to the server: the plan may have been applied before.
    """
    found = {each.id: each for each in snapshot.entities}
    names = {each.id: _labels_of(each, plan.owner) for each in snapshot.entities}
    for action in plan.actions:
        entity = found.get(action.id or "")
        if entity is None:
            continue
        called = (action.name, action.previous_name) if entity.ownership is not None else (action.handle,)
        own = {f"{action.kind}/{each}" for each in called if each}
        known = entity.ownership is not None or entity.handle is not None
        if known and own.isdisjoint(names[entity.id]):
            yield f"{action.title}: its id is that of {min(names[entity.id])}{PLAN_AGAIN}"
        names[entity.id] |= {*own, _label_of(action)}
    agreed = list(ActionOperations.of(plan))
    within = [(action, zone_id) for action, effect in agreed for zone_id in sorted(effect.zones)]
    within += [(each, found[each.id].zone_id or "") for each in plan.actions if each.id in found]
    yield from dict.fromkeys(
        f"{action.title}: it is in another zone, {min(names[zone_id])}{PLAN_AGAIN}"
        for action, zone_id in within
        if zone_id in found and f"Zone/{action.zone}" not in names[zone_id]
    )
    for action, effect in agreed:
        by_path = {change.path: change.after for change in action.changes}
        for path, value in effect.values.items():
            if effect.kind.leaf(path).ref is None:
                continue
            for one, shown in _pairs(value, by_path.get(path)):
                if one in found and shown not in names[one]:
                    message = f"the plan does not show that `{path}` refers to {min(names[one])}"
                    yield f"{action.title}: {message}{PLAN_AGAIN}"


def _label_of(action: Action) -> str:
    """The names that references to an action's object are shown as."""
    return f"{action.kind}/{display_name(action.name, action.previous_name)}"


def _labels_of(entity: Entity, owner: str) -> set[str]:
    """The key by which an owner's plan identifies an object."""
    record = entity.ownership
    if record is None:
        return {f"{entity.kind}/{entity.handle or entity.id}"}
    whose = "" if record.owner == owner else f" of {record.owner}"
    labels = {f"{entity.kind}/{record.name}{whose}"}
    # The name identifies the object's zone, whoever owns it.
    return labels | {f"{entity.kind}/{record.name}"} if entity.kind == "Zone" else labels


def _pairs(value: Any, shown: Any) -> Iterator[tuple[str, Any]]:
    """Each id in a value, with the name that is shown for it."""
    if isinstance(value, str):
        yield value, shown
    elif isinstance(value, list) and isinstance(shown, list):
        yield from ((one, label) for one, label in zip(value, shown, strict=False) if isinstance(one, str))

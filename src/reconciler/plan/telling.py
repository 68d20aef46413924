"""Whether the actions of a plan tell what its operations do: people and guards look at the actions.

zonectl makes both together. A saved plan may come from somebody else, whose digest fits as well.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.kinds import Kind, Shape, load_kinds

from .comparing import PROTECT, leaves
from .model import CHANGING, Action, FieldChange, Op, Plan, State

_AGAIN = "; plan again"
_ID = re.compile(r"[0-9a-z]{16,40}")
_NEW = " (the new one)"
_BY_ID: Mapping[str, tuple[Op, ...]] = {
    "update": (Op.UPDATE, Op.RENAME, Op.ADOPT),
    "adopt": (Op.ADOPT,),
    "rename": (Op.RENAME,),
    "release": (Op.RELEASE,),
}
Operation = Mapping[str, Any]


def untold(plan: Plan) -> Iterator[str]:
    """What the operations do and the actions do not say, or the other way round; one message each.

    That an id is that of the object named beside it is not known here.
    """
    known = {str(op) for op in (Op.CREATE, Op.DELETE)} | _BY_ID.keys()
    for each in plan.operations:
        if each["op"] not in known or each["kind"] not in load_kinds().by_name:
            yield f"the operations {each['op']} one {each['kind']}, which no action says{_AGAIN}"
            return
    deleted = Counter((each["kind"], each["id"]) for each in plan.operations if each["op"] == "delete")
    if deleted != Counter((action.kind, action.id) for action in plan.destroying):
        yield f"the operations delete something else than the plan says{_AGAIN}"
    created = [(each["kind"], each["name"]) for each in plan.operations if each["op"] == "create"]
    making = [action for action in plan.actions if action.op in (Op.CREATE, Op.REPLACE)]
    if created != [(action.kind, action.name) for action in making]:
        yield f"the operations create something else than the plan says{_AGAIN}"
        return
    yield from _Agreement(plan, making).problems()


@dataclass
class _Doing:
    """What the operations do to one object, and the action that tells of it.

    Attributes:
        ops: the operations that are named in it.
        values: dotted path -> the value that is written last.
        protect: what is said last about protection.
    """

    action: Action
    kind: Kind
    ops: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    protect: bool | None = None


class _Agreement:
    def __init__(self, plan: Plan, making: list[Action]) -> None:
        self.plan = plan
        self.by_id = {(action.kind, action.id): action for action in plan.actions if action.id is not None}
        self.names: dict[str, set[str]] = defaultdict(set)
        for action in plan.actions:
            if action.id is not None:
                names = {action.name, action.previous_name or action.name}
                self.names[action.id] |= {f"{action.kind}/{each}" for each in names}
        creations = [each for each in plan.operations if each["op"] == "create"]
        self.made = {each["local_id"]: action for each, action in zip(creations, making, strict=True)}

    def problems(self) -> Iterator[str]:
        doing: dict[int, _Doing] = {}
        for each in self.plan.operations:
            if each["op"] == "delete":
                continue
            action = self._action_of(each)
            if action is None:
                name = each.get("name") or each.get("id")
                yield f"the operations {each['op']} {each['kind']} `{name}`, which no action says{_AGAIN}"
                continue
            kind = load_kinds().by_name[each["kind"]]
            done = doing.setdefault(id(action), _Doing(action, kind))
            done.ops.append(each["op"])
            for path, _, value in leaves(kind.wire, each.get("spec") or {}):
                done.values[path] = value
            if each["op"] in ("create", "update", "adopt"):
                done.protect = each.get("protect")
        for action in self.plan.actions:
            if action.op is Op.DELETE:
                continue
            if id(action) not in doing:
                yield f"{action.title}: the plan says {action.op}, and no operation does so{_AGAIN}"
            else:
                yield from self._compared(doing[id(action)])

    def _action_of(self, operation: Operation) -> Action | None:
        """The action that tells of an operation, by what it is about and what it is called."""
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
        """Tell whether an operation is in the zone that its action names, as far as the plan has that one."""
        zone = operation.get("zone") or {}
        if "local_id" in zone:
            return f"Zone/{action.zone}" in self._labels(zone)
        return f"Zone/{action.zone}" in self.names.get(zone.get("id", ""), {f"Zone/{action.zone}"})

    def _compared(self, doing: _Doing) -> Iterator[str]:
        action = doing.action
        for op in (Op.ADOPT, Op.RENAME, Op.RELEASE):
            if action.op is op and str(op) not in doing.ops:
                yield f"{action.title}: the plan says {op}, and no operation does so{_AGAIN}"
        told = {change.path: change for change in action.changes}
        for path, value in doing.values.items():
            shape = doing.kind.leaf(path)
            if not self._is_told(path, shape, value, told):
                yield f"{action.title}: the plan does not say what is written to `{path}`{_AGAIN}"
        for path, change in told.items():
            if path == PROTECT or change.state in (State.CLAIM, State.RELEASE):
                continue
            # Of what is made, null is what it has by default; and there nothing is written.
            if (change.after, change.state) != (None, None) and not _is_written(path, doing.values):
                yield f"{action.title}: the plan says that `{path}` changes, and no operation does so{_AGAIN}"
        stays = action.protected and action.op in (Op.UPDATE, Op.RENAME)
        protect = told[PROTECT].after if PROTECT in told else stays
        if doing.protect not in (None, protect):
            yield f"{action.title}: the plan does not say that its protection changes{_AGAIN}"

    def _is_told(self, path: str, shape: Shape, value: Any, told: Mapping[str, FieldChange]) -> bool:
        change = told.get(path)
        if change is None:
            # An object goes, or is emptied, with all that is in it.
            below = [
                each
                for name, each in told.items()
                if name.startswith(f"{path}.") and (each.state is None or each.state in CHANGING)
            ]
            return value in (None, {}) and bool(below) and all(each.after in (None, []) for each in below)
        if change.state is not None and change.state not in CHANGING and change.before != change.after:
            return False
        if _is_secret(value):
            return shape.secret and bool(change.after == value)
        return self._same(shape, value, change.after)

    def _same(self, shape: Shape, value: Any, shown: Any) -> bool:
        """Tell whether a value is what is shown of it: references and addresses as names."""
        if isinstance(value, list):
            return (
                isinstance(shown, list)
                and len(value) == len(shown)
                and all(self._same(shape, *pair) for pair in zip(value, shown, strict=True))
            )
        if isinstance(value, dict) and isinstance(shown, str):
            return shown.removesuffix(_NEW) in self._labels(value)
        if isinstance(value, dict) and isinstance(shown, dict):  # of a map, what goes is null
            return {name: each for name, each in value.items() if each is not None} == shown
        if isinstance(value, str) and isinstance(shown, str) and value != shown:
            if value in self.names and shape.ref is not None:
                return shown in self.names[value]
            return "/" in shown and _ID.fullmatch(value) is not None
        return bool(value == shown)

    def _labels(self, value: Mapping[str, Any]) -> set[str]:
        if "local_id" in value:
            action = self.made.get(value["local_id"])
            return {f"{action.kind}/{action.name}"} if action is not None else set()
        if "external" in value:
            return {f"{value.get('kind')}/{value['external']}"}
        if "address_of" in value:
            zone, member = value["address_of"], value.get("member")
            names = self.names.get(zone["id"], set()) if "id" in zone else self._labels(zone)
            return {f"{member} of {each}" for each in names}
        return set()


def _is_written(path: str, values: Mapping[str, Any]) -> bool:
    """Tell whether a member is written, or goes with an object around it."""
    return path in values or any(path.startswith(f"{each}.") for each in values)


def _is_secret(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"secret"} and isinstance(value["secret"], dict)

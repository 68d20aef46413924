"""A zone before and after a changeset: the objects that policies can name, computed from the operations."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from reconciler.kinds import Entity, Kinds

from .member_values import value_at
from .operations import Operation, spec_of

GROUP, ROLE, ASSIGNMENT = "Group", "Role", "RoleAssignment"
Item = tuple[str, str]
"""Somebody or something that belongs to a name: a kind and a key, or nothing and an address."""


@dataclass(frozen=True, slots=True)
class ZoneObject:
    """An object of a zone: its kind, handle and spec."""

    kind: str
    handle: str | None
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class ZoneState:
    """The objects of a zone: key -> object. Keys are ids, and local ids of new objects."""

    things: Mapping[str, ZoneObject] = field(default_factory=dict)

    @cached_property
    def by_name(self) -> Mapping[tuple[str, str], str]:
        """Kind and handle -> key."""
        return {
            (thing.kind, thing.handle): key for key, thing in self.things.items() if thing.handle is not None
        }

    def belonging(self, kind: str, handle: str) -> frozenset[Item]:
        """The objects that a name in a policy matches: a group's members, a role's holders, or one object."""
        key = self.by_name.get((kind, handle))
        if key is None:
            return frozenset()
        if kind == GROUP:
            return self._members(key)
        return self._holders[key] if kind == ROLE else frozenset({(kind, key)})

    def _members(self, group: str) -> frozenset[Item]:
        thing = self.things.get(group)
        addresses = thing.spec.get("members") or () if thing is not None else ()
        return frozenset(("", each.lower()) for each in addresses)

    @cached_property
    def _holders(self) -> Mapping[str, frozenset[Item]]:
        """Role -> its holders; a group has it for its members."""
        found: dict[str, frozenset[Item]] = defaultdict(frozenset)
        for thing in self.things.values():
            if thing.kind != ASSIGNMENT:
                continue
            role = thing.spec.get("role_id")
            group, application, user = (
                value_at(thing.spec, f"principal.{each}") for each in ("group_id", "application_id", "user")
            )
            if group in self.things:
                found[str(role)] |= {(GROUP, group)} | self._members(group)
            elif application in self.things:
                found[str(role)] |= {("Application", application)}
            elif isinstance(user, str):
                found[str(role)] |= {("", user.lower())}
        return found


def zone_before_and_after(
    entities: Iterable[Entity], operations: Iterable[Operation], kinds: Kinds, same: Mapping[str, str]
) -> tuple[ZoneState, ZoneState]:
    """A zone as it is, and as these operations leave it.

    Args:
        operations: those in the zone, in their order.
        same: local id of a replacement -> the key of the object it replaces.
    """
    things = {each.id: ZoneObject(each.kind, each.handle, each.spec) for each in entities}
    before = ZoneState(dict(things))
    for each in operations:
        kind = kinds.by_name.get(each["kind"])
        if kind is None:
            continue
        key = key_of(each, same)
        if each["op"] == "delete":
            things.pop(key, None)
            continue
        spec = _known(spec_of(each), same)
        there = things.get(key, ZoneObject(kind.name, None, {}))
        there = replace(there, spec=merged(there.spec, spec))
        if kind.handle is not None and isinstance(spec.get(kind.handle), str):
            there = replace(there, handle=spec[kind.handle])
        things[key] = there
    return before, ZoneState(things)


def key_of(operation: Operation, same: Mapping[str, str]) -> str:
    """The key of an operation's object."""
    if "id" in operation:
        return operation["id"]
    local_id = operation.get("local_id", "")
    return same.get(local_id, local_id)


def _known(value: object, same: Mapping[str, str]) -> Any:
    """A value with keys in place of the changeset's pointers."""
    if isinstance(value, list):
        return [_known(each, same) for each in value]
    if isinstance(value, dict):
        if isinstance(local := value.get("local_id"), str):
            return same.get(local, local)
        return {name: _known(each, same) for name, each in value.items()}
    return value


def merged(target: object, patch: object) -> Any:
    """The result of a merge patch. Spec: RFC 7396."""
    if not isinstance(patch, Mapping):
        return patch
    found = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found

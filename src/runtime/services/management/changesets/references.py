"""Phase: resolve references. A spec names ids that are not known before the changeset runs.

A reference in a spec is an object in place of an id: `{"local_id": ..}` names what an earlier operation
creates, `{"address_of": .., "member": ..}` an address of a zone, `{"external": .., "kind": ..}` an entity
by its handle.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Any, TypeVar

from runtime.contract.bodies import MAX_PROBLEMS
from runtime.domain.errors import Problem, ValidationFailed
from runtime.domain.kinds import BY_NAME, SERVICE_ACCOUNT, Entity, Kind, Verb
from runtime.domain.kinds.values import OwnerType
from runtime.domain.kinds.zone import ADDRESSES
from runtime.services.management import entities
from runtime.services.management.changesets.changeset import PackedOperation
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import entities as storage
from runtime.storage.sql.filters import Equals

E = TypeVar("E", bound=Entity)


# Placeholders of the right form, for checks of a single member.
_SOME_ID = "0" * 26
_SOME_ADDRESS = "https://zone.invalid/"

# Suggestions for unknown handles: at most so many of a changeset, each from so many handles of a zone.
_MAX_GUESSES, _MAX_COMPARED, _MAX_COMPARED_CHARS = 10, 200, 120

Resolve = Callable[[Mapping[str, Any]], Any]

_REFERENCE_KEYS = (
    frozenset({"local_id"}),
    frozenset({"address_of", "member"}),
    frozenset({"external", "kind"}),
    frozenset({"external", "kind", "owner_type"}),
)


def is_reference(value: Any) -> bool:
    """Tell whether a value of a spec is a reference, of any of the three forms."""
    return isinstance(value, dict) and value.keys() in _REFERENCE_KEYS


def has_references(value: Any) -> bool:
    """Tell whether a spec holds a reference, at any depth."""
    if isinstance(value, dict):
        return is_reference(value) or any(has_references(inner) for inner in value.values())
    return isinstance(value, list) and any(has_references(inner) for inner in value)


def references_in(value: Any, at: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The references of a spec, each with its member: `principal.group_id`, `dependencies[0]`."""
    if isinstance(value, dict):
        if is_reference(value):
            yield at, value
            return
        for name, inner in value.items():
            yield from references_in(inner, f"{at}.{name}" if at else name)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from references_in(inner, f"{at}[{position}]")


def resolved(value: Any, resolve: Resolve) -> Any:
    """The value with each reference in it replaced by what *resolve* returns for it."""
    if isinstance(value, dict):
        if is_reference(value):
            return resolve(value)
        return {name: resolved(inner, resolve) for name, inner in value.items()}
    return [resolved(inner, resolve) for inner in value] if isinstance(value, list) else value


def placeholder(reference: Mapping[str, Any]) -> str:
    """A value of the form that a reference resolves to. Raises ValidationFailed for a malformed reference."""
    if "local_id" in reference:
        if not isinstance(reference["local_id"], str):
            raise ValidationFailed("`local_id` must be a string")
        return _SOME_ID
    if "external" in reference:
        kind = BY_NAME.get(str(reference["kind"]))
        # What is found in a zone is there to be seen; service accounts, say, not everybody sees.
        if not isinstance(reference["external"], str) or kind is None or not (kind.zoned and kind.handle):
            raise ValidationFailed("`external` must be a handle, and `kind` a kind in zones that has handles")
        if reference.get("owner_type") not in (None, *OwnerType):
            raise ValidationFailed(f"`owner_type` must be one of {', '.join(OwnerType)}")
        return _SOME_ID
    if reference["member"] not in ADDRESSES:
        raise ValidationFailed(f"unknown address `{reference['member']}`; there are {', '.join(ADDRESSES)}")
    target = reference["address_of"]
    keyed = isinstance(target, dict) and target.keys() in ({"id"}, {"local_id"})
    if not keyed or not isinstance(next(iter(target.values())), str):
        raise ValidationFailed('`address_of` must be `{"id": ..}` or `{"local_id": ..}`')
    return _SOME_ADDRESS


@dataclass(frozen=True, slots=True)
class EntityRef:
    """The entity that an operation changes: its id and its zone; None for kinds outside of zones."""

    id: str
    zone_id: str | None


def parents_of(unit: UnitOfWork, kind: Kind, zone_id: str | None) -> dict[str, str]:
    """The parents in the path of an entity's collection: member -> id."""
    if zone_id is not None:
        return {"zone_id": zone_id}
    return {"organization_id": unit.organization_id} if kind is SERVICE_ACCOUNT else {}


async def entity_of(unit: UnitOfWork, kind: Kind[E], target: EntityRef) -> E:
    """The entity that an operation is about, as it is now. Raises NotFound."""
    return await storage.get(unit.conn, kind, target.id, within=_within(unit, kind, target.zone_id))


def _within(unit: UnitOfWork, kind: Kind, zone_id: str | None) -> dict[str, str]:
    return parents_of(unit, kind, zone_id) or {"organization_id": unit.organization_id}


@dataclass
class ReferenceResolver:
    """Resolves the references of one changeset: to what it has created so far, and to what it looks up."""

    unit: UnitOfWork
    _created: dict[str, EntityRef] = field(default_factory=dict)
    _external: dict[tuple[str | None, str, str, str | None], str] = field(default_factory=dict)
    _guesses: int = 0

    def require_new(self, local_id: str | None) -> None:
        """Raise ValidationFailed when an earlier operation has created something under that name."""
        if local_id is not None and local_id in self._created:
            raise ValidationFailed(f"`local_id` `{local_id}` is used by two create operations")

    def add(self, local_id: str | None, target: EntityRef) -> None:
        """Let later operations refer to what was created."""
        if local_id is not None:
            self._created[local_id] = target

    def local(self, local_id: str) -> EntityRef:
        """What an earlier operation has created. Raises ValidationFailed."""
        found = self._created.get(local_id)
        if found is None:
            raise ValidationFailed(f"no earlier operation creates `{local_id}`")
        return found

    def zone_id(self, operation: PackedOperation, kind: Kind) -> str | None:
        """The zone that an operation is in; None for kinds that are in none. Raises ValidationFailed."""
        if not kind.zoned:
            return None
        if operation.zone is None:
            raise ValidationFailed(f"{kind.one} needs a `zone`")
        if operation.zone.local_id is not None:
            return self.local(operation.zone.local_id).id
        return operation.zone.id

    async def resolve(self, spec: Mapping[str, Any], zone_id: str | None) -> Any:
        """The spec of something in that zone, with every reference followed.

        Raises: ValidationFailed, with a problem for each reference that names nothing, at its member.
        """
        await self.check(spec, zone_id)
        return resolved(spec, partial(self._value_of, zone_id=zone_id))

    async def check(
        self, spec: Mapping[str, Any], zone_id: str | None, *, absent: Collection[str] = ()
    ) -> None:
        """Look up what a spec refers to. Raises ValidationFailed with all that there is not.

        Args:
            absent: local ids that refused operations would have created: these are not reported again.
        """
        problems: list[Problem] = []
        for member, reference in references_in(spec):
            try:
                await self._look_up(reference, zone_id, absent)
            except ValidationFailed as refused:
                problems.append(Problem(refused.code, refused.detail, member))
            if len(problems) >= MAX_PROBLEMS:
                break
        if problems:
            raise ValidationFailed(problems[0].message, problems=problems)

    def _value_of(self, reference: Mapping[str, Any], zone_id: str | None) -> Any:
        """The id or the address that a reference resolves to."""
        if "local_id" in reference:
            return self.local(str(reference["local_id"])).id
        if "external" in reference:
            return self._external[_external_key(reference, zone_id)]
        at = reference["address_of"]
        zone_id = self.local(at["local_id"]).id if "local_id" in at else at["id"]
        zone = self.unit.cache.zones.get(zone_id)
        if zone is None:
            raise ValidationFailed(f"there is no Zone `{zone_id}` to take an address from")
        return getattr(zone.protocols.oauth2, reference["member"])

    async def _look_up(
        self, reference: Mapping[str, Any], zone_id: str | None, absent: Collection[str]
    ) -> None:
        """Look up what `_value_of` needs: a zone whose address is taken, or an entity named by its handle."""
        if "external" in reference:
            await self._look_up_external(reference, zone_id)
            return
        target = reference.get("address_of", reference)
        local_id = target.get("local_id")
        if local_id in absent:
            return
        found = self.local(str(local_id)) if local_id is not None else None
        if "address_of" in reference:
            await entities.zone_of(self.unit, found.id if found is not None else str(target["id"]))

    async def _look_up_external(self, reference: Mapping[str, Any], zone_id: str | None) -> None:
        key = _external_key(reference, zone_id)
        if key in self._external:
            return
        kind, handle, owner_type = (
            BY_NAME[reference["kind"]],
            reference["external"],
            reference.get("owner_type"),
        )
        if zone_id is None:
            raise ValidationFailed(
                f"`external` cannot refer to {kind.name} `{handle}`: this operation is in no zone"
            )
        await entities.require_in(self.unit, kind, Verb.LIST, zone_id)
        within = {"zone_id": zone_id}
        where = [Equals(str(kind.handle), (handle,))]
        found = [each async for each in storage.all_of(self.unit.conn, kind, within=within, where=where)]
        fitting = [each for each in found if owner_type in (None, getattr(each, "owner_type", None))]
        if not fitting:
            hint = await self._similar_handle(kind, handle, zone_id)
            raise ValidationFailed(f"there is no {kind.name} `{handle}`{hint}")
        # One of the customer's own comes before one of the platform's of the same name.
        fitting.sort(key=lambda each: getattr(each, "owner_type", None) == OwnerType.PLATFORM)
        self._external[key] = fitting[0].id

    async def _similar_handle(self, kind: Kind, handle: str, zone_id: str) -> str:
        """What a handle that nothing has probably means; empty where nothing is similar.

        The oldest objects of the zone are compared, for a few handles of a changeset: comparing takes time.
        """
        if self._guesses >= _MAX_GUESSES or len(handle) > _MAX_COMPARED_CHARS:
            return ""
        self._guesses += 1
        known: list[str] = []
        async with aclosing(storage.all_of(self.unit.conn, kind, within={"zone_id": zone_id})) as found:
            async for each in found:
                known.append(str(getattr(each, str(kind.handle))))
                if len(known) >= _MAX_COMPARED:
                    break
        short = [each for each in known if len(each) <= _MAX_COMPARED_CHARS]
        similar = get_close_matches(handle, short, n=1)
        return f"; did you mean `{similar[0]}`?" if similar else ""


def _external_key(
    reference: Mapping[str, Any], zone_id: str | None
) -> tuple[str | None, str, str, str | None]:
    return zone_id, reference["kind"], reference["external"], reference.get("owner_type")

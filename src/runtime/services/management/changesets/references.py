"""What the operations of a changeset refer to: one another, addresses of zones, and what is not in git."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import BY_NAME, SERVICE_ACCOUNT, Entity, Kind, Verb
from runtime.domain.kinds.values import OwnerType
from runtime.services.management import entities
from runtime.services.management.changesets.changeset import PackedOperation
from runtime.services.management.changesets.pointers import is_pointer, resolved
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import entities as storage
from runtime.storage.sql.filters import Equals

E = TypeVar("E", bound=Entity)


@dataclass(frozen=True, slots=True)
class EntityRef:
    """What an operation is about, once it is known."""

    id: str
    zone_id: str | None


def parents_of(unit: UnitOfWork, kind: Kind, zone_id: str | None) -> dict[str, str]:
    """What stands before an entity's collection in its path."""
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
    """What a changeset has created so far, by its name there, and what it has looked up."""

    unit: UnitOfWork
    _created: dict[str, EntityRef] = field(default_factory=dict)
    _external: dict[tuple[str | None, str, str, str | None], str] = field(default_factory=dict)

    def require_new(self, local_id: str | None) -> None:
        """Raise ValidationFailed when an earlier operation has created something under that name."""
        if local_id is not None and local_id in self._created:
            raise ValidationFailed(f"`{local_id}` is created twice")

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

    async def resolved(self, spec: Mapping[str, Any], zone_id: str | None) -> Any:
        """The spec of something in that zone, with every pointer followed. Raises ValidationFailed."""
        await self._know(spec, zone_id)
        return resolved(spec, partial(self._resolve, zone_id=zone_id))

    def _resolve(self, pointer: Mapping[str, Any], zone_id: str | None) -> Any:
        """What a pointer stands for."""
        if "local_id" in pointer:
            return self.local(str(pointer["local_id"])).id
        if "external" in pointer:
            return self._external[_external_key(pointer, zone_id)]
        at = pointer["address_of"]
        zone_id = self.local(at["local_id"]).id if "local_id" in at else at["id"]
        zone = self.unit.zones.get(zone_id)
        if zone is None:
            raise ValidationFailed(f"there is no Zone `{zone_id}` to take an address from")
        return getattr(zone.protocols.oauth2, pointer["member"])

    async def _know(self, spec: Any, zone_id: str | None) -> None:
        """Look up what `_resolve` needs: zones whose addresses are taken, and entities named by handle."""
        if isinstance(spec, dict):
            if is_pointer(spec) and "external" in spec:
                await self._know_external(spec, zone_id)
                return
            if spec.keys() == {"address_of", "member"} and isinstance(spec["address_of"], dict):
                at = spec["address_of"]
                local = self._created.get(str(at.get("local_id")))
                zone_id = local.id if local else at.get("id")
                if zone_id is not None:
                    await entities.zone_of(self.unit, str(zone_id))
                return
            for inner in spec.values():
                await self._know(inner, zone_id)
        elif isinstance(spec, list):
            for inner in spec:
                await self._know(inner, zone_id)

    async def _know_external(self, pointer: Mapping[str, Any], zone_id: str | None) -> None:
        key = _external_key(pointer, zone_id)
        if key in self._external:
            return
        kind, handle, owner_type = BY_NAME[pointer["kind"]], pointer["external"], pointer.get("owner_type")
        if zone_id is None:
            raise ValidationFailed(f"there is no zone here in which the {kind.name} `{handle}` could be")
        await entities.require_in(self.unit, kind, Verb.LIST, zone_id)
        within = {"zone_id": zone_id}
        where = [Equals(str(kind.handle), (handle,))]
        found = [each async for each in storage.all_of(self.unit.conn, kind, within=within, where=where)]
        fitting = [each for each in found if owner_type in (None, getattr(each, "owner_type", None))]
        if not fitting:
            raise ValidationFailed(f"there is no {kind.name} `{handle}`")
        # One of the customer's own comes before one of the platform's of the same name.
        fitting.sort(key=lambda each: getattr(each, "owner_type", None) == OwnerType.PLATFORM)
        self._external[key] = fitting[0].id


def _external_key(pointer: Mapping[str, Any], zone_id: str | None) -> tuple[str | None, str, str, str | None]:
    return zone_id, pointer["kind"], pointer["external"], pointer.get("owner_type")

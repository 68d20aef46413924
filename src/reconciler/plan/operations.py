"""The operations of a changeset, as they are sent: a union of typed JSON objects, discriminated by `op`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, final

Pointer: TypeAlias = Mapping[str, str]
"""`{"id": ..}` of what is there, or `{"local_id": ..}` of what the changeset creates."""


@final
class CreateOperation(TypedDict):
    """Creates an entity. References to it use `local_id`; secrets in `spec` are `{"secret": reference}`."""

    op: Literal["create"]
    kind: str
    local_id: str
    zone: NotRequired[Pointer]
    name: str
    spec: dict[str, Any]
    fields: Sequence[str]
    secret_versions: dict[str, str]
    protect: bool


@final
class WriteOperation(TypedDict):
    """Updates or adopts an entity by a merge patch; an entity of the same changeset is named by `local_id`.

    `fields` are the paths that git owns afterwards.
    """

    op: Literal["update", "adopt"]
    kind: str
    id: NotRequired[str]
    local_id: NotRequired[str]
    zone: NotRequired[Pointer]
    name: str
    spec: dict[str, Any]
    fields: Sequence[str]
    secret_versions: dict[str, str]
    protect: bool


@final
class RenameOperation(TypedDict):
    """Changes the manifest name in an ownership record."""

    op: Literal["rename"]
    kind: str
    id: str
    zone: NotRequired[Pointer]
    name: str


@final
class ReleaseOperation(TypedDict):
    """Ends the management of an entity, which stays."""

    op: Literal["release"]
    kind: str
    id: str
    zone: NotRequired[Pointer]


@final
class DeleteOperation(TypedDict):
    """Deletes an entity."""

    op: Literal["delete"]
    kind: str
    id: str
    zone: NotRequired[Pointer]


Operation: TypeAlias = CreateOperation | WriteOperation | RenameOperation | ReleaseOperation | DeleteOperation


def zone_id_of(operation: Operation) -> str | None:
    """The id of the zone that an operation is in; None where that is new, or there is none."""
    zone = operation.get("zone")
    return zone.get("id") if zone else None


def spec_of(operation: Operation) -> Mapping[str, Any]:
    """What an operation writes; empty where it writes nothing."""
    return operation["spec"] if "spec" in operation else {}  # noqa: SIM401 - which would be an object

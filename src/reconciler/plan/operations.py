"""The operations of a changeset, as they are sent: a union of typed JSON objects, discriminated by `op`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, TypeVar, final

from reconciler.kinds import Origin

Pointer: TypeAlias = Mapping[str, str]
"""`{"id": ..}` of what is there, or `{"local_id": ..}` of what the changeset creates."""


# What the server takes for a file: `ManifestPlaceInput` in its OpenAPI document.
_ANY, _NO_DOT = r"[^\x00-\x1f\x7f/\\:<]", r"[^\x00-\x1f\x7f/\\:<.]"
_SEGMENT = rf"(?:{_NO_DOT}|\.{_NO_DOT}|\.\.{_ANY}){_ANY}*"
FILE_PATTERN = rf"^{_SEGMENT}(?:/{_SEGMENT})*$"
MAX_FILE = 1024
_FILE = re.compile(FILE_PATTERN.removeprefix("^").removesuffix("$"))


@final
class Place(TypedDict):
    """Where a manifest is: its file, relative to the repository, and its line, from 1."""

    file: str
    line: int


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
    source: NotRequired[Place]


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
    source: NotRequired[Place]


@final
class RenameOperation(TypedDict):
    """Changes the manifest name in an ownership record."""

    op: Literal["rename"]
    kind: str
    id: str
    zone: NotRequired[Pointer]
    name: str
    source: NotRequired[Place]


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


_Placed = TypeVar("_Placed", CreateOperation, WriteOperation, RenameOperation)


def with_place(operation: _Placed, origin: Origin) -> _Placed:
    """The operation with the place of its manifest, which the ownership record shows.

    A path that the server does not take (too long, or with a backslash or a colon) is left out: where a
    manifest is must not decide whether it can be applied.
    """
    if len(origin.path) <= MAX_FILE and _FILE.fullmatch(origin.path):
        operation["source"] = Place(file=origin.path, line=origin.line)
    return operation


def place_of(operation: Operation) -> object:
    """The place that an operation names, as `file:line`; None for none.

    Of a saved plan, in which it may be anything.
    """
    source = operation.get("source")
    if not isinstance(source, dict):
        return source
    return f"{source.get('file')}:{source.get('line')}"


def zone_id_of(operation: Operation) -> str | None:
    """The id of the zone that an operation is in; None where that is new, or there is none."""
    zone = operation.get("zone")
    return zone.get("id") if zone else None


def spec_of(operation: Operation) -> Mapping[str, Any]:
    """What an operation writes; empty where it writes nothing."""
    return operation["spec"] if "spec" in operation else {}  # noqa: SIM401 - which would be an object

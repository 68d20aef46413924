"""Values that manifests, plan and client share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from reconciler.output_documents import WriteDocument

from .member_schemas import Kind


class Origin(NamedTuple):
    """The source location of a manifest: path relative to the configuration's root, and line, from 1."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class ExternalReference(NamedTuple):
    """A reference to an entity that is not in git, by its handle."""

    handle: str
    owner_type: str | None = None


class ExternalName(NamedTuple):
    """An entity of the same zone that a policy names and that is not in git.

    `place` is `file:line:column` where the text names it.
    """

    kind: str
    handle: str
    place: str


def parse_instant(text: str) -> datetime | None:
    """The instant that an RFC 3339 time stands for, in UTC; None when the text is none."""
    try:
        found = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)


class Key(NamedTuple):
    """The identity of a manifest: unique in a configuration."""

    zone: str | None
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} `{self.name}`" + (f" in zone `{self.zone}`" if self.zone else "")


# Of manifests and entities there are thousands, and to freeze an instance takes as long as to make it.
@dataclass(slots=True)
class Manifest:
    """One document that passed every check.

    Attributes:
        spec: as written, with the text of files put in place of their paths, without what stays in git.
        folder: the manifest's directory, relative to the root; paths in the manifest are relative to it.
        files: spec member -> path, relative to the root, of the file that its text came from.
        outside: objects that its texts name and mark as external.
        key: its identity.
    """

    kind: Kind
    zone: str | None
    name: str
    spec: Mapping[str, Any]
    origin: Origin
    labels: Mapping[str, str] = field(default_factory=dict)
    lifecycle: Mapping[str, Any] = field(default_factory=dict)
    folder: str = "."
    files: Mapping[str, str] = field(default_factory=dict)
    outside: tuple[ExternalName, ...] = ()
    key: Key = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.key = Key(self.zone, self.kind.name, self.name)

    @property
    def handle(self) -> str | None:
        """The entity's handle in its zone; None when the server assigns it, or the kind has none."""
        name = self.kind.handle_of(self.spec)
        if name is None:
            return None
        value = self.spec.get(name)
        if value is None or name not in self.kind.spec.members:
            return self.name
        return value if isinstance(value, str) else None

    @property
    def omitted_handle(self) -> str | None:
        """The member with the handle, where the manifest omits it: it is the manifest's name."""
        handle = self.kind.handle
        if handle is None or handle not in self.kind.spec.members:
            return None
        return handle if self.spec.get(handle) is None else None


@dataclass(slots=True)
class Ownership:
    """The ownership record of an entity: owner, manifest name, last applied fields. Changesets write it.

    `undelivered`: it has a secret that was shown once and whose delivery was never confirmed.
    """

    owner: str
    name: str
    fields: frozenset[str]
    applied: Mapping[str, Any]
    secret_versions: Mapping[str, str]
    protect: bool
    undelivered: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """One write: time, actor and changeset, as far as the caller may read them.

    Attributes:
        at: an RFC 3339 time.
        actor: `type id`; None for callers who may not read the audit log.
        changeset: the changeset that it was part of.
    """

    at: str
    actor: str | None = None
    changeset: str | None = None

    def as_json(self) -> WriteDocument:
        """The write as a JSON object; unknown members are left out."""
        document: WriteDocument = {"at": self.at}
        if self.actor is not None:
            document["actor"] = self.actor
        if self.changeset is not None:
            document["changeset"] = self.changeset
        return document


@dataclass(frozen=True, slots=True)
class IncludedVersion:
    """A version of an entity that is in force as part of another one."""

    kind: str
    id: str
    name: str
    version: int
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MissingName:
    """An entity name in an active policy that no entity of the zone has, and where the policy has it."""

    policy_id: str
    policy: str
    type: str
    id: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class InForce:
    """Which version of an entity is in force, where entities have versions.

    Attributes:
        spec: members of `spec` whose value in the active version differs from the latest.
        contents: the parts of the active version, where they are not in force by themselves.
        activated: the write that activated it, where it is not the latest version.
        missing_names: names in the active policies that match no object of the zone.
        before_is_latest: of a change: its `before` is the latest version's value, which is inactive.
    """

    version: int
    latest_version: int
    spec: Mapping[str, Any] = field(default_factory=dict)
    contents: tuple[IncludedVersion, ...] = ()
    activated: Write | None = None
    before_is_latest: bool = False
    missing_names: tuple[MissingName, ...] = ()


@dataclass(slots=True)
class Entity:
    """One entity as the snapshot shows it; references in `spec` are ids.

    `last_change` is there when somebody has written since the owner did, or when it has no owner.
    """

    kind: str
    id: str
    zone_id: str | None
    zone: str | None
    handle: str | None
    owner_type: str
    spec: Mapping[str, Any]
    ownership: Ownership | None
    secrets_set: frozenset[str]
    revision: int
    in_force: InForce | None = None
    secrets_overwritten: frozenset[str] = frozenset()
    last_change: Write | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The record that an entity of an owner was deleted, and by whom; `name` is the manifest's."""

    kind: str
    id: str
    zone_id: str | None
    owner: str
    name: str
    deleted: Write


@dataclass(frozen=True, slots=True)
class Undescribable:
    """An object on the server that no kind of manifest describes; `of` is the id of its owner object.

    `role`: of a member of a zone.
    """

    kind: str
    id: str
    zone_id: str | None
    name: str
    of: str | None = None
    role: str | None = None
    last_change: Write | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the caller may read of one organization, at one revision; parents first.

    `names_writers`: it names the actors of writes and deletions; not to callers who may not read the audit
    log.
    `sees_all`: an object missing from it does not exist, rather than being unreadable to this caller.
    `undescribable_truncated`: the kinds of which there is more than `undescribable` has.
    """

    organization_id: str
    revision: int
    entities: tuple[Entity, ...]
    tombstones: tuple[Tombstone, ...] = ()
    names_writers: bool = True
    sees_all: bool = True
    undescribable: tuple[Undescribable, ...] = ()
    undescribable_truncated: tuple[str, ...] = ()

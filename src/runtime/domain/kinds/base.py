"""The base of every kind: entity classes, and the `Kind` value that routes, bodies and tables derive from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Generic

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypeVar

from runtime.domain.kinds.marks import Expand, Mark, Member, members
from runtime.domain.kinds.queries import Query
from runtime.domain.kinds.values import Id, Timestamp

Permissions = dict[str, dict[str, bool]]


class Entity(BaseModel):
    """Something the management API keeps. Entities are values: a change makes a new one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[Id, Mark.SERVER]
    created_at: Annotated[Timestamp, Mark.SERVER]
    updated_at: Annotated[Timestamp, Mark.SERVER]
    # The organization revision that last wrote the row: what a changeset's base is compared with.
    revision: Annotated[int, Mark.INTERNAL] = 0


class OrganizationEntity(Entity):
    """An entity that belongs to an organization; the organization is in the path, not in answers."""

    organization_id: Annotated[Id, Mark.INTERNAL]


class ZoneEntity(Entity):
    """An entity that belongs to a zone."""

    organization_id: Annotated[Id, Mark.SERVER]
    zone_id: Annotated[Id, Mark.SERVER]


# `Kind` alone means `Kind[Entity]`: a kind of whatever entities.
E_co = TypeVar("E_co", bound=Entity, covariant=True, default=Entity)


class Verb(StrEnum):
    """What can be done with the entities of a kind."""

    LIST = "list"
    CREATE = "create"
    RETRIEVE = "retrieve"
    UPDATE = "update"
    DELETE = "delete"
    ARCHIVE = "archive"


ALL_VERBS = frozenset({Verb.LIST, Verb.CREATE, Verb.RETRIEVE, Verb.UPDATE, Verb.DELETE})
ARCHIVED_VERBS = frozenset({Verb.LIST, Verb.CREATE, Verb.RETRIEVE, Verb.UPDATE, Verb.ARCHIVE})


class PageShape(StrEnum):
    """The shape of a page. Spec: `envelopes` of the management API table."""

    ORGANIZATION = "OrgPage"
    ORGANIZATION_COUNTED = "OrgPageCounted"
    ZONE_FULL = "ZonePageFull"
    ZONE = "ZonePage"


@dataclass(frozen=True)
class Listing:
    """How the entities of a kind can be listed.

    Attributes:
        filters: members that `filter[member]` selects on, exactly; repeated values are OR.
        plain: query name -> member, for the older and the plain spellings of filters.
        search: members that `query[member]` searches, and `query[]` all together.
        sorts: members that `sort` takes; the first is the default.
        cursor: whether the older forward-only name `cursor` is taken for `after`.
        expands: values of `expand` with a meaning here, besides `permissions`.
        retrieve_expands: those that retrieving one takes, where they are not those of the list.
        single: filters that take one value only.
        ordered: whether `order=asc|desc` is taken, newest first by default (policy paths).
        more: query parameters that no member stands behind; the kind's own operation reads them.
        retrieve_more: those of retrieving one.
    """

    envelope: PageShape
    filters: tuple[str, ...] = ()
    plain: dict[str, str] = field(default_factory=dict)
    search: tuple[str, ...] = ()
    sorts: tuple[str, ...] = ("created_at",)
    cursor: bool = False
    expands: tuple[str, ...] = ("total_count",)
    retrieve_expands: tuple[str, ...] | None = None
    single: tuple[str, ...] = ()
    ordered: bool = False
    more: tuple[Query, ...] = ()
    retrieve_more: tuple[Query, ...] = ()


def article(words: str) -> str:
    """`a` or `an`, as stands before these words."""
    return "an" if words[0] in "aeioAEIO" else "a"


@dataclass(frozen=True)
class SharedHandle:
    """A handle that several entities of one variant may have, as long as they belong together.

    Attributes:
        type: the variant.
        within: the member in which they must be alike.
        most: how many may share one handle.
        slot: the internal member that distinguishes them, which makes the handle unique all the same.
    """

    type: str
    within: str
    most: int
    slot: str


@dataclass(frozen=True, eq=False)
class Kind(Generic[E_co]):
    """One management kind, whose entities are `E_co`s: everything else about it is derived from this value.

    Attributes:
        entity: the class whose members are the kind's members.
        collection: the path segment after the parent's item.
        operations: the first half of operation ids, `applications` in `applications.create`.
        parent: the kind whose item stands before the collection in a path; None at the root.
        item: the path parameter that holds an entity's id.
        verbs: the generic operations; what differs is written by hand under `services/management`.
        listing: how a list is filtered, sorted and wrapped.
        created: the status that a successful create answers.
        variants: the classes of a discriminated union over `type`, when the kind is one.
        created_as: the classes of a create's response where they differ: with a secret that is shown once.
        manifest: whether a manifest can describe one.
        extras: members that a manifest has beside the settable ones of the entity.
        local: members of a manifest that the reconciler reads and never sends.
        inputs: verb -> members that a body has beside those of the entity.
        bodies: verb -> the body, where it is not the members that a caller may set.
        conditional: the writes that honour If-Match; where there are some, responses carry an ETag.
        has_secrets: whether a Secret can belong to one.
        unique_with: members that, with the parent, the handle is unique within. Archived ones do not count.
        handle_beside: the variant whose handle is unique only together with a member of it: (type, member).
        handle_shared: the variant of which several entities may have the same handle.
        unique_together: members that are unique together, besides the handle: name of the index -> members.
        indexes: members, within the tenant, that hand-written queries look up.
    """

    entity: type[E_co]
    collection: str
    operations: str
    parent: "Kind | None"
    item: str = "id"
    verbs: frozenset[Verb] = ALL_VERBS
    listing: Listing | None = None
    created: int = 200
    variants: tuple[type[E_co], ...] = ()
    created_as: tuple[type[E_co], ...] = ()
    manifest: bool = False
    extras: type[BaseModel] | None = None
    local: type[BaseModel] | None = None
    inputs: Mapping[Verb, type[BaseModel]] = field(default_factory=dict)
    bodies: Mapping[Verb, type[BaseModel]] = field(default_factory=dict)
    conditional: frozenset[Verb] = frozenset()
    has_secrets: bool = False
    unique_with: tuple[str, ...] = ()
    handle_beside: tuple[str, str] | None = None
    handle_shared: SharedHandle | None = None
    unique_together: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    indexes: tuple[tuple[str, ...], ...] = ()

    @property
    def name(self) -> str:
        """The kind's name, as manifests and messages write it."""
        return self.entity.__name__

    @property
    def one(self) -> str:
        """The name with its article, as in `an Application`."""
        return f"{article(self.name)} {self.name}"

    @property
    def table(self) -> str:
        """The name of the table that keeps the kind's entities."""
        return self.operations

    @property
    def collection_path(self) -> str:
        """The path of the collection, with `{parameters}`."""
        return f"{self.parent.item_path if self.parent else ''}/{self.collection}"

    @property
    def item_path(self) -> str:
        """The path of one entity, with `{parameters}`."""
        return f"{self.collection_path}/{{{self.item}}}"

    @property
    def classes(self) -> tuple[type[E_co], ...]:
        """The classes an entity of this kind can have: the variants of a union, else the one class."""
        return self.variants or (self.entity,)

    @cached_property
    def one_time_secret(self) -> dict[str, str] | None:
        """The members of those whose create returns a secret that is shown once: `{"type": "password"}`.

        Empty where it is every one of the kind; None where none is.
        """
        for created in self.created_as:
            for shown in self.classes:
                if issubclass(created, shown) and created is not shown:
                    return next(({"type": type_} for type_, each in self.types.items() if each is shown), {})
        return None

    @cached_property
    def types(self) -> dict[str, type[E_co]]:
        """The classes of a union, by the value of their discriminator; none when the kind is no union."""
        return {str(variant.model_fields["type"].default): variant for variant in self.variants}

    def members(self) -> dict[str, Member]:
        """Every member that some entity of this kind has, by name."""
        return self._members

    @cached_property
    def _members(self) -> dict[str, Member]:
        found: dict[str, Member] = {}
        for entity in self.classes:
            for name, member in members(entity).items():
                found.setdefault(name, member)
        return found

    def stored(self) -> dict[str, Member]:
        """The members that are columns."""
        return self._stored

    @cached_property
    def _stored(self) -> dict[str, Member]:
        return {
            name: member
            for name, member in self.members().items()
            if not member.has(Mark.DERIVED, Mark.INPUT) and member.expand is None
        }

    @cached_property
    def handle(self) -> str | None:
        """The member that names an entity to people, unique within the parent; None where there is none."""
        return next((name for name, member in self.members().items() if member.has(Mark.HANDLE)), None)

    @property
    def zoned(self) -> bool:
        """Tell whether entities belong to a zone."""
        return issubclass(self.entity, ZoneEntity)

    @cached_property
    def id_member(self) -> str:
        """What other entities call the id of one of these: `zone_id`, `policy_set_id`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower() + "_id"

    @cached_property
    def tenant(self) -> str | None:
        """The member that says whose an entity is; None for the organization itself."""
        if self.zoned:
            return "zone_id"
        return "organization_id" if "organization_id" in self.entity.model_fields else None

    @cached_property
    def is_tenant(self) -> bool:
        """Tell whether entities of other kinds belong to one of these: zones and organizations."""
        return self.parent is None

    @cached_property
    def parent_member(self) -> str | None:
        """The member that holds the id of a parent that is neither a zone nor an organization."""
        return None if self.parent is None or self.parent.is_tenant else self.parent.id_member

    @cached_property
    def scope(self) -> tuple[str, ...]:
        """The members that together name the parent: what a handle is unique within, and lists select on."""
        return tuple(name for name in (self.tenant, self.parent_member) if name)

    @cached_property
    def references(self) -> dict[str, str]:
        """Member -> name of the kind whose id it holds, parents included."""
        found = {name: member.ref.kind for name, member in self.stored().items() if member.ref}
        if self.parent_member and self.parent:
            found[self.parent_member] = self.parent.name
        return found

    def read(self, row: dict[str, Any]) -> E_co:
        """The entity that a row of stored members stands for."""
        if not self.variants:
            return self.entity.model_validate(row)
        chosen = self.variant(row["type"])
        return chosen.model_validate({name: row[name] for name in chosen.model_fields if name in row})

    def variant(self, type_: str) -> type[E_co]:
        """The class of the union whose discriminator has that value. Raises KeyError."""
        return self.types[type_]

    def variant_of(self, entity: Entity) -> str | None:
        """The value of the discriminator that an entity of the union has; None where the kind is no union."""
        return str(entity.model_dump(include={"type"})["type"]) if self.variants else None


PERMISSIONS = Annotated[Permissions | None, Mark.DERIVED, Expand("permissions")]

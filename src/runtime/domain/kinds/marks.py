"""Marks for `Annotated`: who sets a member's value (caller or service), and when it may change."""

import re
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from inspect import cleandoc
from itertools import takewhile
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

# A member or several, and what is said of them, further lines indented below.
_ATTRIBUTE = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8,}.*)*)", re.MULTILINE)


class Mark(Enum):
    """What is special about one member; a member without a mark is the caller's to set and to change."""

    HANDLE = auto()  # unique within the parent; how manifests name the entity
    UNIQUE = auto()  # unique within the parent, but not the handle
    GLOBAL = auto()  # with `UNIQUE`: unique in the whole service, because it arrives without a tenant
    FIXED = auto()  # the caller sets it at creation; constant afterwards
    SERVER = auto()  # the service decides; refused in bodies
    INTERNAL = auto()  # stored, and never part of an answer or a body
    SEALED = auto()  # never returned; answers say `<member>_set`
    DERIVED = auto()  # read-only and not stored: worked out when it is read
    INPUT = auto()  # only in the body of create; not stored under this name
    KEPT = auto()  # optional, and once given it may be changed but not cleared
    MADE = auto()  # required in an entity, optional at creation: the service makes one when it is absent
    LATER = auto()  # set by an update, not at creation
    SET = auto()  # an array whose order means nothing
    API_ONLY = auto()  # settable, and never in a manifest
    SOLE = auto()  # true for one entity of a zone at most: the others lose it
    CEDAR = auto()  # the text of a policy; in a manifest a `.cedar` file can take its place
    EXPIRY = auto()  # the instant from which the entity has no effect
    SUBJECT = auto()  # what tokens call the entity: unique among all principals of the zone, and given once


@dataclass(frozen=True)
class Ref:
    """The member holds the id of an entity of another kind, in the same zone or organization.

    Attributes:
        late: a parent's reference to its own child: nullable, and set in a second step.
        lasting: the id stays when the entity that has it is deleted: that it is gone then means something.
        deleted: the internal member that has the id instead, once the entity that has it is deleted: to have
            lost it is something else than to have named none. An update that names one, or none, clears it.
    """

    kind: str
    late: bool = False
    lasting: bool = False
    deleted: str | None = None


@dataclass(frozen=True)
class Expand:
    """The member is filled only when the query asks for this expand value."""

    value: str


@dataclass(frozen=True)
class Embed:
    """The member is the whole entity whose id another member holds; deprecated in favour of that id.

    `by` names the member with the id. An entity that is embedded itself embeds none.
    """

    by: str


@dataclass(frozen=True, eq=False)
class Example:
    """A value that the examples of OpenAPI show: of a member, or of every member of a type."""

    value: Any


@dataclass(frozen=True)
class BoundTo:
    """The member is a secret that is sent to these addresses alone: whoever changes one gives it again.

    Attributes:
        addresses: each by its dotted paths; the first one that has a value says it.
        added: how many of the last came when secrets had been sealed without them.
    """

    addresses: tuple[tuple[str, ...], ...]
    added: int = 0

    @property
    def paths(self) -> list[str]:
        """Every path, in order."""
        return [path for paths in self.addresses for path in paths]

    def of(self, entity: BaseModel) -> tuple[str | None, ...]:
        """The addresses, as the entity has them."""
        return tuple(
            next(filter(None, (_at(entity, path) for path in paths)), None) for paths in self.addresses
        )

    def sealed_for(self, entity: BaseModel) -> tuple[str | None, ...]:
        """The addresses that a secret is sealed for: one that was added counts where the entity has it."""
        values = self.of(entity)
        while len(values) > len(self.addresses) - self.added and values[-1] is None:
            values = values[:-1]
        return values


def _at(entity: BaseModel, path: str) -> str | None:
    value: Any = entity
    for name in path.split("."):
        value = getattr(value, name, None)
    return None if value is None else str(value)


@dataclass(frozen=True)
class Member:
    """One member of an entity or of a part of one, with its marks read.

    Attributes:
        shown_as: its name in answers, which Python may not admit.
    """

    name: str
    shown_as: str
    annotation: Any
    marks: frozenset[Mark]
    ref: Ref | None
    expand: Expand | None
    embed: Embed | None
    bound_to: BoundTo | None
    example: Example | None
    description: str | None  # what a schema says of the member
    required: bool  # has no default
    nullable: bool  # admits None

    @property
    def value_type(self) -> Any:
        """The type of a value of the member, without its marks and without null."""
        bare = _bare(self.annotation)
        if get_origin(bare) not in (Union, UnionType):
            return bare
        types = [each for each in get_args(bare) if each is not NoneType]
        return _bare(types[0]) if len(types) == 1 else bare

    def has(self, *marks: Mark) -> bool:
        """Tell whether the member carries any of these marks."""
        return not self.marks.isdisjoint(marks)


@cache
def members(model: type[BaseModel]) -> dict[str, Member]:
    """The members of a class by name, in the order they are written."""
    hints, documented = get_type_hints(model, include_extras=True), attribute_texts(model)
    found = {}
    for name, field in model.model_fields.items():
        notes = _notes(hints[name])
        found[name] = Member(
            name=name,
            shown_as=field.serialization_alias or name,
            annotation=hints[name],
            marks=frozenset(note for note in notes if isinstance(note, Mark)),
            ref=next((note for note in notes if isinstance(note, Ref)), None),
            expand=next((note for note in notes if isinstance(note, Expand)), None),
            embed=next((note for note in notes if isinstance(note, Embed)), None),
            bound_to=next((note for note in notes if isinstance(note, BoundTo)), None),
            example=_example(hints[name]),
            description=field.description or documented.get(name),
            required=field.is_required(),
            nullable=type(None) in get_args(_bare(hints[name])),
        )
    return found


def attribute_texts(model: type[BaseModel]) -> dict[str, str]:
    """Member -> what the docstring of its class says of it under `Attributes:`, as a sentence."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        lines = cleandoc(vars(each).get("__doc__") or "").partition("\nAttributes:\n")[2].splitlines()
        text = "\n".join(takewhile(lambda line: line.startswith("    ") or not line, lines))
        for names, said in _ATTRIBUTE.findall(text):
            sentence = " ".join(said.split())
            found |= dict.fromkeys(names.split(", "), f"{sentence[:1].upper()}{sentence[1:]}")
    return found


def _bare(annotation: Any) -> Any:
    """The annotation without its outer `Annotated`."""
    return get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation


def _notes(annotation: Any) -> tuple[Any, ...]:
    return tuple(getattr(annotation, "__metadata__", ()))


def _example(annotation: Any) -> Example | None:
    """The example beside the type of a member; else the one that stands in the type itself."""
    own = [note for note in _notes(annotation) if isinstance(note, Example)]
    if own:
        return own[-1]
    bare = _bare(annotation)
    inner = get_args(bare) if get_origin(bare) in (Union, UnionType) else ()
    return next((found for each in inner if (found := _example(each))), None)


def part_of(annotation: Any) -> type[BaseModel] | None:
    """The object class an annotation stands for, through `Annotated` and `| None`; None for other types."""
    bare = _bare(annotation)
    for candidate in (bare, *get_args(bare)):
        candidate = _bare(candidate)
        if get_origin(candidate) is None and isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None

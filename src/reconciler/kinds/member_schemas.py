"""Reads a kind's JSON Schema: how its members are compared, referred to and written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import Any, Final


class _Absent(Enum):
    """The type of `ABSENT`: a value that stays the same one when it is copied."""

    ABSENT = auto()


ABSENT: Final = _Absent.ABSENT
"""No default is stated: leaving the member out means null."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A member that names an entity of another kind.

    Attributes:
        kind: the kind referred to.
        field: the member's name in the management API, which takes an id.
        late: a parent's reference to its own child, set in a second step.
        many: the member is a list of such references.
    """

    kind: str
    field: str
    late: bool = False
    many: bool = False


@dataclass(frozen=True)
class MemberSchema:
    """The schema of one member of a spec, at any depth.

    Attributes:
        fixed: set at creation, constant afterwards.
        unordered: an array compared as a set.
        caseless: a text, or an array of texts, compared without case.
        sole: true for one object of a zone at most.
        instant: a point in time, of which RFC 3339 has several spellings.
        expiry: the instant from which the object has no effect.
        bound_to: of a secret: dotted paths of the members with the address that it is sent to.
        address: a URI that may be given as the address of another zone.
        default_from: the top-level member whose value is this one's default.
    """

    members: Mapping[str, "MemberSchema"] = field(default_factory=dict)
    items: "MemberSchema | None" = None
    ref: Reference | None = None
    fixed: bool = False
    unordered: bool = False
    secret: bool = False
    address: bool = False
    array: bool = False
    caseless: bool = False
    sole: bool = False
    instant: bool = False
    expiry: bool = False
    bound_to: tuple[str, ...] = ()
    default_from: str | None = None
    required: frozenset[str] = frozenset()
    default: Any = ABSENT

    @property
    def resets_to(self) -> Any:
        """The value of a member that is not set."""
        if self.default is not ABSENT:
            return self.default
        return [] if self.array else None

    @cached_property
    def nested(self) -> bool:
        """Tell whether the member is an object whose members are compared one by one."""
        return bool(self.members) and self.ref is None and not self.secret

    @cached_property
    def refers(self) -> bool:
        """Tell whether the member, or each of its items, names an entity or a zone's address."""
        return self.ref is not None or self.address or (self.items is not None and self.items.address)

    def wire_name(self, name: str) -> str:
        """The name the management API has for the member that a manifest calls *name*."""
        return self.ref.field if self.ref else name

    def wire_path(self, path: str) -> str:
        """The dotted path in the management API of the member that has this path in a manifest."""
        above, dot, name = path.rpartition(".")
        return f"{above}{dot}{self.wire_name(name)}"


PLAIN: Final = MemberSchema()
"""The schema of a member that a kind's schema lacks."""


@dataclass(frozen=True, slots=True)
class HandleSharing:
    """Objects that may have the same handle: those of one type, as long as they belong together.

    Attributes:
        type: the value of `type`.
        within: the spec member in which they must be alike.
        most: how many may share one handle.
    """

    type: str
    within: str
    most: int


@dataclass(frozen=True)
class Kind:
    """One kind of manifest, as its schema describes it.

    Attributes:
        scope: `zone` or `organization`.
        handle: the spec member that is unique within the zone or organization, and that entities are adopted
            by.
        handle_default: the handle is the manifest's name when the spec leaves it out.
        handle_decided: values of `type` with which the server assigns the handle.
        handle_shared: which objects may have the same handle; None where each has its own.
        order: position in creation order, parents first.
        files: spec members that hold a path -> the member that takes the file's text.
        cedar: spec members that are Cedar text -> the vocabulary that it may use, as in the schema.
        local: spec members that stay in git: they are checked and not sent.
        references, addresses: paths (spec member names) of all members that refer to others.
        secrets: paths of members that take a secret reference.
        sole: spec members that are true for one object of a zone at most.
        expiry: the spec member that says when an object has no effect any more.
        shown_once: members of a spec whose creation answers a secret that is never shown again.
        wire: spec as the management API has it: shapes under their wire names.
    """

    name: str
    collection: str
    scope: str
    handle: str | None
    handle_default: bool
    order: int
    requires: tuple[str, ...]
    schema: Mapping[str, Any]
    spec: MemberSchema
    wire: MemberSchema
    files: Mapping[str, str]
    references: tuple[tuple[tuple[str, ...], Reference], ...]
    addresses: tuple[tuple[str, ...], ...]
    secrets: tuple[tuple[str, ...], ...]
    sole: tuple[str, ...] = ()
    cedar: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    local: frozenset[str] = frozenset()
    shown_once: Mapping[str, Any] | None = None
    handle_decided: frozenset[str] = frozenset()
    handle_shared: HandleSharing | None = None
    expiry: str | None = None
    _leaves: dict[str, MemberSchema] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def zoned(self) -> bool:
        """Tell whether entities of this kind live in a zone."""
        return self.scope == "zone"

    def leaf(self, path: str) -> MemberSchema:
        """The shape at a dotted path of wire names; a plain one for a path that the schema lacks."""
        known = self._leaves.get(path)
        if known is None:
            known = self.wire
            for name in path.split("."):
                known = known.members.get(name, PLAIN)
            self._leaves[path] = known
        return known

    @cached_property
    def fixed_paths(self) -> frozenset[str]:
        """Dotted paths of wire names: the members that are fixed at creation, at any depth."""
        return frozenset(_fixed_paths(self.wire))

    @cached_property
    def text_paths(self) -> frozenset[str]:
        """The members of `spec` that take the text of a file."""
        return frozenset(self.files.values())

    def handle_of(self, spec: Mapping[str, object]) -> str | None:
        """The member that has the handle of this spec; None when the server assigns the handle."""
        return None if spec.get("type") in self.handle_decided else self.handle

    def shows_once(self, spec: Mapping[str, object]) -> bool:
        """Tell whether the answer to its creation has a secret that is never shown again."""
        return self.shown_once is not None and self.shown_once.items() <= spec.items()


def _fixed_paths(shape: MemberSchema, before: str = "") -> Iterator[str]:
    for name, below in shape.members.items():
        path = before + name
        if below.fixed:
            yield path
        yield from _fixed_paths(below, f"{path}.")


def read_member_schema(
    schema: Mapping[str, Any], root: Mapping[str, Any], *, fixed: bool = False
) -> MemberSchema:
    """Read a member schema from a JSON Schema; `$ref` within *root* and alternatives are followed.

    *fixed*: an object around it is fixed at creation, and so are all its members.
    """
    branches = list(schema_branches(schema, root))
    marks: dict[str, Any] = {}
    for branch in reversed(branches):
        marks.update({word: value for word, value in branch.items() if word.startswith("x-")})
        if "default" in branch:
            marks["default"] = branch["default"]
    types = {each for branch in branches for each in _types(branch)}
    ref = marks.get("x-ref")
    common = {
        "fixed": fixed or bool(marks.get("x-fixed")),
        "unordered": bool(marks.get("x-set")),
        "caseless": bool(marks.get("x-caseless")),
        "sole": bool(marks.get("x-sole")),
        "instant": any(branch.get("format") == "date-time" for branch in branches),
        "expiry": bool(marks.get("x-expiry")),
        "array": "array" in types,
        "default_from": marks.get("x-default-from"),
        "default": marks.get("default", ABSENT),
    }
    if ref is not None:
        many = bool(ref.get("many"))
        reference = Reference(ref["kind"], ref["field"], bool(ref.get("late")), many)
        return MemberSchema(ref=reference, **{**common, "array": many})
    if marks.get("x-secret"):
        return MemberSchema(secret=True, bound_to=tuple(marks.get("x-bound-to", ())), **common)
    if marks.get("x-address"):
        return MemberSchema(address=True, **common)
    members: dict[str, MemberSchema] = {}
    required: frozenset[str] = frozenset()
    items = None
    for branch in branches:
        for name, below in branch.get("properties", {}).items():
            members.setdefault(name, read_member_schema(below, root, fixed=common["fixed"]))
        required |= frozenset(branch.get("required", ()))
        if isinstance(branch.get("items"), Mapping) and items is None:
            items = read_member_schema(branch["items"], root)
            common["caseless"] |= items.caseless
    return MemberSchema(members=members, items=items, required=required, **common)


def _types(branch: Mapping[str, object]) -> Iterator[str]:
    named = branch.get("type")
    if isinstance(named, str):
        yield named
    elif isinstance(named, list):
        yield from named


def schema_branches(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schema itself, its references and its alternatives."""
    yield schema
    target = schema.get("$ref")
    if isinstance(target, str) and target.startswith("#/"):
        yield from schema_branches(follow(root, target), root)
    for word in ("anyOf", "oneOf", "allOf"):
        for branch in schema.get(word, ()):
            yield from schema_branches(branch, root)


def follow(root: Mapping[str, object], pointer: str) -> Mapping[str, Any]:
    """The target of a local `$ref` such as `#/$defs/Name`."""
    found: Any = root
    for step in pointer.removeprefix("#/").split("/"):
        found = found[step.replace("~1", "/").replace("~0", "~")]
    result: Mapping[str, Any] = found
    return result


def wire_schema(shape: MemberSchema) -> MemberSchema:
    """The same shape under the management API's names."""
    if not shape.nested:
        return shape
    members = {below.wire_name(name): wire_schema(below) for name, below in shape.members.items()}
    return MemberSchema(
        members=members,
        fixed=shape.fixed,
        default=shape.default,
        required=frozenset(
            shape.members[name].wire_name(name) for name in shape.required if name in shape.members
        ),
    )


def special_members(
    shape: MemberSchema, at: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], MemberSchema]]:
    """Every member that refers to something or is secret, with its path; lists count as one member."""
    for name, below in shape.members.items():
        path = (*at, name)
        special = below.items if below.items is not None and below.items.address else below
        if special.ref or special.secret or special.address:
            yield path, special
        else:
            yield from special_members(below, path)

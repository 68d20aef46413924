"""Phase: parse specs. What a manifest says of an entity becomes bodies of a create and an update; pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from runtime.contract.bodies import nullable_in_patch, part_body, read, read_body, settable
from runtime.domain.errors import Problem, ValidationFailed
from runtime.domain.kinds import BY_NAME, Kind, Verb
from runtime.domain.kinds.marks import Mark
from runtime.services.management.changesets.changeset import CreateOperation, PackedOperation
from runtime.services.management.entities import sealed_members

_SOME_SECRET = "secret"  # in place of one that a plan does not know


@dataclass(frozen=True, slots=True)
class SpecFields:
    """A spec taken apart, checked.

    Attributes:
        body: what the create or the update takes.
        late: what only an update takes: members that a create cannot have yet.
        cleared: members that go back to nothing, though a single update could not clear them.
        extras: what a manifest has beside the members: lists of pairs, texts, contents.
    """

    body: dict[str, Any] = field(default_factory=dict)
    late: dict[str, Any] = field(default_factory=dict)
    cleared: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)

    def packed(self) -> bytes:
        """As JSON text, which takes a fraction of the memory."""
        return to_json((self.body, self.late, self.cleared, self.extras))

    @classmethod
    def unpacked(cls, text: bytes) -> "SpecFields":
        """What was packed."""
        return cls(*from_json(text))


def split_spec(
    operation: PackedOperation, spec: Mapping[str, Any], *, dry_run: bool, type_: str | None = None
) -> SpecFields:
    """The parts of a spec whose pointers are resolved.

    Args:
        type_: for an update of a union's entity, its variant.
    Raises: ValidationFailed, with fields relative to the spec.
    """
    kind = BY_NAME[operation.kind]
    given = _with_secrets(kind, spec, dry_run=dry_run)
    if isinstance(operation, CreateOperation):
        return _for_create(kind, operation, given)
    return _for_update(kind, given, type_)


def _with_secrets(kind: Kind, spec: Mapping[str, Any], *, dry_run: bool) -> dict[str, Any]:
    """The spec with placeholders of secrets in a form that can be checked; only a dry run has any."""
    given = dict(spec)
    for name in sealed_members(kind):
        value = given.get(name)
        if isinstance(value, dict) and value.keys() == {"secret"}:
            if not dry_run:
                raise ValidationFailed.of(name, "is a placeholder; send the secret itself")
            given[name] = _SOME_SECRET
    return given


def _for_create(kind: Kind, operation: PackedOperation, given: dict[str, Any]) -> SpecFields:
    extra_names = kind.extras.model_fields if kind.extras else {}
    extras = {name: given.pop(name) for name in list(given) if name in extra_names}
    named = _settable(kind, Verb.CREATE)
    if given.get("type") in tuple(kind.types):  # it can be anything, also what no dictionary takes
        named = frozenset(settable(kind.variant(given["type"]), Verb.CREATE))
    if kind.handle in named and kind.handle not in given and operation.name:
        given[str(kind.handle)] = operation.name
    only_later = _settable(kind, Verb.UPDATE) - _settable(kind, Verb.CREATE)
    late = {name: given.pop(name) for name in list(given) if name in only_later}
    problems: list[Problem] = []
    body = _collect(problems, lambda: read_body(kind, given) if kind.verbs else _none_known(given))
    late = _collect(problems, lambda: read_body(kind, late, Verb.UPDATE) if late else {})
    if kind.extras is not None:
        model = kind.extras
        extras = {**_defaults_to_write(model), **_collect(problems, lambda: read(model, extras))}
    _raise(problems)
    return SpecFields(body, {name: value for name, value in late.items() if value is not None}, {}, extras)


def _defaults_to_write(model: type[BaseModel]) -> dict[str, Any]:
    """The defaults that have to be brought about: an empty list is there already."""
    return {name: found.default for name, found in model.model_fields.items() if found.default is True}


def _for_update(kind: Kind, given: dict[str, Any], type_: str | None) -> SpecFields:
    extra_names = kind.extras.model_fields if kind.extras else {}
    extras = {name: given.pop(name) for name in list(given) if name in extra_names}
    cleared = _defaulted(kind, given)
    problems: list[Problem] = []
    body = _collect(
        problems, lambda: read_body(kind, given, Verb.UPDATE, type_) if kind.verbs else _none_known(given)
    )
    if extras and kind.extras is not None:
        model = part_body(kind.extras, Verb.UPDATE)
        defaults = {name: found.default for name, found in kind.extras.model_fields.items()}
        read_extras = _collect(problems, lambda: read(model, extras))
        extras = {name: defaults[name] if value is None else value for name, value in read_extras.items()}
    _raise(problems)
    return SpecFields(body, {}, cleared, extras)


def _defaulted(kind: Kind, given: dict[str, Any]) -> dict[str, Any]:
    """Turn null of members that cannot be null into their default; what is cleared beside that is returned.

    A manifest that no longer mentions a member means the default, whatever a single update may say.
    """
    cleared: dict[str, Any] = {}
    for entity in kind.classes:
        for name, member in settable(entity, Verb.UPDATE).items():
            if name not in given or given[name] is not None or nullable_in_patch(member, nested=False):
                continue
            if member.has(Mark.KEPT):
                cleared[name] = given.pop(name)
            elif not member.required:
                given[name] = entity.model_fields[name].get_default(call_default_factory=True)
    return cleared


@cache
def _settable(kind: Kind, verb: Verb) -> frozenset[str]:
    return frozenset(name for entity in kind.classes for name in settable(entity, verb))


def _none_known(given: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse members of a kind that has only what `extras` say."""
    if given:
        problems = [Problem("validation_error", f"unknown member `{name}`", name) for name in given]
        raise ValidationFailed(problems[0].message, problems=problems)
    return {}


def _collect(problems: list[Problem], check: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a check returns; when it refuses, nothing, and its problems are kept."""
    try:
        return check()
    except ValidationFailed as refused:
        problems.extend(refused.problems or [Problem(refused.code, refused.detail)])
        return {}


def _raise(problems: list[Problem]) -> None:
    if problems:
        first = problems[0]
        subject = f"`{first.field}` " if first.field else ""
        raise ValidationFailed(f"{subject}{first.message}", problems=problems)

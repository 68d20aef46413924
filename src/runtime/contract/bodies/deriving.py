"""Derives the classes of request bodies from entity classes, without the members that the service sets.

What bodies have besides, and bodies that are something else, are said where the kind is defined.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, SecretStr, create_model, field_validator

from runtime.contract.bodies.members import is_mixed, is_taken, nullable_in_patch, settable
from runtime.domain.kinds.base import Entity, Kind, Verb
from runtime.domain.kinds.marks import Mark, Member, members, part_of

# A secret in a body: it does not show in a repr or in an error, and comes out as text in `read`.
SecretText = Annotated[
    SecretStr,
    Field(min_length=1, max_length=4096),
    PlainSerializer(lambda secret: secret.get_secret_value(), return_type=str),
]


class Body(BaseModel):
    """What every derived body is: nothing unknown, nothing converted, no value repeated in an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    source: ClassVar[type[BaseModel]]


@lru_cache(maxsize=256)
def create_body(kind: Kind, type_: str | None = None) -> type[BaseModel]:
    """The body of a create; of one variant when the kind is a union. Raises KeyError for an unknown one."""
    if written := kind.bodies.get(Verb.CREATE):
        return written
    model = _variant(kind, type_)
    return _derive(model, Verb.CREATE, f"{model.__name__}Create", _inputs(kind, Verb.CREATE))


@lru_cache(maxsize=256)
def patch_body(kind: Kind, type_: str | None = None) -> type[BaseModel]:
    """The body of an update; of one variant when the kind is a union. Raises KeyError for an unknown one."""
    if written := kind.bodies.get(Verb.UPDATE):
        return written
    model = _variant(kind, type_)
    return _derive(model, Verb.UPDATE, f"{model.__name__}Update", _inputs(kind, Verb.UPDATE))


def bodies(kind: Kind, verb: Verb) -> tuple[type[BaseModel], ...]:
    """Every class the body of a create or an update can have: one for each variant of a union."""
    make = create_body if verb is Verb.CREATE else patch_body
    if not kind.variants:
        return (make(kind),)
    return tuple(make(kind, type_) for type_ in kind.types)


def _inputs(kind: Kind, verb: Verb) -> dict[str, tuple[Any, Any]]:
    """The members that a body has beside those of the entity: absent or a value, never null."""
    given = kind.inputs.get(verb)
    found = members(given) if given else {}
    return {
        name: (_without_none(member.annotation), ... if member.required else None)
        for name, member in found.items()
    }


def _variant(kind: Kind, type_: str | None) -> type[Entity]:
    return kind.variant(type_) if kind.variants and type_ is not None else kind.entity


@cache
def part_body(model: type[BaseModel], verb: Verb) -> type[BaseModel]:
    """What a body takes in place of a part of an entity."""
    if verb is Verb.CREATE and not any(_differs_at_creation(member) for member in members(model).values()):
        return model
    return _derive(
        model, verb, f"{model.__name__}{'Create' if verb is Verb.CREATE else 'Update'}", {}, nested=True
    )


def _differs_at_creation(member: Member) -> bool:
    part = part_of(member.annotation)
    if not is_taken(member, Verb.CREATE) or member.has(Mark.MADE):
        return True
    return part is not None and part_body(part, Verb.CREATE) is not part


def _derive(
    model: type[BaseModel],
    verb: Verb,
    name: str,
    added: Mapping[str, tuple[Any, Any]],
    *,
    nested: bool = False,
) -> type[BaseModel]:
    fields: dict[str, Any] = dict(added)
    for member_name, member in settable(model, verb).items():
        fields[member_name] = _field(model, member, verb, nested=nested)
    body = create_model(
        name,
        __base__=Body,
        __module__=__name__,
        __doc__=model.__doc__,
        __validators__=_validators(model),
        **fields,
    )
    body.source = model
    return body


def _field(model: type[BaseModel], member: Member, verb: Verb, *, nested: bool) -> tuple[Any, Any]:
    annotation = _converted(member.annotation, verb)
    if member.has(Mark.SEALED):
        annotation = SecretText if verb is Verb.CREATE else SecretText | None
    if verb is Verb.CREATE:
        if member.has(Mark.KEPT) or (member.required and member.nullable):  # given, then perhaps cleared
            annotation = _without_none(annotation)
        elif not member.required and not member.nullable and member.name == "type":
            return annotation, ...  # the discriminator of a union
        required = member.required and not member.has(Mark.MADE) and not _all_optional(member)
        return annotation, (... if required else None)
    if nullable_in_patch(member, nested=nested):
        annotation = annotation | None
    elif not member.nullable or member.has(Mark.KEPT):
        annotation = _without_none(annotation)
    return annotation, None


def _all_optional(member: Member) -> bool:
    part = part_of(member.annotation)
    return (
        is_mixed(member)
        and part is not None
        and not any(field.is_required() for field in part_body(part, Verb.CREATE).model_fields.values())
    )


def _converted(annotation: Any, verb: Verb) -> Any:
    """The annotation without marks, with the classes of parts replaced by those of their bodies."""
    if hasattr(annotation, "__metadata__"):
        inner = _converted(annotation.__origin__, verb)
        kept = [note for note in annotation.__metadata__ if not _is_mark(note)]
        return Annotated[(inner, *kept)] if kept else inner
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        found = _converted(arguments[0], verb)
        for argument in arguments[1:]:
            found = found | (None if argument is NoneType else _converted(argument, verb))
        return found
    if origin is dict and verb is Verb.UPDATE and arguments[1] is not Any:  # null takes a key out of a map
        return dict[arguments[0], arguments[1] | None]  # type: ignore[valid-type]
    if origin is list:  # an array is replaced whole by an update, so its items are complete
        return list[_converted(arguments[0], Verb.CREATE)]  # type: ignore[misc]
    if isinstance(annotation, type) and origin is None and issubclass(annotation, BaseModel):
        return part_body(annotation, verb)
    return annotation


def _is_mark(note: Any) -> bool:
    return type(note).__module__.endswith("kinds.marks")


def _without_none(annotation: Any) -> Any:
    if hasattr(annotation, "__metadata__"):
        return Annotated[(_without_none(annotation.__origin__), *annotation.__metadata__)]
    if get_origin(annotation) in (Union, UnionType):
        rest = [argument for argument in get_args(annotation) if argument is not NoneType]
        return rest[0] if len(rest) == 1 else Union[tuple(rest)]  # noqa: UP007 - built from a tuple
    return annotation


def _validators(model: type[BaseModel]) -> dict[str, Callable[..., Any]]:
    """The checks of single members that the class has, for a class that has the same members."""
    found: dict[str, Callable[..., Any]] = {}
    for name, decorator in model.__pydantic_decorators__.field_validators.items():
        check = decorator.func

        def repeated(_: type[BaseModel], value: Any, check: Callable[[Any], Any] = check) -> Any:
            return value if value is None else check(value)

        wrap: Any = field_validator(*decorator.info.fields, mode=decorator.info.mode, check_fields=False)
        found[f"repeated_{name}"] = wrap(classmethod(repeated))
    return found

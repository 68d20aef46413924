"""Request bodies: which members of a kind a caller may send, read strictly and with every problem named.

A body class is made from an entity class by leaving out what the service decides. Bodies that are not just
that are in `written`.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    ValidationError,
    create_model,
    field_validator,
)
from pydantic_core import ErrorDetails, PydanticSerializationError, to_json

from runtime.contract.secrets import SecretInput
from runtime.contract.written import ActivationBody, PolicyVersionBody, RevocationBody
from runtime.domain.errors import Problem, ValidationFailed
from runtime.domain.kinds.base import Entity, Kind, Verb
from runtime.domain.kinds.marks import Mark, Member, members, part_of
from runtime.domain.kinds.values import PLAIN_PATTERN, Id, Name

Model = TypeVar("Model", bound=BaseModel)
Changed = TypeVar("Changed", bound=Entity)

# A secret in a body: it does not show in a repr or in an error, and comes out as text in `read`.
SecretText = Annotated[
    SecretStr,
    Field(min_length=1, max_length=4096),
    PlainSerializer(lambda secret: secret.get_secret_value(), return_type=str),
]

_REFUSED = (Mark.SERVER, Mark.DERIVED, Mark.INTERNAL)


class Body(BaseModel):
    """What every derived body is: nothing unknown, nothing converted, no value repeated in an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    source: ClassVar[type[BaseModel]]


@cache
def settable(model: type[BaseModel], verb: Verb) -> dict[str, Member]:
    """The members of a class that the body of a create or an update may have, by name."""
    return {name: member for name, member in members(model).items() if _taken(member, verb)}


def _taken(member: Member, verb: Verb) -> bool:
    if member.has(*_REFUSED) or member.expand is not None:
        return False
    late = member.has(Mark.LATER) or (member.ref is not None and member.ref.late)
    if verb is Verb.CREATE:
        return not late
    fixed = member.has(Mark.FIXED) and member.name != "type"  # `type` may be repeated, see `read_patch`
    return not (fixed or member.has(Mark.INPUT))


def is_mixed(member: Member) -> bool:
    """Tell whether a member is an object of which the service decides a part."""
    part = part_of(member.annotation)
    return part is not None and any(
        inner.has(Mark.SERVER) or is_mixed(inner) for inner in members(part).values()
    )


def nullable_in_patch(member: Member, *, nested: bool) -> bool:
    """Tell whether null in an update clears the member, or puts its default back.

    Spec: management API, `null_in_patch`; members of parts with a default take null too.
    """
    if member.has(Mark.KEPT):
        return False
    return member.nullable or is_mixed(member) or (nested and not member.required)


@cache
def create_body(kind: Kind, type_: str | None = None) -> type[BaseModel]:
    """The body of a create; of one variant when the kind is a union. Raises KeyError for an unknown one."""
    if written := _WRITTEN.get((kind.name, Verb.CREATE)):
        return written
    model = _variant(kind, type_)
    return _derive(model, Verb.CREATE, f"{model.__name__}Create", _ADDED.get((kind.name, Verb.CREATE), {}))


@cache
def patch_body(kind: Kind, type_: str | None = None) -> type[BaseModel]:
    """The body of an update; of one variant when the kind is a union. Raises KeyError for an unknown one."""
    if written := _WRITTEN.get((kind.name, Verb.UPDATE)):
        return written
    model = _variant(kind, type_)
    return _derive(model, Verb.UPDATE, f"{model.__name__}Update", _ADDED.get((kind.name, Verb.UPDATE), {}))


def bodies(kind: Kind, verb: Verb) -> tuple[type[BaseModel], ...]:
    """Every class the body of a create or an update can have: one for each variant of a union."""
    make = create_body if verb is Verb.CREATE else patch_body
    if not kind.variants:
        return (make(kind),)
    return tuple(make(kind, variant.model_fields["type"].default) for variant in kind.variants)


def _variant(kind: Kind, type_: str | None) -> type[Entity]:
    return kind.variant(type_) if kind.variants and type_ is not None else kind.entity


@cache
def _nested(model: type[BaseModel], verb: Verb) -> type[BaseModel]:
    """The class of a part inside a body."""
    if verb is Verb.CREATE and not any(_differs_at_creation(member) for member in members(model).values()):
        return model
    return _derive(
        model, verb, f"{model.__name__}{'Create' if verb is Verb.CREATE else 'Update'}", {}, nested=True
    )


def part_body(model: type[BaseModel], verb: Verb) -> type[BaseModel]:
    """What a body takes in place of a part of an entity."""
    return _nested(model, verb)


def _differs_at_creation(member: Member) -> bool:
    part = part_of(member.annotation)
    if not _taken(member, Verb.CREATE) or member.has(Mark.MADE):
        return True
    return part is not None and _nested(part, Verb.CREATE) is not part


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
        and not any(field.is_required() for field in _nested(part, Verb.CREATE).model_fields.values())
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
        return _nested(annotation, verb)
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


def read_body(kind: Kind, raw: Any, verb: Verb = Verb.CREATE, type_: str | None = None) -> dict[str, Any]:
    """The members that a body sets, checked one by one; secrets are clear text in it.

    Args:
        kind: what is created or updated.
        raw: the parsed JSON of the body.
        verb: `CREATE` or `UPDATE`.
        type_: for the update of a union's entity, the variant that the entity has.

    Returns:
        For a create what is given and not null; for an update exactly what is given, null where it clears.
    Raises:
        ValidationFailed: with one problem for each thing that is wrong.
    """
    if not isinstance(raw, dict):
        raise ValidationFailed("the body must be a JSON object")
    if verb is Verb.UPDATE:
        return _read_patch(kind, raw, type_)
    if kind.variants:
        type_ = _read_type(kind, raw)
    given = read(create_body(kind, type_), raw)
    if not _has_value(given.get("metadata", "")):
        del given["metadata"]
    return {name: value for name, value in given.items() if value is not None}


def _read_type(kind: Kind, raw: dict[str, Any]) -> str:
    known = [str(variant.model_fields["type"].default) for variant in kind.variants]
    given = raw.get("type")
    if given is None:
        raise ValidationFailed.of("type", "is required")
    if given not in known:
        raise ValidationFailed.of("type", f"must be one of {_listed(known)}")
    return str(given)


def _read_patch(kind: Kind, raw: dict[str, Any], type_: str | None) -> dict[str, Any]:
    if not kind.variants:
        return read(patch_body(kind), raw)
    if type_ is not None and raw.get("type", type_) != type_:
        raise ValidationFailed.of("type", f"cannot change: it is `{type_}`")
    given = read(patch_body(kind, type_), raw)
    given.pop("type", None)
    return given


def read(model: type[BaseModel], raw: Any) -> dict[str, Any]:
    """What a body of that class sets, as plain JSON values. Raises ValidationFailed naming every problem."""
    return parse(model, raw).model_dump(mode="json", exclude_unset=True)


def parse(model: type[Model], raw: Any) -> Model:
    """The body as a value of that class, nothing converted. Raises ValidationFailed naming every problem."""
    try:
        return model.model_validate_json(to_json(raw), strict=True)
    except PydanticSerializationError:
        raise ValidationFailed("the body holds text that is not Unicode") from None
    except ValidationError as invalid:
        raise refusal(invalid, model) from None


def refusal(invalid: ValidationError, model: type[BaseModel]) -> ValidationFailed:
    """The refusal that tells everything pydantic found, without repeating any value."""
    problems = [
        _problem(error, model)
        for error in invalid.errors(include_url=False, include_context=True, include_input=False)
    ]
    first = problems[0]
    subject = f"`{first.field}` " if first.field and not first.message.startswith("unknown member") else ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ValidationFailed(f"{subject}{first.message}{more}", problems=problems)


def _problem(error: ErrorDetails, model: type[BaseModel]) -> Problem:
    location, owner = _place(error["loc"], model)
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        location = (*location, "type")
    message = _unknown(str(location[-1]), owner) if error["type"] == "extra_forbidden" else _told(error)
    return Problem("validation_error", message, dotted(location) or None)


def _place(
    location: tuple[str | int, ...], model: type[BaseModel]
) -> tuple[tuple[str | int, ...], type[BaseModel]]:
    """A place as the body has it, and the class whose member the last step is.

    Pydantic puts the tag of a discriminated union between an object and its members.
    """
    found: list[str | int] = []
    owner = inner = model
    steps = iter(location)
    for step in steps:
        found.append(step)
        owner = inner
        field = owner.model_fields.get(step) if isinstance(step, str) else None
        if field is None:
            continue
        inner = part_of(field.annotation) or owner
        if field.discriminator and (tag := next(steps, None)) is not None:
            inner = _tagged(field.annotation, tag)
    return tuple(found), owner


def _tagged(union: Any, tag: str | int) -> type[BaseModel]:
    """The class of a discriminated union that a tag stands for."""
    choices: tuple[type[BaseModel], ...] = get_args(union)
    return next(each for each in choices if tag in get_args(each.model_fields["type"].annotation))


def dotted(location: Iterable[str | int]) -> str:
    """A place in a body, as `details` writes it: `protocols.oauth2.redirect_uris[0]`."""
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _unknown(name: str, owner: type[BaseModel]) -> str:
    """Why a member of a class is refused: it is the service's, or there is none of that name."""
    known = members(getattr(owner, "source", owner))
    base = known.get(name) or known.get(name.removesuffix("_set"))
    if base is not None and not base.has(Mark.INTERNAL):
        late = base.has(Mark.LATER) or (base.ref is not None and base.ref.late)
        return "is set by an update, not at creation" if late else "is read-only"
    close = get_close_matches(name, owner.model_fields, n=1)
    return f"unknown member `{name}`" + (f"; did you mean `{close[0]}`?" if close else "")


_MESSAGES: dict[str, str] = {
    "missing": "is required",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "list_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} characters",
    "too_long": "must have at most {max_length} entries",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "enum": "must be one of {expected}",
    "literal_error": "must be {expected}",
}


def _told(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in ("string_too_short", "too_short") and context["min_length"] == 1:
        return "must not be empty"
    if kind == "union_tag_not_found":
        return "is required"
    if kind == "union_tag_invalid":
        return _MESSAGES["enum"].format(expected=str(context["expected_tags"]).replace("'", "`"))
    if kind in ("enum", "literal_error"):
        return _MESSAGES[kind].format(expected=str(context["expected"]).replace("'", "`"))
    if kind in _MESSAGES:
        return _MESSAGES[kind].format(**context)
    if kind == "string_pattern_mismatch":
        return _pattern_told(str(context["pattern"]))
    if kind == "value_error":
        return str(context["error"])
    message = error["msg"]
    return message[:1].lower() + message[1:]


def _pattern_told(pattern: str) -> str:
    if pattern == PLAIN_PATTERN:
        return "must not have `<`, `>` or control characters"
    if pattern.startswith("^[A-Za-z][A-Za-z0-9+.-]*:"):
        return "must be an absolute URI"
    return "must be an e-mail address" if pattern.startswith("^[^@") else f"must match `{pattern}`"


def _listed(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def apply_patch(kind: Kind, current: Changed, patch: Mapping[str, Any]) -> Changed:
    """The entity after an update, validated whole.

    Args:
        kind: the kind of the entity.
        current: the entity as it is.
        patch: what `read_body` returned, RFC 7396; sealed members come as sealed bytes or None, never text.

    Raises:
        ValidationFailed: the result is not an entity of that kind.
    Spec: RFC 7396; `metadata` without members is dropped, management API `Metadata`.
    """
    model = type(current)
    for name, member in members(model).items():
        if member.has(Mark.SEALED) and isinstance(patch.get(name), str):
            raise TypeError(f"`{name}` must be sealed before it is stored")
    merged = _merged(model, current.model_dump(), patch)
    if not _has_value(merged.get("metadata")):
        merged.pop("metadata", None)
    try:
        return model.model_validate(merged)
    except ValidationError as invalid:
        raise refusal(invalid, model) from None


def _merged(model: type[BaseModel], current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(current)
    known = members(model)
    for name, value in patch.items():
        part = part_of(known[name].annotation) if name in known else None
        if value is None and part is not None and is_mixed(known[name]):
            result[name] = _reset(part, result.get(name) or {})
        elif value is None and name in known and known[name].required:
            result[name] = None  # there is no default to fall back to
        elif value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            inner = result.get(name)
            below = inner if isinstance(inner, Mapping) else {}
            result[name] = _merged(part, below, value) if part else _merged_map(below, value)
        else:
            result[name] = value
    return result


def _merged_map(current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    result = {**current, **{name: value for name, value in patch.items() if value is not None}}
    return {name: value for name, value in result.items() if patch.get(name, "") is not None}


def _reset(part: type[BaseModel], current: Mapping[str, Any]) -> dict[str, Any]:
    """What remains of an object when the caller clears it: the service's members."""
    kept: dict[str, Any] = {}
    for name, member in members(part).items():
        inner = part_of(member.annotation)
        if member.has(Mark.SERVER):
            kept[name] = current[name]
        elif inner is not None and is_mixed(member):
            kept[name] = _reset(inner, current.get(name) or {})
    return kept


def _has_value(part: Any) -> bool:
    return not isinstance(part, Mapping) or any(value is not None for value in part.values())


_WRITTEN: dict[tuple[str, Verb], type[BaseModel]] = {
    ("PolicyVersion", Verb.CREATE): PolicyVersionBody,
    ("PolicySetVersion", Verb.UPDATE): ActivationBody,
    ("Session", Verb.UPDATE): RevocationBody,
    ("DelegatedGrant", Verb.UPDATE): RevocationBody,
}

# Members of bodies that no entity has: name -> (type, default).
_ADDED: dict[tuple[str, Verb], dict[str, tuple[Any, Any]]] = {
    ("Zone", Verb.CREATE): {
        "default_mcp_gateway_application": (bool, None),
        "organization_id": (Id, None),
    },
    ("Secret", Verb.CREATE): {"data": (SecretInput, ...), "zone_id": (Id, None)},
    ("Secret", Verb.UPDATE): {"data": (SecretInput, None)},
    ("PolicySet", Verb.CREATE): {"scope_type": (Literal["zone"], None)},
    ("Organization", Verb.CREATE): {"name": (Name, None)},
}

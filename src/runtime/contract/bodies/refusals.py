"""Error messages of invalid request bodies: each with the path of the member, never with its value."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runtime.domain.errors import Problem, ValidationFailed
from runtime.domain.kinds.marks import Mark, members, part_of
from runtime.domain.kinds.values import PLAIN_PATTERN, SCOPE_PATTERN

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

# More than anybody reads, and each costs time to put into words.
MAX_PROBLEMS = 100
_MAX_RESEMBLING_CHARS = 100


def refusal(invalid: ValidationError, model: type[BaseModel]) -> ValidationFailed:
    """The refusal that tells everything pydantic found, without repeating any value.

    Where that is more than a hundred things, it tells only how many.
    """
    if invalid.error_count() > MAX_PROBLEMS:
        return ValidationFailed(f"the body has {invalid.error_count()} problems, too many to list")
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
        return "cannot be set at creation; set it by an update" if late else "is read-only"
    close = get_close_matches(name, owner.model_fields, n=1) if len(name) <= _MAX_RESEMBLING_CHARS else ()
    return f"unknown member `{name}`" + (f"; did you mean `{close[0]}`?" if close else "")


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
        return "must not have HTML tags or control characters"
    if pattern == SCOPE_PATTERN:
        return (
            "must be a scope of visible ASCII characters, without spaces, double quotes, backslashes or `<>`"
        )
    if pattern.startswith("^[A-Za-z][A-Za-z0-9+.-]*:"):
        return "must be an absolute URI"
    return "must be an e-mail address" if pattern.startswith("^[^@") else f"must match `{pattern}`"

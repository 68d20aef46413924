"""Turns JSON Schema validation errors into messages."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reconciler.kinds.member_schemas import follow

from .diagnostics import bounded, suggest
from .masking import SECRET_NAME
from .spans import MemberPath

_ARTICLES = {
    "string": "a string",
    "object": "a mapping",
    "array": "a list",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "null": "null",
}
_EMAIL, _URI, _PLAIN, _ENTITY = "a@b", "a:b", "a b", 'A::"b"'
# Characters that a pattern accepts -> the message. The first of each pair represents the set.
_PATTERNS: Mapping[frozenset[str], str] = {
    frozenset({_EMAIL}): "must be an e-mail address",
    frozenset({_URI}): "must be an absolute URI, as in `https://host/path`",
    frozenset({_EMAIL, _URI, _PLAIN, "ab", "AB", "a-b", "a_b"}): (
        "must not have HTML tags or control characters"
    ),
    frozenset({"ab", "a-b", "a_b"}): (
        "takes lower-case letters and digits, with single `-` or `_` between them"
    ),
    frozenset({"ab", "AB", "a_b"}): "takes letters, digits and `_`, and does not begin with a digit",
    frozenset({_EMAIL, _URI, "ab", "AB", "a-b", "a_b"}): (
        "must be a scope of visible ASCII characters, without spaces, double quotes, backslashes or `<>`"
    ),
    frozenset({_ENTITY}): 'must be the name of an entity, written as in policies: `Group::"staff"`',
}
_MEANT = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_NO_SPACE = re.compile(r"[A-Za-z_][\w-]*:\S")


class SchemaFinding(NamedTuple):
    """One schema error at a path of a document. `on_key` points at the member's name instead of its value."""

    path: MemberPath
    on_key: bool
    code: str
    message: str


def explain(error: Any, schema: Mapping[str, Any]) -> Iterator[SchemaFinding]:
    """One schema error as findings; of alternatives, those of the branch that was probably intended."""
    path: MemberPath = tuple(error.instance_path)
    kind, name = error.kind, error.kind.name
    if name == "additionalProperties":
        known = _properties(schema, error.schema_path)
        for member in kind.unexpected:
            yield SchemaFinding(
                (*path, member), True, "unknown-member", _unknown(member, path, known, schema)
            )
    elif name in ("anyOf", "oneOf"):
        yield from _explain_alternatives(error, schema, path)
    elif name == "enum":
        value = error.instance
        words = [str(option) for option in kind.options if option is not None]
        hint = suggest(value, words) or f"; it takes {_listed(words)}"
        yield SchemaFinding(
            path, False, "not-allowed", f"{_member(path)} cannot be {_shown(value, path)}{hint}"
        )
    elif name in ("minProperties", "maxProperties") and error.kind.limit == 1:
        known = _properties(schema, error.schema_path)
        number = "only one of" if name == "maxProperties" else "one of"
        yield SchemaFinding(path, True, "ambiguous", f"{_member(path)} takes {number} {_listed(known)}")
    else:
        yield SchemaFinding(path, *_simple(error, name, path))


def _unknown(member: str, path: MemberPath, known: Sequence[str], schema: Mapping[str, Any]) -> str:
    """The message about an unknown member."""
    name, colon, _ = member.partition(":")
    if colon and name in known:
        return f"a space is missing after `{name}:`"
    if member.startswith("//"):
        return "a comment begins with `#`, not with `//`"
    if odd := next((each for each in member if each.isspace() and each != " "), None):
        return (
            f"the name of this member has U+{ord(odd):04X} in it, which is not a space in "
            "YAML; replace it with an ASCII space"
        )
    hint = suggest(member, known)
    if not hint and len(places := list(_find(schema, member))) == 1:
        hint = f"; it belongs in `{'.'.join(places[0])}`"
    elif not hint and known:
        hint = f"; it takes {_listed(known)}"
    where = f" in {_member(path)}" if path else ""
    return f"unknown member `{bounded(member)}`{where}{hint}"


def _find(schema: Mapping[str, Any], member: str, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The mappings of a manifest that have a member of that name."""
    for name, below in schema.get("properties", {}).items():
        if name == member and at:
            yield at
        if isinstance(below, Mapping):
            yield from _find(below, member, (*at, name))


def _member(path: MemberPath) -> str:
    """A member for a message: its name, or which item of a list it is."""
    if not path:
        return "this"
    if isinstance(path[-1], str):
        return f"`{bounded(path[-1])}`"
    names = [each for each in path if isinstance(each, str)]
    return f"item {path[-1] + 1}" + (f" of `{bounded(names[-1])}`" if names else "")


def _simple(error: Any, name: str, path: MemberPath) -> tuple[bool, str, str]:
    """(on the key?, code, message) of an error that needs no search."""
    member, value = _member(path), error.instance
    if name == "required":
        where = f" in {member}" if path else ""
        return True, "missing", f"`{error.kind.property}` is missing{where}"
    if name == "type":
        return False, "wrong-type", wrong_type(member, _expected(error), value)
    if name == "const":
        return False, "not-allowed", f"{member} must be {_written(error.kind.expected_value)}"
    if name == "format":
        wanted = (
            "an absolute URI, as in `https://host/path`"
            if error.kind.format == "uri"
            else f"a valid {error.kind.format}"
        )
        return False, "wrong-format", f"{member} must be {wanted}"
    if name == "pattern":
        return False, "wrong-format", f"{member} {_pattern_text(error.kind.pattern)}"
    if name == "uniqueItems":
        twice = next(item for number, item in enumerate(value) if item in value[:number])
        return False, "repeated", f"{member} must not have `{bounded(str(twice))}` twice"
    if name in ("minLength", "minItems") and error.kind.limit == 1:
        return False, "empty", f"{member} must not be empty"
    if name == "maxLength":
        return False, "too-long", f"{member} takes at most {error.kind.limit} characters, not {len(value)}"
    if name in ("minimum", "maximum"):
        bound = "at least" if name == "minimum" else "at most"
        return False, "not-allowed", f"{member} must be {bound} {error.kind.limit}, not {_shown(value, path)}"
    return False, "invalid", f"{member} does not satisfy `{name}`"


def wrong_type(member: str, wanted: str, value: Any) -> str:
    """The message about a value of the wrong type, and how to correct it."""
    if value is None:
        return f"{member} has no value; it must be {wanted}"
    text = value.strip() if isinstance(value, str) else ""
    hint = ""
    if wanted == "a string" and isinstance(value, int | float):
        hint = "; put it in quotes"
    elif wanted == _ARTICLES["boolean"] and text.lower() in ("true", "false"):
        hint = "; write it without quotes"
    elif wanted == _ARTICLES["boolean"] and text.lower() in _MEANT:
        hint = f"; did you mean `{_MEANT[text.lower()]}`?"
    elif wanted == _ARTICLES["integer"] and text.isdecimal():
        hint = "; write it without quotes"
    elif wanted.startswith(_ARTICLES["object"]) and _NO_SPACE.match(text):
        hint = "; write a space after the `:`"
    elif wanted == _ARTICLES["array"] and text.startswith("-"):
        hint = "; write a space after the `-` of each item"
    found = "a fraction" if wanted == _ARTICLES["integer"] and isinstance(value, float) else type_of(value)
    return f"{member} must be {wanted}, not {found}{hint}"


def _pattern_text(pattern: str) -> str:
    """The description of a pattern, found by matching examples against it."""
    words = (_EMAIL, _URI, _PLAIN, "ab", "AB", "a-b", "a_b", "<b")
    taken = frozenset(each for each in words if re.search(pattern, each))
    if not taken and re.search(pattern, _ENTITY):
        taken = frozenset({_ENTITY})
    return _PATTERNS.get(taken, f"must match `{pattern}`")


def source_problem(name: str, schema: Mapping[str, Any], value: Any) -> str:
    """The problem with a member of a secret's source, without the value; empty when there is none."""
    member = f"`{name}`"
    if "const" in schema:
        return "" if value is schema["const"] else f"{member} must be {_written(schema['const'])}"
    if not isinstance(value, str):
        return wrong_type(member, _ARTICLES["string"], value)
    if len(value) < schema.get("minLength", 0):
        return f"{member} must not be empty"
    pattern = schema.get("pattern", "")
    return "" if re.search(pattern, value) else f"{member} {_pattern_text(pattern)}"


def _explain_alternatives(error: Any, schema: Mapping[str, Any], path: MemberPath) -> Iterator[SchemaFinding]:
    branches = [list(branch) for branch in error.kind.context]
    if any(not branch for branch in branches):  # an empty branch accepts any value
        choices = _required_choices(schema, error.schema_path)
        where = f" in {_member(path)}" if path else ""
        yield SchemaFinding(path, True, "ambiguous", f"only one of {_listed(choices)} may be given{where}")
        return
    if all(len(branch) == 1 and branch[0].kind.name == "required" for branch in branches) and branches:
        choices = [branch[0].kind.property for branch in branches]
        where = f" in {_member(path)}" if path else ""
        yield SchemaFinding(path, True, "missing", f"one of {_listed(choices)} is required{where}")
        return
    fitting = [branch for branch in branches if not _wrong_type(branch, path)]
    if not fitting:
        yield SchemaFinding(
            path, False, "wrong-type", wrong_type(_member(path), _expected_of(branches), error.instance)
        )
        return
    meant = [branch for branch in fitting if not any(_is_choice(each) for each in branch)] or fitting
    for each in min(meant, key=len):
        yield from explain(each, schema)


def _is_choice(error: Any) -> bool:
    return error.kind.name in ("const", "enum") and error.instance_path != []


def _wrong_type(branch: Sequence[Any], path: MemberPath) -> bool:
    return any(each.kind.name == "type" and tuple(each.instance_path) == path for each in branch)


def _expected_of(branches: Sequence[Sequence[Any]]) -> str:
    wanted: dict[str, None] = {}
    for branch in branches:
        for each in branch:
            if each.kind.name == "type":
                wanted[_expected(each)] = None
    words = [word for word in wanted if word != "null"] or ["something else"]
    return " or ".join(words)


def _expected(error: Any) -> str:
    types = error.kind.types
    names = [types] if isinstance(types, str) else list(types)
    return " or ".join(
        _ARTICLES.get(str(name), str(name)) for name in names if name != "null" or len(names) == 1
    )


def type_of(value: Any) -> str:
    """The type of a value, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "a string" if isinstance(value, str) else "a number"


def _shown(value: Any, path: MemberPath) -> str:
    """A value for a message; where it may be a secret, only its type."""
    secret = any(isinstance(each, str) and SECRET_NAME.search(each) for each in path)
    return _written(value) if isinstance(value, str | int | float) and not secret else type_of(value)


def _written(value: Any) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else bounded(str(value))}`"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _properties(schema: Mapping[str, Any], schema_path: Sequence[Any]) -> list[str]:
    """The members that the object schema behind an error declares."""
    return list(_schema_at(schema, schema_path[:-1]).get("properties", {}))


def _required_choices(schema: Mapping[str, Any], schema_path: Sequence[Any]) -> list[str]:
    branches = _schema_at(schema, schema_path[:-1]).get("oneOf", [])
    return [name for branch in branches for name in branch.get("required", [])]


def _schema_at(schema: Mapping[str, Any], steps: Sequence[Any]) -> Mapping[str, Any]:
    found: Any = schema
    for step in steps:
        if step == "$ref":
            found = follow(schema, found["$ref"])
        elif isinstance(found, list):
            found = found[int(step)]
        elif isinstance(found, dict) and step in found:
            found = found[step]
        else:
            return {}
    return found if isinstance(found, dict) else {}

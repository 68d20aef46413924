"""What is wrong with a document, in plain words, from what the schema's validator found."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reconciler.kinds.shapes import follow

from .diagnostics import suggest
from .yaml_reader import Path

SECRET_NAME = re.compile(r"secret|password|private_?key|token$", re.IGNORECASE)
_ARTICLES = {
    "string": "a string",
    "object": "a mapping",
    "array": "a list",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "null": "null",
}
_EMAIL, _URI, _PLAIN = "a@b", "a:b", "a b"


class Finding(NamedTuple):
    """Something wrong at a path of a document. `on_key` points at the member's name instead of its value."""

    path: Path
    on_key: bool
    code: str
    message: str


def explain(error: Any, schema: Mapping[str, Any]) -> Iterator[Finding]:
    """One schema error as findings; alternatives are searched for the one that was meant."""
    path: Path = tuple(error.instance_path)
    kind, name = error.kind, error.kind.name
    if name == "additionalProperties":
        known = _properties(schema, error.schema_path)
        for member in kind.unexpected:
            hint = suggest(member, known) or (f"; it takes {_listed(known)}" if known else "")
            where = f" in `{path[-1]}`" if path and isinstance(path[-1], str) else ""
            yield Finding((*path, member), True, "unknown-member", f"unknown member `{member}`{where}{hint}")
    elif name in ("anyOf", "oneOf"):
        yield from _explain_alternatives(error, schema, path)
    elif name == "enum":
        value = error.instance
        words = [str(option) for option in kind.options if option is not None]
        hint = suggest(value, words) or f"; it takes {_listed(words)}"
        yield Finding(path, False, "not-allowed", f"{_shown(value)} is not allowed here{hint}")
    else:
        yield Finding(path, *_simple(error, name, path))


def _simple(error: Any, name: str, path: Path) -> tuple[bool, str, str]:
    """(on the key?, code, message) of an error that needs no search."""
    member = f"`{path[-1]}`" if path and isinstance(path[-1], str) else "this"
    if name == "required":
        where = f" in {member}" if path else ""
        return True, "missing", f"`{error.kind.property}` is missing{where}"
    if name == "type":
        wanted = _expected(error)
        return False, "wrong-type", f"{member} must be {wanted}, not {type_of(error.instance)}"
    if name == "const":
        return False, "not-allowed", f"{member} must be `{error.kind.expected_value}`"
    if name == "format":
        wanted = "an absolute URI" if error.kind.format == "uri" else f"a valid {error.kind.format}"
        return False, "wrong-format", f"{member} must be {wanted}"
    if name == "pattern":
        return False, "wrong-format", f"{member} {_pattern_told(error.kind.pattern)}"
    if name == "maxProperties":
        return True, "ambiguous", f"{member} takes {_at_most(error.kind.limit)}"
    if name in ("minLength", "minItems", "minProperties") and error.kind.limit == 1:
        return False, "empty", f"{member} must not be empty"
    message = str(error.message)
    if SECRET_NAME.search(str(path[-1]) if path else ""):
        message = f"does not satisfy `{name}`"
    return False, "invalid", f"{member}: {message}"


def _pattern_told(pattern: str) -> str:
    """A pattern in words, as far as trying it shows what it is for."""
    taken = {each for each in (_EMAIL, _URI, _PLAIN, "ab", "<") if re.search(pattern, each)}
    if taken == {_EMAIL}:
        return "must be an e-mail address"
    if taken == {_URI}:
        return "must be an absolute URI"
    if taken == {_EMAIL, _URI, _PLAIN, "ab"}:
        return "must not have `<`, `>` or control characters"
    return f"must match `{pattern}`"


def _explain_alternatives(error: Any, schema: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    branches = [list(branch) for branch in error.kind.context]
    if any(not branch for branch in branches):  # several alternatives hold where one may
        choices = _required_choices(schema, error.schema_path)
        yield Finding(path, True, "ambiguous", f"only one of {_listed(choices)} may be given")
        return
    if all(len(branch) == 1 and branch[0].kind.name == "required" for branch in branches) and branches:
        choices = [branch[0].kind.property for branch in branches]
        yield Finding(path, True, "missing", f"one of {_listed(choices)} is required")
        return
    fitting = [branch for branch in branches if not _wrong_type(branch, path)]
    if not fitting:
        wanted = _expected_of(branches)
        member = f"`{path[-1]}`" if path and isinstance(path[-1], str) else "this"
        yield Finding(path, False, "wrong-type", f"{member} must be {wanted}, not {type_of(error.instance)}")
        return
    meant = [branch for branch in fitting if not any(_is_choice(each) for each in branch)] or fitting
    for each in min(meant, key=len):
        yield from explain(each, schema)


def _at_most(limit: int) -> str:
    return "only one member" if limit == 1 else f"at most {limit} members"


def _is_choice(error: Any) -> bool:
    return error.kind.name in ("const", "enum") and error.instance_path != []


def _wrong_type(branch: Sequence[Any], path: Path) -> bool:
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
    """What a value is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "a string" if isinstance(value, str) else "a number"


def _shown(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str | int | float) else type_of(value)


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

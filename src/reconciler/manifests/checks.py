"""Checks one document against its kind's schema, and says in plain words what is wrong where."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jsonschema_rs import Draft202012Validator

from reconciler.kinds import Kind, Kinds
from reconciler.kinds.reading import API_VERSION
from reconciler.kinds.shapes import follow

from .diagnostics import Diagnostic, diagnose, suggest
from .yaml_reader import Document, Path, Place, Span

_SECRET_NAME = re.compile(r"secret|password|private_?key|token$", re.IGNORECASE)
_ARTICLES = {
    "string": "a string",
    "object": "a mapping",
    "array": "a list",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "null": "null",
}


class Finding(NamedTuple):
    """Something wrong at a path of a document. `on_key` points at the member's name instead of its value."""

    path: Path
    on_key: bool
    code: str
    message: str


class Validators:
    """One compiled validator per kind."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self._compiled: dict[str, Draft202012Validator] = {}

    def of(self, kind: str) -> Draft202012Validator:
        """The validator of a kind, compiled when it is first needed."""
        validator = self._compiled.get(kind)
        if validator is None:
            schema = self.kinds.by_name[kind].schema
            validator = self._compiled[kind] = Draft202012Validator(dict(schema), validate_formats=True)
        return validator

    def is_valid(self, value: Any) -> bool:
        """Tell whether a document satisfies the schema of the kind it names."""
        if not isinstance(value, dict) or value.get("apiVersion") != API_VERSION:
            return False
        kind = value.get("kind")
        return isinstance(kind, str) and kind in self.kinds.by_name and bool(self.of(kind).is_valid(value))

    def findings(self, value: Any) -> list[Finding]:
        """Everything wrong with a document, in schema order."""
        if not isinstance(value, dict):
            return [Finding((), False, "not-a-manifest", f"expected a manifest, found {_type_of(value)}")]
        if opening := list(self._opening(value)):
            return opening
        kind = self.kinds.by_name[value["kind"]]
        literal = [
            Finding(("spec", *path), False, "literal-secret", _literal_secret(path[-1]))
            for path in kind.secrets
            if _is_literal(_at(value, ("spec", *path)))
        ]
        refused = {finding.path for finding in literal}
        found = list(literal)
        for error in self.of(kind.name).iter_errors(value):
            if tuple(error.instance_path) not in refused:
                found.extend(_explain(error, kind.schema))
        return _without_echoes(found) or [Finding((), False, "invalid", f"this is not a valid {kind.name}")]

    def _opening(self, value: Mapping[str, Any]) -> Iterator[Finding]:
        """What is wrong with `apiVersion` and `kind`; while they are, nothing else can be told."""
        version, kind = value.get("apiVersion"), value.get("kind")
        if version is None:
            hint = suggest("apiVersion", [name for name in value if isinstance(name, str)])
            yield Finding((), False, "missing", f"`apiVersion: {API_VERSION}` is missing{hint}")
        elif version != API_VERSION:
            yield Finding(("apiVersion",), False, "api-version", f"`apiVersion` must be `{API_VERSION}`")
        if kind is None:
            hint = suggest("kind", value)
            yield Finding((), False, "missing", f"`kind` is missing{hint}")
        elif not isinstance(kind, str) or kind not in self.kinds.by_name:
            known = self.kinds.by_name
            hint = suggest(kind, known) or f"; the kinds are {', '.join(f'`{name}`' for name in known)}"
            yield Finding(("kind",), False, "unknown-kind", f"unknown kind `{kind}`{hint}")


def _without_echoes(found: Sequence[Finding]) -> list[Finding]:
    """The findings without `x is missing` where a misspelt `x` is told already."""
    meant = {(each.path[:-1], each.message.rpartition("did you mean ")[2]) for each in found if each.on_key}
    return [
        each
        for each in found
        if each.code != "missing" or (each.path, each.message.partition(" ")[0] + "?") not in meant
    ]


def report_document(
    path: str, text: str, document: Document, findings: Iterable[Finding], kind: Kind | None
) -> list[Diagnostic]:
    """Findings with the places that the document (read with places) gives them."""
    hidden = secret_spans(document, kind)
    return [
        diagnose(
            path,
            text,
            find_span(document.places, each.path, on_key=each.on_key),
            each.code,
            each.message,
            hidden,
        )
        for each in findings
    ]


def find_span(places: Mapping[Path, Place], path: Path, *, on_key: bool) -> Span:
    """Where a path stands; the nearest parent when it does not stand anywhere itself."""
    while path and path not in places:
        path, on_key = path[:-1], True
    place = places.get(path)
    if place is None:
        return Span(0, 0, 0, 1)
    if place.key is not None and (on_key or place.value.end_line != place.value.line):
        return place.key
    if place.value.end_line != place.value.line:  # point at where it begins, not at all of it
        return Span(place.value.line, place.value.column, place.value.line, place.value.column + 1)
    return place.value


def secret_spans(document: Document, kind: Kind | None) -> list[Span]:
    """Where literal values stand that are, or by their name may be, secrets."""
    known = {("spec", *path) for path in kind.secrets} if kind else set()
    spans = []
    for path, place in document.places.items():
        name = path[-1] if path else None
        named = isinstance(name, str) and _SECRET_NAME.search(name)
        if (path in known or named) and _is_literal(_at(document.value, path)):
            spans.append(place.value)
    return spans


def _is_literal(value: Any) -> bool:
    return value is not None and not isinstance(value, dict | bool)


def _literal_secret(name: str | int) -> str:
    return (
        f"`{name}` is a secret and may not stand in git; "
        'say where it comes from, as in `{from_env: NAME, version: "1"}`, or `{keep: true}`'
    )


def _at(value: Any, path: Path) -> Any:
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _explain(error: Any, schema: Mapping[str, Any]) -> Iterator[Finding]:
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
        return False, "wrong-type", f"{member} must be {wanted}, not {_type_of(error.instance)}"
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
    if _SECRET_NAME.search(str(path[-1]) if path else ""):
        message = f"does not satisfy `{name}`"
    return False, "invalid", f"{member}: {message}"


# What the patterns of the schemas mean, by something that only that pattern takes or refuses.
_EMAIL, _URI, _PLAIN = "a@b", "a:b", "a b"


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
        yield Finding(path, False, "wrong-type", f"{member} must be {wanted}, not {_type_of(error.instance)}")
        return
    meant = [branch for branch in fitting if not any(_is_choice(each) for each in branch)] or fitting
    for each in min(meant, key=len):
        yield from _explain(each, schema)


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


def _type_of(value: Any) -> str:
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
    return f"`{value}`" if isinstance(value, str | int | float) else _type_of(value)


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

"""Checks one document against its kind's schema."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jsonschema_rs import Draft202012Validator

from reconciler.kinds import Kind, Kinds
from reconciler.kinds.loading import API_VERSION

from .diagnostics import bounded, closest, suggest
from .document_diagnostics import is_literal, value_at
from .schema_messages import SchemaFinding, explain, source_problem, wrong_type


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

    def is_valid(self, value: object) -> bool:
        """Tell whether a document satisfies the schema of the kind it names."""
        if not isinstance(value, dict) or value.get("apiVersion") != API_VERSION:
            return False
        kind = value.get("kind")
        return isinstance(kind, str) and kind in self.kinds.by_name and bool(self.of(kind).is_valid(value))

    def findings(self, value: object) -> list[SchemaFinding]:
        """Everything wrong with a document, in schema order."""
        if not isinstance(value, dict):
            wanted = "a mapping with `apiVersion` and `kind`"
            return [SchemaFinding((), False, "not-a-manifest", wrong_type("a manifest", wanted, value))]
        if opening := list(self._opening(value)):
            return opening
        kind = self.kinds.by_name[value["kind"]]
        secrets = [("spec", *path) for path in kind.secrets]
        literal = [
            SchemaFinding(path, False, "literal-secret", _literal_secret(path[-1]))
            for path in secrets
            if is_literal(value_at(value, path))
        ]
        found = [*literal, *_source_findings(kind, value)]
        reported = {finding.path for finding in found}
        for error in self.of(kind.name).iter_errors(value):
            path = tuple(error.instance_path)
            if not any(path[: len(each)] == each for each in secrets):
                found.extend(each for each in explain(error, kind.schema) if each.path not in reported)
        return _without_echoes(found) or [
            SchemaFinding((), False, "invalid", f"this is not a valid {kind.name}")
        ]

    def _opening(self, value: Mapping[str, object]) -> Iterator[SchemaFinding]:
        """Problems with `apiVersion` and `kind`; with these, the rest cannot be checked."""
        if "apiVersion" not in value:
            yield _missing(value, "apiVersion", f"apiVersion: {API_VERSION}")
        elif (version := value["apiVersion"]) != API_VERSION:
            found = f", not `{bounded(version)}`" if isinstance(version, str) else ""
            message = f"`apiVersion` must be `{API_VERSION}`{found}"
            yield SchemaFinding(("apiVersion",), False, "api-version", message)
            if isinstance(version, str) and version.partition("/")[0] != API_VERSION.partition("/")[0]:
                return  # the file belongs to another tool: its `apiVersion` is not ours
        if "kind" not in value:
            yield _missing(value, "kind", "kind", _kinds(sorted(self.kinds.by_name)))
        elif not isinstance(kind := value["kind"], str):
            yield SchemaFinding(("kind",), False, "wrong-type", wrong_type("`kind`", "a string", kind))
        elif kind not in self.kinds.by_name:
            known = sorted(self.kinds.by_name)
            hint = suggest(kind, known) or _kinds(known)
            strange = next((each for each in kind if each.isprintable() and not each.isascii()), None)
            if strange is not None:
                hint += f" (it has U+{ord(strange):04X} in it, which is not an ASCII letter)"
            yield SchemaFinding(("kind",), False, "unknown-kind", f"unknown kind `{bounded(kind)}`{hint}")


def _kinds(names: Sequence[str]) -> str:
    return f"; the kinds are {', '.join(f'`{name}`' for name in names)}"


def _missing(value: Mapping[str, object], name: str, written: str, hint: str = "") -> SchemaFinding:
    """A member that is needed is not there, or there under another name."""
    close = closest(name, value, cutoff=0.75)
    if close is None:
        return SchemaFinding((), False, "missing", f"`{written}` is missing{hint}")
    if close.startswith(f"{name}:"):
        return SchemaFinding((close,), True, "unknown-member", f"a space is missing after `{name}:`")
    return SchemaFinding(
        (close,), True, "unknown-member", f"unknown member `{close}`; did you mean `{name}`?"
    )


def _source_findings(kind: Kind, document: Mapping[str, object]) -> Iterator[SchemaFinding]:
    """Problems with the sources of secrets. Their values are not quoted, because they may be the secret."""
    for path in kind.secrets:
        at, member = ("spec", *path), path[-1]
        value = value_at(document, at)
        if not isinstance(value, dict):
            continue
        choices, schemas = _sources(kind, path)
        listed = ", ".join(f"`{name}`" for name in choices)
        for name in value:
            if name in schemas:
                if problem := source_problem(name, schemas[name], value[name]):
                    yield SchemaFinding((*at, name), False, "wrong-type", problem)
            elif (meant := closest(name, schemas, cutoff=0.75)) is not None:
                message = f"unknown member `{name}` in `{member}`; did you mean `{meant}`?"
                yield SchemaFinding((*at, name), True, "unknown-member", message)
            else:
                message = f"`{member}` must name the source of the secret: one of {listed}"
                yield SchemaFinding((*at, name), True, "unknown-member", message)
        given = [name for name in choices if name in value]
        if len(given) > 1:
            yield SchemaFinding(at, True, "ambiguous", f"`{member}` takes only one of {listed}")
        elif not given and not value.keys() - schemas.keys():
            yield SchemaFinding(at, True, "missing", f"one of {listed} is required in `{member}`")


def _sources(kind: Kind, path: Sequence[str]) -> tuple[list[str], dict[str, Mapping[str, Any]]]:
    """The sources that a secret can have, and the schemas of members allowed beside one."""
    schema: Mapping[str, Any] = kind.schema["properties"]["spec"]
    for name in path:
        schema = schema["properties"][name]
    branches = schema["oneOf"]
    members = {name: below for branch in branches for name, below in branch["properties"].items()}
    return [name for branch in branches for name in branch["required"]], members


def _without_echoes(found: Sequence[SchemaFinding]) -> list[SchemaFinding]:
    """The findings without duplicates: `x` is missing and misspelt; a type error inside alternatives."""
    written = {
        (each.path[:-1], each.message.rpartition("`")[0].rpartition("`")[2].removesuffix(":"))
        for each in found
        if each.on_key and each.code == "unknown-member"
    }
    chosen = {each.path for each in found if each.code == "not-allowed"}
    return [
        each
        for each in found
        if not (each.code == "missing" and (each.path, each.message.split("`")[1]) in written)
        and not (each.code == "wrong-type" and each.path in chosen)
    ]


def _literal_secret(name: str | int) -> str:
    return (
        f"`{name}` is a secret and must not be in git; "
        'name its source, as in `{from_env: NAME, version: "1"}`, or `{keep: true}`'
    )

"""Checks one document against its kind's schema."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jsonschema_rs import Draft202012Validator

from reconciler.kinds import Kinds
from reconciler.kinds.reading import API_VERSION

from .diagnostics import suggest
from .explaining import Finding, explain, type_of
from .placing import is_literal, value_at


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
            return [Finding((), False, "not-a-manifest", f"expected a manifest, found {type_of(value)}")]
        if opening := list(self._opening(value)):
            return opening
        kind = self.kinds.by_name[value["kind"]]
        literal = [
            Finding(("spec", *path), False, "literal-secret", _literal_secret(path[-1]))
            for path in kind.secrets
            if is_literal(value_at(value, ("spec", *path)))
        ]
        refused = {finding.path for finding in literal}
        found = list(literal)
        for error in self.of(kind.name).iter_errors(value):
            if tuple(error.instance_path) not in refused:
                found.extend(explain(error, kind.schema))
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


def _literal_secret(name: str | int) -> str:
    return (
        f"`{name}` is a secret and may not stand in git; "
        'say where it comes from, as in `{from_env: NAME, version: "1"}`, or `{keep: true}`'
    )

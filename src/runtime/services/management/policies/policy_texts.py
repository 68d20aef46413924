"""Policy texts: validated against a schema, formatted canonically, with digest."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

from runtime.adapters import cedar
from runtime.adapters.cedar import InvalidPolicy, PolicyProblem
from runtime.adapters.cedar_attributes import attribute_problems
from runtime.domain.errors import Problem, ValidationFailed
from runtime.domain.policy import schema


@dataclass(frozen=True, slots=True)
class CheckedPolicyText:
    """The two notations of a policy text, and the hex SHA-256 of the first.

    Attributes:
        as_json: None when the text is too deep for Cedar's JSON form.
    """

    raw: str
    as_json: Mapping[str, Any] | None
    sha: str


def _schema(version: str) -> cedar.Schema:
    return cedar.parse_schema(schema.get(version).text)


def require_schema(version: str) -> None:
    """Raise ValidationFailed for a version of the schema that was never published."""
    if version not in schema.VERSIONS:
        known = ", ".join(f"`{one}`" for one in schema.VERSIONS)
        raise ValidationFailed.of("schema_version", f"unknown schema version `{version}`; known: {known}")


def read(
    *,
    cedar_raw: str | None = None,
    cedar_json: Mapping[str, Any] | None = None,
    schema_version: str,
    field: str | None = None,
) -> CheckedPolicyText:
    """The text that a body gives in one of the two notations.

    Args:
        field: where problems are told to be; the member that holds the text when it is left out.
    Raises: ValidationFailed, with line and column of every problem.
    """
    require_schema(schema_version)
    field = field or ("cedar_raw" if cedar_raw is not None else "cedar_json")
    try:
        text = cedar_raw if cedar_raw is not None else cedar.from_json(cedar_json or {})
        if problems := _problems(text, schema_version):
            raise InvalidPolicy(problems)
        return _canonical(text)
    except InvalidPolicy as broken:
        raise ValidationFailed(
            f"`{field}`: {_told(broken.problems[0])}",
            problems=[Problem("validation_error", _told(problem), field) for problem in broken.problems],
        ) from None


def check(text: str, schema_version: str) -> bool:
    """Tell whether a stored text is valid under that version of the schema."""
    return not _problems(text, schema_version)


def _problems(text: str, schema_version: str) -> list[PolicyProblem]:
    return cedar.check(text, _schema(schema_version)) or attribute_problems(text, schema_version)


@lru_cache(maxsize=64)
def _canonical(text: str) -> CheckedPolicyText:
    """The text as it is kept: laid out, it is longer, and must be a text that can be read again."""
    formatted = cedar.format_text(text)
    if problems := cedar.measure(formatted):
        told = f"the formatted text exceeds a limit: {problems[0].message}"
        raise InvalidPolicy([PolicyProblem(told, 1, 1)])
    try:
        as_json: Mapping[str, Any] | None = cedar.to_json(formatted)
    except InvalidPolicy:
        as_json = None
    return CheckedPolicyText(formatted, as_json, sha256(formatted.encode()).hexdigest())


def _told(problem: PolicyProblem) -> str:
    return f"line {problem.line}, column {problem.column}: {problem.message}"

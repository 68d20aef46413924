"""Attributes in a policy that no type of the schema has: the engine accepts them in some places."""

from collections.abc import Iterator

from runtime.adapters import cedar
from runtime.adapters.cedar_tokenizer import (
    CedarToken,
    PolicyProblem,
    PolicyStatement,
    position,
    split,
    unescaped,
)
from runtime.domain.policy.unknown_attributes import known_attributes, unknown_attributes


def attribute_problems(text: str, version: str) -> list[PolicyProblem]:
    """The attributes in a valid text that nothing ever has.

    Args:
        version: of the schema.
    """
    statements = split(text)
    try:
        rules = cedar.to_json(text)["staticPolicies"]
    except cedar.InvalidPolicy:  # too deep for that form: an attribute of another type passes
        return [problem for statement in statements for problem in _after_has(statement, version)]
    problems = []
    for index, statement in enumerate(statements):
        for unknown in unknown_attributes(rules[f"policy{index}"], version):
            owner = " or ".join(f"`{each}`" for each in unknown.types)
            problems.append(_problem(statement, unknown.name, f"{owner} has no attribute `{unknown.name}`"))
    return sorted(problems, key=lambda problem: (problem.line, problem.column))


def _after_has(statement: PolicyStatement, version: str) -> Iterator[PolicyProblem]:
    known = known_attributes(version)
    for before, token in zip(statement.tokens, statement.tokens[1:], strict=False):
        if before.text == "has" and (name := _name(token)) not in known:
            yield _problem(statement, name, f"no entity type has an attribute `{name}`")


def _problem(statement: PolicyStatement, name: str, message: str) -> PolicyProblem:
    for before, token in zip(statement.tokens, statement.tokens[1:], strict=False):
        if before.text in ("has", ".", "[") and _name(token) == name:
            return PolicyProblem(message, *position(statement.source, token.offset))
    return PolicyProblem(message, *statement.start)


def _name(token: CedarToken) -> str:
    return unescaped(token.text) if token.kind == "string" else token.text

"""The policy engine (Cedar): parses, validates and evaluates policies; a policy set is compiled once.

Text from outside is measured before the engine reads it, because its parser recurses: a few thousand
brackets would take the process down.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import cedarpy
import orjson
from cachetools import LRUCache

from runtime.adapters.cedar_positions import ErrorLocator
from runtime.adapters.cedar_tokenizer import PolicyProblem, PolicyStatement, locate, measure, split
from runtime.domain.policy.context_usage import UNKNOWN, ContextUsage, context_usage
from runtime.domain.policy.requests import PolicyRequest, reference

__all__ = [
    "CompiledPolicies",
    "InvalidPolicy",
    "PolicyDecision",
    "PolicyProblem",
    "PolicyRule",
    "Schema",
    "check",
    "compile_policies",
    "decide",
    "format_text",
    "from_json",
    "measure",
    "parse_rules",
    "parse_schema",
    "to_json",
]

Schema = cedarpy.Schema

_SLICE_ABOVE = 300  # policies in a set, from which on only those that can concern the resource are evaluated
_KEPT_SLICES = 512
# Characters of JSON, of which one takes twenty bytes parsed: larger ones are parsed for each question.
_KEPT_SIZE = 2_048


class InvalidPolicy(Exception):
    """The text is not a policy the engine accepts; `problems` says where."""

    def __init__(self, problems: Sequence[PolicyProblem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """What the engine said.

    Attributes:
        determining: names of the rules that decided, `<policy version id>#<@id, or position from 0>`.
        errors: what went wrong while evaluating; any error makes the decision a denial.
    """

    allowed: bool
    determining: tuple[str, ...]
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One `permit` or `forbid` of a policy.

    Attributes:
        name: its `@id`, or its position from 0; the only one of that name in its policy.
        reads: what of a request it looks at.
    """

    name: str
    text: str
    reads: ContextUsage


@dataclass(slots=True)
class CompiledPolicies:
    """A set of policies ready to be asked; immutable but for the slices it remembers."""

    schema: Schema
    _rules: tuple[PolicyRule, ...]
    _by_resource: Mapping[str, tuple[int, ...]]
    _slices: "LRUCache[str, _Slice]" = field(default_factory=lambda: LRUCache(_KEPT_SLICES))

    def __len__(self) -> int:
        return len(self._rules)

    def for_resource(self, resource_id: str) -> "_Slice":
        """The rules that can concern that resource, parsed."""
        key = resource_id if resource_id in self._by_resource else ""
        if (found := self._slices.get(key)) is not None:
            return found
        wanted = self._by_resource[key] if key else ()
        general = self._by_resource[""]
        made = _parse_slice([self._rules[index] for index in sorted((*general, *wanted))])
        self._slices[key] = made
        return made


@dataclass(frozen=True, slots=True)
class _Slice:
    names: tuple[str, ...]
    policies: cedarpy.PolicySet


@lru_cache(maxsize=16)
def parse_schema(text: str) -> Schema:
    """A schema from its text: the same one for the same text, since entities are kept by it.

    Raises ValueError.
    """
    return cedarpy.Schema.from_str(text)


def parse_rules(text: str) -> tuple[PolicyRule, ...]:
    """The rules of one policy, which was checked before it was stored.

    Takes half a second for a quarter of a megabyte. Raises InvalidPolicy.
    """
    if problems := measure(text):
        raise InvalidPolicy(problems)
    statements = split(text)
    if isinstance(parsed := _parse(text), str):
        raise InvalidPolicy([locate(parsed, statements, _parse_error)])
    if len(statements) != len(parsed):
        raise InvalidPolicy(
            [PolicyProblem("the text has a template, or could not be split into policies", 1, 1)]
        )
    rules: dict[str, PolicyRule] = {}
    for position, statement in enumerate(statements):
        described = _described(statement.text)
        name = described.get("annotations", {}).get("id") or str(position)
        if name in rules:
            name = f"{name}.{position}"
        reads = context_usage(described) if described else UNKNOWN
        rules[name] = PolicyRule(name, statement.text, reads)
    return tuple(rules.values())


def compile_policies(policies: Mapping[str, Sequence[PolicyRule]], schema: Schema) -> CompiledPolicies:
    """Put the rules of policies together.

    Args:
        policies: by policy version id; each was checked against the schema.
    """
    rules = tuple(
        replace(rule, name=f"{version_id}#{rule.name}")
        for version_id, parsed in policies.items()
        for rule in parsed
    )
    by_resource = {"": tuple(range(len(rules)))} if len(rules) <= _SLICE_ABOVE else _index(rules)
    compiled = CompiledPolicies(schema, rules, by_resource)
    compiled.for_resource("")
    return compiled


def check(text: str, schema: Schema) -> list[PolicyProblem]:
    """What is wrong with a policy text, strict validation included; empty when it may be used."""
    if problems := measure(text):
        return problems
    statements = split(text)
    if isinstance(parsed := _parse(text), str):
        return [locate(parsed, statements, _parse_error)]
    if not statements:
        return [PolicyProblem("the text holds no policy", 1, 1)]
    if problems := [
        PolicyProblem("templates are not supported: name an entity instead of the slot", *statement.start)
        for statement in statements
        if statement.has_slot
    ]:
        return problems
    if problems := [
        PolicyProblem("`unknown` never has a value, so the rule fails: leave it out", *place)
        for statement in statements
        for place in statement.unknowns
    ]:
        return problems
    by_position = {f"policy{index}": statement for index, statement in enumerate(statements)}
    places = ErrorLocator(
        lambda part: [each.error for each in cedarpy.validate_policies(part, schema).errors]
    )
    found = []
    for error in cedarpy.validate_policies(text, schema).errors:
        statement = by_position.get(error.policy_id)
        where = statements if statement is None else [places.narrow(statement, error.error)]
        found.append(locate(error.error, where))
    return found + _repeated_names(text, statements)


def format_text(text: str) -> str:
    """The text in Cedar's own layout. Raises InvalidPolicy."""
    _require_readable(text)
    try:
        return cedarpy.format_policies(text)
    except ValueError as failure:
        raise InvalidPolicy([locate(str(failure), split(text))]) from failure


def to_json(text: str) -> dict[str, Any]:
    """The policies in Cedar's JSON form.

    Raises InvalidPolicy, also for expressions too deep for that form.
    """
    _require_readable(text)
    try:
        converted: dict[str, Any] = orjson.loads(cedarpy.policies_to_json_str(text))
    except ValueError as failure:
        raise InvalidPolicy([locate(str(failure), split(text))]) from failure
    return converted


def from_json(policies: Mapping[str, Any]) -> str:
    """The text of a policy set, or of one policy, in Cedar's JSON form. Raises InvalidPolicy."""
    if "effect" in policies:  # what every policy has, and no set of them
        policies = {"staticPolicies": {"policy0": policies}, "templates": {}, "templateLinks": []}
    try:
        return cedarpy.policies_from_json_str(orjson.dumps(policies).decode())
    except (ValueError, TypeError) as failure:
        raise InvalidPolicy([PolicyProblem(str(failure), 1, 1)]) from failure


def decide(compiled: CompiledPolicies, request: PolicyRequest) -> PolicyDecision:
    """Ask the engine. Deny wins; no permit is a denial, and so is any error, of a rule or of the request."""
    asked = compiled.for_resource(request.resource_id)
    try:
        entities = _entities(request, compiled.schema)
    except ValueError as failure:
        return PolicyDecision(False, (), (str(failure),))
    answer = cedarpy.is_authorized(
        {
            "principal": reference(request.principal_type, request.principal_id),
            "action": reference("Action", request.action),
            "resource": reference("Resource", request.resource_id),
            "context": orjson.dumps(request.context).decode(),
        },
        asked.policies,
        entities,
        compiled.schema,
    )
    errors = tuple(_rename(error, asked.names) for error in answer.diagnostics.errors)
    determining = tuple(sorted(asked.names[_position(reason)] for reason in answer.diagnostics.reasons))
    return PolicyDecision(answer.allowed and not errors, determining, errors)


def _entities(request: PolicyRequest, schema: Schema) -> cedarpy.Entities:
    """What the request is about. Raises ValueError for what the schema does not have."""
    text = orjson.dumps(request.common_entities).decode()
    parse = _parsed if len(text) <= _KEPT_SIZE else _parsed.__wrapped__
    common = parse(text, schema)
    if not request.user_entities:
        return common
    return common.with_added_json_str(orjson.dumps(request.user_entities).decode(), schema)


@lru_cache(maxsize=512)
def _parsed(entities: str, schema: Schema) -> cedarpy.Entities:
    return cedarpy.Entities.from_json_str(entities, schema)


def _parse(text: str) -> cedarpy.PolicySet | str:
    """The parsed policies, or why they are none."""
    try:
        return cedarpy.PolicySet.from_str(text)
    except ValueError as failure:
        return str(failure)


def _parse_error(text: str) -> str | None:
    parsed = _parse(text)
    return parsed if isinstance(parsed, str) else None


def _require_readable(text: str) -> None:
    if problems := measure(text) or (
        [locate(error, split(text), _parse_error)] if (error := _parse_error(text)) else []
    ):
        raise InvalidPolicy(problems)


def _described(text: str) -> dict[str, Any]:
    """One policy in JSON form, or nothing when it is too deep for that: then it has no name of its own."""
    try:
        described: dict[str, Any] = orjson.loads(cedarpy.policies_to_json_str(text))["staticPolicies"][
            "policy0"
        ]
    except ValueError:
        return {}
    return described


def _index(rules: Sequence[PolicyRule]) -> dict[str, tuple[int, ...]]:
    """Resource id -> positions of the rules that name it; under the empty text those that name none."""
    index: dict[str, list[int]] = {"": []}
    for position, rule in enumerate(rules):
        index.setdefault(rule.reads.resource_id or "", []).append(position)
    return {resource_id: tuple(positions) for resource_id, positions in index.items()}


def _parse_slice(rules: Sequence[PolicyRule]) -> _Slice:
    """Parse rules together. Each has parsed by itself before, so none can reach into its neighbour."""
    text = "\n".join(rule.text for rule in rules)
    return _Slice(tuple(rule.name for rule in rules), cedarpy.PolicySet.from_str(text))


def _repeated_names(text: str, statements: Sequence[PolicyStatement]) -> list[PolicyProblem]:
    seen: set[str] = set()
    problems: list[PolicyProblem] = []
    for statement in statements:
        name = _described(statement.text).get("annotations", {}).get("id")
        if name and name in seen:
            problems.append(PolicyProblem(f"two rules are named `{name}`", *statement.start))
        seen.add(name or "")
    return problems


def _position(policy_id: str) -> int:
    """The engine numbers policies in the order of the text: `policy0`, `policy1`, ..."""
    return int(policy_id.removeprefix("policy"))


def _rename(error: str, names: Sequence[str]) -> str:
    """The engine's message with the rule's own name in place of its number."""
    before, tick, rest = error.partition("`policy")
    number, closing, after = rest.partition("`")
    if not tick or not closing or not number.isdecimal() or int(number) >= len(names):
        return error
    return f"{before}`{names[int(number)]}`{after}"

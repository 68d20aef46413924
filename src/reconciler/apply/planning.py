"""Makes a plan from files and a server: one snapshot, and one dry run when there is something to do."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import reconciler
from reconciler.client import Api, Rejected
from reconciler.kinds import Kinds
from reconciler.manifests import Configuration
from reconciler.manifests.sources import describe_commit
from reconciler.plan import Plan, build_plan

_OPERATION = re.compile(r"operations\[(\d+)\]\.?(.*)")


@dataclass(frozen=True, slots=True)
class Problem:
    """What the server has against an operation, with the manifest it came from."""

    reason: str
    title: str
    field: str
    message: str

    def __str__(self) -> str:
        about = " ".join(each for each in (self.title, f"`{self.field}`" if self.field else "") if each)
        return ": ".join(each for each in (self.reason, about, self.message) if each)


def make_plan(api: Api, configuration: Configuration, kinds: Kinds, *, owner: str, server: str) -> Plan:
    """The plan from one snapshot. Raises ApiError, PlanImpossible."""
    return build_plan(
        configuration.manifests,
        api.snapshot(),
        kinds,
        owner=owner,
        tool_version=reconciler.__version__,
        server=server,
        source=describe_commit(configuration.source),
    )


def try_plan(api: Api, plan: Plan) -> None:
    """Let the server check the plan against its own rules; nothing is applied. Raises ApiError."""
    api.dry_run(changeset(plan, [_without_secrets(operation) for operation in plan.operations]))


def changeset(plan: Plan, operations: list[dict[str, Any]]) -> dict[str, Any]:
    """The body that carries a plan out."""
    return {
        "base_revision": plan.base_revision,
        "owner": plan.owner,
        "plan_digest": plan.digest,
        "source": dict(plan.source),
        "operations": operations,
    }


def _without_secrets(operation: Mapping[str, Any]) -> dict[str, Any]:
    return (
        {**operation, "spec": replace_secrets(operation["spec"], lambda _: {"secret": True})}
        if ("spec" in operation)
        else dict(operation)
    )


def replace_secrets(value: Any, put: Any) -> Any:
    """A copy of a spec with every `{"secret": reference}` replaced by what *put* makes of the reference."""
    if isinstance(value, dict):
        if value.keys() == {"secret"} and isinstance(value["secret"], dict):
            return put(value["secret"])
        return {name: replace_secrets(each, put) for name, each in value.items()}
    if isinstance(value, list):
        return [replace_secrets(each, put) for each in value]
    return value


def explain_rejection(error: Rejected, plan: Plan) -> list[Problem]:
    """The server's objections, each with the manifest that its operation came from."""
    reasons = {(action.kind, action.name, action.id): action for action in plan.actions}
    found = list(_problems(error, plan, reasons))
    return found or [Problem("", "", "", error.message)]


def _problems(error: Rejected, plan: Plan, reasons: Mapping[Any, Any]) -> Iterator[Problem]:
    for detail in error.details:
        message = str(detail.get("message", error.message))
        field = str(detail.get("field") or "")
        match = _OPERATION.match(field)
        if match is None or int(match[1]) >= len(plan.operations):
            yield Problem("", "", field, message)
            continue
        operation = plan.operations[int(match[1])]
        name, kind = operation.get("name"), operation["kind"]
        action = reasons.get((kind, name, operation.get("id"))) or next(
            (each for each in plan.actions if each.kind == kind and name in (each.name, None)), None
        )
        title = action.title if action else f"{kind} {name or operation.get('id')}"
        yield Problem(action.reason if action else "", title, match[2].removeprefix("spec."), message)

"""Makes a plan from a configuration and a server: one snapshot, and a dry run of the changeset."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import reconciler
from reconciler.client import Api, Conflicting, Rejected
from reconciler.client.api import Progress
from reconciler.kinds import Kinds, Snapshot
from reconciler.manifests import Configuration
from reconciler.manifests.diagnostics import suggest
from reconciler.manifests.member_locator import MemberLocator
from reconciler.manifests.source_files import describe_commit
from reconciler.plan import Action, Cascade, Cascades, Plan, build_plan
from reconciler.plan.model import Op
from reconciler.server_problems import ServerProblem, ServerRejection

from .one_time_secrets import file_with_secret

_PLACE = re.compile(r"line (\d+), column (\d+): ")
_ZONE = "Zone"
_OPERATION = re.compile(r"operations\[(\d+)\]\.?(.*)")


@dataclass(frozen=True)
class DryRunResult:
    """The server's answer to a dry run: its rejection, or the cascades of deletions.

    `cascades` is None when it was not asked, or refused the plan before it counted.
    """

    rejection: ServerRejection | None = None
    cascades: Cascades | None = None


def make_plan(
    api: Api,
    configuration: Configuration,
    kinds: Kinds,
    *,
    owner: str,
    server: str,
    budgets: Mapping[str, int | str] | None = None,
    renew: bool = False,
    secrets_directory: Path | None = None,
) -> Plan:
    """The plan from one snapshot. Raises ApiError, PlanImpossible.

    Args:
        renew: replace what has a secret that never arrived.
        secrets_directory: where secrets are that did.
    """
    snapshot = _snapshot(api, configuration, owner)

    def is_lost(action: Action) -> bool:
        return renew and (
            secrets_directory is None
            or file_with_secret(snapshot.organization_id, action, secrets_directory) is None
        )

    return build_plan(
        configuration.manifests,
        snapshot,
        kinds,
        owner=owner,
        tool_version=reconciler.__version__,
        server=server,
        source=describe_commit(configuration.source),
        budgets=budgets,
        renew=is_lost,
        zones=configuration.zones,
        hint=suggest,
    )


def _snapshot(api: Api, configuration: Configuration, owner: str) -> Snapshot:
    """What has to do with the configuration; where somebody else has its zones, what is in those, too."""
    found = api.snapshot(owner, configuration.zones)
    own = {manifest.name for manifest in configuration.manifests if manifest.kind.name == _ZONE}
    others = {
        record.name
        for zone in found.entities
        if zone.kind == _ZONE
        and (record := zone.ownership) is not None
        and record.owner != owner
        and record.name in own
    }
    return api.snapshot(owner, others.union(configuration.zones)) if others else found


def dry_run_plan(
    api: Api,
    plan: Plan,
    configuration: Configuration | None = None,
    *,
    progress: Progress | None = None,
) -> DryRunResult:
    """Let the server check the plan against its own rules; nothing is applied. Raises ApiError.

    Args:
        configuration: what the plan was made from, to say where in it something is wrong.
        progress: called with operations done and all operations.
    """
    operations = [_without_secrets(operation) for operation in plan.operations]
    try:
        done = api.dry_run(changeset(plan, operations), progress)
    except Rejected as error:
        if not error.about_body:
            raise
        return DryRunResult(server_rejection(error, plan, configuration))
    return DryRunResult(cascades=_cascades(done.body))


def _cascades(body: Mapping[str, Any]) -> Cascades:
    return {
        (result["kind"], result["id"]): Cascade(result.get("takes_along") or {}, result.get("in_use") is True)
        for result in body.get("operations", [])
        if result["op"] == "delete"
    }


def server_rejection(
    error: Rejected, plan: Plan, configuration: Configuration | None = None
) -> ServerRejection:
    """A refusal of the server in words, with the manifests that it is about."""
    problems = tuple(server_problems(error, plan, configuration))
    if isinstance(error, Conflicting):
        return ServerRejection(_stale(problems, plan), problems, stale=True)
    message = f"the server refuses the plan ({error.code}); nothing was changed"
    return ServerRejection(message, problems, stale=False)


def _stale(problems: Sequence[ServerProblem], plan: Plan) -> str:
    """What has changed since a plan was made, and what to do."""
    first, *more = problems
    what = f"{first.message} ({first.reason})" if first.reason else first.message
    if more:
        what = f"{len(problems)} objects have changed since it was made, at revision {plan.base_revision}"
    return f"the plan is stale: {what}; nothing was applied: plan again"


def changeset(plan: Plan, operations: list[dict[str, Any]]) -> dict[str, Any]:
    """The body that carries a plan out."""
    return {
        "base_revision": plan.base_revision,
        "owner": plan.owner,
        "plan_digest": plan.idempotency_key,
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


def server_problems(
    error: Rejected, plan: Plan, configuration: Configuration | None = None
) -> list[ServerProblem]:
    """The server's objections, each with the manifest that its operation came from."""
    locator = MemberLocator(configuration) if configuration is not None else None
    found = list(_problems(error, plan, locator))
    return found or [ServerProblem("", "", "", error.message, error.code)]


def _problems(error: Rejected, plan: Plan, locator: MemberLocator | None) -> Iterator[ServerProblem]:
    actions = actions_by_operation(plan)
    for detail in error.details:
        message, code = str(detail.get("message", error.message)), str(detail.get("code") or error.code)
        field = str(detail.get("field") or "")
        match = _OPERATION.match(field)
        if match is None or int(match[1]) >= len(plan.operations):
            yield ServerProblem("", "", field, message, code)
            continue
        operation, action = plan.operations[int(match[1])], actions.get(int(match[1]))
        member = match[2].removeprefix("spec").removeprefix(".")
        if action is None:
            yield ServerProblem(
                "",
                f"{operation['kind']} {operation.get('name') or operation.get('id')}",
                member,
                message,
                code,
            )
            continue
        yield _placed(ServerProblem(action.reason, action.title, member, message, code), action, locator)


def _placed(problem: ServerProblem, action: Action, locator: MemberLocator | None) -> ServerProblem:
    """The problem with its place in the manifest, or in the file of the text that the server tells of."""
    if locator is None:
        return problem
    within, told = None, problem
    if (match := _PLACE.match(problem.message)) is not None:
        within = int(match[1]), int(match[2])
        told = replace(problem, message=problem.message[match.end() :])
    place = locator.find(
        action.kind,
        action.zone,
        action.name,
        problem.field,
        code=problem.code,
        message=told.told,
        within=within,
    )
    return replace(told if place is not None else problem, diagnostic=place)


def actions_by_operation(plan: Plan) -> dict[int, Action]:
    """Index of an operation -> the action that tells about it; what only makes way for another has none.

    Operations that create something are in the order of their actions; all others name what they are about.
    """
    by_id = {(action.kind, action.id): action for action in plan.actions if action.id is not None}
    creating = iter([action for action in plan.actions if action.op in (Op.CREATE, Op.REPLACE)])
    by_local_id: dict[str, Action | None] = {}
    found: dict[int, Action | None] = {}
    for index, operation in enumerate(plan.operations):
        if operation["op"] == "create":
            by_local_id[operation["local_id"]] = found[index] = next(creating, None)
        elif "local_id" in operation:
            found[index] = by_local_id.get(operation["local_id"])
        else:
            found[index] = by_id.get((operation["kind"], operation["id"]))
    return {index: action for index, action in found.items() if action is not None}

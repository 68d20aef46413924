"""Maps a rejection by the server back to the actions of the plan, and to the manifests they come from."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from reconciler.client import Conflicting, Rejected
from reconciler.manifests import Configuration
from reconciler.manifests.member_locator import MemberLocator
from reconciler.plan import Action, Plan
from reconciler.plan.model import Op
from reconciler.server_problems import ServerProblem, ServerRejection

_PLACE = re.compile(r"line (\d+), column (\d+): ")
_OPERATION = re.compile(r"operations\[(\d+)\]\.?(.*)")


def server_rejection(
    error: Rejected, plan: Plan, configuration: Configuration | None = None
) -> ServerRejection:
    """The rejection as a message, with its problems and the manifests that they concern."""
    problems = tuple(server_problems(error, plan, configuration))
    if isinstance(error, Conflicting):
        return ServerRejection(_stale(problems, plan), problems, stale=True)
    message = f"the server refuses the plan ({error.code}); nothing was changed"
    return ServerRejection(message, problems, stale=False)


def _stale(problems: Sequence[ServerProblem], plan: Plan) -> str:
    """The message for a plan that is stale: which object has changed since, and what to do."""
    first, *more = problems
    what = f"{first.message} ({first.reason})" if first.reason else first.message
    if more:
        what = f"{len(problems)} objects have changed since it was made, at revision {plan.base_revision}"
    return f"the plan is stale: {what}; nothing was applied: plan again"


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
    """The problem with its place in the manifest, or in the policy file."""
    if locator is None:
        return problem
    within, located = None, problem
    if (match := _PLACE.match(problem.message)) is not None:
        within = int(match[1]), int(match[2])
        located = replace(problem, message=problem.message[match.end() :])
    place = locator.find(
        action.kind,
        action.zone,
        action.name,
        problem.field,
        code=problem.code,
        message=located.description,
        within=within,
    )
    return replace(located if place is not None else problem, diagnostic=place)


def actions_by_operation(plan: Plan) -> dict[int, Action]:
    """Index of an operation -> the action that describes it; the deletion of a replacement has none.

    Operations that create something are in the order of their actions; all others have the id of their
    object.
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

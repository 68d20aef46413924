"""Sends a plan's changeset as a dry run: the server checks it, foresees its effects and changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reconciler.client import Api, NotReached, Rejected
from reconciler.client.api import Progress
from reconciler.manifests import Configuration
from reconciler.plan import Cascade, Cascades, Plan, ZoneDecisionImpact
from reconciler.server_problems import ServerRejection

from .changeset_body import changeset_body, replace_secrets
from .rejections import server_rejection


@dataclass(frozen=True)
class DryRunResult:
    """The server's answer to a dry run: its rejection, or the effects that it foresees.

    `cascades`, of deletions, is None without a dry run, or when the server refused the plan before it counted
    them. `decision_impact` is None in these cases, too, and where nothing in the plan affects decisions, the
    caller may not read them, or the server is too old to tell.
    """

    rejection: ServerRejection | None = None
    cascades: Cascades | None = None
    decision_impact: tuple[ZoneDecisionImpact, ...] | None = None


def dry_run_plan(
    api: Api,
    plan: Plan,
    configuration: Configuration | None = None,
    *,
    request_examples: bool = True,
    progress: Progress | None = None,
) -> DryRunResult:
    """Let the server check the plan against its own rules; nothing is applied. Raises ApiError.

    Args:
        configuration: of the plan, so that rejections name the place in a manifest.
        request_examples: the decision impact names users and requests; otherwise it only counts them.
        progress: called with operations done and all operations.
    """
    operations = [_without_secrets(operation) for operation in plan.operations]
    try:
        done = api.dry_run(changeset_body(plan, operations), progress)
    except Rejected as error:
        if not error.about_body:
            raise
        return DryRunResult(server_rejection(error, plan, configuration))
    decisions = _decision_impact(done.body, plan, datetime.now(UTC))
    if decisions is not None and not request_examples:
        decisions = tuple(each.without_examples() for each in decisions)
    return DryRunResult(cascades=_cascades(done.body), decision_impact=decisions)


def _cascades(body: Mapping[str, Any]) -> Cascades:
    return {
        (result["kind"], result["id"]): Cascade(result.get("takes_along") or {}, result.get("in_use") is True)
        for result in body.get("operations", [])
        if result["op"] == "delete"
    }


def _decision_impact(
    body: Mapping[str, Any], plan: Plan, now: datetime
) -> tuple[ZoneDecisionImpact, ...] | None:
    """Raises NotReached where it cannot be read: a plan without it would seem to change no decision."""
    found = body.get("decision_impact")
    if found is None:
        return None
    try:
        return tuple(ZoneDecisionImpact.read(each, plan.zone_names, now) for each in found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"the `decision_impact` of the server's answer cannot be read ({error})"
        raise NotReached(f"{message}; install the version of zonectl that belongs to the server") from error


def _without_secrets(operation: Mapping[str, object]) -> dict[str, Any]:
    return (
        {**operation, "spec": replace_secrets(operation["spec"], lambda _: {"secret": True})}
        if ("spec" in operation)
        else dict(operation)
    )

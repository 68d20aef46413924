"""Sends a plan's changeset as a dry run: the server checks it, counts cascades and changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.client import Api, Rejected
from reconciler.client.api import Progress
from reconciler.manifests import Configuration
from reconciler.plan import Cascade, Cascades, Plan
from reconciler.server_problems import ServerRejection

from .changeset_body import changeset_body, replace_secrets
from .rejections import server_rejection


@dataclass(frozen=True)
class DryRunResult:
    """The server's answer to a dry run: its rejection, or the cascades of deletions.

    `cascades` is None without a dry run, or when the server refused the plan before it counted them.
    """

    rejection: ServerRejection | None = None
    cascades: Cascades | None = None


def dry_run_plan(
    api: Api,
    plan: Plan,
    configuration: Configuration | None = None,
    *,
    progress: Progress | None = None,
) -> DryRunResult:
    """Let the server check the plan against its own rules; nothing is applied. Raises ApiError.

    Args:
        configuration: of the plan, so that rejections name the place in a manifest.
        progress: called with operations done and all operations.
    """
    operations = [_without_secrets(operation) for operation in plan.operations]
    try:
        done = api.dry_run(changeset_body(plan, operations), progress)
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


def _without_secrets(operation: Mapping[str, object]) -> dict[str, Any]:
    return (
        {**operation, "spec": replace_secrets(operation["spec"], lambda _: {"secret": True})}
        if ("spec" in operation)
        else dict(operation)
    )

"""`zonectl apply PLAN.json`: verifies a saved plan against the server, then applies exactly it."""

from collections.abc import Sequence
from pathlib import Path

from reconciler.apply import DryRunResult, dry_run_plan
from reconciler.client import ConfiguredServer
from reconciler.configuration_settings import OwnerRefused, named_owner, require_owner
from reconciler.exit_codes import FAILED, REFUSED, CommandFailed
from reconciler.files import Root, read_named
from reconciler.kinds import Snapshot
from reconciler.manifests.source_files import SourceError, find_root
from reconciler.plan import (
    Plan,
    Refusal,
    misidentified_objects,
    read_plan,
    saved_plan_discrepancies,
    with_server_facts,
    zone_ids_of,
)
from reconciler.plan.guards import ALWAYS_REFUSED, INCONSISTENT
from reconciler.plan.saved_plan import PlanUnreadable
from reconciler.report.plans import plan_lines
from reconciler.terminal import print_lines

from .changeset import check_expected_digest, raise_if_refused, send_plan
from .context import connect, open_api
from .options import Options, check_output_paths, find_refusals, secret_sources


def apply_saved_plan(path: Path, options: Options) -> None:
    """Apply the plan in this file after it was verified against the server. Raises CommandFailed."""
    try:
        root = Root(options.get("root") or find_root([Path.cwd()]))
        plan = read_plan(read_named(path))
    except (OSError, PlanUnreadable, SourceError) as error:
        raise CommandFailed(FAILED, f"{path}: {error}") from error
    check_output_paths(options, root)
    try:
        require_owner(named_owner(options.get("owner")), plan.owner, f"the saved plan `{path}`")
    except OwnerRefused as error:
        raise CommandFailed(REFUSED, str(error)) from error
    check_expected_digest(plan, options)
    connection = connect(
        options, root, ConfiguredServer(plan.server, f"the saved plan `{path}`"), plan.organization_id
    )
    if connection.server != plan.server:
        raise CommandFailed(REFUSED, f"the plan was made for {plan.server}, not for {connection.server}")
    sources = secret_sources(root, options, connection)
    # A forged plan is refused before anything of it is printed.
    refusals = find_refusals(plan, options, sources, applies=True)
    raise_if_refused(
        plan, [each for each in refusals if each.code in (INCONSISTENT, ALWAYS_REFUSED)], DryRunResult()
    )
    with open_api(connection, root, writes=True) as api:
        plan = _verified(plan, api.snapshot(plan.owner, zone_ids_of(plan)))
        refusals = find_refusals(plan, options, sources, applies=True)
        _raise_if_saved_plan_refused(plan, refusals, options, DryRunResult())
        if plan.destroying:
            dry_run = dry_run_plan(api, plan, request_examples=not options.get("no_request_examples"))
            refusals = find_refusals(plan, options, sources, dry_run.cascades, applies=True)
            _raise_if_saved_plan_refused(plan, refusals, options, dry_run)
        send_plan(api, plan, options, sources)


def _verified(plan: Plan, snapshot: Snapshot) -> Plan:
    """The saved plan with counts from the server, verified against it. Raises CommandFailed.

    When the server was written to since the plan was made, a discrepancy means that the plan is stale.
    """
    is_stale = snapshot.revision > plan.base_revision
    discrepancies = [Refusal(INCONSISTENT, each) for each in misidentified_objects(plan, snapshot)]
    discrepancies += [
        Refusal(INCONSISTENT, each, stale=is_stale) for each in saved_plan_discrepancies(plan, snapshot)
    ]
    raise_if_refused(plan, discrepancies, DryRunResult())
    return with_server_facts(plan, snapshot)


def _raise_if_saved_plan_refused(
    plan: Plan, refusals: Sequence[Refusal], options: Options, dry_run: DryRunResult
) -> None:
    if refusals and options["output"] == "text":
        decisions = dry_run.decision_impact
        print_lines(*plan_lines(plan, cascades=dry_run.cascades, decisions=decisions, refused=True))
    raise_if_refused(plan, refusals, dry_run)

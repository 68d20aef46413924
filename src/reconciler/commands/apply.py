"""`zonectl apply`: applies a configuration, or a saved plan."""

from collections.abc import Callable
from pathlib import Path

from reconciler.apply import DryRunResult
from reconciler.exit_codes import Declined
from reconciler.manifests.source_files import ENDINGS
from reconciler.report.plans import plan_json, plan_lines
from reconciler.terminal import print_lines

from .apply_saved import apply_saved_plan
from .changeset import check_expected_digest, raise_if_refused, send_plan
from .context import CommandContext
from .options import Options, check_output_paths, find_refusals, secret_sources
from .plan import note_lines


def apply_command(path: Path, options: Options, *, approve: Callable[[str], bool]) -> None:
    """`zonectl apply`. Raises CommandFailed.

    Args:
        approve: asks the user for approval, given the server's base URL; false cancels.
    """
    if path.is_file() and path.suffix not in ENDINGS:
        apply_saved_plan(path, options)
        return
    with CommandContext.open(path, options, writes=True) as context:
        root = context.configuration.source.opener
        check_output_paths(options, root)
        sources = secret_sources(root, options, context.connection)
        interactive = not options["yes"] and not options["expect"]
        plan = context.plan()
        dry_run = context.dry_run(plan) if interactive or plan.destroying else DryRunResult()
        decisions = dry_run.decision_impact
        refusals = find_refusals(plan, options, sources, dry_run.cascades, applies=True)
        if options["output"] == "text":
            refused, place = dry_run.rejection is not None, context.places
            lines = plan_lines(
                plan, refusals, dry_run.cascades, decisions=decisions, refused=refused, place=place
            )
            print_lines(*lines, *note_lines(plan, options, sources))
        document = plan_json(plan, refusals, dry_run.rejection, dry_run.cascades, decisions=decisions)
        check_expected_digest(plan, options, document)
        raise_if_refused(plan, refusals, dry_run, context.places, printed=options["output"] == "text")
        if not plan.empty and interactive and not approve(context.server):
            raise Declined
        send_plan(context.api, plan, options, sources, context.configuration)

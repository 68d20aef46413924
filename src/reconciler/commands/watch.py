"""`zonectl watch`: plans, or applies, each time a file is saved."""

import gc
import os
from datetime import datetime
from pathlib import Path

from reconciler.apply import DryRunResult
from reconciler.apply.file_watch import watch_files
from reconciler.exit_codes import INTERRUPTED, USAGE, CommandFailed
from reconciler.manifests import find_source_files
from reconciler.manifests.source_files import SourceError
from reconciler.report.decision_impact import decision_impact_lines
from reconciler.report.plans import action_lines, similar_owner_lines, summary_line
from reconciler.report.policy_impact import impact_lines
from reconciler.terminal import Line, Styled, print_lines, tagged

from .changeset import raise_if_refused, send_plan
from .context import CommandContext
from .options import Options, check_output_paths, find_refusals, secret_sources
from .plan import one_time_secret_lines

WATCHING = "watching for changed files; press Ctrl-C to stop"


def watch_command(path: Path, options: Options, *, applies: bool) -> None:
    """`zonectl watch`: a short plan after each save, until interrupted. Raises CommandFailed.

    Wrong usage ends the first run; a problem with a file is printed, and the next save is awaited.
    """
    try:
        (watched_path,) = find_source_files([path]).named
    except SourceError as error:
        raise CommandFailed(USAGE, str(error)) from error
    watched: Options = {**options, "output": "text", "receipt": None}

    def run_once(changed: list[str]) -> None:
        if changed:
            names = ", ".join(
                os.path.relpath(each, path if path.is_dir() else path.parent) for each in changed[:3]
            )
            _print_with_time(
                f"saved: {names}" + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
            )
        try:
            _plan_once(path, watched, applies=applies)
        except CommandFailed as failure:
            if failure.exit_code == USAGE and not changed:
                raise
            if failure.exit_code == INTERRUPTED:
                raise
            if failure.lines:
                _print_with_time(*tagged(Styled("error", "red"), *failure.lines))
        if not changed:
            _print_with_time(WATCHING)
        gc.collect()  # a plan is in cycles, and there is time until the next save

    try:
        watch_files([watched_path], run_once)
    except KeyboardInterrupt as interrupt:
        raise CommandFailed(
            INTERRUPTED, "interrupted; every change that was made is listed above"
        ) from interrupt


def _plan_once(path: Path, options: Options, *, applies: bool) -> None:
    with CommandContext.open(path, options, writes=applies) as context:
        root = context.configuration.source.opener
        check_output_paths(options, root)
        sources = secret_sources(root, options, context.connection)
        plan = context.plan()
        dry_run = context.dry_run(plan) if plan.destroying or not applies else DryRunResult()
        refusals = find_refusals(plan, options, sources, dry_run.cascades, applies=applies)
        place = context.places
        actions = (line for each in plan.actions for line in action_lines(each, dry_run.cascades, place))
        refused = bool(refusals) or dry_run.rejection is not None
        notes = () if applies else one_time_secret_lines(plan, options)
        warnings = similar_owner_lines(plan)
        decisions = dry_run.decision_impact or ()
        _print_with_time(
            summary_line(plan, decisions, refused=refused),
            *impact_lines(plan, place),
            *decision_impact_lines(decisions),
            *actions,
            *notes,
            *warnings,
        )
        raise_if_refused(plan, refusals, dry_run, place)
        if applies:
            send_plan(context.api, plan, options, sources, context.configuration)


def _print_with_time(*lines: Line) -> None:
    clock = datetime.now().astimezone().strftime("%H:%M:%S")
    print_lines(*tagged(Styled(clock, dim=True), *lines, between=" "))

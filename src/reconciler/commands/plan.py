"""`zonectl plan`: shows what an apply would change."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import orjson

from reconciler.apply import SecretSources, unconfirmed_files, unset_variables
from reconciler.exit_codes import CHANGES, DRIFT, FAILED, REFUSED, STALE, CommandFailed
from reconciler.files import write_named
from reconciler.plan import Plan, Refusal
from reconciler.plan.model import ChangeState
from reconciler.report.diagnostics import warning_lines
from reconciler.report.expiries import expiries, expiry_lines
from reconciler.report.plans import plan_json, plan_lines, rejection_lines
from reconciler.report.value_diff import counted
from reconciler.server_problems import ServerRejection
from reconciler.terminal import Line, Styled, print_error, print_json, print_lines

from .context import CommandContext
from .options import Options, check_output_paths, find_refusals, secret_sources


def plan_command(path: Path, options: Options) -> int:
    """`zonectl plan`: the exit code. Raises CommandFailed."""
    with CommandContext.open(path, options, writes=False) as context:
        root = context.configuration.source.opener
        check_output_paths(options, root)
        sources = secret_sources(root, options, context.connection)
        plan = context.plan()
        dry_run = context.dry_run(plan)
        refusals = find_refusals(plan, options, sources, dry_run.cascades, applies=False)
    if (out := options.get("out")) is not None:
        save_plan(plan, out)
    decisions = dry_run.decision_impact
    expiring = list(expiries(context.configuration.manifests, datetime.now(UTC)))
    if options["output"] == "json":
        print_json(
            plan_json(plan, refusals, dry_run.rejection, dry_run.cascades, expiring, decisions=decisions)
        )
    else:
        remaining = [each for each in expiring if each.title not in plan.left_out]
        refused, place = dry_run.rejection is not None, context.places
        lines = plan_lines(
            plan, refusals, dry_run.cascades, decisions=decisions, refused=refused, place=place
        )
        notes = (*note_lines(plan, options, sources), *one_time_secret_lines(plan, options))
        warnings = warning_lines(context.configuration, plan)
        print_lines(*lines, *notes, *expiry_lines(remaining, place), *warnings)
        if dry_run.rejection is not None:
            print_error(*rejection_lines(dry_run.rejection, place))
    return plan_exit_code(plan, refusals, dry_run.rejection)


def plan_exit_code(plan: Plan, refusals: Sequence[Refusal], found: ServerRejection | None = None) -> int:
    """The exit code of `zonectl plan`, as `--help` lists them."""
    if any(not refusal.stale for refusal in refusals):
        return REFUSED
    if found is not None:
        return STALE if found.stale else FAILED
    if refusals or plan.count(ChangeState.CONFLICT):
        return STALE
    if plan.empty:
        return 0
    return DRIFT if plan.only_drift else CHANGES


def save_plan(plan: Plan, file: Path) -> None:
    """Write the plan of `--out`. Raises CommandFailed."""
    try:
        write_named(file, orjson.dumps(plan.as_json(), option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        raise CommandFailed(FAILED, f"the plan cannot be saved to `{file}`: {error.strerror}") from error


def note_lines(plan: Plan, options: Options, sources: SecretSources) -> Iterator[Line]:
    """Notes for a text report: unset environment variables, and secrets that an apply confirms."""
    yield from _unset_variable_lines(plan, sources)
    yield from _unconfirmed_secret_lines(plan, options)


def _unset_variable_lines(plan: Plan, sources: SecretSources) -> Iterator[Line]:
    for each in unset_variables(plan, sources):
        yield Styled("note", "yellow"), f": {each}"


def _unconfirmed_secret_lines(plan: Plan, options: Options) -> Iterator[Line]:
    """A note for each secret that is in its file, but was never confirmed to the server."""
    directory = options.get("secrets_dir")
    if directory is None:
        return
    for action, file in unconfirmed_files(plan, directory):
        note = f"the secret of {action.title} is in {file}: an apply confirms it, `--renew-lost` keeps it"
        yield Styled("note", "yellow"), f": {note}"


def one_time_secret_lines(plan: Plan, options: Options) -> Iterator[Line]:
    """A note that an apply needs `--secrets-dir` for one-time secrets, unless it is given."""
    if plan.showing_once and options.get("secrets_dir") is None:
        secrets = counted(len(plan.showing_once), "secret")
        them = "it" if len(plan.showing_once) == 1 else "them"
        need = f"`apply` needs `--secrets-dir DIRECTORY` to write {them} to"
        yield Styled("note", "yellow"), f": the server generates {secrets} and shows {them} once: {need}"

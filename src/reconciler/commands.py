"""Runs `plan`, `apply` and `watch`: options in, plan and apply, report out."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import orjson

from reconciler import environment_variables
from reconciler.apply import (
    ApplyResult,
    DeliveryImpossible,
    DryRunResult,
    SecretMissing,
    SecretSources,
    apply_plan,
    confirm_delivered_files,
    deferred_interrupts,
    delivery_refusals,
    dry_run_plan,
    empty_receipt,
    secret_refusals,
    unconfirmed_files,
    unset_variables,
)
from reconciler.client import Api, Connection, NotReached, Rejected, ServerClaim
from reconciler.client.api import SendState
from reconciler.command_context import (
    CommandContext,
    Options,
    connect,
    objection_failure,
    open_api,
    rejections,
)
from reconciler.configuration_settings import OwnerRefused, named_owner, require_owner
from reconciler.exit_codes import CHANGES, DRIFT, FAILED, INTERRUPTED, REFUSED, STALE, USAGE, CommandFailed
from reconciler.files import FileRefused, Root, check_place, read_named, write_named
from reconciler.kinds import Snapshot
from reconciler.manifests import Configuration, find_source_files
from reconciler.manifests.source_files import ENDINGS, SourceError, find_root
from reconciler.output_documents import GuardDocument, PlanDocument, ProblemDocument, ReceiptDocument
from reconciler.plan import (
    Cascades,
    Plan,
    Refusal,
    check_guards,
    misidentified_objects,
    read_plan,
    saved_plan_discrepancies,
    with_server_facts,
    zone_ids_of,
)
from reconciler.plan.guards import ALWAYS_REFUSED, CONSENTS, INCONSISTENT
from reconciler.plan.model import ChangeState
from reconciler.plan.saved_plan import PlanUnreadable
from reconciler.report.plans import (
    action_lines,
    applied_summary,
    plan_json,
    plan_lines,
    rejection_lines,
    similar_owner_lines,
    summary_line,
)
from reconciler.report.policy_impact import impact_lines
from reconciler.report.progress import show_progress
from reconciler.report.value_diff import counted
from reconciler.server_problems import ServerRejection
from reconciler.terminal import Line, Styled, say, say_error, say_json, tagged
from reconciler.user_settings import InvalidUserSettings, allowed_names

WATCHING = "watching for files to be saved; Ctrl-C ends this"
_WRITTEN = ("out", "receipt", "secrets_dir")


def guard(
    plan: Plan, options: Options, sources: SecretSources, cascades: Cascades | None = None, *, applies: bool
) -> list[Refusal]:
    """What stands against applying the plan. Raises CommandFailed for a consent that means nothing.

    Args:
        applies: this very command does, so that what the server shows once needs a place now.
    """
    consents: dict[str, int] = {}
    for each in options.get("consent", ()):
        name, _, count = each.partition("=")
        if name not in CONSENTS or not count.isdecimal():
            raise CommandFailed(
                USAGE,
                f"`--consent {each}`: expected one of {', '.join(CONSENTS)}, and a number, as in deletes=12",
            )
        consents[name] = int(count)
    if options.get("allow_deletes") is not None:
        consents["deletes"] = options["allow_deletes"]
    found = [*check_guards(plan, consents, cascades), *secret_refusals(plan, sources)]
    directory = options.get("secrets_dir")
    if applies and (directory is None or not found):  # one is made where it is missing
        found += delivery_refusals(plan, directory)
    return found


def secret_sources(root: Root, options: Options, connection: Connection) -> SecretSources:
    """Where secrets may be read from. Raises CommandFailed for an option that is wrong or leads elsewhere."""
    directories = []
    for each in options.get("secrets_from", ()):
        _check_place(each, root, "--secrets-from")
        directories.append(Root(each, hidden=True))
    try:
        environment = allowed_names(options.get("allow_env", ()), root)
    except InvalidUserSettings as error:
        raise CommandFailed(USAGE, str(error)) from error
    own = (
        *connection.secrets,
        environment_variables.read("API_KEY"),
        environment_variables.read("CLIENT_SECRET"),
    )
    return SecretSources(root, tuple(directories), environment, tuple(each for each in own if each))


def check_places(options: Options, root: Root) -> None:
    """Make sure that no link in the repository decides where something is written. Raises CommandFailed."""
    out = options.get("out")
    if out is not None and out.suffix in ENDINGS:
        raise CommandFailed(
            USAGE, f"`--out {out}`: `{out.suffix}` is the extension of manifests; name the plan `*.json`"
        )
    for name in _WRITTEN:
        if options.get(name) is not None:
            _check_place(options[name], root, f"--{name.replace('_', '-')}")


def _check_place(path: Path, root: Root, option: str) -> None:
    try:
        check_place(path, root)
    except FileRefused as refused:
        raise CommandFailed(REFUSED, f"`{option}`: {refused}") from refused


def save_plan(plan: Plan, file: Path) -> None:
    """Write a plan, to apply exactly it. Raises CommandFailed."""
    try:
        write_named(file, orjson.dumps(plan.as_json(), option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        raise CommandFailed(FAILED, f"the plan cannot be saved to `{file}`: {error.strerror}") from error


def plan_exit_code(plan: Plan, refusals: Sequence[Refusal], found: ServerRejection | None = None) -> int:
    """The exit code that says what a plan is like."""
    if any(not refusal.stale for refusal in refusals):
        return REFUSED
    if found is not None:
        return STALE if found.stale else FAILED
    if refusals or plan.count(ChangeState.CONFLICT):
        return STALE
    if plan.empty:
        return 0
    return DRIFT if plan.only_drift else CHANGES


def plan_command(path: Path, options: Options) -> int:
    """`zonectl plan`: the exit code. Raises CommandFailed."""
    with CommandContext.open(path, options, writes=False) as session:
        root = session.configuration.source.opener
        check_places(options, root)
        sources = secret_sources(root, options, session.connection)
        made = session.plan()
        tried = session.try_out(made)
        refusals = guard(made, options, sources, tried.cascades, applies=False)
    if options.get("out") is not None:
        save_plan(made, options["out"])
    if options["output"] == "json":
        say_json(plan_json(made, refusals, tried.rejection, tried.cascades))
    else:
        lines = plan_lines(made, refusals, tried.cascades, refused=tried.rejection is not None)
        say(*lines, *_notes(made, options, sources), *_shown_once_lines(made, options))
        if tried.rejection is not None:
            say_error(*rejection_lines(tried.rejection))
    return plan_exit_code(made, refusals, tried.rejection)


def apply_command(path: Path, options: Options, *, ask: Callable[[CommandContext], bool]) -> None:
    """`zonectl apply`. Raises CommandFailed."""
    if path.is_file() and path.suffix not in ENDINGS:
        _apply_saved(path, options)
        return
    with CommandContext.open(path, options, writes=True) as session:
        root = session.configuration.source.opener
        check_places(options, root)
        sources = secret_sources(root, options, session.connection)
        asks = not options["yes"] and not options["expect"]
        plan = session.plan()
        tried = session.try_out(plan) if asks or plan.destroying else DryRunResult()
        refusals = guard(plan, options, sources, tried.cascades, applies=True)
        if options["output"] == "text":
            lines = plan_lines(plan, refusals, tried.cascades, refused=tried.rejection is not None)
            say(*lines, *_notes(plan, options, sources))
        _expect(plan, options, plan_json(plan, refusals, tried.rejection, tried.cascades))
        _stop_if_refused(plan, refusals, tried)
        if not plan.empty and asks and not ask(session):
            raise CommandFailed(FAILED, "nothing was changed")
        _carry_out(session.api, plan, options, sources, session.configuration)


def _notes(plan: Plan, options: Options, sources: SecretSources) -> Iterator[Line]:
    """What an apply of the plan reads and does not find here; and what it does."""
    yield from _unset_lines(plan, sources)
    yield from _found_lines(plan, options)


def _unset_lines(plan: Plan, sources: SecretSources) -> Iterator[Line]:
    for each in unset_variables(plan, sources):
        yield Styled("note", "yellow"), f": {each}"


def _shown_once_lines(plan: Plan, options: Options) -> Iterator[Line]:
    """That an apply wants a place for secrets, where none was named."""
    if plan.showing_once and options.get("secrets_dir") is None:
        secrets = counted(len(plan.showing_once), "secret")
        is_or_are = "is" if len(plan.showing_once) == 1 else "are"
        told = f"{secrets} {is_or_are} made by the server and shown once; `apply` writes what is shown to "
        refused = "`--secrets-dir DIRECTORY`, and without this option it is refused before any change"
        yield Styled("note", "yellow"), f": {told}{refused}"


def _found_lines(plan: Plan, options: Options) -> Iterator[Line]:
    """Which secrets that nobody has confirmed are in their files."""
    if options.get("secrets_dir") is None:
        return
    for action, file in unconfirmed_files(plan, options["secrets_dir"]):
        told = f"the secret of {action.title} is in {file}: an apply confirms it, `--renew-lost` keeps it"
        yield Styled("note", "yellow"), f": {told}"


def _expect(plan: Plan, options: Options, document: PlanDocument | None = None) -> None:
    if options["expect"] and plan.digest != options["expect"]:
        if plan.empty and not plan.refused:
            say(f"note: there is nothing to do, so `--expect {options['expect']}` was ignored", err=True)
            return
        message = (
            f"`--expect {options['expect']}` does not match: the digest of this plan is {plan.digest}; the"
            " manifests, or objects that they describe, have changed since that plan was made:"
            " review this plan and pass its digest"
        )
        if document is not None:
            against: GuardDocument = {"code": "expect", "message": message, "stale": True}
            document["guards"] = [*document["guards"], against]
        raise CommandFailed(STALE, message, document=document)


def _apply_saved(path: Path, options: Options) -> None:
    try:
        root = Root(options["root"] or find_root([Path.cwd()]))
        plan = read_plan(read_named(path))
    except (OSError, PlanUnreadable, SourceError) as error:
        raise CommandFailed(FAILED, f"{path}: {error}") from error
    check_places(options, root)
    try:
        require_owner(named_owner(options.get("owner")), plan.owner, f"the saved plan `{path}`")
    except OwnerRefused as error:
        raise CommandFailed(REFUSED, str(error)) from error
    _expect(plan, options)
    connection = connect(
        options, root, ServerClaim(plan.server, f"the saved plan `{path}`"), plan.organization_id
    )
    if connection.server != plan.server:
        raise CommandFailed(REFUSED, f"the plan was made for {plan.server}, not for {connection.server}")
    sources = secret_sources(root, options, connection)
    # Nothing of it is shown before it is known to be so.
    found = guard(plan, options, sources, applies=True)
    _stop_if_refused(
        plan, [each for each in found if each.code in (INCONSISTENT, ALWAYS_REFUSED)], DryRunResult()
    )
    with open_api(connection, root, writes=True) as api:
        plan = _grounded(plan, api.snapshot(plan.owner, zone_ids_of(plan)))
        _stop_saved(plan, guard(plan, options, sources, applies=True), options)
        if plan.destroying:
            tried = dry_run_plan(api, plan)
            refusals = guard(plan, options, sources, tried.cascades, applies=True)
            _stop_saved(plan, refusals, options, tried)
        _carry_out(api, plan, options, sources)


def _grounded(plan: Plan, snapshot: Snapshot) -> Plan:
    """A saved plan that hides nothing, with the numbers of the server. Raises CommandFailed.

    Where something was written since it was made, what it does not say may be new: plan again.
    """
    moved = snapshot.revision > plan.base_revision
    strange = [Refusal(INCONSISTENT, each) for each in misidentified_objects(plan, snapshot)]
    strange += [Refusal(INCONSISTENT, each, stale=moved) for each in saved_plan_discrepancies(plan, snapshot)]
    _stop_if_refused(plan, strange, DryRunResult())
    return with_server_facts(plan, snapshot)


def _stop_saved(
    plan: Plan, refusals: Sequence[Refusal], options: Options, tried: DryRunResult | None = None
) -> None:
    if refusals and options["output"] == "text":
        say(*plan_lines(plan, cascades=tried.cascades if tried else None, refused=True))
    _stop_if_refused(plan, refusals, tried or DryRunResult())


def _stop_if_refused(plan: Plan, refusals: Sequence[Refusal], tried: DryRunResult) -> None:
    """Raise CommandFailed with all that stands against a plan; as JSON it is the plan that says so."""
    found = tried.rejection
    document = plan_json(plan, refusals, found, tried.cascades)
    if refusals:
        code = STALE if all(each.stale for each in refusals) else REFUSED
        told = [f"  {each.message}" for each in refusals]
        more = rejection_lines(found) if found is not None else ()
        raise CommandFailed(code, "refused; nothing was changed", *told, *more, document=document)
    if found is not None:
        raise objection_failure(found, document)


def _carry_out(
    api: Api,
    plan: Plan,
    options: Options,
    sources: SecretSources,
    configuration: Configuration | None = None,
) -> None:
    _confirm_found(api, plan, options)
    if plan.empty:
        if options.get("output") == "json":
            say_json(empty_receipt(plan))
        return
    try:
        with deferred_interrupts(lambda: api.sent is SendState.ANSWERED):
            with (
                rejections(plan, configuration),
                show_progress(len(plan.operations), "applying") as progress,
                _unanswered(api),
            ):
                done = apply_plan(
                    api,
                    plan,
                    sources=sources,
                    secrets_directory=options.get("secrets_dir"),
                    progress=progress,
                )
            _tell(done, options)
    except DeliveryImpossible as error:  # since the guards were asked
        raise CommandFailed(REFUSED, str(error), "nothing was changed") from error
    except SecretMissing as error:
        raise CommandFailed(FAILED, *error.problems, "nothing was changed") from error
    except KeyboardInterrupt as interrupt:
        raise CommandFailed(INTERRUPTED, *_INTERRUPTED[api.sent]) from interrupt


def _confirm_found(api: Api, plan: Plan, options: Options) -> None:
    """Tell the server of secrets that have arrived at an earlier time, when it was not to be told."""
    if options.get("secrets_dir") is None:
        return
    found = confirm_delivered_files(api, plan, options["secrets_dir"])
    say(*(f"confirmed: the secret of {title} is in {file}" for title, file in found), err=True)


_UNKNOWN = (
    "it is not known whether the changeset is applied",
    "  to find out, plan again: what the plan still shows is not applied",
    "  applying the same plan again is safe: the server applies it only once",
)
_INTERRUPTED = {
    SendState.NOTHING: ("interrupted before anything was sent; nothing was changed",),
    SendState.UNANSWERED: ("interrupted while the answer was awaited", *_UNKNOWN),
    SendState.ANSWERED: ("interrupted; the changeset is applied",),
}


@contextmanager
def _unanswered(api: Api) -> Iterator[None]:
    """A lost answer is no refusal. Raises CommandFailed."""
    try:
        yield
    except (NotReached, Rejected) as error:
        if api.sent is SendState.UNANSWERED:
            raise CommandFailed(FAILED, str(error), *_UNKNOWN) from error
        if isinstance(error, NotReached) and api.sent is SendState.NOTHING:
            raise CommandFailed(FAILED, str(error), "nothing was changed") from error
        raise


def _tell(done: ApplyResult, options: Options) -> None:
    if options.get("output") != "json":
        what, revision = applied_summary(done.receipt["summary"]), done.receipt["revision"]
        count = counted(len(done.receipt["operations"]), "operation")
        if done.replayed:
            say(f"had been applied before, as revision {revision}: {what}; nothing was changed now")
        else:
            say(f"applied: {what} ({count}), now at revision {revision}")
        say(*(f"wrote {file}" for file in done.files))
    problems = []
    if done.lost:
        problems.append("a secret that is shown once did not arrive; get a new one with `--renew-lost`")
        problems.extend(done.unwritten)
    if done.unconfirmed:
        say(
            f"the secrets are written, but the server has no confirmation ({done.unconfirmed}); plans "
            "list them as perhaps lost until the next apply with the same `--secrets-dir` confirms them",
            err=True,
        )
    if options.get("receipt") is not None:
        receipt = orjson.dumps(done.receipt, option=orjson.OPT_INDENT_2) + b"\n"
        try:
            write_named(options["receipt"], receipt)
        except OSError as error:
            problems.append(f"the receipt `{options['receipt']}` cannot be written: {error.strerror}")
    told: Sequence[ProblemDocument] = [{"code": "error", "message": each} for each in problems]
    document: ReceiptDocument = {**done.receipt, "problems": told} if told else done.receipt
    if problems:
        raise CommandFailed(
            FAILED,
            f"the changeset is applied, but {problems[0]}",
            *(f"  {each}" for each in problems[1:]),
            document=document,
        )
    if options.get("output") == "json":
        say_json(document)


def watch_command(path: Path, options: Options, *, applies: bool) -> None:
    """`zonectl watch`: one short result each time, until interrupted.

    A command that means nothing ends it at once; what is wrong with files is told, and may be mended.
    """
    from reconciler.apply.file_watch import watch_files

    try:
        (watched_path,) = find_source_files([path]).named
    except SourceError as error:
        raise CommandFailed(USAGE, str(error)) from error
    watched = {**options, "output": "text", "receipt": None}

    def once(changed: list[str]) -> None:
        if changed:
            names = ", ".join(
                os.path.relpath(each, path if path.is_dir() else path.parent) for each in changed[:3]
            )
            _say(f"saved: {names}" + (f" and {len(changed) - 3} more" if len(changed) > 3 else ""))
        try:
            _watch_once(path, watched, applies=applies)
        except CommandFailed as failure:
            if failure.exit_code == USAGE and not changed:
                raise
            if failure.exit_code == INTERRUPTED:
                raise
            if failure.lines:
                _say(*tagged(Styled("error", "red"), *failure.lines))
        if not changed:
            _say(WATCHING)

    try:
        watch_files([watched_path], once)
    except KeyboardInterrupt as interrupt:
        raise CommandFailed(
            INTERRUPTED, "interrupted; every change that was made is listed above"
        ) from interrupt


def _watch_once(path: Path, options: Options, *, applies: bool) -> None:
    with CommandContext.open(path, options, writes=applies) as session:
        root = session.configuration.source.opener
        check_places(options, root)
        sources = secret_sources(root, options, session.connection)
        plan = session.plan()
        tried = session.try_out(plan) if plan.destroying or not applies else DryRunResult()
        refusals = guard(plan, options, sources, tried.cascades, applies=applies)
        told = (line for action in plan.actions for line in action_lines(action, tried.cascades))
        refused = bool(refusals) or tried.rejection is not None
        notes = () if applies else _shown_once_lines(plan, options)
        warned = similar_owner_lines(plan)
        _say(summary_line(plan, refused=refused), *impact_lines(plan), *told, *notes, *warned)
        _stop_if_refused(plan, refusals, tried)
        if applies:
            _carry_out(session.api, plan, options, sources, session.configuration)


def _say(*lines: Line) -> None:
    clock = datetime.now().astimezone().strftime("%H:%M:%S")
    say(*tagged(Styled(clock, dim=True), *lines, between=" "))

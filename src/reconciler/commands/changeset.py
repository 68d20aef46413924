"""Sends a plan's changeset and reports the result, for every command that applies."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import orjson

from reconciler.apply import (
    ApplyResult,
    DeliveryImpossible,
    DryRunResult,
    SecretMissing,
    SecretSources,
    apply_plan,
    confirm_delivered_files,
    deferred_interrupts,
    empty_receipt,
)
from reconciler.apply.git_ignore import IGNORE_FILE, would_be_committed
from reconciler.client import Api, NotReached, Rejected
from reconciler.client.api import SendState
from reconciler.exit_codes import FAILED, INTERRUPTED, REFUSED, STALE, CommandFailed
from reconciler.files import write_named
from reconciler.manifests import Configuration
from reconciler.output_documents import GuardDocument, PlanDocument, ProblemDocument, ReceiptDocument
from reconciler.plan import Plan, Refusal
from reconciler.report.places import Places, as_recorded
from reconciler.report.plans import applied_summary, plan_json, rejection_lines
from reconciler.report.progress import show_progress
from reconciler.report.value_diff import counted
from reconciler.terminal import Styled, print_json, print_lines

from .context import rejection_failure, report_rejections
from .options import Options

_OUTCOME_UNKNOWN = (
    "it is not known whether the changeset is applied",
    "  to find out, plan again: what the plan still shows is not applied",
    "  applying the same plan again is safe: the server applies it only once",
)
_INTERRUPTED = {
    SendState.NOTHING: ("interrupted before anything was sent; nothing was changed",),
    SendState.UNANSWERED: ("interrupted while the answer was awaited", *_OUTCOME_UNKNOWN),
    SendState.ANSWERED: ("interrupted; the changeset is applied",),
}


def check_expected_digest(plan: Plan, options: Options, document: PlanDocument | None = None) -> None:
    """Stop unless the plan has the digest of `--expect`. Raises CommandFailed.

    Args:
        document: the plan as JSON; the failure is added to its guards.
    """
    expected = options.get("expect")
    if expected and plan.digest != expected:
        if plan.empty and not plan.refused:
            print_lines(f"note: there is nothing to do, so `--expect {expected}` was ignored", err=True)
            return
        message = (
            f"`--expect {expected}` does not match: the digest of this plan is {plan.digest}; the"
            " manifests, or objects that they describe, have changed since that plan was made:"
            " review this plan and pass its digest"
        )
        if document is not None:
            against: GuardDocument = {"code": "expect", "message": message, "stale": True}
            document["guards"] = [*document["guards"], against]
        raise CommandFailed(STALE, message, document=document)


def raise_if_refused(
    plan: Plan,
    refusals: Sequence[Refusal],
    dry_run: DryRunResult,
    place: Places = as_recorded,
    *,
    printed: bool = False,
) -> None:
    """Raise CommandFailed with all refusals and the server's rejection; `--output json` prints the plan.

    Args:
        place: how text shows files.
        printed: the plan was printed with its refusals, which are not repeated.
    """
    rejection = dry_run.rejection
    document = plan_json(plan, refusals, rejection, dry_run.cascades, decisions=dry_run.decision_impact)
    if refusals:
        code = STALE if all(each.stale for each in refusals) else REFUSED
        messages = [] if printed else [f"  {place(each.message)}" for each in refusals]
        more = rejection_lines(rejection, place) if rejection is not None else ()
        raise CommandFailed(code, "refused; nothing was changed", *messages, *more, document=document)
    if rejection is not None:
        raise rejection_failure(rejection, document, place=place)


def send_plan(
    api: Api,
    plan: Plan,
    options: Options,
    sources: SecretSources,
    configuration: Configuration | None = None,
) -> None:
    """Send the changeset, and report the result. Raises CommandFailed."""
    _confirm_delivered(api, plan, options)
    if plan.empty:
        if options.get("output") == "json":
            print_json(empty_receipt(plan))
        return
    try:
        with deferred_interrupts(lambda: api.sent is SendState.ANSWERED):
            with (
                report_rejections(plan, configuration),
                show_progress(len(plan.operations), "applying") as progress,
                _lost_answers(api),
            ):
                done = apply_plan(
                    api,
                    plan,
                    sources=sources,
                    secrets_directory=options.get("secrets_dir"),
                    progress=progress,
                )
            _report_result(done, options)
    except DeliveryImpossible as error:  # a file was changed since the guards checked it
        raise CommandFailed(REFUSED, str(error), "nothing was changed") from error
    except SecretMissing as error:
        raise CommandFailed(FAILED, *error.problems, "nothing was changed") from error
    except KeyboardInterrupt as interrupt:
        raise CommandFailed(INTERRUPTED, *_INTERRUPTED[api.sent]) from interrupt


def _confirm_delivered(api: Api, plan: Plan, options: Options) -> None:
    """Confirm secrets that an earlier apply wrote, but could not confirm to the server."""
    directory = options.get("secrets_dir")
    if directory is None:
        return
    found = confirm_delivered_files(api, plan, directory)
    print_lines(*(f"confirmed: the secret of {title} is in {file}" for title, file in found), err=True)


@contextmanager
def _lost_answers(api: Api) -> Iterator[None]:
    """Report a lost answer: the outcome is unknown, unlike after a rejection. Raises CommandFailed."""
    try:
        yield
    except (NotReached, Rejected) as error:
        if api.sent is SendState.UNANSWERED:
            raise CommandFailed(FAILED, str(error), *_OUTCOME_UNKNOWN) from error
        if isinstance(error, NotReached) and api.sent is SendState.NOTHING:
            raise CommandFailed(FAILED, str(error), "nothing was changed") from error
        raise


def _delivered_lines(done: ApplyResult) -> Iterator[str]:
    """Where the secrets are that an earlier apply of the same plan has delivered."""
    for title, file in done.delivered:
        if file is not None:
            yield f"the secret of {title} is in {file}"
        else:
            yield f"the secret of {title} was delivered by that apply, to another `--secrets-dir`"


def _zone_lines(done: ApplyResult) -> Iterator[str]:
    """By what the server and applications know each zone that was created."""
    for zone in done.receipt.get("zones", ()):
        yield f"zone {zone['name']}: slug {zone['slug']}, issuer {zone['issuer']}"


def _warn_of_commit(done: ApplyResult) -> None:
    """Warn of files with secrets that `git add` would take along."""
    for file in done.files:
        if would_be_committed(file):
            message = (
                f"`git add` would commit the secrets in {file.parent}: it is in a work tree of git, and not"
                f" ignored; write `*` into {file.parent / IGNORE_FILE}"
            )
            print_lines((Styled("warning", "yellow"), f": {message}"), err=True)
            return


def _report_result(done: ApplyResult, options: Options) -> None:
    if options.get("output") != "json":
        summary, revision = applied_summary(done.receipt["summary"]), done.receipt["revision"]
        count = counted(len(done.receipt["operations"]), "operation")
        if done.replayed:
            print_lines(f"already applied, as revision {revision}: {summary}; nothing was changed now")
        else:
            print_lines(f"applied: {summary} ({count}), now at revision {revision}")
        print_lines(*(f"wrote {file}" for file in done.files), *_delivered_lines(done), *_zone_lines(done))
    _warn_of_commit(done)
    problems = []
    if done.lost:
        problems.append("a secret that is shown once did not arrive; get a new one with `--renew-lost`")
        problems.extend(done.unwritten)
    if done.unconfirmed:
        print_lines(
            f"the secrets are written, but the server has no confirmation ({done.unconfirmed}); plans "
            "list them as perhaps lost until the next apply with the same `--secrets-dir` confirms them",
            err=True,
        )
    if (file := options.get("receipt")) is not None:
        receipt = orjson.dumps(done.receipt, option=orjson.OPT_INDENT_2) + b"\n"
        try:
            write_named(file, receipt)
        except OSError as error:
            problems.append(f"the receipt `{file}` cannot be written: {error.strerror}")
    listed: Sequence[ProblemDocument] = [{"code": "error", "message": each} for each in problems]
    document: ReceiptDocument = {**done.receipt, "problems": listed} if listed else done.receipt
    if problems:
        raise CommandFailed(
            FAILED,
            f"the changeset is applied, but {problems[0]}",
            *(f"  {each}" for each in problems[1:]),
            document=document,
        )
    if options.get("output") == "json":
        print_json(document)

"""What the commands that talk to a server do, between the command line and the parts."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import click
import orjson

from reconciler.apply import (
    Applied,
    DeliveryImpossible,
    SecretMissing,
    apply_plan,
)
from reconciler.client import Api
from reconciler.exits import CHANGES, DRIFT, FAILED, REFUSED, STALE, USAGE, Failure
from reconciler.manifests.sources import find_root
from reconciler.plan import Action, Plan, Refusal, check_guards, read_plan
from reconciler.plan.guards import CONSENTS
from reconciler.plan.model import Op, PlanUnreadable, State
from reconciler.report.diagnostics import counted, printable
from reconciler.report.plans import action_lines, summary_line
from reconciler.report.progress import show_progress
from reconciler.session import Options, Session, connect, open_api, rejections


def guard(plan: Plan, options: Options) -> list[Refusal]:
    """What stands against applying the plan. Raises Failure for a consent that means nothing."""
    consents: dict[str, int] = {}
    for each in options.get("consent", ()):
        name, _, count = each.partition("=")
        if name not in CONSENTS or not count.isdecimal():
            raise Failure(
                USAGE,
                f"`--consent {each}`: expected one of {', '.join(CONSENTS)}, and a number, as in deletes=12",
            )
        consents[name] = int(count)
    if options.get("allow_deletes") is not None:
        consents["deletes"] = options["allow_deletes"]
    return check_guards(plan, consents)


def plan_exit_code(plan: Plan, refusals: Sequence[Refusal]) -> int:
    """The exit code that says what a plan is like."""
    if any(not refusal.stale for refusal in refusals):
        return REFUSED
    if refusals or plan.count(State.CONFLICT):
        return STALE
    if plan.empty:
        return 0
    return DRIFT if plan.only_drift else CHANGES


def apply_command(
    path: Path,
    options: Options,
    *,
    show: Callable[[Plan, Sequence[Refusal], str], None],
    ask: Callable[[Session], bool],
) -> None:
    """`zonectl apply`. Raises Failure."""
    if path.is_file() and path.suffix == ".json":
        _apply_saved(path, options)
        return
    with Session.open(path, options, writes=True) as session:
        asks = not options["yes"] and not options["expect"]
        plan = session.plan()
        refusals = guard(plan, options)
        if asks:
            session.check(plan, refusals)
        if options["output"] == "text":
            show(plan, refusals, "text")
        if options["expect"] and plan.digest != options["expect"]:
            raise Failure(STALE, f"this is not the plan that was expected: its digest is {plan.digest}")
        _stop_if_refused(refusals)
        if not plan.empty and asks and not ask(session):
            raise Failure(FAILED, "nothing was changed")
        _carry_out(session.api, plan, options, session.configuration.source.root)


def _apply_saved(path: Path, options: Options) -> None:
    try:
        plan = read_plan(path.read_bytes())
    except (OSError, PlanUnreadable, KeyError) as error:
        raise Failure(FAILED, f"{path}: {error}") from error
    if options["expect"] and plan.digest != options["expect"]:
        raise Failure(STALE, f"this is not the plan that was expected: its digest is {plan.digest}")
    connection = connect(options, plan.server, plan.organization_id)
    if connection.server != plan.server:
        raise Failure(REFUSED, f"the plan was made for {plan.server}, not for {connection.server}")
    _stop_if_refused(guard(plan, options))
    root = options["root"] or find_root([Path.cwd()])
    with open_api(connection, writes=True) as api:
        _carry_out(api, plan, options, root)


def _stop_if_refused(refusals: Sequence[Refusal]) -> None:
    if refusals:
        messages = "\n".join(f"  {printable(each.message)}" for each in refusals)
        code = STALE if all(each.stale for each in refusals) else REFUSED
        raise Failure(code, f"refused; nothing was changed\n{messages}")


def _carry_out(api: Api, plan: Plan, options: Options, root: Path) -> None:
    if plan.empty:
        if options.get("output") == "json":
            click.echo(
                orjson.dumps({"plan_digest": plan.digest, "revision": plan.base_revision, "operations": []})
            )
        return
    try:
        with rejections(plan), show_progress(len(plan.operations)) as progress:
            done = apply_plan(
                api, plan, root=root, secrets_directory=options.get("secrets_dir"), progress=progress
            )
    except DeliveryImpossible as error:
        raise Failure(REFUSED, f"{error}\nnothing was changed") from error
    except SecretMissing as error:
        raise Failure(FAILED, f"{error}\nnothing was changed") from error
    _tell(done, options)


def _tell(done: Applied, options: Options) -> None:
    receipt = orjson.dumps(done.receipt, option=orjson.OPT_INDENT_2)
    if options.get("receipt") is not None:
        options["receipt"].write_bytes(receipt + b"\n")
    if options.get("output") == "json":
        click.echo(receipt.decode())
    else:
        again = "had been applied before" if done.replayed else "applied"
        count = len(done.receipt["operations"])
        click.echo(f"{again}: {counted(count, 'operation')}, now at revision {done.receipt['revision']}")
        for file in done.files:
            click.echo(f"wrote {file}")
    if done.lost:
        raise Failure(
            FAILED,
            "the changeset is applied, but a secret that is shown once did not arrive; "
            "replace the credential to get a new one",
        )


def drift_of(plan: Plan) -> list[Action]:
    """What others changed: updates with nothing but drift and conflicts in them."""
    found = []
    for action in plan.actions:
        changes = tuple(each for each in action.changes if each.state in (State.DRIFT, State.CONFLICT))
        if changes:
            found.append(
                Action(Op.UPDATE, action.kind, action.zone, action.name, action.id, action.reason, changes)
            )
    return found


def drift_text(actions: Sequence[Action]) -> str:
    """Drift as text."""
    lines = [line for action in actions for line in action_lines(action)]
    members = sum(len(action.changes) for action in actions)
    lines.append(f"{counted(members, 'member')} changed by others" if actions else "no drift")
    return "\n".join(lines)


def watch_command(path: Path, options: Options, *, applies: bool) -> None:
    """`zonectl watch`: one short result each time, until interrupted."""
    from reconciler.apply.watching import watch_files

    if not path.exists():
        raise Failure(USAGE, f"there is no file or directory `{path}`")
    watched = {**options, "output": "text", "receipt": None}

    def once(changed: list[str]) -> None:
        if changed:
            names = ", ".join(
                os.path.relpath(each, path if path.is_dir() else path.parent) for each in changed[:3]
            )
            _say(f"saved: {printable(names)}" + (f" and {len(changed) - 3} more" if len(changed) > 3 else ""))
        try:
            _watch_once(path, watched, applies=applies)
        except Failure as failure:
            _say(click.style(failure.message, fg="red"))

    watch_files([path.resolve()], once)


def _watch_once(path: Path, options: Options, *, applies: bool) -> None:
    with Session.open(path, options, writes=applies) as session:
        plan = session.plan()
        refusals = guard(plan, options)
        if not applies:
            session.check(plan, refusals)
        lines = [line for action in plan.actions[:20] for line in action_lines(action)]
        _say("\n".join([summary_line(plan), *lines]))
        _stop_if_refused(refusals)
        if applies:
            _carry_out(session.api, plan, options, session.configuration.source.root)


def _say(text: str) -> None:
    click.echo(f"{click.style(datetime.now().astimezone().strftime('%H:%M:%S'), dim=True)} {text}")

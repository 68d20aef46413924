"""`zonectl`: validate, fmt, plan, drift, apply, watch, decisions, explain, secret, schema.

Exit codes: 0 success; 1 failed; 2 the plan has changes, or files are not formatted; 3 drift only;
4 stale or conflict; 5 refused by a guard; 64 usage; 130 interrupted. Commands are imported when they run,
so that `validate` starts fast.
"""

import gc
import signal
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from click.exceptions import NoArgsIsHelpError

import reconciler
from reconciler import terminal
from reconciler.exit_codes import FAILED, INTERRUPTED, USAGE, CommandFailed, Declined

if TYPE_CHECKING:
    from typing import Unpack

    from reconciler.commands.options import DecisionOptions, ExplainOptions, Options, SecretOptions

F = TypeVar("F", bound=Callable[..., object])

_PATH = click.Path(path_type=Path)


def _output(function: F) -> F:
    return click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Format of the result.",
    )(function)


def _connection(*, owner: bool = True) -> Callable[[F], F]:
    """The options that say which server, in whose name.

    Args:
        owner: the command is about what one owner manages.
    """

    def add(function: F) -> F:
        for option in _CONNECTION if owner else _CONNECTION[:-1]:
            function = option(function)
        return function

    return add


_CONNECTION = (
    click.option(
        "--organization",
        help="Id or label; default: the organization of the credential. [ZONECTL_ORGANIZATION]",
    ),
    click.option(
        "--api-key-file",
        type=click.Path(),
        help="File with an API key; or put the key itself in ZONECTL_API_KEY.",
    ),
    click.option(
        "--server",
        help="Base URL of the server; default: the one last used with this credential. [ZONECTL_SERVER]",
    ),
    click.option(
        "--owner",
        help="Owner of the configuration; must match `owner` in zonectl.yaml, if set. [ZONECTL_OWNER]",
    ),
)


def _guards(function: F) -> F:
    for option in (
        click.option(
            "--secrets-dir", type=_PATH, help="Directory to write secrets to that the server shows only once."
        ),
        click.option(
            "--secrets-from",
            type=_PATH,
            multiple=True,
            metavar="DIR",
            help="Allow `from_file` to read this directory, besides the repository; repeatable.",
        ),
        click.option(
            "--allow-env",
            multiple=True,
            metavar="NAME",
            help="Allow `from_env` to read this environment variable; `OKTA_*` allows a prefix; repeatable.",
        ),
        click.option(
            "--consent",
            multiple=True,
            metavar="NAME=N",
            help="Pass a guard for exactly N objects: deletes, in-use, conflicts or unowned; repeatable.",
        ),
        click.option(
            "--renew-lost",
            is_flag=True,
            help="Replace credentials whose secret was shown once and never delivered.",
        ),
        click.option("--allow-deletes", type=click.IntRange(min=0), help="Same as `--consent deletes=N`."),
    ):
        function = option(function)
    return function


_request_examples = click.option(
    "--no-request-examples",
    is_flag=True,
    help="Do not name users and requests in the decision impact, only count them.",
)


_ZONE_TO_READ = click.option(
    "--zone",
    help="Id, slug or manifest name of the zone; default: the only one that the credential can read.",
)


_EXITS = """\b
Exit codes:
  0    success: done, or nothing to do
  1    failed
  2    the plan has changes, or `fmt --check` found files to format
  3    drift, and no other changes
  4    stale plan, or a conflict with changes made on the server
  5    refused by a guard
  64   usage error
  130  interrupted"""


def _exits(*codes: int, changes: str = "the plan has changes", refused: str = "refused by a guard") -> str:
    """The lines of these exit codes, for a command's help.

    Args:
        changes: what exit code 2 means for this command.
        refused: what exit code 5 means for this command.
    """
    first, head, *lines = _EXITS.splitlines()
    meant = {"2": f"  2    {changes}", "5": f"  5    {refused}"}
    lines = [meant.get(line.split()[0], line) for line in lines]
    return "\n".join([first, head, *(line for line in lines if int(line.split()[0]) in codes)])


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, epilog=_EXITS
)
@click.version_option(reconciler.__version__, prog_name="zonectl")
def cli() -> None:
    """Validate, plan and apply identity configuration from git."""


@cli.command(epilog=_exits(0, 1, 64, 130))
@click.argument("paths", nargs=-1, required=True, type=_PATH)
@_output
@click.option("--no-cache", is_flag=True, help="Ignore cached results and parse every file.")
def validate(paths: tuple[Path, ...], output: str, no_cache: bool) -> int:
    """Check manifests in files and directories; needs no server."""
    from reconciler.commands.validate import validate_command

    return validate_command(paths, as_json=output == "json", use_cache=not no_cache)


@cli.command(epilog=_exits(0, 1, 2, 64, 130, changes="`--check` found files to format"))
@click.argument("paths", nargs=-1, type=_PATH)
@click.option("--check", is_flag=True, help="Write nothing; exit with 2 if a file is not formatted.")
@click.option(
    "--diff",
    is_flag=True,
    help="Also show the changes as a unified diff, with secrets masked. Without --check, they are written.",
)
@_output
def fmt(paths: tuple[Path, ...], output: str, check: bool, diff: bool) -> int:
    """Format manifests in place; by default those in the current directory.

    Sorts members into the order of their kind, quotes strings only where necessary, and normalizes
    indentation and line ends. Keeps comments, empty lines and block scalars. Leaves files unchanged that
    are not valid, or whose meaning would change.
    """
    from reconciler.commands.fmt import fmt_command

    return fmt_command(paths, as_json=output == "json", check=check, diff=diff)


@cli.command(epilog=_exits(0, 1, 2, 3, 4, 5, 64, 130))
@click.argument("path", type=_PATH)
@click.option("--out", type=_PATH, help="Save the plan to this file, for `zonectl apply`.")
@_output
@_connection()
@_guards
@_request_examples
def plan(path: Path, **options: "Unpack[Options]") -> int:
    """Show what applying PATH would change; changes nothing."""
    from reconciler.commands.plan import plan_command

    return plan_command(path, options)


@cli.command(epilog=_exits(0, 1, 3, 5, 64, 130))
@click.argument("path", type=_PATH)
@click.option(
    "--unmanaged", is_flag=True, help="Also list objects in the zones of PATH that no configuration manages."
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="KIND",
    help="Do not report unmanaged objects of this kind that are attached to managed ones; repeatable.",
)
@_output
@_connection()
def drift(path: Path, unmanaged: bool, ignored: tuple[str, ...], **options: "Unpack[Options]") -> int:
    """Show drift: changes made on the server to objects that PATH describes. Exits with 3 if there is any.

    Exits with 1 if a part of PATH cannot be compared: it was never applied for this owner, another owner
    manages it, or the credential may not read it.
    """
    from reconciler.commands.drift import drift_command

    return drift_command(path, options, ignored=ignored, unmanaged=unmanaged)


@cli.command(epilog=_exits(0, 1, 4, 5, 64, 130))
@click.argument("path", type=_PATH)
@click.option("--yes", is_flag=True, help="Apply without asking for confirmation.")
@click.option(
    "--expect", metavar="DIGEST", help="Plan again, and apply only if the new plan has this digest."
)
@click.option("--receipt", type=_PATH, help="Write a receipt of the changes to this file, as JSON.")
@click.option(
    "--root", type=_PATH, help="Base directory of a saved plan's relative paths; default: the repository."
)
@_output
@_connection()
@_guards
@_request_examples
def apply(path: Path, **options: "Unpack[Options]") -> None:
    """Apply the configuration at PATH, or a saved plan; all changes or none."""
    from reconciler.commands.apply import apply_command

    apply_command(path, options, approve=_approve)


@cli.command(epilog=_exits(1, 5, 64, 130))
@click.argument("path", type=_PATH)
@click.option("--apply", "applies", is_flag=True, help="Also apply each valid plan, with the same guards.")
@_connection()
@_guards
@_request_examples
def watch(path: Path, applies: bool, **options: "Unpack[Options]") -> None:
    """Validate and plan whenever a file under PATH is saved; Ctrl-C ends it."""
    from reconciler.commands.watch import watch_command

    watch_command(path, options, applies=applies)


@cli.command(epilog=_exits(0, 1, 5, 64, 130))
@_ZONE_TO_READ
@click.option(
    "--request",
    multiple=True,
    metavar="ID",
    help="Id of the request, from the header X-Request-ID; repeatable.",
)
@click.option("--user", metavar="USER", help="Only this user: an id, identifier or e-mail address.")
@click.option(
    "--application", metavar="APP", help="Only this application: an id, identifier or manifest name."
)
@click.option(
    "--resource", metavar="RESOURCE", help="Only this resource: an id, identifier or manifest name."
)
@click.option("--outcome", multiple=True, help="Only this outcome, such as `refused`; repeatable.")
@click.option("--event", multiple=True, help="Only this event, such as `token_exchange`; repeatable.")
@click.option("--since", metavar="TIME", help="From this time on: RFC 3339, such as 2026-01-31T08:00:00Z.")
@click.option("--until", metavar="TIME", help="Before this time.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Most records to show."
)
@_output
@_connection(owner=False)
def decisions(**options: "Unpack[DecisionOptions]") -> int:
    """Show what was decided about sign-ins and token requests, and why; the newest first.

    A client's answer carries the id of its request in the header X-Request-ID: `--request` finds it.
    """
    from reconciler.commands.decisions import decisions_command

    return decisions_command(options)


@cli.command(epilog=_exits(0, 1, 5, 64, 130, refused="the exchange would be refused"))
@_ZONE_TO_READ
@click.option(
    "--application", metavar="APP", required=True, help="Id, identifier or manifest name of who asks."
)
@click.option(
    "--resource",
    metavar="RESOURCE",
    required=True,
    help="Id, identifier, URL or manifest name of the resource.",
)
@click.option(
    "--user",
    metavar="USER",
    help="Id, identifier or e-mail address of the user; without it a token of the application's own is"
    " explained (client credentials).",
)
@click.option("--scope", multiple=True, help="A scope that it asks for; default: all; repeatable.")
@click.option(
    "--via",
    multiple=True,
    metavar="APP",
    help="An application that the user's token comes through, the first one first; repeatable.",
)
@click.option(
    "--config",
    type=_PATH,
    metavar="PATH",
    help="Manifests to look up the deciding policies in, for their file and line.",
)
@_output
@_connection(owner=False)
def explain(**options: "Unpack[ExplainOptions]") -> int:
    """Explain whether APP would get a token for RESOURCE now, for USER or for itself; changes nothing.

    Shows each step of the token request, the policies that decide, and what would mend a refusal.
    """
    from reconciler.commands.explain import explain_command

    return explain_command(options)


@cli.group()
def secret() -> None:
    """Set, list and delete keys that all applications share: secrets of resources, in a zone's vault."""


_ZONE = click.option(
    "--zone", help="Id or slug of the zone; default: the only one that the credential can read."
)
_SECRET_NAME = click.option("--name", help="Name of the secret, where a resource has several.")


@secret.command("set", epilog=_exits(0, 1, 5, 64, 130))
@click.argument("resource")
@_ZONE
@_SECRET_NAME
@click.option(
    "--value-file",
    type=_PATH,
    metavar="FILE",
    help="File with the value, without its last line end; default: standard input, which must not be a"
    " terminal.",
)
@_output
@_connection(owner=False)
def secret_set(resource: str, **options: "Unpack[SecretOptions]") -> int:
    """Store a key for RESOURCE (id or identifier), or replace the one that is stored.

    The value is never taken from the command line, and never printed.
    """
    from reconciler.commands.secret import set_command

    return set_command(resource, options)


@secret.command("list", epilog=_exits(0, 1, 5, 64, 130))
@_ZONE
@_output
@_connection(owner=False)
def secret_list(**options: "Unpack[SecretOptions]") -> int:
    """List the secrets in a zone's vault, without their values."""
    from reconciler.commands.secret import list_command

    return list_command(options)


@secret.command("delete", epilog=_exits(0, 1, 5, 64, 130))
@click.argument("resource")
@_ZONE
@_SECRET_NAME
@click.option("--yes", is_flag=True, help="Delete without asking for confirmation.")
@_output
@_connection(owner=False)
def secret_delete(resource: str, **options: "Unpack[SecretOptions]") -> int:
    """Delete the key that is stored for RESOURCE (id or identifier)."""
    from reconciler.commands.secret import delete_command

    return delete_command(resource, options, approve=_confirm)


@cli.command(epilog=_exits(0, 1, 64, 130))
@click.option(
    "--dir",
    "directory",
    type=_PATH,
    default=Path(),
    show_default=True,
    help="Project directory of the editor.",
)
@click.option(
    "--glob",
    "globs",
    multiple=True,
    help="Pattern of manifest files; default: every directory with manifests; repeatable.",
)
def schema(directory: Path, globs: tuple[str, ...]) -> None:
    """Write editor settings for completing and checking manifests."""
    from reconciler.commands.schema import schema_command

    schema_command(directory, globs)


def _approve(server: str) -> bool:
    """Confirm an apply; without a terminal, `--yes` or `--expect` is required. Raises CommandFailed."""
    if not terminal.is_interactive():
        raise CommandFailed(USAGE, "standard input is not a terminal: pass `--yes`, or `--expect DIGEST`")
    return terminal.ask_yes_or_no(f"Apply this to {server}?")


def _confirm(question: str) -> bool:
    """Confirm a deletion; without a terminal, `--yes` is required. Raises CommandFailed."""
    if not terminal.is_interactive():
        raise CommandFailed(USAGE, "standard input is not a terminal: pass `--yes`")
    return terminal.ask_yes_or_no(question)


def run(arguments: Sequence[str]) -> int:
    """Run one command: its exit code. With `--output json`, one document is printed on every exit."""
    try:
        done = cli.main(args=list(arguments), prog_name="zonectl", standalone_mode=False)
    except CommandFailed as failure:
        return _end(failure, arguments)
    except NoArgsIsHelpError as error:  # a group without a command: its help is the message
        terminal.print_lines(*error.format_message().splitlines(), err=True)
        return USAGE
    except click.UsageError as error:
        if error.ctx is not None:
            terminal.print_lines(*error.ctx.get_usage().splitlines(), err=True)
        return _end(CommandFailed(USAGE, error.format_message()), arguments)
    except click.ClickException as error:
        return _end(CommandFailed(FAILED, error.format_message()), arguments)
    except (click.Abort, KeyboardInterrupt):
        interrupted = CommandFailed(INTERRUPTED, "interrupted; nothing was changed on a server")
        return _end(interrupted, arguments)
    except BrokenPipeError:
        return FAILED
    except Exception:
        _end(
            CommandFailed(FAILED, "internal error of zonectl; the traceback is on standard error"),
            arguments,
            printed=True,
        )
        raise
    return done if isinstance(done, int) else 0


def _end(failure: CommandFailed, arguments: Sequence[str], *, printed: bool = False) -> int:
    if failure.lines and not printed:
        if failure.exit_code == INTERRUPTED or isinstance(failure, Declined):  # the user's own choice
            terminal.print_lines(*failure.lines, err=True)
        else:
            terminal.print_error(*failure.lines)
    if _wants_json(arguments):
        terminal.print_json(failure.document)
    return failure.exit_code


def _wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether `--output json` is given; also where the command line cannot be parsed."""
    return "--output=json" in arguments or ("--output", "json") in pairwise(arguments)


def _end_as_interrupted() -> None:
    """Let SIGTERM, with which pipelines cancel a job, end a command as Ctrl-C does."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def main() -> None:
    """The `zonectl` command."""
    # A configuration is many small objects that all stay alive: collecting garbage repeatedly costs time.
    gc.set_threshold(1_000_000, 50, 100)
    _end_as_interrupted()
    terminal.prepare()
    exit_code = run(sys.argv[1:])
    # The interpreter's last collection would visit all of them, to free what the process gives back anyway.
    gc.freeze()
    sys.exit(exit_code)

"""`zonectl`: validate, fmt, plan, drift, apply, watch, schema.

Exit codes: 0 nothing to do or done; 1 failed; 2 the plan has changes, or files are not formatted;
3 drift only; 4 stale or conflict; 5 refused by a guard; 64 usage; 130 interrupted.
Nothing that `validate` does not need is imported before it is needed.
"""

import gc
import signal
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

import reconciler
from reconciler import terminal
from reconciler.exit_codes import FAILED, INTERRUPTED, USAGE, CommandFailed

if TYPE_CHECKING:
    from typing import Unpack

    from reconciler.commands.options import Options

F = TypeVar("F", bound=Callable[..., object])

_PATH = click.Path(path_type=Path)


def _output(function: F) -> F:
    return click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Form of the result.",
    )(function)


def _connection(function: F) -> F:
    for option in (
        click.option(
            "--organization", help="Id or label; not needed when the caller has one. [ZONECTL_ORGANIZATION]"
        ),
        click.option(
            "--api-key-file", type=click.Path(), help="File with an API key. [ZONECTL_API_KEY holds the key]"
        ),
        click.option(
            "--server",
            help="Base URL of the server; remembered for this credential. [ZONECTL_SERVER]",
        ),
        click.option("--owner", help="Id of this configuration set. [ZONECTL_OWNER]"),
    ):
        function = option(function)
    return function


def _guards(function: F) -> F:
    for option in (
        click.option("--secrets-dir", type=_PATH, help="Directory for secrets that the server shows once."),
        click.option(
            "--secrets-from",
            type=_PATH,
            multiple=True,
            metavar="DIR",
            help="A directory that `from_file` may read besides the repository.",
        ),
        click.option(
            "--allow-env",
            multiple=True,
            metavar="NAME",
            help="An environment variable that `from_env` may read; `OKTA_*` for all that begin so.",
        ),
        click.option(
            "--consent",
            multiple=True,
            metavar="NAME=N",
            help="Go ahead with exactly N deletes, in-use, conflicts or unowned.",
        ),
        click.option(
            "--renew-lost",
            is_flag=True,
            help="Replace credentials whose secret was shown once and never arrived.",
        ),
        click.option(
            "--allow-deletes", type=click.IntRange(min=0), help="The same as `--consent deletes=N`."
        ),
    ):
        function = option(function)
    return function


_EXITS = """\b
Exit codes:
  0    nothing to do, or done
  1    failed
  2    the plan has changes, or `fmt --check` found files to format
  3    drift, and nothing else to do
  4    stale plan, or a conflict with what was changed on the server
  5    refused by a guard
  64   wrong usage
  130  interrupted"""


def _exits(*codes: int) -> str:
    """The lines of these exit codes, for a command's help."""
    first, head, *lines = _EXITS.splitlines()
    return "\n".join([first, head, *(line for line in lines if int(line.split()[0]) in codes)])


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, epilog=_EXITS
)
@click.version_option(reconciler.__version__, prog_name="zonectl")
def cli() -> None:
    """Identity configuration from git: validate it, plan it, apply it."""


@cli.command(epilog=_exits(0, 1, 64, 130))
@click.argument("paths", nargs=-1, required=True, type=_PATH)
@_output
@click.option("--no-cache", is_flag=True, help="Parse every file again.")
def validate(paths: tuple[Path, ...], output: str, no_cache: bool) -> int:
    """Check files, or all that is in directories, without a server."""
    from reconciler.commands.validate import validate_command

    return validate_command(paths, as_json=output == "json", use_cache=not no_cache)


@cli.command(epilog=_exits(0, 1, 2, 64, 130))
@click.argument("paths", nargs=-1, type=_PATH)
@click.option("--check", is_flag=True, help="Write nothing; exit with 2 when a file is not formatted.")
@click.option("--diff", is_flag=True, help="Show the changes as a unified diff, with secrets masked.")
@_output
def fmt(paths: tuple[Path, ...], output: str, check: bool, diff: bool) -> int:
    """Format manifests in place: files, or all that is in directories; default: the current directory.

    Members are put in the order of their kind, strings are quoted only where they must be, and indentation
    and line ends are made the same. Comments, empty lines and block scalars are kept. A file that is not
    valid, or whose meaning would change, is left as it is.
    """
    from reconciler.commands.fmt import fmt_command

    return fmt_command(paths, as_json=output == "json", check=check, diff=diff)


@cli.command(epilog=_EXITS)
@click.argument("path", type=_PATH)
@click.option("--out", type=_PATH, help="Save the plan here, to apply exactly it.")
@_output
@_connection
@_guards
def plan(path: Path, **options: "Unpack[Options]") -> int:
    """Show what applying PATH would change. Read-only: it cannot send a write."""
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
    help="Objects of that kind may be attached to managed ones without being in git.",
)
@_output
@_connection
def drift(path: Path, unmanaged: bool, ignored: tuple[str, ...], **options: "Unpack[Options]") -> int:
    """Show drift: changes made on the server to what PATH describes. Exits with 3 when there are any.

    Exits with 1 when a part of PATH is not compared: it was never applied for this owner, another owner
    manages it, or the credential may not read it.
    """
    from reconciler.commands.drift import drift_command

    return drift_command(path, options, ignored=ignored, unmanaged=unmanaged)


@cli.command(epilog=_exits(0, 1, 4, 5, 64, 130))
@click.argument("path", type=_PATH)
@click.option("--yes", is_flag=True, help="Apply without asking for confirmation.")
@click.option("--expect", metavar="DIGEST", help="Plan again and go ahead only with the plan of this digest.")
@click.option("--receipt", type=_PATH, help="Write the receipt here.")
@click.option(
    "--root", type=_PATH, help="Base directory of a saved plan's relative paths; default: the repository."
)
@_output
@_connection
@_guards
def apply(path: Path, **options: "Unpack[Options]") -> None:
    """Apply PATH, or a saved plan: all of it or nothing."""
    from reconciler.commands.apply import apply_command

    apply_command(path, options, ask=_ask)


@cli.command(epilog=_exits(1, 5, 64, 130))
@click.argument("path", type=_PATH)
@click.option("--apply", "applies", is_flag=True, help="Also apply, within the same guards.")
@_connection
@_guards
def watch(path: Path, applies: bool, **options: "Unpack[Options]") -> None:
    """Validate and plan each time files under PATH are saved. Ends with Ctrl-C."""
    from reconciler.commands.watch import watch_command

    watch_command(path, options, applies=applies)


@cli.command(epilog=_exits(0, 1, 64, 130))
@click.option(
    "--dir", "directory", type=_PATH, default=Path(), show_default=True, help="The editor's project folder."
)
@click.option(
    "--glob", "globs", multiple=True, help="Files that are manifests; default: the folders that hold some."
)
def schema(directory: Path, globs: tuple[str, ...]) -> None:
    """Write settings for YAML editors to complete and check manifests."""
    from reconciler.commands.schema import schema_command

    schema_command(directory, globs)


def _ask(server: str) -> bool:
    """Ask before applying; without a terminal, `--yes` or `--expect` is required. Raises CommandFailed."""
    if not terminal.is_interactive():
        raise CommandFailed(USAGE, "standard input is not a terminal: pass `--yes`, or `--expect DIGEST`")
    return terminal.ask_yes_or_no(f"Apply this to {server}?")


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code. With `--output json` there is one document on every exit."""
    try:
        done = cli.main(args=list(arguments), prog_name="zonectl", standalone_mode=False)
    except CommandFailed as failure:
        return _end(failure, arguments)
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
        if failure.exit_code == INTERRUPTED:  # an interruption is no error: the user asked for it
            terminal.print_lines(*failure.lines, err=True)
        else:
            terminal.print_error(*failure.lines)
    if _wants_json(arguments):
        terminal.print_json(failure.document)
    return failure.exit_code


def _wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether the result is asked for as JSON; also where the command line cannot be understood."""
    return "--output=json" in arguments or ("--output", "json") in pairwise(arguments)


def _end_as_interrupted() -> None:
    """Let SIGTERM, with which a pipeline cancels a job, end a command as Ctrl-C does."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def main() -> None:
    """The `zonectl` command."""
    # A configuration is many small values that all stay: looking for garbage among them again is waste.
    gc.set_threshold(200_000, 50, 100)
    _end_as_interrupted()
    terminal.prepare()
    sys.exit(run(sys.argv[1:]))

"""`zonectl`: validate, fmt, plan, drift, apply, watch, schema.

Exit codes: 0 nothing to do or done; 1 failed; 2 the plan has changes, or files are not formatted;
3 drift only; 4 stale or conflict; 5 refused by a guard; 64 usage; 130 interrupted.
Nothing that `validate` does not need is imported before it is needed.
"""

import gc
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import reconciler
from reconciler import terminal
from reconciler.exit_codes import CHANGES, DRIFT, FAILED, INTERRUPTED, USAGE, CommandFailed

if TYPE_CHECKING:
    from reconciler.command_context import CommandContext
    from reconciler.manifests import Configuration

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
    from reconciler.report.diagnostics import diagnostic_lines, validation_json
    from reconciler.report.value_diff import counted

    configuration = _load(paths, use_cache=not no_cache)
    if output == "json":
        terminal.say_json(validation_json(configuration))
    elif configuration.diagnostics:
        problems, files = len(configuration.diagnostics), configuration.files
        terminal.say(
            *diagnostic_lines(configuration), f"{counted(problems, 'problem')} in {counted(files, 'file')}"
        )
    else:
        manifests, files = len(configuration.manifests), configuration.files
        terminal.say(
            f"{counted(manifests, 'manifest')} in {counted(files, 'file')}: valid",
            *(f"{each} is another configuration: validate it by itself" for each in _nested(configuration)),
        )
    return FAILED if configuration.diagnostics else 0


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
    from reconciler.kinds import load_kinds
    from reconciler.manifests import find_source_files
    from reconciler.manifests.format_files import format_files
    from reconciler.manifests.source_files import SourceError
    from reconciler.report.formatting import formatting_json, formatting_lines

    kinds = load_kinds()
    try:
        found = format_files(find_source_files(paths or [Path()]), kinds, write=not check)
    except SourceError as error:
        raise CommandFailed(USAGE, str(error)) from error
    shown = kinds if diff else None
    if output == "json":
        terminal.say_json(formatting_json(found, written=not check, diff=shown))
    else:
        terminal.say(*formatting_lines(found, written=not check, diff=shown))
    return FAILED if found.diagnostics else CHANGES if check and found.changed else 0


@cli.command(epilog=_EXITS)
@click.argument("path", type=_PATH)
@click.option("--out", type=_PATH, help="Save the plan here, to apply exactly it.")
@_output
@_connection
@_guards
def plan(path: Path, **options: Any) -> int:
    """Show what applying PATH would change. Read-only: it cannot send a write."""
    from reconciler import commands

    return commands.plan_command(path, options)


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
def drift(path: Path, output: str, unmanaged: bool, ignored: tuple[str, ...], **options: Any) -> int:
    """Show drift: changes made on the server to what PATH describes. Exits with 3 when there are any.

    Exits with 1 when a part of PATH is not compared: it was never applied for this owner, another owner
    manages it, or the credential may not read it.
    """
    from reconciler.command_context import CommandContext
    from reconciler.report.drift import drift_lines, drift_of
    from reconciler.report.plans import similar_owner_lines

    with CommandContext.open(path, options, writes=False) as session:
        _check_kinds(ignored, session)
        made = session.plan()
        found = drift_of(made, ignored)
    if output == "json":
        terminal.say_json(found.as_json(unmanaged=unmanaged))
    else:
        terminal.say(*drift_lines(found, unmanaged=unmanaged), *similar_owner_lines(made))
    return DRIFT if found else FAILED if found.incomplete else 0


def _check_kinds(names: Sequence[str], session: "CommandContext") -> None:
    for name in names:
        if name not in session.kinds.by_name:
            known = ", ".join(session.kinds.by_name)
            raise CommandFailed(USAGE, f"`--ignore {name}`: unknown kind; the kinds are {known}")


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
def apply(path: Path, **options: Any) -> None:
    """Apply PATH, or a saved plan: all of it or nothing."""
    from reconciler import commands

    commands.apply_command(path, options, ask=_ask)


@cli.command(epilog=_exits(1, 5, 64, 130))
@click.argument("path", type=_PATH)
@click.option("--apply", "applies", is_flag=True, help="Also apply, within the same guards.")
@_connection
@_guards
def watch(path: Path, applies: bool, **options: Any) -> None:
    """Validate and plan each time files under PATH are saved. Ends with Ctrl-C."""
    from reconciler import commands

    commands.watch_command(path, options, applies=applies)


@cli.command(epilog=_exits(0, 1, 64, 130))
@click.option(
    "--dir", "directory", type=_PATH, default=Path(), show_default=True, help="The editor's project folder."
)
@click.option(
    "--glob", "globs", multiple=True, help="Files that are manifests; default: the folders that hold some."
)
def schema(directory: Path, globs: tuple[str, ...]) -> None:
    """Write settings for YAML editors to complete and check manifests."""
    from reconciler.kinds import load_kinds
    from reconciler.manifests.source_files import SourceError
    from reconciler.report import editors

    if not directory.is_dir():
        raise CommandFailed(USAGE, f"there is no directory `{directory}`")
    directory = directory.resolve()
    try:
        written = editors.write_settings(directory, load_kinds(), globs or editors.find_globs(directory))
    except (editors.SettingsUnreadable, OSError) as error:
        raise CommandFailed(FAILED, str(error)) from error
    except SourceError as error:
        raise CommandFailed(USAGE, str(error)) from error
    terminal.say(
        *(f"wrote {file.relative_to(directory)}" for file in written),
        "for other editors, begin a manifest with a line like this (relative to the file):",
        editors.modeline(directory, directory / "config"),
    )


def _nested(configuration: "Configuration") -> list[str]:
    source = configuration.source
    return [source.relative(str(each)) for each in source.nested]


def _load(paths: Sequence[Path], *, use_cache: bool = True) -> "Configuration":
    from reconciler.configuration_settings import InvalidSettingsFile, read_settings, require_other_owners
    from reconciler.kinds import load_kinds
    from reconciler.manifests import find_source_files, load_configuration
    from reconciler.manifests.source_files import SourceError

    try:
        source = find_source_files(paths)
        settings = read_settings(source)
        require_other_owners(source, settings.owner or "")
        return load_configuration(source, load_kinds(), zones=settings.zones, use_cache=use_cache)
    except (SourceError, InvalidSettingsFile) as error:
        raise CommandFailed(USAGE, str(error)) from error


def _ask(session: "CommandContext") -> bool:
    """Ask before applying; without a terminal, `--yes` or `--expect` is required."""
    if not terminal.can_ask():
        raise CommandFailed(USAGE, "standard input is not a terminal: pass `--yes`, or `--expect DIGEST`")
    return terminal.ask(f"Apply this to {session.server}?")


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code. With `--output json` there is one document on every exit."""
    try:
        done = cli.main(args=list(arguments), prog_name="zonectl", standalone_mode=False)
    except CommandFailed as failure:
        return _end(failure, arguments)
    except click.UsageError as error:
        if error.ctx is not None:
            terminal.say(*error.ctx.get_usage().splitlines(), err=True)
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
            told=True,
        )
        raise
    return done if isinstance(done, int) else 0


def _end(failure: CommandFailed, arguments: Sequence[str], *, told: bool = False) -> int:
    if failure.lines and not told:
        # An interruption is no error: somebody wanted it.
        show = partial(terminal.say, err=True) if failure.exit_code == INTERRUPTED else terminal.say_error
        show(*failure.lines)
    if _wants_json(arguments):
        terminal.say_json(failure.document)
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

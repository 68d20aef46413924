"""`zonectl`: validate, plan, drift, apply, watch, schema.

Exit codes: 0 nothing to do or done; 1 failed; 2 the plan has changes; 3 drift only;
4 stale or conflict; 5 refused by a guard; 64 usage; 130 interrupted.
Nothing that `validate` does not need is imported before it is needed.
"""

import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import reconciler
from reconciler import terminal
from reconciler.exits import DRIFT, FAILED, INTERRUPTED, USAGE, Failure

if TYPE_CHECKING:
    from reconciler.session import Session

F = TypeVar("F", bound=Callable[..., Any])

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
        click.option("--secrets-dir", type=_PATH, help="Where secrets that are shown once are written."),
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
            help="Go ahead with exactly N deletes, conflicts or unowned.",
        ),
        click.option(
            "--allow-deletes", type=click.IntRange(min=0), help="The same as `--consent deletes=N`."
        ),
    ):
        function = option(function)
    return function


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(reconciler.__version__, prog_name="zonectl")
def cli() -> None:
    """Identity configuration from git: validate it, plan it, apply it."""


@cli.command()
@click.argument("paths", nargs=-1, required=True, type=_PATH)
@_output
@click.option("--no-cache", is_flag=True, help="Parse every file again.")
def validate(paths: tuple[Path, ...], output: str, no_cache: bool) -> None:
    """Check files, or all that is in directories, without a server."""
    from reconciler.report.diagnostics import diagnostic_lines, validation_json
    from reconciler.report.differences import counted

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
        terminal.say(f"{counted(manifests, 'manifest')} in {counted(files, 'file')}: valid")
    if configuration.diagnostics:
        raise Failure(FAILED)


@cli.command()
@click.argument("path", type=_PATH)
@click.option("--out", type=_PATH, help="Save the plan here, to apply exactly it.")
@_output
@_connection
@_guards
def plan(path: Path, out: Path | None, output: str, **options: Any) -> None:
    """Show what applying PATH would change. Cannot change anything: it has no way to send a write."""
    from reconciler import commands
    from reconciler.session import Session

    with Session.open(path, options, writes=False) as session:
        root = session.configuration.source.opener
        commands.check_places({**options, "out": out}, root)
        sources = commands.secret_sources(root, options, session.connection)
        made = session.plan()
        refusals = commands.guard(made, options, sources)
        session.check(made, refusals)
    if out is not None:
        commands.save_plan(made, out)
    _print_plan(made, refusals, output)
    raise Failure(commands.plan_exit_code(made, refusals))


@cli.command()
@click.argument("path", type=_PATH)
@_output
@_connection
def drift(path: Path, output: str, **options: Any) -> None:
    """Show what others changed of what PATH describes. Exits with 3 when there is any."""
    from reconciler import commands
    from reconciler.session import Session

    with Session.open(path, options, writes=False) as session:
        made = commands.drift_of(session.plan())
    if output == "json":
        terminal.say_json({"format": "zonewright/drift/v1", "drift": [action.as_json() for action in made]})
    else:
        terminal.say(*commands.drift_lines(made))
    raise Failure(DRIFT if made else 0)


@cli.command()
@click.argument("path", type=_PATH)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--expect", metavar="DIGEST", help="Plan again and go ahead only with the plan of this digest.")
@click.option("--receipt", type=_PATH, help="Write the receipt here.")
@click.option(
    "--root", type=_PATH, help="What a saved plan's relative paths are relative to; default: the repository."
)
@_output
@_connection
@_guards
def apply(path: Path, **options: Any) -> None:
    """Apply PATH, or a saved plan: all of it or nothing."""
    from reconciler import commands

    commands.apply_command(path, options, show=_print_plan, ask=_ask)


@cli.command()
@click.argument("path", type=_PATH)
@click.option("--apply", "applies", is_flag=True, help="Also apply, within the same guards.")
@_connection
@_guards
def watch(path: Path, applies: bool, **options: Any) -> None:
    """Validate and plan each time files under PATH are saved. Ends with Ctrl-C."""
    from reconciler import commands

    commands.watch_command(path, options, applies=applies)


@cli.command()
@click.option(
    "--dir", "directory", type=_PATH, default=Path(), show_default=True, help="The editor's project folder."
)
@click.option(
    "--glob", "globs", multiple=True, help="Files that are manifests; default: the folders that hold some."
)
def schema(directory: Path, globs: tuple[str, ...]) -> None:
    """Write settings for YAML editors to complete and check manifests."""
    from reconciler.kinds import load_kinds
    from reconciler.manifests.sources import SourceUnusable
    from reconciler.report import editors

    if not directory.is_dir():
        raise Failure(USAGE, f"there is no directory `{directory}`")
    directory = directory.resolve()
    try:
        written = editors.write_settings(directory, load_kinds(), globs or editors.find_globs(directory))
    except (editors.SettingsUnreadable, OSError) as error:
        raise Failure(FAILED, str(error)) from error
    except SourceUnusable as error:
        raise Failure(USAGE, str(error)) from error
    terminal.say(
        *(f"wrote {file.relative_to(directory)}" for file in written),
        "for other editors, begin a manifest with a line like this (relative to the file):",
        editors.modeline(directory, directory / "config"),
    )


def _load(paths: Sequence[Path], *, use_cache: bool = True) -> Any:
    from reconciler.kinds import load_kinds
    from reconciler.manifests import find_source, load_configuration
    from reconciler.manifests.sources import SourceUnusable

    try:
        return load_configuration(find_source(paths), load_kinds(), use_cache=use_cache)
    except SourceUnusable as error:
        raise Failure(USAGE, str(error)) from error


def _print_plan(made: Any, refusals: Sequence[Any], output: str) -> None:
    from reconciler.report.plans import plan_lines

    if output == "json":
        terminal.say_json(
            {**made.as_json(), "guards": [{"code": each.code, "message": each.message} for each in refusals]}
        )
    else:
        terminal.say(*plan_lines(made, refusals))


def _ask(session: "Session") -> bool:
    """Ask before applying; without a terminal somebody must have said so beforehand."""
    if not terminal.can_ask():
        raise Failure(USAGE, "nobody can be asked here: add `--yes`, or `--expect` with the plan's digest")
    return terminal.ask(f"Apply this to {session.server}?")


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code."""
    try:
        done = cli.main(args=list(arguments), prog_name="zonectl", standalone_mode=False)
    except Failure as failure:
        if failure.exit_code == INTERRUPTED:
            terminal.say(*failure.lines, err=True)
        elif failure.lines:
            terminal.say_error(*failure.lines)
        return failure.exit_code
    except click.UsageError as error:
        if error.ctx is not None:
            terminal.say(*error.ctx.get_usage().splitlines(), err=True)
        terminal.say_error(error.format_message())
        return USAGE
    except click.ClickException as error:
        terminal.say_error(error.format_message())
        return FAILED
    except (click.Abort, KeyboardInterrupt):
        terminal.say("interrupted; nothing was changed on a server", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        return FAILED
    return done if isinstance(done, int) else 0


def main() -> None:
    """The `zonectl` command."""
    # A configuration is many small values that all stay: looking for garbage among them again is waste.
    gc.set_threshold(200_000, 50, 100)
    terminal.prepare()
    sys.exit(run(sys.argv[1:]))

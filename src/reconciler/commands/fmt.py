"""`zonectl fmt`: formats manifests in place."""

from collections.abc import Sequence
from pathlib import Path

from reconciler.exit_codes import CHANGES, FAILED, USAGE, CommandFailed
from reconciler.kinds import load_kinds
from reconciler.manifests import find_source_files
from reconciler.manifests.format_files import format_files
from reconciler.manifests.source_files import SourceError
from reconciler.report.formatting import formatting_json, formatting_lines
from reconciler.terminal import print_json, print_lines


def fmt_command(paths: Sequence[Path], *, as_json: bool, check: bool, diff: bool) -> int:
    """`zonectl fmt`: the exit code. Raises CommandFailed.

    Args:
        check: write nothing.
        diff: show the changes, with secrets masked.
    """
    kinds = load_kinds()
    try:
        formatted = format_files(find_source_files(paths or [Path()]), kinds, write=not check)
    except SourceError as error:
        raise CommandFailed(USAGE, str(error)) from error
    masked = kinds if diff else None
    if as_json:
        print_json(formatting_json(formatted, written=not check, diff=masked))
    else:
        print_lines(*formatting_lines(formatted, written=not check, diff=masked))
    return FAILED if formatted.diagnostics else CHANGES if check and formatted.changed else 0

"""`zonectl schema`: writes settings for YAML editors."""

from collections.abc import Sequence
from pathlib import Path

from reconciler.exit_codes import FAILED, USAGE, CommandFailed
from reconciler.kinds import load_kinds
from reconciler.manifests.source_files import SourceError
from reconciler.report import editors
from reconciler.terminal import print_lines


def schema_command(directory: Path, globs: Sequence[str]) -> None:
    """`zonectl schema`. Raises CommandFailed."""
    if not directory.is_dir():
        raise CommandFailed(USAGE, f"there is no directory `{directory}`")
    directory = directory.resolve()
    try:
        written = editors.write_settings(directory, load_kinds(), globs or editors.find_globs(directory))
    except (editors.SettingsUnreadable, OSError) as error:
        raise CommandFailed(FAILED, str(error)) from error
    except SourceError as error:
        raise CommandFailed(USAGE, str(error)) from error
    print_lines(
        *(f"wrote {file.relative_to(directory)}" for file in written),
        "for other editors, begin a manifest with a line like this (relative to the file):",
        editors.modeline(directory, directory / "config"),
    )

"""`zonectl validate`: checks manifests without a server."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from reconciler.configuration_settings import InvalidSettingsFile, read_settings, require_other_owners
from reconciler.exit_codes import FAILED, USAGE, CommandFailed
from reconciler.kinds import load_kinds
from reconciler.manifests import Configuration, find_source_files, load_configuration
from reconciler.manifests.source_files import SourceError
from reconciler.report.diagnostics import diagnostic_lines, validation_json, warning_lines
from reconciler.report.expiries import expiries, expiry_lines
from reconciler.report.places import places_from_here
from reconciler.report.value_diff import counted
from reconciler.terminal import print_json, print_lines


def validate_command(paths: Sequence[Path], *, as_json: bool, use_cache: bool) -> int:
    """`zonectl validate`: the exit code. Raises CommandFailed."""
    configuration = _load(paths, use_cache=use_cache)
    valid = () if configuration.diagnostics else configuration.manifests
    expiring = list(expiries(valid, datetime.now(UTC)))
    if as_json:
        print_json(validation_json(configuration, expiring))
    elif configuration.diagnostics:
        problems, files = len(configuration.diagnostics), configuration.files
        print_lines(
            *diagnostic_lines(configuration), f"{counted(problems, 'problem')} in {counted(files, 'file')}"
        )
    else:
        manifests, files = len(configuration.manifests), configuration.files
        print_lines(
            f"{counted(manifests, 'manifest')} in {counted(files, 'file')}: valid",
            *(f"{each} is another configuration: validate it by itself" for each in _nested(configuration)),
            *warning_lines(configuration),
            *expiry_lines(expiring, places_from_here(configuration)),
        )
    return FAILED if configuration.diagnostics else 0


def _load(paths: Sequence[Path], *, use_cache: bool) -> Configuration:
    try:
        source = find_source_files(paths)
        settings = read_settings(source)
        require_other_owners(source, settings.owner or "")
        return load_configuration(source, load_kinds(), zones=settings.zones, use_cache=use_cache)
    except (SourceError, InvalidSettingsFile) as error:
        raise CommandFailed(USAGE, str(error)) from error


def _nested(configuration: Configuration) -> list[str]:
    """Directories within PATH with a configuration of their own."""
    source = configuration.source
    return [source.relative(str(each)) for each in source.nested]

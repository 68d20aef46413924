"""Reads the user's own `zonectl.yaml`, outside every repository: what manifests are allowed to read."""

from collections.abc import Sequence
from pathlib import Path

from reconciler.apply import AllowedNames, PatternWrong
from reconciler.client.known_servers import state_directory
from reconciler.files import Root, read_private
from reconciler.manifests.source_files import SETTINGS_FILE
from reconciler.manifests.yaml_mapping import InvalidMapping, read_yaml_mapping

_MEMBER = "allow_env"


class InvalidUserSettings(ValueError):
    """The user's settings file, or `--allow-env`, is not valid."""


def trusted_file(outside: Root) -> Path | None:
    """`zonectl.yaml` beside the record of known servers; None when that would lie in the repository."""
    directory = state_directory()
    return None if directory is None or directory in outside else directory / SETTINGS_FILE


def allowed_names(option: Sequence[str], outside: Root) -> AllowedNames:
    """The environment variables that `--allow-env` and this user's own file let manifests read.

    Raises:
        InvalidUserSettings: one of them is not valid, or other users can write to the file.
    """
    file = trusted_file(outside)
    listed = _listed(file) if file is not None else []
    try:
        AllowedNames.of(option)
    except PatternWrong as error:
        raise InvalidUserSettings(f"`--allow-env`: {error}") from error
    try:
        return AllowedNames.of([*option, *listed], str(file or ""))
    except PatternWrong as error:
        raise InvalidUserSettings(f"{file}: `{_MEMBER}`: {error}") from error


def _listed(file: Path) -> list[str]:
    try:
        found = read_yaml_mapping(read_private(file), [_MEMBER])
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InvalidUserSettings(f"{file}: {error.strerror}") from error
    except InvalidMapping as error:
        raise InvalidUserSettings(f"{file}{error.place}: {error}") from error
    names, place = found.get(_MEMBER, ([], ""))
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise InvalidUserSettings(
            f"{file}{place}: `{_MEMBER}` must be a list of names, as in `[OKTA_SECRET, IDP_*]`"
        )
    return names

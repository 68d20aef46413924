"""Owner, organization and server of a configuration, as its `zonectl.yaml` says them."""

from dataclasses import dataclass
from pathlib import Path

from reconciler import variables
from reconciler.files import FileRefused
from reconciler.manifests import Source
from reconciler.manifests.explaining import wrong_type
from reconciler.manifests.settings import MappingWrong, read_mapping
from reconciler.manifests.sources import SETTINGS_FILE

MAX_SETTINGS_BYTES = 64 * 1024
# A repository cannot allow itself anything.
_OUTSIDE = {"allow_env": "this user's own file outside the repository, or on the command line"}
_MEMBERS = ("owner", "organization", "server")


class SettingsWrong(ValueError):
    """`zonectl.yaml` cannot be read, or what is needed is nowhere."""


@dataclass(frozen=True)
class Configured:
    """The settings of a configuration. `owner` is its explicit id: moving a folder changes nothing.

    `server` decides nothing: it is compared with the server that somebody outside the repository has named.
    """

    owner: str | None = None
    organization: str | None = None
    server: str | None = None


def read_settings(path: Path, source: Source) -> Configured:
    """The settings in `zonectl.yaml` of the directory that was named; empty when there is none.

    Only that directory is looked at: a plan of a part must not prune the rest in the whole's name.

    Raises:
        SettingsWrong: the file is not as it should be.
    """
    (named,) = source.named
    if not named.is_dir():
        return Configured()
    file = path / SETTINGS_FILE
    try:
        content = source.opener.read(str(named / SETTINGS_FILE), at_most=MAX_SETTINGS_BYTES)
        found = read_mapping(content, _MEMBERS, _OUTSIDE)
    except FileRefused as refused:
        if refused.code == "no-file":
            return Configured()
        raise SettingsWrong(f"{file}: {refused.reason}") from refused
    except MappingWrong as error:
        raise SettingsWrong(f"{file}{error.place}: {error}") from error
    for name, (value, place) in found.items():
        if not isinstance(value, str):
            raise SettingsWrong(f"{file}{place}: {wrong_type(f'`{name}`', 'a string', value)}")
    return Configured(**{name: value for name, (value, _) in found.items()})


def find_owner(option: str | None, configured: Configured) -> str:
    """The id of the configuration set. Raises SettingsWrong."""
    owner = option or configured.owner or variables.read("OWNER")
    if not owner:
        raise SettingsWrong(
            f"no owner: give `--owner NAME`, set ZONECTL_OWNER, or write `owner: NAME` into {SETTINGS_FILE} "
            f"in the directory you plan{variables.misspelt()}"
        )
    return owner

"""Owner, organization and server of a configuration, as its `zonectl.yaml` says them."""

from dataclasses import dataclass
from pathlib import Path

from reconciler import variables
from reconciler.files import FileRefused
from reconciler.manifests import Source
from reconciler.manifests.diagnostics import suggest
from reconciler.manifests.sources import SETTINGS_FILE
from reconciler.manifests.yaml_reader import YamlProblem, read_documents

MAX_SETTINGS_BYTES = 64 * 1024
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
        documents = read_documents(content.decode("utf-8-sig"))
    except FileRefused as refused:
        if refused.code == "no-file":
            return Configured()
        raise SettingsWrong(f"{file}: {refused.reason}") from refused
    except UnicodeDecodeError as error:
        raise SettingsWrong(f"{file}: is not UTF-8 at byte {error.start}") from error
    except YamlProblem as problem:
        raise SettingsWrong(f"{file}:{problem.span.line + 1}: {problem.message}") from problem
    settings = documents[0].value if len(documents) == 1 else {} if not documents else None
    if not isinstance(settings, dict):
        raise SettingsWrong(f"{file}: expected one mapping with {', '.join(_MEMBERS)}")
    for name, value in settings.items():
        if name not in _MEMBERS:
            raise SettingsWrong(f"{file}: unknown member `{name}`{suggest(name, _MEMBERS)}")
        if not isinstance(value, str):
            raise SettingsWrong(f"{file}: `{name}` must be a string")
    return Configured(**settings)


def find_owner(option: str | None, configured: Configured) -> str:
    """The id of the configuration set. Raises SettingsWrong."""
    owner = option or configured.owner or variables.read("OWNER")
    if not owner:
        raise SettingsWrong(
            f"no owner: give `--owner NAME`, set ZONECTL_OWNER, or write `owner: NAME` into {SETTINGS_FILE} "
            f"in the directory you plan{variables.misspelt()}"
        )
    return owner

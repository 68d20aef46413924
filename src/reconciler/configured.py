"""Owner, organization and server of a configuration, as its `zonectl.yaml` says them."""

from dataclasses import dataclass
from pathlib import Path

from reconciler import variables
from reconciler.manifests.diagnostics import suggest
from reconciler.manifests.sources import SETTINGS_FILE
from reconciler.manifests.yaml_reader import YamlProblem, read_documents

_MEMBERS = ("owner", "organization", "server")


class SettingsWrong(ValueError):
    """`zonectl.yaml` cannot be read, or what is needed is nowhere."""


@dataclass(frozen=True)
class Configured:
    """The settings of a configuration. `owner` is its explicit id: moving a folder changes nothing."""

    owner: str | None = None
    organization: str | None = None
    server: str | None = None


def read_settings(path: Path) -> Configured:
    """The settings in `zonectl.yaml` of the directory that was named; empty when there is none.

    Only that directory is looked at: a plan of a part must not prune the rest in the whole's name.

    Raises:
        SettingsWrong: the file is not as it should be.
    """
    file = (path if path.is_dir() else path.parent) / SETTINGS_FILE
    if not path.is_dir() or not file.is_file():
        return Configured()
    try:
        documents = read_documents(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsWrong(f"{file}: cannot be read: {error}") from error
    except YamlProblem as problem:
        raise SettingsWrong(f"{file}:{problem.span.line + 1}: {problem.message}") from problem
    content = documents[0].value if len(documents) == 1 else {} if not documents else None
    if not isinstance(content, dict):
        raise SettingsWrong(f"{file}: expected one mapping with {', '.join(_MEMBERS)}")
    for name, value in content.items():
        if name not in _MEMBERS:
            raise SettingsWrong(f"{file}: unknown member `{name}`{suggest(name, _MEMBERS)}")
        if not isinstance(value, str):
            raise SettingsWrong(f"{file}: `{name}` must be a string")
    return Configured(**content)


def find_owner(option: str | None, configured: Configured) -> str:
    """The id of the configuration set. Raises SettingsWrong."""
    owner = option or configured.owner or variables.read("OWNER")
    if not owner:
        raise SettingsWrong(
            f"no owner: give `--owner NAME`, set ZONECTL_OWNER, or write `owner: NAME` into {SETTINGS_FILE} "
            f"in the directory you plan{variables.misspelt()}"
        )
    return owner

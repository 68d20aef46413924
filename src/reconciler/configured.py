"""Owner, organization and server of a configuration, as its `zonectl.yaml` says them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler import variables
from reconciler.files import FileRefused
from reconciler.kinds import load_kinds
from reconciler.manifests import Source
from reconciler.manifests.diagnostics import bounded, suggest
from reconciler.manifests.explaining import wrong_type
from reconciler.manifests.settings import MappingWrong, read_mapping
from reconciler.manifests.sources import SETTINGS_FILE
from reconciler.plan.budgets import ZONE, is_budget

MAX_SETTINGS_BYTES = 64 * 1024
# A repository cannot allow itself anything.
_OUTSIDE = {"allow_env": "this user's own file outside the repository, or on the command line"}
_TEXTS = ("owner", "organization", "server")
_BUDGETS = "delete_budgets"


class SettingsWrong(ValueError):
    """`zonectl.yaml` cannot be read, or what is needed is nowhere."""


@dataclass(frozen=True)
class Configured:
    """The settings of a configuration. `owner` is its explicit id: moving a folder changes nothing.

    `server` decides nothing: it is compared with the server that somebody outside the repository has named.
    `delete_budgets` is kind -> how many deletions need no consent, as a number or as `N%`.
    """

    owner: str | None = None
    organization: str | None = None
    server: str | None = None
    delete_budgets: Mapping[str, int | str] = field(default_factory=dict)


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
        found = read_mapping(content, (*_TEXTS, _BUDGETS), _OUTSIDE)
    except FileRefused as refused:
        if refused.code == "no-file":
            return Configured()
        raise SettingsWrong(f"{file}: {refused.reason}") from refused
    except MappingWrong as error:
        raise SettingsWrong(f"{file}{error.place}: {error}") from error
    for name, (value, place) in found.items():
        if name in _TEXTS and not isinstance(value, str):
            raise SettingsWrong(f"{file}{place}: {wrong_type(f'`{name}`', 'a string', value)}")
        if name == _BUDGETS and (problem := _budgets_problem(value)):
            raise SettingsWrong(f"{file}{place}: {problem}")
    return Configured(**{name: value for name, (value, _) in found.items()})


def _budgets_problem(value: Any) -> str:
    """What is wrong with delete budgets; empty when nothing is."""
    if not isinstance(value, dict):
        return wrong_type(f"`{_BUDGETS}`", "a mapping of kinds to numbers", value)
    known = load_kinds().by_name
    for kind, budget in value.items():
        if kind not in known:
            return f"`{_BUDGETS}`: unknown kind `{bounded(kind)}`{suggest(kind, known)}"
        if kind == ZONE:
            return f"`{_BUDGETS}`: deleting a {ZONE} always needs consent; take it out"
        if not is_budget(budget):
            return f"`{_BUDGETS}`: the budget of `{kind}` must be a number, or a share as in `10%`"
    return ""


def find_owner(option: str | None, configured: Configured) -> str:
    """The id of the configuration set. Raises SettingsWrong."""
    owner = option or configured.owner or variables.read("OWNER")
    if not owner:
        raise SettingsWrong(
            f"no owner: give `--owner NAME`, set ZONECTL_OWNER, or write `owner: NAME` into {SETTINGS_FILE} "
            f"in the directory you plan{variables.misspelt()}"
        )
    return owner

"""Reads `zonectl.yaml`: owner, organization, server, delete budgets, and other configurations."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler import environment_variables
from reconciler.files import FileRefused
from reconciler.kinds import load_kinds
from reconciler.manifests import SourceFiles
from reconciler.manifests.diagnostics import bounded, suggest
from reconciler.manifests.schema_messages import wrong_type
from reconciler.manifests.source_files import SETTINGS_FILE, seen_from_here
from reconciler.manifests.yaml_mapping import InvalidMapping, read_yaml_mapping
from reconciler.plan.delete_budget import ZONE, is_delete_budget

MAX_SETTINGS_BYTES = 64 * 1024
# A repository cannot grant itself permissions.
_OUTSIDE = {"allow_env": "this user's own file outside the repository, or on the command line"}
_TEXTS = ("owner", "organization", "server")
_BUDGETS = "delete_budgets"
_MEMBERS = (*_TEXTS, "zones", "nested", _BUDGETS)
_NAMED_OWNER = {"name", "owner"}


class InvalidSettingsFile(ValueError):
    """`zonectl.yaml` is not valid, or a required setting is missing."""


class OwnerRefused(ValueError):
    """The repository names another owner than the option or the environment."""


@dataclass(frozen=True)
class ConfigurationSettings:
    """The settings of a configuration. `owner` is its explicit id: moving a folder changes nothing.

    `server` is only compared with the server that was named outside the repository; and so is `owner`, where
    one was named outside.

    Attributes:
        zones: name of a zone that another configuration manages -> its owner, where one is named.
        nested: the directories below that are configurations of their own, relative to this one; `*` stands
            for any one directory name.
        delete_budgets: kind -> how many deletions need no consent, as a number or as `N%`.
    """

    owner: str | None = None
    organization: str | None = None
    server: str | None = None
    zones: Mapping[str, str | None] = field(default_factory=dict)
    nested: tuple[str, ...] = ()
    delete_budgets: Mapping[str, int | str] = field(default_factory=dict)

    def nests(self, directory: Path) -> bool:
        """Tell whether a directory, relative to the configuration's, is listed as another configuration."""
        steps = directory.parts
        return any(_fits(entry.split("/"), steps) for entry in self.nested)


def _fits(entry: list[str], steps: tuple[str, ...]) -> bool:
    return len(entry) == len(steps) and all(
        one in ("*", step) for one, step in zip(entry, steps, strict=True)
    )


def read_settings(source: SourceFiles) -> ConfigurationSettings:
    """The settings in `zonectl.yaml` of the directory that was named; empty when there is none.

    Only that directory is looked at: a plan of a part must not prune the rest in the whole's name. Of several
    directories the zones count together.

    Raises:
        InvalidSettingsFile: the file has mistakes; the directories belong to two configurations; a nested one
            is not listed, or a listed one is not nested.
    """
    read = [(named, _read(named, source)) for named in source.named]
    owners = sorted({settings.owner for _, settings in read if settings.owner is not None})
    if len(owners) > 1:
        both = ", ".join(f"`{owner}`" for owner in owners)
        raise InvalidSettingsFile(f"the paths belong to different configurations: {both}; name those of one")
    for named, settings in read:
        _require_nested(named, settings, source)
    if len(read) == 1:
        return read[0][1]
    zones = {name: owner for _, settings in read for name, owner in settings.zones.items()}
    return ConfigurationSettings(owner=owners[0] if owners else None, zones=zones)


def _require_nested(named: Path, settings: ConfigurationSettings, source: SourceFiles) -> None:
    """Raise InvalidSettingsFile unless exactly the directories that are listed have settings of their own.

    Who writes in a directory below decides by that neither to leave this configuration, which would delete
    what is described there, nor to join it, which would apply that in its name.
    """
    file = _shown(named)
    for nested in source.nested:
        if nested.is_relative_to(named) and not settings.nests(relative := nested.relative_to(named)):
            raise InvalidSettingsFile(
                f"{_shown(nested)}: this file makes `{relative}` a configuration of its own, and {file} does"
                f" not list it; write `nested: [{relative}]` there, or remove this file"
            )
    if not settings.nested:
        return
    for folder in sorted({Path(each).parent for each in source.files}):
        for inside in _up_to(folder, named):
            if settings.nests(relative := inside.relative_to(named)):
                raise InvalidSettingsFile(
                    f"{file}: `{relative}` is listed in `nested`, and there is no {_shown(inside)}, which"
                    " names the owner of the manifests in it; write one, or remove it from the list"
                )


def _up_to(folder: Path, named: Path) -> Iterator[Path]:
    """The directory, and those around it below another one."""
    return (each for each in (folder, *folder.parents) if each != named and each.is_relative_to(named))


def require_other_owners(source: SourceFiles, owner: str) -> None:
    """Raise InvalidSettingsFile where a nested configuration has no owner, or the same as another one."""
    found = {owner}
    for nested in source.nested:
        settings, file = _read(nested, source), _shown(nested)
        if settings.owner is None:
            raise InvalidSettingsFile(
                f"{file}: `owner` is missing; write `owner: NAME`, who owns the manifests in that directory"
            )
        if settings.owner in found:
            raise InvalidSettingsFile(
                f"{file}: `{bounded(settings.owner)}` is also the owner of another directory; each apply"
                " would delete what the other describes; name another owner"
            )
        found.add(settings.owner)


def _shown(directory: Path) -> Path:
    return Path(seen_from_here(directory)) / SETTINGS_FILE


def _read(named: Path, source: SourceFiles) -> ConfigurationSettings:
    if not named.is_dir():
        return ConfigurationSettings()
    file = _shown(named)
    try:
        content = source.opener.read(str(named / SETTINGS_FILE), at_most=MAX_SETTINGS_BYTES)
        found = read_yaml_mapping(content, _MEMBERS, _OUTSIDE)
    except FileRefused as refused:
        if refused.code == "no-file":
            return ConfigurationSettings()
        raise InvalidSettingsFile(f"{file}: {refused.reason}") from refused
    except InvalidMapping as error:
        raise InvalidSettingsFile(f"{file}{error.place}: {error}") from error
    for name, (value, place) in found.items():
        if name in _TEXTS and not isinstance(value, str):
            raise InvalidSettingsFile(f"{file}{place}: {wrong_type(f'`{name}`', 'a string', value)}")
        if name == _BUDGETS and (problem := _budgets_problem(value)):
            raise InvalidSettingsFile(f"{file}{place}: {problem}")
    texts = {name: found[name][0] for name in _TEXTS if name in found}
    return ConfigurationSettings(
        **texts,
        zones=dict(_zones(file, *found.get("zones", ([], "")))),
        delete_budgets=found[_BUDGETS][0] if _BUDGETS in found else {},
        nested=tuple(_nested(file, *found.get("nested", ([], "")))),
    )


def _zones(file: Path, written: object, place: str) -> Iterator[tuple[str, str | None]]:
    """The zones of other configurations: names, or name and owner. Raises InvalidSettingsFile."""
    seen = set()
    for index, each in _listed(f"{file}{place}", "zones", written, "a list of names of zones"):
        entry = {"name": each} if isinstance(each, str) else each
        if not isinstance(entry, dict) or not entry.keys() <= _NAMED_OWNER or "name" not in entry:
            raise InvalidSettingsFile(
                f"{file}{place}: `zones[{index}]` must be the name of a zone, or `{{name: .., owner: ..}}`"
            )
        if not all(isinstance(value, str) and value for value in entry.values()):
            raise InvalidSettingsFile(f"{file}{place}: `zones[{index}]`: name and owner must be strings")
        if entry["name"] in seen:
            raise InvalidSettingsFile(
                f"{file}{place}: `zones[{index}]`: `{bounded(entry['name'])}` is listed twice"
            )
        seen.add(entry["name"])
        yield entry["name"], entry.get("owner")


def _nested(file: Path, written: object, place: str) -> Iterator[str]:
    """The directories of other configurations. Raises InvalidSettingsFile."""
    for index, each in _listed(f"{file}{place}", "nested", written, "a list of directories"):
        steps = each.split("/") if isinstance(each, str) else []
        if not steps or any(step in ("", ".", "..") or ("*" in step and step != "*") for step in steps):
            raise InvalidSettingsFile(
                f"{file}{place}: `nested[{index}]` must be a directory below this one, as in"
                " `teams/payments`, or `teams/*` for all in it"
            )
        yield each


def _listed(where: str, member: str, written: object, wanted: str) -> Iterable[tuple[int, Any]]:
    if not isinstance(written, list):
        raise InvalidSettingsFile(f"{where}: {wrong_type(f'`{member}`', wanted, written)}")
    return enumerate(written)


def _budgets_problem(value: object) -> str:
    """What is wrong with delete budgets; empty when nothing is."""
    if not isinstance(value, dict):
        return wrong_type(f"`{_BUDGETS}`", "a mapping of kinds to numbers", value)
    known = load_kinds().by_name
    for kind, budget in value.items():
        if kind not in known:
            return f"`{_BUDGETS}`: unknown kind `{bounded(kind)}`{suggest(kind, known)}"
        if kind == ZONE:
            return f"`{_BUDGETS}`: deleting a {ZONE} always needs consent; take it out"
        if not is_delete_budget(budget):
            return f"`{_BUDGETS}`: the budget of `{kind}` must be a number, or a share as in `10%`"
    return ""


def find_owner(option: str | None, configured: ConfigurationSettings, source: SourceFiles) -> str:
    """The id of the configuration set.

    Raises:
        InvalidSettingsFile: no option, variable or file names an owner.
        OwnerRefused: the repository names another owner than the option or the environment.
    """
    outside = named_owner(option)
    owner = outside or configured.owner
    if not owner:
        raise InvalidSettingsFile(f"no owner: {_how_to_name_owner(source)}{environment_variables.misspelt()}")
    require_owner(owner, configured.owner, f"its {SETTINGS_FILE}")
    return owner


def _how_to_name_owner(source: SourceFiles) -> str:
    """How to name the missing owner: in the directory of the first path on the command line."""
    first = source.named[0]
    named = first if first.is_dir() else first.parent
    file = named / SETTINGS_FILE
    if first != named and file.is_file():
        folder = seen_from_here(named)
        return (
            f"`{seen_from_here(first)}` is one file of a configuration, whose owner {_shown(named)} names:"
            f" name its directory, as in `zonectl plan {folder}`"
        )
    outside = "or give `--owner NAME`, or set ZONECTL_OWNER"
    if file.is_file():
        return f"{_shown(named)} has no `owner`: write `owner: NAME` into it, {outside}"
    for above in named.parents:
        if not above.is_relative_to(source.root):
            break
        if (above / SETTINGS_FILE).is_file():
            inside, whole = seen_from_here(named), seen_from_here(above)
            return f"`{inside}` is part of the configuration that {_shown(above)} describes: name `{whole}`"
    return (
        f"there is no {_shown(named)}, which names the owner of the manifests: write one with"
        f" `owner: NAME`, a name of your choice that never changes, as in `acme/identity`; {outside}"
    )


def named_owner(option: str | None) -> str | None:
    """The owner that is named outside the repository: by the option, else in the environment."""
    return option or environment_variables.read("OWNER")


def require_owner(outside: str | None, claimed: str | None, where: str) -> None:
    """Raise OwnerRefused where the owner claimed in the repository differs from the one named outside it."""
    if outside is not None and claimed is not None and claimed != outside:
        raise OwnerRefused(
            f"the owner is `{outside}` (from `--owner` or ZONECTL_OWNER), but {where} has"
            f" `{bounded(claimed)}`; a repository cannot choose the owner: name the same one in both"
        )

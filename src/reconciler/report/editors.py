"""Settings with which YAML editors complete and check manifests."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from reconciler.files import FileRefused, Root, check_place, write_named
from reconciler.kinds import Kinds
from reconciler.kinds.loading import API_VERSION
from reconciler.manifests import find_source_files
from reconciler.manifests.source_files import MAX_FILE_BYTES

SCHEMA_FILE = ".vscode/zonewright.schema.json"
SETTINGS_FILE = ".vscode/settings.json"
_ENDING = "*.{yaml,yml}"
DEFAULT_GLOBS = (f"config/**/{_ENDING}",)
_OPENING_BYTES = 4096


class SettingsUnreadable(ValueError):
    """An editor's settings exist and are not plain JSON; they are left alone."""


def combined_schema(kinds: Kinds) -> dict[str, Any]:
    """One JSON Schema for a manifest of any kind: `kind` selects the part that applies."""
    names = [kind.name for kind in kinds.ordered]
    choices = [
        {
            "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
            "then": {"$ref": f"#/$defs/{name}"},
        }
        for name in names
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "zonewright manifest",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"enum": names},
            "metadata": {"type": "object"},
        },
        "allOf": choices,
        "$defs": {kind.name: _embedded(kind.schema, kind.name) for kind in kinds.ordered},
    }


def _embedded(value: object, name: str) -> Any:
    """A schema as a part of another: without an identity, its local references redirected to the part."""
    if isinstance(value, Mapping):
        return {
            word: f"#/$defs/{name}/{each[2:]}"
            if word == "$ref" and str(each).startswith("#/")
            else _embedded(each, name)
            for word, each in value.items()
            if word not in ("$schema", "$id", "x-zonewright")
        }
    if isinstance(value, list | tuple):
        return [_embedded(each, name) for each in value]
    return value


def find_globs(directory: Path) -> list[str]:
    """Patterns for the folders below *directory* with manifests; other YAML has other schemas.

    Raises:
        SourceError: a directory cannot be read.
    """
    folders = set()
    source = find_source_files([directory], whole=True)
    for file in source.files:
        try:
            content = source.opener.read(file, at_most=MAX_FILE_BYTES)
        except FileRefused:  # whatever it is, it is no manifest that zonectl would read
            continue
        if API_VERSION.encode() in content[:_OPENING_BYTES]:
            folders.add(Path(file).parent.relative_to(directory).parts[:1])
    if () in folders:
        folders.discard(())
        return [_ENDING, *(f"{name}/**/{_ENDING}" for (name,) in sorted(folders))]
    return [f"{name}/**/{_ENDING}" for (name,) in sorted(folders)] or list(DEFAULT_GLOBS)


def write_settings(directory: Path, kinds: Kinds, globs: Sequence[str]) -> list[Path]:
    """Write the combined schema, and settings that point at it; other settings stay.

    Raises:
        SettingsUnreadable: the settings cannot be read as JSON, or links lead elsewhere.
        OSError: they cannot be written.
    """
    schema, settings = directory / SCHEMA_FILE, directory / SETTINGS_FILE
    root = Root(directory, hidden=True)
    try:
        for file in (schema, settings):
            check_place(file, root)
        known = _read(settings, root)
    except FileRefused as refused:
        raise SettingsUnreadable(str(refused)) from refused
    schemas = known.get("yaml.schemas")
    known["yaml.schemas"] = {
        **(schemas if isinstance(schemas, dict) else {}),
        f"./{SCHEMA_FILE}": [*globs, "!**/zonectl.yaml"],
    }
    schema.parent.mkdir(parents=True, exist_ok=True)
    write_named(schema, orjson.dumps(combined_schema(kinds), option=orjson.OPT_INDENT_2) + b"\n")
    write_named(settings, orjson.dumps(known, option=orjson.OPT_INDENT_2) + b"\n")
    return [schema, settings]


def _read(settings: Path, root: Root) -> dict[str, Any]:
    try:
        content = orjson.loads(root.read(str(settings), at_most=MAX_FILE_BYTES))
    except FileRefused as refused:
        if refused.code == "no-file":
            return {}
        raise
    except orjson.JSONDecodeError as error:
        raise SettingsUnreadable(
            f"`{settings}` is not plain JSON; add `./{SCHEMA_FILE}` to its `yaml.schemas` by hand"
        ) from error
    return content if isinstance(content, dict) else {}


def modeline(directory: Path, manifest_folder: Path) -> str:
    """The comment from which editors with a YAML language server know the schema of a file."""
    relative = os.path.relpath(directory / SCHEMA_FILE, manifest_folder).replace(os.sep, "/")
    return f"# yaml-language-server: $schema={relative}"

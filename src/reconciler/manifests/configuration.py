"""Loads a configuration: reads every file, validates every document, checks every reference."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.files import FileRefused
from reconciler.kinds import Kinds, Manifest, Origin

from .diagnostics import Diagnostic, diagnose
from .document_diagnostics import document_diagnostics
from .encoding import InvalidEncoding, decode
from .reference_checks import check_references
from .schema_checks import Validators
from .source_files import ENDINGS, MAX_FILE_BYTES, SETTINGS_FILE, SourceError, SourceFiles, seen_from_here
from .validation_cache import Entry, ValidationCache
from .yaml_reader import InvalidYaml, read_documents


@dataclass(frozen=True)
class Configuration:
    """The manifests of a configuration, and its diagnostics: `manifests` is complete when there are none.

    `warnings`: of valid manifests, what is probably not meant.
    `zones`: name of a zone that another configuration manages -> its owner, where one is named.
    """

    source: SourceFiles
    manifests: tuple[Manifest, ...]
    diagnostics: tuple[Diagnostic, ...]
    files: int
    zones: Mapping[str, str | None] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()


def load_configuration(
    source: SourceFiles,
    kinds: Kinds,
    *,
    zones: Mapping[str, str | None] | None = None,
    use_cache: bool = True,
) -> Configuration:
    """Read and check everything; needs no server.

    All problems that can be found are reported together. References are resolved only when all documents are
    valid by themselves: an invalid manifest would make every reference to it look wrong too.

    Raises:
        SourceError: there is not one manifest; what is described elsewhere would be planned for deletion.
    """
    cache = ValidationCache(source, kinds) if use_cache else None
    validators = Validators(kinds)
    manifests: list[Manifest] = []
    diagnostics: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    for file in source.files:
        name = source.relative(file)
        entry = read_manifest_file(source, file, name, validators, cache, diagnostics)
        manifests.extend(_manifests(entry, name, kinds))
    if cache is not None:
        cache.save()
    if not diagnostics:
        if not manifests:
            raise SourceError(nothing_in(source))
        manifests, diagnostics, warnings = check_references(source, manifests, zones or {})
    found = tuple(sorted(set(diagnostics)))
    noted = tuple(sorted(set(warnings)))
    return Configuration(source, tuple(manifests), found, len(source.files), zones or {}, noted)


def nothing_in(source: SourceFiles) -> str:
    named = ", ".join(f"`{seen_from_here(path)}`" for path in source.named[:5])
    if not source.files:
        what = f"there are no manifests in {named}: no file there"
        if not any((path / SETTINGS_FILE).is_file() for path in source.named):
            return f"{what} ends with `.yaml` or `.yml`"
        return (
            f"{what} besides {SETTINGS_FILE} ends with `.yaml` or `.yml`; to remove a configuration, release"
            ' its objects: see "Remove a configuration" in zonectl.md of the documentation'
        )
    return f"there are no manifests in {named}: what was read holds nothing but comments"


def _readable(name: str) -> str:
    """A file's name with the bytes that are not UTF-8 written out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def read_manifest_file(
    source: SourceFiles,
    file: str,
    name: str,
    validators: Validators,
    cache: ValidationCache | None,
    diagnostics: list[Diagnostic],
) -> Entry:
    """The valid documents of a file; its problems are added to *diagnostics*."""
    if not name.isascii() and (shown := _readable(name)) != name:
        diagnostics.append(diagnose(shown, "", None, "encoding", "the file's name is not UTF-8; rename it"))
        return []
    try:
        content = source.opener.read(
            file, at_most=MAX_FILE_BYTES, endings=ENDINGS if file.endswith(ENDINGS) else ""
        )
    except FileRefused as refused:
        diagnostics.append(diagnose(name, "", None, refused.code, refused.reason))
        return []
    digest = hashlib.sha256(content).hexdigest()
    if cache is not None and (known := cache.find(digest)) is not None:
        return known
    try:
        text = decode(content)
        documents = read_documents(text)
    except InvalidEncoding as error:
        diagnostics.append(diagnose(name, error.text, error.span, "encoding", error.message))
        return []
    except InvalidYaml as problem:
        diagnostics.append(diagnose(name, text, problem.span, "yaml", problem.message))
        return []
    entry: Entry = [[document.line, document.value] for document in documents]
    if all(validators.is_valid(value) for _, value in entry):
        if cache is not None:
            cache.keep(digest, entry)
        return entry
    diagnostics.extend(_explain_file(name, text, validators))
    return []


def _explain_file(name: str, text: str, validators: Validators) -> Iterable[Diagnostic]:
    for document in read_documents(text, places=True):
        if validators.is_valid(document.value):
            continue
        findings = validators.findings(document.value)
        named = document.value.get("kind") if isinstance(document.value, dict) else None
        kind = validators.kinds.by_name.get(named) if isinstance(named, str) else None
        yield from document_diagnostics(name, text, document, findings, kind)


def _manifests(entry: Entry, path: str, kinds: Kinds) -> Iterable[Manifest]:
    folder = path.rpartition("/")[0] or "."
    for line, value in entry:
        metadata: dict[str, Any] = value["metadata"]
        yield Manifest(
            kind=kinds.by_name[value["kind"]],
            zone=metadata.get("zone"),
            name=metadata["name"],
            spec=value.get("spec") or {},
            origin=Origin(path, line),
            labels=metadata.get("labels") or {},
            lifecycle=value.get("lifecycle") or {},
            folder=folder,
        )

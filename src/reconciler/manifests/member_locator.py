"""Locates the manifest member that an error of the server is about."""

import re
from collections.abc import Iterator

from reconciler.cedar import stretch_at
from reconciler.files import FileRefused
from reconciler.kinds import Kind, Manifest, MemberSchema

from .configuration import Configuration
from .diagnostics import Diagnostic
from .document_diagnostics import RedactedDocument
from .encoding import InvalidEncoding, decode
from .source_files import MAX_FILE_BYTES
from .spans import MemberPath
from .text_spans import diagnose_in_text
from .yaml_reader import InvalidYaml, YamlDocument, read_documents

_STEP = re.compile(r"[^.\[\]]+")


class MemberLocator:
    """Finds members of manifests in their files, each of which is read once more."""

    def __init__(self, configuration: Configuration) -> None:
        self._source = configuration.source
        self._manifests = {(each.kind.name, each.zone, each.name): each for each in configuration.manifests}
        self._read: dict[str, tuple[str, dict[int, YamlDocument]]] = {}

    def find(
        self,
        kind: str,
        zone: str | None,
        name: str,
        field: str,
        *,
        code: str,
        message: str,
        within: tuple[int, int] | None = None,
    ) -> Diagnostic | None:
        """A finding at a member of a manifest; None when no manifest here describes it, or it was changed.

        Args:
            field: the member as the management API calls it: `application_id`, `protocols.oauth2.scopes[1]`.
            within: line and column, both from 1, in the member's text, which may be in a file of its own.
        """
        manifest = self._manifests.get((kind, zone, name))
        if manifest is None:
            return None
        try:
            if within is not None and isinstance(text := manifest.spec.get(field), str):
                stretch = stretch_at(text, *within)
                return diagnose_in_text(manifest, field, stretch, code, message, self._shown)
            text, shown = self._shown(manifest)
        except (FileRefused, InvalidEncoding, InvalidYaml, KeyError):
            return None  # it was changed meanwhile
        path = next((each for each in _paths(manifest.kind, field) if each in shown.places), None)
        return shown.diagnose(manifest.origin.path, text, path or ("metadata", "name"), code, message)

    def find_at(self, manifest: Manifest, path: MemberPath, *, code: str, message: str) -> Diagnostic | None:
        """A finding at a path of a manifest: `("spec", "application")`; None when its file was changed."""
        try:
            text, shown = self._shown(manifest)
        except (FileRefused, InvalidEncoding, InvalidYaml, KeyError):
            return None
        return shown.diagnose(manifest.origin.path, text, path, code, message)

    def _shown(self, manifest: Manifest) -> tuple[str, RedactedDocument]:
        text, document = self._document(manifest)
        return text, RedactedDocument(document, manifest.kind)

    def _document(self, manifest: Manifest) -> tuple[str, YamlDocument]:
        path = manifest.origin.path
        if path not in self._read:
            text = decode(self._source.opener.read(path, at_most=MAX_FILE_BYTES, again=True))
            self._read[path] = text, {each.line: each for each in read_documents(text, places=True)}
        text, documents = self._read[path]
        return text, documents[manifest.origin.line]


def _paths(kind: Kind, field: str) -> Iterator[MemberPath]:
    """The places in a manifest that a member may have: the exact one first, then those around it."""
    if not field:
        return
    steps: list[str | int] = []
    shape: MemberSchema | None = kind.spec
    for step in _STEP.findall(field):
        if step.isdecimal():
            steps.append(int(step))
            shape = shape.items if shape else None
            continue
        members = shape.members if shape else {}
        steps.append(next((name for name, each in members.items() if each.wire_name(name) == step), step))
        shape = members.get(str(steps[-1]))
    yield ("spec", *steps, "external")  # what a reference by identifier is about
    for length in range(len(steps), 0, -1):
        yield ("spec", *steps[:length])
    files = {target: member for member, target in kind.files.items()}
    if steps[0] in files:
        yield ("spec", files[str(steps[0])])

"""Checks across documents: duplicates, references, and the files that manifests name."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from reconciler.cedar import CedarProblem, EntityMention, Vocabulary, parse_policies
from reconciler.files import FileRefused
from reconciler.kinds import ExternalName, Manifest, Origin, Reference
from reconciler.kinds.values import Key

from .diagnostics import Diagnostic, bounded, suggest
from .document_diagnostics import RedactedDocument, more_problems, more_warnings
from .encoding import InvalidEncoding, decode
from .inactive_policies import CODE, inactive_policies
from .policy_name_checks import PolicyNameChecks
from .separate_handles import separate_handles
from .source_files import MAX_FILE_BYTES, SETTINGS_FILE, SourceFiles
from .spans import MemberPath
from .text_spans import diagnose_in_text
from .yaml_reader import YamlDocument, read_documents

MAX_TEXT_BYTES = 1024 * 1024
MOST_FINDINGS = 1000  # of a configuration
MOST_GUESSES = 100  # searches for a similar name
MOST_WARNINGS = 100  # with the same code


def check_references(
    source: SourceFiles, manifests: Sequence[Manifest], elsewhere: Collection[str] = ()
) -> tuple[list[Manifest], list[Diagnostic], list[Diagnostic]]:
    """The manifests with the texts of their files inserted, the problems among them, and the warnings.

    Args:
        elsewhere: names of zones that other configurations manage.
    """
    check = _Check(source, manifests, elsewhere)
    check.duplicates()
    completed = [check.without_local(check.with_files(manifest)) for manifest in manifests]
    for manifest in manifests:
        check.zone(manifest)
        check.references(manifest)
        check.addresses(manifest)
        check.sole(manifest)
        check.shared_handle(manifest)
    if check.more:
        check.found.append(more_problems(check.found[-1].path, check.more))
    return completed, check.found, [] if check.found else check.warnings()


class _Check:
    def __init__(
        self, source: SourceFiles, manifests: Sequence[Manifest], elsewhere: Collection[str]
    ) -> None:
        self.source = source
        self.manifests = manifests
        self.by_key: dict[Key, Manifest] = {}
        self.zoned = {manifest.kind.name: manifest.kind.zoned for manifest in manifests}
        own = {manifest.name for manifest in manifests if manifest.kind.name == "Zone"}
        self.elsewhere = frozenset(elsewhere)
        self.zones = own | self.elsewhere
        self.found: list[Diagnostic] = []
        self.more = 0
        self.permitting: set[Key] = set()  # the policies that may permit something
        self._shown: dict[Origin, RedactedDocument] = {}
        self._sole: dict[tuple[str | None, str, str], Manifest] = {}
        self._handles: dict[tuple[str | None, str, str], list[Manifest]] = defaultdict(list)
        self._read: dict[str, tuple[str, dict[int, YamlDocument]]] = {}
        self._vocabularies: dict[str, Vocabulary] = {}

    def duplicates(self) -> None:
        for manifest in self.manifests:
            first = self.by_key.setdefault(manifest.key, manifest)
            if first is not manifest:
                message = f"{manifest.key} is already described at {first.origin}"
                self.report(manifest, ("metadata", "name"), "duplicate", message)

    def zone(self, manifest: Manifest) -> None:
        if manifest.kind.zoned and manifest.zone not in self.zones:
            hint = suggest(manifest.zone, self.zones) or (
                f"; where another configuration describes it, list it in `zones` of {SETTINGS_FILE}"
            )
            self.report(
                manifest, ("metadata", "zone"), "unknown-zone", f"there is no Zone `{manifest.zone}`{hint}"
            )

    def references(self, manifest: Manifest) -> None:
        for path, ref in manifest.kind.references:
            value = _at(manifest.spec, path)
            if value is None:
                continue
            for position, name in enumerate(value if ref.many else [value]):
                if isinstance(name, str):
                    at: MemberPath = (*path, position) if ref.many else path
                    self.reference(manifest, ("spec", *at), ref, name)

    def reference(self, manifest: Manifest, path: MemberPath, ref: Reference, name: str) -> None:
        zone = self.zone_of(manifest, ref)
        if Key(zone, ref.kind, name) in self.by_key:
            return
        if len(self.found) >= MOST_FINDINGS:
            self.more += 1
            return
        where = f" in zone `{zone}`" if zone else ""
        message = f"there is no {ref.kind} `{name}`{where}{self.meant(zone, ref.kind, name)}"
        self.report(manifest, path, "unknown-reference", message)

    def meant(self, zone: str | None, kind: str, name: str) -> str:
        """The similar name that an unknown reference probably means; for a limited number of references."""
        external = (
            "; for one that is not in git write `{external: its identifier}`, for one of another"
            " configuration `{owner: which, name: its name there}`"
        )
        if (named := self._names.get((zone, kind, name))) is not None:
            return f", but one with this identifier; write its manifest's name, `{named}`"
        if len(self.found) >= MOST_GUESSES:
            return external
        elsewhere = {key.name: key.zone for key in self.by_key if key.kind == kind}
        here = [key.name for key in self.by_key if key.kind == kind and key.zone == zone]
        if hint := suggest(name, here):
            return hint
        if name in elsewhere:
            return f"; the one of that name is in zone `{elsewhere[name]}`, and references stay within a zone"
        return external

    @cached_property
    def _names(self) -> Mapping[tuple[str | None, str, str], str]:
        """Zone, kind and handle -> the manifest's name."""
        return {
            (each.zone, each.kind.name, each.handle): each.name
            for each in self.manifests
            if each.handle is not None
        }

    def zone_of(self, manifest: Manifest, ref: Reference) -> str | None:
        """The zone that a reference is looked up in: a Zone's own references are to its children."""
        if not self.zoned.get(ref.kind, True):
            return None
        return manifest.name if manifest.kind.name == "Zone" else manifest.zone

    def addresses(self, manifest: Manifest) -> None:
        for path in manifest.kind.addresses:
            value = _at(manifest.spec, path)
            for at, each in _listed(value, path) if value is not None else ():
                if isinstance(each, dict) and each.get("of_zone") not in self.zones:
                    zone = each.get("of_zone")
                    message = f"there is no Zone `{zone}`{suggest(zone, self.zones)}"
                    self.report(manifest, ("spec", *at, "of_zone"), "unknown-zone", message)

    def sole(self, manifest: Manifest) -> None:
        """Values that one object of a zone can have: two would take it from each other at every apply."""
        for member in manifest.kind.sole:
            if manifest.spec.get(member, manifest.kind.spec.members[member].default) is not True:
                continue
            first = self._sole.setdefault((manifest.zone, manifest.kind.name, member), manifest)
            if first is not manifest:
                message = (
                    f"only one {manifest.kind.name} of a zone can have `{member}: true`, "
                    f"and `{first.name}` at {first.origin} has it; write `{member}: false` in one of them"
                )
                self.report(manifest, ("spec", member), "not-sole", message)

    def shared_handle(self, manifest: Manifest) -> None:
        """Two manifests with one handle, where not both may have it: the server would refuse the second."""
        kind, handle = manifest.kind, manifest.handle
        if handle is None or manifest.lifecycle.get("release") or self.by_key[manifest.key] is not manifest:
            return
        if kind.handle in manifest.lifecycle.get("ignore", ()):  # only the server knows which one it has
            return
        same = self._handles[manifest.zone, kind.name, handle]
        same.append(manifest)
        problem = _why_not_shared(same)
        if problem is None:
            return
        first = same[0]
        message = (
            f"{kind.name} `{first.name}` at {first.origin} has the {kind.handle} `{handle}` too"
            f"{_default_hint(first) or _default_hint(manifest)}; {problem}"
        )
        self.report(manifest, _handle_path(manifest), "duplicate-identifier", message)

    def warnings(self) -> list[Diagnostic]:
        """What is valid, and probably not meant; bounded."""
        found = []
        noted = {
            "separate-identifier": separate_handles(self.manifests),
            CODE: inactive_policies(self.manifests, self.elsewhere, self.permitting),
        }
        for code, of_manifests in noted.items():
            warnings = list(of_manifests)
            for manifest, message in warnings[:MOST_WARNINGS]:
                text, shown = self.shown(manifest)
                path = ("metadata", "name")
                each = shown.diagnose(manifest.origin.path, text, path, code, message)
                found.append(replace(each, zone=manifest.zone))
            if (more := len(warnings) - MOST_WARNINGS) > 0:
                found.append(more_warnings(found[-1].path, code, more))
        return found

    def with_files(self, manifest: Manifest) -> Manifest:
        """The manifest with each `*_file` member replaced by the text of the file it names."""
        if manifest.kind.files.keys().isdisjoint(manifest.spec):
            return manifest
        spec = dict(manifest.spec)
        files = {}
        for member, target in manifest.kind.files.items():
            if member in spec:
                name = spec.pop(member)
                text = self.text(manifest, member, name, f".{target}")
                if text is not None:
                    spec[target] = text
                    files[target] = self.source.relative(self.source.opener.place(name, manifest.folder))
        return replace(manifest, spec=spec, files=files)

    def text(self, manifest: Manifest, member: str, name: str, ending: str) -> str | None:
        """The text of a file beside a manifest; the file must lie inside the configuration's root."""
        at: MemberPath = ("spec", member)
        try:
            content = self.source.opener.read(name, manifest.folder, at_most=MAX_TEXT_BYTES, endings=ending)
            return decode(content)
        except FileRefused as refused:
            message = str(refused)
            if refused.code == "no-file":
                message = f"there is no file `{name}`{suggest(*self.siblings(manifest, name))}"
            self.report(manifest, at, refused.code, message)
        except InvalidEncoding as error:
            where = f" in line {error.span.line + 1}, column {error.span.column + 1}" if error.span else ""
            self.report(manifest, at, "encoding", f"`{bounded(name)}`{where}: {error.message}")
        return None

    def without_local(self, manifest: Manifest) -> Manifest:
        """The manifest as it is planned: with its texts checked, without members that only checks use."""
        outside = [each for member in manifest.kind.cedar for each in self.cedar(manifest, member)]
        local = manifest.kind.local & manifest.spec.keys()
        if not local:
            return manifest
        spec = {name: value for name, value in manifest.spec.items() if name not in local}
        return replace(manifest, spec=spec, outside=tuple(outside))

    def cedar(self, manifest: Manifest, member: str) -> tuple[ExternalName, ...]:
        """Check a Cedar text; returns the external names that it relies on."""
        text = manifest.spec.get(member)
        if text is None:
            return ()
        cedar = manifest.kind.cedar[member]
        vocabulary = self._vocabularies.setdefault(manifest.kind.name, Vocabulary.read(cedar))
        reading = parse_policies(text, vocabulary)
        if reading.may_permit:
            self.permitting.add(manifest.key)
        problems = list(reading.problems)
        if reading.readable:
            problems += self.names.unknown(manifest, vocabulary, reading.mentions)
            for path, code, message in self.names.misplaced(manifest, vocabulary, reading.mentions):
                self.report(manifest, path, code, message)
        for problem in problems:
            self.report_text(manifest, member, problem)
        return tuple(
            ExternalName(kind, mention.name.id, self.place(manifest, member, mention))
            for kind, mention in self.names.outside(manifest, vocabulary, reading.mentions)
        )

    def place(self, manifest: Manifest, member: str, mention: EntityMention) -> str:
        """The place in a text where it names something, as shown in messages."""
        found = diagnose_in_text(manifest, member, (mention.begin, mention.end), "", "", self.shown)
        return f"{found.path}:{found.line}:{found.column}"

    @cached_property
    def names(self) -> PolicyNameChecks:
        """The names that policies can use."""
        return PolicyNameChecks(self.manifests)

    def siblings(self, manifest: Manifest, name: str) -> tuple[str, list[str]]:
        """The last step of a path, and the existing names beside it."""
        file = Path(self.source.opener.place(name, manifest.folder))
        return file.name, [each.name for each in file.parent.glob("*")] if file.parent.is_dir() else []

    def report(self, manifest: Manifest, path: MemberPath, code: str, message: str) -> None:
        """Report at a member of a manifest; its file is read again to find the member's place."""
        if not self.full():
            text, shown = self.shown(manifest)
            place = manifest.origin.path
            self.found.append(shown.diagnose(place, text, path, code, message))

    def report_text(self, manifest: Manifest, member: str, problem: CedarProblem) -> None:
        """Report at a place in a text."""
        if not self.full():
            message = f"{problem.message}{suggest(problem.word, problem.known)}"
            stretch = problem.begin, problem.end
            self.found.append(diagnose_in_text(manifest, member, stretch, problem.code, message, self.shown))

    def full(self) -> bool:
        """Count a finding, and tell whether the limit is exceeded."""
        if len(self.found) < MOST_FINDINGS:
            return False
        self.more += 1
        return True

    def shown(self, manifest: Manifest) -> tuple[str, RedactedDocument]:
        """The text of a manifest's file, and the spans of its document that may be shown."""
        origin = manifest.origin
        text, documents = self.located(origin.path)
        if origin not in self._shown:
            self._shown[origin] = RedactedDocument(documents[origin.line], manifest.kind)
        return text, self._shown[origin]

    def located(self, path: str) -> tuple[str, dict[int, YamlDocument]]:
        if path not in self._read:
            text = self.source.opener.read(path, at_most=MAX_FILE_BYTES, again=True).decode("utf-8-sig")
            self._read[path] = text, {each.line: each for each in read_documents(text, places=True)}
        return self._read[path]


def _why_not_shared(same: Sequence[Manifest]) -> str | None:
    """Why the last of these manifests may not have its handle, which all of them have; None when it may."""
    first, last = same[0], same[-1]
    if first is last:
        return None
    if (shared := last.kind.handle_shared) is None:
        scope = "a zone" if last.kind.zoned else "an organization"
        return f"each {last.kind.name} of {scope} has its own"
    owners = [each.spec.get(shared.within) for each in (first, last)]
    if {each.spec.get("type") for each in (first, last)} != {shared.type}:
        return f"only objects of type `{shared.type}` may share it"
    if type(owners[0]) is type(owners[1]) and owners[0] != owners[1]:
        return f"only objects with the same `{shared.within}` may share it"
    if len(same) > shared.most:
        return f"at most {shared.most} may share it, and this is one more"
    return None


def _handle_path(manifest: Manifest) -> MemberPath:
    """Where a manifest has its handle: its name, when the spec leaves the handle out."""
    handle = str(manifest.kind.handle)
    return ("metadata", "name") if manifest.spec.get(handle) is None else ("spec", handle)


def _default_hint(manifest: Manifest) -> str:
    if _handle_path(manifest)[0] == "spec":
        return ""
    return f" (without `{manifest.kind.handle}` in the manifest, it is the manifest's name)"


def _at(spec: Mapping[str, object], path: Sequence[str]) -> Any:
    value: Any = spec
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _listed(value: object, path: Sequence[str]) -> Iterator[tuple[MemberPath, Any]]:
    """A value, or each item of a list, with its path."""
    if isinstance(value, list):
        for position, each in enumerate(value):
            yield (*path, position), each
    else:
        yield tuple(path), value

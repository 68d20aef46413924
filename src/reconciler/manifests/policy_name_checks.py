"""Checks the entity names in Cedar policies against the manifests of the same zone.

A rule about a name that no object has never matches: a `forbid` with a misspelt group protects nothing. So
every name must be described by a manifest, or listed as `external` or as `absent`.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from reconciler.cedar import CedarProblem, EntityMention, EntityName, Vocabulary, parse_name
from reconciler.kinds import Manifest

from .diagnostics import suggest
from .spans import MemberPath

EXTERNAL, ABSENT = "external_names", "absent_names"


class PolicyNameChecks:
    """The entities that manifests describe, looked up by their names in policies."""

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        self._described: dict[tuple[str | None, str], dict[str, Manifest]] = defaultdict(dict)
        self._named: dict[tuple[str | None, str, str], Manifest] = {}
        self._renamed: dict[tuple[str | None, str, str], Manifest] = {}
        for manifest in manifests:
            if manifest.handle is not None:
                self._described[manifest.zone, manifest.kind.name].setdefault(manifest.handle, manifest)
                self._named.setdefault((manifest.zone, manifest.kind.name, manifest.name), manifest)
            for name in manifest.lifecycle.get("previous_names", ()):
                self._renamed.setdefault((manifest.zone, manifest.kind.name, name), manifest)

    def unknown(
        self, manifest: Manifest, vocabulary: Vocabulary, mentions: Sequence[EntityMention]
    ) -> Iterator[CedarProblem]:
        """Names in a policy that no object has, as far as that can be known without a server."""
        listed = {*_listed(manifest, EXTERNAL), *_listed(manifest, ABSENT)}
        for mention in mentions:
            kind = vocabulary.kinds[mention.name.type]
            if kind is None or mention.name in listed or self._of(manifest, kind, mention.name):
                continue
            message = f"no manifest in zone `{manifest.zone}` describes {kind} `{mention.name.id}`"
            message += self._hint(manifest, kind, mention.name)
            yield CedarProblem(mention.begin, mention.end, "unknown-name", message)

    def misplaced(
        self, manifest: Manifest, vocabulary: Vocabulary, mentions: Sequence[EntityMention]
    ) -> Iterator[tuple[MemberPath, str, str]]:
        """Unnecessary entries of a policy's lists, as path, code, message: they would hide later mistakes."""
        named = {mention.name for mention in mentions}
        for member in (EXTERNAL, ABSENT):
            for position, written in enumerate(manifest.spec.get(member) or ()):
                if problem := self._against(manifest, vocabulary, member, written, named):
                    yield ("spec", member, position), *problem

    def _against(
        self, manifest: Manifest, vocabulary: Vocabulary, member: str, written: str, named: set[EntityName]
    ) -> tuple[str, str] | None:
        name = parse_name(written)
        if name is None:
            return "invalid", f"`{written}` is not the name of an entity, written as in the policy"
        if name not in named:
            hint = suggest(written, map(str, named))
            return "unused-name", f"the policy does not name `{written}`{hint or '; take it out'}"
        kind = vocabulary.kinds[name.type]
        if kind is None:
            if member == ABSENT:
                return None
            return (
                "unused-name",
                f"`{name.type}` is not a kind of manifest, so it needs no entry here; remove it",
            )
        if (found := self._of(manifest, kind, name)) is not None:
            return "unused-name", f"`{written}` is described at {found.origin}; take it out"
        return None

    def outside(
        self, manifest: Manifest, vocabulary: Vocabulary, mentions: Sequence[EntityMention]
    ) -> Iterator[tuple[str, EntityMention]]:
        """Names that a policy lists as external: the kind, and the place in the text of the first mention."""
        first = {mention.name: mention for mention in reversed(mentions)}
        for name in _listed(manifest, EXTERNAL):
            if (kind := vocabulary.kinds.get(name.type)) is not None and name in first:
                yield kind, first[name]

    def _of(self, manifest: Manifest, kind: str, name: EntityName) -> Manifest | None:
        return self._described[manifest.zone, kind].get(name.id)

    def _hint(self, manifest: Manifest, kind: str, name: EntityName) -> str:
        """The name that was probably intended, or how to list the name as external or absent."""
        place = manifest.zone, kind, name.id
        named, renamed = self._named.get(place), self._renamed.get(place)
        if named is not None:
            written = EntityName(name.type, named.handle or "")
            return (
                f"; this is the name of its manifest ({named.origin}), and policies use the"
                f" {named.kind.handle}: write `{written}`"
            )
        if renamed is not None and renamed.handle is not None:
            if (member := renamed.omitted_handle) is not None and renamed.kind.leaf(member).fixed:
                return (
                    f"; {kind} `{renamed.name}` had that name ({renamed.origin}), and its {member} cannot"
                    f" change: write `{member}: {name.id}` in its `spec`"
                )
            return f"; it is called `{renamed.handle}` now ({renamed.origin})"
        if hint := suggest(name.id, self._described[manifest.zone, kind]):
            return hint
        others = sorted(
            zone
            for (zone, other), found in self._described.items()
            if zone and other == kind and name.id in found
        )
        if others:
            return f"; the one of that name is in zone `{others[0]}`, and policies stay within a zone"
        return (
            f"; list it in `{EXTERNAL}` if it is there but not in git, in `{ABSENT}` if it need not be there"
        )


def _listed(manifest: Manifest, member: str) -> Iterator[EntityName]:
    for written in manifest.spec.get(member) or ():
        if (name := parse_name(written)) is not None:
            yield name

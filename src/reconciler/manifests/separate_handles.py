"""Finds objects that could share a handle and do not, only because their manifests leave it out.

A second `password` credential of an application is a second secret of its client id when it has the same
`identifier`; without one, it silently gets a client id of its own: its manifest's name.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from reconciler.kinds import Manifest


def separate_handles(manifests: Iterable[Manifest]) -> Iterator[tuple[Manifest, str]]:
    """Such manifests, each with a warning that says what to write.

    Where no manifest of a group has a handle, the first one (by file and line) is taken for the one that
    was there before.
    """
    groups: dict[tuple[str | None, str, str], list[Manifest]] = defaultdict(list)
    for each in manifests:
        shared = each.kind.handle_shared
        if shared is None or each.spec.get("type") != shared.type or each.lifecycle.get("release"):
            continue
        if isinstance(within := each.spec.get(shared.within), str):
            groups[each.zone, each.kind.name, within].append(each)
    for group in groups.values():
        yield from _of_group(sorted(group, key=lambda each: each.origin))


def _of_group(group: list[Manifest]) -> Iterator[tuple[Manifest, str]]:
    handle = str(group[0].kind.handle)
    named = [each for each in group if each.spec.get(handle) is not None]
    first = named[0] if named else group[0]
    handles = [each.handle for each in group]
    for each in group:
        if each is first or each in named or handles.count(each.handle) > 1:
            continue
        yield each, _warning(each, first, handle)


def _warning(manifest: Manifest, first: Manifest, handle: str) -> str:
    shared = manifest.kind.handle_shared
    within = f"{shared.within} `{manifest.spec[shared.within]}`" if shared is not None else ""
    return (
        f"without `{handle}`, this {manifest.kind.name} gets one of its own, `{manifest.name}`, beside"
        f" `{first.handle}` of the same {within} ({first.origin}); to rotate its secret with overlap, write"
        f" `{handle}: {first.handle}`, and to keep both apart, `{handle}: {manifest.name}`"
    )

"""Renders pairs of a deletion and a creation that look like a rename."""

from collections.abc import Iterator, Sequence

from reconciler.plan.model import ProbableRename, title_of
from reconciler.terminal import Line, Styled

from .places import Places, as_recorded
from .value_diff import as_text, counted

MOST_SHOWN = 20  # the actions below have all


def probable_rename_lines(found: Sequence[ProbableRename], place: Places = as_recorded) -> Iterator[Line]:
    """What deleting would end, and what to write to keep the object instead."""
    for each in found[:MOST_SHOWN]:
        yield from _lines(each, place)
    if (more := len(found) - MOST_SHOWN) > 0:
        yield Styled("! perhaps renames: ", "yellow"), f"{counted(more, 'more pair')} of objects"


def _lines(each: ProbableRename, place: Places) -> Iterator[Line]:
    title = title_of(each.kind, each.zone, each.before)
    like = f"differs in {', '.join(each.differing)} only" if each.differing else "has the same content"
    yield (
        Styled("! perhaps a rename: ", "yellow"),
        f"{title} is deleted, and {each.after}, which is created, {like}",
    )
    yield (
        "    the new one is another object: tokens, sessions, grants and secrets of the old one end, and"
        " nothing is carried over"
    )
    identifier = ""
    if each.handle is not None:
        article = "an" if each.kind[0] in "AEIOU" else "a"
        why = f" ({article} {each.kind}'s {each.handle} cannot change)"
        identifier = (
            f"; also write `{each.handle}: {as_text(each.old_handle)}` in its `spec`"
            f"{why if each.is_fixed else ', unless it is to change, too'}"
        )
    names = as_text([each.before])
    yield (
        f"    to keep the object, write `lifecycle: {{previous_names: {names}}}` in the manifest of"
        f" {each.after} ({place(each.place)}){identifier}"
    )

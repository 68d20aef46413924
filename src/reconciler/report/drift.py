"""Renders drift as text."""

from collections.abc import Iterator

from reconciler.plan import Drift, Unmanaged
from reconciler.terminal import Line, Styled

from .change_notes import AUDIT_UNREADABLE, unmanaged_line, write_line
from .places import Places, as_recorded
from .plans import action_lines, indented
from .policy_impact import missing_name_lines, policy_set_drift_lines
from .value_diff import counted, whole_lines


def drift_lines(drift: Drift, *, unmanaged: bool = False, place: Places = as_recorded) -> Iterator[Line]:
    """Drift as text; with *unmanaged*, all unmanaged objects too. *place*: how files are shown."""
    for each in drift.deciding:
        yield from policy_set_drift_lines(each)
    yield from missing_name_lines(drift.missing_names, place)
    for action in (*drift.changed, *drift.deleted):
        yield from action_lines(action, place=place)
    for beside in drift.attached:
        yield from _attached_lines(beside)
    if unmanaged:
        for beside in drift.unmanaged:
            yield from unmanaged_lines(beside)
    yield _summary(drift)
    if drift.unmanaged and not unmanaged:
        yield f"  {unmanaged_line(drift.unmanaged, drift.unmanaged_truncated)}"
    if unmanaged and drift.unmanaged_truncated:
        yield (
            Styled("note", "yellow"),
            f": there is more of {', '.join(drift.unmanaged_truncated)} than the server lists",
        )
    if drift.unseen:
        more = f" and {len(drift.unseen) - 1:,} more" if len(drift.unseen) > 1 else ""
        message = (
            f": {drift.unseen[0]}{more} may exist, but this credential cannot read it;"
            " one that is not bound to zones, with a role for all of the organization, compares everything"
        )
        yield Styled("not compared", "yellow"), message
    for refused in drift.refused:
        yield Styled("not compared", "yellow"), f": {place(refused)}"
    if not drift.names_writers and (drift or (unmanaged and drift.unmanaged)):
        yield Styled("note", "yellow"), f": {AUDIT_UNREADABLE}"


def _summary(drift: Drift) -> str:
    if drift.nothing_applied:
        return (
            f"nothing to compare: `{drift.owner}` manages nothing here that this credential may read;"
            " drift compares what was applied; `zonectl plan` shows what an apply would do"
        )
    members = sum(len(action.changes) for action in drift.changed)
    counts = ((members, "member", "changed"), (len(drift.deleted), "object", "deleted"))
    parts = [f"{counted(number, word)} {done} by others" for number, word, done in counts if number]
    if drift.attached:
        parts.append(f"{counted(len(drift.attached), 'object')} attached by others")
    if drift.missing_names:
        parts.append(f"{counted(len(drift.missing_names), 'name')} in active policies that match no object")
    return ", ".join(parts) or "no drift"


def _attached_lines(found: Unmanaged) -> Iterator[Line]:
    to = ", ".join(found.attached_to)
    yield Styled(f"! {found.title}", "magenta"), f"  attached to {to}, in no configuration"
    if found.write is not None:
        yield f"    {write_line(found.write, 'last written')}"
    yield "    an apply does not change it: write a manifest for it, or delete it on the server"


def unmanaged_lines(found: Unmanaged) -> Iterator[Line]:
    """One unmanaged object."""
    notes = "  in no configuration, and in force" if found.in_force else "  in no configuration"
    if not found.describable:
        of = f", attached to {', '.join(found.attached_to)}" if found.attached_to else ""
        notes = f"  of a kind that no manifest describes{of}"
    if found.member is not None:
        notes = f"  `{found.member}` is in no manifest"
    yield Styled(f"? {found.title}", "cyan"), notes
    if found.member is not None:
        yield from indented(
            whole_lines(found.member, list(found.values) if found.listed else found.values[0], "="), 4
        )
    if found.write is not None:
        yield f"    {write_line(found.write, 'last written')}"

"""Renders notes on changes: why a field changes, who wrote it, and which policy version is in force."""

from collections.abc import Iterator, Sequence

from reconciler.kinds import Write
from reconciler.plan import FieldChange, Unmanaged
from reconciler.plan.delete_budget import ZONE
from reconciler.plan.model import ChangeState
from reconciler.terminal import Line, Styled

from .value_diff import counted

DRIFTED = "drift: changed on the server, an apply reverts it"
_STATES = {
    ChangeState.DRIFT: DRIFTED,
    ChangeState.CONFLICT: "conflict: changed both in git and on the server",
    ChangeState.CLAIM: "managed from now on, value unchanged",
    ChangeState.RELEASE: "no longer managed, value unchanged",
    ChangeState.KEEP: "unchanged, but written again",
}


def change_notes(change: FieldChange) -> Sequence[Styled]:
    """Why a member changes; empty where git is ahead, which is the rule."""
    notes = [_STATES[change.state]] if change.state in _STATES else []
    if change.in_force is not None:
        version = f"version {change.in_force.version} of {change.in_force.latest_version}"
        latest = change.in_force.before_is_latest
        notes.insert(0, f"not in force: {version} is" if latest else f"{version} is in force")
    return [Styled(f"  [{'; '.join(notes)}]", "magenta")] if notes else []


def in_force_lines(change: FieldChange) -> Iterator[Line]:
    """Active objects that git does not list, with their texts."""
    for part in change.in_force.contents if change.in_force is not None else ():
        yield Styled(f"      in force: {part.kind} {part.name}, version {part.version}", "magenta")
        for text in part.spec.values():
            yield from (f"        {line}" for line in str(text).splitlines())


AUDIT_UNREADABLE = (
    "this credential may not read the audit trail, which has the author and time; use a key of the role"
    " `org_admin`, or a service account's credential without a `role` that is not bound to zones"
)


def write_line(write: Write, done: str) -> str:
    """The last write: its actor and its time."""
    by = f" by {write.actor}" if write.actor else ""
    through = f" in changeset {write.changeset}" if write.changeset else ""
    return f"{done}{by} at {write.at}{through}"


def unmanaged_line(found: Sequence[Unmanaged], cut: Sequence[str] = ()) -> str:
    """One line with the number of unmanaged objects, and of kinds that the server did not list completely."""
    objects = sum(each.member is None for each in found)
    lists = sum(each.member is not None and each.listed for each in found)
    counts = ((objects, "object"), (lists, "list"), (len(found) - objects - lists, "member"))
    parts = [counted(number, word) for number, word in counts if number]
    is_or_are = "is" if len(found) == 1 else "are"
    deciding = [each.title for each in found if each.in_force]
    more = f"; in force: {', '.join(deciding)}" if deciding else ""
    more += f"; and more of {', '.join(cut)} than the server lists" if cut else ""
    zoned = [bool(each.zone) or each.kind == ZONE for each in found]
    within, beside = any(zoned), not all(zoned)
    where = " and ".join(["in these zones"] * within + ["in the organization"] * beside)
    return (
        f"{' and '.join(parts)} {where} {is_or_are} in no configuration"
        f"{more} (`zonectl drift --unmanaged` lists them)"
    )

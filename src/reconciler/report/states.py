"""Why a member changes, in words; and what a version says that is in force against git."""

from collections.abc import Iterator, Sequence

from reconciler.plan import FieldChange
from reconciler.plan.model import State
from reconciler.terminal import Line, Styled

_STATES = {
    State.DRIFT: "drift: changed on the server, git puts it back",
    State.CONFLICT: "conflict: changed both in git and on the server",
    State.CLAIM: "managed from now on, the value stays",
    State.RELEASE: "no longer managed, the value stays",
}


def state_of(change: FieldChange) -> Sequence[Styled]:
    """Why a member changes; nothing where git is ahead, which is the rule."""
    told = [_STATES[change.state]] if change.state in _STATES else []
    if change.in_force is not None:
        told.insert(0, f"version {change.in_force.version} of {change.in_force.latest_version} is in force")
    return [Styled(f"  [{'; '.join(told)}]", "magenta")] if told else []


def contents_lines(change: FieldChange) -> Iterator[Line]:
    """What is in force and in no list of git, with its text."""
    for part in change.in_force.contents if change.in_force is not None else ():
        yield Styled(f"      in force: {part.kind} {part.name}, version {part.version}", "magenta")
        for text in part.spec.values():
            yield from (f"        {line}" for line in str(text).splitlines())

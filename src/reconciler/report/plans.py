"""A plan as text: worst news first, and every change with why."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import unified_diff
from typing import Any

import orjson

from reconciler.plan import Action, FieldChange, Plan, Refusal
from reconciler.plan.model import Op, State
from reconciler.terminal import Line, Styled, printable

from .diagnostics import counted
from .states import contents_lines, state_of

MOST_ACTIONS = 200
MOST_CHARACTERS = 240
MOST_LINES = 60

_SIGNS = {
    Op.DELETE: ("-", "red"),
    Op.REPLACE: ("-/+", "red"),
    Op.UPDATE: ("~", "yellow"),
    Op.RENAME: ("~", "yellow"),
    Op.ADOPT: ("<", "cyan"),
    Op.CREATE: ("+", "green"),
}
_ORDER = tuple(_SIGNS)
_LINE_COLORS = {"-": "red", "+": "green", "@": "cyan"}


def plan_lines(plan: Plan, refusals: Sequence[Refusal] = ()) -> Iterator[Line]:
    """The whole plan. Creations beyond the first 200 are counted; everything else is always shown."""
    yield from _actions(plan.actions)
    yield summary_line(plan)
    if not plan.empty:
        yield f"  digest {plan.digest} on revision {plan.base_revision}"
    for each in refusals:
        yield Styled("refused", "red"), f": {each.message}"


def summary_line(plan: Plan) -> str:
    """One line that says how much there is to do."""
    if plan.empty:
        return f"{counted(plan.wanted, 'manifest')}: nothing to do"
    words = {
        Op.CREATE: "to create",
        Op.UPDATE: "to update",
        Op.ADOPT: "to adopt",
        Op.RENAME: "to rename",
        Op.REPLACE: "to replace",
        Op.DELETE: "to delete",
    }
    counts = plan.summary()
    parts = [f"{counts[op]} {word}" for op, word in words.items() if op in counts]
    return f"{counted(plan.wanted, 'manifest')}: {', '.join(parts)}"


def _actions(actions: Iterable[Action]) -> Iterator[Line]:
    created = 0
    for action in sorted(actions, key=lambda each: _ORDER.index(each.op)):
        if action.op is Op.CREATE:
            created += 1
            if created > MOST_ACTIONS:
                continue
        yield from action_lines(action)
    if created > MOST_ACTIONS:
        more = created - MOST_ACTIONS
        yield Styled("+", "green"), f" and {more:,} more to create (`--output json` shows all)"


def action_lines(action: Action) -> Iterator[Line]:
    """One action: what, which, where from, and each member."""
    sign, color = _SIGNS[action.op]
    notes = []
    if action.previous_name:
        notes.append(f"was {action.previous_name}")
    if action.takes_along:
        notes.append(f"takes along {action.takes_along} objects of others")
    if action.shown_once:
        notes.append("its secret is shown once")
    note = f" ({'; '.join(notes)})" if notes else ""
    yield Styled(f"{sign} {action.op} {action.title}", color), f"{note}  ", Styled(action.reason, dim=True)
    if action.op is not Op.DELETE:
        for change in action.changes:
            yield from change_lines(change, action.op)
            yield from contents_lines(change)


def change_lines(change: FieldChange, op: Op) -> Iterator[Line]:
    """One member, before and after; of two texts of many lines, the lines that differ."""
    before, after = change.before, change.after
    texts = isinstance(before, str) and isinstance(after, str) and "\n" in before + after
    if not texts or op is Op.CREATE or change.state in (State.CLAIM, State.RELEASE, State.CONFLICT):
        yield change_line(change, op)
        return
    yield f"    {change.path}:", *state_of(change)
    differing = list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1))[2:]
    for line in differing[:MOST_LINES]:
        yield [Styled(f"      {line}", _LINE_COLORS.get(line[:1]))]
    if len(differing) > MOST_LINES:
        yield f"      and {len(differing) - MOST_LINES} more lines (`--output json` shows all)"


def change_line(change: FieldChange, op: Op) -> Line:
    """One member, before and after."""
    if op is Op.CREATE or change.state in (State.CLAIM, State.RELEASE):
        values = shown(change.after)
    else:
        values = f"{shown(change.before)} -> {shown(change.after)}"
    applied = f" (applied before: {shown(change.applied)})" if change.state is State.CONFLICT else ""
    return f"    {change.path}: {values}", *state_of(change), applied


def shown(value: Any) -> str:
    """A value on one line, cut when it is long."""
    if value is None:
        return "(unset)"
    if isinstance(value, dict) and value.keys() == {"secret"}:
        reference = value["secret"]
        source = reference.get("from_env") or reference.get("from_file")
        return f"secret from {source}, version {reference.get('version')}"
    text = printable(orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode())
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "..."

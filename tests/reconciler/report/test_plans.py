"""Plans as people read them."""

import click
import pytest

from reconciler.plan.model import Action, FieldChange, Op, Plan, State
from reconciler.report.plans import MOST_ACTIONS, plan_lines, shown
from reconciler.terminal import rendered


def plan_text(made: Plan) -> str:
    """A plan as it is printed on a terminal."""
    return "\n".join(rendered(line) for line in plan_lines(made))


def plan(*actions: Action) -> Plan:
    """A plan with these actions."""
    operations = tuple({"op": str(action.op), "kind": action.kind} for action in actions)
    return Plan("0", "acme", "o", "https://id.example", 7, {}, actions, operations, {}, len(actions))


def action(op: Op, name: str, *changes: FieldChange) -> Action:
    """An action on a group."""
    return Action(op, "Group", "acme", name, None, "groups.yaml:3", changes)


def test_worst_news_come_first() -> None:
    """Deletions before updates before creations, whatever the order of execution."""
    text = click.unstyle(
        plan_text(plan(action(Op.CREATE, "a"), action(Op.UPDATE, "b"), action(Op.DELETE, "c")))
    )

    assert [line.split()[0] for line in text.splitlines()[:3]] == ["-", "~", "+"]
    assert "3 manifests: 1 to create, 1 to update, 1 to delete" in text


def test_many_creations_are_counted_and_nothing_else_is() -> None:
    """No deletion is ever hidden in a long list."""
    creations = [action(Op.CREATE, f"c{n}") for n in range(MOST_ACTIONS + 5)]
    deletions = [action(Op.DELETE, f"d{n}") for n in range(MOST_ACTIONS + 5)]
    text = click.unstyle(plan_text(plan(*creations, *deletions)))

    assert "and 5 more to create" in text
    assert text.count("delete Group") == MOST_ACTIONS + 5


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (FieldChange("name", "a", "b", State.PENDING), 'name: "a" -> "b"'),
        (FieldChange("name", "a", "b", State.DRIFT, "b"), "[drift: changed on the server"),
        (FieldChange("name", "a", "b", State.CONFLICT, "c"), '(applied before: "c")'),
        (FieldChange("name", "a", "a", State.CLAIM), '"a"  [managed from now on'),
        (FieldChange("name", None, "a", State.PENDING), '(unset) -> "a"'),
        (
            FieldChange(
                "key", {"version": "1"}, {"secret": {"from_env": "K", "version": "2"}}, State.PENDING
            ),
            "secret from K, version 2",
        ),
    ],
)
def test_a_change_says_what_and_why(change: FieldChange, expected: str) -> None:
    """Before, after, and the reason."""
    assert expected in click.unstyle(plan_text(plan(action(Op.UPDATE, "g", change))))


def test_nothing_acts_upon_the_terminal() -> None:
    """A name on the server may hold anything."""
    change = FieldChange("name", "\x1b[2J\u202e", "b", State.PENDING)
    text = click.unstyle(plan_text(plan(action(Op.UPDATE, "g\x1b[31m", change))))

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "g\\x1b[31m" in text
    assert 'name: "\\u001b[2J\\u202e"' in text


def test_a_long_value_is_cut() -> None:
    """One line each."""
    assert len(shown("x" * 1000)) < 300


def test_two_texts_are_compared_line_by_line() -> None:
    """A changed policy shows the lines that differ, not two long strings."""
    change = FieldChange(
        "cedar", "permit (\n  principal,\n  action\n);\n", "permit (\n  principal,\n  resource\n);\n"
    )
    lines = click.unstyle(plan_text(plan(action(Op.UPDATE, "p", change)))).splitlines()

    assert "    cedar:" in lines
    assert "      -  action" in lines
    assert "      +  resource" in lines
    assert not any("permit" in line for line in lines)

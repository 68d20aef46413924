"""Differences of two values: all of what differs is shown, and what is equal is counted."""

from typing import Any

import click
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.reconciler.factories import plan_for, settle
from tests.reconciler.fake_server import World
from tests.reconciler.plan.test_algebra import configurations

from reconciler.kinds import Manifest, load_kinds
from reconciler.plan.model import Op
from reconciler.plan.plan_consistency import inconsistencies
from reconciler.report.plans import plan_lines
from reconciler.report.value_diff import as_text, difference_lines
from reconciler.terminal import rendered


def lines(before: Any, after: Any, *, ordered: bool = False) -> list[str]:
    """The difference as it is printed."""
    return [click.unstyle(rendered(line)) for line in difference_lines("m", before, after, ordered=ordered)]


def test_the_sixty_first_member_is_seen() -> None:
    """Of a long list, what comes and what goes; the rest is a number."""
    members = [f"user-{n}@acme.example" for n in range(61)]

    assert lines(members[:60], members) == [
        "m: 60 -> 61 elements",
        '  + "user-60@acme.example"',
        "    (60 elements unchanged)",
    ]
    assert '  - "user-7@acme.example"' in lines(members, members[:7] + members[8:])


def test_an_element_that_moves_is_told_where_order_matters() -> None:
    """One element is told to move, not all that it passes."""
    assert lines(["a", "b", "c", "d"], ["d", "a", "b", "c"], ordered=True) == [
        "m: 4 -> 4 elements",
        '  > 1: "d"  (moved, was 4)',
        "    (3 elements unchanged)",
    ]
    assert lines(["a", "a", "b"], ["b", "a"], ordered=True)[1] == '  - 2: "a"'
    assert lines(["a", "b"], ["b", "a"]) == ["m: 2 -> 2 elements", "    (2 elements unchanged)"]


def test_a_map_is_compared_by_member() -> None:
    """What goes, what comes, and both values of what changes."""
    assert lines({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": None, "d": 4}) == [
        "m:",
        '  - "b": 2',
        '  + "b": null',
        '  - "c": 3',
        '  + "d": 4',
        "    (1 member unchanged)",
    ]


def test_texts_are_hunks_with_what_is_between_them_counted() -> None:
    """Lines are those of the file: a form feed or a carriage return ends none."""
    before = "".join(f"line {n}\n" for n in range(30))
    after = before.replace("line 2\n", "line two\n").replace("line 25\n", "line\x0ctwenty\u2028five\n")

    assert lines(before, after) == [
        "m:",
        "    line 0",
        "    line 1",
        "  - line 2",
        "  + line two",
        "    line 3",
        "    line 4",
        "    line 5",
        "    (16 lines unchanged)",
        "    line 22",
        "    line 23",
        "    line 24",
        "  - line 25",
        '  + "line\\ftwenty\\u2028five"  (quoted, to show every character)',
        "    line 26",
        "    line 27",
        "    line 28",
        "    (1 line unchanged)",
    ]


def test_what_comes_first_or_last_has_lines_beside_it() -> None:
    """As any other difference has."""
    text = "".join(f"{number}\n" for number in range(5))
    assert lines(text, f"new\n{text}") == [
        "m:",
        "  + new",
        "    0",
        "    1",
        "    2",
        "    (2 lines unchanged)",
    ]
    assert lines(text, f"{text}new\n") == [
        "m:",
        "    (2 lines unchanged)",
        "    2",
        "    3",
        "    4",
        "  + new",
    ]


def test_white_space_is_a_difference_that_shows() -> None:
    """A tab for a blank, a blank at the end, a line feed less."""
    assert lines("a b\n", "a\tb\n")[1:] == [
        '  - "a b"  (quoted, to show every character)',
        '  + "a\\tb"  (quoted, to show every character)',
    ]
    assert lines("a\nb\n", "a\nb")[-1] == "  + (no line feed at the end)"
    assert lines("a\r\n", "a\n")[1] == '  - "a\\r"  (quoted, to show every character)'


def test_a_long_text_on_one_line_shows_what_differs() -> None:
    """A change in the middle, with what is before and after it counted, outside of the quotes."""
    begin, end = "b" * 500, "e" * 400

    assert lines(f"{begin}-{end}", f"{begin}+{end}") == [
        "m:",
        f'  - (440 characters as before) "{"b" * 60}-{"e" * 60}" (340 characters as before)',
        f'  + (440 characters as before) "{"b" * 60}+{"e" * 60}" (340 characters as before)',
    ]


def test_texts_that_are_hard_to_compare_are_shown_whole() -> None:
    """Beyond a number of pairs no common lines are looked for: a stranger's file takes no time."""
    before, after = [[f"{n * step % 20_011}\n" for n in range(20_000)] for step in (3, 7)]
    found = lines("".join(before), "".join(after))

    assert sum(line.startswith("  - ") for line in found) >= 19_000
    assert sum(line.startswith("  + ") for line in found) >= 19_000


TEXT = st.text(st.sampled_from("ab \t\n\r\x0c\u2028\\\"'(:"), max_size=40)
LEAF = st.none() | st.booleans() | st.integers(-5, 5) | TEXT | st.lists(TEXT, max_size=8)
VALUE = LEAF | st.dictionaries(TEXT, LEAF, max_size=4) | st.lists(st.dictionaries(TEXT, TEXT), max_size=3)


def _changed(mine: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The names of what one side has otherwise than the other, as they are printed."""
    return [
        as_text(name)
        for name in sorted(mine)
        if name not in other or as_text(other[name]) != as_text(mine[name])
    ]


@settings(max_examples=400, deadline=None)
@given(before=VALUE, after=VALUE, ordered=st.booleans())
@example(before="", after="\n", ordered=False)
def test_each_side_of_a_difference_can_be_read(before: Any, after: Any, *, ordered: bool) -> None:
    """Every element, member and line that only one side has is printed with its sign, and nothing else is."""
    found = lines(before, after, ordered=ordered)
    # An empty line is a sign alone.
    signed = {sign: [line[4:] for line in found if f"{line} ".startswith(f"  {sign} ")] for sign in "+-"}
    if isinstance(before, list) and isinstance(after, list):
        old, new = [as_text(each) for each in before], [as_text(each) for each in after]
        shown = {
            sign: {each.partition(": ")[2] if ordered else each for each in printed}
            for sign, printed in signed.items()
        }
        assert set(old) - set(new) <= shown["-"] <= set(old)
        assert set(new) - set(old) <= shown["+"] <= set(new)
    elif isinstance(before, str) and isinstance(after, str) and ("\n" in before or "\n" in after):
        if before != after:
            assert signed["-"] != signed["+"]
    elif isinstance(before, dict) and isinstance(after, dict):
        gone, come = _changed(before, after), _changed(after, before)
        shown_names = [
            [each[: len(name)] for name, each in zip(names, signed[sign], strict=True)]
            for sign, names in (("-", gone), ("+", come))
        ]
        assert shown_names == [gone, come]
    elif before != after:
        everything = "\n".join(found)
        elements = [each for value in (before, after) if isinstance(value, list) for each in value]
        leaves = [value for value in (before, after) if not isinstance(value, list | dict | str)]
        assert not [each for each in elements + leaves if as_text(each) not in everything]


@settings(max_examples=60, deadline=None)
@given(before=configurations(), after=configurations())
def test_each_changed_leaf_of_a_plan_is_in_its_text(before: list[Manifest], after: list[Manifest]) -> None:
    """The old and the new value of every member of every action; and all that is sent is in an action."""
    world = World(load_kinds())
    settle(world, before)
    plan = plan_for(world, after)
    assert not list(inconsistencies(plan))
    text = [click.unstyle(rendered(line)) for line in plan_lines(plan)]

    for action in plan.actions:
        at = next(n for n, line in enumerate(text) if f" {action.op} {action.title}" in line)
        end = next(n for n in range(at + 1, len(text)) if not text[n].startswith("    "))
        block = "\n".join(text[at:end])
        kind = load_kinds().by_name[action.kind]
        for change in action.changes:
            assert f"    {change.path}:" in block
            for side in (change.before, change.after):
                if (action.op in (Op.CREATE, Op.DELETE) or kind.leaf(change.path).secret) and side is None:
                    continue
                for each in _elements(side, change.before, change.after):
                    version = each.get("secret", each)["version"] if kind.leaf(change.path).secret else each
                    if isinstance(version, str) and "\n" in version:
                        other = change.after if side is change.before else change.before
                        same = set(other.split("\n")) if isinstance(other, str) else set()
                        assert all(each in block for each in set(version.split("\n")) - same)
                    else:
                        assert as_text(version) in block, (change, block)


def _elements(side: Any, before: Any, after: Any) -> list[Any]:
    """What of a value has to be seen: of two lists or maps, what only one of them has."""
    if isinstance(before, list) and isinstance(after, list) and side is not None:
        return [each for each in side if (each in before) != (each in after)]
    if isinstance(before, dict) and isinstance(after, dict) and not {"secret", "version"} & after.keys():
        return [each for name, each in side.items() if before.get(name) != after.get(name)]
    return side if isinstance(side, list) else [side]

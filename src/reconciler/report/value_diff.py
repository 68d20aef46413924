"""Renders the difference of two values as lines; only what is equal is folded and counted."""

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import orjson

from reconciler.terminal import Line, Styled, printable

MOST_COMPARED = 4_000_000  # pairs of lines; beyond it all lines of both texts are shown, in place of a search
CONTEXT_LINES = 3
CONTEXT_CHARACTERS = 60
LONGEST_LINE = 120
_UNSET: Final = "(unset)"


def as_text(value: object) -> str:
    """A value on one line, whole."""
    if value is None:
        return _UNSET
    return printable(orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode())


def counted(number: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def difference_lines(label: str, before: object, after: object, *, ordered: bool = False) -> Iterator[Line]:
    """What turns one value into the other: the label, and after it what differs.

    Args:
        ordered: the order of a list's elements counts.
    """
    if isinstance(before, list) and isinstance(after, list):
        yield from _lists(label, before, after, ordered=ordered)
    elif isinstance(before, dict) and isinstance(after, dict) and (before or after):
        yield f"{label}:"
        yield from _maps(before, after)
    elif isinstance(before, str) and isinstance(after, str):
        yield from _texts(label, before, after)
    elif _is_short(before) and _is_short(after):
        yield f"{label}: {as_text(before)} -> {as_text(after)}"
    else:
        yield f"{label}:"
        yield from _all_of(before, "-")
        yield from _all_of(after, "+")


def whole_lines(label: str, value: object, sign: str) -> Iterator[Line]:
    """All of a value that is added (`+`) or removed (`-`)."""
    if _is_short(value):
        yield f"{label}: {as_text(value)}"
    else:
        yield f"{label}:" + (f" {counted(len(value), 'element')}" if isinstance(value, list) else "")
        yield from _all_of(value, sign)


def _all_of(value: object, sign: str) -> Iterator[Line]:
    if isinstance(value, list) and value:
        yield from (_signed(sign, as_text(each)) for each in value)
    elif isinstance(value, dict) and value:
        yield from (_signed(sign, _member(name, each)) for name, each in sorted(value.items()))
    elif isinstance(value, str) and "\n" in value:
        yield from (_text_line(sign, line) for line in _split(value))
    else:
        yield _signed(sign, as_text(value))


def _is_short(value: object) -> bool:
    return not (isinstance(value, str) and "\n" in value) and len(as_text(value)) <= LONGEST_LINE


# --- lists


def _lists(label: str, before: list[Any], after: list[Any], *, ordered: bool) -> Iterator[Line]:
    yield f"{label}: {len(before):,} -> {counted(len(after), 'element')}"
    old, new = [as_text(each) for each in before], [as_text(each) for each in after]
    if ordered:
        yield from _sequences(old, new)
        return
    removed, added = set(old) - set(new), set(new) - set(old)
    yield from (_signed("-", each) for each in dict.fromkeys(old) if each in removed)
    yield from (_signed("+", each) for each in dict.fromkeys(new) if each in added)
    yield from _unchanged(len(set(old) & set(new)), "element")


def _sequences(old: list[str], new: list[str]) -> Iterator[Line]:
    """Elements that are removed, added and moved, with positions from 1."""
    common = Counter(old) & Counter(new)
    left = common.copy()
    places: dict[str, deque[int]] = defaultdict(deque)
    for place, each in enumerate(old):
        if left[each] > 0:
            left[each] -= 1
            places[each].append(place)
        else:
            yield _signed("-", f"{place + 1}: {each}")
    left, kept = common.copy(), []
    for place, each in enumerate(new):
        if left[each] > 0:
            left[each] -= 1
            kept.append((places[each].popleft(), place, each))
        else:
            yield _signed("+", f"{place + 1}: {each}")
    staying = _longest_rising([was for was, _, _ in kept])
    for number, (was, place, each) in enumerate(kept):
        if number not in staying:
            yield [Styled(f"  > {place + 1}: {each}", "yellow"), f"  (moved, was {was + 1})"]
    yield from _unchanged(len(staying), "element")


def _longest_rising(numbers: Sequence[int]) -> set[int]:
    """Indexes of a longest increasing subsequence: the elements that stay while others are moved."""
    ends: list[int] = []
    index_of: list[int] = []
    previous: list[int | None] = []
    for index, number in enumerate(numbers):
        at = bisect_left(ends, number)
        previous.append(index_of[at - 1] if at else None)
        ends[at : at + 1], index_of[at : at + 1] = [number], [index]
    found: set[int] = set()
    at_end = index_of[-1] if index_of else None
    while at_end is not None:
        found.add(at_end)
        at_end = previous[at_end]
    return found


# --- maps


def _maps(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[Line]:
    same = 0
    for name in sorted(before.keys() | after.keys()):
        old, new = (_member(name, each[name]) if name in each else None for each in (before, after))
        same += old == new
        if old is not None and old != new:
            yield _signed("-", old)
        if new is not None and old != new:
            yield _signed("+", new)
    yield from _unchanged(same, "member")


def _member(name: str, value: object) -> str:
    return f"{as_text(name)}: {'null' if value is None else as_text(value)}"


# --- texts


def _texts(label: str, before: str, after: str) -> Iterator[Line]:
    if "\n" in before or "\n" in after:
        yield f"{label}:"
        yield from _hunks(_split(before), _split(after))
        return
    old, new = as_text(before), as_text(after)
    if max(len(old), len(new)) <= LONGEST_LINE:
        yield f"{label}: {old} -> {new}"
        return
    yield f"{label}:"
    begin, end = _common(before, after, CONTEXT_CHARACTERS)
    for sign, text in (("-", before), ("+", after)):
        yield _folded_text(sign, text, begin, end)


def _folded_text(sign: str, text: str, begin: int, end: int) -> Line:
    """A long text on one line, cut where its start and end are equal to the other text's."""
    parts = [as_text(text[begin : len(text) - end])]
    if begin:
        parts.insert(0, f"({counted(begin, 'character')} as before)")
    if end:
        parts.append(f"({counted(end, 'character')} as before)")
    return _signed(sign, " ".join(parts))


def _common(before: Sequence[object], after: Sequence[object], context: int) -> tuple[int, int]:
    """The length of the common prefix and the common suffix, beyond the context of the difference."""
    shorter = min(len(before), len(after))
    begin = 0
    while begin < shorter and before[begin] == after[begin]:
        begin += 1
    end = 0
    while end < shorter - begin and before[-1 - end] == after[-1 - end]:
        end += 1
    return max(begin - context, 0), max(end - context, 0)


def _split(text: str) -> list[str | None]:
    """The lines of a text, ended by line feeds alone; None after the last when no line feed ends it."""
    *lines, rest = text.split("\n")
    return [*lines, rest, None] if rest else [*lines]


def _hunks(before: list[str | None], after: list[str | None]) -> Iterator[Line]:
    """Removed and added lines, with some around them."""
    begin, end = _common(before, after, CONTEXT_LINES)
    yield from _unchanged(begin, "line")
    old, new = before[begin : len(before) - end], after[begin : len(after) - end]
    for tag, first, last, new_first, new_last in _opcodes(old, new):
        if tag == "equal":
            is_first, is_last = first == new_first == 0, (last, new_last) == (len(old), len(new))
            yield from _context(old[first:last], is_first=is_first, is_last=is_last)
            continue
        yield from _exchanged(old[first:last], new[new_first:new_last])
    yield from _unchanged(end, "line")


def _opcodes(old: list[str | None], new: list[str | None]) -> Sequence[tuple[str, int, int, int, int]]:
    begin, end = _common(old, new, 0)
    if (len(old) - begin - end) * (len(new) - begin - end) <= MOST_COMPARED:
        return SequenceMatcher(None, old, new).get_opcodes()
    middle = ("replace", begin, len(old) - end, begin, len(new) - end)
    around = (
        ("equal", 0, begin, 0, begin),
        middle,
        ("equal", len(old) - end, len(old), len(new) - end, len(new)),
    )
    return [each for each in around if each[1] < each[2] or each[3] < each[4]]


def _context(lines: list[str | None], *, is_first: bool, is_last: bool) -> Iterator[Line]:
    head = 0 if is_first else CONTEXT_LINES
    tail = 0 if is_last else CONTEXT_LINES
    if len(lines) <= head + tail + 1:
        head, tail = len(lines), 0
    yield from (_text_line(" ", line) for line in lines[:head])
    yield from _unchanged(len(lines) - head - tail, "line")
    yield from (_text_line(" ", line) for line in lines[len(lines) - tail :])


def _exchanged(old: list[str | None], new: list[str | None]) -> Iterator[Line]:
    """Replaced lines; those that differ in white space alone are quoted to show it."""
    alike = {_without_space(line) for line in old} & {_without_space(line) for line in new}
    yield from (_text_line("-", line, quoted=_without_space(line) in alike) for line in old)
    yield from (_text_line("+", line, quoted=_without_space(line) in alike) for line in new)


def _without_space(line: str | None) -> str | None:
    return None if line is None else "".join(line.split())


def _text_line(sign: str, line: str | None, *, quoted: bool = False) -> Line:
    if line is None:
        return _signed(sign, "(no line feed at the end)")
    if sign != " " and (quoted or not line.replace("\t", " ").isprintable()):
        return _signed(sign, f"{as_text(line)}  (quoted, to show every character)")
    return _signed(sign, line)


# --- lines


def _signed(sign: str, text: str) -> Line:
    return [
        Styled(
            f"  {sign} {text}".rstrip(" ") if not text else f"  {sign} {text}",
            {"-": "red", "+": "green"}.get(sign),
        )
    ]


def _unchanged(number: int, word: str) -> Iterator[Line]:
    if number > 0:
        yield [Styled(f"    ({counted(number, word)} unchanged)", dim=True)]

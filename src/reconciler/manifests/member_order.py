"""Puts the members of a manifest in the order of its kind's schema; comments move with their members."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.kinds import Kind
from reconciler.kinds.member_schemas import schema_branches

from .spans import MemberPath, Span
from .yaml_lines import YamlLines, split_yaml_lines
from .yaml_reader import InvalidYaml, YamlDocument, read_documents

# An object's name is its first member, as people write it; the schema may list `identifier` and `labels`
# first.
_FIRST = ("zone", "name", "identifier", "description")


def order_members(text: str, kind: Kind) -> str:
    """One valid document with the members of its mappings in canonical order.

    A comment belongs to the member below it, unless it is indented deeper. Mappings that the schema does not
    describe, such as labels, keep their order, and so does a document with anchors.
    """
    moved: str | None = text
    while moved is not None:
        text, moved = moved, _with_one_moved(moved, kind)
    return text


def _with_one_moved(text: str, kind: Kind) -> str | None:
    """The text with one mapping put in order; None when none is left that can be."""
    (document,) = read_documents(text, places=True)
    for path, order in _misplaced(document.value, kind.schema, kind.schema):
        moved = _moved(text, document, path, order)
        if moved is not None and _reads_as(moved, document.value):
            return moved
    return None


def _reads_as(text: str, value: object) -> bool:
    """Tell whether only the order changed: an alias must not come before its anchor."""
    try:
        return [each.value for each in read_documents(text)] == [value]
    except InvalidYaml:
        return False


def canonical_order(
    schema: Mapping[str, object], root: Mapping[str, object], members: Sequence[str]
) -> list[str]:
    """The members of one mapping in order; those that the schema does not name come last."""
    known = list(
        dict.fromkeys(name for each in schema_branches(schema, root) for name in each.get("properties", ()))
    )
    if "name" in known and root is not schema:
        known.sort(key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    ranks = {name: rank for rank, name in enumerate(known)}
    return sorted(members, key=lambda name: ranks.get(name, len(ranks)))


def _misplaced(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], path: MemberPath = ()
) -> Iterator[tuple[MemberPath, list[str]]]:
    """The mappings that are in another order, outermost first, and the order they should have."""
    if isinstance(value, dict):
        order = canonical_order(schema, root, list(value))
        if order != list(value):
            yield path, order
        for name, below in value.items():
            for branch in schema_branches(schema, root):
                if name in branch.get("properties", {}):
                    yield from _misplaced(below, branch["properties"][name], root, (*path, name))
                    break
    elif isinstance(value, list):
        items = next(
            (
                each["items"]
                for each in schema_branches(schema, root)
                if isinstance(each.get("items"), Mapping)
            ),
            None,
        )
        for position, below in enumerate(value):
            if items is not None:
                yield from _misplaced(below, items, root, (*path, position))


def _moved(text: str, document: YamlDocument, path: MemberPath, order: Sequence[str]) -> str | None:
    """The text with the members of one mapping moved; None where they are not written apart."""
    keys = {name: place.key for name in order if (place := document.places[(*path, name)]).key is not None}
    values = {name: document.places[(*path, name)].value for name in order}
    lines = split_yaml_lines(text)
    written = sorted(keys, key=lambda name: keys[name])
    if len({keys[name].line for name in written}) == 1:
        return _moved_in_line(lines, written, order, keys, values)
    return _moved_in_block(lines, written, order, keys, document.places[path].value)


def _moved_in_line(
    lines: YamlLines,
    written: Sequence[str],
    order: Sequence[str],
    keys: Mapping[str, Span],
    values: Mapping[str, Span],
) -> str | None:
    """`{b: 1, a: 2}`: the text between the members stays in place."""
    number = keys[written[0]].line
    line = lines.texts[number]
    if any(values[name].end_line != number for name in written):
        return None
    pieces = {name: line[keys[name].column : values[name].end_column] for name in written}
    changed, at = line[: keys[written[0]].column], keys[written[0]].column
    for old, new in zip(written, order, strict=True):
        changed += line[at : keys[old].column] + pieces[new]
        at = values[old].end_column
    changed += line[at:]
    return "\n".join([*lines.texts[:number], changed, *lines.texts[number + 1 :]])


@dataclass(frozen=True)
class _Block:
    """The lines of one member: from its first comment up to the next member's."""

    begin: int
    end: int


def _moved_in_block(
    lines: YamlLines, written: Sequence[str], order: Sequence[str], keys: Mapping[str, Span], mapping: Span
) -> str | None:
    """Members in lines of their own."""
    column = keys[written[0]].column
    first, last = keys[written[0]].line, _last_content(lines, mapping)
    lead = lines.texts[first][:column]  # spaces, or the dashes of a list
    if any(lines.texts[keys[name].line][:column].strip() for name in written[1:]):
        return None
    opening = first if lead.strip() else _with_comments(lines, first, column)
    begins = [opening, *(_with_comments(lines, keys[name].line, column) for name in written[1:])]
    blocks = {
        name: _Block(begin, end)
        for name, begin, end in zip(written, begins, [*begins[1:], last + 1], strict=True)
    }
    texts = [*lines.texts]
    texts[first] = " " * column + texts[first][column:]
    moved = [line for name in order for line in texts[blocks[name].begin : blocks[name].end]]
    if lead.strip():
        if not moved[0].startswith(" " * column) or moved[0].lstrip().startswith("#"):
            return None  # a comment would move behind the dash
        moved[0] = lead + moved[0][column:]
    return "\n".join([*texts[:opening], *moved, *texts[last + 1 :]])


def _with_comments(lines: YamlLines, number: int, column: int) -> int:
    """The first line that belongs to a line's member: the comments and empty lines above it."""
    begin = number
    while begin and begin - 1 not in lines.inside and not lines.is_content(begin - 1):
        if lines.is_comment(begin - 1) and lines.comments[begin - 1] > column:
            break
        begin -= 1
    return begin


def _last_content(lines: YamlLines, mapping: Span) -> int:
    """The last line of a mapping. Its span ends where the next token begins, or behind the last line."""
    last = min(mapping.end_line, len(lines.texts)) - 1
    while last not in lines.inside and not lines.is_content(last):
        last -= 1
    return last

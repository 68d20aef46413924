"""Writes a YAML document in one layout, with its comments: indentation, quotes, spaces. Uses ruamel.yaml."""

import re
import sys
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.emitter import RoundTripEmitter
from ruamel.yaml.nodes import CollectionNode, ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.scalarstring import ScalarString

from .yaml_lines import YamlLines, split_yaml_lines
from .yaml_reader import is_plain_string

# Texts in YAML 1.2 that readers of YAML 1.1 take for a boolean, a number or a date.
_AMBIGUOUS = re.compile(
    r"y|n|yes|no|on|off|=|<<|[-+]?0b[01_]+|[-+]?0x[0-9a-f_]+|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])*(?:\.[0-9_]*)?"
    r"|[-+]?\.[0-9_]+|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*",
    re.IGNORECASE,
)
_SPELLED = {
    "": "null",
    "~": "null",
    **{word: word.lower() for word in ("Null", "NULL", "True", "TRUE", "False", "FALSE")},
}
_TEXT_TAG = "tag:yaml.org,2002:str"


class CommentLost(ValueError):
    """A comment is in a place that this layout does not have."""


class _Text(ScalarString):
    """A text in one line: the emitter decides whether it needs quotes."""

    written_as: str | None = None


class _Word(_Text):
    """A number, a boolean or null, written as it was."""

    written_as = ""


class _Resolver(VersionedResolver):
    """Resolves every scalar as a text: only `yaml_reader` interprets plain ones."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is ScalarNode:
            return self.DEFAULT_SCALAR_TAG
        return super().resolve(kind, value, implicit)


class _Constructor(RoundTripConstructor):
    """Keeps comments, block scalars and anchors, and decides which collections stay in one line."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        if isinstance(node, CollectionNode) and node.start_mark.line != node.end_mark.line:
            node.flow_style = False
        return super().construct_object(node, deep=deep)

    def construct_scalar(self, node: Any) -> Any:
        if node.style in ("|", ">"):
            return super().construct_scalar(node)
        if node.style is None and not is_plain_string(node.value):
            return _Word(_SPELLED.get(node.value, node.value), anchor=node.anchor)
        return _Text(node.value, anchor=node.anchor)


class _Representer(RoundTripRepresenter):
    def represent_text(self, data: _Text) -> Any:
        return self.represent_scalar(
            _TEXT_TAG, data, style=data.written_as, anchor=data.yaml_anchor(any=True)
        )


_Representer.add_representer(_Text, _Representer.represent_text)
_Representer.add_representer(_Word, _Representer.represent_text)


class _Emitter(RoundTripEmitter):
    """Quotes only what needs quotes: with `"`, or with `'` where `"` would need escapes."""

    MAX_SIMPLE_KEY_LENGTH = 1024

    def choose_scalar_style(self) -> Any:
        if self.event.style is not None:
            return super().choose_scalar_style()
        if self.analysis is None:
            self.analysis = self.analyze_scalar(self.event.value)
        found, value = self.analysis, self.event.value
        plain = found.allow_flow_plain if self.flow_level else found.allow_block_plain
        if plain and not found.multiline and is_plain_string(value) and not _AMBIGUOUS.fullmatch(value):
            return ""
        if not found.multiline and found.allow_single_quoted and ('"' in value or "\\" in value):
            return "'"
        return '"'


def lay_out(text: str) -> str:
    """One document in the layout of `zonectl fmt`, its members in the order they have.

    Raises:
        CommentLost: it has a comment between brackets over several lines.
        ruamel.yaml.error.YAMLError: it has what ruamel.yaml does not read, such as tabs between values.
    """
    yaml = YAML(typ="rt")
    yaml.Resolver, yaml.Constructor = _Resolver, _Constructor
    yaml.Representer, yaml.Emitter = _Representer, _Emitter
    yaml.width = sys.maxsize
    yaml.indent(mapping=2, sequence=4, offset=2)
    written = StringIO()
    yaml.dump(yaml.load(text), written)
    lines = split_yaml_lines(written.getvalue())
    return _without_trailing_spaces(_with_comments_in_place(split_yaml_lines(text), lines))


def _with_comments_in_place(before: YamlLines, after: YamlLines) -> YamlLines:
    """Comments moved along with the values beside them. Raises CommentLost."""
    if len(before.own_line_comments()) != len(after.own_line_comments()) or len(
        before.trailing_comments()
    ) != len(after.trailing_comments()):
        raise CommentLost
    texts, comments = list(after.texts), dict(after.comments)
    for old, new in zip(before.own_line_comments(), after.own_line_comments(), strict=True):
        comments[new] = _comment_column(before, old, after, new)
    for group in _aligned(
        before, list(zip(before.trailing_comments(), after.trailing_comments(), strict=True))
    ):
        gap = min(before.gap(old) for old, _ in group)
        column = max(after.value_end(new) for _, new in group) + gap
        comments.update((new, column) for _, new in group)
    for number, column in comments.items():
        value, comment = texts[number][: after.comments[number]], texts[number][after.comments[number] :]
        texts[number] = value.rstrip().ljust(column) + comment
    return YamlLines(tuple(texts), after.inside, comments)


def _aligned(before: YamlLines, pairs: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Comments behind values, grouped where consecutive lines have theirs in one column."""
    groups: list[list[tuple[int, int]]] = []
    for old, new in pairs:
        last = groups[-1][-1][0] if groups else None
        if last is not None and old == last + 1 and before.comments[old] == before.comments[last]:
            groups[-1].append((old, new))
        else:
            groups.append([(old, new)])
    return groups


def _comment_column(before: YamlLines, old: int, after: YamlLines, new: int) -> int:
    """The column of a comment: that of the value below it, or of the collection that it ends."""
    above, below = before.content_before(old), before.content_after(old)
    if below is not None and (
        above is None
        or before.indent(old) <= before.indent(below)
        or before.indent(below) >= before.indent(above)
    ):
        target = after.content_after(new)
        return 0 if target is None else after.indent(target)
    target = after.content_before(new)
    if above is None or target is None:
        return 0
    level = sum(each <= before.indent(old) for each in before.open_indents(above))
    columns = after.open_indents(target)
    return columns[min(max(level, 1), len(columns)) - 1]


def _without_trailing_spaces(lines: YamlLines) -> str:
    return "\n".join(
        text if number in lines.inside else text.rstrip() for number, text in enumerate(lines.texts)
    )

"""Every text that a person may read, collected from the source: the catalogue in docs/messages.txt.

`make documents` writes it; a test compares it. It has no line numbers: only a changed text changes it. Values
are shown as `{expression}`.
"""

import ast
import json
import re
from collections.abc import Collection, Iterator
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CATALOGUE = ROOT / "docs" / "messages.txt"
TEMPLATES = ROOT / "src" / "runtime" / "api" / "pages" / "templates"
_HEAD = """\
Every text that a person may read: errors, command line help, settings, pages, log events, and what the
schemas say of classes. Written from the source by `make documents`, for reviews: read a changed text here as
somebody who sees it for the first time. A value is shown as {expression}.
"""
# What a text is given to when no person reads it: SQL, patterns, names of types.
_NOT_FOR_PEOPLE = {
    "text",
    "compile",
    "sub",
    "fullmatch",
    "match",
    "search",
    "execute",
    "TypeVar",
    "CheckConstraint",
}
_NOT_FOR_PEOPLE |= {"getLogger", "literal_column", "DDL", "Index", "split", "strptime", "field_specifiers"}
_SQL = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|WITH|PRAGMA|BEGIN|SET|ALTER|LOCK|WHERE)\s", re.DOTALL
)
_LUA = re.compile(r"\bredis\.call\(")  # a script of Redis
_WORDS = re.compile(r"[A-Za-z]{2,}[,;:]? [`'\"{(]*[A-Za-z{`]")
_COMMANDS = {"command", "group"}


def catalogue() -> str:
    """The catalogue as docs/messages.txt has it."""
    modules = [path for path in sorted((ROOT / "src").rglob("*.py")) if "migrations" not in path.parts]
    published = _descriptions()
    texts = {path: list(texts_of(path.read_text("utf-8"), published)) for path in modules}
    texts |= {page: _page(page.read_text("utf-8")) for page in sorted(TEMPLATES.glob("*.html"))}
    return "\n".join([_HEAD, *(_section(path, found) for path, found in texts.items() if found)])


def _section(path: Path, texts: list[str]) -> str:
    unique = dict.fromkeys(texts)
    return "\n".join([f"## {path.relative_to(ROOT / 'src')}", *(f"- {each}" for each in unique), ""])


def texts_of(source: str, published: Collection[str] = ()) -> Iterator[str]:
    """The texts of a module, in their order.

    Docstrings are left out, but for the help of commands and for those of classes whose first paragraph is
    among the *published* descriptions.
    """
    yield from _texts(ast.parse(source), published)


def _descriptions() -> frozenset[str]:
    """The descriptions in `schemas/`, among them docstrings of classes."""
    files = sorted((ROOT / "schemas").rglob("*.json"))
    return frozenset(text for file in files for text in _described(json.loads(file.read_text("utf-8"))))


def _described(schema: object) -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _described(each)
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name == "description" and isinstance(value, str):
                yield value
            yield from _described(value)


def _texts(node: ast.AST, published: Collection[str]) -> Iterator[str]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Call) and _name(node.func) in _NOT_FOR_PEOPLE:
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_command(node):
        yield from _shown(ast.get_docstring(node) or "")
    if isinstance(node, ast.ClassDef):
        help_text = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
        if help_text in published:
            yield from _shown(help_text)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _shown(node.value)
        return
    if isinstance(node, ast.JoinedStr):
        yield from _shown("".join(_piece(each) for each in node.values))
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                yield from _texts(each.value, published)
        return
    for child in ast.iter_child_nodes(node):
        yield from _texts(child, published)


def _shown(text: str) -> Iterator[str]:
    """The text in one line, if it is one that people read."""
    if _WORDS.search(text) and not _SQL.match(text) and not _LUA.search(text):
        yield " ".join(_printable(text).split())


def _printable(text: str) -> str:
    """The text without control characters, which a text that is only hashed may have."""
    return "".join(char if char.isprintable() or char.isspace() else f"\\x{ord(char):02x}" for char in text)


def _piece(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else f"{{{_value(node)}}}"


def _value(node: ast.AST) -> str:
    """What stands for a value: short, and without texts that are listed by themselves."""
    assert isinstance(node, ast.FormattedValue)
    written = ast.unparse(node.value)
    return written if len(written) <= 40 and not re.search(r"['\"]", written) else "..."


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Call) and _name(each.func) in _COMMANDS for each in node.decorator_list)


class _Texts(HTMLParser):
    """The texts of a template: what stands between its tags, and in attributes that people read."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._is_hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_hidden = tag in ("style", "script")
        shown = ("placeholder", "title", "alt", "aria-label")
        self.found += [value for name, value in attrs if name in shown and value]

    def handle_endtag(self, tag: str) -> None:
        self._is_hidden = False

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if not self._is_hidden and re.search(r"[A-Za-z]{2}", text):
            self.found.append(text)


def _page(template: str) -> list[str]:
    parser = _Texts()
    parser.feed(re.sub(r"\{%.*?%\}|\{#.*?#\}", "", template, flags=re.DOTALL))
    return [each for each in parser.found if re.search(r"[A-Za-z]{2}", re.sub(r"\{\{.*?\}\}", "", each))]

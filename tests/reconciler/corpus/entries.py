"""The corpus of broken inputs: read from its files, laid out in a directory, and written back."""

import ast
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ZONE = "apiVersion: zonewright/v1\nkind: Zone\nmetadata: {name: acme}\nspec: {name: Acme}\n"
SETTINGS = "owner: acme/identity\n"
_ESCAPES = {"\\t": b"\t", "\\r": b"\r", "\\n": b"\n", "\\\\": b"\\"}


@dataclass
class Entry:
    """One mistake: `parts` are the lines that begin with `>>>`, each with what follows it."""

    file: Path
    name: str
    parts: list[tuple[str, str]] = field(default_factory=list)
    expected: str = ""

    def __str__(self) -> str:
        return f"{self.file.stem}: {self.name}"

    @property
    def command(self) -> list[str]:
        """What is run."""
        for head, _ in self.parts:
            if head.startswith("run: "):
                return head.removeprefix("run: ").split()
        return ["validate", "config"]

    def lay_out(self, directory: Path) -> None:
        """Make a repository with the files of the entry in it."""
        config = directory / "config"
        (directory / ".git").mkdir()
        config.mkdir()
        (config / "zone.yaml").write_text(ZONE)
        for head, text in self.parts:
            _make(config, head, text)
        if not os.path.lexists(config / "zonectl.yaml"):
            (config / "zonectl.yaml").write_text(SETTINGS)

    def text(self) -> str:
        """The entry as it stands in its file."""
        parts = "".join(f">>> {head}\n{text}" for head, text in self.parts)
        return f"=== {self.name}\n{parts}<<<\n{self.expected}"


def _make(config: Path, head: str, text: str) -> None:
    sort, _, rest = head.rpartition(": ")
    name, _, more = rest.partition(" -> " if sort == "link" else " ")
    file = Path(os.fsdecode(os.fsencode(config / _unescaped(name).decode(errors="surrogateescape"))))
    if sort == "run":
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    if sort == "":
        file.write_bytes(text.encode())
    elif sort == "escaped":
        file.write_bytes(_unescaped(text))
    elif sort == "generated":
        file.write_bytes(_generated(text).encode())
    elif sort == "link":
        file.symlink_to(more)
    elif sort == "folder":
        file.mkdir()
    elif sort == "fifo":
        os.mkfifo(file)
    elif sort == "size":
        file.touch()
        os.truncate(file, int(more))
    elif sort == "socket":
        _bind(file)
    else:
        raise ValueError(f"what is `{head}`?")


def _bind(file: Path) -> None:
    before = Path.cwd()
    os.chdir(file.parent)  # a socket's name is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(file.name)
    finally:
        os.chdir(before)


def _unescaped(text: str) -> bytes:
    made, at = b"", 0
    while at < len(text):
        pair = text[at : at + 2]
        if pair == "\\x":
            made += bytes.fromhex(text[at + 2 : at + 4])
            at += 4
        elif pair in _ESCAPES:
            made += _ESCAPES[pair]
            at += 2
        else:
            made += text[at].encode()
            at += 1
    return made


def _generated(expression: str) -> str:
    """Texts that are added and repeated."""

    def value(node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        assert isinstance(node, ast.BinOp)
        if isinstance(node.op, ast.Add):
            return value(node.left) + value(node.right)
        assert isinstance(node.right, ast.Constant)
        assert isinstance(node.right.value, int)
        return value(node.left) * node.right.value

    return value(ast.parse(expression.strip(), mode="eval").body)


def read_entries() -> list[Entry]:
    """All entries, by file and in the order in which they stand there."""
    return [entry for file in sorted(HERE.glob("*.txt")) for entry in _read(file)]


def _read(file: Path) -> Iterator[Entry]:
    entry: Entry | None = None
    tells = False
    for line in file.read_text("utf-8").split("\n")[:-1]:
        if line.startswith("=== "):
            if entry is not None:
                yield entry
            entry, tells = Entry(file, line.removeprefix("=== ")), False
        elif entry is None:
            raise ValueError(f"{file}: expected `=== `")
        elif line == "<<<" and not tells:
            tells = True
        elif tells:
            entry.expected += line + "\n"
        elif line.startswith(">>> "):
            entry.parts.append((line.removeprefix(">>> "), ""))
        else:
            head, text = entry.parts[-1]
            entry.parts[-1] = head, text + line + "\n"
    if entry is not None:
        yield entry


def write_entries(entries: list[Entry]) -> None:
    """Write the files again."""
    for file in {entry.file for entry in entries}:
        with suppress(FileNotFoundError):
            file.write_text("".join(each.text() for each in entries if each.file == file), "utf-8")

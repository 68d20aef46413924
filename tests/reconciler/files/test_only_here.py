"""No other module of the reconciler opens files, and none prints: held against the code as text."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "reconciler"

# What opens, reads or writes a file, whatever it is called on.
OPENING = {
    "open",
    "fdopen",
    "open_file",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "mkstemp",
    "mkdtemp",
    "NamedTemporaryFile",
    "TemporaryFile",
    "SpooledTemporaryFile",
    "File",
    "touch",
    "copy",
    "copyfile",
    "copytree",
    "mmap",
    "memmap",
    "sendfile",
    "readlink",
    "hardlink_to",
    "symlink_to",
    "loadtxt",
}
MAY_OPEN = {
    "files/atomic.py",  # puts in place what these two write
    "files/repository_files.py",  # what a repository names
    "files/user_files.py",  # what this user or the command line names
    "kinds/loading.py",  # the schemas that come with zonectl
    "output_schemas.py",  # part of no command: writes `schemas/output`
}
# Class methods that connect, and read nothing themselves.
CONNECTING = {("Api", "open"), ("CommandContext", "open")}
# And what only has such a name: a container of YAML, a function that was handed over, a counter.
OTHERS = {("self", "open"), (None, "show"), ("common", "copy"), ("api", "confirm")}

PRINTING = {
    "echo",
    "secho",
    "style",
    "print",
    "pprint",
    "write",
    "writelines",
    "show",
    "confirm",
    "prompt",
    "print_exc",
}
MAY_PRINT = {
    "terminal.py",  # makes what came from outside harmless
    "files/atomic.py",  # writes to files
}


@cache
def calls(file: Path) -> list[tuple[str | None, str, int]]:
    """What a file calls: the name it is called on, if it is one, the function's own name, the line."""
    return list(_calls(file))


def _calls(file: Path) -> Iterator[tuple[str | None, str, int]]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            yield None, node.func.id, node.lineno
        elif isinstance(node.func, ast.Attribute):
            owner = node.func.value
            yield (owner.id if isinstance(owner, ast.Name) else ""), node.func.attr, node.lineno


def uses(names: set[str], exempt: set[str]) -> list[str]:
    """Where one of the functions is called outside the exempt files."""
    return [
        f"{file.relative_to(SOURCE)}:{line}: {name}"
        for file in sorted(SOURCE.rglob("*.py"))
        if str(file.relative_to(SOURCE)) not in exempt
        for owner, name, line in calls(file)
        if name in names and (owner, name) not in CONNECTING | OTHERS
    ]


@pytest.mark.threat("38k")
def test_files_are_opened_in_one_place() -> None:
    """What a manifest names is opened by `files.repository_files`; no other module repeats its checks."""
    assert uses(OPENING, MAY_OPEN) == []


def test_what_is_printed_goes_through_one_place() -> None:
    """Else one line is forgotten."""
    assert uses(PRINTING, MAY_PRINT) == []
    streams = [
        str(file.relative_to(SOURCE))
        for file in sorted(SOURCE.rglob("*.py"))
        if file.name != "terminal.py"
        and "sys.std" in file.read_text("utf-8").replace("sys.stderr.isatty()", "")
    ]
    assert streams == []


@pytest.mark.parametrize("exempt", [MAY_OPEN, MAY_PRINT])
def test_an_exemption_is_needed(exempt: set[str]) -> None:
    """The lists only shrink."""
    names = OPENING if exempt is MAY_OPEN else PRINTING
    assert {each for each in exempt if not uses(names, exempt - {each})} == set()

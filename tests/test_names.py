"""One name means one thing: no two classes of the source share one."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
# The same idea on both sides of the wire, once in each package; none of the packages imports another.
_READ_BY_ZONECTL = "zonectl reads from its JSON what the service writes"
_SENT_BY_ZONECTL = "zonectl sends as JSON what the service reads"
SHARED_IDEAS = {
    "Kind": "a kind as it is defined, and as zonectl reads it from schemas/",
    "Entity": _READ_BY_ZONECTL,
    "InForce": _READ_BY_ZONECTL,
    "MissingName": _READ_BY_ZONECTL,
    "Ownership": _READ_BY_ZONECTL,
    "Undescribable": _READ_BY_ZONECTL,
    "CreateOperation": _SENT_BY_ZONECTL,
    "DeleteOperation": _SENT_BY_ZONECTL,
    "ReleaseOperation": _SENT_BY_ZONECTL,
    "RenameOperation": _SENT_BY_ZONECTL,
    "ChainActor": "a level of `act` as the zone writes it, and as resource servers read it",
    "RevocationList": "as the zone serves it, and as resource servers cache it",
}


def _public_classes() -> dict[str, list[str]]:
    """Name of a class -> the modules that define one."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        if "migrations" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(SOURCE)))
    return found


def test_no_two_classes_share_a_name() -> None:
    """But those listed, one in each package, with the reason."""
    shared = {name: places for name, places in _public_classes().items() if len(places) > 1}
    assert {name: places for name, places in shared.items() if name not in SHARED_IDEAS} == {}


def test_a_shared_name_is_of_one_class_in_each_package() -> None:
    """Two classes of one package never share a name; what is listed is shared, else it leaves the list."""
    packages = {name: [each.split("/")[0] for each in places] for name, places in _public_classes().items()}
    assert {name for name in SHARED_IDEAS if len(packages.get(name, [])) < 2} == set()
    assert {name for name in SHARED_IDEAS if len(set(packages[name])) < len(packages[name])} == set()


_INDIRECT = re.compile(
    r"(What|Where|Who|Whose|Which|How|Whether|Here|From what|Everything|Everybody|Everyone)\b"
)


_MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if path.parent.name != "versions"]


@pytest.mark.parametrize("path", [str(path.relative_to(SOURCE)) for path in _MODULES])
def test_a_module_says_in_its_first_line_what_it_is(path: str) -> None:
    """A noun or a verb, not "What the zone writes into its tokens": "The claims of the zone's tokens"."""
    docstring = ast.get_docstring(ast.parse((SOURCE / path).read_text("utf-8")))
    assert docstring is not None
    assert not _INDIRECT.match(docstring)

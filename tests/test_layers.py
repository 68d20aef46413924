"""Imports point one way: the rule of the whole source tree as one table, held against the code as text."""

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

# What a part may import of its own package, besides itself. A part that is not in the table fails.
MAY_IMPORT: dict[str, frozenset[str]] = {
    "runtime.domain": frozenset(),
    "runtime.settings": frozenset(),
    "runtime.logs": frozenset({"runtime.settings"}),
    "runtime.metrics": frozenset(),
    "runtime.contract": frozenset({"runtime.domain"}),
    "runtime.storage": frozenset({"runtime.domain"}),
    "runtime.adapters": frozenset({"runtime.domain"}),
    "runtime.services": frozenset(
        {
            "runtime.adapters",
            "runtime.contract",
            "runtime.domain",
            "runtime.logs",
            "runtime.metrics",
            "runtime.settings",
            "runtime.storage",
        }
    ),
}
MAY_IMPORT["runtime.api"] = MAY_IMPORT["runtime.services"] | {"runtime.services"}
MAY_IMPORT["runtime.app"] = MAY_IMPORT["runtime.api"] | {"runtime.api"}
# Writes schemas/ from all that is derived: the contract, the tables, the permissions.
MAY_IMPORT["runtime.schemas"] = frozenset(
    {"runtime.contract", "runtime.domain", "runtime.services", "runtime.storage"}
)
MAY_IMPORT["runtime.cli"] = MAY_IMPORT["runtime.app"] | {"runtime.app"}
MAY_IMPORT["runtime.start"] = frozenset({"runtime.cli"})

MAY_IMPORT["reconciler.kinds"] = frozenset()
for _part in ("manifests", "plan", "client"):
    MAY_IMPORT[f"reconciler.{_part}"] = frozenset({"reconciler.kinds"})
for _part in ("apply", "report"):
    MAY_IMPORT[f"reconciler.{_part}"] = frozenset(
        {"reconciler.client", "reconciler.kinds", "reconciler.manifests", "reconciler.plan"}
    )
MAY_IMPORT["reconciler.variables"] = frozenset()
for _part in ("apply", "client"):
    MAY_IMPORT[f"reconciler.{_part}"] |= {"reconciler.variables"}
MAY_IMPORT["reconciler.configured"] = frozenset({"reconciler.manifests", "reconciler.variables"})
MAY_IMPORT["reconciler.exits"] = frozenset()
MAY_IMPORT["reconciler.session"] = frozenset(
    f"reconciler.{other}"
    for other in ("apply", "client", "configured", "exits", "kinds", "manifests", "plan", "report")
)
MAY_IMPORT["reconciler.commands"] = MAY_IMPORT["reconciler.session"] | {"reconciler.session"}
MAY_IMPORT["reconciler.cli"] = MAY_IMPORT["reconciler.commands"] | {"reconciler.commands"}

# Libraries that only these parts may use.
KEPT_TO: dict[str, frozenset[str]] = {
    "sqlalchemy": frozenset({"runtime.storage"}),
    "alembic": frozenset({"runtime.storage"}),
    "redis": frozenset({"runtime.storage"}),
    "sanic": frozenset({"runtime.api", "runtime.app", "runtime.cli"}),
    "cedarpy": frozenset({"runtime.adapters"}),
    "argon2": frozenset({"runtime.adapters"}),
    "jwt": frozenset({"runtime.adapters"}),
    "httpx": frozenset({"reconciler.client"}),
}
# What anyone may mention of those libraries: a connection and a condition to pass on, and what may escape.
PASSED_ON = {"sqlalchemy.ext.asyncio", "sqlalchemy.ColumnElement", "sqlalchemy.exc"}

# Inside the management use cases: what a room may import of the others.
MANAGEMENT = "runtime.services.management"
_ANY_KIND = frozenset({"access", "entities", "listing", "unit"})
ROOMS: dict[str, frozenset[str]] = {
    "access": frozenset(),
    "listing": frozenset(),
    "unit": frozenset({"access"}),
    "issued": frozenset({"unit"}),
    "entities": frozenset({"access", "issued", "listing", "unit"}),
    "audit": _ANY_KIND,
    "people": _ANY_KIND,
    "policies": _ANY_KIND,
    "members": _ANY_KIND | {"people"},
    "zones": _ANY_KIND | {"policies"},
    "organizations": _ANY_KIND | {"members", "people", "zones"},
    "surroundings": _ANY_KIND | {"zones"},
}
ROOMS["operations"] = _ANY_KIND | {"members", "organizations", "people", "policies", "zones"}
ROOMS["changes"] = ROOMS["operations"] | {"operations"}


def _part_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _modules() -> list[tuple[str, Path]]:
    """Module name -> file, for every module of both packages."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


def _imported(module: str, path: Path) -> set[str]:
    """Every module that a file names in an import, also inside functions."""
    here = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            # `from reconciler import kinds` imports a part, not the package alone.
            names |= {source} if "." in source else {f"{source}.{alias.name}" for alias in node.names}
    return names


MODULES = [(module, path, _imported(module, path)) for module, path in _modules()]


@pytest.mark.parametrize(
    ("module", "imported"), [(m, i) for m, _, i in MODULES], ids=[m for m, _, _ in MODULES]
)
def test_a_module_imports_only_what_its_layer_may(module, imported):
    """domain <- contract, storage, adapters <- services <- api <- app; kinds <- ... <- cli; never across."""
    part = _part_of(module)
    package = part.partition(".")[0]
    allowed = MAY_IMPORT.get(part, frozenset()) | {part, package, f"{package}.__version__"}
    refused = {
        name
        for name in imported
        if name.partition(".")[0] in ("runtime", "reconciler") and _part_of(name) not in allowed
    }

    assert not refused, f"{module} must not import {', '.join(sorted(refused))}"


@pytest.mark.parametrize(("library", "parts"), KEPT_TO.items(), ids=KEPT_TO)
def test_a_library_stays_where_it_belongs(library, parts):
    """SQL in storage, HTTP servers at the edge, outbound HTTP in its two rooms."""
    strangers = {
        module
        for module, _, imported in MODULES
        if _part_of(module) not in parts
        and library in {name.partition(".")[0] for name in imported - PASSED_ON}
    }

    assert not strangers


def test_the_domain_needs_the_standard_library_and_pydantic_alone():
    """No network, database or framework in what is true without them."""
    needed = {
        name.partition(".")[0]
        for module, _, imported in MODULES
        if _part_of(module) == "runtime.domain"
        for name in imported
    }

    assert needed - sys.stdlib_module_names == {"runtime", "pydantic"}


def test_every_part_is_in_the_table():
    """A new part of a package states what it may import before it exists."""
    assert {_part_of(module) for module, _, _ in MODULES if "." in module} <= MAY_IMPORT.keys()


def _rooms_of(path: Path) -> set[str]:
    """The rooms of the management use cases that a file names in an import."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            rooms |= {name.split(".")[3] for name in names if name.startswith(f"{MANAGEMENT}.")}
    return rooms


def test_rooms_of_the_management_use_cases_stand_on_one_another():
    """access <- unit <- entities <- the kinds <- operations <- changes; no two of them import each other."""
    stray = {
        module: strangers
        for module, path, _ in MODULES
        if module.startswith(f"{MANAGEMENT}.")
        and (strangers := _rooms_of(path) - ROOMS[(room := module.split(".")[3])] - {room})
    }

    assert not stray

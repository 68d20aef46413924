"""Imports point one way: the rule of the whole source tree as one table, held against the code as text."""

import ast
import sys
from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

# What a part may import of its own package, besides itself. A part that is not in the table fails.
MAY_IMPORT: dict[str, frozenset[str]] = {
    "runtime.domain": frozenset(),
    "runtime.settings": frozenset({"runtime.files"}),
    "runtime.files": frozenset(),
    "runtime.logs": frozenset({"runtime.settings"}),
    "runtime.metrics": frozenset({"runtime.files"}),
    "runtime.contract": frozenset({"runtime.domain"}),
    "runtime.storage": frozenset({"runtime.domain", "runtime.files", "runtime.metrics"}),
    "runtime.adapters": frozenset({"runtime.domain", "runtime.files", "runtime.metrics"}),
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
# Lists what there is to limit, from wherever it is enforced.
MAY_IMPORT["runtime.quotas"] = MAY_IMPORT["runtime.api"] | {"runtime.api"}
# Makes spans around functions of any layer, from outside: none of them knows.
MAY_IMPORT["runtime.tracing"] = MAY_IMPORT["runtime.api"] | {"runtime.api"}
MAY_IMPORT["runtime.app"] = MAY_IMPORT["runtime.quotas"] | {"runtime.quotas"} | {"runtime.tracing"}
# Writes schemas/ from all that is derived: the contract, the tables, the permissions.
MAY_IMPORT["runtime.schemas"] = frozenset(
    {"runtime.contract", "runtime.domain", "runtime.services", "runtime.storage"}
)
MAY_IMPORT["runtime.cli"] = MAY_IMPORT["runtime.app"] | {"runtime.app", "runtime.files"}
MAY_IMPORT["runtime.start"] = frozenset({"runtime.cli"})

MAY_IMPORT["reconciler.kinds"] = frozenset({"reconciler.output_documents"})
MAY_IMPORT["reconciler.output_documents"] = frozenset()
MAY_IMPORT["reconciler.output_schemas"] = frozenset({"reconciler.output_documents"})
MAY_IMPORT["reconciler.plan"] = frozenset(
    {"reconciler.cedar", "reconciler.output_documents", "reconciler.kinds"}
)
MAY_IMPORT["reconciler.cedar"] = frozenset()
MAY_IMPORT["reconciler.files"] = frozenset()
MAY_IMPORT["reconciler.terminal"] = frozenset()
for _part in ("manifests", "client"):
    MAY_IMPORT[f"reconciler.{_part}"] = frozenset({"reconciler.files", "reconciler.kinds"})
MAY_IMPORT["reconciler.manifests"] |= {"reconciler.output_documents"}
MAY_IMPORT["reconciler.server_problems"] = frozenset({"reconciler.output_documents", "reconciler.manifests"})
for _part in ("apply", "report"):
    MAY_IMPORT[f"reconciler.{_part}"] = frozenset(
        f"reconciler.{other}"
        for other in ("client", "files", "kinds", "manifests", "output_documents", "plan", "server_problems")
    )
MAY_IMPORT["reconciler.report"] |= {"reconciler.terminal"}
MAY_IMPORT["reconciler.manifests"] |= {"reconciler.cedar"}
MAY_IMPORT["reconciler.environment_variables"] = frozenset()
for _part in ("apply", "client"):
    MAY_IMPORT[f"reconciler.{_part}"] |= {"reconciler.environment_variables"}
MAY_IMPORT["reconciler.configuration_settings"] = frozenset(
    f"reconciler.{other}" for other in ("files", "kinds", "manifests", "plan", "environment_variables")
)
MAY_IMPORT["reconciler.user_settings"] = frozenset(
    {"reconciler.apply", "reconciler.client", "reconciler.files", "reconciler.manifests"}
)
MAY_IMPORT["reconciler.exit_codes"] = frozenset({"reconciler.output_documents", "reconciler.terminal"})
MAY_IMPORT["reconciler.planning"] = frozenset(
    f"reconciler.{other}" for other in ("apply", "client", "kinds", "manifests", "plan")
)
MAY_IMPORT["reconciler.commands"] = frozenset(
    f"reconciler.{other}"
    for other in (
        "apply",
        "client",
        "configuration_settings",
        "environment_variables",
        "exit_codes",
        "files",
        "kinds",
        "manifests",
        "output_documents",
        "plan",
        "planning",
        "report",
        "server_problems",
        "terminal",
        "user_settings",
    )
)
MAY_IMPORT["reconciler.cli"] = MAY_IMPORT["reconciler.commands"] | {"reconciler.commands"}

# The library for resource servers is for others to install: it imports nothing of the service or of zonectl.
_LIBRARY = frozenset(
    f"zonewright.{path.stem}" for path in (SOURCE / "zonewright").glob("*.py") if path.stem != "__init__"
)
MAY_IMPORT |= dict.fromkeys([*_LIBRARY, "zonewright"], _LIBRARY)

# Libraries that only these parts may use.
KEPT_TO: dict[str, frozenset[str]] = {
    "sqlalchemy": frozenset({"runtime.storage"}),
    "alembic": frozenset({"runtime.storage"}),
    "redis": frozenset({"runtime.storage"}),
    "sanic": frozenset({"runtime.api", "runtime.app", "runtime.cli", "runtime.tracing", "zonewright.sanic"}),
    "fastmcp": frozenset({"zonewright.fastmcp"}),
    "mcp": frozenset({"zonewright.mcp", "zonewright.fastmcp"}),
    "opentelemetry": frozenset({"runtime.tracing"}),
    "cedarpy": frozenset({"runtime.adapters"}),
    "argon2": frozenset({"runtime.adapters"}),
    "jwt": frozenset({"runtime.adapters"}) | _LIBRARY,
    "httpx": frozenset({"reconciler.client"}) | _LIBRARY,
    "ruamel": frozenset({"reconciler.manifests"}),
}
# What anyone may mention of those libraries: a connection and a condition to pass on, and what may escape.
PASSED_ON = {"sqlalchemy.ext.asyncio", "sqlalchemy.ColumnElement", "sqlalchemy.exc"}

# Inside the use cases: what a room of `services/` may import of the others, from the ground up. A room of
# `management/` is a room by itself. No two rooms stand on each other: the table has an order.
_GROUND = frozenset({"epochs", "bounded_cache", "rate_limiter", "rate_limits", "cache_sizes"}) | {
    "state_values",
    "client_types",
    "container",
    "time_slices",
    "zones",
}
_ANY_KIND = frozenset(
    {
        "management.access",
        "management.credential_scope",
        "management.entities",
        "management.listing",
        "management.unit_of_work",
        "container",
    }
)
ROOMS: dict[str, frozenset[str]] = {
    "clock": frozenset(),
    "epochs": frozenset({"clock"}),
    "client_types": frozenset(),
    "bounded_cache": frozenset({"cache_sizes"}),
    "cache_sizes": frozenset(),
    "rate_limits": frozenset(),
    "state_values": frozenset(),
    "rate_limiter": frozenset({"bounded_cache", "cache_sizes", "rate_limits"}),
    "refused_requests": frozenset({"rate_limiter", "rate_limits"}),
    "retention": frozenset({"container", "management.audit"}),
    "token_event_partitions": frozenset({"container"}),
    "schema_watch": frozenset(),
    "readiness": frozenset({"container", "schema_watch"}),
    "decision_log": frozenset({"client_types", "rate_limiter", "rate_limits", "refused_requests"}),
    "job_notifier": frozenset(),
    "jobs": frozenset({"container"}),
    "data_keys": frozenset({"bounded_cache", "cache_sizes"}),
    "zone_keys": frozenset({"clock", "data_keys"}),
    "encryption_keys": frozenset({"data_keys"}),
    "encryption_key_checks": frozenset({"container", "data_keys"}),
    "address_uses": frozenset({"bounded_cache", "cache_sizes", "container", "zones"}),
    "address_bound_secrets": frozenset(),
    "secret_values": frozenset(),
    "outbox": frozenset({"job_notifier"}),
    "zones": frozenset({"epochs", "bounded_cache", "cache_sizes", "clock", "zone_keys", "client_types"})
    | {"data_keys"},
    "revocation_list": frozenset({"clock", "bounded_cache", "cache_sizes", "time_slices", "zones"}),
    "upstream_refreshes": frozenset(),
    "replay_turns": frozenset(),
    "container": frozenset(
        {
            "data_keys",
            "replay_turns",
            "upstream_refreshes",
            "decision_log",
            "epochs",
            "job_notifier",
            "outbox",
            "rate_limiter",
            "revocation_list",
            "zones",
        }
    ),
    "measuring": frozenset({"cache_sizes", "container"}),
    "authority": _GROUND | {"outbox", "decision_log"},
    "management.access": frozenset(),
    "management.names": frozenset(),
    "management.listing": frozenset(),
    "time_slices": frozenset(),
    "management.audit_chain": frozenset(),
    "management.unit_of_work": frozenset(
        {"epochs", "zone_keys", "management.access", "management.audit_chain", "container"}
    ),
    "zone_settings": frozenset(
        {
            "management.access",
            "management.entities",
            "management.token_revocation",
            "management.unit_of_work",
            "container",
        }
    ),
    "clients": _GROUND | {"authority", "management.access", "management.unit_of_work", "refused_requests"},
    "issuing": _GROUND | {"authority", "clients", "clock", "decision_log"},
    "authorization": _GROUND | {"authority", "clients", "decision_log", "address_bound_secrets"},
    "vault": _GROUND
    | {"authority", "authorization", "secret_values", "address_bound_secrets", "decision_log"}
    | {"upstream_refreshes", "outbox"},
    "connect": _GROUND | {"authority", "authorization", "clients", "decision_log", "issuing", "vault"},
    "grants": _GROUND | {"authority", "authorization", "clients", "decision_log", "issuing", "vault"},
    "tokens": _GROUND | {"authority", "clients", "decision_log", "grants", "issuing"},
    "account": _GROUND | {"authority", "authorization", "clients", "outbox", "vault"},
    "management.token_revocation": frozenset({"management.unit_of_work", "zone_keys", "data_keys", "vault"}),
    "management.credential_scope": frozenset({"management.unit_of_work"}),
    "management.entities": (_ANY_KIND - {"management.entities"})
    | {"zone_keys", "management.token_revocation", "address_bound_secrets"},
    "management.decisions": _ANY_KIND | {"management.audit", "management.names", "management.policies"},
    "explain": _ANY_KIND
    | _GROUND
    | {"authority", "clients", "grants", "issuing", "vault", "decision_log"}
    | {"management.changesets", "management.names", "management.policies"},
    "management.audit": _ANY_KIND | {"jobs", "management.audit_chain"},
    "management.authentication": _GROUND
    | {"authority", "clients", "decision_log", "issuing", "management.access"},
    "management.people": _ANY_KIND
    | {"authority", "epochs", "outbox", "management.token_revocation", "zones"},
    "management.policies": _ANY_KIND | {"zone_keys"},
    "management.zones": _ANY_KIND
    | {"zone_keys", "management.people", "management.policies", "secret_values", "address_bound_secrets"}
    | {"management.token_revocation", "data_keys", "jobs"},
    "management.members": _ANY_KIND
    | _GROUND
    | {"authority", "clients", "management.authentication", "management.people", "outbox"},
    "management.organizations": _ANY_KIND
    | {
        "authority",
        "clients",
        "decision_log",
        "jobs",
        "rate_limiter",
        "rate_limits",
        "management.authentication",
        "refused_requests",
    }
    | {"management.members", "management.people", "management.zones", "zone_keys"},
    "management.expansions": _ANY_KIND | {"management.zones"},
    "management.permission_maps": frozenset({"management.access", "management.organizations"}),
    "management.kind_handlers": _ANY_KIND
    | {f"management.{each}" for each in ("members", "organizations", "people", "policies", "zones")},
    "bundles": _ANY_KIND
    | {"authority", "epochs", "rate_limits", "management.policies", "client_types", "zones"},
    "login": _GROUND
    | {"authority", "authorization", "clients", "management.entities", "decision_log"}
    | {"management.members", "management.unit_of_work", "outbox"},
    "logout": _GROUND | {"authority", "authorization", "issuing", "login", "outbox"},
    "message_handlers": frozenset({"login", "logout", "outbox", "vault", "zones"}),
    "schedule": frozenset(
        {"clients", "decision_log", "epochs", "jobs", "management.organizations", "management.zones"}
        | {"outbox", "retention", "revocation_list", "token_event_partitions", "vault"}
    ),
}
ROOMS["management.snapshots"] = _ANY_KIND | {
    "management.audit",
    "management.members",
    "management.policies",
    "time_slices",
}
ROOMS["replay"] = frozenset(
    {"authority", "client_types", "clients", "container", "data_keys", "issuing", "time_slices", "zones"}
)
ROOMS["management.changesets"] = ROOMS["management.kind_handlers"] | {
    "rate_limits",
    "replay",
    "management.audit",
    "management.decisions",
    "management.kind_handlers",
    "management.snapshots",
    "time_slices",
    "zone_keys",
}


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


MODULES = dict(_modules())


@cache
def _imports() -> Mapping[str, set[str]]:
    """Module -> every module that it names in an import. Nothing is parsed before a test asks."""
    return {module: _imported(module, path) for module, path in MODULES.items()}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_its_layer_may(module):
    """domain <- contract, storage, adapters <- services <- api <- app; kinds <- ... <- cli; never across."""
    part = _part_of(module)
    package = part.partition(".")[0]
    allowed = MAY_IMPORT.get(part, frozenset()) | {part, package, f"{package}.__version__"}
    refused = {
        name
        for name in _imports()[module]
        if name.partition(".")[0] in ("runtime", "reconciler", "zonewright") and _part_of(name) not in allowed
    }

    assert not refused, f"{module} must not import {', '.join(sorted(refused))}"


@pytest.mark.parametrize(("library", "parts"), KEPT_TO.items(), ids=KEPT_TO)
def test_a_library_stays_where_it_belongs(library, parts):
    """SQL in storage, HTTP servers at the edge, outbound HTTP in its two rooms."""
    strangers = {
        module
        for module, imported in _imports().items()
        if _part_of(module) not in parts
        and library in {name.partition(".")[0] for name in imported - PASSED_ON}
    }

    assert not strangers


def test_the_domain_needs_the_standard_library_and_pydantic_alone():
    """No network, database or framework in what is true without them; `typing_extensions` is the standard
    library's next version, and pydantic brings it."""
    needed = {
        name.partition(".")[0]
        for module, imported in _imports().items()
        if _part_of(module) == "runtime.domain"
        for name in imported
    }

    assert needed - sys.stdlib_module_names == {"runtime", "pydantic", "typing_extensions"}


_OF_FRAMEWORKS = ("zonewright.fastmcp", "zonewright.mcp", "zonewright.sanic")


def test_the_library_for_resource_servers_needs_three_packages():
    """What `pip install zonewright[verify]` brings, and the frameworks in their own modules alone."""
    needed = {
        name.partition(".")[0]
        for module, imported in _imports().items()
        if module.partition(".")[0] == "zonewright" and module not in _OF_FRAMEWORKS
        for name in imported
    }

    assert needed - sys.stdlib_module_names == {"zonewright", "httpx", "jwt"}


def test_every_part_is_in_the_table():
    """A new part of a package states what it may import before it exists."""
    assert {_part_of(module) for module in MODULES if "." in module} <= MAY_IMPORT.keys()


def _room_of(module: str) -> str | None:
    """The room of the use cases that a module is in; None for other modules, and for the house itself."""
    parts = module.split(".")
    if parts[:2] != ["runtime", "services"] or len(parts) < 3:
        return None
    return ".".join(parts[2:4]) if parts[2] == "management" and len(parts) > 3 else parts[2]


def _modules_needed(path: Path) -> set[str]:
    """The modules of both packages that a file imports, those below `TYPE_CHECKING` included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            known = inner & MODULES.keys()
            found |= known | ({node.module} if inner - known else set())
    return found & MODULES.keys()


@cache
def _needed() -> Mapping[str, set[str]]:
    """Module -> the modules that it needs."""
    return {module: _modules_needed(path) for module, path in MODULES.items()}


@pytest.mark.parametrize(
    "room", sorted({room for module in MODULES if (room := _room_of(module)) not in (None, "management")})
)
def test_a_room_of_the_use_cases_imports_only_what_its_row_says(room):
    """A new room of `services/` states what it stands on before it exists."""
    stands_on = {
        other
        for module, needed in _needed().items()
        if _room_of(module) == room
        for each in needed
        if (other := _room_of(each)) not in (None, room, "management")
    }

    assert stands_on <= ROOMS[room]


def test_the_rooms_of_the_use_cases_have_an_order():
    """No room stands on itself by way of others."""
    assert len(list(TopologicalSorter(ROOMS).static_order())) == len(ROOMS)


def test_no_module_imports_itself_by_way_of_others():
    """There is no circle of modules anywhere, not even of imports for type checkers alone."""
    assert len(list(TopologicalSorter(_needed()).static_order())) == len(MODULES)


def test_no_import_is_for_type_checkers_alone():
    """An import below `TYPE_CHECKING` hides a circle; what a module needs, it imports."""
    hiding = {module for module, path in MODULES.items() if "TYPE_CHECKING" in path.read_text()}

    assert hiding == {"reconciler.cli"}  # imports its commands when one is run: to start costs too much


def test_no_module_is_imported_by_its_name_as_text():
    """What `import_module` names, no reader and no check can follow."""
    assert not [module for module, path in MODULES.items() if "import_module" in path.read_text()]

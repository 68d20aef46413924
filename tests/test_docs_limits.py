"""docs/limits.md is what the code does, and nothing that can be kept or computed is missing in it."""

import ast
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from tests.support.factories import company_of
from tests.support.remembered import remembered
from tests.support.server import serve
from tests.test_caches import BOUNDED as BOUNDED_MODULES

from runtime.app import build
from runtime.contract.routes import ROUTES
from runtime.quotas import BOUNDS
from runtime.quotas.document import document
from runtime.quotas.endpoints import ENDPOINTS
from runtime.quotas.limits import LIMITS
from runtime.quotas.memory import MEMORY
from runtime.quotas.state import STATE
from runtime.quotas.tables import CONFIGURATION, RECORDS
from runtime.services.bounded_cache import BoundedCache
from runtime.settings import Settings
from runtime.storage.sql.tables import METADATA
from runtime.storage.state.redis import RedisState

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
# Values of the definition of something, or fixed when it is made: nothing is added to them.
_FIXED = {
    "runtime.adapters.keys.signing.SigningKey.public_jwk",
    "runtime.storage.sql.dependents._Loose.values",
    "runtime.storage.state.shares.Shares._bounds",
    "runtime.services.bounded_cache.BoundedCache._items",  # the container itself, by its own name in the list
}


@cache
def service() -> Mapping[str, ast.Module]:
    """Each module of the service."""
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): ast.parse(path.read_text("utf-8"))
        for path in sorted((SOURCE / "runtime").rglob("*.py"))
    }


def test_the_page_is_written_from_the_code() -> None:
    """`make documents` writes it again."""
    assert (ROOT / "docs" / "limits.md").read_text("utf-8") == document()


def _limits_made() -> list[tuple[str, str]]:
    """Module and name of every limit; a limit without a name of its own has none."""
    found: list[tuple[str, str]] = []
    for module, tree in service().items():
        named = {
            call: node.targets[0].id
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            for call in ast.walk(node.value)
        }
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        found += [(module, named.get(call, "")) for call in calls if getattr(call.func, "id", "") == "Limit"]
    return sorted(found)


def test_every_limit_is_listed() -> None:
    """Where `Limit(...)` stands in the code, and nowhere else; each has a name of its own."""
    assert _limits_made() == sorted((each.module.__name__, each.name) for each in LIMITS)
    assert max(Counter(each.limit.name for each in LIMITS).values()) == 1


def test_nothing_is_counted_without_a_limit() -> None:
    """The shared counters are used by `limits` alone, and by what slows guessing, under listed names."""
    counting = {module for module, tree in service().items() if "state.count(" in ast.unparse(tree)}
    assert counting == {
        "runtime.services.limits",
        "runtime.services.clients.guessing",
        "runtime.services.login.rate_limits",
    }


def test_every_limit_that_is_named_is_one() -> None:
    """A name is a limit's; anything else that bounds something is told in words."""
    names = {each.limit.name for each in LIMITS}
    told = [each.limited for each in (*STATE, *RECORDS, *ENDPOINTS)]
    assert {name for each in told for name in each if " " not in name} <= names


def _key_kinds() -> set[str]:
    """Every first part of a key of short-lived state that stands in the code."""
    found: set[str] = set()
    for module, tree in service().items():
        if not module.startswith("runtime.services."):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
                found.update(re.findall(r"^([a-z-]+):$", str(node.values[0].value)))
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_key":
                arguments = (each.value for each in node.args if isinstance(each, ast.Constant))
                found.update(each for each in arguments if isinstance(each, str))
    return found


def test_every_kind_of_short_lived_state_is_listed() -> None:
    """By the keys in the code; and a state that is given the list takes no other, so any test finds one."""
    assert len(BOUNDS) == len(STATE)
    assert _key_kinds() - {"application", "discovery"} <= set(BOUNDS)
    assert {"interaction", "form", "code", "sign-out", "trip", "pushed", "proof"} <= _key_kinds()


def test_every_table_is_listed() -> None:
    """Each is configuration, or says who fills it and until when a row is kept; none is both."""
    kept = [each.table for each in RECORDS]
    assert sorted([*kept, *CONFIGURATION]) == sorted(METADATA.tables)


def test_every_address_without_a_token_is_listed(tmp_path: Path) -> None:
    """All that the router serves, but the operations of the management API that take a token."""
    app = build(Settings.load(None, data_dir=tmp_path), name="listed")
    known = {(route.method, _as_named(route.path)) for route in ROUTES if not route.open}
    served = {
        (method, address)
        for route in app.router.routes
        for method in route.methods - {"HEAD", "OPTIONS"}
        if (method, address := _as_served(route.path)) not in known
    }

    listed = {(method, _as_named(each.path)) for each in ENDPOINTS for method in each.methods}
    assert served == listed
    assert len(listed) == sum(len(each.methods) for each in ENDPOINTS)


def _as_named(path: str) -> str:
    return re.sub(r"\{(?!issuer)\w+\}", "{}", path)


def _as_served(path: str) -> str:
    """A path of the router as the list has it: `{issuer}` for a zone, also where the zone comes last."""
    path = re.sub(r"<[^>]+>", "{}", f"/{path.lstrip('/')}")
    if path.endswith("/z/{}"):
        path = f"/z/{{}}{path.removesuffix('/z/{}')}"
    return re.sub(r"^/z/\{\}/+", "{issuer}/", path)


@pytest.mark.threat("41h")
def test_all_that_a_process_remembers_is_listed(tmp_path: Path) -> None:
    """Every container that a running server leads to is in the list, and holds as many as that says."""
    with serve(tmp_path / "data") as server:
        company = company_of(server)
        zone = server.call(lambda _services: company.zone())
        server.call(lambda services: services.zones.get(zone.id))
        found = remembered(server.services, RedisState.open("redis://127.0.0.1:1"))

        listed = {each.place: each.most for each in MEMORY}
        of_modules = {place for place in listed if place.rpartition(".")[0] in service()}
        assert of_modules == {place for place in BOUNDED_MODULES if place.startswith("runtime.")}
        assert found.keys() - _FIXED == listed.keys() - of_modules
        for place, containers in found.items():
            for each in containers:
                if isinstance(each, BoundedCache):
                    assert each.limit == listed[place], place
                elif isinstance(listed.get(place), int):
                    assert len(each) <= int(listed[place]), place

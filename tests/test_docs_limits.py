"""docs/limits.md is what the code does, and nothing that can be kept or computed is missing in it."""

import ast
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from cachetools import Cache
from tests.support.factories import company_of
from tests.support.kms import ALL_KEYS
from tests.support.remembered import remembered
from tests.support.server import serve
from tests.test_caches import BOUNDED as BOUNDED_MODULES

from runtime.app import build
from runtime.contract.routes import ROUTES
from runtime.quotas import BOUNDS
from runtime.quotas.document import document
from runtime.quotas.endpoints import ENDPOINTS
from runtime.quotas.memory import MEMORY
from runtime.quotas.state import STATE
from runtime.quotas.tables import CONFIGURATION, RECORDS, Kept, unclassified
from runtime.services import rate_limits, retention
from runtime.services.container import Services
from runtime.services.zones import ZoneCache
from runtime.settings import Settings
from runtime.storage.sql.tables import METADATA
from runtime.storage.state.redis import RedisState

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
# Values of the definition of something, or fixed when it is made: nothing is added to them.
_FIXED = {
    "runtime.adapters.keys.signing.SigningKey.public_jwk",
    # Of the one that has no keys; others end with their transaction.
    "runtime.services.zone_keys.PreparedKeys.changes",
    "runtime.services.zone_keys.PreparedKeys.trials",
    # Of one statement's text; there once it has been executed.
    "runtime.storage.sql.prepared._Compiled._constants",
    "runtime.storage.sql.prepared._Compiled._parameters",
    "runtime.storage.sql.prepared._Compiled._read",
    "runtime.storage.sql.reference_cleanup._Loose.values",
    "runtime.storage.state.partitions.PartitionedEntries._bounds",
}


@cache
def service() -> Mapping[str, ast.Module]:
    """Each module of the service."""
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): ast.parse(path.read_text("utf-8"))
        for path in sorted((SOURCE / "runtime").rglob("*.py"))
    }


@cache
def code() -> Mapping[str, str]:
    """The text of each, without comments."""
    return {module: ast.unparse(tree) for module, tree in service().items()}


def test_the_page_is_written_from_the_code() -> None:
    """`make documents` writes it again."""
    assert (ROOT / "docs" / "limits.md").read_text("utf-8") == document()


def _constants() -> dict[str, rate_limits.RateLimit]:
    """Every rate limit, by its name in the module."""
    return {name: each for name, each in vars(rate_limits).items() if isinstance(each, rate_limits.RateLimit)}


def test_every_limit_is_defined_in_one_module() -> None:
    """`RateLimit(...)` stands in `rate_limits` alone, and nowhere without a name there."""
    made = {
        module: sum(getattr(getattr(node, "func", None), "id", "") == "RateLimit" for node in ast.walk(tree))
        for module, tree in service().items()
    }
    assert {module: count for module, count in made.items() if count} == {
        rate_limits.__name__: len(_constants())
    }


def test_every_limit_has_a_name_of_its_own() -> None:
    """Keys of counts begin with the name: two limits of one name would count together."""
    assert max(Counter(each.name for each in rate_limits.ALL).values()) == 1


@pytest.mark.parametrize("name", sorted(_constants()))
def test_a_limit_is_enforced_somewhere(name: str) -> None:
    """Some module other than that of the limits mentions it, or a group of limits that it is in."""
    limit = _constants()[name]
    groups = {
        group
        for group, each in vars(rate_limits).items()
        if isinstance(each, tuple) and limit in each and group != "ALL"
    }
    text = "\n".join(
        text
        for module, text in code().items()
        if module.startswith("runtime.services.") and module != rate_limits.__name__
    )
    assert any(re.search(rf"\b{each}\b", text) for each in {name, *groups})


def test_only_the_rate_limiter_counts() -> None:
    """No other module uses the counters of the shared state."""
    counting = {module for module, text in code().items() if "state.count(" in text}
    assert counting == {"runtime.services.rate_limiter"}


def test_every_limit_that_is_named_is_one() -> None:
    """A name is a limit's; anything else that bounds something is told in words."""
    names = {each.name for each in rate_limits.ALL}
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


def test_a_table_that_nobody_has_decided_about_is_found() -> None:
    """Each table is configuration, bounded, deleted by its age, or kept for ever because somebody said so."""
    assert unclassified([*METADATA.tables, "page_views"]) == {"page_views"}


def test_what_is_deleted_by_its_age_has_a_setting_and_the_rest_has_none() -> None:
    """What the list of tables says is what the retention job does."""
    assert {each.table for each in RECORDS if each.kept is Kept.RETAINED} == set(retention.SETTINGS)
    assert set(retention.SETTINGS.values()) <= set(Settings.model_fields)


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
    with serve(tmp_path / "data", zone_encryption_keys=ALL_KEYS) as server:
        company = company_of(server)
        zone = server.call(lambda _services: company.zone())

        async def made(services: Services) -> None:
            cached = await services.zones.get(zone.id)
            for each in ZoneCache.__subclasses__():
                cached.cache_of(each)

        server.call(made)
        found = remembered(server.services, RedisState.open("redis://127.0.0.1:1"))

        listed = {each.place: each.most for each in MEMORY}
        of_modules = {place for place in listed if place.rpartition(".")[0] in service()}
        assert of_modules == {place for place in BOUNDED_MODULES if place.startswith("runtime.")}
        assert found.keys() - _FIXED == listed.keys() - of_modules
        contained = [(place, each) for place, containers in found.items() for each in containers]
        caches = {(place, each.maxsize) for place, each in contained if isinstance(each, Cache)}
        assert caches == {(place, listed[place]) for place, _ in caches}
        others = [
            (place, each, listed[place])
            for place, each in contained
            if not isinstance(each, Cache) and isinstance(listed.get(place), int)
        ]
        assert not [place for place, each, most in others if len(each) > int(most)]

"""Evictions by keys and by what an application may have, of both caches of an exchange.

Each cause of the specification is a row of the table in docs/tokens.md, with the tests of each cell. A test
here repeats a request that is answered as before, and finds that the answer is made anew.
"""

import ast
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
from tests.runtime.vault.conftest import SCOPES, Account, agree, reads_of_the_vault
from tests.support.factories import App, Person
from tests.support.jumping_clock import JumpingClock, jumping
from tests.support.scene import Scene, claims_of

from runtime.domain.errors import AccessDenied
from runtime.domain.kinds import RESOURCE
from runtime.domain.kinds.resource import Resource
from runtime.services.account import withdrawal
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.container import Services
from runtime.services.issuing import token_cache
from runtime.services.management.zones import key_rotation
from runtime.services.vault import credential_cache
from runtime.storage.sql import sessions
from runtime.storage.sql.client_refs import ClientRef

ROOT = Path(__file__).parents[3]
LATER_SECONDS = 30  # by then tokens can be told from those of before a revocation


@dataclass
class Cached:
    """An application that asks for consent, and what an exchange for it has put into a cache.

    Attributes:
        latest: the `jti` of the newest token of the zone; none for a credential of the vault.
    """

    scene: Scene
    ann: Person
    app: App
    resource: Resource
    is_minted: bool
    latest: str = ""

    async def exchange(self, scope: str | None = None) -> dict[str, Any]:
        """The answer to an exchange, with a new subject token of the same session."""
        token = await self.scene.company.token(self.scene.zone, self.app, self.ann)
        return await self.scene.exchange(self.app, token, self.resource, scope)

    async def is_answered_anew(self, scope: str | None = None) -> bool:
        """Whether the next exchange takes no entry: its token has another `jti`, or the vault is read."""
        with reads_of_the_vault(self.scene) as reads:
            answer = await self.exchange(scope)
        if not self.is_minted:
            return bool(reads)
        before, self.latest = self.latest, claims_of(answer["access_token"])["jti"]
        return self.latest != before

    async def agree(self) -> None:
        """Ann lets the application use the resource."""
        await agree(self.scene, self.ann, self.resource, ClientRef(application_id=self.app.id), SCOPES)

    async def withdraw(self) -> None:
        """Ann takes back what the application may have, as on the account page."""
        services = self.scene.services
        zone = await services.zones.get(self.scene.zone.id)
        async with services.database.reading() as conn:
            session = await sessions.find(conn, self.ann.session_id, zone_id=zone.id)
        assert session is not None
        await withdrawal.application(services, zone, SignedInUser(session, self.ann.user), self.app.id)


@pytest.fixture
def clock(services: Services) -> Iterator[JumpingClock]:
    """So that nobody has to wait after a revocation."""
    with jumping(services) as moved:
        yield moved


@pytest.fixture(params=["minted", "vault"])
async def cached(request: pytest.FixtureRequest, account: Account) -> Cached:
    """A token of the zone, or a credential of the vault, that a second exchange is answered from."""
    scene, company = account.scene, account.scene.company
    if request.param == "vault":
        await account.connect()
        made = Cached(scene, account.ann, account.shy, account.resource, is_minted=False)
    else:
        resource = await company.resource(scene.zone, "https://minted.test", scopes=SCOPES)
        app = await company.app(scene.zone, "minting", dependencies=[resource], consent="required")
        made = Cached(scene, account.ann, app, resource, is_minted=True)
    await made.agree()
    assert await made.is_answered_anew()
    assert not await made.is_answered_anew()
    return made


async def test_consent_that_is_withdrawn_voids_the_entry(cached: Cached, clock: JumpingClock) -> None:
    """The exchange is refused; once the user has agreed again, it is answered with nothing of before."""
    clock.jump(LATER_SECONDS)
    assert not await cached.is_answered_anew()

    await cached.withdraw()

    with pytest.raises(AccessDenied):
        await cached.exchange()
    clock.jump(LATER_SECONDS)
    await cached.agree()
    assert await cached.is_answered_anew()


@pytest.mark.parametrize("cached", ["minted"], indirect=True)
async def test_fewer_scopes_void_a_token(cached: Cached, clock: JumpingClock) -> None:
    """Of the resource, and so of the application there: also a token is made anew that has what is left."""
    company, zone_id = cached.scene.company, cached.scene.zone.id
    assert await cached.is_answered_anew("read")
    assert not await cached.is_answered_anew("read")

    await company.update(RESOURCE, zone_id, cached.resource.id, scopes=["read"])

    assert await cached.is_answered_anew("read")
    assert (await cached.exchange())["scope"] == "read"


@pytest.mark.parametrize("cached", ["minted"], indirect=True)
async def test_a_rotated_key_voids_a_token(cached: Cached, clock: JumpingClock) -> None:
    """After a rotation at once the answer is a token that the new key has signed."""
    token = (await cached.exchange())["access_token"]

    kid = await key_rotation.rotate(cached.scene.services, cached.scene.zone.id, at_once=True)

    again = (await cached.exchange())["access_token"]
    assert jwt.get_unverified_header(token)["kid"] != kid
    assert jwt.get_unverified_header(again)["kid"] == kid


def _never_evicting(open_entry: Callable[..., Any]) -> Callable[..., Any]:
    """A cache that goes on with what it has opened once, whatever has changed."""
    opened: dict[object, Any] = {}

    def mutant(*positional: Any, **named: Any) -> Any:
        place = named["key"] if named else positional[3]
        found = open_entry(*positional, **named)
        return opened.setdefault(place, found) if found is not None else opened.get(place)

    return mutant


@pytest.mark.parametrize(
    ("check", "cached"),
    [
        (test_consent_that_is_withdrawn_voids_the_entry, "minted"),
        (test_consent_that_is_withdrawn_voids_the_entry, "vault"),
        (test_fewer_scopes_void_a_token, "minted"),
        (test_a_rotated_key_voids_a_token, "minted"),
    ],
    ids=["consent, minted", "consent, vault", "fewer scopes", "rotated key"],
    indirect=["cached"],
)
async def test_each_test_fails_where_entries_are_kept(
    cached: Cached,
    clock: JumpingClock,
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[Cached, JumpingClock], Awaitable[None]],
) -> None:
    """None of them passes because another check refuses, or because the request has become another one."""
    for cache in (token_cache, credential_cache):
        monkeypatch.setattr(cache, "open_entry", _never_evicting(cache.open_entry))

    with pytest.raises(AssertionError):
        await check(cached, clock)


def test_each_cell_of_the_table_names_a_test() -> None:
    """Four causes, two caches: each test is one that is run, and that asserts something."""
    page = (ROOT / "docs" / "tokens.md").read_text("utf-8")
    table = page.partition("<!-- evictions -->")[2].partition("<!-- /evictions -->")[0]
    _, _, *rows = [line.strip("|").split("|") for line in table.strip().splitlines()]
    cells = [re.findall(r"\[(\w+)\]\(\.\./([^)]+)\)", cell) for _, *row in rows for cell in row]
    assert (len(rows), len(cells), all(cells)) == (4, 8, True)
    named = [each for cell in cells for each in cell]
    assert [f"{path}: {name}" for name, path in named if name not in _tests(path)] == []
    assert len({each[0] for each in cells}) == len(cells)


def _tests(path: str) -> set[str]:
    """The tests of a module that assert or expect something, and that no mark leaves out."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {
        each.name
        for each in tree.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and each.name.startswith("test_")
        and not re.search(r"\.(skip|skipif|xfail)\b", " ".join(map(ast.unparse, each.decorator_list)))
        and any(isinstance(node, ast.Assert) or _expects(node) for node in ast.walk(each))
    }


def _expects(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "raises"

"""Shares of the connections: so many for one tenant, and so many for all of them."""

import ast
import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import runtime
from runtime.domain.errors import Unavailable
from runtime.storage.sql import shares
from runtime.storage.sql.shares import Share, ShareTaken, TenantShares


class Users:
    """Tasks that have taken a share and keep it until they are let go."""

    def __init__(self, of: TenantShares) -> None:
        self.of = of
        self.having: list[str] = []
        self._over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, tenant: str, times: int = 1) -> None:
        """So many more of a tenant."""
        self._tasks += [asyncio.create_task(self._use(tenant)) for _ in range(times)]

    async def _use(self, tenant: str) -> None:
        async with AsyncExitStack() as stack:
            await self.of.take(tenant, stack)
            self.having.append(tenant)
            await self._over.wait()
            self.having.remove(tenant)

    async def settle(self) -> list[str]:
        """Who has one, when all have come as far as they get."""
        for _ in range(10):
            await asyncio.sleep(0)
        return sorted(self.having)

    async def end(self) -> None:
        """Let all go, those who wait included."""
        self._over.set()
        await asyncio.gather(*self._tasks)


async def test_a_tenant_has_so_many_and_no_more():
    """The next waits for one of its own, while another tenant gets one at once."""
    users = Users(TenantShares(2, Share(8)))
    users.begin("one", 5)
    assert await users.settle() == ["one"] * 2

    users.begin("other")
    assert await users.settle() == ["one"] * 2 + ["other"]
    await users.end()
    assert users.having == []


async def test_all_tenants_have_so_many_and_no_more():
    """The rest is for what no tenant's request is."""
    users = Users(TenantShares(2, Share(5), Share(3)))
    for tenant in ("one", "two", "three"):
        users.begin(tenant, 2)
    assert len(await users.settle()) == 3
    await users.end()


async def test_nothing_is_kept_of_a_tenant_that_has_none():
    """Tenants come and go, and are many."""
    limited = TenantShares(2, Share(8))
    users = Users(limited)
    users.begin("one", 3)
    await users.settle()
    assert list(limited._of) == ["one"]
    await users.end()
    users._tasks.clear()
    assert list(limited._of) == []
    assert limited._holders == set()


async def test_who_gives_up_waiting_takes_nothing_along():
    """A caller that hangs up, before it has one: the one that is given back is the next one's."""
    limited = TenantShares(1, Share(8))
    users = Users(limited)
    users.begin("one")
    await users.settle()
    waiting = asyncio.create_task(users._use("one"))
    await users.settle()
    waiting.cancel()
    await asyncio.wait([waiting])

    await users.end()
    again = Users(limited)
    again.begin("one")
    assert await again.settle() == ["one"]
    await again.end()


async def test_one_who_waits_too_long_is_told():
    """That requests wait; of the database it says nothing."""
    limited = TenantShares(1, seconds=0.01)
    users = Users(limited)
    users.begin("one")
    await users.settle()

    with pytest.raises(ShareTaken, match="too many requests wait for the database") as told:
        async with AsyncExitStack() as stack:
            await limited.take("one", stack)
    assert isinstance(told.value, Unavailable)
    await users.end()


async def test_so_many_of_a_tenant_wait_and_no_more(monkeypatch: pytest.MonkeyPatch):
    """What each of them was sent is in memory; another tenant's wait as ever."""
    monkeypatch.setattr(shares, "MOST_WAITING", 3)
    limited = TenantShares(1, Share(1))
    users = Users(limited)
    users.begin("one", 4)
    users.begin("other")
    assert await users.settle() == ["one"]

    with pytest.raises(ShareTaken) as told:
        async with AsyncExitStack() as stack:
            await limited.take("one", stack)
    assert told.value.internal == "3 wait already"
    users.begin("other")
    await users.end()


async def test_a_task_has_one_at_a_time():
    """When each of many has one and wants another, all would wait for ever."""
    limited = TenantShares(4)
    async with AsyncExitStack() as stack:
        await limited.take("one", stack)
        with pytest.raises(RuntimeError, match="pass it on"):
            await limited.take("two", stack)
    async with AsyncExitStack() as stack:
        await limited.take("two", stack)


async def test_a_share_is_given_back_when_its_user_fails():
    """Whatever happens to it."""
    share = Share(1)

    async def use_and_fail() -> None:
        async with AsyncExitStack() as stack:
            await share.take(stack)
            raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await use_and_fail()


# Modules whose transactions are no tenant's: periodic jobs and commands, the service's own keys and records,
# notices that are delivered, the note that an address was used.
OWN_WORK = {
    "address_uses",
    "clients.unused_clients",
    "decision_log",
    "encryption_keys",
    "epochs",
    "jobs.runner",
    "management.zones.key_wrapping",
    "outbox.delivery",
    "retention",
    "revocation_list",
    "upstream_refreshes",
    "vault.refresh_ahead",
}


def untold(tree: ast.AST) -> list[int]:
    """Lines that begin a transaction without a word whose it is."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("transaction", "writing_once")
        and "tenant" not in {each.arg for each in node.keywords}
    ]


def test_each_transaction_of_a_request_says_whose_it_is():
    """One that does not could have all connections wait for a lock of one tenant."""
    services = Path(runtime.__file__).parent / "services"
    found = {
        ".".join(path.relative_to(services).with_suffix("").parts)
        for path in services.rglob("*.py")
        if untold(ast.parse(path.read_text("utf-8")))
    }
    assert found == OWN_WORK
    assert untold(ast.parse("database.transaction(tenant=None)\ndatabase.transaction(brief=True)")) == [2]

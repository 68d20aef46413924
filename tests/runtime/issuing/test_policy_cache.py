"""Policy sets are parsed in a thread, once for all who ask, in turns, and only what is new in them."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from runtime.adapters import cedar
from runtime.adapters.cedar import InvalidPolicy, PolicyRule
from runtime.domain.errors import Unavailable
from runtime.domain.policy import schema
from runtime.services.zones import policies
from runtime.services.zones.policies import Policies, PolicyCache
from runtime.storage.sql.zone_data import ActivePolicies


def permit(name: str) -> str:
    """A policy of one rule, which reads one member of the context."""
    return f'@id("{name}") permit (principal, action, resource) when {{ context has {name} }};'


def a_set(*versions: str) -> ActivePolicies:
    """A policy set of these policy versions, each named as its rule is."""
    texts = tuple((version, permit(version), None) for version in versions)
    return ActivePolicies(schema.CURRENT_VERSION, texts)


@pytest.fixture
def cache() -> Iterator[PolicyCache]:
    made = PolicyCache()
    yield made
    made.close()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is parsed, each text with the thread in which that is done."""
    seen, parse = list[tuple[str, str]](), cedar.parse_rules

    def noted(text: str) -> tuple[PolicyRule, ...]:
        seen.append((text, threading.current_thread().name))
        return parse(text)

    monkeypatch.setattr(cedar, "parse_rules", noted)
    return seen


def names(made: Policies) -> list[str]:
    """Which members of the context each rule reads."""
    return [name for each in made.reads for name in each.names or ["everything"]]


async def test_all_who_ask_meanwhile_wait_for_one_parsing_in_a_thread(
    cache: PolicyCache, parsed: list[tuple[str, str]]
) -> None:
    """The event loop answers others."""
    asked = [cache.compiled(a_set("a", "b"), zone_id="z", tenant="o") for _ in range(5)]
    first, *others = await asyncio.gather(*asked)

    assert [each is first for each in others] == [True] * 4
    assert names(first) == ["a", "b"]
    assert [text for text, _ in parsed] == [permit("a"), permit("b")]
    assert {thread.split("_")[0] for _, thread in parsed} == {"policies"}


async def test_of_a_set_that_is_changed_the_new_policy_is_parsed(
    cache: PolicyCache, parsed: list[tuple[str, str]]
) -> None:
    """And it decides as one does of which everything is parsed."""
    await cache.compiled(a_set("a", "b"), zone_id="z", tenant="o")
    parsed.clear()
    changed = await cache.compiled(a_set("c", "b"), zone_id="z", tenant="o")

    assert [text for text, _ in parsed] == [permit("c")]
    anew = await cache.compiled(a_set("c", "b"), zone_id="another", tenant="o")
    assert anew is changed, "the same versions are the same policies"
    assert names(changed) == ["c", "b"]
    assert len(changed.compiled) == 2
    assert [*changed.rules] == ["c", "b"], "what was in it before is not kept"


async def test_a_users_set_is_read_and_parsed_once(cache: PolicyCache, parsed: list[tuple[str, str]]) -> None:
    """However many requests come at once; one that is gone is none."""
    reads = 0

    async def read() -> ActivePolicies:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0)
        return a_set("a")

    async def gone() -> None:
        return None

    found = await asyncio.gather(*(cache.of_set_version("s", read, tenant="o") for _ in range(5)))
    assert (reads, len(parsed), len(set(map(id, found)))) == (1, 1, 1)
    assert await cache.of_set_version("t", gone, tenant="o") is None


async def test_organizations_take_turns(cache: PolicyCache, parsed: list[tuple[str, str]]) -> None:
    """Nobody's policies wait for all of somebody else's."""
    many = [cache.compiled(a_set(f"m{n}"), zone_id=f"z{n}", tenant="many") for n in range(20)]
    flood = [asyncio.create_task(each) for each in many]
    await asyncio.sleep(0)
    await cache.compiled(a_set("one"), zone_id="z", tenant="one")
    place = [text for text, _ in parsed].index(permit("one"))
    await asyncio.gather(*flood)

    assert place <= 2
    assert len(parsed) == 21


async def test_more_than_can_be_done_soon_is_refused(
    monkeypatch: pytest.MonkeyPatch, parsed: list[tuple[str, str]]
) -> None:
    """Of that organization."""
    monkeypatch.setattr(policies, "MAX_WAITING", 3)
    cache = PolicyCache()
    asked = [cache.compiled(a_set(f"m{n}"), zone_id=f"z{n}", tenant="many") for n in range(5)]
    *outcomes, other = await asyncio.gather(
        *asked, cache.compiled(a_set("one"), zone_id="z", tenant="one"), return_exceptions=True
    )
    assert [isinstance(each, Unavailable) for each in outcomes] == [False] * 3 + [True] * 2
    assert isinstance(other, Policies)
    again = await cache.compiled(a_set("m4"), zone_id="z4", tenant="many")
    assert names(again) == ["m4"]
    cache.close()


async def test_a_set_that_cannot_be_read_holds_up_no_other(cache: PolicyCache) -> None:
    """It is refused each time."""
    broken = ActivePolicies(schema.CURRENT_VERSION, (("v", "permit (", None),))
    asked = [cache.compiled(broken, zone_id="z", tenant="o") for _ in range(3)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)

    assert [type(each) for each in outcomes] == [InvalidPolicy] * 3
    assert names(await cache.compiled(a_set("a"), zone_id="z", tenant="o")) == ["a"]

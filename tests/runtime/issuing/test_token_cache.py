"""Exchanged tokens are given out again, and never to anyone they were not made for."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.factories import App, Person
from tests.support.scene import Scene, acting, claims_of
from tests.support.state_doubles import with_state

from runtime.adapters.keys.sealing import Sealer, new_data_key
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.attenuation import Delegation
from runtime.domain.oauth.claims import ChainActor
from runtime.services import rate_limits
from runtime.services.issuing import token_cache
from runtime.services.issuing.token_cache import CachedToken, OpenedTokens
from runtime.services.zones import ChangeHistory
from runtime.storage.state import StateStore
from runtime.storage.state.memory import InProcessState


@pytest.fixture
def shared_state() -> InProcessState:
    """A state that does as one that other processes write to."""
    state = InProcessState()
    state.version = None
    return state


@pytest.fixture(scope="module")
async def api(scene: Scene) -> Resource:
    return await scene.company.resource(scene.zone, "https://api.test", scopes=["read", "write"])


@pytest.fixture(scope="module")
async def other(scene: Scene, api: Resource) -> App:
    return await scene.company.app(scene.zone, "other", dependencies=[api])


@pytest.mark.threat("17a", "17b", "17c")
@pytest.mark.deviation("cache-key")
async def test_tokens_are_not_shared_between_applications(
    scene: Scene, agent: App, other: App, api: Resource, ann: Person
) -> None:
    """Two applications that ask for the same user, resource and scopes get two tokens, each its own."""
    mine = await scene.company.token(scene.zone, agent, ann)
    theirs = await scene.company.token(scene.zone, other, ann)

    first = (await scene.exchange(agent, mine, api, "read write"))["access_token"]
    again = (await scene.exchange(agent, mine, api, "write read"))["access_token"]
    second = (await scene.exchange(other, theirs, api, "read write"))["access_token"]

    assert first == again
    assert first != second
    assert claims_of(first)["client_id"] == agent.client_id
    assert claims_of(second)["client_id"] == other.client_id
    assert acting(claims_of(second)) == ("other",)


@pytest.mark.threat("17c", "17e")
async def test_tokens_are_not_shared_between_sessions_chains_and_scopes(
    scene: Scene, agent: App, api: Resource, ann: Person
) -> None:
    """Another session, another chain of actors, other scopes: another token."""
    subject = await scene.company.token(scene.zone, agent, ann)
    elsewhere = await scene.company.signed_in(scene.zone, ann.user)
    chained = await scene.company.token(scene.zone, agent, ann, actors=("other",))

    tokens = [
        (await scene.exchange(agent, subject, api, "read"))["access_token"],
        (await scene.exchange(agent, subject, api, "write"))["access_token"],
        (await scene.exchange(agent, subject, api))["access_token"],
        (await scene.exchange(agent, chained, api, "read"))["access_token"],
        (await scene.exchange(agent, await scene.company.token(scene.zone, agent, elsewhere), api, "read"))[
            "access_token"
        ],
    ]

    assert len(set(tokens)) == len(tokens)


@pytest.mark.threat("17e")
async def test_key_holds_everything_a_token_depends_on() -> None:
    """Changing any one of the facts changes the key; the order of scopes does not."""

    def key_of(*, scopes: frozenset[str] | None, **facts: Any) -> str:
        return token_cache.entry_key(token_cache.key_prefix(**facts), scopes)

    facts: dict[str, Any] = {
        "zone_id": "z",
        "issuer": "i",
        "principal": "u",
        "resource": "r",
        "scopes": frozenset({"a", "b"}),
        "client_id": "c",
        "actors": (ChainActor("x", "i", "c", "service"),),
        "session_id": "s",
        "confirmation": None,
    }
    changes = {
        "zone_id": "z2",
        "issuer": "j",
        "principal": "u2",
        "resource": "r2",
        "scopes": frozenset({"a"}),
        "client_id": "c2",
        "actors": (ChainActor("x", "i", "c", "service"), ChainActor("y")),
        "session_id": "s2",
        "confirmation": {"jkt": "k"},
    }
    keys = [key_of(**facts)]
    keys += [key_of(**(facts | {name: value})) for name, value in changes.items()]

    others = [ChainActor("x", "i", "c"), ChainActor("x", "i", "d", "service"), ChainActor("x")]
    keys += [key_of(**(facts | {"actors": (other,)})) for other in others]
    keys += [key_of(**(facts | {"scopes": scopes})) for scopes in (None, frozenset())]

    assert len(set(keys)) == len(keys)
    assert key_of(**(facts | {"scopes": frozenset({"b", "a"})})) == keys[0]


@pytest.mark.threat("17f", "17g")
async def test_entries_are_sealed_and_bound_to_their_key(
    scene: Scene, agent: App, other: App, api: Resource, ann: Person
) -> None:
    """What lies in the short-lived state is ciphertext; swapped entries open for nobody."""
    recorded = _Recording(scene.services.state)
    services = scene.services.__class__(**{**scene.services.__dict__, "state": recorded})
    subjects = {
        app: await scene.company.token(scene.zone, app, await scene.company.signed_in(scene.zone, ann.user))
        for app in (agent, other)
    }
    tokens = {
        app: (await scene.exchange(app, subject, api, "read", services=services))["access_token"]
        for app, subject in subjects.items()
    }
    (first, first_value), (second, second_value) = recorded.kept.items()
    assert not [token for token in tokens.values() if token.encode() in first_value + second_value]
    assert not [
        token for token in tokens.values() if token.split(".")[2].encode() in first_value + second_value
    ]

    await scene.services.state.put(first, second_value, ttl_seconds=60)
    await scene.services.state.put(second, first_value, ttl_seconds=60)

    elsewhere = with_state(scene.services, scene.services.state)  # which remembers none of these requests
    again = {
        app: (await scene.exchange(app, subject, api, "read", services=elsewhere))["access_token"]
        for app, subject in subjects.items()
    }
    await elsewhere.epochs.close()
    assert [claims_of(answer)["client_id"] for answer in again.values()] == [app.client_id for app in again]
    assert not {*again.values()} & {*tokens.values()}


NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENTRY = CachedToken("t", "t1", int(NOW.timestamp()) + 300, frozenset({"a"}), (1, 1, 1))
PLAN = Delegation("https://api.test", frozenset({"a"}), (), NOW + timedelta(seconds=300), None)
LATER = PLAN._replace(expires_at=NOW + timedelta(seconds=541))
SEALER = Sealer(new_data_key())
OPENED = OpenedTokens(ChangeHistory(1))


@pytest.mark.parametrize(
    ("change", "opens"),
    [
        ({}, True),
        ({"now": NOW + timedelta(seconds=239)}, True),
        ({"now": NOW + timedelta(seconds=241), "plan": LATER}, False),
        ({"now": NOW + timedelta(seconds=241)}, True),
        ({"now": NOW + timedelta(seconds=299)}, True),
        ({"now": NOW + timedelta(seconds=301)}, False),
        ({"epochs": (1, 2, 1)}, False),
        ({"epochs": (1, 1, 2)}, False),
        ({"epochs": (3, 1, 1)}, True),
        ({"epochs": (3, 1, 1), "changed_at": 2}, False),
        ({"epochs": (0, 1, 1), "changed_at": 0}, False),
        ({"plan": PLAN._replace(scopes=frozenset({"a", "b"}))}, False),
        ({"plan": PLAN._replace(scopes=frozenset())}, False),
        ({"plan": PLAN._replace(expires_at=NOW + timedelta(seconds=301))}, True),
        ({"plan": PLAN._replace(expires_at=NOW + timedelta(seconds=299))}, False),
        ({"key": "other"}, False),
        ({"sealer": Sealer(new_data_key())}, False),
    ],
    ids=[
        "the same",
        "61 seconds left",
        "59 seconds left, and more for another",
        "59 seconds left, and no more for another",
        "1 second left, and no more for another",
        "none left",
        "another epoch of the session",
        "another epoch of the user",
        "the zone changed in something else",
        "the zone changed in what it depends on",
        "made by a process that is ahead",
        "more scopes",
        "fewer scopes",
        "may last longer",
        "must end sooner",
        "another key",
        "another seal",
    ],
)
@pytest.mark.deviation("cache-lifetime")
async def test_an_entry_is_given_out_for_what_it_was_made_for(
    shared_state: InProcessState, change: dict[str, Any], opens: bool
) -> None:
    """Under the same epochs, with just the scopes, within the time there is, and not about to end."""
    await token_cache.store(shared_state, ENTRY, key="k", sealer=SEALER, opened=OPENED, now=NOW)
    same = {"key": "k", "sealer": SEALER, "opened": OpenedTokens(ChangeHistory(1)), "epochs": (1, 1, 1)}
    asked = same | {"plan": PLAN, "now": NOW, "changed_at": 1} | change

    opened = token_cache.open_entry(await shared_state.get("k"), **asked)

    assert opened == (ENTRY if opens else None)


@pytest.mark.parametrize(("left", "opens"), [(60, True), (31, True), (29, False)])
async def test_a_token_of_a_minute_is_given_out_for_the_first_half_of_it(
    shared_state: InProcessState, left: int, opens: bool
) -> None:
    """Then another one is made, which has the whole minute: each request would make one otherwise."""
    ends = NOW + timedelta(seconds=60)
    entry = ENTRY._replace(expires_at=int(ends.timestamp()))
    await token_cache.store(shared_state, entry, key="k", sealer=SEALER, opened=OPENED, now=NOW)
    now = ends - timedelta(seconds=left)
    plan = PLAN._replace(expires_at=now + timedelta(seconds=60))

    opened = token_cache.open_entry(
        await shared_state.get("k"),
        key="k",
        sealer=SEALER,
        opened=OpenedTokens(ChangeHistory(1)),
        epochs=(1, 1, 1),
        changed_at=1,
        plan=plan,
        now=now,
    )

    assert opened == (entry if opens else None)


async def test_what_was_opened_counts_for_the_same_bytes_at_the_same_place_alone(
    shared_state: InProcessState,
) -> None:
    """Those are not opened twice; other bytes under the key, and the same under another key, are."""
    await token_cache.store(shared_state, ENTRY, key="k", sealer=SEALER, opened=OPENED, now=NOW)
    sealed = await shared_state.get("k")
    await token_cache.store(
        shared_state, ENTRY._replace(token="other"), key="k", sealer=SEALER, opened=OPENED, now=NOW
    )
    replaced = await shared_state.get("k")
    opened, another = OpenedTokens(ChangeHistory(1)), Sealer(new_data_key())
    assert sealed is not None
    assert opened.open(sealed, "k", SEALER) == ENTRY

    assert opened.open(bytes(bytearray(sealed)), "k", another) == ENTRY  # nothing was opened
    assert opened.open(replaced, "k", another) is None
    assert opened.open(sealed, "elsewhere", SEALER) is None
    assert opened.open(None, "k", SEALER) is None
    found = opened.open(replaced, "k", SEALER)
    assert found is not None
    assert found.token == "other"


async def test_a_token_that_nobody_else_reads_is_kept_as_it_is(memory_state: StateStore) -> None:
    """Under the same rules; an entry that others could write does not stand for it."""
    opened = OpenedTokens(ChangeHistory(1))
    same = {
        "key": "k",
        "sealer": SEALER,
        "opened": opened,
        "epochs": (1, 1, 1),
        "changed_at": 1,
        "plan": PLAN,
    }
    await token_cache.store(memory_state, ENTRY, key="k", sealer=SEALER, opened=opened, now=NOW)

    assert await memory_state.get("k") is None
    assert token_cache.open_entry(None, **same, now=NOW) == ENTRY
    assert token_cache.open_entry(None, **(same | {"key": "elsewhere"}), now=NOW) is None
    assert token_cache.open_entry(None, **(same | {"changed_at": 2}), now=NOW) is None
    longer = same | {"plan": PLAN._replace(expires_at=NOW + timedelta(seconds=900))}
    assert token_cache.open_entry(None, **longer, now=NOW + timedelta(seconds=239)) == ENTRY
    assert token_cache.open_entry(None, **longer, now=NOW + timedelta(seconds=241)) is None
    assert token_cache.open_entry(b"an entry", **same, now=NOW) is None


async def test_what_others_read_is_kept_for_minutes() -> None:
    """However long the token lives: it takes room of everybody's."""
    now_or_later = [0.0]
    state = InProcessState(clock=lambda: now_or_later[0])
    state.version = None
    entry = ENTRY._replace(expires_at=int((NOW + timedelta(days=1)).timestamp()))
    await token_cache.store(state, entry, key="k", sealer=SEALER, opened=OPENED, now=NOW)

    now_or_later[0] = token_cache.LONGEST_SECONDS - 1
    assert await state.get("k") is not None
    now_or_later[0] = token_cache.LONGEST_SECONDS
    assert await state.get("k") is None


@pytest.mark.threat("41h")
async def test_an_organization_keeps_so_many_tokens_and_no_more(
    scene: Scene, agent: App, api: Resource, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One client asks for other scopes each time: what is beyond the limit is issued, and not kept."""
    state = InProcessState()
    state.version = None
    services = with_state(scene.services, state)
    subject = await scene.company.token(scene.zone, agent, ann)
    limit = replace(rate_limits.CACHED_TOKENS, name="of this test", amount=1)
    monkeypatch.setattr(rate_limits, "CACHED_TOKENS", limit)

    def kept() -> int:
        return sum(key.startswith("token:") for key, _ in state._cached.items())

    assert await scene.exchange(agent, subject, api, "read", services=services)
    assert kept() == 1
    assert await scene.exchange(agent, subject, api, "read write", services=services)
    assert kept() == 1


async def test_the_shortest_tokens_are_cached(scene: Scene, agent: App, ann: Person) -> None:
    """A resource whose tokens live for a minute has the same one given out again."""
    brief = await scene.company.resource(
        scene.zone, "https://brief.test", scopes=["read"], credential_lifetime_seconds=60
    )
    app = await scene.company.app(scene.zone, "hasty", dependencies=[brief])
    subject = await scene.company.token(scene.zone, app, ann)

    first, again = [await scene.exchange(app, subject, brief, "read") for _ in range(2)]

    assert first["expires_in"] <= 60
    assert again["access_token"] == first["access_token"]


class _Recording(InProcessState):
    """A state that notes which tokens are kept in it, and keeps them in another."""

    def __init__(self, inner: StateStore) -> None:
        super().__init__()
        self.inner = inner
        self.version = None
        self.kept: dict[str, bytes] = {}

    async def put(self, key: str, value: bytes, *, ttl_seconds: int) -> None:
        if key.startswith("token:"):
            self.kept[key] = value
        await self.inner.put(key, value, ttl_seconds=ttl_seconds)

"""Client authentication by secret (RFC 6749, section 2.3), and the throttling of guesses."""

import base64
from dataclasses import replace
from typing import Any
from urllib.parse import quote_plus

import pytest
from sqlalchemy import event
from tests.support.factories import App
from tests.support.rewired import with_limits_on
from tests.support.scene import Scene, claims_of
from tests.support.state_doubles import Away
from tests.support.throttling import share_a_counter

from runtime.adapters.keys.sealing import SecretHasher, new_secret
from runtime.domain.errors import (
    InvalidClient,
    InvalidRequest,
    TooManyRequests,
    UnauthorizedClient,
    UnsupportedGrantType,
)
from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, PROVIDER, USER
from runtime.services.clients import basic_credentials
from runtime.services.rate_limits import MAX_SECRET_GUESSES
from runtime.services.zone_settings import set_zone_setting

FORM = [("grant_type", "client_credentials")]


@pytest.fixture(scope="module")
async def agent(scene: Scene) -> App:
    return await scene.company.app(scene.zone, "agent")


def basic(client_id: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()


async def test_secret_in_body_or_header(scene: Scene, agent: App) -> None:
    """Both ways are accepted, each by itself."""
    assert agent.secret
    in_body = await scene.post([*FORM, *agent.form.items()])
    in_header = await scene.post(FORM, authorization=basic(agent.client_id, agent.secret))
    also_named = await scene.post(
        [*FORM, ("client_id", agent.client_id)], authorization=basic(agent.client_id, agent.secret)
    )

    assert {
        claims_of(answer["access_token"])["client_id"] for answer in (in_body, in_header, also_named)
    } == {agent.client_id}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a:b", [("a", "b")]),
        ("a:b:c", [("a", "b:c")]),
        (f"{quote_plus('ua:x y')}:{quote_plus('p%/+')}", [("ua:x y", "p%/+"), ("ua%3Ax+y", "p%25%2F%2B")]),
        ("a:p+q", [("a", "p q"), ("a", "p+q")]),
    ],
)
def test_basic_is_read_both_ways(written: str, expected: list[tuple[str, str]]) -> None:
    """Form-decoded as OAuth has it, then as it stands, because many clients leave the encoding out."""
    assert basic_credentials("Basic " + base64.b64encode(written.encode()).decode()) == expected


@pytest.mark.parametrize("header", ["Basic !", "Basic YQ==", "Bearer abc", "Basic \xff", "Basic"])
def test_an_unreadable_header_fails_authentication(header: str) -> None:
    """A header that cannot be read fails authentication, with a challenge."""
    with pytest.raises(InvalidClient) as refusal:
        basic_credentials(header)
    assert refusal.value.basic


async def test_two_mechanisms_are_an_invalid_request(scene: Scene, agent: App) -> None:
    """Header and body together, or a body that names another client than the header."""
    assert agent.secret
    header = basic(agent.client_id, agent.secret)
    assert await scene.post(FORM, authorization=header)

    with pytest.raises(InvalidRequest):
        await scene.post([*FORM, *agent.form.items()], authorization=header)
    with pytest.raises(InvalidRequest):
        await scene.post([*FORM, ("client_id", "someone-else")], authorization=header)


@pytest.mark.parametrize("method", ["body", "header"])
async def test_wrong_secret_and_unknown_client_look_alike(scene: Scene, agent: App, method: str) -> None:
    """Nobody learns from a refusal which clients exist."""
    details = set()
    for client_id in (agent.client_id, "nobody"):
        in_body = [("client_id", client_id), ("client_secret", "wrong")] if method == "body" else []
        header = None if in_body else basic(client_id, "wrong")
        with pytest.raises(InvalidClient) as refusal:
            await scene.post([*FORM, *in_body], authorization=header)
        details.add((refusal.value.detail, refusal.value.basic))
    assert len(details) == 1


async def test_a_missing_secret_fails_authentication(scene: Scene, agent: App) -> None:
    """A client that has a secret must show it."""
    with pytest.raises(InvalidClient):
        await scene.post([*FORM, ("client_id", agent.client_id)])
    with pytest.raises(InvalidClient):
        await scene.post(FORM, authorization=basic(agent.client_id, ""))
    with pytest.raises(InvalidClient):
        await scene.post(FORM)


async def test_what_is_registered_for_assertions_takes_no_secret(scene: Scene, agent: App) -> None:
    """With a secret of whomever, or with none, it is nobody."""
    company, zone = scene.company, scene.zone
    assert await scene.post([*FORM, *agent.form.items()])
    provider = await company.create(
        PROVIDER, zone.id, name="CI", identifier="https://ci.example", client_id="zone"
    )
    owner = agent.application.id
    made = [
        await company.create(APPLICATION_CREDENTIAL, zone.id, application_id=owner, **members)
        for members in (
            {"type": "token", "provider_id": provider.id, "subject": "workload"},
            {"type": "token", "provider_id": provider.id, "any_subject": True},
            {"type": "public-key", "identifier": "signer", "jwks_uri": "https://agent.example/keys"},
            {"type": "url", "identifier": "https://agent.example/client"},
        )
    ]
    assert [each.identifier for each in made] == ["workload", "*", "signer", "https://agent.example/client"]

    for each in made:
        with pytest.raises(InvalidClient):
            await scene.post([*FORM, ("client_id", each.identifier)])
        with pytest.raises(InvalidClient):
            await scene.post([*FORM, ("client_id", each.identifier), ("client_secret", agent.secret or "")])
        with pytest.raises(InvalidClient):
            await scene.post(FORM, authorization=basic(each.identifier, agent.secret or ""))


async def test_a_workload_and_a_client_of_one_name(scene: Scene, agent: App) -> None:
    """A subject that is also a client id neither hides the client nor lends it anything."""
    company, zone = scene.company, scene.zone
    provider = await company.create(PROVIDER, zone.id, name="CI 2", identifier="https://ci2.example")
    await company.create(
        APPLICATION_CREDENTIAL,
        zone.id,
        application_id=(await company.app(zone, "workload-owner")).application.id,
        type="token",
        provider_id=provider.id,
        subject=agent.client_id,
    )

    answer = await scene.post([*FORM, *agent.form.items()])
    assert claims_of(answer["access_token"])["client_id"] == agent.client_id


async def test_public_client_has_no_authority_of_its_own(scene: Scene) -> None:
    """It is known without a secret, may not bring one, and gets no token for itself."""
    browser = await scene.company.app(scene.zone, "browser", public=True)

    with pytest.raises(UnauthorizedClient):
        await scene.post([*FORM, *browser.form.items()])
    with pytest.raises(UnauthorizedClient):  # an empty secret is none, in the header too
        await scene.post(FORM, authorization=basic(browser.client_id, ""))
    with pytest.raises(InvalidClient):
        await scene.post([*FORM, *browser.form.items(), ("client_secret", "guess")])


@pytest.mark.parametrize(
    "grant_type", ["password", "implicit", "urn:ietf:params:oauth:grant-type:device_code"]
)
async def test_an_unserved_grant_type_is_told_to_authenticated_clients(
    scene: Scene, agent: App, grant_type: str
) -> None:
    """An authenticated client is told that the grant type is not served."""
    with pytest.raises(UnsupportedGrantType):
        await scene.post([("grant_type", grant_type), *agent.form.items()])


async def test_a_grant_type_is_required(scene: Scene, agent: App) -> None:
    """An authenticated client that names none is told so."""
    with pytest.raises(InvalidRequest):
        await scene.post(list(agent.form.items()))


# At full size where a failure costs no trip; with Redis as many as show the same.
GUESSES = {"embedded": 10_000, "networked": 500}


@pytest.fixture
def storage(storage_settings: dict[str, Any]) -> str:
    return "networked" if storage_settings["redis_url"] else "embedded"


@pytest.mark.threat("25a", "25b")
async def test_guessing_is_slowed_for_that_client_and_address_alone(scene: Scene, storage: str) -> None:
    """Of ten thousand guesses a few are looked at; the right secret works from anywhere else at once."""
    victim = await scene.company.app(scene.zone, "victim")
    wrong = replace(victim, secret="wrong")
    now = scene.services.clock()
    services = replace(scene.services, clock=lambda: now)  # within one window, however slow the machine
    for _ in range(MAX_SECRET_GUESSES):
        with pytest.raises(InvalidClient):
            await scene.post([*FORM, *wrong.form.items()], address="203.0.113.9", services=services)

    for _ in range(GUESSES[storage] - MAX_SECRET_GUESSES):
        with pytest.raises(TooManyRequests):
            await scene.post([*FORM, *wrong.form.items()], address="203.0.113.9", services=services)
    with pytest.raises(TooManyRequests) as refusal:
        await scene.post([*FORM, *victim.form.items()], address="203.0.113.9", services=services)
    assert 1 <= refusal.value.retry_after_seconds <= 61
    assert await scene.post([*FORM, *victim.form.items()], address="198.51.100.7", services=services)
    other = await scene.company.app(scene.zone, "bystander")
    while share_a_counter(other.client_id, victim.client_id):
        other = await scene.company.app(scene.zone, f"{other.client_id}-too")
    assert await scene.post([*FORM, *other.form.items()], address="203.0.113.9", services=services)


async def test_guessing_is_slowed_while_nothing_can_be_counted_together(scene: Scene) -> None:
    """Where the state is away, or takes no writes, each process counts for itself."""
    victim = await scene.company.app(scene.zone, "lonely victim")
    wrong = replace(victim, secret="wrong")
    now = scene.services.clock()
    services = replace(with_limits_on(scene.services, Away()), clock=lambda: now)
    assert await scene.post([*FORM, *victim.form.items()], address="203.0.113.8", services=services)
    for _ in range(MAX_SECRET_GUESSES):
        with pytest.raises(InvalidClient):
            await scene.post([*FORM, *wrong.form.items()], address="203.0.113.8", services=services)

    with pytest.raises(TooManyRequests):
        await scene.post([*FORM, *wrong.form.items()], address="203.0.113.8", services=services)
    assert await scene.post([*FORM, *victim.form.items()], address="198.51.100.8", services=services)


@pytest.mark.threat("25c")
async def test_refusals_of_known_and_unknown_clients_are_the_same_work(
    own_scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of a refusal does not tell whether there is such a client: the same digests and statements.

    Nor whether one is suspended, to whom does not have its secret.
    """
    scene = own_scene
    known = await scene.company.app(scene.zone, "timed")
    suspended = await scene.company.app(scene.zone, "timed-suspended")
    olga = await scene.company.user(scene.zone, "olga@acme.test")
    await scene.company.update(APPLICATION, scene.zone.id, suspended.id, accountable_user_id=olga.id)
    await set_zone_setting(scene.services, scene.zone.id, "require-active-accountable", "on")
    await scene.company.update(USER, scene.zone.id, olga.id, status="disabled")
    assert await scene.post([*FORM, *known.form.items()])
    with pytest.raises(InvalidClient):
        await scene.post([*FORM, *suspended.form.items()])
    work: list[str] = []
    hashed, are_same = SecretHasher.hash, SecretHasher.are_same
    engine = scene.services.database.engine.sync_engine

    def digested(hasher: SecretHasher, secret: str) -> bytes:
        work.append("a digest")
        return hashed(hasher, secret)

    def compared(one: bytes, other: bytes) -> bool:
        work.append(f"a comparison with {len(other)} bytes")
        return are_same(one, other)

    def asked(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if "FROM application" in statement:  # tables of clients: others write what was refused before
            work.append(statement)

    async def refusal(client_id: str, address: str) -> list[str]:
        work.clear()
        with pytest.raises(InvalidClient):
            await scene.post([*FORM, ("client_id", client_id), ("client_secret", "wrong")], address=address)
        return sorted(work)

    monkeypatch.setattr(SecretHasher, "hash", digested)
    monkeypatch.setattr(SecretHasher, "are_same", staticmethod(compared))
    event.listen(engine, "before_cursor_execute", asked)
    try:
        costs = [
            [await refusal(client_id, f"10.25.0.{number}") for number in range(20)]
            for client_id in (known.client_id, "timed-nobody", suspended.client_id)
        ]
    finally:
        event.remove(engine, "before_cursor_execute", asked)
    assert costs[0] == costs[1] == costs[2]
    assert all(each.count("a digest") == 1 for each in costs[0])
    assert all(each.count("a comparison with 32 bytes") == 2 for each in costs[0])


@pytest.mark.parametrize(
    ("client_id", "told"),
    [
        ("agnt", "unknown client id `agnt`"),
        ("agnt\x07\u2028", "unknown client id `agnt??`"),
        ("a" * 300, f"unknown client id `{'a' * 200}`"),
        (new_secret(), "unknown client id, which looks like a client secret and is not shown"),
    ],
    ids=["plain", "unprintable", "long", "secret"],
)
async def test_the_record_says_which_client_id_is_unknown(scene: Scene, client_id: str, told: str) -> None:
    """The administrator's alone: the answer is the same for all. What was mistaken for an id stays secret."""
    with pytest.raises(InvalidClient) as refusal:
        await scene.post([*FORM, ("client_id", client_id), ("client_secret", "wrong")])

    assert refusal.value.internal == told
    assert client_id not in refusal.value.detail

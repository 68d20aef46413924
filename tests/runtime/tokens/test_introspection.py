"""Introspection: for the audience of a token, and for nobody else."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest
from sqlalchemy import event, select
from tests.runtime.tokens.conftest import Chain, as_client_session, ask, granted
from tests.support.factories import App, opened_parts
from tests.support.scene import Scene, acting, claims_of
from tests.support.state_doubles import Away, Counting, with_state

from runtime.domain.errors import InvalidClient, InvalidGrant, InvalidRequest
from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, DELEGATED_GRANT, RESOURCE
from runtime.domain.oauth.claims import AccessTokenFacts, ChainActor
from runtime.domain.oauth.entity_profiles import EntityProfile
from runtime.services import epochs
from runtime.services.container import Services
from runtime.services.issuing.access_tokens import issue_access_token, issue_id_token, new_token_id
from runtime.storage.sql import consents
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.tables import token_events

INACTIVE = {"active": False}


def facts(chain: Chain, issuer: str, **more: Any) -> AccessTokenFacts:
    """What the chain's API would be told by a token from sign-in, changed as a test wants it."""
    now = chain.scene.services.clock()
    told: dict[str, Any] = {
        "issuer": issuer,
        "subject": chain.person.user.identifier,
        "subject_profile": EntityProfile.USER,
        "audience": chain.api.identifier,
        "client_id": chain.agent.client_id,
        "scopes": frozenset({"read"}),
        "issued_at": now,
        "expires_at": now + timedelta(minutes=10),
        "token_id": new_token_id(),
        "session_id": chain.person.session_id,
        "authenticated_at": now - timedelta(hours=1),
        "acr": "urn:acr:gold",
        "actors": (),
    }
    return AccessTokenFacts(**{**told, **more})


@pytest.mark.standard("RFC 7662")
async def test_answer_is_what_the_token_says(shared_chain: Chain) -> None:
    """Every claim of the token, and no other: `act`, `cnf` and the rest included."""
    chain = shared_chain
    zone = await chain.scene.services.zones.get(chain.zone_id)
    own = await chain.scene.post(
        [("grant_type", "client_credentials"), ("resource", chain.api.identifier), *chain.agent.form.items()]
    )
    bound = facts(chain, zone.issuer, confirmation={"jkt": "thumbprint"}, extra={"may_act": {"sub": "a"}})
    told, known = [], []
    for token, token_type in (
        (chain.tokens[2], "Bearer"),
        (own["access_token"], "Bearer"),
        (issue_access_token(zone, facts(chain, zone.issuer)), "Bearer"),
        (issue_access_token(zone, bound), "DPoP"),
    ):
        told.append(await ask(chain.scene, chain.provider, token))
        known.append({"active": True, "token_type": token_type, **claims_of(token)})

    assert told == known
    assert acting(await chain.introspect()) == ("tool-server", "agent")


@pytest.fixture(scope="module")
async def made(shared_chain: Chain) -> dict[str, str]:
    """A token that is good, and others that are not, by what is wrong with them."""
    chain = shared_chain
    services = chain.scene.services
    zone = await services.zones.get(chain.zone_id)
    other = await services.zones.get((await chain.company.zone("Elsewhere")).id)
    good = issue_access_token(zone, facts(chain, zone.issuer))
    early = services.clock() - timedelta(hours=2)
    id_token = issue_id_token(
        zone,
        subject=chain.person.user.identifier,
        client_id=chain.agent.client_id,
        session_id=chain.person.session_id,
        access_token=None,
        nonce=None,
        authenticated_at=None,
        acr=None,
        now=services.clock(),
        expires_at=services.clock() + timedelta(minutes=5),
    )
    header, payload, signature = good.split(".")
    return {
        "good": good,
        "expired": issue_access_token(
            zone, facts(chain, zone.issuer, issued_at=early, expires_at=early + timedelta(hours=1))
        ),
        "another zone": issue_access_token(other, facts(chain, other.issuer)),
        "ID token": id_token,
        "other signature": f"{header}.{payload}.{signature[:-4]}AAAA",
        "algorithm none": f"eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0.{payload}.",
        "no token": "nothing",
        "dots": "a.b.c",
        "newline": good + "\n",
        "long": "a" * 20_000 + ".b.c",
        "not text": "\udcff.\udcff.\udcff".encode("utf-8", "surrogatepass").decode("latin-1"),
        "refresh token": "unknown.secret",
        "the zone's own": chain.tokens[0],
        "prefix": issue_access_token(zone, facts(chain, zone.issuer, audience="https://api.test/deeper")),
        "gone client": issue_access_token(zone, facts(chain, zone.issuer, client_id="gone")),
        "gone actor": issue_access_token(zone, facts(chain, zone.issuer, actors=(ChainActor("gone"),))),
        "gone session": issue_access_token(zone, facts(chain, zone.issuer, session_id="gone")),
        "other subject": issue_access_token(zone, facts(chain, zone.issuer, subject="somebody")),
    }


async def test_a_hint_of_another_type_does_not_matter(shared_chain: Chain, made: dict[str, str]) -> None:
    """The token that the tests below spoil is active, also with a wrong `token_type_hint`."""
    told = await ask(shared_chain.scene, shared_chain.provider, made["good"], token_type_hint="refresh_token")

    assert told["active"]


INACTIVE_TOKENS = [
    "expired",
    "another zone",
    "ID token",
    "other signature",
    "algorithm none",
    "no token",
    "dots",
    "newline",
    "long",
    "not text",
    "refresh token",
    "the zone's own",
    "prefix",
    "gone client",
    "gone actor",
    "gone session",
    "other subject",
]


@pytest.mark.threat("12d")
@pytest.mark.parametrize("which", INACTIVE_TOKENS)
async def test_every_other_token_is_just_inactive(
    shared_chain: Chain, made: dict[str, str], which: str
) -> None:
    """Expired, forged, of another class, of another zone, of another audience: the same few bytes."""
    assert await ask(shared_chain.scene, shared_chain.provider, made[which]) == INACTIVE


def test_every_token_that_is_made_is_asked_about(made: dict[str, str]) -> None:
    """The list of cases is the list of tokens."""
    assert set(INACTIVE_TOKENS) == made.keys() - {"good"}


@pytest.fixture(scope="module")
async def askers(shared_chain: Chain) -> dict[str, App]:
    """Who might ask about the chain's last token, beside the application that provides its audience."""
    chain = shared_chain
    assert (await chain.introspect())["active"]
    return {
        "stranger": await chain.company.app(chain.scene.zone, "stranger", dependencies=[chain.api]),
        "agent": chain.agent,
        "tool server": chain.tool_server,
        "public client": await chain.company.app(chain.scene.zone, "public", public=True),
        "wrong secret": replace(chain.provider, secret="wrong"),
        "no secret": replace(chain.provider, secret=None),
    }


@pytest.mark.threat("14c")
@pytest.mark.standard("RFC 7662")
@pytest.mark.parametrize("which", ["stranger", "agent", "tool server"])
async def test_a_token_is_inactive_for_whom_it_is_not_for(
    shared_chain: Chain, askers: dict[str, App], which: str
) -> None:
    """Neither who holds a token nor who acted in it may ask about it, only who provides what it is for."""
    assert await ask(shared_chain.scene, askers[which], shared_chain.tokens[2]) == INACTIVE


@pytest.mark.standard("RFC 7662")
@pytest.mark.parametrize("which", ["public client", "wrong secret", "no secret"])
async def test_who_does_not_authenticate_may_not_introspect(
    shared_chain: Chain, askers: dict[str, App], which: str
) -> None:
    """Without a proof of who asks the answer is `invalid_client`, also for the audience."""
    with pytest.raises(InvalidClient):
        await ask(shared_chain.scene, askers[which], shared_chain.tokens[2])


@pytest.mark.standard("RFC 7662")
async def test_introspection_needs_a_token(shared_chain: Chain) -> None:
    """An empty `token` is `invalid_request`."""
    with pytest.raises(InvalidRequest):
        await ask(shared_chain.scene, shared_chain.provider, "")


async def delete_agent(chain: Chain) -> None:
    await chain.company.delete(APPLICATION, chain.zone_id, chain.agent.id)


async def delete_credential(chain: Chain) -> None:
    await chain.company.delete(APPLICATION_CREDENTIAL, chain.zone_id, chain.tool_server.credential_id)


async def hand_over_resource(chain: Chain) -> None:
    await chain.company.update(RESOURCE, chain.zone_id, chain.api.id, application_id=chain.agent.id)


ENDINGS = [
    Chain.revoke_session,
    Chain.delete_session,
    Chain.revoke_grant,
    Chain.disable_user,
    Chain.delete_user,
    delete_agent,
    delete_credential,
    hand_over_resource,
]
# What a delta tells of each: the members of an entry. Whom a resource belongs to is no revocation.
TOLD: dict[str, tuple[str, ...]] = {
    "revoke_session": ("sid",),
    "delete_session": ("sid",),
    "revoke_grant": ("aud#S256", "issued_until", "sid"),
    "disable_user": ("sid",),
    "delete_user": ("sid",),
    "delete_agent": ("actor#S256", "issued_until"),
    "delete_credential": ("client_id#S256", "issued_until"),
}


@pytest.mark.threat("18a", "18b", "18c", "18d", "18f", "18h", "18i", "18j", "18o")
@pytest.mark.parametrize("end", ENDINGS, ids=lambda value: value.__name__)
async def test_what_ends_is_inactive_at_once(
    chain: Chain, end: Any, storage_settings: dict[str, Any]
) -> None:
    """In every worker that knew the token, after a restart, and without short-lived state."""
    networked = storage_settings["redis_url"] is not None
    async with opened_parts(**storage_settings) as other:
        workers = [chain.scene.services, other] if networked else [chain.scene.services]
        assert not [worker for worker in workers if not (await chain.introspect(worker))["active"]]

        await end(chain)

        assert [await chain.introspect(worker) for worker in workers] == [INACTIVE] * len(workers)
    async with opened_parts(**storage_settings) as restarted:
        assert await chain.introspect(restarted) == INACTIVE
        assert await chain.introspect(with_state(restarted, Away())) == INACTIVE
        if end.__name__ in TOLD:
            zone = await restarted.zones.get(chain.zone_id)
            delta = await restarted.revocations.since(zone, None)
            assert TOLD[end.__name__] in {tuple(sorted(each)) for each in orjson.loads(delta.revocations)}


@pytest.mark.threat("18a", "18e", "18f")
async def test_what_began_before_a_link_ends_with_it(chain: Chain) -> None:
    """The agent's grant for the tools carries what the tools have made of it since: more tokens, too."""
    scene, company = chain.scene, chain.company
    grant_id = await granted(scene, chain.person, chain.tools)
    assert (await chain.introspect())["active"]
    assert await scene.exchange(chain.tool_server, chain.tokens[2], chain.api)

    await company.update(DELEGATED_GRANT, chain.zone_id, grant_id, status="revoked")

    assert await chain.introspect() == INACTIVE
    with pytest.raises(InvalidGrant):
        await scene.exchange(chain.tool_server, chain.tokens[2], chain.api)


@pytest.mark.threat("18a", "18f")
async def test_what_began_with_a_sign_in_for_the_link_ends_with_it(chain: Chain) -> None:
    """The same where the user signed in for the tools at once: the agent has acted without an exchange."""
    scene, company, zone = chain.scene, chain.company, chain.scene.zone
    person = await company.person(zone, "eve@acme.test")
    await as_client_session(scene, person.session_id, application_id=chain.agent.id)
    token = await company.token(zone, chain.agent, person, audience=chain.tools.identifier, scopes=())
    further = (await scene.exchange(chain.tool_server, token, chain.api, "read"))["access_token"]
    grant_id = await granted(scene, person, chain.tools)
    told = await ask(scene, chain.provider, further)
    assert acting(told) == ("tool-server", "agent")

    await company.update(DELEGATED_GRANT, zone.id, grant_id, status="revoked")

    assert await ask(scene, chain.provider, further) == INACTIVE


async def test_consent_that_is_withdrawn(chain: Chain) -> None:
    """Where the application asks for consent, a token is good as long as the user's word."""
    company, scene = chain.company, chain.scene
    asking = await company.app(scene.zone, "asking", consent="required", dependencies=[chain.api])
    zone = await scene.services.zones.get(chain.zone_id)
    token = issue_access_token(zone, facts(chain, zone.issuer, client_id=asking.client_id))
    assert await ask(scene, chain.provider, token) == INACTIVE
    await agree(chain, asking.id, frozenset({"read"}))
    assert (await ask(scene, chain.provider, token))["active"]

    await agree(chain, asking.id, frozenset({"write"}))

    assert await ask(scene, chain.provider, token) == INACTIVE


async def agree(chain: Chain, application_id: str, scopes: frozenset[str]) -> None:
    """Keep what the user agrees to, as the consent page does."""
    services, user_id = chain.scene.services, chain.person.user.id
    async with services.database.transaction() as conn:
        await consents.record(
            conn,
            [consents.ConsentRecord(chain.api.id, scopes, "app.example")],
            zone_id=chain.zone_id,
            user_id=user_id,
            client_ref=ClientRef(application_id=application_id),
            now=services.clock(),
        )
        moved = await epochs.bump_user(conn, chain.zone_id, user_id)
    await services.epochs.publish(moved)


async def test_warm_introspection_is_one_trip_and_no_statement(shared_chain: Chain) -> None:
    """Everything but the epochs is known."""
    chain = shared_chain
    state = Counting(chain.scene.services.state)
    services = with_state(chain.scene.services, state)
    for _ in range(2):
        await chain.introspect(services)
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if "token_events" not in statement and "epoch_changes" not in statement:
            statements.append(statement)

    state.calls.clear()
    engine = services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        assert all([(await chain.introspect(services))["active"] for _ in range(5)])
    finally:
        event.remove(engine, "before_cursor_execute", note)

    assert state.calls == ["fetch"] * 5
    assert [each for each in statements if each.startswith(("SELECT", "UPDATE"))] == []


@pytest.mark.threat("18o", "35a")
async def test_without_short_lived_state_introspection_goes_on(chain: Chain) -> None:
    """A state that is away costs speed: answers go on, and a revocation is seen at the very next one."""
    services: Services = with_state(chain.scene.services, Away())
    assert all([(await chain.introspect(services))["active"] for _ in range(2)])

    await chain.revoke_session()

    assert await chain.introspect(services) == INACTIVE


async def test_an_inactive_answer_leaves_a_record_with_the_reason(scene: Scene) -> None:
    """The answer says no more than `inactive`; the record of its request id says why."""
    app = await scene.company.app(scene.zone, "asks-in-vain")

    assert await ask(scene, app, "e30.e30.e30") == INACTIVE

    await scene.services.decisions.flush()
    async with scene.services.database.reading() as conn:
        (record,) = await conn.execute(
            select(token_events).where(
                token_events.c.application_id == app.id, token_events.c.event == "introspection"
            )
        )
    assert (record.outcome, record.request_id) == ("inactive", "test-request")
    assert record.reason.startswith("inactive: ")

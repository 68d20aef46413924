"""A user's own policies beside the zone's: both have to allow an exchange, so a user's only take away."""

import json
from typing import Any

import pytest
from sqlalchemy import event, select, update
from tests.support.factories import App, Person
from tests.support.scene import Scene, claims_of
from tests.support.state_doubles import Counting, with_state

from runtime.domain.errors import AccessDenied
from runtime.domain.kinds.resource import Resource
from runtime.domain.policy import schema
from runtime.domain.policy.bundle_archive import Archive, write
from runtime.services.authority.subject_tokens import check_chain, verify_subject_token
from runtime.services.bundles import operations, parsing
from runtime.services.bundles.access import BundleCaller
from runtime.storage.sql.tables import METADATA, TABLES, token_events

PERMIT = '@id("mine") permit (principal, action, resource);'
NOT_PAYROLL = '@id("not-payroll") forbid (principal, action, resource == Resource::"https://payroll.test");'
NO_WRITE = '@id("no-write") forbid (principal, action, resource) when { context.scopes.contains("write") };'


async def holder_of(scene: Scene, app: App, person: Person) -> BundleCaller:
    """The user, who has let the application see and change their policies."""
    token = await scene.company.policy_token(scene.zone, app, person)
    zone = await scene.services.zones.get(scene.zone.id)
    subject = verify_subject_token(zone, token, scene.services.clock())
    root = await zone.session_roots.get(person.session_id)
    assert root is not None
    return BundleCaller(zone, subject, root, await check_chain(zone, subject))


async def own(scene: Scene, app: App, person: Person, *texts: str) -> None:
    """Make these the user's policies."""
    entries = [{"new_policy": f"p{number}"} for number in range(len(texts))]
    manifest = json.dumps({"schema": {"version": schema.CURRENT_VERSION}, "policies": entries}).encode()
    files = {f"p{number}": text.encode() for number, text in enumerate(texts)}
    wanted = parsing.read(write(Archive(manifest, None, files)), user_id=person.user.id)
    holder = await holder_of(scene, app, person)
    await operations.replace(scene.services, holder, wanted, if_match=None, request_id="test")


@pytest.fixture(scope="module")
async def apis(scene: Scene) -> list[Resource]:
    names = ("https://api.test", "https://payroll.test")
    return [await scene.company.resource(scene.zone, name, scopes=["read", "write"]) for name in names]


@pytest.fixture(scope="module")
async def agent(scene: Scene, apis: list[Resource]) -> App:
    return await scene.company.app(scene.zone, "agent", dependencies=apis)


async def somebody(scene: Scene, agent: App, name: str) -> tuple[Person, str]:
    person = await scene.company.person(scene.zone, f"{name}@acme.test")
    return person, await scene.company.token(scene.zone, agent, person)


async def test_what_a_user_forbids_is_refused_at_once(scene: Scene, agent: App, apis: list[Resource]) -> None:
    """Also what was issued a moment ago; nobody else's exchange changes, and a reset takes it back."""
    api, payroll = apis
    (ann, hers), (_, his) = [await somebody(scene, agent, name) for name in ("ann", "bob")]
    assert {(await scene.exchange(agent, subject, payroll))["scope"] for subject in (hers, his)} == {
        "read write"
    }

    await own(scene, agent, ann, PERMIT, NOT_PAYROLL, NO_WRITE)

    assert (await scene.exchange(agent, hers, api))["scope"] == "read"
    with pytest.raises(AccessDenied) as refusal:
        await scene.exchange(agent, hers, payroll)
    assert refusal.value.members == {"reason": "policy_denied"}
    assert (await scene.exchange(agent, his, payroll))["scope"] == "read write"
    assert await scene.exchange(agent, agent_token := await own_token(scene, agent), payroll)
    assert claims_of(agent_token)["sub_profile"] == "service"

    await operations.reset(scene.services, await holder_of(scene, agent, ann), "test")
    assert (await scene.exchange(agent, hers, payroll))["scope"] == "read write"


async def own_token(scene: Scene, agent: App) -> str:
    """A token of the application itself, which no user's policies concern."""
    answer = await scene.post(
        [("grant_type", "client_credentials"), ("resource", "https://api.test"), *agent.form.items()]
    )
    return str(answer["access_token"])


async def test_what_was_made_on_first_access_takes_nothing_away(
    scene: Scene, agent: App, apis: list[Resource]
) -> None:
    """Looking at the bundle changes no decision; an empty one denies everything."""
    cid, subject = await somebody(scene, agent, "cid")
    before = await scene.exchange(agent, subject, apis[0])
    await operations.fetch(scene.services, await holder_of(scene, agent, cid), "test")
    assert (await scene.exchange(agent, subject, apis[0]))["scope"] == before["scope"]
    await own(scene, agent, cid)
    with pytest.raises(AccessDenied):
        await scene.exchange(agent, subject, apis[0])


@pytest.mark.threat("29c")
async def test_a_user_cannot_allow_what_the_zone_does_not(own_scene: Scene) -> None:
    """However widely a user permits, the zone's policies have to allow it as well."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test", scopes=["read", "write"])
    app = await company.app(zone, "app", dependencies=[api])
    dan = await company.person(zone, "dan@acme.test")
    subject = await company.token(zone, app, dan)
    await own(own_scene, app, dan, PERMIT)
    assert (await own_scene.exchange(app, subject, api))["scope"] == "read write"

    await company.policies(zone, PERMIT, NO_WRITE)
    assert (await own_scene.exchange(app, subject, api))["scope"] == "read"
    with pytest.raises(AccessDenied):
        await own_scene.exchange(app, subject, api, "write")


@pytest.mark.threat("29d")
async def test_policies_that_cannot_be_read_deny(scene: Scene, agent: App, apis: list[Resource]) -> None:
    """A stored text that is broken is not passed over."""
    eve, subject = await somebody(scene, agent, "eve")
    await own(scene, agent, eve, PERMIT)
    assert await scene.exchange(
        agent, subject, apis[0], services=with_state(scene.services, scene.services.state)
    )
    versions, policies = TABLES["PolicyVersion"], TABLES["Policy"]
    async with scene.services.database.transaction() as conn:
        mine = select(policies.c.id).where(policies.c.created_by == eve.user.id)
        await conn.execute(
            update(versions).where(versions.c.policy_id.in_(mine)).values(cedar_raw="permit (")
        )
    elsewhere = with_state(scene.services, Counting(scene.services.state))
    with pytest.raises(AccessDenied):
        await scene.exchange(agent, subject, apis[0], "read", services=elsewhere)


async def test_a_warm_exchange_costs_no_more_with_own_policies(
    scene: Scene, agent: App, apis: list[Resource]
) -> None:
    """One trip, no statement; and what a user writes leaves what is cached of the zone alone."""
    fay, subject = await somebody(scene, agent, "fay")
    internals = METADATA.tables["zone_internals"]
    epoch = select(internals.c.epoch).where(internals.c.zone_id == scene.zone.id)
    async with scene.services.database.reading() as conn:
        before = await conn.scalar(epoch)
    await own(scene, agent, fay, PERMIT, NO_WRITE)
    async with scene.services.database.reading() as conn:
        assert await conn.scalar(epoch) == before
    state = Counting(scene.services.state)
    services = with_state(scene.services, state)
    for _ in range(2):
        await scene.exchange(agent, subject, apis[0], "read", services=services)
    await scene.services.decisions.flush()
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement)

    state.calls.clear()
    engine = scene.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        await scene.exchange(agent, subject, apis[0], "read", services=services)
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert state.calls == ["fetch"]
    assert [each for each in statements if each.startswith(("SELECT", "UPDATE"))] == []


async def test_the_rules_of_both_are_recorded(scene: Scene, agent: App, apis: list[Resource]) -> None:
    """The record names the user's rule when that refused, and both when both allowed."""
    gil, subject = await somebody(scene, agent, "gil")
    await own(scene, agent, gil, PERMIT, NOT_PAYROLL)
    await scene.exchange(agent, subject, apis[0])
    with pytest.raises(AccessDenied):
        await scene.exchange(agent, subject, apis[1])
    await scene.services.decisions.flush()
    mine = select(token_events).where(token_events.c.user_id == gil.user.id).order_by(token_events.c.at)
    async with scene.services.database.reading() as conn:
        allowed, refused = (await conn.execute(mine)).all()
    assert [name.partition("#")[2] for name in allowed.determining] == ["default-user-grants", "mine"]
    assert [name.partition("#")[2] for name in refused.determining] == ["not-payroll"]

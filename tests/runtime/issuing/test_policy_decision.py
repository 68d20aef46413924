"""Policy has the last word on an exchange: deny wins, nothing bound denies, scopes are tried one by one."""

import pytest
from sqlalchemy import delete, select
from tests.support.scene import Scene, acting, claims_of

from runtime.domain.errors import AccessDenied
from runtime.domain.kinds import PROVIDER
from runtime.services.management.unit_of_work import unit_of_work
from runtime.storage.sql.tables import policy_set_bindings, token_events

PERMIT = '@id("permit-all") permit (principal, action, resource);'


async def test_scopes_that_only_policy_refuses_are_left_out(own_scene: Scene) -> None:
    """The rest is issued and reported; when nothing remains the exchange is denied."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test", scopes=["read", "write"])
    app = await company.app(zone, "app", dependencies=[api])
    ann = await company.person(zone, "ann@acme.test")
    subject = await company.token(zone, app, ann)
    assert (await own_scene.exchange(app, subject, api))["scope"] == "read write"

    no_write = (
        '@id("no-write") forbid (principal, action, resource) when { context.scopes.contains("write") };'
    )
    await company.policies(zone, PERMIT, no_write)

    assert (await own_scene.exchange(app, subject, api))["scope"] == "read"
    answer = await own_scene.exchange(app, subject, api, "write read")
    assert claims_of(answer["access_token"])["scope"] == answer["scope"] == "read"
    with pytest.raises(AccessDenied) as refusal:
        await own_scene.exchange(app, subject, api, "write")
    assert refusal.value.members == {"reason": "policy_denied"}


async def test_groups_decide(own_scene: Scene) -> None:
    """A rule about a group holds for its members and for nobody else; membership counts at once."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://payroll.test")
    app = await company.app(zone, "app", dependencies=[api])
    ann, bob = await company.person(zone, "ann@acme.test"), await company.person(zone, "bob@acme.test")
    tokens = {each: await company.token(zone, app, each) for each in (ann, bob)}
    group = await company.group(zone, "Contractors", [bob.user])
    text = f'@id("not-them") forbid (principal in Group::"{group.identifier}", action, resource);'
    await company.policies(zone, PERMIT, text)

    assert await own_scene.exchange(app, tokens[ann], api)
    with pytest.raises(AccessDenied):
        await own_scene.exchange(app, tokens[bob], api)

    await company.join(zone, group, ann.user)
    with pytest.raises(AccessDenied):
        await own_scene.exchange(app, tokens[ann], api)


async def test_only_a_verified_address_is_known_to_policy(own_scene: Scene) -> None:
    """Registering with somebody else's address does not open what a policy gives to that address."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://payroll.test")
    app = await company.app(zone, "app", dependencies=[api])
    text = (
        '@id("chief") permit (principal is User, action, resource)'
        ' when { principal has email && principal.email == "%s" };'
    )
    await company.policies(zone, *(text % email for email in ("ann@acme.test", "ceo@acme.test")))
    ann = await company.signed_in(zone, await company.user(zone, "ann@acme.test"))
    impostor = await company.signed_in(zone, await company.user(zone, "ceo@acme.test", verified=False))

    assert await own_scene.exchange(app, await company.token(zone, app, ann), api)
    with pytest.raises(AccessDenied):
        await own_scene.exchange(app, await company.token(zone, app, impostor), api)


async def test_chain_and_actor_are_known_to_policy(own_scene: Scene) -> None:
    """A rule can tell the first hop from a later one, and who has acted."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test")
    server = await company.app(zone, "server", dependencies=[api])
    tools = await company.resource(zone, "https://tools.test", application_id=server.id)
    agent = await company.app(zone, "agent", dependencies=[tools, api])
    ann = await company.person(zone, "ann@acme.test")
    subject = await company.token(zone, agent, ann)
    first = (await own_scene.exchange(agent, subject, tools))["access_token"]
    assert await own_scene.exchange(server, first, api)

    text = (
        '@id("no-chain") forbid (principal, action, resource == Resource::"https://api.test")'
        ' when { context.chain_depth > 1 && context.actors.contains(Application::"agent") };'
    )
    await company.policies(zone, PERMIT, text)

    assert await own_scene.exchange(agent, subject, api)
    with pytest.raises(AccessDenied):
        await own_scene.exchange(server, first, api)


@pytest.mark.threat("15c")
@pytest.mark.parametrize(
    "condition", ["context.chain_depth > 1", 'context.actors.contains(Application::"agent")']
)
async def test_a_client_stays_in_the_chain_however_its_token_was_handed_over(
    own_scene: Scene, condition: str
) -> None:
    """A client that hands over the token of its sign-in has acted as one that has exchanged it."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test")
    server = await company.app(zone, "server", dependencies=[api])
    tools = await company.resource(zone, "https://tools.test", application_id=server.id)
    agent = await company.app(zone, "agent", dependencies=[tools])
    other = await company.app(zone, "other", dependencies=[tools])
    ann = await company.person(zone, "ann@acme.test")
    signed_in = [await company.token(zone, each, ann, audience=tools.identifier) for each in (agent, other)]
    exchanged = (await own_scene.exchange(agent, signed_in[0], tools))["access_token"]
    tokens = (*signed_in[:2], exchanged)
    further = [(await own_scene.exchange(server, token, api))["access_token"] for token in tokens]
    assert [acting(claims_of(token)) for token in further] == [
        ("server", "agent"),
        ("server", "other"),
        ("server", "agent"),
    ]

    there = 'principal, action, resource == Resource::"https://api.test"'
    await company.policies(zone, PERMIT, f'@id("no-chain") forbid ({there}) when {{ {condition} }};')

    for token in (signed_in[0], exchanged):
        with pytest.raises(AccessDenied):
            await own_scene.exchange(server, token, api)


async def test_no_active_set_denies(own_scene: Scene) -> None:
    """A zone without a bound policy set issues nothing."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test")
    app = await company.app(zone, "app", dependencies=[api])
    subject = await company.token(zone, app, await company.person(zone, "ann@acme.test"))
    assert await own_scene.exchange(app, subject, api)

    async with unit_of_work(company.services, company.caller, "test") as unit:
        await unit.conn.execute(delete(policy_set_bindings).where(policy_set_bindings.c.zone_id == zone.id))
        await unit.record("test", PROVIDER.name, zone.id, zone.id, before=None, after=None)

    with pytest.raises(AccessDenied):
        await own_scene.exchange(app, subject, api)


async def test_determining_rules_are_recorded(own_scene: Scene) -> None:
    """The record names the rule that decided, and the caller is not told."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test")
    app = await company.app(zone, "app", dependencies=[api])
    subject = await company.token(zone, app, await company.person(zone, "ann@acme.test"))
    await company.policies(zone, PERMIT, '@id("never") forbid (principal, action, resource);')

    with pytest.raises(AccessDenied) as refusal:
        await own_scene.exchange(app, subject, api)
    assert "never" not in refusal.value.detail + str(refusal.value.members)

    await company.services.decisions.flush()
    async with company.services.database.reading() as conn:
        rows = (await conn.execute(select(token_events).where(token_events.c.zone_id == zone.id))).all()
    (row,) = rows
    assert row.outcome == "refused"
    assert row.step == 11
    assert row.reason == "access_denied: policy_denied"
    assert [name.partition("#")[2] for name in row.determining] == ["never"]

"""Policy has the last word on an exchange: deny wins, nothing bound denies, scopes are tried one by one."""

import pytest
from sqlalchemy import delete, select
from tests.support.scene import Scene, acting, claims_of

from runtime.domain.errors import AccessDenied
from runtime.domain.kinds import PROVIDER, ROLE, USER, USER_AGENT
from runtime.domain.kinds.user_agent import ClientMetadata, Registration, UserAgent
from runtime.services.client_types import UserAgentClient
from runtime.services.clients.dynamic_registration import store_client
from runtime.services.issuing.policy_decision import PolicyPrincipal, PolicyVerdict, decide_exchange
from runtime.services.management.people import assignments
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.zone_settings import set_zone_setting
from runtime.storage.sql import entities
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


@pytest.mark.threat("50a")
async def test_who_provides_a_resource_does_not_change_with_a_suspension(own_scene: Scene) -> None:
    """A rule about the provider holds while that is suspended; nothing remembers it as gone."""
    company, zone = own_scene.company, own_scene.zone
    ann, olga = await company.person(zone, "ann@acme.test"), await company.user(zone, "olga@acme.test")
    server = await company.app(zone, "server", accountable_user_id=olga.id)
    tools = await company.resource(zone, "https://tools.test", application_id=server.id)
    agent = await company.app(zone, "agent", dependencies=[tools])
    subject = await company.token(zone, agent, ann)
    await set_zone_setting(company.services, zone.id, "require-active-accountable", "on")
    assert await own_scene.exchange(agent, subject, tools)

    of_server = 'resource has provider && resource.provider == Application::"server"'
    rule = f'@id("not-its") forbid (principal, action, resource) when {{ {of_server} }};'
    await company.policies(zone, PERMIT, rule)
    refused = []
    for status in ("active", "disabled", "active"):
        await company.update(USER, zone.id, olga.id, status=status)
        with pytest.raises(AccessDenied) as refusal:
            await own_scene.exchange(agent, subject, tools)
        refused.append(refusal.value.members)

    assert refused == [{"reason": "policy_denied"}] * 3


@pytest.mark.threat("50b")
async def test_what_a_client_proves_itself_by_is_asked_each_time(own_scene: Scene) -> None:
    """A described client that gives up its keys is a public one to the rules, whatever was decided before."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test")
    await company.policies(
        zone,
        PERMIT,
        '@id("no-public") forbid (principal, action, resource) when { context.credential == "public" };',
    )
    ann = await company.person(zone, "ann@acme.test")
    keyed = ClientMetadata(
        redirect_uris=["https://client.test/callback"],
        token_endpoint_auth_method="private_key_jwt",
        jwks_uri="https://client.test/keys",
    )
    described = await store_client(
        company.services,
        await company.services.zones.get(zone.id),
        "https://client.test/c",
        keyed,
        Registration.METADATA_DOCUMENT,
    )

    async def verdict(client: UserAgent) -> PolicyVerdict:
        view = await company.services.zones.get(zone.id)
        principal = await view.session_roots.principal(ann.user)
        return await decide_exchange(
            view,
            UserAgentClient(client),
            PolicyPrincipal(principal.policy_user, "ann", principal.cache_tags),
            actors=(client.identifier,),
            resource=api,
            scopes=frozenset(),
            now=company.services.clock(),
        )

    assert (await verdict(described)).scopes is not None

    public = keyed.model_copy(update={"token_endpoint_auth_method": "none", "jwks_uri": None})
    changed = described.model_copy(update={"client_metadata": public})
    async with company.services.database.transaction() as conn:
        await entities.replace(conn, USER_AGENT, changed, within={"zone_id": zone.id})

    assert (await verdict(changed)).scopes is None


@pytest.mark.threat("50c")
@pytest.mark.parametrize(
    "condition",
    [
        'resource.provider in Role::"untrusted"',
        'resource.provider.traits.contains("mcp-server")',
        'resource.provider.identifier == "server"',
    ],
)
async def test_a_rule_about_who_provides_a_resource_holds(own_scene: Scene, condition: str) -> None:
    """By a role, a trait or a name of the provider; for resources of others nothing is refused."""
    company, zone = own_scene.company, own_scene.zone
    server = await company.app(zone, "server", traits=["mcp-server"])
    plain = await company.app(zone, "plain")
    tools = await company.resource(zone, "https://tools.test", application_id=server.id)
    others = await company.resource(zone, "https://others.test", application_id=plain.id)
    agent = await company.app(zone, "agent", dependencies=[tools, others])
    subject = await company.token(zone, agent, await company.person(zone, "ann@acme.test"))
    role = await company.create(ROLE, zone.id, identifier="untrusted")
    async with unit_of_work(company.services, company.caller, "test") as unit:
        within = {"zone_id": zone.id}
        await assignments.assign(unit, assignments.APPLICATIONS, within, server.id, {"role_id": role.id})
    assert await own_scene.exchange(agent, subject, tools)

    of_server = f"resource has provider && {condition}"
    rule = f'@id("not-its") forbid (principal, action, resource) when {{ {of_server} }};'
    await company.policies(zone, PERMIT, rule)

    assert await own_scene.exchange(agent, subject, others)
    with pytest.raises(AccessDenied) as refusal:
        await own_scene.exchange(agent, subject, tools)
    assert refusal.value.members == {"reason": "policy_denied"}
    await company.services.decisions.flush()
    async with company.services.database.reading() as conn:
        found = await conn.execute(select(token_events).where(token_events.c.zone_id == zone.id))
    assert [row.determining[0].partition("#")[2] for row in found if row.outcome == "refused"] == ["not-its"]

"""An application exchanges a user's token for one that a resource accepts, and so on along a chain."""

from datetime import timedelta

import pytest
from sqlalchemy import update
from tests.support.factories import App, Person
from tests.support.scene import Scene, acting, claims_of

from runtime.domain.errors import (
    AccessDenied,
    InvalidGrant,
    InvalidRequest,
    InvalidScope,
    InvalidTarget,
    UnauthorizedClient,
)
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import PROVIDER, RESOURCE
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.exchange import ACCESS_TOKEN, REFRESH_TOKEN
from runtime.services import epochs
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.management.zones import applications
from runtime.storage.sql import consents
from runtime.storage.sql import entities as rows
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.tables import delegated_grants


@pytest.fixture(scope="module")
async def api(scene: Scene) -> Resource:
    return await scene.company.resource(scene.zone, "https://api.test/v1", scopes=["read", "write"])


@pytest.fixture(scope="module")
async def tool_server(scene: Scene, api: Resource) -> App:
    return await scene.company.app(scene.zone, "tool-server", dependencies=[api])


@pytest.fixture(scope="module")
async def tools(scene: Scene, tool_server: App) -> Resource:
    return await scene.company.resource(
        scene.zone, "https://tools.test", scopes=["call", "admin"], application_id=tool_server.id
    )


@pytest.fixture(scope="module")
async def agent(scene: Scene, tools: Resource) -> App:
    return await scene.company.app(scene.zone, "agent", dependencies=[tools])


@pytest.mark.standard("RFC 8693", "RFC 9068")
async def test_an_exchanged_token_is_the_users_for_one_resource_and_says_who_acts(
    scene: Scene, agent: App, tools: Resource, subject: str, ann: Person
) -> None:
    """It keeps the user, the session and the time of the sign-in; audience, client and actor are new."""
    answer = await scene.exchange(agent, subject, tools, "call")

    claims = claims_of(answer["access_token"])
    assert claims["sub"] == "ann@acme.test"
    assert claims["aud"] == "https://tools.test"
    assert claims["client_id"] == agent.client_id
    assert claims["scope"] == "call"
    assert acting(claims) == ("agent",)
    assert claims["sid"] == ann.session_id
    assert "auth_time" in claims


@pytest.mark.standard("RFC 8693")
async def test_the_answer_to_an_exchange_says_what_was_issued(
    scene: Scene, agent: App, tools: Resource, subject: str
) -> None:
    """An access token to be used as a bearer token, with its scope, for an hour."""
    answer = await scene.exchange(agent, subject, tools, "call")

    assert answer["issued_token_type"] == ACCESS_TOKEN
    assert answer["token_type"] == "Bearer"
    assert answer["scope"] == "call"
    assert 3590 <= answer["expires_in"] <= 3600


async def test_scopes_are_reported_whether_requested_or_not(
    scene: Scene, agent: App, tools: Resource, subject: str
) -> None:
    """Without a requested scope everything the resource supports is meant, and the answer says so."""
    answer = await scene.exchange(agent, subject, tools)

    assert answer["scope"] == "admin call"


@pytest.mark.standard("RFC 6749", "RFC 8693")
async def test_where_a_resource_has_no_scopes_neither_answer_nor_token_has_any(
    scene: Scene, ann: Person
) -> None:
    """An empty text is no scope: the member is left out, from the cache as well."""
    plain = await scene.company.resource(scene.zone, "https://plain.test")
    app = await scene.company.app(scene.zone, "plain-agent", dependencies=[plain])
    subject = await scene.company.token(scene.zone, app, ann)

    answers = [await scene.exchange(app, subject, plain) for _ in range(2)]

    members = {"access_token", "issued_token_type", "token_type", "expires_in"}
    assert [set(each) for each in answers] == [members, members]
    assert not [each for each in answers if "scope" in claims_of(each["access_token"])]


async def test_chain_keeps_user_and_nests_actors(
    scene: Scene, agent: App, tool_server: App, tools: Resource, api: Resource, subject: str
) -> None:
    """The tool server exchanges the token it received; the chain names both, the latest first."""
    first = await scene.exchange(agent, subject, tools, "call")
    second = await scene.exchange(tool_server, first["access_token"], api, "read")

    claims = claims_of(second["access_token"])
    assert claims["sub"] == "ann@acme.test"
    assert claims["aud"] == "https://api.test/v1"
    assert acting(claims) == ("tool-server", "agent")


@pytest.mark.standard("RFC 8707")
async def test_audience_is_the_registered_identifier(
    scene: Scene, agent: App, tools: Resource, subject: str
) -> None:
    """A client that writes the resource with a trailing slash gets a token for it as it is registered."""
    answer = await scene.exchange(agent, subject, "https://tools.test/", "call")

    assert claims_of(answer["access_token"])["aud"] == tools.identifier


async def test_prefix_resource_stands_for_what_is_below(scene: Scene, ann: Person) -> None:
    """A prefix resource is found from an address below it, up to a boundary; `aud` is the prefix itself."""
    files = await scene.company.resource(scene.zone, "https://files.test/a", prefix=True)
    app = await scene.company.app(scene.zone, "file-reader", dependencies=[files])
    subject = await scene.company.token(scene.zone, app, ann)

    answer = await scene.exchange(app, subject, "https://files.test/a/b?c=d")

    assert claims_of(answer["access_token"])["aud"] == "https://files.test/a"
    with pytest.raises(InvalidTarget):
        await scene.exchange(app, subject, "https://files.test/ab")


async def test_unknown_and_undeclared_resources_look_alike(
    scene: Scene, agent: App, api: Resource, subject: str
) -> None:
    """So nobody can list the zone's resources by asking."""
    with pytest.raises(InvalidTarget) as undeclared:
        await scene.exchange(agent, subject, api)
    with pytest.raises(InvalidTarget) as unknown:
        await scene.exchange(agent, subject, "https://nowhere.test")

    assert undeclared.value.detail == unknown.value.detail


async def test_declared_dependency_opens_the_resource(scene: Scene, ann: Person) -> None:
    """A dependency that is added is seen by the very next exchange."""
    late = await scene.company.resource(scene.zone, "https://late.test")
    early = await scene.company.app(scene.zone, "early")
    subject = await scene.company.token(scene.zone, early, ann)
    with pytest.raises(InvalidTarget):
        await scene.exchange(early, subject, late)

    async with unit_of_work(scene.services, scene.company.caller, new_id()) as unit:
        await applications.set_dependencies(unit, early.application, [late.id])

    assert "scope" not in await scene.exchange(early, subject, late)


async def test_audience_must_mean_the_resource(
    scene: Scene, agent: App, tools: Resource, subject: str
) -> None:
    """`audience` is accepted when it names the same registered resource, and refused otherwise."""
    assert await scene.exchange(agent, subject, tools, audience="https://tools.test/")
    with pytest.raises(InvalidTarget):
        await scene.exchange(agent, subject, tools, audience="https://api.internal/admin")


@pytest.mark.parametrize("scope", ["call delete", "delete", "read"])
async def test_scopes_beyond_the_resource_are_refused(
    scene: Scene, agent: App, tools: Resource, subject: str, scope: str
) -> None:
    """A scope that the resource does not have is refused, not dropped."""
    with pytest.raises(InvalidScope):
        await scene.exchange(agent, subject, tools, scope)


async def test_same_resource_again_only_narrows(
    scene: Scene, agent: App, tool_server: App, tools: Resource, subject: str
) -> None:
    """Exchanging a token for its own resource cannot add a scope."""
    narrow = (await scene.exchange(agent, subject, tools, "call"))["access_token"]

    again = await scene.exchange(agent, narrow, tools, "call")
    assert again["scope"] == "call"
    with pytest.raises(InvalidScope):
        await scene.exchange(agent, narrow, tools, "admin")
    assert (await scene.exchange(agent, narrow, tools))["scope"] == "call"


async def test_resource_lifetime_counts(scene: Scene, ann: Person) -> None:
    """A resource's own lifetime comes before the default one."""
    brief = await scene.company.resource(scene.zone, "https://brief.test", credential_lifetime_seconds=120)
    app = await scene.company.app(scene.zone, "brief-user", dependencies=[brief])
    subject = await scene.company.token(scene.zone, app, ann)

    assert (await scene.exchange(app, subject, brief))["expires_in"] in (119, 120)


@pytest.mark.threat("16f")
async def test_a_token_ends_no_later_than_the_one_it_was_exchanged_for(
    scene: Scene, agent: App, tool_server: App, tools: Resource, api: Resource, ann: Person
) -> None:
    """Nor than any before that: no client renews its token by exchanging it."""
    subject = await scene.company.token(scene.zone, agent, ann, lifetime=timedelta(minutes=5))
    ends = claims_of(subject)["exp"]

    first = (await scene.exchange(agent, subject, tools))["access_token"]
    again = (await scene.exchange(agent, first, tools))["access_token"]
    further = (await scene.exchange(tool_server, first, api))["access_token"]

    assert [claims_of(token)["exp"] for token in (first, again, further)] == [ends] * 3


async def test_a_cached_token_that_lasts_longer_than_the_subject_token_is_not_handed_out(
    scene: Scene, agent: App, tools: Resource, ann: Person
) -> None:
    """Two tokens of one sign-in share the cache, and each bounds what is made from it."""
    company, zone, own = scene.company, scene.zone, await scene.company.signed_in(scene.zone, ann.user)
    long = await company.token(zone, agent, own)
    short = await company.token(zone, agent, own, lifetime=timedelta(minutes=5))
    await scene.exchange(agent, long, tools)

    issued = (await scene.exchange(agent, short, tools))["access_token"]

    assert claims_of(issued)["exp"] == claims_of(short)["exp"]


async def test_token_ends_with_the_session(scene: Scene, agent: App, tools: Resource) -> None:
    """No token of a session outlives it."""
    brief = await scene.company.person(scene.zone, "brief@acme.test", hours=0.25)
    subject = await scene.company.token(scene.zone, agent, brief)

    assert (await scene.exchange(agent, subject, tools))["expires_in"] <= 900


async def test_expired_session_is_refused(scene: Scene, agent: App, tools: Resource) -> None:
    """A session that is over carries no authority, whatever its tokens say."""
    over = await scene.company.person(scene.zone, "over@acme.test", hours=-0.1)
    subject = await scene.company.token(scene.zone, agent, over)

    with pytest.raises(InvalidGrant):
        await scene.exchange(agent, subject, tools)


async def test_public_client_may_not_exchange(scene: Scene, tools: Resource, ann: Person) -> None:
    """Anyone may claim to be a public client, so it gets no further tokens."""
    app = await scene.company.app(scene.zone, "browser-app", dependencies=[tools], public=True)
    subject = await scene.company.token(scene.zone, app, ann)

    with pytest.raises(UnauthorizedClient):
        await scene.exchange(app, subject, tools)


@pytest.mark.parametrize(
    "change",
    [
        {"subject_token": ""},
        {"subject_token_type": ""},
        {"subject_token_type": "urn:ietf:params:oauth:token-type:id_token"},
        {"requested_token_type": REFRESH_TOKEN},
        {"requested_token_type": "urn:ietf:params:oauth:token-type:saml2"},
        {"requested_token_type": "N_A"},
        {"actor_token": "abc"},
        {"actor_token_type": ACCESS_TOKEN},
        {"authorization_details": "[]"},
        {"resource": ""},
    ],
    ids=lambda change: "-".join(f"{name}={value[-12:]}" for name, value in change.items()),
)
@pytest.mark.deviation("no-refresh-token-by-exchange")
async def test_a_malformed_request_is_refused(
    scene: Scene, agent: App, tools: Resource, subject: str, change: dict[str, str]
) -> None:
    """What is missing, contradictory or not understood is an invalid request."""
    assert await scene.exchange(agent, subject, tools)
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": subject,
        "subject_token_type": ACCESS_TOKEN,
        "resource": tools.identifier,
        **agent.form,
        **change,
    }
    with pytest.raises(InvalidRequest):
        await scene.post(list(form.items()))


async def test_two_resources_are_refused(scene: Scene, agent: App, tools: Resource, subject: str) -> None:
    """One resource in an exchange."""
    form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", subject),
        ("subject_token_type", ACCESS_TOKEN),
        ("resource", tools.identifier),
        *agent.form.items(),
    ]
    assert await scene.post(form)
    with pytest.raises(InvalidTarget):
        await scene.post([*form, ("resource", "https://api.test/v1")])


async def test_consent_is_needed_where_it_is_asked_for(scene: Scene, ann: Person, api: Resource) -> None:
    """An application with required consent gets what the user consented to, and until then a way to ask."""
    shy = await scene.company.app(scene.zone, "shy", consent="required", dependencies=[api])
    subject = await scene.company.token(scene.zone, shy, ann)
    with pytest.raises(AccessDenied) as refusal:
        await scene.exchange(shy, subject, api, "read")
    assert refusal.value.members["reason"] == "user_authorization_required"
    issuer = scene.zone.protocols.oauth2.issuer
    assert refusal.value.members["error_uri"].startswith(f"{issuer}/oauth/connect?")

    await _consent(scene, ann, shy, api, {"read"})

    assert (await scene.exchange(shy, subject, api, "read"))["scope"] == "read"
    assert (await scene.exchange(shy, subject, api))["scope"] == "read"
    with pytest.raises(InvalidScope):
        await scene.exchange(shy, subject, api, "read write")

    await _consent(scene, ann, shy, api, {"read", "write"})
    assert (await scene.exchange(shy, subject, api, "read write"))["scope"] == "read write"


@pytest.mark.deviation("order-of-checks")
async def test_nobody_is_asked_for_what_would_be_refused(
    scene: Scene, ann: Person, api: Resource, tools: Resource
) -> None:
    """Dependency and scopes come before consent: the way to ask is told for what is left."""
    asking = await scene.company.app(scene.zone, "asking-first", consent="required", dependencies=[api])
    subject = await scene.company.token(scene.zone, asking, ann)

    with pytest.raises(InvalidTarget):
        await scene.exchange(asking, subject, tools, "call")
    with pytest.raises(InvalidScope):
        await scene.exchange(asking, subject, api, "no-such-scope")
    with pytest.raises(AccessDenied) as refusal:
        await scene.exchange(asking, subject, api, "read")
    assert refusal.value.members["reason"] == "user_authorization_required"


async def test_ended_grant_refuses(scene: Scene, api: Resource) -> None:
    """A delegated grant that was ended refuses, also where consent is implied."""
    eve = await scene.company.person(scene.zone, "eve@acme.test")
    app = await scene.company.app(scene.zone, "granted", dependencies=[api])
    subject = await scene.company.token(scene.zone, app, eve)
    provider_id = await _service_sts(scene)
    async with scene.services.database.transaction() as conn:
        await consents.grant(
            conn,
            organization_id=scene.zone.organization_id,
            zone_id=scene.zone.id,
            user_id=eve.user.id,
            resource_id=api.id,
            provider_id=provider_id,
            scopes=["read"],
            now=scene.services.clock(),
        )
    assert await scene.exchange(app, subject, api, "read")

    async with scene.services.database.transaction() as conn:
        await conn.execute(
            update(delegated_grants).where(delegated_grants.c.user_id == eve.user.id).values(status="revoked")
        )
        moved = await epochs.bump_user(conn, scene.zone.id, eve.user.id)
    await scene.services.epochs.publish(moved)

    with pytest.raises(AccessDenied) as refusal:
        await scene.exchange(app, subject, api, "read")
    assert refusal.value.members["reason"] == "user_authorization_required"


async def test_resource_of_another_issuer_needs_a_connected_account(scene: Scene, ann: Person) -> None:
    """A resource whose tokens somebody else makes is not served by the zone's own token service."""
    issuer = await scene.company.create(
        PROVIDER, scene.zone.id, identifier="https://idp.test", name="Elsewhere"
    )
    foreign = await scene.company.resource(
        scene.zone, "https://foreign.test", credential_provider_id=issuer.id
    )
    own = await scene.company.resource(
        scene.zone, "https://own.test", credential_provider_id=await _service_sts(scene)
    )
    app = await scene.company.app(scene.zone, "connector", dependencies=[foreign, own])
    subject = await scene.company.token(scene.zone, app, ann)

    assert await scene.exchange(app, subject, own)
    with pytest.raises(AccessDenied) as refusal:
        await scene.exchange(app, subject, foreign)
    assert "error_uri" in refusal.value.members


async def test_an_applications_own_token_starts_a_chain(
    scene: Scene, tools: Resource, api: Resource, tool_server: App
) -> None:
    """An application's own token starts a chain too: subject and session are that application's."""
    robot = await scene.company.app(scene.zone, "robot", dependencies=[tools])
    own = await scene.post(
        [("grant_type", "client_credentials"), ("resource", tools.identifier), *robot.form.items()]
    )

    answer = await scene.exchange(tool_server, own["access_token"], api, "read")

    claims = claims_of(answer["access_token"])
    assert claims["sub"] == "robot"
    assert claims["sid"] == claims_of(own["access_token"])["sid"]
    assert acting(claims) == ("tool-server", "robot")
    assert claims["exp"] <= claims_of(own["access_token"])["exp"]


async def test_actor_may_not_appear_three_times(scene: Scene, ann: Person) -> None:
    """A loop of applications ends: the same one acts at most twice."""
    loop = await scene.company.resource(scene.zone, "https://loop.test", scopes=["go"])
    app = await scene.company.app(scene.zone, "looper", dependencies=[loop])
    token = await scene.company.token(scene.zone, app, ann)
    for _ in range(2):
        token = (await scene.exchange(app, token, loop, "go"))["access_token"]

    with pytest.raises(InvalidRequest):
        await scene.exchange(app, token, loop, "go")


async def test_a_chain_ends_with_the_eighth_actor(own_scene: Scene) -> None:
    """A ninth exchange is refused, though each application is in the chain at most twice."""
    company, zone = own_scene.company, own_scene.zone
    made: list[Resource] = []
    apps: list[App] = []
    for number in range(5):  # each provides a resource that the next token of the ring is for
        app = await company.app(zone, f"ring{number}")
        apps.append(app)
        identifier = f"https://ring{number}.test"
        made.append(await company.resource(zone, identifier, scopes=["go"], application_id=app.id))
    for app in apps:
        async with unit_of_work(company.services, company.caller, new_id()) as unit:
            await applications.set_dependencies(unit, app.application, [each.id for each in made])
    token = await company.token(zone, apps[0], await company.person(zone, "ring@acme.test"))
    for step in range(8):
        answer = await own_scene.exchange(apps[step % 5], token, made[(step + 1) % 5], "go")
        token = answer["access_token"]

    with pytest.raises(InvalidRequest, match="longer than 8"):
        await own_scene.exchange(apps[8 % 5], token, made[9 % 5], "go")


async def test_an_access_token_may_be_asked_for_by_its_type(
    scene: Scene, agent: App, tools: Resource, subject: str
) -> None:
    """`requested_token_type` may say what is issued anyway, which `issued_token_type` confirms."""
    answer = await scene.exchange(agent, subject, tools, requested_token_type=ACCESS_TOKEN)

    assert answer["issued_token_type"] == ACCESS_TOKEN


async def test_an_expired_subject_token_is_refused(
    scene: Scene, agent: App, tools: Resource, ann: Person, subject: str
) -> None:
    """An expired token is refused with the one text for every bad subject token."""
    old = await scene.company.token(
        scene.zone, agent, ann, now=scene.services.clock() - timedelta(hours=2), lifetime=timedelta(hours=1)
    )
    with pytest.raises(InvalidGrant):
        await scene.exchange(agent, old, tools)


async def test_changed_resource_holds_at_once(scene: Scene, ann: Person) -> None:
    """A resource is read again when it changes: its new scopes hold at once."""
    growing = await scene.company.resource(scene.zone, "https://growing.test", scopes=["a"])
    app = await scene.company.app(scene.zone, "grower", dependencies=[growing])
    subject = await scene.company.token(scene.zone, app, ann)
    assert (await scene.exchange(app, subject, growing))["scope"] == "a"

    await scene.company.update(RESOURCE, scene.zone.id, growing.id, scopes=["a", "b"])

    assert (await scene.exchange(app, subject, growing))["scope"] == "a b"


async def _consent(scene: Scene, person: Person, app: App, resource: Resource, scopes: set[str]) -> None:
    async with scene.services.database.transaction() as conn:
        await consents.record(
            conn,
            [consents.ConsentRecord(resource.id, frozenset(scopes), "app.test")],
            zone_id=scene.zone.id,
            user_id=person.user.id,
            client_ref=ClientRef(application_id=app.id),
            now=scene.services.clock(),
        )


async def _service_sts(scene: Scene) -> str:
    async with scene.services.database.reading() as conn:
        found = await rows.find_by(
            conn, PROVIDER, "identifier", "service-sts", within={"zone_id": scene.zone.id}
        )
    assert found is not None
    return found.id

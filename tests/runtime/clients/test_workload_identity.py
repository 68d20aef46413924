"""Clients whose credential is a token that a provider issued to their workload."""

from typing import Any

import pytest
from tests.runtime.clients.signing import FORM, RSA, STRANGER, Signer, form, refused
from tests.runtime.tokens.conftest import ask
from tests.support.logs import logged_lines
from tests.support.publisher import Publisher
from tests.support.scene import Scene, claims_of
from tests.support.waiting import let_elapse

from runtime.domain.errors import InvalidGrant
from runtime.domain.kinds import APPLICATION_CREDENTIAL, PROVIDER, SESSION, Verb
from runtime.domain.kinds.provider import Provider
from runtime.services.zone_settings import set_zone_setting


@pytest.fixture(scope="module")
async def workloads(scene: Scene, publisher: Publisher) -> Provider:
    """A provider of workload tokens that only publishes keys."""
    return await provider_of(scene, publisher)


async def provider_of(scene: Scene, publisher: Publisher) -> Provider:
    issuer = f"{publisher.url}/ci"
    publisher.publish(
        "/ci/.well-known/openid-configuration", {"issuer": issuer, "jwks_uri": f"{publisher.url}/keys"}
    )
    made: Provider = await scene.company.create(
        PROVIDER, scene.zone.id, name="CI", identifier=issuer, protocols={"oauth2": {}}
    )
    return made


async def workload(scene: Scene, provider: Provider, name: str, **members: Any) -> Any:
    owner = await scene.company.app(scene.zone, name)
    return await scene.company.create(
        APPLICATION_CREDENTIAL,
        scene.zone.id,
        application_id=owner.id,
        type="token",
        provider_id=provider.id,
        **members,
    )


@pytest.mark.threat("33a", "33b", "33d", "33e")
@pytest.mark.standard("RFC 7523")
async def test_a_workload_is_found_by_the_issuer_and_subject_of_its_token(
    scene: Scene, signer: Signer, workloads: Provider
) -> None:
    """Found by issuer and subject; used again until it ends; wrong in any respect it proves nothing."""
    made = await workload(scene, workloads, "deployer", subject="repo:acme/app:main")
    issuer = workloads.identifier

    def token(**changes: Any) -> str:
        plain = {"iss": issuer, "sub": "repo:acme/app:main", "jti": None}
        return signer.sign(RSA, **{**plain, **changes})

    again = token()
    forms = (form(again), form(again), form(again, client_id=made.id), form(token(aud=[signer.issuer])))
    issued = [claims_of((await scene.post(fields))["access_token"]) for fields in forms]
    assert {(claims["sub"], claims["client_id"]) for claims in issued} == {("deployer", made.id)}
    at = int(scene.services.clock().timestamp())
    for changes in (
        {"aud": "https://elsewhere.example"},
        {"aud": [signer.issuer, "https://elsewhere.example"]},
        {"sub": "repo:acme/app:other"},
        {"sub": None},
        {"iss": f"{issuer}/"},
        {"iss": "https://elsewhere.example"},
        {"exp": at - 1},
        {"exp": at + 31_536_000},
    ):
        await refused(scene, form(token(**changes)))
    for typ in ("at+jwt", "application/AT+JWT", "logout+jwt", "dpop+jwt", "secevent+jwt"):
        await refused(scene, form(token(typ=typ)))
    assert await scene.post(form(token(typ="jose")))
    await refused(scene, form(token(), client_id="somebody"))
    await refused(scene, form(signer.sign(STRANGER, iss=issuer, sub="repo:acme/app:main")))
    assert await scene.post(form(again))

    zone = await scene.services.zones.get(scene.zone.id)
    found = await zone.clients.get(made.id)
    assert found is not None
    assert found.application.identifier == "deployer"
    await refused(scene, [*FORM, ("client_id", made.id)])


async def test_the_session_of_a_workload_has_the_claims_of_its_token(
    scene: Scene, signer: Signer, publisher: Publisher
) -> None:
    """Who vouched for it, and for whom; where any subject may come, none of them is the session's."""
    issuer = f"{publisher.url}/sessions"
    provider: Provider = await scene.company.create(
        PROVIDER,
        scene.zone.id,
        name="Sessions",
        identifier=issuer,
        protocols={"oauth2": {"jwks_uri": f"{publisher.url}/keys"}},
    )
    one = await workload(scene, provider, "session-of-one", subject="repo:acme/app:session")
    anyone = await workload(scene, provider, "session-of-any", any_subject=True)

    async def session_for(sub: str) -> Any:
        token = signer.sign(RSA, iss=issuer, sub=sub, jti=None, ref="refs/heads/main", nonce="n")
        answer = await scene.post(form(token))
        return await scene.company.run(
            SESSION, Verb.RETRIEVE, {"zone_id": scene.zone.id}, claims_of(answer["access_token"])["sid"]
        )

    named, unnamed = await session_for("repo:acme/app:session"), await session_for("repo:acme/app:any")

    assert (named.issuer, named.subject) == (issuer, "repo:acme/app:session")
    assert named.provider_id == unnamed.provider_id == provider.id
    told = {"iss": issuer, "sub": named.subject, "client_id": one.id, "sub_profile": "service"}
    assert named.session_data.items() >= {**told, "ref": "refs/heads/main"}.items()
    assert "nonce" not in named.session_data
    told = {"iss": issuer, "sub": unnamed.subject, "client_id": anyone.id, "sub_profile": "service"}
    assert unnamed.session_data == told


async def test_refused_clients_are_in_the_log_with_the_reason(
    scene: Scene, signer: Signer, workloads: Provider
) -> None:
    """Of a workload with what its token says, in one line. The answer tells nobody."""
    await workload(scene, workloads, "logged", subject="repo:acme/app:logged")
    issuer = workloads.identifier

    async def reason(fields: list[tuple[str, str]]) -> str:
        with logged_lines() as logged:
            await refused(scene, fields)
        (line,) = [each for each in logged if each["event"] == "request refused"]
        assert line["zone_id"] == scene.zone.id
        return str(line["reason"])

    def token(**changes: Any) -> str:
        return signer.sign(RSA, **{"iss": issuer, "sub": "repo:acme/app:logged", "jti": None, **changes})

    assert await scene.post(form(token()))
    assert await reason(form(token(sub="repo:\n" + "x" * 500))) == (
        f"invalid_client: no credential is for the issuer '{issuer}' and the subject 'repo:\\n{'x' * 114}'"
    )
    assert "`aud` must be this server alone" in await reason(form(token(aud="https://elsewhere.example")))
    secret = "a wrong secret"
    wrong = [*FORM, ("client_id", signer.client_id), ("client_secret", secret)]
    assert await reason(wrong) == "invalid_client: wrong client secret"


@pytest.mark.threat("33c", "33f")
async def test_any_subject_is_for_its_provider_and_ends_with_it(
    scene: Scene, signer: Signer, workloads: Provider, publisher: Publisher
) -> None:
    """A credential that takes any subject takes those of its own provider, while there is that provider."""
    company, zone = scene.company, scene.zone
    issuer = f"{publisher.url}/shared"
    shared = await company.create(
        PROVIDER,
        zone.id,
        name="Shared",
        identifier=issuer,
        protocols={"oauth2": {"jwks_uri": f"{publisher.url}/keys"}},
    )
    named = await workload(scene, shared, "named", subject="tenant-1")
    anyone = await workload(scene, shared, "anyone", any_subject=True)
    tokens = [signer.sign(iss=issuer, sub=subject) for subject in ("tenant-1", "tenant-2")]
    answers = [await scene.post(form(token)) for token in tokens]
    assert [claims_of(each["access_token"])["client_id"] for each in answers] == [named.id, anyone.id]
    await refused(scene, form(signer.sign(iss=workloads.identifier, sub="tenant-2")))

    for credential in (named, anyone):
        await company.delete(APPLICATION_CREDENTIAL, zone.id, credential.id)
    await company.delete(PROVIDER, zone.id, shared.id)
    for subject in ("tenant-1", "tenant-2"):
        await refused(scene, form(signer.sign(iss=issuer, sub=subject)))


@pytest.mark.threat("18a")
@pytest.mark.parametrize("changed", ["subject", "issuer", "keys"])
async def test_what_a_workload_led_to_ends_when_another_answers_to_its_credential(
    own_scene: Scene, publisher: Publisher, signer: Signer, changed: str
) -> None:
    """Its own tokens and what others have exchanged them for; the workload that is meant now begins anew."""
    scene, company, zone = own_scene, own_scene.company, own_scene.zone
    provider = await provider_of(scene, publisher)
    reader = await company.app(zone, "reader")
    api = await company.resource(zone, "https://api.test", scopes=["read"], application_id=reader.id)
    server = await company.app(zone, "server", dependencies=[api])
    tools = await company.resource(zone, "https://tools.test", application_id=server.id)
    deployer = await company.app(zone, "deployer", dependencies=[tools])
    made = await company.create(
        APPLICATION_CREDENTIAL,
        zone.id,
        application_id=deployer.id,
        type="token",
        provider_id=provider.id,
        subject="job",
    )
    signed = signer.sign(RSA, iss=provider.identifier, sub="job", aud=str(zone.protocols.oauth2.issuer))
    own = (await scene.post([*form(signed), ("resource", tools.identifier)]))["access_token"]
    further = (await scene.exchange(server, own, api))["access_token"]
    assert (await ask(scene, server, own))["active"]
    assert (await ask(scene, reader, further))["active"]
    await let_two_seconds_pass(scene)

    if changed == "subject":
        await company.update(APPLICATION_CREDENTIAL, zone.id, made.id, subject="another job")
    else:
        other = {"issuer": {"identifier": f"{publisher.url}/other"}, "keys": {"protocols": OTHER_KEYS}}
        await company.update(PROVIDER, zone.id, provider.id, **other[changed])

    assert await ask(scene, server, own) == {"active": False}
    assert await ask(scene, reader, further) == {"active": False}
    with pytest.raises(InvalidGrant):
        await scene.exchange(server, own, api)


async def let_two_seconds_pass(scene: Scene) -> None:
    """Tokens say whole seconds, and one of the second in which a name went may be the next one's."""
    now = scene.services.clock().timestamp()
    await let_elapse(int(now) + 2.05 - now)


OTHER_KEYS = {"oauth2": {"jwks_uri": "https://keys.test/jwks"}}


@pytest.mark.threat("34c")
@pytest.mark.standard("Assertion audiences (rfc7523bis)")
async def test_a_strict_zone_takes_its_issuer_as_the_only_audience(
    own_scene: Scene, publisher: Publisher
) -> None:
    """A strict zone takes the tokens of workloads for its issuer alone, too."""
    provider = await provider_of(own_scene, publisher)
    made = await workload(own_scene, provider, "strict-job", subject="job")
    signer = Signer(own_scene, await own_scene.company.app(own_scene.zone, "bystander"), made.id)

    def token(audience: str | list[str]) -> str:
        return signer.sign(RSA, iss=provider.identifier, sub="job", aud=audience)

    assert not [
        audience
        for audience in (signer.issuer, [signer.issuer])
        if not await own_scene.post(form(token(audience)))
    ]
    for audience in (signer.endpoint, [signer.endpoint]):
        await refused(own_scene, form(token(audience)))

    await set_zone_setting(own_scene.services, own_scene.zone.id, "strict-assertion-audience", "off")

    assert not [
        audience
        for audience in (signer.endpoint, [signer.endpoint], signer.issuer)
        if not await own_scene.post(form(token(audience)))
    ]

"""Clients whose credential is a token that a provider issued to their workload."""

from typing import Any

import pytest
from tests.runtime.clients.signing import FORM, RSA, STRANGER, Signer, form, refused
from tests.support.publisher import Publisher
from tests.support.scene import Scene, claims_of

from runtime.domain.kinds import APPLICATION_CREDENTIAL, PROVIDER
from runtime.domain.kinds.provider import Provider
from runtime.services.switches import set_switch


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
async def test_workloads(scene: Scene, signer: Signer, workloads: Provider) -> None:
    """Found by issuer and subject; used again until it ends; wrong in any respect it proves nothing."""
    made = await workload(scene, workloads, "deployer", subject="repo:acme/app:main")
    issuer = workloads.identifier

    def token(**changes: Any) -> str:
        plain = {"iss": issuer, "sub": "repo:acme/app:main", "jti": None}
        return signer.sign(RSA, **{**plain, **changes})

    again = token()
    for fields in (
        form(again),
        form(again),
        form(again, client_id=made.id),
        form(token(aud=[signer.issuer])),
    ):
        answer = await scene.post(fields)
        claims = claims_of(answer["access_token"])
        assert (claims["sub"], claims["client_id"]) == ("deployer", made.id)
    at = int(scene.parts.clock().timestamp())
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

    view = await scene.parts.zones.view(scene.zone.id)
    found = await view.client(made.id)
    assert found is not None
    assert found.application.identifier == "deployer"
    await refused(scene, [*FORM, ("client_id", made.id)])


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
    for subject, meant in (("tenant-1", named), ("tenant-2", anyone)):
        answer = await scene.post(form(signer.sign(iss=issuer, sub=subject)))
        assert claims_of(answer["access_token"])["client_id"] == meant.id
    await refused(scene, form(signer.sign(iss=workloads.identifier, sub="tenant-2")))

    for credential in (named, anyone):
        await company.delete(APPLICATION_CREDENTIAL, zone.id, credential.id)
    await company.delete(PROVIDER, zone.id, shared.id)
    for subject in ("tenant-1", "tenant-2"):
        await refused(scene, form(signer.sign(iss=issuer, sub=subject)))


@pytest.mark.threat("34c")
async def test_strict_audience(own_scene: Scene, publisher: Publisher) -> None:
    """A strict zone takes the tokens of workloads for its issuer alone, too."""
    provider = await provider_of(own_scene, publisher)
    made = await workload(own_scene, provider, "strict-job", subject="job")
    signer = Signer(own_scene, await own_scene.company.app(own_scene.zone, "bystander"), made.id)

    def token(audience: str | list[str]) -> str:
        return signer.sign(RSA, iss=provider.identifier, sub="job", aud=audience)

    for audience in (signer.endpoint, [signer.endpoint], signer.issuer):
        assert await own_scene.post(form(token(audience)))

    await set_switch(own_scene.parts, own_scene.zone.id, "strict-assertion-audience", "on")

    for audience in (signer.endpoint, [signer.endpoint]):
        await refused(own_scene, form(token(audience)))
    for audience in (signer.issuer, [signer.issuer]):
        assert await own_scene.post(form(token(audience)))

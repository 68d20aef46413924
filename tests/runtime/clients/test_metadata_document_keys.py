"""Clients whose keys a document at their client id names."""

from dataclasses import replace
from typing import Any

import pytest
from tests.runtime.clients.signing import FORM, STRANGER, Signer, form, refused
from tests.support.publisher import Publisher
from tests.support.scene import Scene, claims_of

from runtime.adapters.client_documents import ClientDocuments
from runtime.adapters.keys.remote import RemoteKeys
from runtime.adapters.outbound import Outbound
from runtime.domain.kinds import APPLICATION_CREDENTIAL


@pytest.mark.threat("7b", "7p", "7z")
@pytest.mark.standard("RFC 7523")
async def test_a_document_at_the_client_id(scene: Scene, publisher: Publisher) -> None:
    """A client's metadata or a protected resource's names the keys; one about something else is no use."""
    before = publisher.asked.count("/client.json")
    owner = await scene.company.app(scene.zone, "documented")

    async def documented(path: str, **document: Any) -> Signer:
        client_id = publisher.publish(path, {"jwks_uri": f"{publisher.url}/keys", **document})
        await scene.company.create(
            APPLICATION_CREDENTIAL, scene.zone.id, application_id=owner.id, type="url", identifier=client_id
        )
        return Signer(scene, owner, client_id)

    described = await documented("/client.json", client_id=f"{publisher.url}/client.json")
    resource = await documented("/.well-known/oauth-protected-resource", resource=f"{publisher.url}/mcp")
    signers = (described, resource)
    answers = [await scene.post(form(signer.sign())) for signer in signers]
    assert [claims_of(each["access_token"])["client_id"] for each in answers] == [
        signer.client_id for signer in signers
    ]
    for signer in signers:
        await refused(scene, form(signer.sign(STRANGER)))
        await refused(scene, [*FORM, ("client_id", signer.client_id)])
    assert publisher.asked.count("/client.json") == before + 1

    for path, document in (
        ("/1.json", {"client_id": f"{publisher.url}/client.json"}),
        ("/2.json", {"resource": "https://elsewhere.example/mcp"}),
        ("/3.json", {}),
        ("/4.json", {"client_id": f"{publisher.url}/4.json", "jwks_uri": None}),
        ("/5.json", {"client_id": f"{publisher.url}/5.json", "jwks_uri": "http://169.254.169.254:1/keys"}),
        ("/6.json", {"client_id": f"{publisher.url}/6.json", "jwks_uri": "file:///etc/passwd"}),
    ):
        await refused(scene, form((await documented(path, **document)).sign()))
    publisher.documents.pop("/3.json")
    gone = Signer(scene, owner, f"{publisher.url}/3.json")
    await refused(scene, form(gone.sign()))


@pytest.mark.threat("7a", "7b", "7x", "7z")
async def test_keys_and_documents_inside_our_own_network(
    scene: Scene, signer: Signer, publisher: Publisher
) -> None:
    """Where private addresses are not allowed nothing is sent to one: the client proves nothing."""
    path = "/inside.json"
    client_id = publisher.publish(path, {"client_id": f"{publisher.url}{path}", "jwks_uri": "x"})
    owner = await scene.company.app(scene.zone, "inside")
    await scene.company.create(
        APPLICATION_CREDENTIAL, scene.zone.id, application_id=owner.id, type="url", identifier=client_id
    )
    assert await scene.post(form(signer.sign()))
    outbound = Outbound(allow_private_addresses=False)
    guarded = replace(
        scene.services, remote_keys=RemoteKeys(outbound), client_documents=ClientDocuments(outbound)
    )
    asked = len(publisher.asked)
    for one in (signer, Signer(scene, owner, client_id)):
        await refused(scene, form(one.sign()), services=guarded)
    assert len(publisher.asked) == asked
    await outbound.aclose()

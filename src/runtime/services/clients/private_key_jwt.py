"""`private_key_jwt`: the public keys of a client, from its registration or its metadata document.

A document is fetched by the guarded client and remembered for as long as its site allows: a key that a client
takes out of it is worth nothing from then on.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from runtime.adapters.keys.jose import CompactJws
from runtime.adapters.keys.remote import check_with
from runtime.domain.errors import InvalidClient, PageError
from runtime.domain.kinds.application import PublicKeyCredential, UrlCredential
from runtime.domain.kinds.user_agent import ClientMetadata
from runtime.domain.oauth.assertions import InvalidAssertion
from runtime.services.client_types import Client, UserAgentClient
from runtime.services.clients import metadata_documents
from runtime.services.container import Services
from runtime.services.zones import CachedZone


async def check_signature(services: Services, zone: CachedZone, client: Client, jws: CompactJws) -> None:
    """Check that the client has signed.

    Raises: InvalidClient when it has no keys; InvalidToken; InvalidAssertion for a document that is no use;
        OutboundRefused, OutboundFailed.
    """
    partition = zone.sites_of_applications
    if isinstance(client, UserAgentClient):
        partition = zone.sites_of_clients
        metadata = await _described(services, zone, client)
        if metadata.jwks is not None:
            check_with(metadata.jwks, jws)
            return
        address = metadata.jwks_uri
    elif isinstance(client.credential, PublicKeyCredential):
        address = client.credential.jwks_uri
    elif isinstance(client.credential, UrlCredential):
        address = await _documented(services, zone, client.credential.identifier)
    else:
        raise InvalidClient(internal="a client without keys")
    if address is None:
        raise InvalidClient(internal="a client without keys")
    await services.remote_keys.check_signature(jws, address, partition=partition, strict=True)


async def _described(services: Services, zone: CachedZone, client: UserAgentClient) -> ClientMetadata:
    """What the client's own document says as long as it may be used, or says today. Raises InvalidClient."""
    if not client.is_public:
        try:
            client = await metadata_documents.current(services, zone, client.client_id)
        except PageError as failure:
            raise InvalidClient(internal=failure.internal or failure.detail) from None
    if client.is_public:
        raise InvalidClient(internal="a public client")
    return client.user_agent.client_metadata


async def _documented(services: Services, zone: CachedZone, client_id: str) -> str:
    """Where the document at a client id says that the keys are. Raises InvalidAssertion and as above."""
    found = await services.client_documents.get(client_id, partition=zone.sites_of_applications)
    return named_keys(found.document, client_id)


def named_keys(document: Mapping[str, object], client_id: str) -> str:
    """The address of the keys in a document that is about the client.

    It is a client's metadata, which repeats the client id to the letter, or a protected resource's, whose
    resource stands on the same site. Raises InvalidAssertion.
    Spec: zone interface, section 3; RFC 9728 section 3.3.
    """
    if "client_id" in document:
        is_about_it = document["client_id"] == client_id
    else:
        resource = document.get("resource")
        is_about_it = isinstance(resource, str) and _site(resource) == _site(client_id)
    if not is_about_it:
        raise InvalidAssertion("the document is about something else")
    address = document.get("jwks_uri")
    if not isinstance(address, str):
        raise InvalidAssertion("the document names no keys")
    return address


def _site(address: str) -> tuple[str, str]:
    try:
        parts = urlsplit(address)
    except ValueError:
        return "", ""
    return parts.scheme, parts.netloc

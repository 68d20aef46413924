"""Where the keys stand that a client signs with."""

from typing import TYPE_CHECKING

from runtime.domain.errors import InvalidClient
from runtime.domain.kinds.application import PublicKeyCredential
from runtime.services.parties import ApplicationClient, Client
from runtime.services.zones import ZoneView

if TYPE_CHECKING:
    from runtime.services.parts import Parts


async def key_address(parts: "Parts", view: ZoneView, client: Client) -> str:
    """The address of the client's JWK set. Raises InvalidClient when it has none."""
    credential = client.credential if isinstance(client, ApplicationClient) else None
    if isinstance(credential, PublicKeyCredential):
        return credential.jwks_uri
    raise InvalidClient(internal="a client without keys")

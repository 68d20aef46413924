"""Pushed authorization requests (RFC 9126): stores them, and resolves their `request_uri`.

What was pushed is checked when it arrives, and again when the browser brings its name: a minute is long
enough for an application to be changed. The name works once, at the first authorize request that shows it.

Spec: RFC 9126.
"""

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import BadLink, FormTooLarge, InvalidRequest, PageError
from runtime.services import state_values
from runtime.services.authorization import requests
from runtime.services.authorization.requests import Parameters
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.zones import CachedZone

PUSHED_SECONDS = 60
MAX_CHARS = 16 * 1024  # of all names and values: as much as a browser could bring by itself
PREFIX = "urn:ietf:params:oauth:request_uri:"
# How the client authenticated is no part of what it asks for.
_OF_AUTHENTICATION = frozenset({"client_secret", "client_assertion", "client_assertion_type"})
_LOST = "this sign-in link has expired or was used already; go back to the application and try again"


class PushedRequest(BaseModel):
    """A request that waits for its browser."""

    model_config = ConfigDict(frozen=True)

    client_id: str
    parameters: list[tuple[str, str]]


async def push(services: Services, zone: CachedZone, client: Client, sent: Iterable[tuple[str, str]]) -> str:
    """Keep a request for a minute; the `request_uri` it goes by.

    Raises: InvalidRequest, also for a `request_uri` in the request and for a redirect URI that is not
        registered; FormTooLarge; whatever else an authorize request is refused with.
    """
    pairs = [(name, value) for name, value in sent if name not in _OF_AUTHENTICATION]
    if not any(name == "client_id" for name, _ in pairs):
        pairs.append(("client_id", client.client_id))
    try:
        parameters = Parameters(pairs)
        if "request_uri" in parameters:
            raise InvalidRequest(
                "`request_uri` is not allowed in a pushed request; send the parameters themselves"
            )
        asking, address = await requests.resolve_client(services, zone, parameters)
    except PageError as failure:
        raise InvalidRequest(failure.detail, internal=failure.internal) from None
    if asking.client_id != client.client_id:
        raise InvalidRequest("`client_id` is not the client that authenticated")
    await requests.check(services, zone, parameters, client=client, address=address)
    return await store_request(services, zone, client, parameters)


async def store_request(services: Services, zone: CachedZone, client: Client, parameters: Parameters) -> str:
    """Keep the parameters of a request for a minute, in order or not; the `request_uri` they go by.

    Raises: FormTooLarge.
    """
    if sum(len(name) + len(value) for name, value in parameters.pairs) > MAX_CHARS:
        raise FormTooLarge("the request is too long")
    name = new_secret()
    key = _key(services, zone, name)
    plain = PushedRequest(client_id=client.client_id, parameters=parameters.pairs).model_dump_json().encode()
    sealed = zone.sealer.seal(plain, bound_to=key)
    await services.state.put_once(key, sealed, ttl_seconds=PUSHED_SECONDS)
    return f"{PREFIX}{name}"


async def resolve_request_uri(services: Services, zone: CachedZone, parameters: Parameters) -> Parameters:
    """The parameters of an authorize request: those that were pushed, when it names some, and no others.

    Raises: BadLink when there are none of that name any more, or another client pushed them.
    """
    try:
        request_uri, client_id = parameters.one("request_uri"), parameters.one("client_id")
    except InvalidRequest as failure:
        raise BadLink(failure.detail) from None
    if request_uri is None or not request_uri.startswith(PREFIX):
        return parameters
    key = _key(services, zone, request_uri.removeprefix(PREFIX))
    pushed = state_values.read_sealed(
        PushedRequest, await services.state.take(key), zone.sealer, bound_to=key
    )
    if pushed is None:
        raise BadLink(_LOST)
    if pushed.client_id != client_id:
        raise BadLink(_LOST, internal="pushed by another client")
    return Parameters(pushed.parameters)


def _key(services: Services, zone: CachedZone, name: str) -> str:
    return f"pushed:{zone.id}:{services.hasher.hash(name).hex()}"

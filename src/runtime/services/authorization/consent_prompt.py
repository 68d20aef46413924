"""The consent prompt: the content of the consent page."""

from collections.abc import Collection
from dataclasses import dataclass

from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.user_agent import Registration
from runtime.domain.oauth import redirect_uris
from runtime.domain.oauth.scopes import POLICY_BUNDLE
from runtime.services.authorization.requests import AuthorizationRequest
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.zones import CachedZone
from runtime.storage.sql import zone_data as lookups

_IN_WORDS = {
    "openid": "know who you are",
    "profile": "see your name and profile",
    "email": "see your e-mail address",
    "offline_access": "keep acting for you after you have signed out, until you withdraw this",
    POLICY_BUNDLE: "see and change the policies with which you limit what applications may do for you",
}
_ORDER = tuple(_IN_WORDS)


@dataclass(frozen=True, slots=True)
class PromptedResource:
    """One resource as the consent page shows it."""

    name: str
    identifier: str
    description: str | None
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConsentPrompt:
    """What a user is asked.

    Attributes:
        self_registered: the client introduced itself, so its name is only what it says.
        redirect_host: where the answer goes, for the user to compare; None for a page of the zone.
        on_this_device: the answer goes to a program on the user's own machine, which could be any program.
        sign_in: sign-in scopes in words.
    """

    application: str
    description: str | None
    self_registered: bool
    redirect_host: str | None
    on_this_device: bool
    sign_in: tuple[str, ...]
    resources: tuple[PromptedResource, ...]


async def build_prompt(
    services: Services, zone: CachedZone, request: AuthorizationRequest, client: Client
) -> ConsentPrompt:
    """What the consent page says of an authorization request."""
    shown = []
    async with services.database.reading() as conn:
        for asked in request.resources:
            resource = await lookups.resource(conn, zone.id, asked.id)
            if resource is not None:
                shown.append(prompted_resource(resource, asked.scopes))
    return prompt_of(client, request.redirect_uri, in_words(request.scopes), shown)


def prompt_of(
    client: Client,
    redirect_uri: str | None,
    sign_in: Collection[str],
    resources: Collection[PromptedResource],
) -> ConsentPrompt:
    """What a page says of a client that wants these.

    Args:
        redirect_uri: where the answer goes; None for an answer on a page of the zone.
        sign_in: sign-in scopes in words.
    """
    return ConsentPrompt(
        application=client.name,
        description=client.description,
        self_registered=client.registration is not Registration.MANAGED,
        redirect_host=redirect_uris.host_of(redirect_uri) if redirect_uri is not None else None,
        on_this_device=redirect_uri is not None and redirect_uris.is_loopback(redirect_uri),
        sign_in=tuple(sign_in),
        resources=tuple(resources),
    )


def prompted_resource(resource: Resource, scopes: Collection[str]) -> PromptedResource:
    """A resource as pages show it."""
    return PromptedResource(resource.name, resource.identifier, resource.description, tuple(sorted(scopes)))


def in_words(scopes: Collection[str]) -> tuple[str, ...]:
    """Sign-in scopes as people read them, each as the end of "it is able to"."""
    return tuple(_IN_WORDS[scope] for scope in _ORDER if scope in scopes)

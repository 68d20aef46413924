"""Builds Cedar authorization requests: principal, action, resource and context from typed values.

No identifier ever becomes part of Cedar text, so nothing a user or an application is called can become a
rule.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Action = Literal["exchange", "direct"]
_WHOLE_SECONDS = 60  # requests of the same minute are the same question, so a decision can be remembered


@dataclass(frozen=True, slots=True)
class PolicyGroup:
    """A group of the user, with the identifiers of the roles it hands down."""

    identifier: str
    name: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyUser:
    """The user whose authority is used: `identifier` in the zone, and the `roles` assigned directly."""

    identifier: str
    email: str | None = None
    groups: tuple[PolicyGroup, ...] = ()
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyApplication:
    """An application, as it stands and as it authenticated.

    Attributes:
        registration: `managed`, `dynamic` or `metadata-document`.
        credential: the type of the credential it used; empty for one that only appears further up the
            chain.
        dependencies: identifiers of declared dependencies; those that concern the request are enough.
    """

    identifier: str
    registration: str = "managed"
    credential: str = ""
    traits: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyResource:
    """The target, with the application that provides it."""

    identifier: str
    scopes: tuple[str, ...] = ()
    provider: PolicyApplication | None = None


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """One question: may this principal do this to that resource, under these circumstances?

    Attributes:
        context: in the engine's JSON form, as entities are.
        common_entities: of the application and the resource, which are the same whoever the user is.
        user_entities: of the user. A role that is among both is the same in both.
    """

    principal_type: Literal["User", "Application"]
    principal_id: str
    action: Action
    resource_id: str
    context: Mapping[str, Any]
    common_entities: tuple[Mapping[str, Any], ...]
    user_entities: tuple[Mapping[str, Any], ...]


def exchange(
    principal: PolicyUser | PolicyApplication,
    *,
    application: PolicyApplication,
    actors: tuple[str, ...],
    resource: PolicyResource,
    scopes: Iterable[str],
    now: datetime,
    authenticated_at: datetime | None = None,
    acr: str | None = None,
) -> PolicyRequest:
    """May *application* have a token for *resource* on behalf of *principal*?

    Args:
        actors: identifiers of the chain, the asking application first, as the token's `act` will say.
    """
    return _ask(
        "exchange",
        principal,
        application,
        resource,
        _circumstances(application, actors, scopes, now, authenticated_at, acr),
    )


def direct(
    application: PolicyApplication, *, resource: PolicyResource, scopes: Iterable[str], now: datetime
) -> PolicyRequest:
    """May *application* have a token for *resource* on its own behalf?"""
    context = _circumstances(application, (application.identifier,), scopes, now, None, None)
    return _ask("direct", application, application, resource, context)


def reference(kind: str, identifier: str) -> dict[str, str]:
    """An entity's name, in the engine's JSON form."""
    return {"type": kind, "id": identifier}


def _ask(
    action: Action,
    principal: PolicyUser | PolicyApplication,
    application: PolicyApplication,
    resource: PolicyResource,
    context: dict[str, Any],
) -> PolicyRequest:
    return PolicyRequest(
        principal_type="User" if isinstance(principal, PolicyUser) else "Application",
        principal_id=principal.identifier,
        action=action,
        resource_id=resource.identifier,
        context=context,
        common_entities=_each_once(
            # First, because it may be the one that asks, of which more is known. Without it, an attribute of
            # the provider would be an error, and a role of it one that it does not have.
            *(_application_entities(resource.provider) if resource.provider is not None else ()),
            *(_application_entities(principal) if isinstance(principal, PolicyApplication) else ()),
            *_application_entities(application),
            _resource_entity(resource),
        ),
        user_entities=_each_once(*_user_entities(principal)) if isinstance(principal, PolicyUser) else (),
    )


def _each_once(*entities: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The entities without those that a later one of the same name replaces."""
    return tuple({(each["uid"]["type"], each["uid"]["id"]): each for each in entities}.values())


def _circumstances(
    application: PolicyApplication,
    actors: tuple[str, ...],
    scopes: Iterable[str],
    now: datetime,
    authenticated_at: datetime | None,
    acr: str | None,
) -> dict[str, Any]:
    at = int(now.timestamp())
    context: dict[str, Any] = {
        "application": _entity_value("Application", application.identifier),
        "actors": [_entity_value("Application", actor) for actor in actors],
        "chain_depth": len(actors),
        "credential": application.credential,
        "registration": application.registration,
        "scopes": sorted(scopes),
        "now": at - at % _WHOLE_SECONDS,
    }
    if authenticated_at is not None:
        context["authenticated_at"] = int(authenticated_at.timestamp())
    if acr is not None:
        context["acr"] = acr
    return context


def _user_entities(user: PolicyUser) -> list[dict[str, Any]]:
    attributes: dict[str, Any] = {"identifier": user.identifier}
    if user.email is not None:
        attributes["email"] = user.email
    parents = [reference("Group", group.identifier) for group in user.groups]
    entities = [_entity("User", user.identifier, attributes, parents + _roles(user.roles))]
    for group in user.groups:
        described = {"identifier": group.identifier, "name": group.name}
        entities.append(_entity("Group", group.identifier, described, _roles(group.roles)))
    granted = (*user.roles, *(role for group in user.groups for role in group.roles))
    return entities + [_role_entity(role) for role in granted]


def _application_entities(application: PolicyApplication) -> list[dict[str, Any]]:
    attributes = {
        "identifier": application.identifier,
        "traits": list(application.traits),
        "registration": application.registration,
        "credential": application.credential,
        "dependencies": [_entity_value("Resource", name) for name in application.dependencies],
    }
    entity = _entity("Application", application.identifier, attributes, _roles(application.roles))
    return [entity, *(_role_entity(role) for role in application.roles)]


def _resource_entity(resource: PolicyResource) -> dict[str, Any]:
    attributes: dict[str, Any] = {"identifier": resource.identifier, "scopes": list(resource.scopes)}
    if resource.provider is not None:
        attributes["provider"] = _entity_value("Application", resource.provider.identifier)
    return _entity("Resource", resource.identifier, attributes, [])


def _role_entity(identifier: str) -> dict[str, Any]:
    return _entity("Role", identifier, {"identifier": identifier}, [])


def _roles(identifiers: Iterable[str]) -> list[dict[str, str]]:
    return [reference("Role", identifier) for identifier in identifiers]


def _entity(
    kind: str, identifier: str, attributes: dict[str, Any], parents: list[dict[str, str]]
) -> dict[str, Any]:
    return {"uid": reference(kind, identifier), "attrs": attributes, "parents": parents}


def _entity_value(kind: str, identifier: str) -> dict[str, Any]:
    return {"__entity": reference(kind, identifier)}

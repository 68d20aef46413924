"""The specs of entities, as manifests write them: what a snapshot shows, and what an adoption finds."""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.answers import plain
from runtime.contract.bodies import settable
from runtime.contract.manifests import spec_members
from runtime.domain.kinds import APPLICATION, GROUP, POLICY, POLICY_SET, ROLE_ASSIGNMENT, Entity, Kind, Verb
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.marks import Mark, members, part_of
from runtime.domain.kinds.role import RoleAssignment
from runtime.domain.kinds.values import PrincipalType
from runtime.domain.kinds.zone import ADDRESSES, Zone
from runtime.storage.sql import accountability, changes

Extras = Callable[[Entity], dict[str, Any]]


def spec_of(kind: Kind, entity: Entity, extras: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest says of an entity, references as ids; members without a value are left out."""
    values = entity.__dict__
    spec: dict[str, Any] = {}
    for name, shared in _compared(kind, type(entity)):
        value = values[name]
        if value is not None:
            shown = plain(value)
            spec[name] = _only_settable(type(value), shown) if shared else shown
    if isinstance(entity, Zone):
        oauth2 = entity.protocols.oauth2
        spec["slug"] = entity.slug
        spec["addresses"] = {name: getattr(oauth2, name) for name in ADDRESSES}
    return {**spec, **extras}


@cache
def _compared(kind: Kind, model: type[Entity]) -> tuple[tuple[str, bool], ...]:
    """The members that a manifest can set, each with whether the service shares in it."""
    beside = kind.extras.model_fields if kind.extras else {}
    found = {
        name: member
        for name, member in spec_members(kind).items()
        if name in model.model_fields and name not in beside and _is_said(kind, model, name)
    }
    return tuple(
        (name, (part := part_of(member.annotation)) is not None and _is_shared(part))
        for name, member in found.items()
        if not member.has(Mark.SEALED)
    )


@cache
def is_named(kind: Kind, model: type[Entity]) -> bool:
    """Tell whether entities of a variant can be found by their handle: not by one the service decides."""
    return kind.handle is not None and _is_said(kind, model, kind.handle)


def _is_said(kind: Kind, model: type[Entity], name: str) -> bool:
    """Tell whether a variant takes from its caller what another variant of the union may take."""
    return not kind.variants or name in settable(model, Verb.CREATE) or name in settable(model, Verb.UPDATE)


@cache
def _is_shared(part: type[BaseModel]) -> bool:
    """Tell whether the service decides some member of an object, at any depth."""
    return any(
        member.has(Mark.SERVER) or ((inner := part_of(member.annotation)) is not None and _is_shared(inner))
        for member in members(part).values()
    )


def _only_settable(part: type[BaseModel], shown: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, member in members(part).items():
        if name not in shown or member.has(Mark.SERVER):
            continue
        inner = part_of(member.annotation)
        shared = inner is not None and _is_shared(inner)
        kept[name] = _only_settable(inner, shown[name]) if shared and inner else shown[name]
    return kept


def _nothing(_: Entity) -> dict[str, Any]:
    return {}


async def extras_of(conn: AsyncConnection, kind: Kind, zone_ids: Collection[str]) -> Extras:
    """What a manifest says beside the members: a function of the entity, with nothing left to query."""
    if kind is APPLICATION:
        dependencies = await changes.dependencies(conn, zone_ids)
        addresses = await accountability.addresses(conn, zone_ids)
        return lambda entity: {
            "dependencies": dependencies.get(entity.id, []),
            **accountable_user(entity, addresses),
        }
    if kind is GROUP:
        emails = await changes.member_emails(conn, zone_ids)
        return lambda entity: {"members": emails.get(entity.id, [])}
    if kind is POLICY:
        texts = await changes.latest_texts(conn, zone_ids)
        return lambda entity: {"cedar": texts.get(entity.id)}
    if kind is POLICY_SET:
        contents = await changes.set_contents(conn, zone_ids)
        active = await changes.active_sets(conn, zone_ids)
        return lambda entity: {
            "policies": [entry["policy_id"] for entry in contents.get(entity.id, [])],
            "active": entity.id in active,
        }
    if kind is ROLE_ASSIGNMENT:
        users = await changes.assigned_users(conn, zone_ids)
        return lambda entity: assignment_spec(entity, users)
    return _nothing


def accountable_user(application: Entity, addresses: Mapping[str, str]) -> dict[str, str]:
    """The accountable user of an application as a manifest names them: by address; a deleted one by the id.

    Args:
        addresses: id -> address of the users who are accountable for an application.
    """
    if not isinstance(application, Application):
        raise TypeError(f"{type(application).__name__} is no Application")
    user_id = application.accountable_user_id
    return {} if user_id is None else {"accountable_user": addresses.get(user_id, user_id)}


def assignment_spec(assignment: Entity, users: Mapping[str, str]) -> dict[str, Any]:
    """A role assignment as a manifest writes it. `users`: id -> address of the users who hold roles."""
    if not isinstance(assignment, RoleAssignment):
        raise TypeError(f"{type(assignment).__name__} is no RoleAssignment")
    holder = assignment.principal_id
    principal = {
        PrincipalType.GROUP: {"group_id": holder},
        PrincipalType.APPLICATION: {"application_id": holder},
        PrincipalType.USER: {"user": users.get(holder, holder)},
    }[assignment.principal_type]
    return {"role_id": assignment.role_id, "principal": principal}

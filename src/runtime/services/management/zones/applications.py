"""Applications: redirect URIs, traits, who is accountable for them, and dependencies on resources."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from runtime.domain.errors import Forbidden, NotFound, Problem, ValidationFailed
from runtime.domain.kinds import APPLICATION, RESOURCE, Entity, Kind, Verb
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import OwnerType
from runtime.domain.oauth import logout, redirect_uris
from runtime.services.management import credential_scope, entities, token_revocation
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.management.zones import application_types
from runtime.storage.sql import accountability, changes, directory
from runtime.storage.sql import applications as storage
from runtime.storage.sql import entities as rows

DEPENDENCIES = "application_dependencies"


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of applications; `traits` selects any of, `traits[all]` all of the values."""
    scope = await entities.scope_of(unit, APPLICATION, parents)
    entities.require(unit, APPLICATION, Verb.LIST, scope)
    more = []
    if any_of := query.special.get("traits"):
        more.append(storage.has_traits([(trait,) for trait in any_of]))
    if all_of := query.special.get("traits[all]"):
        more.append(storage.has_traits([tuple(all_of)]))
    listed = await entities.page(unit, APPLICATION, scope, query, *more)
    return listed.with_items(await counted(unit, scope["zone_id"], listed.items))


async def retrieve(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, expands: frozenset[str] = frozenset()
) -> Entity:
    """The application, with the number of its dependencies."""
    found = await entities.retrieve(unit, APPLICATION, parents, entity_id)
    return (await counted(unit, parents["zone_id"], [found]))[0]


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Make an application, with its first dependencies."""
    scope = await entities.scope_of(unit, APPLICATION, parents)
    entities.require(unit, APPLICATION, Verb.CREATE, scope)
    made = await entities.new_entity(unit, APPLICATION, scope, body)
    _check_addresses(unit, made)
    _check_accountable_when_finished(unit, made)
    await entities.add(unit, APPLICATION, made)
    if wanted := body.get("dependencies"):
        await set_dependencies(unit, made, [entry["id"] for entry in wanted], has_none=True)
    return (await counted(unit, scope["zone_id"], [made]))[0] if wanted or any(_accountable(made)) else made


async def update(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Change an application."""
    scope, before = await entities.for_change(unit, APPLICATION, parents, entity_id, Verb.UPDATE)
    after = await entities.patched(unit, APPLICATION, scope, before, patch)
    _check_addresses(unit, after)
    application_types.check_application_when_finished(unit, before, after)
    stored = await _store(unit, before, after)
    return (await counted(unit, scope["zone_id"], [stored]))[0]


async def _store(unit: UnitOfWork, before: Application, after: Application) -> Application:
    _check_accountable_when_finished(unit, after)
    stored = await entities.change(unit, APPLICATION, {"zone_id": before.zone_id}, before, after)
    if _accountable(after) != _accountable(before):
        await token_revocation.revoke_ended(unit, after.zone_id, [after.id])
    return stored


def _accountable(application: Application) -> tuple[str | None, str | None]:
    return application.accountable_user_id, application.accountable_group_id


def _check_accountable_when_finished(unit: UnitOfWork, application: Application) -> None:
    """Check that not both a user and a group are accountable when the unit finishes.

    Until then a changeset may replace the one with the other, in two steps.
    """
    if any(_accountable(application)):
        check = partial(_require_one_accountable, unit, application.zone_id, application.id)
        unit.defer_check(APPLICATION, application.id, "accountable", check)


async def _require_one_accountable(unit: UnitOfWork, zone_id: str, application_id: str) -> None:
    found = await rows.many(unit.conn, APPLICATION, [application_id], within={"zone_id": zone_id})
    if found and all(_accountable(found[0])):
        raise ValidationFailed.of(
            "accountable_group_id", "conflicts with `accountable_user_id`; set one of them to null"
        )


async def set_accountable_user(unit: UnitOfWork, before: Application, email: str | None) -> Application:
    """Make whoever has that verified address accountable for an application, now or one day; or nobody.

    Until somebody has it, the application names the address in place of a user. Raises ValidationFailed.
    """
    await entities.require_in(unit, APPLICATION, Verb.UPDATE, before.zone_id)
    entities.refuse_platform_owned(APPLICATION, before)
    named = None
    if email is not None:
        await unit.next_revision()
        address = email.lower()
        known = await directory.users_by_email(unit.conn, [address], zone_id=before.zone_id)
        named = next((user_id for user_id, _, is_verified in known if is_verified), address)
    return await _store(unit, before, before.model_copy(update={"accountable_user_id": named}))


def _check_addresses(unit: UnitOfWork, application: Application) -> None:
    """Raise ValidationFailed for an address that no authorization answer, or no logout token, may go to.

    Spec: RFC 9700 section 4.1.3; OpenID Connect RP-initiated logout for the second list.
    """
    oauth2 = application.protocols.oauth2 if application.protocols else None
    if oauth2 is None:
        return
    problems = [
        Problem(
            "validation_error", redirect_uris.EXPLANATIONS[reason], f"protocols.oauth2.{member}[{position}]"
        )
        for member in ("redirect_uris", "post_logout_redirect_uris")
        for position, uri in enumerate(getattr(oauth2, member) or ())
        if (reason := redirect_uris.refusal(uri)) is not None
    ]
    address, on_loopback = oauth2.backchannel_logout_uri, unit.services.settings.allow_private_addresses
    if address is not None and (reason := logout.address_refusal(address, on_loopback=on_loopback)):
        explanation = logout.EXPLANATIONS[reason]
        problems.append(Problem("validation_error", explanation, "protocols.oauth2.backchannel_logout_uri"))
    if problems:
        raise ValidationFailed(f"`{problems[0].field}` {problems[0].message}", problems=problems)


async def counted(unit: UnitOfWork, zone_id: str, found: Sequence[Entity]) -> list[Entity]:
    """The applications with their numbers of dependencies, and whether each is suspended.

    One query, and another where somebody is accountable for one of them.
    """
    counts = await storage.count_dependencies(unit.conn, [one.id for one in found], zone_id=zone_id)
    named = [one.id for one in found if isinstance(one, Application) and any(_accountable(one))]
    suspended = await accountability.ended(unit.conn, zone_id, named) if named else ()
    return [
        one.model_copy(update={"dependencies_count": counts.get(one.id, 0), "suspended": one.id in suspended})
        if one.id in counts or one.id in suspended
        else one  # which says so by itself
        for one in found
    ]


# --- dependencies


async def set_dependencies(
    unit: UnitOfWork,
    application: Entity,
    resource_ids: Iterable[str],
    *,
    has_none: bool = False,
) -> None:
    """Make these, and no others, the resources that an application depends on.

    What stays keeps the condition under which it is available. Raises ValidationFailed, Forbidden.

    Args:
        has_none: the application is known to have no dependencies yet.
    """
    zone_id: str = application.zone_id  # type: ignore[attr-defined]
    await entities.require_in(unit, DEPENDENCIES, Verb.CREATE, zone_id)
    entities.refuse_platform_owned(APPLICATION, application)
    wanted = set(resource_ids)
    await entities.require_in_zone(unit, RESOURCE, zone_id, sorted(wanted), field="dependencies")
    present: Mapping[str, Any] = {}
    if not has_none:
        present = await storage.dependencies_of(unit.conn, application.id, zone_id=zone_id)
    if missing := sorted(wanted - present.keys()):
        await credential_scope.refuse_lent_credentials(unit, zone_id, missing)
        await _touch(unit, application)
        await storage.add_dependencies(unit.conn, application.id, missing, zone_id=zone_id, now=unit.now)
        for resource_id in missing:
            await _record(unit, application, "add", after=_told(resource_id))
    if gone := sorted(present.keys() - wanted):
        await _remove(unit, application, gone)


async def list_dependencies(
    unit: UnitOfWork, parents: Parents, application_id: str, query: ListQuery
) -> Listed:
    """One page of the resources an application depends on, each with its `when_accessing`."""
    scope = await _application_scope(unit, parents, application_id, Verb.LIST)
    present = await storage.dependencies_of(unit.conn, application_id, zone_id=scope["zone_id"])
    for wanted in query.special.get("when_accessing", ()):
        present = {one: conditions for one, conditions in present.items() if wanted in conditions}
    listed = await entities.page(unit, RESOURCE, scope, query, rows.Equals("id", tuple(present)))
    return listed.with_items([_conditional(one, present[one.id]) for one in listed.items])


async def retrieve_dependency(
    unit: UnitOfWork, parents: Parents, application_id: str, resource_id: str
) -> Entity:
    """One resource an application depends on. Raises NotFound when it does not."""
    scope = await _application_scope(unit, parents, application_id, Verb.RETRIEVE)
    present = await storage.dependencies_of(unit.conn, application_id, zone_id=scope["zone_id"])
    if resource_id not in present:
        raise NotFound(f"there is no Resource `{resource_id}`")
    found = await rows.get(unit.conn, RESOURCE, resource_id, within=scope)
    return _conditional(found, present[resource_id])


async def add_dependency(
    unit: UnitOfWork, parents: Parents, application_id: str, resource_id: str, when_accessing: Sequence[str]
) -> None:
    """Declare a dependency; of one that is there, only the condition is replaced.

    Raises: NotFound for a resource of another zone, ValidationFailed for such a condition; Forbidden for one
        of another configuration whose credentials are not made by the zone.
    """
    scope = await _application_scope(unit, parents, application_id, Verb.CREATE)
    application = await rows.get(unit.conn, APPLICATION, application_id, within=scope)
    if getattr(application, "owner_type", None) is OwnerType.PLATFORM:
        raise Forbidden(f"Application `{application_id}` is managed by the service and cannot be changed")
    await credential_scope.refuse_others_of(unit, APPLICATION, application_id)
    await rows.get(unit.conn, RESOURCE, resource_id, within=scope)
    await entities.require_in_zone(
        unit, RESOURCE, scope["zone_id"], list(when_accessing), field="when_accessing"
    )
    present = await storage.dependencies_of(unit.conn, application_id, zone_id=scope["zone_id"])
    if present.get(resource_id) == tuple(when_accessing):
        return
    # Another condition, too: without one, a dependency holds for every request.
    await credential_scope.refuse_lent_credentials(unit, scope["zone_id"], [resource_id])
    await _put(unit, application, resource_id, tuple(when_accessing))


async def remove_dependency(
    unit: UnitOfWork, parents: Parents, application_id: str, resource_id: str
) -> None:
    """Withdraw a dependency. Raises NotFound when there is none."""
    scope = await _application_scope(unit, parents, application_id, Verb.DELETE)
    application = await rows.get(unit.conn, APPLICATION, application_id, within=scope)
    entities.refuse_platform_owned(APPLICATION, application)
    await credential_scope.refuse_others_of(unit, APPLICATION, application_id)
    present = await storage.dependencies_of(unit.conn, application_id, zone_id=scope["zone_id"])
    if resource_id not in present:
        raise NotFound(f"there is no Resource `{resource_id}`")
    await _remove(unit, application, [resource_id])


async def _application_scope(
    unit: UnitOfWork, parents: Parents, application_id: str, verb: Verb
) -> dict[str, str]:
    scope = await entities.scope_of(unit, APPLICATION, parents)
    await rows.get(unit.conn, APPLICATION, application_id, within=scope)
    entities.require(unit, DEPENDENCIES, verb, scope)
    return scope


def _conditional(resource: Resource, when_accessing: tuple[str, ...]) -> Resource:
    return resource.model_copy(update={"when_accessing": list(when_accessing)})


async def _put(
    unit: UnitOfWork, application: Entity, resource_id: str, when_accessing: tuple[str, ...]
) -> None:
    zone_id = await _touch(unit, application)
    await storage.upsert_dependency(
        unit.conn, application.id, resource_id, zone_id=zone_id, when_accessing=when_accessing, now=unit.now
    )
    await _record(unit, application, "add", after=_told(resource_id, when_accessing))


async def _remove(unit: UnitOfWork, application: Entity, resource_ids: Iterable[str]) -> None:
    zone_id = await _touch(unit, application)
    for resource_id in resource_ids:
        await storage.remove_dependency(unit.conn, application.id, resource_id, zone_id=zone_id)
        await _record(unit, application, "remove", before={"resource_id": resource_id})


def _told(resource_id: str, when_accessing: Sequence[str] = ()) -> dict[str, Any]:
    return {"resource_id": resource_id, "when_accessing": list(when_accessing)}


async def _record(
    unit: UnitOfWork,
    application: Entity,
    what: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    zone_id: str = application.zone_id  # type: ignore[attr-defined]
    action = f"{DEPENDENCIES}.{what}"
    await unit.record(action, APPLICATION.name, application.id, zone_id, before=before, after=after)


async def _touch(unit: UnitOfWork, application: Entity) -> str:
    """A plan that was made before may not overwrite the dependencies it has not seen. The zone's id."""
    zone_id: str = application.zone_id  # type: ignore[attr-defined]
    revision = await unit.next_revision()
    if application.revision != revision:
        await changes.touch(unit.conn, APPLICATION, application.id, zone_id=zone_id, revision=revision)
    return zone_id

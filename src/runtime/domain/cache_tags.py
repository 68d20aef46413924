"""The tags of the cached answers that a management write can change: one rule for each kind of change.

A tag is the id of an entity or a name by which it is looked up. Whatever is cached has the tags of what it
was made from; a write evicts what has one of its tags, and of the rest of the zone nothing.

What goes, or is called otherwise from now on, leaves tokens behind that are worth nothing, and a name that
another one may have next. The names that a write withdraws are tags, too: `EpochUpdates` adds them to those
of these rules. Who had a role that goes is not known here: `entities.remove` adds them.

What has no rule here evicts everything, and so does every change that reaches further than its entity: of a
provider, the zone itself, its keys, and which policies are in force.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from runtime.domain.kinds.application import Application, ApplicationCredential
from runtime.domain.kinds.base import Entity
from runtime.domain.kinds.policy import Policy, PolicySet, PolicySetVersion, PolicyVersion
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import Group, Role, RoleAssignment, User
from runtime.domain.kinds.secret import Secret

EVERYTHING = None
NOTHING: frozenset[str] = frozenset()
# Of what asks whether somebody accountable is active, and of what could be the longest prefix of a long name.
PEOPLE = "people"
RESOURCES = "resources"
# Shown to people, and looked at by no decision.
_SHOWN = frozenset({"description", "metadata"})
_SHOWN_SUFFIX = " shown"
_WRITTEN = frozenset({"updated_at", "revision"})

Tags = frozenset[str] | None
EntityRule = Callable[[Any, Any], Tags]
RecordRule = Callable[[str, Mapping[str, Any]], Tags]


def shown(entity_id: str) -> str:
    """The tag of what only people are shown of an entity."""
    return f"{entity_id}{_SHOWN_SUFFIX}"


def decisive(tags: Collection[str]) -> frozenset[str]:
    """Those of the tags that a decision can depend on: what people are shown is none of them."""
    return frozenset(tag for tag in tags if not tag.endswith(_SHOWN_SUFFIX))


def provided_by(application_id: str) -> str:
    """The tag of the list of the resources that an application provides."""
    return f"resources of {application_id}"


def of_write(kind: str, before: Entity | None, after: Entity | None) -> Tags:
    """The tags that a write of an entity changes; None for everything.

    Args:
        kind: its name.
        before, after: None for one that is made, or goes.
    """
    entity = after or before
    rule = _WRITES.get((kind, _verb(before, after)))
    return EVERYTHING if rule is None or entity is None else rule(before or entity, entity)


def of_record(action: str, entity_id: str, values: Mapping[str, Any]) -> Tags:
    """The tags that a change of something changes that is no entity of its own; None for everything.

    Args:
        action: as audit records have it.
        values: what the record says of it.
    """
    rule = _RECORDS.get(action)
    return EVERYTHING if rule is None else rule(entity_id, values)


def changed_members(before: Entity, after: Entity) -> frozenset[str]:
    """The names of the members that differ, but for those that tell of every write."""
    names = type(after).model_fields.keys() | type(before).model_fields.keys()
    differing = {name for name in names if getattr(before, name, None) != getattr(after, name, None)}
    return frozenset(differing - _WRITTEN)


def _verb(before: Entity | None, after: Entity | None) -> str:
    return "create" if before is None else "delete" if after is None else "update"


def _nothing(before: Entity, after: Entity) -> Tags:
    return NOTHING


def _itself(before: Entity, after: Entity) -> Tags:
    return frozenset({after.id})


def _named(before: Application | ApplicationCredential, after: Application | ApplicationCredential) -> Tags:
    """What is looked up by its identifier: another one may have been found by that before, or is next."""
    return frozenset({after.id, _identifier(before), _identifier(after)})


def _identifier(entity: Application | ApplicationCredential) -> str:
    return cast(str, getattr(entity, "identifier", entity.id))


def _application(before: Application, after: Application) -> Tags:
    return _named(before, after) if before.identifier != after.identifier else _changed(before, after)


def _gone_application(before: Application, after: Application) -> Tags:
    return frozenset({before.id, before.identifier, provided_by(before.id)})


def _named_resource(before: Resource, after: Resource) -> Tags:
    """What was asked for by this name, or a longer one, may mean the new one from now on."""
    return frozenset({after.id, before.identifier, after.identifier, RESOURCES}) | _lists(before, after)


def _resource(before: Resource, after: Resource) -> Tags:
    if (before.identifier, before.prefix) != (after.identifier, after.prefix):
        return _named_resource(before, after)
    return _changed(before, after) | _lists(before, after)


def _lists(before: Resource, after: Resource) -> frozenset[str]:
    """The tags of the lists that a resource is in, or was."""
    providers = {before.application_id, after.application_id} - {None}
    return frozenset(provided_by(cast(str, each)) for each in providers)


def _user(before: User, after: User) -> Tags:
    ends = before.status is not after.status
    return _person(before, after) if ends else _itself(before, after)


def _person(before: User | Group, after: User | Group) -> Tags:
    """Whoever answers for an application, or did."""
    return frozenset({after.id, PEOPLE})


def _provider(before: Provider, after: Provider) -> Tags:
    """Who signs in, workloads and connections rest on a provider: all but what people are shown of it."""
    return frozenset({shown(after.id)}) if changed_members(before, after) <= {"description"} else EVERYTHING


def _changed(before: Entity, after: Entity) -> frozenset[str]:
    """Of an entity that others neither know by another name now nor lose."""
    return frozenset({shown(after.id) if changed_members(before, after) <= _SHOWN else after.id})


def _principal(before: RoleAssignment, after: RoleAssignment) -> Tags:
    return frozenset({after.principal_id})


def _owner(before: Secret, after: Secret) -> Tags:
    return frozenset({before.entity_id, after.entity_id})


# What a kind is not listed with, it evicts everything with.
_WRITES: Mapping[tuple[str, str], EntityRule] = {
    (Application.__name__, "create"): _named,
    (Application.__name__, "update"): _application,
    (Application.__name__, "delete"): _gone_application,
    (ApplicationCredential.__name__, "create"): _named,
    (ApplicationCredential.__name__, "update"): _named,
    (ApplicationCredential.__name__, "delete"): _named,
    (Resource.__name__, "create"): _named_resource,
    (Resource.__name__, "update"): _resource,
    (Resource.__name__, "delete"): _named_resource,
    (Provider.__name__, "create"): _itself,
    (Provider.__name__, "update"): _provider,
    (User.__name__, "create"): _itself,
    (User.__name__, "update"): _user,
    (User.__name__, "delete"): _person,
    (Group.__name__, "create"): _itself,
    (Group.__name__, "update"): _itself,
    (Group.__name__, "delete"): _person,
    (Role.__name__, "create"): _nothing,
    (Role.__name__, "update"): _nothing,  # its identifier never changes
    (Role.__name__, "delete"): _nothing,  # but for those who have it
    (RoleAssignment.__name__, "create"): _principal,
    (RoleAssignment.__name__, "delete"): _principal,
    (Secret.__name__, "create"): _owner,
    (Secret.__name__, "update"): _owner,
    (Secret.__name__, "delete"): _owner,
    # A version never changes, and decides nothing until it is activated.
    (Policy.__name__, "create"): _nothing,
    (Policy.__name__, "update"): _nothing,
    (PolicyVersion.__name__, "create"): _nothing,
    (PolicyVersion.__name__, "update"): _nothing,
    (PolicySet.__name__, "create"): _nothing,
    (PolicySet.__name__, "update"): _nothing,
    (PolicySetVersion.__name__, "create"): _nothing,
    (PolicySetVersion.__name__, "update"): _nothing,
}


def _of_it(entity_id: str, values: Mapping[str, Any]) -> Tags:
    return frozenset({entity_id})


def _of_nothing(entity_id: str, values: Mapping[str, Any]) -> Tags:
    return NOTHING


def _membership(group_id: str, values: Mapping[str, Any]) -> Tags:
    return members_changed([values["user_id"]])


def members_changed(user_ids: Collection[str]) -> frozenset[str]:
    """The tags that change when these join a group or leave it; its other members notice nothing."""
    return frozenset({PEOPLE, *user_ids})


_RECORDS: Mapping[str, RecordRule] = {
    "application_dependencies.add": _of_it,
    "application_dependencies.remove": _of_it,
    "applications.end": _of_it,
    "group_members.add": _membership,
    "group_members.remove": _membership,
    "ownership.adopt": _of_nothing,  # which configuration manages an entity is no matter for requests
    "ownership.release": _of_nothing,
    "ownership.rename": _of_nothing,
    "ownership.delivered": _of_nothing,
    "policy_set_versions.attest": _of_nothing,
    "sessions.delete": _of_it,
    "sessions.revoke": _of_it,
    "user_agents.change": _of_it,
}

"""The dispatch tables of routes and changesets: the function for each verb of each kind.

There is a table for each verb, by kind name, and a protocol that its functions have in common.
"""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from runtime.domain.kinds import (
    ALL,
    API_KEY,
    APPLICATION,
    APPLICATION_CREDENTIAL,
    DELEGATED_GRANT,
    GROUP,
    INVITATION,
    ORGANIZATION,
    ORGANIZATION_USER,
    POLICY,
    POLICY_SET,
    POLICY_SET_VERSION,
    POLICY_VERSION,
    PROVIDER,
    RESOURCE,
    ROLE,
    ROLE_ASSIGNMENT,
    SECRET,
    SERVICE_ACCOUNT,
    SERVICE_ACCOUNT_CREDENTIAL,
    SESSION,
    USER,
    ZONE,
    Entity,
    Kind,
    Verb,
)
from runtime.services.management import entities
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import Caller
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.members import invitations, organization_users
from runtime.services.management.organizations import api_keys, organizations, service_accounts
from runtime.services.management.people import assignments, delegated_grants, groups, sessions, users
from runtime.services.management.policies import policies, policy_set_versions, policy_sets, policy_versions
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.management.zones import applications, credentials, providers, resources, secrets, zones

_Served = TypeVar("_Served", covariant=True)
_Answer = Coroutine[Any, Any, _Served]


class ListHandler(Protocol):
    """Lists what the caller may see of a kind below its parents."""

    def __call__(
        self, unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery, /
    ) -> _Answer[Listed]: ...


class CreateHandler(Protocol):
    """Creates an entity from a checked body. Secrets that are shown once are in `unit.shown_once`."""

    def __call__(
        self, unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any], /
    ) -> _Answer[Entity]: ...


class RetrieveHandler(Protocol):
    """Finds an entity by its id, with what *expands* asks for. Raises NotFound."""

    def __call__(
        self,
        unit: UnitOfWork,
        kind: Kind,
        parents: Parents,
        entity_id: str,
        expands: frozenset[str] = frozenset(),
        /,
    ) -> _Answer[Entity]: ...


class RetrieveInNotation(Protocol):
    """Finds a policy version, with its text in one of the two notations."""

    def __call__(
        self,
        unit: UnitOfWork,
        kind: Kind,
        parents: Parents,
        entity_id: str,
        expands: frozenset[str] = frozenset(),
        /,
        *,
        notation: str | None = None,
    ) -> _Answer[Entity]: ...


class RetrieveByRoleSource(Protocol):
    """Finds a user, with roles of their own, or those of their groups as well."""

    def __call__(
        self,
        unit: UnitOfWork,
        kind: Kind,
        parents: Parents,
        entity_id: str,
        expands: frozenset[str] = frozenset(),
        /,
        *,
        role_source: str = "user",
    ) -> _Answer[Entity]: ...


class UpdateHandler(Protocol):
    """Changes an entity by a checked merge patch. Raises NotFound, Conflict."""

    def __call__(
        self, unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any], /
    ) -> _Answer[Entity]: ...


class ConditionalUpdate(Protocol):
    """Changes an entity that has an entity tag. Raises PreconditionFailed when it is not *if_match*."""

    def __call__(
        self,
        unit: UnitOfWork,
        kind: Kind,
        parents: Parents,
        entity_id: str,
        patch: Mapping[str, Any],
        /,
        *,
        if_match: str | None = None,
    ) -> _Answer[Entity]: ...


class DeleteHandler(Protocol):
    """Deletes an entity. Raises NotFound, Conflict."""

    def __call__(
        self, unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, /
    ) -> _Answer[None]: ...


class DeleteManyHandler(Protocol):
    """Deletes entities below the same parents; what is gone already stays so. Raises Forbidden."""

    def __call__(
        self, unit: UnitOfWork, kind: Kind, parents: Parents, ids: Sequence[str], /
    ) -> _Answer[None]: ...


class ArchiveHandler(Protocol):
    """Archives an entity, which stays and is used for nothing new. Raises NotFound, PreconditionFailed."""

    def __call__(
        self,
        unit: UnitOfWork,
        kind: Kind,
        parents: Parents,
        entity_id: str,
        /,
        *,
        if_match: str | None = None,
    ) -> _Answer[Entity]: ...


def _kinds_with(verb: Verb) -> list[str]:
    return [kind.name for kind in ALL if verb in kind.verbs]


LISTS: Mapping[str, ListHandler] = dict.fromkeys(_kinds_with(Verb.LIST), entities.list_) | {
    ORGANIZATION.name: organizations.list_,
    INVITATION.name: invitations.list_,
    APPLICATION.name: applications.list_,
    RESOURCE.name: resources.list_,
    GROUP.name: groups.list_,
    USER.name: users.list_,
    SESSION.name: sessions.list_,
    DELEGATED_GRANT.name: delegated_grants.list_,
    POLICY.name: policies.list_,
    POLICY_VERSION.name: policy_versions.list_,
    POLICY_SET.name: policy_sets.list_,
    POLICY_SET_VERSION.name: policy_set_versions.list_,
}
# Kinds of which an index leads to the rows of a plain page, in their order, and to what is told of each.
BRIEF_LISTS = frozenset(
    name for name, serve in LISTS.items() if serve in (entities.list_, applications.list_, resources.list_)
)
CREATES: Mapping[str, CreateHandler] = dict.fromkeys(_kinds_with(Verb.CREATE), entities.create) | {
    ORGANIZATION.name: organizations.create,
    SERVICE_ACCOUNT_CREDENTIAL.name: service_accounts.create_credential,
    API_KEY.name: api_keys.create,
    INVITATION.name: invitations.create,
    ZONE.name: zones.create,
    PROVIDER.name: providers.create,
    APPLICATION.name: applications.create,
    APPLICATION_CREDENTIAL.name: credentials.create,
    RESOURCE.name: resources.create,
    SECRET.name: secrets.create,
    GROUP.name: groups.create,
    POLICY.name: policies.create,
    POLICY_VERSION.name: policy_versions.create,
    POLICY_SET.name: policy_sets.create,
    POLICY_SET_VERSION.name: policy_set_versions.create,
}
RETRIEVES: Mapping[str, RetrieveHandler] = dict.fromkeys(_kinds_with(Verb.RETRIEVE), entities.retrieve) | {
    ORGANIZATION.name: organizations.retrieve,
    APPLICATION.name: applications.retrieve,
    GROUP.name: groups.retrieve,
    USER.name: users.retrieve,
    SESSION.name: sessions.retrieve,
    DELEGATED_GRANT.name: delegated_grants.retrieve,
    POLICY.name: policies.retrieve,
    POLICY_VERSION.name: policy_versions.retrieve,
    POLICY_SET.name: policy_sets.retrieve,
    POLICY_SET_VERSION.name: policy_set_versions.retrieve,
}
RETRIEVES_IN_NOTATION: Mapping[str, RetrieveInNotation] = {POLICY_VERSION.name: policy_versions.retrieve}
RETRIEVES_BY_ROLE_SOURCE: Mapping[str, RetrieveByRoleSource] = {USER.name: users.retrieve}
UPDATES: Mapping[str, UpdateHandler] = dict.fromkeys(_kinds_with(Verb.UPDATE), entities.update) | {
    ORGANIZATION.name: organizations.update,
    ORGANIZATION_USER.name: organization_users.update,
    ZONE.name: zones.update,
    PROVIDER.name: providers.update,
    APPLICATION.name: applications.update,
    APPLICATION_CREDENTIAL.name: credentials.update,
    RESOURCE.name: resources.update,
    SECRET.name: secrets.update,
    GROUP.name: groups.update,
    USER.name: users.update,
    SESSION.name: sessions.revoke,
    DELEGATED_GRANT.name: delegated_grants.revoke,
    POLICY.name: policies.update,
    POLICY_SET.name: policy_sets.update,
    POLICY_SET_VERSION.name: policy_set_versions.update,
}
CONDITIONAL_UPDATES: Mapping[str, ConditionalUpdate] = {
    POLICY.name: policies.update,
    POLICY_SET.name: policy_sets.update,
}
DELETES: Mapping[str, DeleteHandler] = dict.fromkeys(_kinds_with(Verb.DELETE), entities.delete) | {
    ORGANIZATION.name: organizations.delete,
    ORGANIZATION_USER.name: organization_users.delete,
    INVITATION.name: invitations.revoke,
    ZONE.name: zones.delete,
    PROVIDER.name: providers.delete,
    APPLICATION_CREDENTIAL.name: credentials.delete,
    GROUP.name: groups.delete,
    USER.name: users.delete,
    SESSION.name: sessions.delete,
    DELEGATED_GRANT.name: delegated_grants.delete,
}
# Kinds of which a configuration may have thousands, and whose deletions need not be made one by one.
DELETES_MANY: Mapping[str, DeleteManyHandler] = {
    SERVICE_ACCOUNT.name: entities.delete_many,
    PROVIDER.name: providers.delete_many,
    APPLICATION.name: entities.delete_many,
    APPLICATION_CREDENTIAL.name: credentials.delete_many,
    RESOURCE.name: entities.delete_many,
    GROUP.name: groups.delete_many,
    ROLE.name: entities.delete_many,
    ROLE_ASSIGNMENT.name: assignments.delete_many,
}
ARCHIVES: Mapping[str, ArchiveHandler] = {
    POLICY.name: policies.archive,
    POLICY_VERSION.name: policy_versions.archive,
    POLICY_SET.name: policy_sets.archive,
    POLICY_SET_VERSION.name: policy_set_versions.archive,
}


def zones_made(caller: Caller, kind: Kind, *, create: int = 1) -> int:
    """How many zones so many creations of a kind make, by somebody who may: what has to be ready for them."""
    if not permissions.allows(caller.roles_anywhere, kind.operations, Verb.CREATE):
        return 0
    return create if kind is ZONE or (kind is ORGANIZATION and caller.at_home) else 0

"""Which function serves which operation on which kind: the one dispatch table of routes and changesets.

Every function takes `(unit, kind, parents, ...)`: a list takes a query, a create a body, a retrieve an id and
expands, an update an id and a patch, a delete or archive an id. Kinds with an ETag take `if_match` besides.
"""

from collections.abc import Callable, Coroutine
from typing import Any

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
    SECRET,
    SERVICE_ACCOUNT_CREDENTIAL,
    SESSION,
    USER,
    ZONE,
    Kind,
    Verb,
)
from runtime.services.management import entities
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import Caller
from runtime.services.management.members import invitations, organization_users
from runtime.services.management.organizations import api_keys, organizations, service_accounts
from runtime.services.management.people import delegated_grants, groups, sessions, users
from runtime.services.management.policies import policies, policy_set_versions, policy_sets, policy_versions
from runtime.services.management.zones import applications, credentials, providers, resources, secrets, zones

Operation = Callable[..., Coroutine[Any, Any, Any]]

_GENERIC: dict[Verb, Operation] = {
    Verb.LIST: entities.list_,
    Verb.CREATE: entities.create,
    Verb.RETRIEVE: entities.retrieve,
    Verb.UPDATE: entities.update,
    Verb.DELETE: entities.delete,
}

_OWN: dict[tuple[str, Verb], Operation] = {
    (ORGANIZATION.name, Verb.LIST): organizations.list_,
    (ORGANIZATION.name, Verb.CREATE): organizations.create,
    (ORGANIZATION.name, Verb.DELETE): organizations.delete,
    (ORGANIZATION.name, Verb.RETRIEVE): organizations.retrieve,
    (ORGANIZATION.name, Verb.UPDATE): organizations.update,
    (ORGANIZATION_USER.name, Verb.UPDATE): organization_users.update,
    (ORGANIZATION_USER.name, Verb.DELETE): organization_users.delete,
    (SERVICE_ACCOUNT_CREDENTIAL.name, Verb.CREATE): service_accounts.create_credential,
    (API_KEY.name, Verb.CREATE): api_keys.create,
    (INVITATION.name, Verb.LIST): invitations.list_,
    (INVITATION.name, Verb.CREATE): invitations.create,
    (INVITATION.name, Verb.DELETE): invitations.revoke,
    (ZONE.name, Verb.CREATE): zones.create,
    (ZONE.name, Verb.UPDATE): zones.update,
    (ZONE.name, Verb.DELETE): zones.delete,
    (PROVIDER.name, Verb.UPDATE): providers.update,
    (PROVIDER.name, Verb.DELETE): providers.delete,
    (APPLICATION.name, Verb.LIST): applications.list_,
    (APPLICATION.name, Verb.CREATE): applications.create,
    (APPLICATION.name, Verb.RETRIEVE): applications.retrieve,
    (APPLICATION.name, Verb.UPDATE): applications.update,
    (APPLICATION_CREDENTIAL.name, Verb.CREATE): credentials.create,
    (APPLICATION_CREDENTIAL.name, Verb.UPDATE): credentials.update,
    (APPLICATION_CREDENTIAL.name, Verb.DELETE): credentials.delete,
    (RESOURCE.name, Verb.LIST): resources.list_,
    (RESOURCE.name, Verb.CREATE): resources.create,
    (RESOURCE.name, Verb.UPDATE): resources.update,
    (SECRET.name, Verb.CREATE): secrets.create,
    (SECRET.name, Verb.UPDATE): secrets.update,
    (GROUP.name, Verb.LIST): groups.list_,
    (GROUP.name, Verb.CREATE): groups.create,
    (GROUP.name, Verb.RETRIEVE): groups.retrieve,
    (GROUP.name, Verb.UPDATE): groups.update,
    (GROUP.name, Verb.DELETE): groups.delete,
    (USER.name, Verb.LIST): users.list_,
    (USER.name, Verb.RETRIEVE): users.retrieve,
    (USER.name, Verb.UPDATE): users.update,
    (USER.name, Verb.DELETE): users.delete,
    (SESSION.name, Verb.LIST): sessions.list_,
    (SESSION.name, Verb.RETRIEVE): sessions.retrieve,
    (SESSION.name, Verb.UPDATE): sessions.revoke,
    (SESSION.name, Verb.DELETE): sessions.delete,
    (DELEGATED_GRANT.name, Verb.LIST): delegated_grants.list_,
    (DELEGATED_GRANT.name, Verb.RETRIEVE): delegated_grants.retrieve,
    (DELEGATED_GRANT.name, Verb.UPDATE): delegated_grants.revoke,
    (DELEGATED_GRANT.name, Verb.DELETE): delegated_grants.delete,
    (POLICY.name, Verb.LIST): policies.list_,
    (POLICY.name, Verb.CREATE): policies.create,
    (POLICY.name, Verb.RETRIEVE): policies.retrieve,
    (POLICY.name, Verb.UPDATE): policies.update,
    (POLICY.name, Verb.ARCHIVE): policies.archive,
    (POLICY_VERSION.name, Verb.LIST): policy_versions.list_,
    (POLICY_VERSION.name, Verb.CREATE): policy_versions.create,
    (POLICY_VERSION.name, Verb.RETRIEVE): policy_versions.retrieve,
    (POLICY_VERSION.name, Verb.ARCHIVE): policy_versions.archive,
    (POLICY_SET.name, Verb.LIST): policy_sets.list_,
    (POLICY_SET.name, Verb.CREATE): policy_sets.create,
    (POLICY_SET.name, Verb.RETRIEVE): policy_sets.retrieve,
    (POLICY_SET.name, Verb.UPDATE): policy_sets.update,
    (POLICY_SET.name, Verb.ARCHIVE): policy_sets.archive,
    (POLICY_SET_VERSION.name, Verb.LIST): policy_set_versions.list_,
    (POLICY_SET_VERSION.name, Verb.CREATE): policy_set_versions.create,
    (POLICY_SET_VERSION.name, Verb.RETRIEVE): policy_set_versions.retrieve,
    (POLICY_SET_VERSION.name, Verb.UPDATE): policy_set_versions.update,
    (POLICY_SET_VERSION.name, Verb.ARCHIVE): policy_set_versions.archive,
}

OPERATIONS: dict[tuple[str, Verb], Operation] = {
    (kind.name, verb): _GENERIC[verb] for kind in ALL for verb in kind.verbs if verb in _GENERIC
} | _OWN


def zones_made(caller: Caller, kind: Kind, *, create: int = 1) -> int:
    """How many zones so many creations of a kind make, by somebody who may: what has to be ready for them."""
    if not permissions.allows(caller.roles_anywhere, kind.operations, Verb.CREATE):
        return 0
    return create if kind is ZONE or (kind is ORGANIZATION and caller.at_home) else 0

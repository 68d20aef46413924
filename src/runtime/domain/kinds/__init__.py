"""The kinds of entities in the management API: a module for each group, and the list, parents first."""

from runtime.domain.kinds.api_key import API_KEY
from runtime.domain.kinds.application import APPLICATION, APPLICATION_CREDENTIAL
from runtime.domain.kinds.base import Entity, Kind, Listing, PageShape, Verb
from runtime.domain.kinds.invitation import INVITATION
from runtime.domain.kinds.organization import (
    ORGANIZATION,
    ORGANIZATION_USER,
    SERVICE_ACCOUNT,
    SERVICE_ACCOUNT_CREDENTIAL,
)
from runtime.domain.kinds.policy import POLICY, POLICY_SET, POLICY_SET_VERSION, POLICY_VERSION
from runtime.domain.kinds.provider import PROVIDER
from runtime.domain.kinds.resource import RESOURCE
from runtime.domain.kinds.role import GROUP, ROLE, ROLE_ASSIGNMENT, USER
from runtime.domain.kinds.secret import SECRET
from runtime.domain.kinds.session import DELEGATED_GRANT, SESSION
from runtime.domain.kinds.user_agent import USER_AGENT
from runtime.domain.kinds.zone import ZONE

ALL: tuple[Kind, ...] = (
    ORGANIZATION,
    ORGANIZATION_USER,
    INVITATION,
    SERVICE_ACCOUNT,
    SERVICE_ACCOUNT_CREDENTIAL,
    API_KEY,
    ZONE,
    PROVIDER,
    GROUP,
    APPLICATION,
    RESOURCE,
    APPLICATION_CREDENTIAL,
    USER,
    ROLE,
    ROLE_ASSIGNMENT,
    POLICY,
    POLICY_VERSION,
    POLICY_SET,
    POLICY_SET_VERSION,
    USER_AGENT,
    SESSION,
    DELEGATED_GRANT,
    SECRET,
)

BY_NAME: dict[str, Kind] = {kind.name: kind for kind in ALL}
# The names of the kinds that a Secret can belong to.
SECRET_OWNERS = tuple(kind.name for kind in ALL if kind.has_secrets)

__all__ = [
    "ALL",
    "API_KEY",
    "APPLICATION",
    "APPLICATION_CREDENTIAL",
    "BY_NAME",
    "DELEGATED_GRANT",
    "GROUP",
    "INVITATION",
    "ORGANIZATION",
    "ORGANIZATION_USER",
    "POLICY",
    "POLICY_SET",
    "POLICY_SET_VERSION",
    "POLICY_VERSION",
    "PROVIDER",
    "RESOURCE",
    "ROLE",
    "ROLE_ASSIGNMENT",
    "SECRET",
    "SECRET_OWNERS",
    "SERVICE_ACCOUNT",
    "SERVICE_ACCOUNT_CREDENTIAL",
    "SESSION",
    "USER",
    "USER_AGENT",
    "ZONE",
    "Entity",
    "Kind",
    "Listing",
    "PageShape",
    "Verb",
]

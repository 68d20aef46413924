"""The cached principals of a zone: users as policies see them, and the root sessions of token chains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from runtime.domain.kinds.role import User
from runtime.domain.oauth.revocable_names import Name
from runtime.domain.policy import requests
from runtime.services import epochs
from runtime.storage.sql.session_roots import DelegatedGrantRecord, Memberships
from runtime.storage.sql.sessions import SessionRecord


@dataclass(frozen=True, slots=True)
class Principal:
    """A user with groups and roles, as policies see them.

    Attributes:
        own_policies: id of the policy set version that the user has made; None without one.
        cache_tags: of all that this was read from.
    """

    user: User
    policy_user: requests.PolicyUser
    own_policies: str | None = None
    cache_tags: frozenset[str] = frozenset()

    @property
    def groups(self) -> tuple[requests.PolicyGroup, ...]:
        """The groups, each with the roles it hands down."""
        return self.policy_user.groups

    @property
    def roles(self) -> tuple[str, ...]:
        """Identifiers of the roles assigned directly."""
        return self.policy_user.roles


@dataclass(frozen=True)
class SessionRoot:
    """A session that chains start from, and the user whose authority it carries.

    A zone caches roots until one of them changes, so what is derived here is derived once.

    Attributes:
        withdrawn: when the user took something back from the tokens of this session for the last time, by
            what these are called. Whoever withdraws bumps the user's epoch.
    """

    session: SessionRecord
    principal: Principal
    delegated: tuple[DelegatedGrantRecord, ...]
    withdrawn: Mapping[Name, datetime] = field(default_factory=dict, hash=False)

    @cached_property
    def epochs(self) -> tuple[int, int]:
        """The epochs of the session and of the user that this was read under."""
        return self.session.epoch, self.principal.user.epoch

    @cached_property
    def epoch_names(self) -> tuple[str, str]:
        """Where the short-lived state keeps these two."""
        return epochs.session_key(self.session.id), epochs.user_key(self.principal.user.id)


def principal_of(user: User, memberships: Memberships, own_policies: str | None) -> Principal:
    """A user as policies see them: by groups and roles, and by an address that is proved."""
    groups = tuple(requests.PolicyGroup(name, title, roles) for name, title, roles in memberships.groups)
    principal = policy_user(
        user.identifier, groups, memberships.roles, email=user.email, is_email_verified=user.email_verified
    )
    return Principal(user, principal, own_policies, frozenset({user.id, *memberships.group_ids}))


def policy_user(
    identifier: str,
    groups: tuple[requests.PolicyGroup, ...],
    roles: tuple[str, ...],
    *,
    email: str,
    is_email_verified: bool,
) -> requests.PolicyUser:
    """A user of that identifier as policies see them.

    An address that nobody has proved to be theirs must not open what a policy gives to it.
    """
    return requests.PolicyUser(identifier, str(email) if is_email_verified else None, groups, roles)

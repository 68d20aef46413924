"""The caller of the management API, and the roles that apply in an organization or zone."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import Conflict
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import OrganizationRole, OwnerType
from runtime.domain.kinds.zone import Zone
from runtime.services.management.access.permissions import dry_run_roles

TOKEN_TYPE = "m2m+jwt"
REFUSED = "the bearer credential is not valid"

# The organization's home zone decides who acts for the organization: whoever could write there could make
# themselves an administrator. So nobody below one does.
_IN_HOME_ZONE = {
    "org_member": "org_viewer",
    "service_account": "org_viewer",
    "zone_manager": "zone_viewer",
}


# Whoever is bound to zones is there what somebody with a role in a zone is, and nowhere anything more.
_IN_BOUND_ZONES = {"org_viewer": "zone_viewer"}


@dataclass(frozen=True, slots=True)
class CredentialScope:
    """What a credential is limited to.

    Attributes:
        owner: the one configuration set that it applies changesets for; None for whichever.
        zones: ids of the zones that it reaches; None for all of the organization, and the organization.
    """

    owner: str | None = None
    zones: frozenset[str] | None = None

    @classmethod
    def of(cls, owner: str | None, zones: Iterable[str] | None) -> "CredentialScope":
        """The binding that a credential says."""
        return cls(owner, None if zones is None else frozenset(zones))

    def __bool__(self) -> bool:
        return self.owner is not None or self.zones is not None

    def role(self, role: str) -> str:
        """What a role comes to under this binding."""
        return role if self.zones is None else _IN_BOUND_ZONES.get(role, "zone_manager")

    def reaches(self, zone_id: str | None) -> bool:
        """Tell whether a zone is within the binding, or for None what belongs to no zone."""
        return self.zones is None or zone_id is None or zone_id in self.zones


UNRESTRICTED = CredentialScope()


@dataclass(frozen=True, slots=True)
class HomeAccount:
    """Who somebody is in every organization they act for.

    Attributes:
        id: of the user in the zone of the organization that the account belongs to.
        issuer: of that zone; with `subject` it is what the account's tokens say.
    """

    id: str
    issuer: str
    subject: str

    @property
    def named(self) -> dict[str, str]:
        """The account as storage asks for it."""
        return {"account_id": self.id, "issuer": self.issuer, "subject": self.subject}


@dataclass(frozen=True, slots=True)
class CallerSession:
    """The sign-in that a user's request rests on.

    Attributes:
        zone_id, organization_id: where the account is at home and the session stands.
        expires_at: when the session ends.
        client_id: of the application that the user signed in to.
        by_platform: that application is the service's own: no organization's administrators can change it.
        user: at home.
        source: issuer of the provider that signed the user in; None for a password.
        jkt: thumbprint of the key that the token is bound to, and what it is swapped for.
        at_home: whether the token is the home zone's own, and not one of a single organization.
    """

    account: HomeAccount
    organization_id: str
    zone_id: str
    session_id: str
    client_id: str
    expires_at: datetime
    by_platform: bool
    user: User = field(repr=False, hash=False)
    source: str | None
    at_home: bool
    jkt: str | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever a request acts for.

    Attributes:
        id: of the API key, the service account or the organization user; the name of an operator.
        role: what they are in the organization.
        display: its name, for messages and histories.
        zone_roles: zone id -> the roles that a user has there besides.
        sign_in: set for users alone.
        scope: what the credential is limited to; `role` is what it comes to there.
        is_dry_run: on a dry run: nothing is written, so whoever may read something may try to change it.
        looked_up: finds out, over a connection, who has that credential now. None for who has none.
    """

    id: str
    kind: Literal["api_key", "service_account", "user", "operator", "system"]
    organization_id: str
    role: str
    display: str
    zone_roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    sign_in: CallerSession | None = None
    scope: CredentialScope = UNRESTRICTED
    is_dry_run: bool = False
    looked_up: "Callable[[AsyncConnection], Awaitable[Caller]] | None" = field(
        default=None, repr=False, compare=False
    )

    async def require_unchanged(self, conn: AsyncConnection) -> None:
        """Look again, when it is their turn to write: they may have waited, and be nobody any more.

        Raises: Unauthorized; Conflict for whoever has other roles by now.
        """
        if self.looked_up is None:
            return
        now = await self.looked_up(conn)
        if (now.role, now.zone_roles) != (self.role, self.zone_roles):
            raise Conflict("your roles have changed while this waited for others: send it again")

    def roles_in(self, zone: Zone | None) -> tuple[str, ...]:
        """The roles that count for what is in that zone; None for what belongs to the organization itself.

        A role in a zone counts nowhere else.
        """
        if zone is None:
            return self._acting(self.role)
        if not self.scope.reaches(zone.id):
            return ()
        if zone.owner_type is OwnerType.PLATFORM:
            return self._acting(_IN_HOME_ZONE.get(self.role, self.role))
        return self._acting(self.role, *self.zone_roles.get(zone.id, ()))

    @property
    def roles_anywhere(self) -> tuple[str, ...]:
        """Every role that counts somewhere: what a request needs to be looked at at all."""
        return self._acting(self.role, *(role for roles in self.zone_roles.values() for role in roles))

    def _acting(self, *roles: str) -> tuple[str, ...]:
        return dry_run_roles(roles) if self.is_dry_run else roles

    @property
    def jkt(self) -> str | None:
        """Thumbprint of the key that the caller has proved to have; None where no key is asked for."""
        return self.sign_in.jkt if self.sign_in is not None else None

    @property
    def at_home(self) -> bool:
        """Tell whether this is a user with an access token of their own organization's zone."""
        return self.sign_in is not None and self.sign_in.at_home


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts beside the management API, in whichever organization: an operator, or the service by itself.

    Attributes:
        name: `account@host` of an operator, for the audit trail.
    """

    kind: Literal["operator", "system"]
    name: str

    def within(self, organization_id: str) -> Caller:
        """The actor as a caller of that organization, who may do everything there."""
        return Caller(self.name, self.kind, organization_id, OrganizationRole.ADMIN.value, self.name)


SERVICE = Actor("system", "zoned")

"""Small factories of management entities, valid as they are; name what a test is about and leave the rest."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ORGANIZATION, ZONE, Entity, Kind
from runtime.domain.kinds.application import Application, PasswordCredential, PublicCredential
from runtime.domain.kinds.organization import (
    Organization,
    OrganizationUser,
    ServiceAccount,
    ServiceAccountCredential,
)
from runtime.domain.kinds.policy import Policy, PolicyVersion
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import Group, Role, RoleAssignment, User
from runtime.domain.kinds.zone import Zone, addresses
from runtime.storage.sql import entities

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = count(1)


def _common(given: dict[str, Any]) -> dict[str, Any]:
    """An id, and times that grow with every entity made."""
    at = given.get("created_at", _NOW + timedelta(seconds=next(_numbers)))
    return {"id": new_id(), "created_at": at, "updated_at": at}


def _in_zone(zone: Zone, given: dict[str, Any]) -> dict[str, Any]:
    return _common(given) | {"organization_id": zone.organization_id, "zone_id": zone.id}


def _named(stem: str) -> dict[str, Any]:
    name = f"{stem}-{next(_numbers)}"
    return {"identifier": name, "name": name.title(), "slug": name}


def organization(**given: Any) -> Organization:
    """An organization."""
    name = f"organization-{next(_numbers)}"
    return Organization(**_common(given) | {"label": name, "name": name} | given)


def zone(owner: Organization, **given: Any) -> Zone:
    """A zone at a path of its own."""
    name = f"zone-{next(_numbers)}"
    protocols = addresses(f"http://localhost:8080/z/{name}", "http://localhost:8080", f"/z/{name}")
    own = {"organization_id": owner.id, "name": name, "slug": name, "protocols": protocols}
    return Zone(**_common(given) | own | given)


def application(within: Zone, **given: Any) -> Application:
    """An application."""
    return Application(**_in_zone(within, given) | _named("app") | given)


def password_credential(of: Application, **given: Any) -> PasswordCredential:
    """A client id with a secret, of an application."""
    return PasswordCredential(**_of(of, given) | {"secret_hash": b"\x00\x01hash"} | given)


def public_credential(of: Application, **given: Any) -> PublicCredential:
    """A client id alone, of an application."""
    return PublicCredential(**_of(of, given) | given)


def _of(of: Application, given: dict[str, Any]) -> dict[str, Any]:
    name = f"client-{next(_numbers)}"
    own = {"organization_id": of.organization_id, "zone_id": of.zone_id, "application_id": of.id}
    return _common(given) | own | {"identifier": name, "slug": name}


def provider(within: Zone, **given: Any) -> Provider:
    """An external provider."""
    return Provider(**_in_zone(within, given) | _named("provider") | given)


def resource(within: Zone, **given: Any) -> Resource:
    """A resource."""
    return Resource(**_in_zone(within, given) | _named("resource") | given)


def user(within: Zone, **given: Any) -> User:
    """A user with an address nobody has."""
    name = f"user-{next(_numbers)}"
    return User(**_in_zone(within, given) | {"identifier": name, "email": f"{name}@example.com"} | given)


def group(within: Zone, **given: Any) -> Group:
    """A group without members."""
    name = f"group-{next(_numbers)}"
    return Group(**_in_zone(within, given) | {"identifier": name, "name": name} | given)


def role(within: Zone, **given: Any) -> Role:
    """A role that nobody holds."""
    return Role(**_in_zone(within, given) | {"identifier": f"role-{next(_numbers)}"} | given)


def role_assignment(of: Role, principal: Group | User | Application, **given: Any) -> RoleAssignment:
    """What gives a role to a principal."""
    own = {
        "organization_id": of.organization_id,
        "zone_id": of.zone_id,
        "principal_id": principal.id,
        "principal_type": type(principal).__name__.lower(),
        "role_id": of.id,
        "role_identifier": of.identifier,
        "role_owner_type": of.owner_type,
        "scope_id": None,
        "scope_type": None,
    }
    return RoleAssignment(**_common(given) | own | given)


def policy(within: Zone, **given: Any) -> Policy:
    """A policy without versions."""
    own = {"name": f"policy-{next(_numbers)}", "created_by": "test"}
    return Policy(**_in_zone(within, given) | own | given)


def policy_version(of: Policy, **given: Any) -> PolicyVersion:
    """A version of a policy."""
    own = {
        "organization_id": of.organization_id,
        "zone_id": of.zone_id,
        "policy_id": of.id,
        "version": 1,
        "schema_version": "1",
        "cedar_raw": "permit(principal, action, resource);",
        "sha": "0" * 64,
        "created_by": "test",
    }
    return PolicyVersion(**_common(given) | own | given)


def organization_user(owner: Organization, **given: Any) -> OrganizationUser:
    """Somebody who acts for an organization, without a user in its zone."""
    name = f"person-{next(_numbers)}"
    own = {
        "organization_id": owner.id,
        "email": f"{name}@example.com",
        "role": "org_member",
        "source": "http://localhost:8080/z/own",
        "status": "active",
        "zone_user_id": new_id(),
        "account_issuer": "http://localhost:8080/z/own",
        "account_subject": name,
    }
    return OrganizationUser(**_common(given) | own | given)


def service_account(owner: Organization, **given: Any) -> ServiceAccount:
    """A service account."""
    own = {"organization_id": owner.id, "name": f"account-{next(_numbers)}"}
    return ServiceAccount(**_common(given) | own | given)


def service_account_credential(of: ServiceAccount, **given: Any) -> ServiceAccountCredential:
    """A credential of a service account."""
    own = {
        "organization_id": of.organization_id,
        "service_account_id": of.id,
        "client_id": new_id(),
        "name": "credential",
        "secret_hash": b"hash",
    }
    return ServiceAccountCredential(**_common(given) | own | given)


async def add_zone(conn: AsyncConnection) -> Zone:
    """A stored zone, in a stored organization of its own."""
    owner = organization()
    made = zone(owner)
    await entities.insert(conn, ORGANIZATION, owner)
    await entities.insert(conn, ZONE, made)
    return made


def within(zone: Zone) -> dict[str, str]:
    """Where everything of a zone is looked for."""
    return {"zone_id": zone.id}


async def stored(conn: AsyncConnection, kind: Kind, *made: Entity) -> Any:
    """The entities, kept; one alone when there is one."""
    for entity in made:
        await entities.insert(conn, kind, entity)
    return made[0] if len(made) == 1 else made

"""API keys: `zwk_<id>_<secret>`, made by `zoned`, kept as a hash, shown once."""

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import NotFound, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.services.management.access.caller import KEY_PREFIX, SERVICE, Actor
from runtime.services.management.access.permissions import ROLES
from runtime.services.management.unit import Unit, unit_of_work
from runtime.services.parts import Parts
from runtime.storage.sql import api_keys as storage
from runtime.storage.sql import organizations


async def create(parts: Parts, organization: str, *, name: str, role: str, by: Actor = SERVICE) -> str:
    """Add a key to an organization, given by id or label; the key in clear, never to be seen again.

    Raises: NotFound, ValidationFailed for an unknown role.
    """
    if role not in ROLES:
        raise ValidationFailed.of("role", f"unknown role `{role}`; known: {', '.join(ROLES)}")
    async with parts.database.reading() as conn:
        found = await organizations.named(conn, organization)
    if found is None:
        raise NotFound(f"there is no Organization `{organization}`")
    async with unit_of_work(parts, by.within(found.id), new_id()) as unit:
        return await add(unit, name=name, role=role)


async def add(unit: Unit, *, name: str, role: str) -> str:
    """Add a key inside a unit; the key in clear."""
    secret, key_id = new_secret(), new_id()
    await unit.revision()
    await storage.add(
        unit.conn,
        storage.ApiKey(
            id=key_id,
            organization_id=unit.organization_id,
            name=name,
            role=role,
            secret_hash=unit.parts.hasher.hash(secret),
            created_at=unit.now,
        ),
    )
    after = {"name": name, "role": role}
    await unit.record("api_keys.create", "ApiKey", key_id, None, before=None, after=after)
    return f"{KEY_PREFIX}{key_id}_{secret}"

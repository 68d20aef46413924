"""Tokens that were issued to what goes: they are told to be revoked, to those who cannot ask.

Sessions, users and grants tell so themselves where they end, in storage.
"""

from typing import cast

from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, USER_AGENT, Entity, Kind
from runtime.domain.kinds.base import ZoneEntity
from runtime.services.management.unit import Unit
from runtime.storage.sql import revocations
from runtime.storage.sql.parties import Party


async def revoke(unit: Unit, kind: Kind, before: Entity) -> None:
    """Keep that tokens of a client, or of one credential of an application, are worth nothing without it."""
    if kind not in (APPLICATION, APPLICATION_CREDENTIAL, USER_AGENT):
        return
    zone_id = cast(ZoneEntity, before).zone_id
    if kind is APPLICATION_CREDENTIAL:
        await revocations.add_credential(unit.conn, zone_id, before.id, now=unit.now)
        return
    is_managed = kind is APPLICATION
    party = Party(application_id=before.id) if is_managed else Party(user_agent_id=before.id)
    await revocations.add_party(unit.conn, zone_id, party, now=unit.now)

"""Token audiences (`aud`): a resource's identifier may not equal the issuer of its zone."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import RESOURCE, ZONE, Kind
from runtime.domain.oauth.resources import is_issuer
from runtime.storage.sql.tables import METADATA, TABLES

_zones = TABLES[ZONE.name]
_former = METADATA.tables["zone_addresses"]
_ISSUERS = (
    select(_zones.c.protocols, _former.c.issuer)
    .outerjoin(_former, _former.c.zone_id == _zones.c.id)
    .where(_zones.c.id == bindparam("zone"))
)
_HELD = "zonewright issuer"  # in `info` of a connection


async def refuse_issuer(conn: AsyncConnection, kind: Kind, rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse resources that go by an issuer that their zone has or had; other kinds are not looked at.

    A token for the zone opens userinfo and the user's policies. Whoever provides a resource of that name
    could exchange every such token and ask about it, and whoever depends on it would be issued some.

    Raises: ValidationFailed.
    """
    if kind is not RESOURCE:
        return
    for row in rows:
        if "://" not in row["identifier"]:
            continue
        issuers = await _issuers(conn, row["zone_id"])
        if any(is_issuer(row["identifier"], each) for each in issuers):
            raise ValidationFailed.of(
                "identifier",
                f"must not be `{row['identifier']}`, an issuer of the zone, which is the `aud` "
                "of tokens for the zone itself; use the URL of the resource",
            )


async def _issuers(conn: AsyncConnection, zone_id: str) -> frozenset[str]:
    """The issuers that a zone has and had. Each connection keeps the last answer for one transaction."""
    current = conn.get_transaction()
    transaction = current and current.sync_transaction
    held: tuple[object, str, frozenset[str]] | None = conn.info.get(_HELD)
    if held is not None and transaction is not None and held[:2] == (transaction, zone_id):
        return held[2]
    found = await conn.execute(_ISSUERS, {"zone": zone_id})
    issuers = frozenset(
        str(each)
        for row in found
        for each in (row.protocols["oauth2"]["issuer"], row.issuer)
        if each is not None
    )
    conn.info[_HELD] = transaction, zone_id, issuers
    return issuers

"""What tokens say in `aud`: a resource of a zone, or the zone itself, and never both."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import RESOURCE, ZONE, Kind
from runtime.domain.oauth.resources import is_issuer
from runtime.storage.sql.tables import TABLES

_zones = TABLES[ZONE.name]


async def refuse_issuer(conn: AsyncConnection, kind: Kind, rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse resources that go by their zone's own issuer; rows of other kinds are not looked at.

    A token for the zone opens userinfo and the user's policies. Whoever provides a resource of that name
    could exchange every such token and ask about it, and whoever depends on it would be issued some.

    Raises: ValidationFailed.
    """
    if kind is not RESOURCE:
        return
    issuers: dict[str, str] = {}
    for row in rows:
        if "://" not in row["identifier"]:
            continue
        zone_id = row["zone_id"]
        if zone_id not in issuers:
            found = await conn.scalar(select(_zones.c.protocols).where(_zones.c.id == zone_id))
            issuers[zone_id] = found["oauth2"]["issuer"] if found else ""
        if is_issuer(row["identifier"], issuers[zone_id]):
            raise ValidationFailed.of(
                "identifier",
                f"must not be `{row['identifier']}`, the issuer of the zone: tokens for the zone itself have "
                "that as `aud`; give the resource the address at which it is called",
            )

"""Token audiences (`aud`): a resource's identifier may not equal the issuer of its zone."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import RESOURCE, ZONE, Kind
from runtime.domain.oauth.resources import is_issuer
from runtime.storage.sql.tables import TABLES

_zones = TABLES[ZONE.name]
_HELD = "zonewright issuer"  # in `info` of a connection


async def refuse_issuer(conn: AsyncConnection, kind: Kind, rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse resources that go by their zone's own issuer; rows of other kinds are not looked at.

    A token for the zone opens userinfo and the user's policies. Whoever provides a resource of that name
    could exchange every such token and ask about it, and whoever depends on it would be issued some.

    Raises: ValidationFailed.
    """
    if kind is not RESOURCE:
        return
    for row in rows:
        if "://" in row["identifier"] and is_issuer(row["identifier"], await _issuer(conn, row["zone_id"])):
            raise ValidationFailed.of(
                "identifier",
                f"must not be `{row['identifier']}`, the issuer of the zone, which is the `aud` "
                "of tokens for the zone itself; use the URL of the resource",
            )


async def _issuer(conn: AsyncConnection, zone_id: str) -> str:
    """The issuer of a zone; empty where there is none. It never changes: each connection keeps the last."""
    held: tuple[str, str] | None = conn.info.get(_HELD)
    if held is not None and held[0] == zone_id:
        return held[1]
    protocols = await conn.scalar(select(_zones.c.protocols).where(_zones.c.id == zone_id))
    if protocols is None:
        return ""
    issuer = str(protocols["oauth2"]["issuer"])
    conn.info[_HELD] = zone_id, issuer
    return issuer

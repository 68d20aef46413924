"""Strict audiences of client assertions become a member of the zone, on for new zones.

A zone from before keeps what it has: on where an operator set it, off where nobody did.
"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"

_MEMBER = "strict_assertion_audience"
_zones = sa.table("zones", sa.column("id", sa.String()), sa.column("protocols", sa.JSON()))
_internals = sa.table(
    "zone_internals",
    sa.column("zone_id", sa.String()),
    sa.column("switches", sa.JSON(none_as_null=True)),
)


def upgrade() -> None:
    """Each zone has the member from now on, and no setting of that name."""
    conn = op.get_bind()
    settings = {row.zone_id: dict(row.switches or {}) for row in conn.execute(sa.select(_internals)).all()}
    for row in conn.execute(sa.select(_zones)).all():
        is_strict = settings.get(row.id, {}).get(_MEMBER, False)
        oauth2 = {**row.protocols.get("oauth2", {}), _MEMBER: is_strict}
        protocols = {**row.protocols, "oauth2": oauth2}
        conn.execute(sa.update(_zones).where(_zones.c.id == row.id).values(protocols=protocols))
    for zone_id, switches in settings.items():
        if switches.pop(_MEMBER, None) is not None:
            conn.execute(
                sa.update(_internals).where(_internals.c.zone_id == zone_id).values(switches=switches or None)
            )


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

"""Rewrites resource scopes that no request can name: those with a space in them, and repeated ones.

`scopes: ["read write"]` was accepted, though it is two scopes in a request (RFC 6749 section 3.3).
Such a text becomes its parts; what is no scope token even then is left out, since nobody could ask for it.
"""

import re
from collections.abc import Iterable

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

_TOKEN = re.compile(r"[\x21\x23-\x3B\x3D\x3F-\x5B\x5D-\x7E]+")
_resources = sa.table(
    "resources",
    sa.column("zone_id", sa.String()),
    sa.column("id", sa.String()),
    sa.column("scopes", sa.JSON()),
)


def upgrade() -> None:
    """Other rows do not change."""
    conn = op.get_bind()
    for row in conn.execute(sa.select(_resources)).all():
        scopes = None if row.scopes is None else _tokens(row.scopes)
        if scopes != row.scopes:
            conn.execute(
                sa.update(_resources)
                .where(_resources.c.zone_id == row.zone_id, _resources.c.id == row.id)
                .values(scopes=scopes)
            )


def downgrade() -> None:
    """The scopes are valid in the version before, too."""


def _tokens(scopes: Iterable[str]) -> list[str]:
    parts = (part for scope in scopes for part in scope.split() if _TOKEN.fullmatch(part))
    return list(dict.fromkeys(parts))

"""Paging cursors: positions in a list, sealed, so that nobody can make or alter one.

A cursor is bound to the list it comes from: the operation, the tenant, the address, the filters and the sort
order. Anywhere else it does not open.
"""

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime, timedelta
from typing import Any

from runtime.adapters.keys.sealing import SealBroken, Sealer
from runtime.domain.errors import ValidationFailed
from runtime.services.management.listing import UNREAD, Position

MAX_CHARS = 255
LIFETIME = timedelta(days=1)
_OVERHEAD = 1 + 12 + 16  # of sealing
_MAX_PLAIN = MAX_CHARS * 3 // 4 - _OVERHEAD


class Cursors:
    """The cursors of one list."""

    __slots__ = ("_bound_to", "_now", "_sealer")

    def __init__(self, sealer: Sealer, bound_to: str, now: datetime) -> None:
        self._sealer = sealer
        self._bound_to = f"cursor/{bound_to}"
        self._now = now

    def seal(self, position: Position) -> str:
        """The cursor of a position: at most 255 characters.

        A value that is too long to be in it is left out; the reader looks it up by the id.
        """
        made_at = int(self._now.timestamp())
        plain = _dumps([made_at, position.id, _written(position.value)])
        if len(plain) > _MAX_PLAIN:
            plain = _dumps([made_at, position.id])
        sealed = self._sealer.seal(plain, bound_to=self._bound_to)
        return urlsafe_b64encode(sealed).rstrip(b"=").decode("ascii")

    def open(self, name: str, cursor: str) -> Position:
        """The position of a cursor that this list gave out. Raises ValidationFailed naming the parameter."""
        if not 1 <= len(cursor) <= MAX_CHARS:
            raise ValidationFailed.of(name, f"must be 1 to {MAX_CHARS} characters")
        try:
            sealed = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
            made_at, entity_id, *value = json.loads(self._sealer.open(sealed, bound_to=self._bound_to))
        except (UnicodeEncodeError, binascii.Error, SealBroken, ValueError):
            raise ValidationFailed.of(name, "is not a cursor of this list") from None
        if self._now.timestamp() - made_at > LIFETIME.total_seconds():
            raise ValidationFailed.of(name, "has expired: start again from the first page")
        return Position(_read(value[0]) if value else UNREAD, entity_id)


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _written(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_written(one) for one in value]
    return {"t": value.isoformat()} if isinstance(value, datetime) else value


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_read(one) for one in value)
    return datetime.fromisoformat(value["t"]) if isinstance(value, dict) else value

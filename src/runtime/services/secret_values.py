"""The values of secrets: sealed for the row that they are stored in, and opened again."""

from collections.abc import Mapping
from typing import Any, cast

import orjson

from runtime.adapters.keys.sealing import Sealer
from runtime.domain.kinds import SECRET


def seal(sealer: Sealer, secret_id: str, data: Mapping[str, Any]) -> bytes:
    """A secret's value (`data` of the API), sealed for that secret."""
    return sealer.seal(orjson.dumps(data), bound_to=_place(secret_id))


def unseal(sealer: Sealer, secret_id: str, sealed: bytes) -> dict[str, Any]:
    """A secret's value in clear. Raises SealBroken for one that was sealed for another secret."""
    return cast(dict[str, Any], orjson.loads(sealer.open(sealed, bound_to=_place(secret_id))))


def _place(secret_id: str) -> str:
    return f"{SECRET.table}/{secret_id}/data"

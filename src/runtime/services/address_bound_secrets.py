"""Secrets that other servers are sent: kept for the addresses they were given for, and sent nowhere else.

Two things hold that. Whoever changes such an address gives the secret again, or clears it; and a secret is
sealed for the addresses, so that it does not open beside others, however these came into the row.
"""

from hashlib import sha256

import orjson

from runtime.adapters.keys.sealing import SealBroken, Sealer
from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import Entity, Kind


def seal(sealer: Sealer, kind: Kind, entity: Entity, name: str, secret: str) -> bytes:
    """A secret, sealed for the member that keeps it and for the addresses of that entity."""
    return sealer.seal(secret.encode(), bound_to=_place(kind, entity, name))


def opened(sealer: Sealer, kind: Kind, entity: Entity, name: str) -> str | None:
    """The secret in clear; None without one. Raises SealBroken for one that was given for other addresses."""
    sealed: bytes | None = getattr(entity, name)
    if sealed is None:
        return None
    try:
        return sealer.open(sealed, bound_to=_place(kind, entity, name)).decode()
    except SealBroken:
        # From before secrets were sealed for addresses; nothing is sealed so any more.
        return sealer.open(sealed, bound_to=_column(kind, entity, name)).decode()


def refuse_new_addresses(kind: Kind, before: Entity, after: Entity) -> None:
    """Refuse to keep a secret that would be sent to other addresses than before. Raises ValidationFailed."""
    for name, member in kind.members().items():
        if member.bound_to is None or not hasattr(before, name):
            continue
        kept = getattr(before, name)
        if kept is None or getattr(after, name) != kept:
            continue
        now, then = member.bound_to.of(after), member.bound_to.of(before)
        for paths, new, old in zip(member.bound_to.addresses, now, then, strict=True):
            if new != old:
                named = "` or `".join(paths)
                raise ValidationFailed.of(
                    name,
                    f"is stored for the previous value of `{named}`: "
                    "send it again for the new value, or null to clear it",
                )


def _place(kind: Kind, entity: Entity, name: str) -> str:
    bound_to = kind.members()[name].bound_to
    column = _column(kind, entity, name)
    return column if bound_to is None else f"{column}/{_digest(bound_to.sealed_for(entity))}"


def _column(kind: Kind, entity: Entity, name: str) -> str:
    return f"{kind.table}/{entity.id}/{name}"


def _digest(addresses: tuple[str | None, ...]) -> str:
    return sha256(orjson.dumps(addresses)).hexdigest()

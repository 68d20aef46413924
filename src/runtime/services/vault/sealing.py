"""Tokens of the vault in clear, and their seal: for one row, one version and one column of the vault.

A refresh token is sealed for the provider's addresses as well: it opens for no others, however these came
into the provider's row.
"""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

import orjson
from pydantic import SecretStr

from runtime.adapters.keys.sealing import Sealer
from runtime.domain.delegated_grants import issuing_addresses
from runtime.domain.kinds.provider import Provider
from runtime.storage.sql.vault_tokens import SealedTokens

BEARER = "Bearer"


@dataclass(frozen=True, slots=True)
class VaultTokens:
    """What the vault has for a user, in clear; a repr does not show it.

    Attributes:
        expires_at: of the access token; None for one that does not expire by itself.
        refresh_at: from when on the access token is worth refreshing; None when nothing refreshes it.
    """

    access_token: SecretStr
    refresh_token: SecretStr | None
    token_type: str
    expires_at: datetime | None
    refresh_at: datetime | None = None


def seal(sealer: Sealer, row_id: str, version: int, tokens: VaultTokens, provider: Provider) -> SealedTokens:
    """The tokens as the vault keeps them; they open in no other row, version or column."""

    def sealed(token: SecretStr, place: str) -> bytes:
        return sealer.seal(token.get_secret_value().encode(), bound_to=place)

    refresh_token = tokens.refresh_token
    return SealedTokens(
        access_token=sealed(tokens.access_token, _place(row_id, version, "access_token")),
        refresh_token=sealed(refresh_token, _refresh_place(row_id, version, provider))
        if refresh_token
        else None,
        token_type=tokens.token_type,
        expires_at=tokens.expires_at,
        refresh_at=tokens.refresh_at,
    )


def open_access_token(sealer: Sealer, row_id: str, version: int, sealed: SealedTokens) -> SecretStr:
    """The access token in clear. Raises SealBroken for one that was sealed for another place."""
    place = _place(row_id, version, "access_token")
    return SecretStr(sealer.open(sealed.access_token, bound_to=place).decode())


def open_refresh_token(
    sealer: Sealer, row_id: str, version: int, sealed: SealedTokens, provider: Provider
) -> SecretStr | None:
    """The refresh token in clear; None without one.

    Raises: SealBroken for one that was sealed for another place, or that came from other addresses.
    """
    if sealed.refresh_token is None:
        return None
    place = _refresh_place(row_id, version, provider)
    return SecretStr(sealer.open(sealed.refresh_token, bound_to=place).decode())


def _place(row_id: str, version: int, column: str) -> str:
    return f"vault_tokens/{row_id}/{version}/{column}"


def _refresh_place(row_id: str, version: int, provider: Provider) -> str:
    addresses = sha256(orjson.dumps(issuing_addresses(provider))).hexdigest()
    return f"{_place(row_id, version, 'refresh_token')}/{addresses}"

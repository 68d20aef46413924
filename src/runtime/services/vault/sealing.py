"""Tokens of the vault in clear, and their seal: for one row, one version and one column of the vault."""

from dataclasses import dataclass
from datetime import datetime

from pydantic import SecretStr

from runtime.adapters.keys.sealing import Sealer
from runtime.storage.sql.vault_tokens import SealedTokens

BEARER = "Bearer"


@dataclass(frozen=True, slots=True)
class VaultTokens:
    """What the vault has for a user, in clear; a repr does not show it.

    Attributes:
        expires_at: of the access token; None for one that does not expire by itself.
    """

    access_token: SecretStr
    refresh_token: SecretStr | None
    token_type: str
    expires_at: datetime | None


def seal(sealer: Sealer, row_id: str, version: int, tokens: VaultTokens) -> SealedTokens:
    """The tokens as the vault keeps them; they open in no other row, version or column."""

    def sealed(column: str, token: SecretStr) -> bytes:
        return sealer.seal(token.get_secret_value().encode(), bound_to=_place(row_id, version, column))

    return SealedTokens(
        access_token=sealed("access_token", tokens.access_token),
        refresh_token=sealed("refresh_token", tokens.refresh_token) if tokens.refresh_token else None,
        token_type=tokens.token_type,
        expires_at=tokens.expires_at,
    )


def unseal(sealer: Sealer, row_id: str, version: int, sealed: SealedTokens) -> VaultTokens:
    """The tokens in clear. Raises SealBroken for what was sealed for another place."""

    def opened(column: str, value: bytes) -> SecretStr:
        return SecretStr(sealer.open(value, bound_to=_place(row_id, version, column)).decode())

    return VaultTokens(
        access_token=opened("access_token", sealed.access_token),
        refresh_token=opened("refresh_token", sealed.refresh_token) if sealed.refresh_token else None,
        token_type=sealed.token_type,
        expires_at=sealed.expires_at,
    )


def _place(row_id: str, version: int, column: str) -> str:
    return f"vault_tokens/{row_id}/{version}/{column}"

"""Key-encryption keys of the transit engine of HashiCorp Vault or OpenBao.

Data keys are wrapped and unwrapped by `encrypt` and `decrypt` of the engine; a ciphertext tells the version
of its key (`vault:v3:`). What a data key is for is sent as context, which derived keys are derived from, and
as associated data, which the engine authenticates. A digest of it is encrypted with the data key as well:
older engines know no associated data.
Spec: https://developer.hashicorp.com/vault/api-docs/secret/transit.
"""

import base64
import binascii
import hmac
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import orjson

from runtime.adapters.keys.sealing import SealBroken
from runtime.adapters.keys.wrapping import (
    Binding,
    KeyRefused,
    KeyUnreachable,
    KeyUnusable,
    WrappedKey,
)
from runtime.adapters.outbound import HttpAnswer, Outbound, OutboundFailed, OutboundRefused
from runtime.domain import strict_json
from runtime.metrics import KEY_ENCRYPTION_SECONDS

PREFIX = "vault-transit:"
NAME_PATTERN = r"(?P<mount>[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*)/(?P<key>[A-Za-z0-9_.-]+)"
DEADLINE_SECONDS = 5.0
_MAX_BYTES = 64 * 1024
_CIPHERTEXT = re.compile(r"vault:v(\d{1,9}):[A-Za-z0-9+/=:]+")
# Sealed, on standby without an active node, or being asked too often: another answer is possible later.
_PASSING = frozenset({412, 429, 472, 473})


@dataclass(frozen=True)
class VaultAccess:
    """How this service reaches its Vault.

    Attributes:
        address: scheme, host and port.
        token: returns the token; called again when Vault refuses one, since an agent renews its file.
        namespace: of the engine, in the editions that have some.
        ca_file: trust anchors in place of the system's.
    """

    address: str
    token: Callable[[], str] = field(repr=False)
    namespace: str | None = None
    ca_file: Path | None = None

    def trust(self) -> ssl.SSLContext:
        """A TLS context with the trust anchors. Raises KeyUnusable."""
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as failure:  # of which those of ssl are
            raise KeyUnusable(
                f"ZONED_TRANSIT_CA_FILE `{self.ca_file}` cannot be used: {type(failure).__name__}",
                "name a file with certificates in PEM that this account can read",
            ) from None


def require_address(address: str) -> str:
    """The base address of a Vault, without its last slash. Raises KeyUnusable."""
    parts = urlsplit(address)
    is_local = parts.hostname in ("127.0.0.1", "::1", "localhost")
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_local)
    if is_safe and parts.hostname and not parts.query and not parts.fragment and "@" not in parts.netloc:
        return address.rstrip("/")
    raise KeyUnusable(
        f"ZONED_TRANSIT_ADDRESS `{address}` is not an https address",
        "write one as in `https://vault.example:8200`; http is for this machine alone, since the token would"
        " travel in clear text",
    )


def token_in_file(path: Path) -> str:
    """The token that a file has now. Raises KeyUnreachable."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as failure:
        raise KeyUnreachable(f"the token of Vault cannot be read: {type(failure).__name__}") from None


class VaultTransit:
    """The connections of a process to its Vault."""

    def __init__(self, access: VaultAccess) -> None:
        self._access = access
        self._base = require_address(access.address)
        # The operator names this one host, and it is often in a private network.
        self._outbound = Outbound(
            allow_private_addresses=True,
            timeout_seconds=DEADLINE_SECONDS,
            max_bytes=_MAX_BYTES,
            trust=access.trust,
            purpose="key_encryption",
        )
        self._token = ""

    async def aclose(self) -> None:
        """Close all connections."""
        await self._outbound.aclose()

    async def call(self, operation: str, path: str, values: Mapping[str, str]) -> str:
        """What an operation of the engine answers: plaintext or ciphertext.

        Raises: KeyRefused, KeyUnreachable, SealBroken.
        """
        began_at, outcome = perf_counter(), "failed"
        try:
            told = await self._call(path, values)
            outcome = "ok"
            return told
        except (KeyRefused, SealBroken):
            outcome = "refused"
            raise
        except KeyUnreachable:
            outcome = "unreachable"
            raise
        finally:
            KEY_ENCRYPTION_SECONDS.labels("vault_transit", operation, outcome).observe(
                perf_counter() - began_at
            )

    async def _call(self, path: str, values: Mapping[str, str]) -> str:
        self._token = self._token or self._access.token()
        answer = await self._post(path, values)
        if answer.status == 403 and (renewed := self._access.token()) != self._token:
            self._token = renewed
            answer = await self._post(path, values)
        return _told(answer)

    async def _post(self, path: str, values: Mapping[str, str]) -> HttpAnswer:
        headers = {
            "content-type": "application/json",
            "x-vault-token": self._token,
            "x-vault-request": "true",
        }
        if self._access.namespace:
            headers["x-vault-namespace"] = self._access.namespace
        try:
            return await self._outbound.post(f"{self._base}/v1/{path}", orjson.dumps(values), headers=headers)
        except (OutboundFailed, OutboundRefused) as failure:
            raise KeyUnreachable(f"Vault cannot be asked: {failure}") from failure


def _told(answer: HttpAnswer) -> str:
    status = answer.status
    if status >= 500 or status in _PASSING:
        raise KeyUnreachable(f"Vault answers {status}")
    document = _json(answer.body)
    if status != 200:
        errors = document.get("errors")
        told = "; ".join(each for each in errors if isinstance(each, str)) if isinstance(errors, list) else ""
        if status == 400 and ("authentication failed" in told or "invalid ciphertext" in told):
            raise SealBroken("Vault cannot decrypt it with this key")
        raise KeyRefused(f"Vault answers {status}")
    data = document.get("data")
    value = (data.get("plaintext") or data.get("ciphertext")) if isinstance(data, dict) else None
    if not isinstance(value, str):
        raise KeyUnreachable("Vault answers something else than a key")
    return value


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = strict_json.parse(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class TransitKey:
    """A key of a transit engine."""

    __slots__ = ("_key", "_mount", "_vault")
    tells_versions = True

    def __init__(self, vault: VaultTransit, path: str) -> None:
        """Args:
        path: the engine's mount and the key's name, as in `transit/zonewright`. Raises KeyUnusable.
        """
        if (found := re.fullmatch(NAME_PATTERN, path)) is None or ".." in path:
            raise KeyUnusable(
                f"`{PREFIX}{path}` is not the mount and the name of a key",
                f"write both, as in `{PREFIX}transit/zonewright`",
            )
        self._vault, self._mount, self._key = vault, found["mount"], found["key"]

    def __repr__(self) -> str:
        return f"TransitKey({self.name!r})"

    @property
    def name(self) -> str:
        """Mount and name, behind the name of the service."""
        return f"{PREFIX}{self._mount}/{self._key}"

    async def wrap(self, data_key: bytes, binding: Binding) -> WrappedKey:
        """The data key, encrypted with the newest version of the key. Raises KeyRefused, KeyUnreachable."""
        plain = _digest(binding) + data_key
        told = await self._vault.call(
            "encrypt", f"{self._mount}/encrypt/{self._key}", {"plaintext": _base64(plain), **_bound(binding)}
        )
        if _CIPHERTEXT.fullmatch(told) is None:
            raise KeyUnreachable("Vault answers something else than a ciphertext")
        return WrappedKey(self.name, told.encode("ascii"))

    async def unwrap(self, wrapped: WrappedKey, binding: Binding) -> bytes:
        """The data key again. Raises SealBroken, KeyRefused, KeyUnreachable."""
        ciphertext = wrapped.ciphertext.decode("ascii", "replace")
        told = await self._vault.call(
            "decrypt", f"{self._mount}/decrypt/{self._key}", {"ciphertext": ciphertext, **_bound(binding)}
        )
        try:
            plain = base64.b64decode(told, validate=True)
        except (binascii.Error, ValueError):
            raise SealBroken("Vault answers something else than a data key") from None
        digest = _digest(binding)
        if not hmac.compare_digest(plain[: len(digest)], digest):
            raise SealBroken("wrapped for another place")
        return plain[len(digest) :]

    def is_outdated(self, wrapped: WrappedKey, anew: WrappedKey) -> bool:
        """Tell whether the key was rotated since."""
        return _version(wrapped) < _version(anew)


def _version(wrapped: WrappedKey) -> int:
    found = _CIPHERTEXT.fullmatch(wrapped.ciphertext.decode("ascii", "replace"))
    return int(found[1]) if found else 0


def _digest(binding: Binding) -> bytes:
    return sha256(binding.place.encode()).digest()


def _bound(binding: Binding) -> dict[str, str]:
    told = _base64(binding.place.encode())
    return {"context": told, "associated_data": told}


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")

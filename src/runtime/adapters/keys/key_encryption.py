"""The key-encryption keys that this service may use: its own, those it replaces, and those of zones."""

from contextlib import suppress
from dataclasses import dataclass, field

from runtime.adapters.keys import aws_kms, vault_transit
from runtime.adapters.keys.aws_kms import AwsKms, AwsKmsKey
from runtime.adapters.keys.local_key import LocalKey
from runtime.adapters.keys.sealing import SealBroken
from runtime.adapters.keys.vault_transit import TransitKey, VaultTransit
from runtime.adapters.keys.wrapping import (
    LOCAL,
    Binding,
    KeyEncryptionKey,
    KeyRefused,
    KeyUnusable,
    WrappedKey,
)


@dataclass(frozen=True)
class KeyServices:
    """The connections to key-management services that the keys share; None for one that is not set up."""

    kms: AwsKms | None = None
    vault: VaultTransit | None = None

    def key(self, text: str) -> KeyEncryptionKey:
        """The key that a setting names, or has. Raises KeyUnusable."""
        text = text.strip()
        if text.startswith(aws_kms.PREFIX) and self.kms is not None:
            arn = text.removeprefix(aws_kms.PREFIX)
            if not aws_kms.is_arn(arn):
                raise KeyUnusable(
                    f"`{text}` is not the ARN of a key",
                    "write `aws-kms:` and the ARN of the key; aliases are not taken, since they can be moved",
                )
            return AwsKmsKey(self.kms, arn)
        if text.startswith(vault_transit.PREFIX) and self.vault is not None:
            return TransitKey(self.vault, text.removeprefix(vault_transit.PREFIX))
        return LocalKey.from_text(text)

    async def aclose(self) -> None:
        """Close all connections."""
        if self.kms is not None:
            self.kms.close()
        if self.vault is not None:
            await self.vault.aclose()


@dataclass(frozen=True)
class AllowedArns:
    """The keys of AWS KMS that zones may name. The operator's list: a manifest may come from anybody.

    Attributes:
        entries: ARNs of keys; `*` in place of the id is for all keys of that account and region.
    """

    entries: tuple[str, ...] = ()

    @classmethod
    def of_text(cls, text: str) -> "AllowedArns":
        """Read what a setting has, separated by commas. Raises KeyUnusable."""
        entries = tuple(each.strip() for each in text.split(",") if each.strip())
        for entry in entries:
            if not aws_kms.is_arn(entry.removesuffix("*") + "0" if entry.endswith("key/*") else entry):
                raise KeyUnusable(
                    f"ZONED_ZONE_ENCRYPTION_KEYS: `{entry}` is not the ARN of a key of AWS KMS",
                    "write ARNs of keys, or `*` in place of a key's id, as in"
                    " `arn:aws:kms:eu-west-1:111122223333:key/*`",
                )
        return cls(entries)

    def allow(self, arn: str) -> bool:
        """Tell whether a zone may name this key."""
        return aws_kms.is_arn(arn) and any(
            arn.startswith(entry[:-1]) if entry.endswith("*") else arn == entry for entry in self.entries
        )


@dataclass(frozen=True)
class KeyEncryption:
    """Wraps data keys with the key that is meant for each, and unwraps what any known one has wrapped.

    Attributes:
        current: the service's own key, for whatever has none of its own.
        others: keys that are being replaced, or replace it next; they unwrap.
        allowed: the keys that zones may have of their own.
    """

    current: KeyEncryptionKey
    others: tuple[KeyEncryptionKey, ...] = ()
    allowed: AllowedArns = AllowedArns()
    services: KeyServices = field(default_factory=KeyServices)

    @property
    def waits(self) -> bool:
        """Whether some key is in a service that has to be asked."""
        return bool(self.allowed.entries) or any(key.name != LOCAL for key in (self.current, *self.others))

    def key(self, arn: str | None) -> KeyEncryptionKey:
        """The key that wraps for a zone: the service's own without an ARN. Raises KeyRefused."""
        if arn is None:
            return self.current
        if not self.allowed.allow(arn) or self.services.kms is None:
            raise KeyRefused(
                "is not a key that this service may use; its operator allows keys with"
                " ZONED_ZONE_ENCRYPTION_KEYS"
            )
        return AwsKmsKey(self.services.kms, arn)

    async def wrap(self, data_key: bytes, binding: Binding, *, arn: str | None = None) -> bytes:
        """The data key as it is stored, wrapped with a zone's key or the service's own.

        Raises: KeyRefused, KeyUnreachable.
        """
        return (await self.key(arn).wrap(data_key, binding)).stored

    async def unwrap(self, stored: bytes, binding: Binding) -> bytes:
        """The data key again, whichever key wrapped it. Raises SealBroken, KeyRefused, KeyUnreachable."""
        wrapped = WrappedKey.read(stored)
        if wrapped.key == LOCAL:
            return self._opened(wrapped, binding)
        return await self._named(wrapped.key).unwrap(wrapped, binding)

    def opened(self, stored: bytes, binding: Binding) -> bytes | None:
        """As `unwrap` for a key of this machine; None for one that has to be asked. Raises SealBroken."""
        wrapped = WrappedKey.read(stored)
        return self._opened(wrapped, binding) if wrapped.key == LOCAL else None

    async def rewrapped(self, stored: bytes, binding: Binding, *, arn: str | None = None) -> bytes | None:
        """A data key wrapped with the key that is meant for it, in its newest version; None for one that is.

        Raises: SealBroken, KeyRefused, KeyUnreachable.
        """
        wrapped, key = WrappedKey.read(stored), self.key(arn)
        if isinstance(key, LocalKey) and wrapped.key == LOCAL:
            with suppress(SealBroken):
                key.opened(wrapped, binding)
                return None
        is_same_key = wrapped.key == key.name != LOCAL
        if is_same_key and not key.tells_versions:
            return None
        anew = await key.wrap(await self.unwrap(stored, binding), binding)
        return None if is_same_key and not key.is_outdated(wrapped, anew) else anew.stored

    async def aclose(self) -> None:
        """Close the connections to key-management services."""
        await self.services.aclose()

    def _opened(self, wrapped: WrappedKey, binding: Binding) -> bytes:
        for key in (self.current, *self.others):
            if isinstance(key, LocalKey):
                with suppress(SealBroken):
                    return key.opened(wrapped, binding)
        raise SealBroken("altered, or wrapped with a key that this service does not have")

    def _named(self, name: str) -> KeyEncryptionKey:
        for key in (self.current, *self.others):
            if key.name == name:
                return key
        if not name.startswith(aws_kms.PREFIX):
            raise KeyRefused(f"is wrapped with `{name}`, which ZONED_OTHER_KEY_ENCRYPTION_KEYS does not name")
        return self.key(name.removeprefix(aws_kms.PREFIX))

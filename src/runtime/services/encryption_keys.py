"""The key-encryption keys that the settings name, and the secrets of the service that they wrap."""

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec

from runtime.adapters.keys import aws_kms, vault_transit
from runtime.adapters.keys.aws_kms import AwsKms
from runtime.adapters.keys.key_encryption import AllowedArns, KeyEncryption, KeyServices
from runtime.adapters.keys.local_key import LocalKey
from runtime.adapters.keys.sealing import new_data_key
from runtime.adapters.keys.vault_transit import VaultAccess, VaultTransit, token_in_file
from runtime.adapters.keys.wrapping import KeyEncryptionKey, KeyUnusable
from runtime.services.data_keys import binding_of_secret
from runtime.settings import Settings
from runtime.storage.sql import wrapped_keys
from runtime.storage.sql.database import Database
from runtime.storage.sql.service_secrets import read_or_create

_SECRETS = ("pepper", "cursors", "outbox")


def key_encryption_of(settings: Settings, *, create: bool = False) -> KeyEncryption:
    """The key that wraps data keys, and those that some may be wrapped with. Raises KeyUnusable.

    Args:
        create: make the key file, where there is none and no setting names another key.
    """
    own, others = settings.key_encryption_key, settings.other_key_encryption_keys
    texts = [each.get_secret_value() for each in (own,) if each]
    texts += others.get_secret_value().split(",") if others is not None else []
    allowed = AllowedArns.of_text(settings.zone_encryption_keys)
    services = _key_services(settings, texts, allowed)
    keys: list[KeyEncryptionKey] = []
    if not own:
        keys.append(LocalKey.from_file(settings.key_file, create=create))
    keys += [services.key(each) for each in texts]
    return KeyEncryption(keys[0], tuple(keys[1:]), allowed, services)


def _key_services(settings: Settings, texts: Sequence[str], allowed: AllowedArns) -> KeyServices:
    """The key-management services that the settings name keys of. Raises KeyUnusable."""
    with_kms = bool(allowed.entries) or any(each.strip().startswith(aws_kms.PREFIX) for each in texts)
    if with_kms and find_spec("boto3") is None:
        raise KeyUnusable("keys of AWS KMS require boto3", "install `zonewright[runtime,kms]`")
    with_vault = any(each.strip().startswith(vault_transit.PREFIX) for each in texts)
    return KeyServices(
        AwsKms() if with_kms else None, VaultTransit(_vault_access(settings)) if with_vault else None
    )


def _vault_access(settings: Settings) -> VaultAccess:
    """How Vault is reached. Raises KeyUnusable."""
    token, file = settings.transit_token, settings.transit_token_file
    if settings.transit_address is None:
        raise KeyUnusable(
            "keys of Vault require its address",
            "set ZONED_TRANSIT_ADDRESS, as in `https://vault.example:8200`",
        )
    if (token is None) == (file is None):
        raise KeyUnusable(
            "keys of Vault require one token", "set either ZONED_TRANSIT_TOKEN or ZONED_TRANSIT_TOKEN_FILE"
        )
    return VaultAccess(
        settings.transit_address,
        partial(token_in_file, file) if file is not None else token.get_secret_value,  # type: ignore[union-attr]
        settings.transit_namespace,
        settings.transit_ca_file,
    )


async def service_secrets(database: Database, keys: KeyEncryption) -> dict[str, bytes]:
    """The secrets that all processes share, by name; the first process makes them.

    Raises: SealBroken, KeyRefused, KeyUnreachable.
    """
    async with database.querying() as conn:
        stored = await wrapped_keys.of_service(conn)
    lacking = [name for name in _SECRETS if name not in stored]
    made = {name: await keys.wrap(new_data_key(), binding_of_secret(name)) for name in lacking}
    if made:
        async with database.transaction() as conn:
            stored |= {name: await read_or_create(conn, name, each) for name, each in made.items()}
    return {name: await keys.unwrap(stored[name], binding_of_secret(name)) for name in _SECRETS}

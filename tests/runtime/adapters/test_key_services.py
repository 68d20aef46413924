"""Key-encryption keys of AWS KMS (moto) and of Vault's transit engine, over real HTTP."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.certificates import self_signed
from tests.support.kms import ALL_KEYS, Kms, running_kms
from tests.support.transit import Transit, running_transit

from runtime.adapters.keys import vault_transit
from runtime.adapters.keys.aws_kms import AwsKms, AwsKmsKey
from runtime.adapters.keys.key_encryption import AllowedArns, KeyEncryption, KeyServices
from runtime.adapters.keys.local_key import LocalKey
from runtime.adapters.keys.sealing import SealBroken, new_data_key
from runtime.adapters.keys.vault_transit import TransitKey, VaultAccess, VaultTransit, token_in_file
from runtime.adapters.keys.wrapping import (
    Binding,
    KeyEncryptionKey,
    KeyRefused,
    KeyUnreachable,
    KeyUnusable,
    WrappedKey,
)
from runtime.services.encryption_keys import key_encryption_of
from runtime.settings import Settings

HERE = Binding("zone_internals/here/data_key_wrapped", {"zone": "here"})
THERE = Binding("zone_internals/there/data_key_wrapped", {"zone": "there"})


@pytest.fixture
def kms(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kms]:
    """A KMS that this process finds as it would find that of AWS."""
    with running_kms() as running:
        running.let_it_be_found(monkeypatch)
        yield running


@pytest.fixture
def transit() -> Iterator[Transit]:
    """An engine."""
    with running_transit() as running:
        yield running


@pytest.fixture
async def of_kms(kms: Kms) -> AsyncIterator[AwsKmsKey]:
    """A key of it."""
    connections = AwsKms()
    yield AwsKmsKey(connections, kms.key())
    connections.close()


@pytest.fixture
async def of_transit(transit: Transit) -> AsyncIterator[TransitKey]:
    """A key of it."""
    transit.key("own", token="known")
    vault = VaultTransit(VaultAccess(transit.url, lambda: "known"))
    yield TransitKey(vault, "transit/own")
    await vault.aclose()


@pytest.fixture(params=["local", "aws-kms", "vault-transit"])
def key(request: pytest.FixtureRequest) -> KeyEncryptionKey:
    """A key of each sort."""
    if request.param == "local":
        return LocalKey(b"k" * 32)
    found: KeyEncryptionKey = request.getfixturevalue(
        "of_kms" if request.param == "aws-kms" else "of_transit"
    )
    return found


async def test_a_key_opens_what_it_has_wrapped_where_it_belongs(key: KeyEncryptionKey) -> None:
    """As stored and read again; elsewhere it does not open."""
    data_key = new_data_key()
    wrapped = WrappedKey.read((await key.wrap(data_key, HERE)).stored)
    assert wrapped.key == key.name
    assert await key.unwrap(wrapped, HERE) == data_key
    with pytest.raises(SealBroken):
        await key.unwrap(wrapped, THERE)


async def test_what_was_altered_does_not_open(key: KeyEncryptionKey) -> None:
    """Whichever key it is."""
    wrapped = await key.wrap(new_data_key(), HERE)
    assert await key.unwrap(wrapped, HERE)
    end = b"AAAA" if wrapped.key.startswith(vault_transit.PREFIX) else bytes(4)
    with pytest.raises((SealBroken, KeyRefused)):
        await key.unwrap(replace(wrapped, ciphertext=wrapped.ciphertext[:-4] + end), HERE)


async def test_a_data_key_shows_in_no_repr(key: KeyEncryptionKey) -> None:
    """Neither does what it is wrapped as."""
    data_key = new_data_key()
    wrapped = await key.wrap(data_key, HERE)
    assert "ciphertext" not in repr(wrapped)
    assert repr(data_key) not in repr(key)


@pytest.mark.parametrize("change", ["deny", "disable", "schedule_deletion"])
async def test_kms_refuses(kms: Kms, of_kms: AwsKmsKey, change: str) -> None:
    """A key that was disabled, denied or is going to be deleted: told by its code, not by AWS's message."""
    wrapped = await of_kms.wrap(new_data_key(), HERE)
    assert await of_kms.unwrap(wrapped, HERE)
    arn = of_kms.name.removeprefix("aws-kms:")
    if change == "deny":
        kms.denied.add(arn)
    else:
        getattr(kms, change)(arn)
    with pytest.raises(
        KeyRefused, match=r"^AWS KMS answers (AccessDenied|Disabled|KMSInvalidState)Exception$"
    ):
        await of_kms.unwrap(wrapped, HERE)


async def test_kms_of_another_key_is_not_asked_to_open(kms: Kms, of_kms: AwsKmsKey) -> None:
    """What one key has wrapped another one does not open, though the caller may use both."""
    wrapped = await of_kms.wrap(new_data_key(), HERE)
    connections = AwsKms()
    other = AwsKmsKey(connections, kms.key())
    with pytest.raises((SealBroken, KeyRefused)):
        await other.unwrap(wrapped, HERE)
    assert await of_kms.unwrap(wrapped, HERE)
    connections.close()


async def test_kms_out_of_order_decides_nothing(kms: Kms, of_kms: AwsKmsKey) -> None:
    """A failure of its own is no refusal; neither is a connection that nobody takes."""
    wrapped = await of_kms.wrap(new_data_key(), HERE)
    kms.is_down = True
    with pytest.raises(KeyUnreachable):
        await of_kms.unwrap(wrapped, HERE)
    kms.is_down = False
    assert await of_kms.unwrap(wrapped, HERE)


async def test_kms_that_is_gone_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens."""
    with running_kms() as kms:
        arn, environment = kms.key(), kms.environment
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    connections = AwsKms()
    with pytest.raises(KeyUnreachable):
        await AwsKmsKey(connections, arn).wrap(new_data_key(), HERE)
    connections.close()


async def test_kms_without_credentials_is_unreachable(
    kms: Kms, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The chain of AWS's programs has none."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    connections = AwsKms()
    with pytest.raises(KeyUnreachable, match="NoCredentialsError"):
        await AwsKmsKey(connections, kms.key()).wrap(new_data_key(), HERE)
    connections.close()


async def test_vault_refuses_a_token(transit: Transit, of_transit: TransitKey) -> None:
    """A token that was revoked ends the use of the key."""
    wrapped = await of_transit.wrap(new_data_key(), HERE)
    assert await of_transit.unwrap(wrapped, HERE)
    transit.tokens.clear()
    with pytest.raises(KeyRefused, match=r"^Vault answers 403$"):
        await of_transit.unwrap(wrapped, HERE)


async def test_vault_that_is_sealed_decides_nothing(transit: Transit, of_transit: TransitKey) -> None:
    """It may be unsealed."""
    wrapped = await of_transit.wrap(new_data_key(), HERE)
    transit.is_sealed = True
    with pytest.raises(KeyUnreachable, match=r"^Vault answers 503$"):
        await of_transit.unwrap(wrapped, HERE)
    transit.is_sealed = False
    assert await of_transit.unwrap(wrapped, HERE)


async def test_a_renewed_token_is_read_from_its_file(transit: Transit, tmp_path: Path) -> None:
    """An agent writes another one: the first refusal makes this service look."""
    transit.key("own", token="first")
    file = tmp_path / "token"
    file.write_text("first\n")
    vault = VaultTransit(VaultAccess(transit.url, lambda: token_in_file(file)))
    key = TransitKey(vault, "transit/own")
    wrapped = await key.wrap(new_data_key(), HERE)
    transit.tokens["second"] = transit.tokens.pop("first")
    with pytest.raises(KeyRefused):
        await key.unwrap(wrapped, HERE)
    file.write_text("second\n")
    assert await key.unwrap(wrapped, HERE)
    await vault.aclose()


@pytest.mark.parametrize(
    "members", [{"derived": True}, {"ignores_associated_data": True}], ids=["derived", "older"]
)
async def test_a_key_is_bound_by_every_sort_of_engine(transit: Transit, members: dict[str, bool]) -> None:
    """A derived key needs a context; an engine that knows no associated data must not lose the binding."""
    transit.key("other", token="known", **members)
    vault = VaultTransit(VaultAccess(transit.url, lambda: "known"))
    key = TransitKey(vault, "transit/other")
    data_key = new_data_key()
    wrapped = await key.wrap(data_key, HERE)
    assert await key.unwrap(wrapped, HERE) == data_key
    with pytest.raises(SealBroken):
        await key.unwrap(wrapped, THERE)
    await vault.aclose()


async def test_a_rotated_key_is_outdated(transit: Transit, of_transit: TransitKey) -> None:
    """What an older version has wrapped opens, and is wrapped with the newest one when asked to."""
    ring, data_key = KeyEncryption(of_transit), new_data_key()
    stored = await ring.wrap(data_key, HERE)
    assert await ring.rewrapped(stored, HERE) is None
    transit.keys["own"].versions.append(b"n" * 32)
    assert await ring.unwrap(stored, HERE) == data_key
    anew = await ring.rewrapped(stored, HERE)
    assert anew is not None
    transit.keys["own"].least_version = 2
    assert await ring.unwrap(anew, HERE) == data_key
    with pytest.raises(KeyRefused):
        await ring.unwrap(stored, HERE)


async def test_namespace_and_certificates_are_sent_and_checked(tmp_path: Path) -> None:
    """An engine of an edition with namespaces, behind a certificate that only this service's file names."""
    certificate = self_signed(tmp_path / "vault.pem", "localhost")
    with running_transit(certificate) as transit:
        transit.key("own", token="known")
        transit.namespace = "team"
        access = VaultAccess(transit.url, lambda: "known", "team", certificate)
        for told, error in (
            (access, None),
            (replace(access, namespace=None), KeyRefused),
            (replace(access, ca_file=None), KeyUnreachable),
        ):
            vault = VaultTransit(told)
            key = TransitKey(vault, "transit/own")
            if error is None:
                assert await key.unwrap(await key.wrap(b"k" * 32, HERE), HERE) == b"k" * 32
            else:
                with pytest.raises(error):
                    await key.wrap(b"k" * 32, HERE)
            await vault.aclose()


async def test_keys_are_replaced_across_services(kms: Kms, of_kms: AwsKmsKey, of_transit: TransitKey) -> None:
    """From a file to KMS to Vault: each step opens what the one before has wrapped, and wraps it anew."""
    data_key, local = new_data_key(), LocalKey(b"k" * 32)
    stored = await KeyEncryption(local).wrap(data_key, HERE)
    for ring in (
        KeyEncryption(of_kms, (local,)),
        KeyEncryption(of_transit, (of_kms,)),
        KeyEncryption(local, (of_transit,)),
    ):
        anew = await ring.rewrapped(stored, HERE)
        assert anew is not None
        assert await KeyEncryption(ring.current).unwrap(anew, HERE) == data_key
        stored = anew


@pytest.mark.parametrize(
    ("entry", "arn", "is_allowed"),
    [
        (ALL_KEYS, ALL_KEYS[:-1] + "1", True),
        (ALL_KEYS[:-1] + "1", ALL_KEYS[:-1] + "1", True),
        (ALL_KEYS[:-1] + "1", ALL_KEYS[:-1] + "12", False),
        (ALL_KEYS, "arn:aws:kms:us-east-1:123456789012:key/1", False),
        (ALL_KEYS, "arn:aws:kms:eu-west-1:999999999999:key/1", False),
        (ALL_KEYS, ALL_KEYS, False),
        (ALL_KEYS, "arn:aws:kms:eu-west-1:123456789012:alias/1", False),
        ("", ALL_KEYS[:-1] + "1", False),
    ],
)
def test_zones_name_keys_that_the_operator_allows(entry: str, arn: str, is_allowed: bool) -> None:
    """Region, account and key: a manifest chooses neither where credentials go nor whose key is used."""
    assert AllowedArns.of_text(entry).allow(arn) is is_allowed


@pytest.mark.parametrize(
    "settings",
    [
        {"zone_encryption_keys": "arn:aws:kms:*:123456789012:key/*"},
        {"zone_encryption_keys": "*"},
        {"key_encryption_key": "aws-kms:alias/own"},
        {"key_encryption_key": "vault-transit:transit/own"},
        {"key_encryption_key": "vault-transit:transit/own", "transit_address": "http://vault.example"},
        {"key_encryption_key": "vault-transit:transit/own", "transit_address": "https://vault.example"},
        {
            "key_encryption_key": "vault-transit:../own",
            "transit_address": "https://vault.example",
            "transit_token": "t",
        },
    ],
    ids=["any region", "any", "alias", "no address", "clear text", "no token", "path"],
)
def test_settings_that_name_no_key_are_refused(tmp_path: Path, settings: dict[str, str]) -> None:
    """Before the service begins, with what to write."""
    (tmp_path / "data").mkdir()
    plain = Settings.load(None, data_dir=tmp_path / "data")
    assert key_encryption_of(plain, create=True).waits is False
    with pytest.raises(KeyUnusable):
        key_encryption_of(Settings.load(None, data_dir=tmp_path / "data", **settings))


def test_boto3_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the setting says what to install; without a key of AWS nothing of it is imported."""
    settings = Settings.load(None, data_dir=tmp_path, key_encryption_key=f"aws-kms:{ALL_KEYS[:-1]}1")
    assert key_encryption_of(settings).waits
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(KeyUnusable, match=r"zonewright\[runtime,kms\]"):
        key_encryption_of(settings)
    code = (
        "import sys, runtime.app, runtime.cli; sys.exit({'boto3', 'botocore'} & sys.modules.keys() != set())"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_key_that_is_no_longer_allowed_is_refused(kms: Kms) -> None:
    """Taken off the list, what it has wrapped stays closed, whatever KMS would say."""
    connections, arn = AwsKms(), kms.key()
    local, services = LocalKey(b"k" * 32), KeyServices(connections)
    allowed = KeyEncryption(local, allowed=AllowedArns((ALL_KEYS,)), services=services)
    stored = await allowed.wrap(b"d" * 32, HERE, arn=arn)
    assert await allowed.unwrap(stored, HERE) == b"d" * 32
    with pytest.raises(KeyRefused, match="ZONED_ZONE_ENCRYPTION_KEYS"):
        await KeyEncryption(local, services=services).unwrap(stored, HERE)
    connections.close()

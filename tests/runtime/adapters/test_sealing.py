"""Sealing and secret hashes."""

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtime.adapters.keys.local_key import LocalKey
from runtime.adapters.keys.sealing import (
    SealBroken,
    Sealer,
    SecretHasher,
    new_data_key,
    new_secret,
)
from runtime.adapters.keys.wrapping import Binding, KeyUnusable


def test_opens_what_it_sealed():
    """Sealed for a place, opened for that place."""
    sealer = Sealer(new_data_key())

    assert (
        sealer.open(sealer.seal(b"secret", bound_to="provider:1:secret"), bound_to="provider:1:secret")
        == b"secret"
    )


@pytest.mark.threat("32j")
def test_a_value_moved_elsewhere_does_not_open():
    """Ciphertext copied to another row or column is refused."""
    sealer = Sealer(new_data_key())

    with pytest.raises(SealBroken):
        sealer.open(sealer.seal(b"secret", bound_to="provider:1"), bound_to="provider:2")


def test_every_changed_bit_is_noticed():
    """Version, nonce, ciphertext and tag are all protected."""
    sealer = Sealer(new_data_key())
    sealed = sealer.seal(b"secret", bound_to="x")

    for index in range(len(sealed)):
        altered = bytes([*sealed[:index], sealed[index] ^ 1, *sealed[index + 1 :]])
        with pytest.raises(SealBroken):
            sealer.open(altered, bound_to="x")


@pytest.mark.parametrize(
    "sealed", [b"", b"\x01", b"\x01" + bytes(27), b"plain text that was never sealed at all"]
)
def test_what_is_no_sealed_value_is_refused(sealed):
    """Too short, or of an unknown version."""
    with pytest.raises(SealBroken):
        Sealer(new_data_key()).open(sealed, bound_to="x")


def test_equal_values_look_different():
    """A fresh nonce each time: nobody can tell that two rows hold the same secret."""
    sealer = Sealer(new_data_key())

    assert sealer.seal(b"a", bound_to="x") != sealer.seal(b"a", bound_to="x")


@pytest.mark.threat("32i")
def test_nothing_that_holds_a_key_shows_it():
    """A representation in a log or a traceback gives nothing away."""
    assert repr(Sealer(bytes(32))) == "Sealer(...)"
    assert repr(SecretHasher(bytes(32))) == "SecretHasher(...)"
    assert repr(LocalKey(bytes(32))) == "LocalKey(...)"


def test_key_file_is_made_once_and_for_its_owner(tmp_path):
    """Processes that start at once all end up with the same key, in a file only its owner reads."""
    path = tmp_path / "keys" / "kek"
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: LocalKey.from_file(path, create=True), range(8)))

    binding = Binding("zone:1", {})
    wrapped = keys[0].wrapped(b"k" * 32, binding)
    assert {key.opened(wrapped, binding) for key in keys} == {b"k" * 32}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["kek"]


def test_a_key_file_open_to_others_is_refused(tmp_path):
    """The message says what to do."""
    path = tmp_path / "kek"
    LocalKey.from_file(path, create=True)
    path.chmod(0o644)

    with pytest.raises(KeyUnusable, match="chmod 600"):
        LocalKey.from_file(path)


@pytest.mark.parametrize("text", ["", "short", "not base64!", "QUJD"])
def test_a_malformed_key_is_refused(text):
    """Anything but 32 bytes of base64."""
    with pytest.raises(KeyUnusable):
        LocalKey.from_text(text)


def test_a_missing_key_file_is_refused(tmp_path):
    """Without `create` nothing is made up."""
    with pytest.raises(KeyUnusable):
        LocalKey.from_file(tmp_path / "none")


def test_secrets_are_recognised_by_their_hash():
    """The hash is the same each time, depends on the pepper, and tells right from wrong."""
    secret, hasher = new_secret(), SecretHasher(bytes(range(32)))

    assert len(secret) == 43
    assert hasher.hash(secret) == hasher.hash(secret) != SecretHasher(bytes(32)).hash(secret)
    assert hasher.matches(secret, hasher.hash(secret))
    assert not hasher.matches(secret + "x", hasher.hash(secret))

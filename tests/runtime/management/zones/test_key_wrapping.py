"""The key-encryption key is replaced while the service runs: nothing is lost, and the old key can go."""

import base64
import os
from pathlib import Path

import pytest
from tests.support.factories import found_company, opened_parts

from runtime.adapters.keys.key_encryption import KeyEncryption
from runtime.adapters.keys.local_key import LocalKey
from runtime.adapters.keys.sealing import SealBroken, new_data_key
from runtime.adapters.keys.wrapping import Binding, KeyUnusable
from runtime.services import zone_keys
from runtime.services.container import Services
from runtime.services.management import audit
from runtime.services.management.access.caller import Actor
from runtime.services.management.zones import key_wrapping
from runtime.services.management.zones.key_wrapping import Rewrapped
from runtime.storage.sql.tables import METADATA

BY = Actor("operator", "tester")


def _key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


async def _seal(services: Services, zone_id: str) -> bytes:
    async with services.database.reading() as conn:
        sealer = await zone_keys.sealer(services.data_keys, conn, zone_id)
    return sealer.seal(b"kept", bound_to="test")


async def _open(services: Services, zone_id: str, sealed: bytes) -> bytes:
    async with services.database.reading() as conn:
        sealer = await zone_keys.sealer(services.data_keys, conn, zone_id)
    return sealer.open(sealed, bound_to="test")


async def test_a_key_is_replaced_without_a_stop(database_url: str, tmp_path: Path) -> None:
    """Nodes of two steps of the guide work side by side; after the last nothing needs the old key."""
    old, new = _key(), _key()
    of_database = {"database_url": database_url}
    data = tmp_path / "data"
    accepting = {"key_encryption_key": old, "other_key_encryption_keys": new}
    wrapping = {"key_encryption_key": new, "other_key_encryption_keys": f"{_key()},{old}"}
    async with opened_parts(data, **of_database, **accepting) as first:
        company = await found_company(first)
        before = await company.zone("Before")
        sealed = await _seal(first, before.id)
        async with opened_parts(data, **of_database, **wrapping) as second:
            assert await _open(second, before.id, sealed) == b"kept"
            assert await key_wrapping.rewrap(second, by=BY) == Rewrapped(2, {})
            assert await key_wrapping.rewrap(second, by=BY) == Rewrapped(0, {}), "nothing is left"
            assert await _open(first, before.id, sealed) == b"kept"
            verdicts = [each async for each in audit.verify(second)]
            assert {each.broken_at for each in verdicts} == {None}
    async with opened_parts(data, **of_database, key_encryption_key=new) as alone:
        assert await _open(alone, before.id, sealed) == b"kept"
    with pytest.raises(SealBroken):
        async with opened_parts(data, **of_database, key_encryption_key=old):
            pass


async def test_what_an_unknown_key_wraps_is_left(database_url: str, tmp_path: Path) -> None:
    """It is told, and nothing is written in its place."""
    async with opened_parts(tmp_path / "data", database_url=database_url, key_encryption_key=_key()) as parts:
        await found_company(parts)
        internals = METADATA.tables["zone_internals"]
        async with parts.database.transaction() as conn:
            await conn.execute(internals.update().values(data_key_wrapped=b"\x01" + b"x" * 60))
        with pytest.raises(SealBroken):
            await key_wrapping.rewrap(parts, by=BY)


async def test_a_ring_wraps_with_its_current_key() -> None:
    """Every key unwraps; what is wrapped with the current one is not wrapped again; places stay bound."""
    first, second, third = (LocalKey.from_text(_key()) for _ in range(3))
    ring, data_key = KeyEncryption(first, (second, third)), new_data_key()
    here = Binding("here", {"zone": "here"})
    stored = {each: (await each.wrap(data_key, here)).stored for each in (first, second, third)}
    assert {await ring.unwrap(each, here) for each in stored.values()} == {data_key}
    assert await ring.rewrapped(stored[first], here) is None
    anew = await ring.rewrapped(stored[third], here)
    assert anew is not None
    assert await KeyEncryption(first).unwrap(anew, here) == data_key
    with pytest.raises(SealBroken):
        await ring.unwrap(stored[second], Binding("there", {"zone": "here"}))


@pytest.mark.parametrize("text", ["", "abc", ",", "x" * 44], ids=["none", "short", "empty ones", "no base64"])
async def test_other_keys_are_keys(tmp_path: Path, database_url: str, text: str) -> None:
    """What is none stops the service before it begins."""
    own = {"database_url": database_url, "key_encryption_key": _key()}
    async with opened_parts(tmp_path / "data", **own, other_key_encryption_keys=_key()):
        pass
    with pytest.raises(KeyUnusable):
        async with opened_parts(tmp_path / "data", **own, other_key_encryption_keys=text):
            pass

"""A zone's own `encryption_key`: used, changed, removed, refused; and what becomes of the zone without it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.kms import ALL_KEYS, Kms, running_kms
from tests.support.server import Server, serve
from tests.support.waiting import wait_until

from runtime.adapters.keys.key_encryption import KeyEncryption
from runtime.adapters.keys.sealing import SealBroken, Sealer
from runtime.adapters.keys.wrapping import KeyRefused, WrappedKey
from runtime.services import data_keys
from runtime.services.container import Services
from runtime.services.data_keys import binding_of
from runtime.services.encryption_key_checks import unavailable_keys
from runtime.services.management.access.caller import Actor
from runtime.services.management.zones import key_rotation, key_wrapping
from runtime.storage.sql import wrapped_keys

BY = Actor("operator", "tester")
SECRET = "the secret of a provider"


@pytest.fixture
def kms(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kms]:
    """A KMS that servers of this process find."""
    monkeypatch.setattr(data_keys, "REFUSED_SECONDS", 0.0)
    monkeypatch.setattr(data_keys, "UNREACHABLE_SECONDS", 0.0)
    with running_kms() as running:
        running.let_it_be_found(monkeypatch)
        yield running


@dataclass
class Site:
    """A server, called as its administrator."""

    server: Server
    client: httpx.Client

    def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.client.request(method, path, json=body)

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.send(method, path, body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def zone(self, arn: str | None = None, name: str = "Own") -> dict[str, Any]:
        """A new zone with a provider that has a secret."""
        own = {"encryption_key": {"type": "aws", "arn": arn}} if arn else {}
        made: dict[str, Any] = self.ok("POST", "/zones", {"name": name, **own})
        self.provider(made["id"], "first")
        return made

    def provider(self, zone_id: str, identifier: str) -> httpx.Response:
        """Try to store a secret in a zone."""
        body = {
            "name": identifier,
            "identifier": identifier,
            "client_secret": SECRET,
            "protocols": {"oauth2": {"issuer": "https://idp.example"}},
        }
        return self.send("POST", f"/zones/{zone_id}/providers", body)

    def set_key(self, zone_id: str, arn: str | None) -> httpx.Response:
        """Give a zone a key of its own, or none."""
        own = {"type": "cloud", "arn": arn} if arn else None
        return self.send("PATCH", f"/zones/{zone_id}", {"encryption_key": own})

    def keys(self, zone_id: str) -> httpx.Response:
        """Ask the zone for something that needs its keys."""
        return self.client.get(f"{self.server.url}/z/{zone_id}/.well-known/jwks.json")

    def stored(self, zone_id: str) -> WrappedKey | None:
        """The zone's data key as the database has it."""

        async def read(services: Services) -> bytes | None:
            async with services.database.querying() as conn:
                return (await wrapped_keys.of_zones(conn, [zone_id])).get(zone_id)

        found = self.server.call(read)
        return WrappedKey.read(found) if found is not None else None

    def check(self) -> None:
        """The check of what is held, as the background runs it."""
        self.server.call(lambda services: services.data_keys.check())

    def age(self, seconds: float) -> None:
        """Let what is held be that much older, and in use."""

        async def later(services: Services) -> None:
            for held in services.data_keys._held.values():
                held.checked_at -= seconds
                held.usable_until -= seconds
                held.is_used = True

        self.server.call(later)


@pytest.fixture
def site(kms: Kms, tmp_path: Path, database_url: str) -> Iterator[Site]:
    """A server whose zones may have any key of an account."""
    settings = {"zone_encryption_keys": ALL_KEYS, "database_url": database_url}
    with (
        serve(tmp_path / "data", **settings) as server,
        httpx.Client(base_url=server.url, headers=server.headers, timeout=30) as client,
    ):
        yield Site(server, client)


def test_a_zone_has_a_key_of_its_own(site: Site, kms: Kms) -> None:
    """Its data key is wrapped with it, and KMS learns for which zone; another zone has the service's key."""
    arn = kms.key()
    own, other = site.zone(arn), site.zone(name="Other")
    assert own["encryption_key"] == {"type": "cloud", "arn": arn}
    assert site.stored(own["id"]).key == f"aws-kms:{arn}"
    assert site.stored(other["id"]).key == "local"
    assert [site.keys(each["id"]).status_code for each in (own, other)] == [200, 200]


def test_what_is_warm_asks_nobody(site: Site, kms: Kms) -> None:
    """Requests to a zone in use need no answer of KMS."""
    zone = site.zone(kms.key())
    assert site.keys(zone["id"]).status_code == 200
    before = kms.calls.total()
    assert {site.keys(zone["id"]).status_code for _ in range(5)} == {200}
    assert all(site.provider(zone["id"], f"further-{number}").is_success for number in range(5))
    assert kms.calls.total() == before


def test_a_key_is_changed_and_removed_while_the_zone_is_used(site: Site, kms: Kms) -> None:
    """What is sealed stays as it is and can be read, also by who has opened the zone before."""
    first, second = kms.key(), kms.key()
    zone = site.zone()["id"]
    steps = [(site.set_key(zone, arn).json(), site.stored(zone).key) for arn in (first, second, None)]
    assert [told.get("encryption_key") for told, _ in steps] == [
        {"type": "cloud", "arn": first},
        {"type": "cloud", "arn": second},
        None,
    ]
    assert [name for _, name in steps] == [f"aws-kms:{first}", f"aws-kms:{second}", "local"]
    assert site.keys(zone).status_code == 200
    assert site.provider(zone, "further").is_success
    kms.disable(first)
    kms.disable(second)
    site.age(400)
    site.check()
    assert site.keys(zone).status_code == 200, "the zone needs neither any more"


@pytest.mark.parametrize("trouble", ["other account", "no such key", "denied", "disabled", "alias"])
def test_a_key_that_cannot_be_used_is_refused(site: Site, kms: Kms, trouble: str) -> None:
    """At creation and at change, with what is wrong and nothing of the service's own account."""
    arn, zone = kms.key(), site.zone()["id"]
    assert site.set_key(zone, arn).is_success
    assert site.set_key(zone, None).is_success
    if trouble == "other account":
        arn = arn.replace(":123456789012:", ":999999999999:")
    elif trouble == "no such key":
        arn = arn[:-12] + "000000000000"
    elif trouble == "denied":
        kms.denied.add(arn)
    elif trouble == "disabled":
        kms.disable(arn)
    else:
        arn = arn.replace(":key/", ":alias/")
    made = site.send("POST", "/zones", {"name": "x", "encryption_key": {"type": "cloud", "arn": arn}})
    changed = site.set_key(zone, arn)
    assert [answer.status_code for answer in (made, changed)] == [400, 400]
    assert all("encryption_key.arn" in answer.text for answer in (made, changed))
    assert "role" not in made.text + changed.text
    assert site.stored(zone).key == "local"


def test_a_key_that_cannot_be_tried_changes_nothing(site: Site, kms: Kms) -> None:
    """KMS is out of order: 503, to be sent again."""
    arn, zone = kms.key(), site.zone()["id"]
    kms.is_down = True
    assert site.set_key(zone, arn).status_code == 503
    assert site.stored(zone).key == "local"
    kms.is_down = False
    assert site.set_key(zone, arn).is_success


def test_who_may_not_change_the_zone_asks_kms_nothing(site: Site, kms: Kms) -> None:
    """The service's credentials work for administrators alone; and for those of the zone's organization."""
    arn, zone = kms.key(), site.zone()["id"]
    assert site.set_key(zone, arn).is_success
    before = kms.calls.total()
    refused = site.client.patch(
        f"/zones/{zone}", json={"encryption_key": None}, headers={"Authorization": "Bearer none"}
    )
    assert refused.status_code == 401
    assert site.set_key("zone-of-nobody", arn).status_code == 404
    assert kms.calls.total() == before


def test_a_refused_key_ends_the_zone_and_no_other(site: Site, kms: Kms) -> None:
    """After the next check the zone answers 503, until the key may be used again; its keys are dropped."""
    arn = kms.key()
    zone, other = site.zone(arn)["id"], site.zone(kms.key(), "Other")["id"]
    assert site.keys(zone).status_code == 200
    kms.disable(arn)
    site.check()
    assert site.keys(zone).status_code == 200, "it is not due yet"
    site.age(301)
    site.check()
    assert site.keys(zone).status_code == 503
    assert not site.provider(zone, "further").is_success
    assert site.keys(other).status_code == 200
    registry = site.server.services.zones
    assert zone not in registry._zones
    assert zone not in registry._parsed_keys
    kms.enable(arn)
    assert site.keys(zone).status_code == 200


def test_an_unreachable_key_is_used_for_a_while(site: Site, kms: Kms) -> None:
    """An hour beyond its check, as the settings say; then the zone answers 503 until KMS is back."""
    zone = site.zone(kms.key())["id"]
    assert site.keys(zone).status_code == 200
    kms.is_down = True
    site.age(301)
    site.check()
    assert site.keys(zone).status_code == 200
    site.age(3600)
    site.check()
    assert site.keys(zone).status_code == 503
    kms.is_down = False
    assert site.keys(zone).status_code == 200


def test_a_key_that_nobody_uses_is_not_held(site: Site, kms: Kms) -> None:
    """It costs no further request to KMS, and is read again with the next one."""
    zone = site.zone(kms.key())["id"]
    assert site.keys(zone).status_code == 200
    site.age(301)
    site.check()
    asked = kms.calls.total()

    async def unused(services: Services) -> None:
        for held in services.data_keys._held.values():
            held.checked_at -= 301
            held.is_used = False

    site.server.call(unused)
    site.check()
    assert kms.calls.total() == asked
    assert len(site.server.services.data_keys._held) == 0
    assert site.keys(zone).status_code == 200


def test_a_node_that_starts_without_kms_serves_the_other_zones(
    site: Site, kms: Kms, tmp_path: Path, database_url: str
) -> None:
    """One answers 503 there; where it is held, it goes on."""
    zone, other = site.zone(kms.key())["id"], site.zone(name="Other")["id"]
    assert site.keys(zone).status_code == 200
    kms.is_down = True
    settings = {"zone_encryption_keys": ALL_KEYS, "database_url": database_url, "public_url": site.server.url}
    with serve(tmp_path / "data", organization="Second", **settings) as second:
        asked = {each: httpx.get(f"{second.url}/z/{each}/.well-known/jwks.json") for each in (zone, other)}
        assert [answer.status_code for answer in asked.values()] == [503, 200]
        assert site.keys(zone).status_code == 200
        kms.is_down = False
        assert httpx.get(f"{second.url}/z/{zone}/.well-known/jwks.json").status_code == 200


def test_rewrap_wraps_with_the_key_that_is_meant(site: Site, kms: Kms) -> None:
    """Zones keep their own key; what cannot be asked is told and left."""
    arn = kms.key()
    own, other = site.zone(arn)["id"], site.zone(name="Other")["id"]

    async def rewrap(services: Services) -> key_wrapping.Rewrapped:
        return await key_wrapping.rewrap(services, by=BY)

    async def put_back(services: Services) -> None:
        keys, binding = services.key_encryption, binding_of(own)
        async with services.database.transaction() as conn:
            before = (await wrapped_keys.of_zones(conn, [own]))[own]
            local = await keys.wrap(await keys.unwrap(before, binding), binding)
            await wrapped_keys.replace_of_zone(conn, own, before, local)

    assert site.server.call(rewrap) == key_wrapping.Rewrapped(0, {})
    site.server.call(put_back)
    kms.is_down = True
    told = site.server.call(rewrap)
    assert (told.zones, list(told.skipped)) == (0, [own])
    kms.is_down = False
    assert site.server.call(rewrap) == key_wrapping.Rewrapped(1, {})
    assert site.stored(own).key == f"aws-kms:{arn}"
    assert site.stored(other).key == "local"
    assert site.keys(own).status_code == 200


def test_the_doctor_names_keys_and_zones(site: Site, kms: Kms) -> None:
    """Each key that cannot be used, with the zones that it stops."""
    arn = kms.key()
    zone = site.zone(arn)["id"]
    assert site.server.call(unavailable_keys) == []
    kms.disable(arn)
    (refused,) = site.server.call(unavailable_keys)
    assert (refused.key, refused.is_refused, refused.zone_ids) == (f"aws-kms:{arn}", True, (zone,))
    kms.enable(arn)
    kms.is_down = True
    (away,) = site.server.call(unavailable_keys)
    assert (away.is_refused, away.zone_ids) == (False, (zone,))


def test_signing_keys_are_rotated_where_the_data_key_is_available(site: Site, kms: Kms) -> None:
    """By command; a zone whose key is refused keeps its signing key, and does not stop the others."""
    arn = kms.key()
    zone = site.zone(arn)["id"]
    rotated = site.server.call(lambda services: key_rotation.rotate(services, zone))
    assert any(key["kid"] == rotated for key in site.keys(zone).json()["keys"])


def test_a_zone_is_deleted_although_its_key_is_refused(site: Site, kms: Kms) -> None:
    """Else nobody could get rid of a zone whose key was destroyed."""
    arn = kms.key()
    zone = site.zone(arn)["id"]
    kms.schedule_deletion(arn)
    site.age(301)
    site.check()
    assert site.keys(zone).status_code == 503
    assert site.send("DELETE", f"/zones/{zone}").status_code == 204
    assert site.keys(zone).status_code == 404


class TestShredding:
    """What a deleted zone has sealed opens with nothing that the service has."""

    @staticmethod
    def _sealed(site: Site, zone_id: str) -> tuple[bytes, bytes]:
        """What a zone seals, and its data key as it is stored: a backup of both."""

        async def seal(services: Services) -> tuple[bytes, bytes]:
            zone = await services.zones.get(zone_id)
            async with services.database.querying() as conn:
                stored = (await wrapped_keys.of_zones(conn, [zone_id]))[zone_id]
            return zone.sealer.seal(SECRET.encode(), bound_to="here"), stored

        return site.server.call(seal)

    def test_nothing_that_is_left_opens_what_was_sealed(self, site: Site, kms: Kms) -> None:
        """Neither the keys that wrap, nor the service's secrets, nor any data key of another zone."""
        zone, other = site.zone()["id"], site.zone(name="Other")["id"]
        sealed, _ = self._sealed(site, zone)

        async def opens(services: Services) -> list[bytes]:
            async with services.database.querying() as conn:
                stored = {**await wrapped_keys.of_zones(conn, [zone, other])}
                of_service = await wrapped_keys.of_service(conn)
            keys = [await services.key_encryption.unwrap(each, binding_of(at)) for at, each in stored.items()]
            for name, each in of_service.items():
                keys.append(await services.key_encryption.unwrap(each, data_keys.binding_of_secret(name)))
            found = []
            for key in keys:
                try:
                    found.append(Sealer(key).open(sealed, bound_to="here"))
                except SealBroken:
                    continue
            return found

        assert site.server.call(opens) == [SECRET.encode()]
        assert site.send("DELETE", f"/zones/{zone}").status_code == 204
        assert site.stored(zone) is None
        assert site.server.call(opens) == []

    def test_other_nodes_drop_the_keys(self, site: Site, kms: Kms, tmp_path: Path, database_url: str) -> None:
        """Nobody has to ask them for the zone again."""
        settings = {"zone_encryption_keys": ALL_KEYS, "database_url": database_url}
        own, local = site.zone(kms.key())["id"], site.zone(name="Local")["id"]
        settings["public_url"] = site.server.url
        with serve(tmp_path / "data", organization="Second", **settings) as second:
            asked = [httpx.get(f"{second.url}/z/{each}/.well-known/jwks.json") for each in (own, local)]
            assert [answer.status_code for answer in asked] == [200, 200]
            registry, held = second.services.zones, second.services.data_keys
            assert {own, local} <= set(registry._zones)
            assert own in held._held
            ended = [site.send("DELETE", f"/zones/{each}").status_code for each in (own, local)]
            assert ended == [204, 204]
            wait_until(lambda: not {own, local} & {*registry._zones, *registry._parsed_keys, *held._held})

    def test_a_destroyed_key_closes_backups_too(self, site: Site, kms: Kms) -> None:
        """A backup has the wrapped data key: with a key of the zone's own, KMS decides whether it opens."""
        arn = kms.key()
        zone = site.zone(arn)["id"]
        sealed, stored = self._sealed(site, zone)
        keys: KeyEncryption = site.server.services.key_encryption

        async def restored(_: Services) -> bytes:
            return Sealer(await keys.unwrap(stored, binding_of(zone))).open(sealed, bound_to="here")

        assert site.send("DELETE", f"/zones/{zone}").status_code == 204
        assert site.server.call(restored) == SECRET.encode(), "the backup opens while the key exists"
        kms.schedule_deletion(arn)
        with pytest.raises(KeyRefused):
            site.server.call(restored)

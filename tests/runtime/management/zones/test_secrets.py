"""Secrets that belong to other entities: kept sealed, shown by one operation, and that one on record."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select
from tests.runtime.management.conftest import Api, Zone

from runtime.adapters.keys.sealing import SealBroken
from runtime.services import zone_keys
from runtime.services.container import Services
from runtime.services.management.zones import secrets
from runtime.storage.sql.tables import METADATA, TABLES

CANARY = "canary-of-a-secret-value"
TOKEN = {"type": "token", "token": CANARY}
PASSWORD = {"type": "password", "username": "svc", "password": CANARY}


@pytest.fixture(scope="module")
def owner(zone: Zone) -> str:
    return str(zone.make("applications")["id"])


@pytest.mark.parametrize("data", [TOKEN, PASSWORD], ids=["token", "password"])
class TestEitherType:
    @pytest.fixture
    def made(self, api: Api, zone: Zone, owner: str, data: dict[str, str]) -> dict[str, Any]:
        """The answer to the create of a new secret."""
        body = {"name": "kept", "entity_id": owner, "data": data, "metadata": {"team": "a"}}
        return dict(api.ok("POST", zone.path("/secrets"), {**body, "zone_id": zone.id}, status=200))

    @pytest.fixture
    def path(self, zone: Zone, made: dict[str, Any]) -> str:
        return zone.path(f"/secrets/{made['id']}")

    def test_a_create_answers_the_type_without_the_value(
        self, made: dict[str, Any], data: dict[str, str]
    ) -> None:
        """It begins at version 1."""
        assert set(made) == {
            "id", "created_at", "updated_at", "zone_id", "entity_id", "name", "metadata", "type", "version"
        }  # fmt: skip
        assert (made["type"], made["version"]) == (data["type"], 1)

    def test_a_retrieve_answers_the_value_in_place_of_the_type(
        self, api: Api, made: dict[str, Any], path: str, data: dict[str, str]
    ) -> None:
        """And no cache keeps the answer."""
        shown = api("GET", path)
        assert shown.headers["cache-control"] == "no-store"
        assert shown.json() == {name: made[name] for name in made if name != "type"} | {"data": data}

    @pytest.mark.deviation("lists-without-pages")
    def test_a_list_has_no_pages(self, api: Api, zone: Zone, owner: str, made: dict[str, Any]) -> None:
        """It is a plain array, of everything that was asked for; a limit is not understood."""
        listed = api.ok("GET", zone.path(f"/secrets?entity_id={owner}"))
        assert isinstance(listed, list)
        assert made in listed
        api.refused(400, "GET", zone.path(f"/secrets?entity_id={owner}&limit=1"))

    def test_a_list_has_it_without_the_value(
        self, api: Api, zone: Zone, owner: str, made: dict[str, Any]
    ) -> None:
        """By its owner and its type, as the create answered it."""
        assert made in api.ok("GET", zone.path(f"/secrets?entity_id={owner}&type={made['type']}"))

    def test_its_description_changes_without_a_new_version(self, api: Api, path: str) -> None:
        """Metadata are merged; the version is that of the value alone."""
        body = {"name": "renamed", "description": "why", "metadata": {"team": None, "on": 1}}
        changed = api.ok("PATCH", path, body)
        assert changed["version"] == 1
        assert (changed["description"], changed["metadata"]) == ("why", {"on": 1})

    def test_the_value_that_it_has_changes_nothing(
        self, api: Api, made: dict[str, Any], path: str, data: dict[str, str]
    ) -> None:
        """Given once more, it makes no version and moves no time of change."""
        assert api.ok("PATCH", path, {"data": data}) == made

    def test_another_value_is_another_version(self, api: Api, path: str, data: dict[str, str]) -> None:
        """From then on it is the one that a retrieve answers."""
        other = {**data, "token" if data["type"] == "token" else "password": "another"}
        assert api.ok("PATCH", path, {"data": other})["version"] == 2
        assert api.ok("GET", path)["data"] == other

    def test_what_is_deleted_is_not_found(self, api: Api, path: str) -> None:
        """204, and then 404."""
        api.ok("DELETE", path, status=204)
        api.refused(404, "GET", path)


def test_lists_are_selected_by_owner_and_by_type(api: Api) -> None:
    """A bare array; `owner_type` is that of who owns the secret, and is asked together with `type`."""
    zone = api.zone()
    platform = api.ok("GET", zone.path("/providers?filter[type]=service-vault"))["items"][0]["id"]
    owners = [zone.make(collection)["id"] for collection in ("applications", "resources", "providers")]
    owners += [zone.user().id, platform]
    made = [zone.secret(one) for one in owners]
    pair = zone.secret(owners[0], data=PASSWORD)
    path = zone.path("/secrets")

    assert api.ok("GET", path) == [*made, pair]
    assert api.ok("GET", f"{path}?entity_id={owners[0]}") == [made[0], pair]
    assert api.ok("GET", f"{path}?type=password") == [pair]
    assert api.ok("GET", f"{path}?type=token&owner_type=platform") == made[4:]
    assert api.ok("GET", f"{path}?type=token&owner_type=customer") == made[:4]
    assert api.ok("GET", f"{path}?entity_id=nobody") == []
    for wrong in ("owner_type=customer", "type=key", "type=token&owner_type=nobody"):
        api.refused(400, "GET", f"{path}?{wrong}")


def test_a_body_must_not_name_another_zone(api: Api, zone: Zone, owner: str) -> None:
    """The zone is the one of the path."""
    told = api.refused(400, "POST", zone.path("/secrets"), {
        "name": "n", "entity_id": owner, "data": TOKEN, "zone_id": api.zone().id
    })  # fmt: skip
    assert told["details"][0]["field"] == "zone_id"


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        pytest.param({"data": PASSWORD}, "data.type", id="another type"),
        pytest.param({"data": None}, "data", id="no value"),
        pytest.param({"entity_id": "its owner"}, "entity_id", id="an owner"),
        pytest.param({"version": 7}, "version", id="a version"),
        pytest.param({"name": None}, "name", id="no name"),
        pytest.param({"metadata": None}, "metadata", id="no metadata"),
    ],
)
def test_what_an_update_must_not_say(
    api: Api, zone: Zone, owner: str, patch: dict[str, Any], field: str
) -> None:
    """Another type, an owner (not even the one it has), a version, null in place of a value."""
    path = zone.path(f"/secrets/{zone.secret(owner)['id']}")
    body = {"entity_id": owner} if "entity_id" in patch else patch
    assert api.refused(400, "PATCH", path, body)["details"][0]["field"] == field


@pytest.mark.threat("31y")
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"note": "x" * 4_096}, id="in characters"),
        pytest.param({"note": ["\U0001f600" * 500]}, id="in bytes as they are kept"),
    ],
)
def test_metadata_are_bounded(api: Api, zone: Zone, owner: str, wrong: dict[str, Any]) -> None:
    """At creation and later: a list has no pages, so everybody's memory holds what is told of each secret."""
    body = {"name": "n", "entity_id": owner, "data": TOKEN}
    made = zone.secret(owner, metadata={"note": "x" * 4_000})
    told = api.refused(400, "POST", zone.path("/secrets"), {**body, "metadata": wrong})
    assert told["details"][0]["field"] == "metadata"
    api.refused(400, "PATCH", zone.path(f"/secrets/{made['id']}"), {"metadata": wrong})


@pytest.mark.threat("31y")
def test_a_zone_has_so_many_secrets(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is 409, until another is deleted: a list has no pages, so the number is its bound."""
    zone = api.zone()
    owner = str(zone.make("applications")["id"])
    made = zone.secret(owner)
    monkeypatch.setattr(secrets, "MAX_SECRETS", 2)
    zone.secret(owner)
    api.refused(409, "POST", zone.path("/secrets"), {"name": "n", "entity_id": owner, "data": TOKEN})
    api.ok("DELETE", zone.path(f"/secrets/{made['id']}"))
    zone.secret(owner)


@pytest.mark.parametrize("collection", ["applications", "resources", "providers", "users"])
def test_an_owner_takes_its_secrets_along(api: Api, collection: str) -> None:
    """Deleting an application, a resource, a provider or a user deletes what was kept for it, and no more."""
    zone = api.zone()
    stays = zone.secret(zone.make("applications")["id"])
    owner = zone.user().id if collection == "users" else zone.make(collection)["id"]
    zone.secret(owner)
    assert len(api.ok("GET", zone.path("/secrets"))) == 2
    api.ok("DELETE", zone.path(f"/{collection}/{owner}"))
    assert api.ok("GET", zone.path("/secrets")) == [stays]


def test_changes_at_once_come_to_as_many_versions(api: Api, zone: Zone, owner: str) -> None:
    """No change is lost under another."""
    path = zone.path(f"/secrets/{zone.secret(owner)['id']}")
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda n: api.ok("PATCH", path, {"data": {"type": "token", "token": f"t{n}"}}), range(4))
        )
    assert sorted(one["version"] for one in found) == [2, 3, 4, 5]


@pytest.mark.threat("32a", "32b", "32d", "32j")
def test_the_value_stands_nowhere_but_sealed(api: Api, zone: Zone, owner: str, capfd: Any) -> None:
    """Not in lists, refusals, the snapshot, the audit trail or logs; sealed bytes open in their row alone."""
    first, second = (zone.secret(owner, data=PASSWORD) for _ in range(2))
    path = zone.path(f"/secrets/{first['id']}")
    assert CANARY in api("GET", path).text  # it is the right word to look for
    told = [
        api("GET", zone.path("/secrets")).text,
        api("PATCH", path, {"data": {**PASSWORD, "type": CANARY}}).text,
        api("PATCH", path, {"data": {**PASSWORD, "username": 3}}).text,
        api("GET", f"/organizations/{api.organization_id}/snapshot?zone={zone.id}").text,
        api("GET", f"/organizations/{api.organization_id}/audit-events?limit=100").text,
        "".join(capfd.readouterr()),
    ]
    assert not [each for each in told if CANARY in each]

    async def open_each_in_the_others_place(services: Services) -> None:
        table = TABLES["Secret"]
        async with services.database.reading() as conn:
            stored = {row.id: row.data for row in await conn.execute(select(table))}
            sealer = await zone_keys.sealer(services.data_keys, conn, zone.id)
        opened = [
            sealer.open(stored[each], bound_to=f"secrets/{each}/data") for each in (first["id"], second["id"])
        ]
        assert not [each for each in opened if CANARY.encode() not in each]
        for mine, theirs in ((first["id"], second["id"]), (second["id"], first["id"])):
            with pytest.raises(SealBroken):
                sealer.open(stored[mine], bound_to=f"secrets/{theirs}/data")

    api.server.call(open_each_in_the_others_place)


def test_who_has_seen_a_secret_is_on_record(api: Api, zone: Zone, owner: str) -> None:
    """A retrieve is an audit record of its own; it is no change, so nothing that is cached goes by."""
    made = zone.secret(owner)

    def events() -> Iterator[dict[str, Any]]:
        path = f"/organizations/{api.organization_id}/audit-events?filter[entity_id]={made['id']}"
        yield from api.ok("GET", path)["items"]

    async def stand(services: Services) -> tuple[int, int]:
        heads, internals = METADATA.tables["organization_heads"], METADATA.tables["zone_internals"]
        async with services.database.reading() as conn:
            revision = select(heads.c.revision).where(heads.c.organization_id == api.organization_id)
            epoch = select(internals.c.epoch).where(internals.c.zone_id == zone.id)
            return int(await conn.scalar(revision)), int(await conn.scalar(epoch))

    assert [one["action"] for one in events()] == ["secrets.create"]
    reader, viewer = api.with_role("zone_manager"), api.with_role("zone_viewer")
    before = api.server.call(stand)
    reader.ok("GET", zone.path(f"/secrets/{made['id']}"))
    viewer.refused(403, "GET", zone.path(f"/secrets/{made['id']}"))
    seen, _ = events()
    assert (seen["action"], seen["after"]["version"]) == ("secrets.retrieve", 1)
    assert seen["actor"]["type"] == "api_key"
    assert api.server.call(stand) == before

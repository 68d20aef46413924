"""API keys of organizations: what they give, how long they last, and what ends them."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.management.conftest import Api, caller, let_end
from tests.runtime.management.signing_in import Someone, someone, status
from tests.support.logs import logged_lines
from tests.support.server import serve
from tests.support.waiting import wait_until

from runtime.domain.errors import Forbidden, Unauthorized
from runtime.domain.identifiers import new_id
from runtime.services.clock import system_time
from runtime.services.container import Services
from runtime.services.management.access.caller import Caller
from runtime.services.management.authentication import callers
from runtime.services.management.organizations import api_keys, organizations
from runtime.services.management.unit_of_work import unit_of_work
from runtime.storage.sql import api_keys as stored_keys
from runtime.storage.sql.database import Database


def path(api: Api, key_id: str = "") -> str:
    return f"/organizations/{api.organization_id}/api-keys" + (f"/{key_id}" if key_id else "")


def listed(api: Api) -> dict[str, dict[str, Any]]:
    """The organization's keys by id."""
    found: dict[str, dict[str, Any]] = {}
    after = ""
    while True:
        page = api.ok("GET", f"{path(api)}?limit=100{after}")
        found |= {one["id"]: one for one in page["items"]}
        if not page["page_info"]["has_next_page"]:
            return found
        after = f"&after={page['page_info']['end_cursor']}"


def events(api: Api, *key_ids: str) -> list[str]:
    """What the audit trail has about keys, newest first."""
    asked = "&".join(f"filter[entity_id]={one}" for one in key_ids)
    trail = api.ok("GET", f"/organizations/{api.organization_id}/audit-events?{asked}")
    return [one["action"] for one in trail["items"]]


def ago(**duration: float) -> datetime:
    return datetime.now(UTC) - timedelta(**duration)


@pytest.fixture
def company(api: Api) -> Api:
    """A new organization."""
    made, key = api.server.call(lambda services: organizations.create_organization(services, api.named()))
    return caller(api.server, key, made.id)


class TestMaking:
    @pytest.mark.threat("32e")
    def test_only_a_hash_is_kept(self, api: Api) -> None:
        """The database has no secret: what differs by one character is another one."""
        clear = api.server.call(
            lambda services: api_keys.create_for(services, api.organization_id, name="k", role="org_viewer")
        )
        key_id, secret = clear.removeprefix("zwk_").split("_", 1)
        caller(api.server, clear, api.organization_id).ok("GET", "/zones")

        async def find(services: Services) -> stored_keys.PresentedKey | None:
            async with services.database.reading() as conn:
                return await stored_keys.find(conn, key_id)

        found = api.server.call(find)
        assert found is not None
        assert secret.encode() not in found.key.secret_hash
        wrong = f"zwk_{key_id}_{secret[:-1]}{'A' if secret[-1] != 'A' else 'B'}"
        caller(api.server, wrong, api.organization_id).refused(401, "GET", "/zones")

    @pytest.mark.threat("32b")
    def test_is_shown_once(self, api: Api) -> None:
        """The answer of the create has the key; the list and the audit trail have all but the key."""
        made = api.ok("POST", path(api), {"name": "report", "role": "org_viewer"}, status=201)
        clear = made.pop("api_key")
        secret = clear.split("_", 2)[2]

        caller(api.server, clear, api.organization_id).ok("GET", "/zones")
        assert made.keys() == {"id", "created_at", "created_by", "name", "role"}
        shown = listed(api)[made["id"]]
        shown.pop("last_used_at", None)
        assert shown == made
        assert made["created_by"] == api.server.api_key.split("_")[1]
        assert events(api, made["id"]) == ["api_keys.create"]
        trail = api("GET", f"/organizations/{api.organization_id}/audit-events?limit=100").text
        assert secret not in trail + api("GET", f"{path(api)}?limit=100").text

    def test_tells_when_it_was_used(self, api: Api) -> None:
        """At once never, then within a moment of the first use."""
        key_id, its = api.key("org_viewer")
        assert "last_used_at" not in listed(api)[key_id]

        its.ok("GET", "/zones")

        async def is_noted(services: Services) -> bool:
            async with services.database.reading() as conn:
                found = await stored_keys.find(conn, key_id)
            return found is not None and found.key.last_used_at is not None

        wait_until(lambda: api.server.call(is_noted))
        assert datetime.fromisoformat(listed(api)[key_id]["last_used_at"]) > ago(minutes=1)

    def test_whose_use_cannot_be_written_down_leaves_one_line(self, api: Api, tmp_path: Path) -> None:
        """The request has its answer all the same; nobody waits for what comes behind it."""
        key_id, _ = api.key("org_viewer")

        async def record(services: Services) -> list[Any]:
            away = Database.open(f"postgresql+asyncpg://postgres@/nothing?host={tmp_path}")
            told = []
            async with services.database.reading() as conn:
                found = await stored_keys.find(conn, key_id)
            assert found is not None
            for database in (services.database, away):
                with logged_lines() as lines:
                    await callers.record_use(replace(services, database=database), found.key)
                told.append([(line["event"], line["reason"]) for line in lines])
            await away.close()
            return told

        assert api.server.call(record) == [[], [("use of an API key not recorded", "Unavailable")]]
        assert "last_used_at" in listed(api)[key_id]

    def test_gives_what_its_role_allows(self, api: Api) -> None:
        """An administrator's key changes things; one for reading reads, and changes nothing."""
        _, admin = api.key("org_admin")
        _, reader = api.key("org_viewer")

        admin.ok("GET", path(api))
        admin.zone()
        reader.ok("GET", "/zones")
        reader.refused(403, "POST", "/zones", {"name": "no"})

    @pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
    def test_for_reading_does_not_see_that_there_are_keys(self, api: Api, method: str) -> None:
        """Neither lists, makes nor deletes one: 404."""
        _, reader = api.key("org_viewer")
        body = {"name": "no", "role": "org_viewer"} if method == "POST" else None
        reader.refused(404, method, path(api, "none") if method == "DELETE" else path(api), body)

    @pytest.mark.parametrize("role", ["zone_manager", "service_account", "none", None])
    def test_has_a_role_of_the_organization(self, api: Api, role: str | None) -> None:
        """Roles in a zone and of service accounts are not for keys."""
        api.ok("POST", path(api), {"name": "k", "role": "org_member"})
        told = api.refused(400, "POST", path(api), {"name": "k", "role": role})
        assert told["details"][0]["field"] == "role"

    @pytest.mark.threat("27n")
    def test_gives_no_more_than_its_maker_has(self, api: Api) -> None:
        """The rule stands where keys are made, whichever way somebody comes there."""
        member = Caller(new_id(), "user", api.organization_id, "org_member", "somebody")

        async def make(services: Services, role: str) -> str:
            async with unit_of_work(services, member, new_id()) as unit:
                return (await api_keys.add(unit, name="k", role=role)).role

        assert api.server.call(lambda services: make(services, "org_member")) == "org_member"
        with pytest.raises(Forbidden, match="`org_member` may not make an API key with the role `org_admin`"):
            api.server.call(lambda services: make(services, "org_admin"))

    def test_an_organization_has_so_many(self, company: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        """One more is refused, until one is revoked, or has expired: that one is forgotten for it."""
        monkeypatch.setattr(api_keys, "MAX_API_KEYS", 3)
        first, _ = company.key()
        second, _ = company.key()
        told = company.refused(409, "POST", path(company), {"name": "k", "role": "org_viewer"})
        assert "at most 3 API keys" in told["message"]

        company.ok("DELETE", path(company, first), status=204)
        third, _ = company.key()
        let_end(company, second, ago=timedelta(minutes=1))
        fourth, _ = company.key()

        assert {third, fourth} < listed(company).keys()
        assert second not in listed(company)
        assert events(company, second) == ["api_keys.delete", "api_keys.create"]
        company.refused(409, "POST", path(company), {"name": "k", "role": "org_viewer"})


class TestExpiring:
    def test_ends_by_itself(self, api: Api) -> None:
        """It works before, and says to whoever has it why it does not afterwards."""
        key_id, its = api.key("org_viewer", expires_in_seconds=600)
        left = datetime.fromisoformat(listed(api)[key_id]["expires_at"]) - datetime.now(UTC)
        assert timedelta(seconds=500) < left <= timedelta(seconds=600)
        its.ok("GET", "/zones")

        let_end(api, key_id, ago=timedelta(seconds=1))

        assert "the API key expired at" in its.refused(401, "GET", "/zones")["message"]
        wrong = caller(api.server, f"zwk_{key_id}_{'a' * 43}", api.organization_id)
        assert "expired" not in wrong.refused(401, "GET", "/zones")["message"]
        assert key_id in listed(api)

    @pytest.mark.parametrize("seconds", [0, 59, 10 * 366 * 86_400 + 1, "600", 600.5, None])
    def test_lasts_as_long_as_a_key_may(self, api: Api, seconds: Any) -> None:
        """A minute at least, ten years at most, in whole seconds."""
        body = {"name": "k", "role": "org_viewer"}
        api.ok("POST", path(api), {**body, "expires_in_seconds": 60})
        told = api.refused(400, "POST", path(api), {**body, "expires_in_seconds": seconds})
        assert told["details"][0]["field"] == "expires_in_seconds"

    def test_makes_none_that_outlives_it(self, api: Api) -> None:
        """A key that ends would not end, if it could make one that does not."""
        key_id, its = api.key(expires_in_seconds=600)
        end = listed(api)[key_id]["expires_at"]
        shorter, _ = its.key(expires_in_seconds=60)
        silent, _ = its.key()

        found = listed(api)
        assert found[shorter]["expires_at"] < end
        assert found[silent]["expires_at"] == end
        body = {"name": "k", "role": "org_admin", "expires_in_seconds": 601}
        assert end in its.refused(400, "POST", path(api), body)["details"][0]["message"]

    def test_is_forgotten_in_the_end(self, company: Api) -> None:
        """A month later the list has it no more; what has not expired stays."""
        old, _ = company.key(expires_in_seconds=60)
        lately, _ = company.key(expires_in_seconds=60)
        lasting, _ = company.key()
        let_end(company, old, ago=timedelta(days=31))
        let_end(company, lately, ago=timedelta(days=29))
        assert {old, lately, lasting} < listed(company).keys()

        assert company.server.call(api_keys.forget_expired) >= 1

        assert old not in listed(company)
        assert {lately, lasting} < listed(company).keys()
        assert company.server.call(api_keys.forget_expired) == 0


class TestRevoking:
    @pytest.mark.threat("18l")
    def test_counts_from_the_next_request(self, api: Api) -> None:
        """The key works, and then it is worth nothing; nothing of it is in the list."""
        key_id, its = api.key()
        its.ok("GET", "/zones")

        api.ok("DELETE", path(api, key_id), status=204)

        its.refused(401, "GET", "/zones")
        assert key_id not in listed(api)
        assert events(api, key_id) == ["api_keys.delete", "api_keys.create"]
        api.refused(404, "DELETE", path(api, key_id))

    def test_is_done_by_a_key_to_itself(self, api: Api) -> None:
        """Whoever is done with a key can give it back."""
        key_id, its = api.key()
        its.ok("DELETE", path(api, key_id), status=204)
        its.refused(401, "GET", "/zones")

    @pytest.mark.threat("18l")
    def test_ends_what_the_key_has_made(self, api: Api) -> None:
        """Whoever had a key they should not have keeps nothing by having made others with it."""
        stolen_id, stolen = api.key()
        made_id, made = stolen.key()
        again_id, again = made.key("org_viewer")
        other_id, other = api.key()
        for one in (stolen, made, again, other):
            one.ok("GET", "/zones")

        api.ok("DELETE", path(api, stolen_id), status=204)

        for one in (stolen, made, again):
            one.refused(401, "GET", "/zones")
        other.ok("GET", "/zones")
        assert listed(api).keys().isdisjoint({stolen_id, made_id, again_id})
        assert not [
            one_id
            for one_id in (stolen_id, made_id, again_id)
            if events(api, one_id) != ["api_keys.delete", "api_keys.create"]
        ]
        assert events(api, other_id) == ["api_keys.create"]

    @pytest.mark.threat("18m")
    def test_waits_for_nobody_who_makes_another(self, api: Api) -> None:
        """A key that is revoked while it makes another one makes none."""
        key_id, its = api.key()
        assert its.key("org_viewer")
        acting = Caller(key_id, "api_key", api.organization_id, "org_admin", "key")

        async def make(services: Services) -> None:
            async with unit_of_work(services, acting, new_id()) as unit:
                await api_keys.add(unit, name="k", role="org_viewer")

        api.server.call(make)
        api.ok("DELETE", path(api, key_id), status=204)
        with pytest.raises(Unauthorized):
            api.server.call(make)

    @pytest.mark.threat("26a")
    def test_of_another_organizations_key_is_a_404(self, api: Api, other: Api) -> None:
        """Neither by its id nor in the own list."""
        theirs, its = other.key()
        assert theirs not in listed(api)
        api.refused(404, "DELETE", path(api, theirs))
        its.ok("GET", "/zones")


@pytest.mark.threat("18i", "18l")
def test_every_node_knows_at_once(postgres: Any, tmp_path: Path) -> None:
    """Two processes on one database: a key that one ends is refused by the other at the next request."""
    url = asyncio.run(postgres.migrated())
    with (
        serve(tmp_path, database_url=url) as here,
        serve(tmp_path, database_url=url, organization="Other") as there,
    ):
        admin = caller(here, here.api_key, here.organization_id)
        for _ in range(5):
            key_id, its = admin.key("org_viewer")
            elsewhere = caller(there, its.client.headers["Authorization"].split()[1], here.organization_id)
            elsewhere.ok("GET", "/zones")
            admin.ok("DELETE", path(admin, key_id), status=204)
            elsewhere.refused(401, "GET", "/zones")


def test_one_that_has_expired_stays_so_where_a_clock_is_set_back(postgres: Any, tmp_path: Path) -> None:
    """A process that is asked for no tokens goes by the database's clock, too."""
    url, off = asyncio.run(postgres.migrated()), timedelta(0)
    with serve(tmp_path, database_url=url, system=lambda: system_time() + off) as server:
        admin = caller(server, server.api_key, server.organization_id)
        key_id, its = admin.key("org_viewer")
        its.ok("GET", "/zones")
        let_end(admin, key_id)
        its.refused(401, "GET", "/zones")
        off = timedelta(days=-1)
        readings = {server.services.epochs._read_at}

        def is_read_again() -> bool:
            its("GET", "/zones")  # what was read of the clock counts for a moment, so either answer
            readings.add(server.services.epochs._read_at)
            return len(readings) == 3  # the first reading of the database's clock may have been under way

        wait_until(is_read_again)
        its.refused(401, "GET", "/zones")
    asyncio.run(postgres.drop(url))


@pytest.fixture
def ada(api: Api) -> Someone:
    """An administrator who signs in, and is not the only one."""
    api.person("org_admin")
    return someone(api, "org_admin")


class TestThePersonBehindAKey:
    @pytest.mark.threat("27n")
    def test_may_do_less_and_so_may_the_key(self, api: Api, ada: Someone) -> None:
        """Whoever is no administrator any more has no key of one, nor one that such a key has made."""
        key_id, its = ada.calling().key()
        _, further = its.key()
        assert listed(api)[key_id]["created_by"] == ada.user.id
        for key in (its, further):
            key.zone()

        api.ok("PATCH", ada.path, {"role": "org_viewer"})
        for key in (its, further):
            key.ok("GET", "/zones")
            key.refused(403, "POST", "/zones", {"name": "no"})
            key.refused(404, "GET", path(api))

        api.ok("PATCH", ada.path, {"role": "org_admin"})
        further.zone()

    def test_has_a_key_that_stays_below_them(self, ada: Someone) -> None:
        """A key that only reads goes on reading, whatever becomes of the person."""
        _, reader = ada.calling().key("org_viewer")
        reader.ok("GET", "/zones")
        reader.refused(403, "POST", "/zones", {"name": "no"})

    @pytest.mark.threat("18b", "18l")
    def test_is_disabled_and_so_are_the_keys(self, api: Api, ada: Someone) -> None:
        """Until they may act again."""
        _, its = ada.calling().key()
        _, further = its.key()
        further.ok("GET", "/zones")

        api.ok("PATCH", ada.path, {"status": "disabled"})
        assert [status(key) for key in (its, further)] == [401, 401]

        api.ok("PATCH", ada.path, {"status": "active"})
        assert [status(key) for key in (its, further)] == [200, 200]

    @pytest.mark.threat("18b", "18l", "27m")
    def test_is_removed_and_so_are_the_keys(self, api: Api, ada: Someone) -> None:
        """They go from the list, too, and the audit trail says so; others' keys stay."""
        key_id, its = ada.calling().key()
        further_id, further = its.key()
        other_id, other = api.key()
        assert [status(key) for key in (its, further, other)] == [200, 200, 200]

        api.ok("DELETE", ada.path, status=204)

        assert [status(key) for key in (its, further, other)] == [401, 401, 200]
        assert listed(api).keys() & {key_id, further_id, other_id} == {other_id}
        assert events(api, key_id) == events(api, further_id) == ["api_keys.delete", "api_keys.create"]

    @pytest.mark.threat("18b", "39h")
    def test_has_no_keys_left_elsewhere_when_their_account_ends(self, api: Api, ada: Someone) -> None:
        """An account ends where it is at home, for every organization it acts for: so do its keys there."""
        mine = ada.calling()
        made = mine.ok("POST", "/organizations", {"name": api.named("elsewhere")})
        there = ada.exchanged(mine, made["id"])
        there.organization_id = made["id"]
        _, its = there.key()
        assert status(its) == 200

        api.ok("PATCH", ada.path, {"status": "disabled"})
        assert status(its) == 401
        api.ok("PATCH", ada.path, {"status": "active"})
        assert status(its) == 200
        api.ok("DELETE", ada.path, status=204)
        assert status(its) == 401

    def test_is_nobody_for_an_operators_key(self, api: Api, ada: Someone) -> None:
        """What an operator has made ends by its time or by being revoked."""
        clear = api.server.call(
            lambda services: api_keys.create_for(services, api.organization_id, name="ops", role="org_admin")
        )
        its = caller(api.server, clear, api.organization_id)
        its.ok("DELETE", ada.path, status=204)
        assert status(its) == 200


class TestOperators:
    def test_see_every_key(self, api: Api) -> None:
        """By the organization's id or its label, oldest first."""
        key_id, _ = api.key("org_viewer", expires_in_seconds=600)
        label = api.ok("GET", f"/organizations/{api.organization_id}")["label"]

        found = api.server.call(lambda services: api_keys.every(services, label))

        assert [key.id for key in found] == list(listed(api))
        assert key_id in {key.id for key in found}

    @pytest.mark.parametrize("whole", [False, True])
    def test_revoke_by_the_id_or_by_what_they_found(self, api: Api, *, whole: bool) -> None:
        """A key that lies where it should not be is all that it takes to end it."""
        key_id, its = api.key()
        _, made = its.key()
        clear = its.client.headers["Authorization"].split()[1]

        ended = api.server.call(lambda services: api_keys.revoke(services, clear if whole else key_id))

        assert ended == 2
        assert [status(its), status(made)] == [401, 401]

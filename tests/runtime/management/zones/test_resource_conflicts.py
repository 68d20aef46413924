"""Resources beside and beneath each other: one URL is one resource, and nobody takes of another's prefix."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import update as sql_update
from tests.runtime.management.access.test_bound_credentials import Team, bound
from tests.runtime.management.conftest import Api, Zone
from tests.support.applying import create, on, update

from runtime.cli import doctor
from runtime.services.container import Services
from runtime.storage.sql.tables import TABLES

OTHERS = "belongs to the configuration `"


def host(api: Api) -> str:
    return f"https://{api.named('host')}.example"


def resource(api: Api, zone: Zone, identifier: str, **spec: Any) -> dict[str, Any]:
    name = api.named()
    return create("Resource", name, zone.id, name=name, identifier=identifier, **spec)


def otherwise(identifier: str) -> list[str]:
    """Other spellings of `https://<name>.example/api`."""
    return [
        identifier.replace("https", "HTTPS"),
        identifier.replace(".example", ".EXAMPLE"),
        identifier.replace(".example", ".example:443"),
        identifier.replace("/api", "/%61pi"),
        f"{identifier}/",
        f"{identifier}//",
    ]


async def alike(services: Services) -> str:
    """What `zoned doctor` says of resources."""
    async with services.database.querying() as conn:
        return "; ".join(each.detail for each in await doctor._of_resources(conn))


class TestOneAddress:
    @pytest.mark.threat("49r")
    @pytest.mark.parametrize(
        "index", range(6), ids=["scheme", "host", "port", "escapes", "slash", "two slashes"]
    )
    def test_another_spelling_of_what_is_there(self, api: Api, zone: Zone, index: int) -> None:
        """By a single call and by changeset, tried out or not; whoever asks, and in whichever order."""
        identifier = f"{host(api)}/api"
        zone.make("resources", identifier=f"{identifier}s")
        free = zone.make("resources")
        pair = [identifier, otherwise(identifier)[index]]
        first, second = reversed(pair) if index % 2 else pair
        zone.make("resources", identifier=first)

        body = {"identifier": second, "name": "twin"}
        told = api.refused(409, "POST", zone.path("/resources"), body)
        assert f"`{second}` is the same URL as `{first}`" in told["message"]
        api.refused(409, "PATCH", zone.path(f"/resources/{free['id']}"), {"identifier": second})
        assert f"`{second}` is the same URL as `{first}`" in Team(api, "any").refused(
            409, resource(api, zone, second)
        )

    @pytest.mark.threat("49r")
    def test_two_of_one_changeset(self, api: Api, zone: Zone) -> None:
        """Neither is there before; what gives up its address lets the other one have it."""
        team, address = Team(api, api.named("team")), host(api)
        (made,) = team.apply(resource(api, zone, f"{address}/api"))
        twins = [resource(api, zone, f"{address}/b{end}") for end in ("", "/")]
        answers = [team.post(*twins, dry_run=dry_run) for dry_run in (True, False)]
        assert [each.status_code for each in answers] == [409, 409]
        messages = [each.json()["message"] for each in answers]
        assert not [each for each in messages if "is the same URL as" not in each]

        (taken,) = team.apply(resource(api, zone, f"{address}/b"))
        exchanged = [
            update("Resource", made, "a", zone.id, identifier=f"{address}/b/"),
            update("Resource", taken, "b", zone.id, identifier=f"{address}/api/"),
        ]
        team.apply(*exchanged)
        team.apply(on("delete", "Resource", made), resource(api, zone, f"{address}/b"))

    def test_many_of_one_changeset(self, api: Api, zone: Zone) -> None:
        """The last of many is looked at like the first."""
        team, address = Team(api, api.named("team")), host(api)
        many = [resource(api, zone, f"{address}/{number}") for number in range(20)]
        team.apply(*many)
        more = [resource(api, zone, f"{address}/more/{number}") for number in range(20)]
        assert "operation 20 (create" in team.refused(409, *more, resource(api, zone, f"{address}/7/"))

    def test_names_and_queries_are_compared_as_they_are(self, api: Api, zone: Zone) -> None:
        """What is no URL, another path, another case of a path, another query: each is another."""
        address, name = host(api), api.named("name")
        for identifier in (name, f"{name}/", *(f"{address}/{end}" for end in ("a", "A", "a?x=1", "a?x=2"))):
            zone.make("resources", identifier=identifier)

    @pytest.mark.threat("49r")
    def test_of_two_at_once_one_is_refused(self, api: Api, zone: Zone) -> None:
        """Of two calls one is refused: they take turns."""
        address = host(api)
        path = zone.path("/resources")

        async def both() -> list[int]:
            sent = [{"identifier": f"{address}/api{end}", "name": "x"} for end in ("", "/")]
            calls = (asyncio.to_thread(api, "POST", path, body) for body in sent)
            return [answer.status_code for answer in await asyncio.gather(*calls)]

        first, second = sorted(asyncio.run(both()))
        assert first < 300
        assert second == 409

    def test_a_pair_from_before_stays(self, api: Api, zone: Zone) -> None:
        """It is read and changed otherwise, also its prefix; only a new address is looked at."""
        address = host(api)
        zone.make("resources", identifier=f"{address}/api")
        other = zone.make("resources", identifier=f"{address}/b")

        async def twin(services: Services) -> None:
            table = TABLES["Resource"]
            async with services.database.transaction() as conn:
                where = table.c.id == other["id"]
                await conn.execute(sql_update(table).where(where).values(identifier=f"{address}/api/"))

        api.server.call(twin)
        assert f"`{address}/api` and `{address}/api/` in zone {zone.id}" in api.server.call(alike)
        place = zone.path(f"/resources/{other['id']}")
        assert api.ok("GET", place)["identifier"] == f"{address}/api/"
        api.ok("PATCH", place, {"name": "Other", "prefix": True})
        api.refused(409, "PATCH", place, {"identifier": f"{address}/api//"})
        api.ok("PATCH", place, {"identifier": f"{address}/c"})
        assert address not in api.server.call(alike)


class TestBeneathAPrefix:
    @pytest.mark.threat("49r")
    @pytest.mark.parametrize("end", ["/salaries", "/salaries/", "?x=1", "/a/b"])
    def test_nothing_of_ones_own_beneath_the_prefix_of_others(self, api: Api, zone: Zone, end: str) -> None:
        """New, or renamed; beneath what is no prefix, beside it, and beneath one's own it goes through."""
        mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
        address = host(api)
        theirs.apply(
            resource(api, zone, f"{address}/api", prefix=True), resource(api, zone, f"{address}/exact")
        )
        mine.apply(resource(api, zone, f"{address}/exact/below"))
        own = resource(api, zone, f"{address}/apis", prefix=True)
        made, _ = mine.apply(own, resource(api, zone, f"{address}/apis/below"))

        beneath = f"{address}/api{end}"
        told = mine.refused(403, resource(api, zone, beneath))
        assert f"`{beneath}` is beneath the prefix `{address}/api`" in told
        assert f"{OTHERS}{theirs.owner}`" in told
        body = {"identifier": beneath, "name": "x"}
        mine.api.refused(403, "POST", zone.path("/resources"), body)
        mine.refused(403, update("Resource", made, own["name"], zone.id, identifier=beneath))
        mine.api.refused(403, "PATCH", zone.path(f"/resources/{made}"), {"identifier": beneath})

    @pytest.mark.threat("49r")
    def test_what_the_other_has_given_stays_as_it_was_given(self, api: Api, zone: Zone) -> None:
        """Whoever has the prefix makes one beneath it and releases it; its place is not the team's."""
        mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
        address = host(api)
        _, given = theirs.apply(
            resource(api, zone, f"{address}/api", prefix=True),
            resource(api, zone, f"{address}/api/mine", prefix=True),
        )
        theirs.apply(on("release", "Resource", given))
        place = zone.path(f"/resources/{given}")
        adopted = {**update("Resource", given, "given", zone.id, description="Ours"), "op": "adopt"}
        mine.apply(adopted)
        mine.apply(resource(api, zone, f"{address}/api/mine/more"))

        told = mine.refused(403, update("Resource", given, "given", zone.id, prefix=False))
        assert f"{OTHERS}{theirs.owner}`" in told
        mine.api.refused(403, "PATCH", place, {"prefix": False})
        api.ok("PATCH", place, {"prefix": False})

    @pytest.mark.threat("49s")
    def test_providers_of_others_lend_no_secret(self, api: Api, zone: Zone) -> None:
        """A resource's own provider, or nobody's; of another team's the client secret would be used."""
        mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))

        def provider() -> dict[str, Any]:
            return create("Provider", api.named(), zone.id, name="P", identifier=host(api), client_id="c")

        (own,), (other,) = mine.apply(provider()), theirs.apply(provider())
        nobodys = zone.make("providers")["id"]
        (made,) = mine.apply(resource(api, zone, host(api), credential_provider_id=own))
        mine.apply(resource(api, zone, host(api), credential_provider_id=nobodys))

        told = mine.refused(403, resource(api, zone, host(api), credential_provider_id=other))
        assert f"Provider `{other}` {OTHERS}{theirs.owner}`" in told
        patch = {"credential_provider_id": other}
        mine.api.refused(403, "PATCH", zone.path(f"/resources/{made}"), patch)
        api.ok("PATCH", zone.path(f"/resources/{made}"), patch)
        mine.api.ok("PATCH", zone.path(f"/resources/{made}"), {"description": "as it is"})

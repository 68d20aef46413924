"""The end of a move: the former address is nobody's any more, and its tokens are worth nothing."""

from dataclasses import dataclass
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import select
from tests.runtime.moving.conftest import World, elsewhere, world_of
from tests.support.oauth_site import Site
from tests.support.rewired import run_job, with_new_zones

from runtime.domain.errors import NotFound
from runtime.services.container import Services
from runtime.services.management.zones import moving
from runtime.storage.sql.tables import METADATA

STORAGE = ("embedded", "nodes")
ASKED = (
    "/.well-known/openid-configuration",
    "/.well-known/jwks.json",
    "/.well-known/revocations",
    "/.well-known/oauth-protected-resource",
    "/oauth/authorize",
    "/openid/logout",
    "/account",
)


def _good(world: World, place: str, exchanged: str) -> dict[str, bool]:
    """What the tokens of the former address are good for, asked at a place that is answered."""
    client, token = world.at(place), world.tokens["access_token"]
    hint = world.get(place, "/openid/logout", params={"id_token_hint": world.tokens["id_token"]})
    return {
        "userinfo": client.userinfo(token).status_code == 200,
        "exchange": world.exchange(place, token).status_code == 200,
        "introspection": world.introspect(place, exchanged)["active"],
        "hint": hint.status_code < 400,
    }


@pytest.mark.threat("47n")
def test_the_former_issuer_ends_with_the_move(world: World) -> None:
    """Until then its tokens are good at both; afterwards nowhere, and only what is no token goes on."""
    exchanged = world.exchange("former", world.tokens["access_token"]).json()["access_token"]
    world.move()
    before = _good(world, "present", exchanged)
    assert all(before.values()), before

    assert world.end() == [world.client.issuer]

    after = _good(world, "present", exchanged)
    assert {name: after[name] for name in ("userinfo", "exchange", "introspection")} == {
        "userinfo": False,
        "exchange": False,
        "introspection": False,
    }
    refreshed = world.at("present").refresh(world.tokens["refresh_token"])
    assert refreshed.status_code == 200, refreshed.text


@pytest.mark.parametrize("path", ASKED)
def test_nothing_answers_at_an_ended_address(world: World, path: str) -> None:
    """No document, no page, no token; before the end each of them did."""
    world.move()
    assert world.get("former", path).status_code != 404
    world.end()

    assert world.get("former", path).status_code == 404
    assert world.get("present", path).status_code != 404
    assert world.at("former").refresh(world.tokens["refresh_token"]).status_code == 404


def test_a_zone_moves_back(world: World) -> None:
    """To an issuer that it had, which is its own for ever, ended or not; the other one is the former then."""
    world.move()
    world.end()

    world.move(world.client.issuer)

    assert world.get("former", "/.well-known/jwks.json").status_code == 200
    assert world.client.refresh(world.tokens["refresh_token"]).status_code == 200
    assert world.get("present", "/.well-known/jwks.json").status_code == 200
    assert [each.issuer for each in _listed(world).former] == [world.new_issuer]


def _listed(world: World) -> moving.Addresses:
    return world.site.server.call(lambda services: moving.listed(services, world.zone.id))


def test_ending_what_is_not_there_is_told(world: World) -> None:
    """A zone that was not moved, an issuer that is not among the former ones, and one that has ended."""
    with pytest.raises(NotFound):
        world.end()
    world.move()
    with pytest.raises(NotFound):
        world.end("https://other.example")
    assert world.end(world.client.issuer.partition("/z/")[0]) == [world.client.issuer]
    with pytest.raises(NotFound):
        world.end()


@dataclass
class _Later:
    """A node whose clock a test sets forward."""

    world: World
    ahead: timedelta = timedelta()

    def __post_init__(self) -> None:
        services = self.world.site.services
        self.services = with_new_zones(services, clock=lambda: services.clock() + self.ahead)

    def issuers(self) -> frozenset[str]:
        """Whose tokens the zone accepts then."""

        async def read(_services: Services) -> frozenset[str]:
            return (await self.services.zones.get(self.world.zone.id)).issuers

        return self.world.site.server.call(read)

    def ended(self) -> int | None:
        """How many ends the job records then."""
        return self.world.site.server.call(lambda _services: run_job(self.services, moving.JOB))


def test_a_move_ends_by_itself(world: World) -> None:
    """At its time, whether or not the job that records it has run; the job does that once."""
    world.move(days=2)
    later, both = _Later(world), frozenset({world.client.issuer, world.new_issuer})
    assert later.issuers() == both
    later.ahead = timedelta(days=1)
    later.ended()  # those of other tests
    assert (later.issuers(), later.ended()) == (both, 0)

    later.ahead = timedelta(days=2, minutes=1)

    assert later.issuers() == {world.new_issuer}
    assert [later.ended(), later.ended()] == [1, 0]
    assert [each.ends_at is not None for each in _listed(world).former] == [True]


def test_a_move_without_an_end_waits_for_it(world: World) -> None:
    """Until an operator ends it, it is answered."""
    world.move(days=None)
    later = _Later(world, timedelta(days=80))

    assert later.issuers() == {world.client.issuer, world.new_issuer}
    world.end()
    assert later.issuers() == {world.new_issuer}


def test_no_time_at_all_ends_it_at_once(world: World) -> None:
    """Where the former address is lost already, nothing is accepted from there."""
    assert world.get("former", "/.well-known/jwks.json").status_code == 200
    world.move(days=0)

    assert world.get("former", "/.well-known/jwks.json").status_code == 404
    assert world.at("present").userinfo(world.tokens["access_token"]).status_code == 401


def test_who_moved_it_is_on_record(world: World) -> None:
    """The move and its end, with both issuers."""
    world.move()
    world.end()

    async def read(services: Services) -> list[tuple[str, str]]:
        async with services.database.reading() as conn:
            events = METADATA.tables["audit_events"]
            found = await conn.execute(
                select(events.c.action, events.c.actor_type)
                .where(
                    events.c.zone_id == world.zone.id, events.c.action.in_(("zones.move", "zones.end_move"))
                )
                .order_by(events.c.sequence)
            )
            return [(row.action, row.actor_type) for row in found]

    assert world.site.server.call(read) == [("zones.move", "system"), ("zones.end_move", "system")]


def test_a_host_that_nobody_knows_has_the_present_address(world: World) -> None:
    """As before a move: what a request says of its host chooses among addresses that are stored."""
    world.move()
    address = f"{world.site.server.url}/z/{world.zone.id}/.well-known/openid-configuration"

    answers = {
        host: httpx.get(address, headers={"Host": host}).json()["issuer"]
        for host in ("evil.example", "10.0.0.7:8443", "")
    }

    assert set(answers.values()) == {world.new_issuer}


def test_a_former_host_leads_to_no_other_zone(world: World, site: Site) -> None:
    """Another zone at that host is itself, by its own issuer."""
    other = world_of(site, "Neighbour")
    world.move()

    answers = [
        (zone_id, httpx.get(f"{root}/z/{zone_id}/.well-known/openid-configuration").json()["issuer"])
        for root in (site.server.settings.public_url, elsewhere(site))
        for zone_id in (world.zone.id, other.zone.id)
    ]

    assert [zone_id for zone_id, issuer in answers if not issuer.endswith(f"/z/{zone_id}")] == []
    assert {issuer for zone_id, issuer in answers if zone_id == other.zone.id} == {other.client.issuer}

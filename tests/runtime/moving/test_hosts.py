"""Moves of zones that have a host of their own, and from `http` to `https` behind a proxy."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.factories import App, Company, company_of, found_company, opened_parts
from tests.support.oauth_site import PASSWORD, Site
from tests.support.server import Server, serve

from runtime.domain.errors import NotFound, ValidationFailed
from runtime.domain.kinds import PROVIDER, RESOURCE, ZONE, Verb
from runtime.domain.kinds.zone import Zone
from runtime.domain.zone_addresses import SentTo
from runtime.services.container import Services
from runtime.services.management.zones import moving

_DAYS = timedelta(days=30)


@dataclass
class Hosts:
    """A server whose zones have hosts that the test only names."""

    server: Server
    company: Company

    def zone(self, name: str) -> Zone:
        return self.server.call(lambda _services: self.company.zone(name))

    def move(self, zone: Zone, to: str) -> moving.Move | None:
        async def work(services: Services) -> moving.Move | None:
            return await moving.move(services, zone.id, to, ends_at=services.clock() + _DAYS)

        return self.server.call(work)

    def end(self, zone: Zone) -> None:
        self.server.call(lambda services: moving.end(services, zone.id))

    def get(self, host: str, path: str = "/.well-known/jwks.json", **headers: str) -> httpx.Response:
        return httpx.get(self.server.url + path, headers={"Host": host, **headers}, trust_env=False)

    def issuer_at(self, host: str, **headers: str) -> str | None:
        """The issuer that the metadata at that host names; None where there is none."""
        answer = self.get(host, "/.well-known/openid-configuration", **headers)
        return str(answer.json()["issuer"]) if answer.status_code == 200 else None


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("hosts")
    with serve(folder, zone_url_template="https://{zone_id}.zones.test", proxies=1) as server:
        yield Hosts(server, company_of(server))


def test_a_zone_moves_to_a_host_of_its_own(hosts: Hosts) -> None:
    """Both hosts are the zone, each by its own issuer, with and without the port that goes without saying."""
    zone = hosts.zone("Acme")
    former = f"{zone.id}.zones.test"
    assert hosts.issuer_at("id.acme.test") is None

    hosts.move(zone, "https://ID.acme.test:443/")

    assert hosts.issuer_at(former) == f"https://{former}"
    assert hosts.issuer_at("id.acme.test") == "https://id.acme.test"
    assert hosts.issuer_at("ID.ACME.TEST:443") == "https://id.acme.test"
    assert hosts.issuer_at("other.acme.test") is None
    hosts.end(zone)
    assert hosts.issuer_at(former) is None
    assert hosts.issuer_at("id.acme.test") == "https://id.acme.test"


@pytest.mark.threat("47a", "47k")
def test_an_issuer_is_never_of_another_zone(hosts: Hosts) -> None:
    """Neither while it is the present one, nor the former one, nor ended, nor once its zone is deleted."""
    first, second = hosts.zone("First"), hosts.zone("Second")
    hosts.move(first, "https://one.acme.test")
    hosts.move(first, "https://two.acme.test")
    taken = [f"https://{first.id}.zones.test", "https://one.acme.test", "https://two.acme.test"]
    for to in taken:
        with pytest.raises(ValidationFailed):
            hosts.move(second, to)
    hosts.end(first)
    for to in taken:
        with pytest.raises(ValidationFailed):
            hosts.move(second, to)
    hosts.server.call(lambda _services: hosts.company.run(ZONE, Verb.DELETE, {}, first.id))
    for to in taken:
        with pytest.raises(ValidationFailed):
            hosts.move(second, to)
    assert [hosts.issuer_at(to.removeprefix("https://")) for to in taken] == [None] * 3

    assert hosts.move(second, "https://three.acme.test") is not None


@pytest.mark.parametrize(
    "to",
    [
        "ftp://id.acme.example",
        "id.acme.example",
        "https://",
        "https://user@id.acme.example",
        "https://id.acme.example?x=1",
        "https://id.acme.example#x",
        "https://id.acme.example/other",
        "https://id.acme.example:99999",
        "https://idé.acme.example",
        "{public_url}",
        "https://00000000000000000000000000.zones.test",
    ],
)
def test_addresses_that_no_zone_can_have(hosts: Hosts, to: str) -> None:
    """A path of its own, a user, what is no address, the service's own, and the host of another zone's id."""
    zone = hosts.zone("Refused")
    with pytest.raises(ValidationFailed):
        hosts.move(zone, to.format(public_url=hosts.server.settings.public_url))

    name = f"{zone.slug}-{zone.id[:6]}"
    assert hosts.move(zone, f"https://{name}.acme.example") is not None


def test_what_the_zone_itself_would_be_mistaken_for(hosts: Hosts) -> None:
    """No resource and no provider of the zone is called as the zone, before, while or after it is moved."""
    zone = hosts.zone("Mistaken")
    company, former = hosts.company, f"https://{zone.id}.zones.test"
    run = hosts.server.call
    run(lambda _services: company.resource(zone, "https://api.acme.test"))
    body: dict[str, Any] = {"identifier": "https://login.acme.test", "name": "Login"}
    run(lambda _services: company.create(PROVIDER, zone.id, **body))
    for to in ("https://api.acme.test", "https://login.acme.test"):
        with pytest.raises(ValidationFailed):
            hosts.move(zone, to)

    hosts.move(zone, "https://mistaken.acme.test")
    for identifier in (former, "https://mistaken.acme.test", "https://MISTAKEN.acme.test/"):
        with pytest.raises(ValidationFailed):
            run(lambda _services, name=identifier: company.resource(zone, name))
    hosts.end(zone)
    with pytest.raises(ValidationFailed):
        run(lambda _services: company.create(RESOURCE, zone.id, identifier=former, name="x"))
    run(lambda _services: company.resource(zone, "https://other.acme.test"))


def test_a_proxy_that_is_counted_says_whether_it_was_https(hosts: Hosts) -> None:
    """At one host, `X-Forwarded-Proto` tells the addresses apart; without it the present one answers."""
    zone = hosts.zone("Https")
    hosts.move(zone, "http://plain.acme.test")
    hosts.end(zone)
    hosts.move(zone, "https://plain.acme.test")
    through = {"X-Forwarded-For": "192.0.2.7"}

    told = {
        scheme: hosts.issuer_at("plain.acme.test", **through, **{"X-Forwarded-Proto": scheme})
        for scheme in ("http", "https")
    }

    assert told == {scheme: f"{scheme}://plain.acme.test" for scheme in ("http", "https")}
    assert hosts.issuer_at("plain.acme.test") == "https://plain.acme.test"
    hosts.end(zone)
    assert hosts.issuer_at("plain.acme.test", **through, **{"X-Forwarded-Proto": "http"}) is None


def test_a_move_tells_what_an_operator_has_to_know(hosts: Hosts) -> None:
    """That tokens travel in clear from then on, and that only a proxy tells two addresses apart."""
    zone = hosts.zone("Told")
    moves = [
        hosts.move(zone, to)
        for to in ("http://told.acme.test", "https://told.acme.test", "https://told.acme.test:8443")
    ]

    assert [(each.is_downgrade, each.differs_by_scheme_alone) for each in moves if each] == [
        (True, False),
        (False, True),
        (False, False),
    ]


def test_cookies_of_http_are_none_of_https(hosts: Hosts) -> None:
    """Whoever could read or write cookies on the way is not signed in, nor anybody in their place."""
    zone = hosts.zone("Cookies")
    site = Site(hosts.server, hosts.company)
    site.user(zone)
    client: App = site.app(zone).app
    hosts.move(zone, "http://cookies.acme.test")
    hosts.move(zone, "https://cookies.acme.test")
    query = {
        "client_id": client.client_id,
        "redirect_uri": "https://app.example/callback",
        "response_type": "code",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "code_challenge_method": "S256",
        "scope": "openid",
    }

    def started(scheme: str) -> list[str]:
        answer = httpx.get(
            f"{hosts.server.url}/oauth/authorize",
            params=query,
            headers={
                "Host": "cookies.acme.test",
                "X-Forwarded-For": "192.0.2.7",
                "X-Forwarded-Proto": scheme,
            },
        )
        assert answer.headers["location"].startswith(f"{scheme}://cookies.acme.test/oauth/")
        return answer.headers.get_list("set-cookie")

    (plain,), (secure,) = started("http"), started("https")
    assert plain.startswith(f"zw_started_{zone.id}=")
    assert "secure" not in plain.lower()
    assert secure.startswith(f"__Secure-zw_started_{zone.id}=")
    assert "; secure" in secure.lower()
    assert PASSWORD not in plain + secure


@pytest.mark.parametrize("template", ["{public_url}/z/{slug}", "https://{slug}.zones.test"])
async def test_zones_that_go_by_their_slugs(tmp_path: Path, sqlite_url: str, template: str) -> None:
    """Found at both; another zone that has the same slug now is not found where the first one was."""
    before = {"database_url": sqlite_url, "public_url": "http://old.test:8080", "zone_url_template": template}
    async with opened_parts(tmp_path, **before) as services:
        zone = await (await found_company(services, "First")).zone("Shop")
    after = before | {"public_url": "https://new.test"}
    async with opened_parts(tmp_path, **after) as services:
        other = await (await found_company(services, "Second")).zone("Shop")
        to = "https://shop.new.test"
        moved = await moving.move(services, zone.id, to, ends_at=None)
        assert moved is not None
        issuers = [str(each.protocols.oauth2.issuer) for each in (moved.before, moved.after, other)]
        hosts = [issuer.split("/")[2] for issuer in issuers]
        found = [await services.zones.locate("shop", SentTo(None, host)) for host in hosts[:2]]
        assert found == [zone.id, zone.id]
        assert await services.zones.locate(other.slug, SentTo(None, hosts[2])) == other.id
        with pytest.raises(NotFound):
            await services.zones.locate("nobody", SentTo(None, "nobody.zones.test"))


async def test_all_zones_follow_the_settings(tmp_path: Path, database_url: str) -> None:
    """After a change of ZONED_PUBLIC_URL: those that stand elsewhere are moved, the others stay."""
    before = {"database_url": database_url, "public_url": "http://zones.test:8080"}
    async with opened_parts(tmp_path, **before) as services:
        company = await found_company(services, "First")
        zone = await company.zone("Shop")
    async with opened_parts(tmp_path, **before | {"public_url": "https://id.zones.test"}) as services:
        new = await (await found_company(services, "Second")).zone("New")
        every = await moving.every_zone(services)
        planned = [await moving.move(services, each, None, ends_at=None, dry_run=True) for each in every]
        done = [await moving.move(services, each, None, ends_at=None) for each in every]
        again = [await moving.move(services, each, None, ends_at=None) for each in every]

    assert [each and each.after.protocols for each in planned] == [
        each and each.after.protocols for each in done
    ]
    told = {each.before.id: str(each.after.protocols.oauth2.issuer) for each in done if each is not None}
    assert told[zone.id] == f"https://id.zones.test/z/{zone.id}"
    assert new.id not in told
    assert set(again) == {None}

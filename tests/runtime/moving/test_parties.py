"""What a move means for each party: clients that sign or are told of logouts, administrators, operators."""

import json
from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest
from click.testing import CliRunner
from tests.runtime.clients.signing import EC
from tests.runtime.logout.test_backchannel_logout import Receiver, receiver
from tests.runtime.moving.conftest import World, elsewhere, world_of
from tests.support.oauth_site import CALLBACK, PASSWORD, Browser, Client, Site, claims
from tests.support.publisher import publishing

from runtime.cli import main
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION_CREDENTIAL
from runtime.domain.kinds.values import OrganizationRole
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.assertions import CLIENT_ASSERTION_TYPE
from runtime.services.address_uses import ADDRESS_USES
from runtime.services.container import Services
from runtime.services.management.members import provisioning
from runtime.services.management.zones import moving
from runtime.storage.sql import organizations, zone_data

__all__ = ["receiver"]
PLACES = ["former", "present"]


# --- clients that sign


@pytest.fixture
def signer(world: World) -> Iterator[str]:
    """The client id of a credential of the application that has a key of its own."""
    with publishing() as publisher:
        body = {
            "application_id": world.client.app.id,
            "type": "public-key",
            "identifier": "signer",
            "jwks_uri": publisher.publish("/keys", {"keys": [EC.public_jwk]}),
        }
        world.site.run(world.site.company.create(APPLICATION_CREDENTIAL, world.zone.id, **body))
        yield "signer"


def _assertion(world: World, client_id: str, audience: str) -> dict[str, str]:
    at = int(world.site.services.clock().timestamp())
    said = {"iss": client_id, "sub": client_id, "aud": audience, "iat": at, "exp": at + 60, "jti": new_id()}
    return {
        "client_assertion": EC.sign(said, typ="client-authentication+jwt"),
        "client_assertion_type": CLIENT_ASSERTION_TYPE,
        "grant_type": "client_credentials",
    }


@pytest.mark.threat("47n")
def test_assertions_are_for_either_issuer_and_count_once(world: World, signer: str) -> None:
    """Until the former one has ended; what was used at one address is used at the other."""
    world.move()

    def sent(place: str, form: dict[str, str]) -> int:
        return httpx.post(f"{world.at(place).issuer}/oauth/token", data=form).status_code

    audiences = [world.at(place).issuer for place in PLACES]
    forms = [_assertion(world, signer, audience) for audience in audiences]
    assert [sent("present", form) for form in forms] == [200, 200]
    assert [sent("former", form) for form in forms] == [401, 401]
    assert sent("present", _assertion(world, signer, elsewhere(world.site))) == 401

    world.end()
    again = [_assertion(world, signer, audience) for audience in audiences]
    assert [sent("present", form) for form in again] == [401, 200]


# --- clients that are told of logouts


def _signed_out(world: World, client: Client, tokens: dict[str, str]) -> None:
    """End what the tokens rest on."""
    form = {**client.app.form, "token": tokens["refresh_token"]}
    assert httpx.post(f"{client.issuer}/oauth/revoke", data=form).status_code == 200


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
def test_logout_tokens_say_the_issuer_that_the_client_knows(site: Site, receiver: Receiver) -> None:
    """The one whose ID token it was given last, whenever the session began."""
    world = world_of(site, backchannel_logout_uri=receiver.address)
    before, refreshed = world.client.sign_in(Browser()), world.client.sign_in(Browser())
    world.move()
    at_former = world.at("former").sign_in(Browser())
    at_present = world.at("present").sign_in(Browser())
    refreshed = world.at("present").refresh(refreshed["refresh_token"]).json()
    receiver.told()

    heard = {}
    cases = {"before": before, "refreshed": refreshed, "former": at_former, "present": at_present}
    for name, tokens in cases.items():
        _signed_out(world, world.at("present"), tokens)
        (heard[name],) = [claims(token)["iss"] for token in receiver.told()]

    former, present = world.client.issuer, world.new_issuer
    assert heard == {"before": former, "refreshed": present, "former": former, "present": present}
    late = world.at("former").sign_in(Browser())
    receiver.told()
    world.end()
    _signed_out(world, world.at("present"), late)
    assert [claims(token)["iss"] for token in receiver.told()] == [present]


# --- administrators


def test_administrators_are_who_they_were(site: Site) -> None:
    """Whoever acts for an organization still does after its home zone was moved, by either issuer's token."""
    server = site.server
    email = f"{new_id().lower()}@acme.example"

    async def added(services: Services) -> str:
        role = OrganizationRole.ADMIN
        organization = server.organization_id
        made = await provisioning.add(services, organization, email=email, role=role, password=PASSWORD)
        return made.organization_id

    organization_id = server.call(added)
    listed = httpx.get(f"{server.url}/organizations/{organization_id}", headers=server.headers)
    assert listed.status_code == 200
    home = site.run(_home(site, organization_id))
    client = site.stranger(home, "zonectl", "http://127.0.0.1/callback")
    api = server.settings.public_url

    def token(where: Client) -> str:
        browser = Browser()
        answer = browser.sign_in(browser.open(where.url(scope="openid", resources=[api])), email)
        return str(where.redeem(answer.code).json()["access_token"])

    def allowed(bearer: str) -> int:
        headers = {"Authorization": f"Bearer {bearer}"}
        return httpx.get(f"{server.url}/organizations/{organization_id}/users", headers=headers).status_code

    old = token(client)
    assert allowed(old) == 200

    world = World(site, home, client, client.app, None, None)  # type: ignore[arg-type]
    world.move()

    assert allowed(old) == 200
    assert [allowed(token(world.at(place))) for place in PLACES] == [200, 200]
    world.end()
    assert allowed(old) == 401
    assert allowed(token(world.at("present"))) == 200
    world.move(client.issuer, days=0)


async def _home(site: Site, organization_id: str) -> Zone:
    async with site.services.database.reading() as conn:
        organization = await organizations.find(conn, organization_id)
        assert organization is not None
        found = await zone_data.zone(conn, str(organization.zone_id))
    assert found is not None
    return found[0]


# --- operators


def test_operators_see_who_still_asks_at_the_former_address(world: World) -> None:
    """Each client at each endpoint, and requests that name none; nobody who asks at the new one."""
    world.move()
    world.get("former", "/.well-known/jwks.json")
    world.at("former").refresh(world.tokens["refresh_token"])
    world.exchange("former", world.tokens["access_token"])
    world.exchange("former", world.tokens["access_token"])
    world.introspect("present", world.tokens["access_token"])
    world.site.run(ADDRESS_USES.written())

    found = world.site.server.call(lambda services: moving.listed(services, world.zone.id))

    assert {(use.issuer, use.endpoint, use.client_id) for use in found.uses} >= {
        (world.client.issuer, ".well-known/jwks.json", ""),
        (world.client.issuer, "oauth/token", world.client.app.client_id),
    }
    assert {use.client_id for use in found.uses} == {"", world.client.app.client_id}
    assert {use.issuer for use in found.uses} == {world.client.issuer}
    now = world.site.services.clock()
    assert all(timedelta() <= now - use.used_at < timedelta(minutes=5) for use in found.uses)


def test_clients_that_register_themselves_are_not_kept_one_by_one(site: Site) -> None:
    """Anybody can be any number of them, and what is kept of a former address stays as long as the zone."""
    world = world_of(site)
    world.move()
    metadata = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    made = httpx.post(f"{world.client.issuer}/oauth/register", json=metadata).json()
    form = {"grant_type": "authorization_code", "code": "none", "client_id": made["client_id"]}
    refused = httpx.post(f"{world.client.issuer}/oauth/token", data=form)
    assert refused.json()["error"] == "invalid_grant"  # the client was known
    world.at("former").token(grant_type="authorization_code", code="none")
    world.site.run(ADDRESS_USES.written())

    found = world.site.server.call(lambda services: moving.listed(services, world.zone.id))

    at_tokens = {use.client_id for use in found.uses if use.endpoint == "oauth/token"}
    assert at_tokens == {"", world.client.app.client_id}


def test_commands_say_what_they_do(site: Site, world: World) -> None:
    """A dry run changes nothing; the move tells what to register where; its end is told once."""
    settings = site.server.settings
    environment = {
        "ZONED_DATA_DIR": str(settings.data_dir),
        "ZONED_PUBLIC_URL": settings.public_url,
    }

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["zone", *arguments], env=environment)
        return done.exit_code, done.output

    of = ("--zone", world.zone.id)
    move = ("move", *of, "--to", elsewhere(site))
    code, planned = run(*move, "--dry-run")
    assert (code, planned.splitlines()[-1]) == (0, "would be moved: 1 zones")
    assert json.loads(run("addresses", *of, "--json")[1]) == {"issuer": world.client.issuer, "former": []}

    code, done = run(*move, "--keep-former", "until-ended")
    assert (code, done.splitlines()[-1]) == (0, "moved: 1 zones")
    assert f"{world.client.issuer} -> {world.new_issuer}" in done
    assert run(*move) == (0, "moved: 0 zones\n")
    (former,) = json.loads(run("addresses", *of, "--json")[1])["former"]
    assert (former["issuer"], former["ends_at"], former["answered"]) == (world.client.issuer, None, True)
    assert "answered until it is ended" in run("addresses", *of)[1]

    assert run("end-move", *of) == (0, f"ended: {world.client.issuer}\n")
    assert run("end-move", *of)[0] == 1
    assert "ended 2" in run("addresses", *of)[1]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--all", "--zone", "x", "--to", "https://id.example"),
        ("--all", "--to", "https://id.example"),
        ("--zone", "x"),
        ("--to", "https://id.example"),
        ("--all", "--keep-former", "soon"),
        ("--all", "--keep-former", "-1"),
    ],
)
def test_a_command_that_says_two_things_is_refused(site: Site, arguments: tuple[str, ...]) -> None:
    """Before anything is looked at."""
    environment = {"ZONED_DATA_DIR": str(site.server.settings.data_dir)}
    assert CliRunner().invoke(main, ["zone", "move", *arguments], env=environment).exit_code == 2

"""Zones: what a new one has, what of it can be changed, and what goes with it when it is deleted."""

import asyncio
from pathlib import Path

import httpx
import pytest
from tests.runtime.management.conftest import Api, Zone
from tests.support.factories import found_company, opened_parts

from runtime.domain.errors import NotFound
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ZONE, Verb
from runtime.domain.zone_addresses import SentTo
from runtime.services.management.organizations import organizations


@pytest.fixture(scope="module")
def new_zone(api: Api) -> Zone:
    """A zone that was made with nothing but a name, and has not been changed since."""
    return api.zone()


class TestNewZone:
    """All of it is there as soon as the create answers."""

    def test_admits_invited_people_only(self, new_zone: Zone) -> None:
        """`requires_invitation` is on and `external_sync_enabled` is off unless the create says otherwise."""
        assert new_zone.body["requires_invitation"] is True
        assert new_zone.body["external_sync_enabled"] is False

    def test_has_an_issuer_and_a_redirect_uri_of_its_own(self, api: Api, new_zone: Zone) -> None:
        """Both are below the server's URL, at the zone's id."""
        oauth2 = new_zone.body["protocols"]["oauth2"]
        assert oauth2["issuer"] == f"{api.server.url}/z/{new_zone.id}"
        assert oauth2["redirect_uri"] == f"{oauth2['issuer']}/oauth/callback"

    def test_requires_pkce_and_admits_no_client_metadata_documents(self, new_zone: Zone) -> None:
        """The settings of a new authorization server are the strict ones."""
        oauth2 = new_zone.body["protocols"]["oauth2"]
        assert oauth2["cimd"] == {"allowed_client_ids": [], "enabled": False}
        assert oauth2["pkce_required"] is True

    def test_has_the_two_built_in_providers(self, api: Api, new_zone: Zone) -> None:
        """The token service and the vault, and no other provider."""
        types = {one["type"] for one in api.ok("GET", new_zone.path("/providers"))["items"]}
        assert types == {"service-sts", "service-vault"}

    def test_has_the_two_built_in_roles(self, api: Api, new_zone: Zone) -> None:
        """`zone_manager` and `zone_viewer`, and no other role."""
        roles = {one["identifier"] for one in api.ok("GET", new_zone.path("/roles"))["items"]}
        assert roles == {"zone_manager", "zone_viewer"}

    def test_decides_by_the_default_policy_set(self, api: Api, new_zone: Zone) -> None:
        """The platform's set is the only one, it is active, and it is bound to this zone."""
        (policy_set,) = api.ok("GET", new_zone.path("/policy-sets"))["items"]
        assert policy_set["name"] == "default-zone-policies"
        assert policy_set["owner_type"] == "platform"
        assert policy_set["active"] is True
        assert policy_set["target_id"] == new_zone.id

    def test_has_the_three_default_policies(self, api: Api, new_zone: Zone) -> None:
        """One each for grants of users, for delegation and for direct access of applications."""
        names = {one["name"] for one in api.ok("GET", new_zone.path("/policies"))["items"]}
        assert names == {"default-user-grants", "default-app-delegation", "default-app-direct-access"}

    def test_publishes_a_signing_key(self, new_zone: Zone) -> None:
        """The key set at `jwks_uri` has a key for RS256, which every client can verify."""
        jwks_uri = new_zone.body["protocols"]["oauth2"]["jwks_uri"]
        keys = httpx.get(jwks_uri, trust_env=False).json()["keys"]
        assert {key["alg"] for key in keys} >= {"RS256"}


class TestZones:
    def test_settings_at_creation(self, api: Api) -> None:
        """Of the protocols only the settings can be given; addresses are the service's."""
        zone = api.zone(
            description="d",
            requires_invitation=False,
            protocols={"oauth2": {"dcr_enabled": False, "cimd": {"enabled": True}}},
        )
        assert zone.body["requires_invitation"] is False
        assert zone.body["protocols"]["oauth2"]["dcr_enabled"] is False
        assert zone.body["protocols"]["oauth2"]["cimd"]["enabled"] is True
        body = {"name": "x", "protocols": {"oauth2": {"issuer": "https://evil.example"}}}
        told = api.refused(400, "POST", "/zones", body)
        assert told["details"][0]["field"] == "protocols.oauth2.issuer"

    def test_slugs_get_a_suffix(self, api: Api) -> None:
        """Two zones of a name have different slugs, and can be found by them."""
        name = api.named("Same Zone")
        first = api.ok("POST", "/zones", {"name": name})
        second = api.ok("POST", "/zones", {"name": name})
        assert second["slug"].startswith(first["slug"] + "-")
        assert [one["id"] for one in api.ok("GET", f"/zones?slug={second['slug']}")["items"]] == [
            second["id"]
        ]

    def test_gateway_at_creation(self, api: Api) -> None:
        """`default_mcp_gateway_application` also makes an application, and points to it."""
        zone = api.zone(default_mcp_gateway_application=True)
        gateway = zone.body["default_mcp_gateway_application_id"]
        assert api.ok("GET", zone.path(f"/applications/{gateway}"))["traits"] == ["gateway"]

    def test_organization_must_be_the_callers(self, api: Api, other: Api) -> None:
        """A zone is made in one's own organization; any other id is 400."""
        assert api.zone(organization_id=api.organization_id).id
        for wrong in (other.organization_id, new_id()):
            api.refused(400, "POST", "/zones", {"name": "x", "organization_id": wrong})

    @pytest.mark.parametrize(
        ("member", "collection"),
        [
            ("user_identity_provider_id", "providers"),
            ("default_resource_id", "resources"),
            ("default_mcp_gateway_application_id", "applications"),
        ],
    )
    def test_what_it_refers_to_is_its_own(self, api: Api, member: str, collection: str) -> None:
        """Set by an update, cleared by null, refused for another zone's; deleting the target clears it."""
        zone = api.zone()
        mine, foreign = zone.make(collection), api.zone().make(collection)
        assert api.ok("PATCH", zone.path(), {member: mine["id"]})[member] == mine["id"]
        api.refused(400, "PATCH", zone.path(), {member: foreign["id"]})
        api.refused(400, "PATCH", zone.path(), {member: new_id()})
        assert member not in api.ok("PATCH", zone.path(), {member: None})
        api.ok("PATCH", zone.path(), {member: mine["id"]})
        api.ok("DELETE", zone.path(f"/{collection}/{mine['id']}"))
        assert member not in api.ok("GET", zone.path())
        api.refused(400, "POST", "/zones", {"name": "x", member: mine["id"]})

    def test_settings_merge_and_null_puts_a_default_back(self, api: Api) -> None:
        """Settings merge; null puts a default back; addresses stay."""
        zone = api.zone()
        changed = api.ok(
            "PATCH",
            zone.path(),
            {"protocols": {"oauth2": {"pkce_required": False, "cimd": {"allowed_client_ids": ["*"]}}}},
        )
        assert changed["protocols"]["oauth2"]["pkce_required"] is False
        assert changed["protocols"]["oauth2"]["cimd"] == {"allowed_client_ids": ["*"], "enabled": False}
        back = api.ok("PATCH", zone.path(), {"protocols": {"oauth2": {"pkce_required": None}}})
        assert back["protocols"]["oauth2"]["pkce_required"] is True
        reset = api.ok("PATCH", zone.path(), {"protocols": None})
        assert reset["protocols"] == zone.body["protocols"]
        api.refused(
            400, "PATCH", zone.path(), {"protocols": {"oauth2": {"cimd": {"allowed_client_ids": ["*.*"]}}}}
        )

    def test_deleting_removes_everything(self, api: Api) -> None:
        """The zone, what is in it, and its endpoints."""
        zone = api.zone()
        application = zone.make("applications")
        zone.password(application["id"])
        resource = zone.make("resources", application_id=application["id"])
        api.ok("PATCH", zone.path(), {"default_resource_id": resource["id"]})
        jwks = zone.body["protocols"]["oauth2"]["jwks_uri"]
        assert httpx.get(jwks, trust_env=False).status_code == 200
        assert api("DELETE", zone.path()).status_code == 204
        api.refused(404, "GET", zone.path())
        api.refused(404, "GET", zone.path(f"/applications/{application['id']}"))
        assert httpx.get(jwks, trust_env=False).status_code == 404

    def test_the_organizations_home_zone_stays(self, api: Api) -> None:
        """It is platform-owned: neither changed nor deleted through the API."""
        own = api.ok("GET", f"/organizations/{api.organization_id}")["zone_id"]
        assert api.ok("GET", f"/zones/{own}")["owner_type"] == "platform"
        api.refused(403, "PATCH", f"/zones/{own}", {"name": "mine"})
        api.refused(403, "DELETE", f"/zones/{own}")

    def test_a_zone_tells_what_the_caller_may_do(self, api: Api, viewer: Api) -> None:
        """What the caller may do, on the zone and inside it, when it is asked."""
        zone = api.zone()
        assert "permissions" not in api.ok("GET", zone.path())
        mine = api.ok("GET", f"{zone.path()}?expand[]=permissions")["permissions"]
        assert mine["zones"] == {"list": True, "create": True, "read": True, "update": True, "delete": True}
        assert mine["applications"]["create"] is True
        theirs = viewer.ok("GET", f"{zone.path()}?expand=permissions")["permissions"]
        assert theirs["zones"]["read"] is True
        assert theirs["zones"]["update"] is False
        listed = viewer.ok("GET", "/zones?expand[]=permissions")["items"]
        assert all(one["permissions"]["zones"]["delete"] is False for one in listed)

    @pytest.mark.deviation("encryption-key")
    def test_a_key_that_the_operator_does_not_allow_is_refused(self, api: Api) -> None:
        """Also before its service is asked: a request does not choose where credentials go."""
        key = {"arn": "arn:aws:kms:eu-west-1:111122223333:key/1", "type": "aws"}
        refused = api.refused(400, "POST", "/zones", {"name": "x", "encryption_key": key})
        assert "ZONED_ZONE_ENCRYPTION_KEYS" in refused["message"]


def test_slugs_are_unique_everywhere_when_addresses_are_made_of_them(tmp_path: Path, sqlite_url: str) -> None:
    """Two organizations with zones of the same name have two issuers."""

    async def issuers() -> list[str]:
        made = []
        template = "https://{slug}.zones.test"
        async with opened_parts(tmp_path, database_url=sqlite_url, zone_url_template=template) as services:
            for name in ("Twin", "Twin"):
                organization, _ = await organizations.create_organization(services, name)
                zone = await services.zones.get(str(organization.zone_id))
                made.append(zone.issuer)
        return made

    first, second = asyncio.run(issuers())
    assert first == "https://twin-organization.zones.test"
    assert second != first
    assert second.startswith("https://twin-organization-")


@pytest.mark.threat("47a")
@pytest.mark.threat("47b")
@pytest.mark.threat("47j")
async def test_an_issuer_made_of_a_slug_is_never_given_again(database_url: str, tmp_path: Path) -> None:
    """A zone that is made again under its name has another address; where the old one was, there is nothing.

    Not for another organization, and not for its own: tokens, keys and clients of the old one are out there.
    """
    public_url = "https://id.example"
    template = {"public_url": public_url, "zone_url_template": "{public_url}/z/{slug}"}
    there = SentTo(None, "id.example")
    async with opened_parts(tmp_path, database_url=database_url, **template) as services:
        first, second = [await found_company(services, name) for name in ("First", "Second")]
        zone = await first.zone("Shop")
        assert zone.protocols.oauth2.issuer == f"{public_url}/z/shop"
        assert await services.zones.locate("shop", there) == zone.id
        view = await services.zones.get(zone.id)
        await first.run(ZONE, Verb.DELETE, {}, zone.id)

        again = [await company.zone("Shop") for company in (second, first)]
        start = f"{public_url}/z/shop-"
        assert [each.protocols.oauth2.issuer[: len(start)] for each in again] == [start, start]
        assert [await services.zones.locate(each.slug, there) for each in again] == [
            each.id for each in again
        ]
        keys = [(await services.zones.get(each.id)).keys.keys() for each in again]
        assert not [each for each in keys if each & view.keys.keys()]
        with pytest.raises(NotFound):
            await services.zones.get(zone.id)
        with pytest.raises(NotFound):
            await services.zones.locate("shop", there)

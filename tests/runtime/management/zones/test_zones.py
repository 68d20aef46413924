"""Zones, organizations, service accounts and API keys."""

import asyncio
from base64 import b64encode
from pathlib import Path

import httpx
import pytest
from tests.runtime.management.conftest import Api, caller
from tests.support.factories import opened_parts

from runtime.domain.identifiers import new_id
from runtime.services.management.organizations import api_keys, organizations
from runtime.services.parts import Parts
from runtime.storage.sql import api_keys as stored_keys


class TestZones:
    def test_a_new_zone_is_complete(self, api: Api) -> None:
        """Providers, roles and the default policies, bound and readable as soon as create answers."""
        zone = api.zone()
        assert zone.body["requires_invitation"] is True
        assert zone.body["external_sync_enabled"] is False
        oauth2 = zone.body["protocols"]["oauth2"]
        assert oauth2["issuer"] == f"{api.server.url}/z/{zone.id}"
        assert oauth2["redirect_uri"] == f"{oauth2['issuer']}/oauth/callback"
        assert oauth2["cimd"] == {"allowed_client_ids": [], "enabled": False}
        assert oauth2["pkce_required"] is True
        types = {one["type"] for one in api.ok("GET", zone.path("/providers"))["items"]}
        assert types == {"service-sts", "service-vault"}
        roles = {one["identifier"] for one in api.ok("GET", zone.path("/roles"))["items"]}
        assert roles == {"zone_manager", "zone_viewer"}
        (policy_set,) = api.ok("GET", zone.path("/policy-sets"))["items"]
        assert policy_set["name"] == "default-zone-policies"
        assert policy_set["owner_type"] == "platform"
        assert policy_set["active"] is True
        assert policy_set["target_id"] == zone.id
        names = {one["name"] for one in api.ok("GET", zone.path("/policies"))["items"]}
        assert names == {"default-user-grants", "default-app-delegation", "default-app-direct-access"}
        keys = httpx.get(oauth2["jwks_uri"], trust_env=False).json()["keys"]
        assert {key["alg"] for key in keys} >= {"RS256"}

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

    def test_change(self, api: Api) -> None:
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

    def test_the_organizations_own_zone_stays(self, api: Api) -> None:
        """It is platform-owned: neither changed nor deleted through the API."""
        own = api.ok("GET", f"/organizations/{api.organization_id}")["zone_id"]
        assert api.ok("GET", f"/zones/{own}")["owner_type"] == "platform"
        api.refused(403, "PATCH", f"/zones/{own}", {"name": "mine"})
        api.refused(403, "DELETE", f"/zones/{own}")

    def test_permissions(self, api: Api, viewer: Api) -> None:
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

    def test_a_key_that_nothing_uses_is_refused(self, api: Api) -> None:
        """Without a key-management service a customer's key must not look as if it were in use."""
        key = {"arn": "arn:aws:kms:eu-west-1:1:key/1", "type": "aws"}
        api.refused(400, "POST", "/zones", {"name": "x", "encryption_key": key})


class TestOrganizations:
    def test_a_caller_sees_its_own(self, api: Api, other: Api) -> None:
        """The list is exactly one; another's id or label is 404."""
        page = api.ok("GET", "/organizations")
        (mine,) = page["items"]
        assert mine["id"] == api.organization_id
        assert page["page_info"]["has_next_page"] is False
        assert page["page_info"]["has_prev_page"] is False
        assert "pagination" not in page
        assert api.ok("GET", f"/organizations/{mine['label']}") == mine
        theirs = other.ok("GET", "/organizations")["items"][0]
        for name in (theirs["id"], theirs["label"], new_id()):
            api.refused(404, "GET", f"/organizations/{name}")

    def test_change_keeps_the_label(self, other: Api) -> None:
        """The label stands in addresses; only the name changes."""
        path = f"/organizations/{other.organization_id}"
        before = other.ok("GET", path)
        after = other.ok("PATCH", path, {"name": "Renamed"})
        assert after["name"] == "Renamed"
        assert after["label"] == before["label"]
        other.refused(400, "PATCH", path, {"label": "x"})
        other.refused(400, "PATCH", path, {"sso_enabled": True})

    def test_roles(self, api: Api) -> None:
        """The roles of both levels, or of one."""
        path = f"/organizations/{api.organization_id}/roles"
        page = api.ok("GET", path)
        assert set(page) == {"items"}
        assert {one["name"] for one in page["items"]} == {
            "org_admin",
            "org_member",
            "org_viewer",
            "zone_manager",
            "zone_viewer",
        }
        zone_roles = api.ok("GET", f"{path}?scope=zone&expand=permissions")
        assert {one["scope"] for one in zone_roles["items"]} == {"zone"}
        assert "permissions" in zone_roles
        api.refused(400, "GET", f"{path}?scope=galaxy")


class TestServiceAccounts:
    def test_account_and_credentials(self, api: Api) -> None:
        """Made, listed, changed and deleted; the secret is shown once."""
        base = f"/organizations/{api.organization_id}/service-accounts"
        account = api.ok("POST", base, {"name": api.named("ci"), "description": "d"}, status=201)
        path = f"{base}/{account['id']}"
        api.refused(409, "POST", base, {"name": account["name"]})
        api.refused(400, "PATCH", path, {"description": None})
        assert api.ok("PATCH", path, {"description": "e"})["description"] == "e"
        assert account["id"] in {one["id"] for one in api.ok("GET", f"{base}?limit=100")["items"]}
        made = api.ok("POST", f"{path}/credentials", {"name": "key"}, status=201)
        assert set(made) == {"id", "client_id", "client_secret", "created_at", "name"}
        found = api.ok("GET", f"{path}/credentials/{made['id']}")
        assert set(found) == {"id", "client_id", "created_at", "name"}
        assert api.ok("PATCH", f"{path}/credentials/{made['id']}", {"name": "n"})["name"] == "n"
        page = api.ok("GET", f"{path}/credentials?expand[]=permissions")
        assert page["permissions"]["service_account_credentials"]["create"] is True
        assert api("DELETE", path).status_code == 204
        api.refused(404, "GET", f"{path}/credentials/{made['id']}")

    def test_tokens(self, api: Api) -> None:
        """Client credentials, in the body or by HTTP Basic, give a token that works as the account."""
        account, credential = self._credential(api)
        form = {"grant_type": "client_credentials"}
        in_body = {
            **form,
            "client_id": credential["client_id"],
            "client_secret": credential["client_secret"],
        }
        basic = httpx.BasicAuth(credential["client_id"], credential["client_secret"])
        url = f"{api.server.url}/service-account-token"
        for answer in (
            httpx.post(url, data=in_body, trust_env=False),
            httpx.post(url, data=form, auth=basic, trust_env=False),
        ):
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "no-store"
            token = answer.json()
            assert token["token_type"] == "Bearer"
            assert token["expires_in"] == 3600
            service = caller(api.server, token["access_token"], api.organization_id)
            assert [one["id"] for one in service.ok("GET", "/organizations")["items"]] == [
                api.organization_id
            ]
            assert service.zone().id
            service.refused(403, "PATCH", f"/organizations/{api.organization_id}", {"name": "x"})
        path = f"/organizations/{api.organization_id}/service-accounts/{account['id']}"
        assert api.ok("GET", f"{path}/credentials/{credential['id']}")["last_used_at"]
        api.ok("DELETE", f"{path}/credentials/{credential['id']}")
        service.refused(401, "GET", "/zones")

    @pytest.mark.parametrize(
        ("form", "status", "error"),
        [
            ({"grant_type": "client_credentials"}, 401, "invalid_client"),
            (
                {"grant_type": "client_credentials", "client_id": "x", "client_secret": "y"},
                401,
                "invalid_client",
            ),
            (
                {"grant_type": "password", "client_id": "x", "client_secret": "y"},
                400,
                "unsupported_grant_type",
            ),
            ({"client_id": "x", "client_secret": "y"}, 400, "invalid_request"),
        ],
    )
    def test_refusals_are_oauths(self, api: Api, form: dict[str, str], status: int, error: str) -> None:
        """The token endpoint answers in OAuth's words."""
        answer = httpx.post(f"{api.server.url}/service-account-token", data=form, trust_env=False)
        assert answer.status_code == status
        assert answer.json()["error"] == error

    def test_a_wrong_secret_by_basic_is_challenged(self, api: Api) -> None:
        """HTTP Basic that fails asks for HTTP Basic; two ways at once are refused."""
        _, credential = self._credential(api)
        url = f"{api.server.url}/service-account-token"
        wrong = b64encode(f"{credential['client_id']}:nope".encode()).decode()
        form = {"grant_type": "client_credentials"}
        answer = httpx.post(url, data=form, headers={"Authorization": f"Basic {wrong}"}, trust_env=False)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic")
        twice = httpx.post(
            url,
            data={**form, "client_secret": "x"},
            headers={"Authorization": f"Basic {wrong}"},
            trust_env=False,
        )
        assert twice.json()["error"] == "invalid_request"

    def test_tokens_of_zones_are_no_service_account_tokens(self, api: Api) -> None:
        """A token of another class, issuer or organization does not open the management API."""
        _, credential = self._credential(api)
        token = self._token(api, credential)
        head, payload, signature = token.split(".")
        for altered in (
            f"{head}.{payload}.{signature[:-4]}AAAA",
            f"{head}.{payload}",
            f"{token}.x",
            token[:-1],
        ):
            service = caller(api.server, altered, api.organization_id)
            service.refused(401, "GET", "/zones")

    @staticmethod
    def _credential(api: Api) -> tuple[dict[str, str], dict[str, str]]:
        base = f"/organizations/{api.organization_id}/service-accounts"
        account = api.ok("POST", base, {"name": api.named("ci")})
        return account, api.ok("POST", f"{base}/{account['id']}/credentials", {"name": "key"})

    @staticmethod
    def _token(api: Api, credential: dict[str, str]) -> str:
        form = {
            "grant_type": "client_credentials",
            "client_id": credential["client_id"],
            "client_secret": credential["client_secret"],
        }
        answer = httpx.post(f"{api.server.url}/service-account-token", data=form, trust_env=False)
        return str(answer.json()["access_token"])


class TestApiKeys:
    def test_only_a_hash_is_kept(self, api: Api) -> None:
        """The database has no secret, and notes when the key was used."""
        clear = api.server.call(
            lambda parts: api_keys.create(parts, api.organization_id, name="k", role="org_viewer")
        )
        key_id, secret = clear.removeprefix("zwk_").split("_", 1)
        caller(api.server, clear, api.organization_id).ok("GET", "/zones")

        async def find(parts: Parts) -> stored_keys.ApiKey | None:
            async with parts.database.reading() as conn:
                return await stored_keys.find(conn, key_id)

        stored = api.server.call(find)
        assert stored is not None
        assert secret.encode() not in stored.secret_hash
        wrong = f"zwk_{key_id}_{secret[:-1]}{'A' if secret[-1] != 'A' else 'B'}"
        caller(api.server, wrong, api.organization_id).refused(401, "GET", "/zones")


def test_slugs_are_unique_everywhere_when_addresses_are_made_of_them(tmp_path: Path, sqlite_url: str) -> None:
    """Two organizations with zones of the same name have two issuers."""

    async def issuers() -> list[str]:
        made = []
        template = "https://{slug}.zones.test"
        async with opened_parts(tmp_path, database_url=sqlite_url, zone_url_template=template) as parts:
            for name in ("Twin", "Twin"):
                organization, _ = await organizations.create_organization(parts, name)
                view = await parts.zones.view(str(organization.zone_id))
                made.append(view.issuer)
        return made

    first, second = asyncio.run(issuers())
    assert first == "https://twin-organization.zones.test"
    assert second != first
    assert second.startswith("https://twin-organization-")


def test_guessing_a_secret_is_slowed_down(api: Api) -> None:
    """After twenty failures a client id has to wait, from the address that guessed."""
    url = f"{api.server.url}/service-account-token"
    form = {"grant_type": "client_credentials", "client_id": new_id(), "client_secret": "guess"}
    with httpx.Client(trust_env=False) as client:
        answers = [client.post(url, data=form).status_code for _ in range(21)]
        assert answers[:20] == [401] * 20
        blocked = client.post(url, data=form)
    assert 429 in (answers[20], blocked.status_code)

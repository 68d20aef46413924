"""The generic operations, on the regular kinds."""

import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.domain.identifiers import new_id
from runtime.services.zone_settings import set_zone_setting

REGULAR = ["applications", "resources", "providers"]


@pytest.mark.parametrize("collection", REGULAR)
class TestRegularKinds:
    def test_a_new_entity_says_whose_it_is(self, api: Api, zone: Zone, collection: str) -> None:
        """An id of 26 characters, the zone, the organization, `customer` for its owner type, and a slug."""
        made = zone.make(collection, description="first")
        assert len(made["id"]) == 26
        assert made["zone_id"] == zone.id
        assert made["organization_id"] == api.organization_id
        assert made["owner_type"] == "customer"
        assert made["slug"]

    def test_a_read_answers_what_the_create_answered(self, api: Api, zone: Zone, collection: str) -> None:
        """Member for member, with status 200."""
        made = zone.make(collection, description="first")
        assert api.ok("GET", zone.path(f"/{collection}/{made['id']}"), status=200) == made

    def test_an_update_changes_what_it_names(self, api: Api, zone: Zone, collection: str) -> None:
        """A member with a value is set and one with null is removed; the slug stays, the time moves on."""
        made = zone.make(collection, description="first")
        path = zone.path(f"/{collection}/{made['id']}")
        changed = api.ok("PATCH", path, {"name": "Second", "description": None}, status=200)
        assert changed["name"] == "Second"
        assert "description" not in changed
        assert changed["slug"] == made["slug"]
        assert changed["updated_at"] > made["updated_at"]
        assert api.ok("GET", path) == changed

    def test_what_is_deleted_is_not_found(self, api: Api, zone: Zone, collection: str) -> None:
        """A delete answers 204; reading it, or deleting it once more, is 404."""
        path = zone.path(f"/{collection}/{zone.make(collection)['id']}")
        assert api("DELETE", path).status_code == 204
        api.refused(404, "GET", path)
        api.refused(404, "DELETE", path)

    def test_creates_answer_200(self, api: Api, zone: Zone, collection: str) -> None:
        """Clients of these kinds compare the status exactly."""
        name = api.named()
        body = {"identifier": f"https://{name}.example", "name": name}
        assert api("POST", zone.path(f"/{collection}"), body).status_code == 200

    def test_identifiers_are_unique_in_the_zone(self, api: Api, zone: Zone, collection: str) -> None:
        """A taken identifier is 409, by create and by update; another zone has its own."""
        first, second = zone.make(collection), zone.make(collection)
        body = {"identifier": first["identifier"], "name": "again"}
        assert api.refused(409, "POST", zone.path(f"/{collection}"), body)["code"] == "conflict"
        api.refused(
            409, "PATCH", zone.path(f"/{collection}/{second['id']}"), {"identifier": first["identifier"]}
        )
        assert api.ok("GET", zone.path(f"/{collection}/{second['id']}")) == second

    def test_slugs_differ_for_equal_names(self, zone: Zone, collection: str) -> None:
        """The second of a name gets a suffix."""
        name = zone.api.named("Same Name")
        first, second = zone.make(collection, name=name), zone.make(collection, name=name)
        assert first["slug"] == name.lower().replace(" ", "-")
        assert second["slug"].startswith(first["slug"] + "-")

    def test_required_members_cannot_be_cleared(self, api: Api, zone: Zone, collection: str) -> None:
        """Null is 400 on a member that every entity has."""
        made = zone.make(collection)
        path = zone.path(f"/{collection}/{made['id']}")
        told = api.refused(400, "PATCH", path, {"name": None})
        assert told["details"][0]["field"] == "name"

    def test_an_empty_update_changes_nothing(self, api: Api, zone: Zone, collection: str) -> None:
        """`{}` answers the entity as it is, with its old time of change."""
        made = zone.make(collection)
        assert api.ok("PATCH", zone.path(f"/{collection}/{made['id']}"), {}) == made

    @pytest.mark.parametrize("cleared", [None, {}], ids=["null", "empty"])
    def test_metadata_is_removed_as_a_whole(
        self, api: Api, zone: Zone, collection: str, cleared: object
    ) -> None:
        """By null, and by an object without members (specification, `MetadataUpdate`)."""
        made = zone.make(collection, metadata={"icon_url": "https://icons.example/a.png"})
        assert made["metadata"] == {"icon_url": "https://icons.example/a.png"}
        path = zone.path(f"/{collection}/{made['id']}")
        assert "metadata" not in api.ok("PATCH", path, {"metadata": cleared})
        assert "metadata" not in api.ok("GET", path)

    def test_empty_metadata_is_dropped(self, api: Api, zone: Zone, collection: str) -> None:
        """`{}` and null both drop the whole object; null on a member of it unsets that one."""
        made = zone.make(collection, metadata={"icon_url": "https://example.com/icon.png"})
        path = zone.path(f"/{collection}/{made['id']}")
        assert made["metadata"] == {"icon_url": "https://example.com/icon.png"}
        assert "metadata" not in api.ok("PATCH", path, {"metadata": {"icon_url": None}})
        api.ok("PATCH", path, {"metadata": {"icon_url": "https://example.com/2.png"}})
        assert "metadata" not in api.ok("PATCH", path, {"metadata": None})


class TestProviders:
    def test_secrets_are_sealed_and_never_come_back(self, api: Api, zone: Zone) -> None:
        """Answers say whether a secret is set; the database holds it sealed under the zone's key."""
        made = zone.make("providers", client_id="abc", client_secret="s3cret-value")
        path = zone.path(f"/providers/{made['id']}")
        assert made["client_secret_set"] is True
        assert "s3cret-value" not in api("GET", path).text

        async def stored(services: object) -> str | None:
            from runtime.domain.kinds import PROVIDER
            from runtime.services import address_bound_secrets, zone_keys
            from runtime.storage.sql import entities

            async with services.database.reading() as conn:  # type: ignore[attr-defined]
                found = await entities.get(conn, PROVIDER, made["id"], within={"zone_id": zone.id})
                assert b"s3cret-value" not in found.client_secret  # type: ignore[attr-defined]
                sealer = await zone_keys.sealer(services.data_keys, conn, zone.id)  # type: ignore[arg-type]
                return address_bound_secrets.opened(sealer, PROVIDER, found, "client_secret")

        assert api.server.call(stored) == "s3cret-value"
        assert api.ok("PATCH", path, {"client_secret": None})["client_secret_set"] is False
        assert api.ok("PATCH", path, {"client_secret": "other"})["client_secret_set"] is True

    def test_issuer_is_the_identifier_when_absent(self, zone: Zone) -> None:
        """`protocols.oauth2.issuer` defaults to the identifier at creation, and members merge later."""
        made = zone.make("providers", protocols={"oauth2": {"scope_parameter": "user_scope"}})
        assert made["protocols"]["oauth2"] == {
            "issuer": made["identifier"],
            "scope_parameter": "user_scope",
        }
        changed = zone.api.ok(
            "PATCH",
            zone.path(f"/providers/{made['id']}"),
            {"protocols": {"oauth2": {"scope_separator": ","}}},
        )
        assert changed["protocols"]["oauth2"]["scope_parameter"] == "user_scope"
        dropped = zone.api.ok("PATCH", zone.path(f"/providers/{made['id']}"), {"protocols": None})
        assert "protocols" not in dropped

    @pytest.mark.parametrize("type_", ["service-sts", "service-vault"])
    def test_built_in_ones_cannot_be_changed(self, api: Api, zone: Zone, type_: str) -> None:
        """The zone's own token service and vault are the service's: 403 for an update and for a delete."""
        found = api.ok("GET", zone.path(f"/providers?filter[type]={type_}"))["items"]
        assert len(found) == 1
        path = zone.path(f"/providers/{found[0]['id']}")
        assert api.refused(403, "PATCH", path, {"name": "mine"})["code"] == "forbidden"
        api.refused(403, "DELETE", path)

    def test_deleting_leaves_users_without_a_provider(self, api: Api, zone: Zone) -> None:
        """Users of a deleted provider stay; what referred to it refers to nothing."""
        provider = zone.make("providers")
        resource = zone.make("resources", credential_provider_id=provider["id"])
        user = zone.user(provider_id=provider["id"], issuer=provider["identifier"], subject="s1")
        fresh = api.zone()
        api.ok("DELETE", zone.path(f"/providers/{provider['id']}"))
        assert "provider_id" not in api.ok("GET", zone.path(f"/users/{user.id}"))
        shown = api.ok("GET", zone.path(f"/resources/{resource['id']}"))
        assert resource.keys() - shown.keys() == {"credential_provider_id"}
        assert shown.keys() <= resource.keys()
        assert fresh.id


class TestResources:
    def test_a_resource_is_for_web_clients_and_no_prefix_by_default(self, zone: Zone) -> None:
        """A resource is for web clients and no prefix unless it says so."""
        made = zone.make("resources")
        assert made["application_type"] == "web"
        assert made["prefix"] is False

    @pytest.mark.parametrize("member", ["application_id", "credential_provider_id"])
    def test_references_must_be_in_the_zone(self, api: Api, zone: Zone, member: str) -> None:
        """What another zone has looks like what nobody has."""
        collection = {"application_id": "applications", "credential_provider_id": "providers"}[member]
        foreign = api.zone().make(collection)
        body = {"identifier": "https://r.example", "name": "r"}
        told = api.refused(400, "POST", zone.path("/resources"), {**body, member: foreign["id"]})
        unknown = new_id()
        same = api.refused(400, "POST", zone.path("/resources"), {**body, member: unknown})
        assert told["message"].replace(foreign["id"], "x") == same["message"].replace(unknown, "x")
        assert told["details"][0]["field"] == member

    @pytest.mark.parametrize(
        "identifier", ["https://a.example/#x", "https://u@a.example/", "https://a.example/../b"]
    )
    def test_identifiers_that_cannot_be_named_are_refused(
        self, api: Api, zone: Zone, identifier: str
    ) -> None:
        """A URL that readers take apart differently is no identifier."""
        api.refused(400, "POST", zone.path("/resources"), {"identifier": identifier, "name": "x"})
        plain = f"https://{api.named()}.example/b"
        api.ok("POST", zone.path("/resources"), {"identifier": plain, "name": "x"})

    def test_prefixes_are_urls(self, api: Api, zone: Zone) -> None:
        """Only a URL with a host can stand for what is below it; also when it is changed later."""
        api.refused(400, "POST", zone.path("/resources"), {"identifier": "x", "name": "x", "prefix": True})
        made = zone.make("resources", prefix=True)
        api.refused(400, "PATCH", zone.path(f"/resources/{made['id']}"), {"identifier": "plain"})

    @pytest.mark.parametrize("seconds", [0, -1, 31_536_001, 1.5, "60", True])
    def test_lifetimes_are_seconds(self, api: Api, zone: Zone, seconds: object) -> None:
        """At least one second, at most a year, and a whole number."""
        body = {"identifier": "https://l.example", "name": "x", "credential_lifetime_seconds": seconds}
        api.refused(400, "POST", zone.path("/resources"), body)


class TestApplications:
    @pytest.mark.parametrize(
        "uri",
        [
            "https://a.example/cb#fragment",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://a.example/cb?code=1",
            "https://a.example/cb?state=1",
            "https://a.example/cb?iss=1",
            "https://a.example/cb?error=1",
            "http://a.example/cb",
            "https://u:p@a.example/cb",
            "https://A.example/cb",
            "https://a.example/x/../cb",
        ],
    )
    @pytest.mark.parametrize("member", ["redirect_uris", "post_logout_redirect_uris"])
    def test_dangerous_redirects_are_refused(self, api: Api, zone: Zone, uri: str, member: str) -> None:
        """What must never receive an authorization answer cannot be registered; an update is checked too."""
        body = {"identifier": api.named(), "name": "x", "protocols": {"oauth2": {member: [uri]}}}
        told = api.refused(400, "POST", zone.path("/applications"), body)
        assert told["details"][0]["field"] == f"protocols.oauth2.{member}[0]"
        made = zone.make("applications")
        path = zone.path(f"/applications/{made['id']}")
        api.refused(400, "PATCH", path, {"protocols": {"oauth2": {member: [uri]}}})
        assert api.ok("GET", path) == made

    @pytest.mark.parametrize(
        "uri",
        [
            "https://a.example/cb?x=1",
            "http://localhost:8600/cb",
            "http://127.0.0.1/cb",
            "com.example.app:/cb",
        ],
    )
    def test_ordinary_redirects_are_taken(self, zone: Zone, uri: str) -> None:
        """Web addresses over TLS, loopback ones of native applications, and private schemes."""
        made = zone.make("applications", protocols={"oauth2": {"redirect_uris": [uri]}})
        assert made["protocols"]["oauth2"]["redirect_uris"] == [uri]

    @pytest.mark.parametrize(
        "uri",
        [
            "http://a.example/logout",
            "https://a.example/logout#x",
            "https://u:p@a.example/logout",
            "javascript:alert(1)",
            "com.example.app:/logout",
        ],
    )
    def test_logout_tokens_go_where_they_are_safe(self, api: Api, zone: Zone, uri: str) -> None:
        """Over TLS, and for development to this machine; what cannot be posted to is refused each time."""
        member = "backchannel_logout_uri"
        places = {member: "https://a.example/logout?x=1", "backchannel_logout_session_required": True}
        made = zone.make("applications", protocols={"oauth2": places})
        assert made["protocols"]["oauth2"] == places
        path = zone.path(f"/applications/{made['id']}")
        body = {"identifier": api.named(), "name": "x", "protocols": {"oauth2": {member: uri}}}
        told = api.refused(400, "POST", zone.path("/applications"), body)
        assert told["details"][0]["field"] == f"protocols.oauth2.{member}"
        api.refused(400, "PATCH", path, {"protocols": {"oauth2": {member: uri}}})
        assert api.ok("GET", path) == made

    def test_dependencies_at_creation(self, api: Api, zone: Zone) -> None:
        """Dependencies given at creation are counted and listed; the accepted `type` is not stored."""
        resource = zone.make("resources")
        made = zone.make("applications", dependencies=[{"id": resource["id"], "type": "resource"}])
        assert made["dependencies_count"] == 1
        assert "dependencies" not in made
        listed = api.ok("GET", zone.path(f"/applications/{made['id']}/dependencies"))["items"]
        assert [one["id"] for one in listed] == [resource["id"]]
        foreign = api.zone().make("resources")
        body = {"identifier": api.named(), "name": "x", "dependencies": [{"id": foreign["id"]}]}
        api.refused(400, "POST", zone.path("/applications"), body)

    def test_a_suspended_application_says_so(self, api: Api) -> None:
        """Wherever it is read, and only there; it is no more when somebody active is accountable for it."""
        zone = api.zone()
        user = zone.user().id
        made = zone.make("applications", accountable_user_id=user)
        other = zone.make("applications")
        path = zone.path(f"/applications/{made['id']}")
        disabled, active = ({"status": status} for status in ("disabled", "active"))
        api.ok("PATCH", zone.path(f"/users/{user}"), disabled)
        assert api.ok("GET", path)["suspended"] is False
        setting = ("require-active-accountable", "on")
        api.server.call(lambda services: set_zone_setting(services, zone.id, *setting))

        assert api.ok("GET", path)["suspended"] is True
        listed = api.ok("GET", zone.path("/applications"))["items"]
        assert {one["id"]: one["suspended"] for one in listed} == {made["id"]: True, other["id"]: False}
        assert api.ok("PATCH", path, {"description": "x"})["suspended"] is True
        credential = zone.password(made["id"])
        held = api.ok("GET", zone.path(f"/application-credentials/{credential['id']}"))
        assert held["application"]["suspended"] is True
        assert zone.make("applications", accountable_user_id=user)["suspended"] is True
        api.refused(400, "PATCH", path, {"suspended": False})
        api.ok("PATCH", zone.path(f"/users/{user}"), active)
        assert api.ok("GET", path)["suspended"] is False

    def test_dependencies_are_put_and_taken(self, api: Api, zone: Zone) -> None:
        """Adding twice is one dependency, whose condition the second call replaces."""
        application, resource, gate = (
            zone.make("applications"),
            zone.make("resources"),
            zone.make("resources"),
        )
        base = zone.path(f"/applications/{application['id']}/dependencies")
        path = f"{base}/{resource['id']}"
        assert api("PUT", path).status_code == 204
        assert api("PUT", f"{path}?when_accessing={gate['id']}", {}).status_code == 204
        assert api.ok("GET", path)["when_accessing"] == [gate["id"]]
        assert len(api.ok("GET", f"{base}?when_accessing={gate['id']}")["items"]) == 1
        assert api.ok("GET", f"{base}?when_accessing={new_id()}")["items"] == []
        assert api.ok("GET", zone.path(f"/applications/{application['id']}"))["dependencies_count"] == 1
        api.refused(400, "PUT", f"{path}?when_accessing={new_id()}")
        api.refused(400, "PUT", path, {"x": 1})
        api.refused(404, "PUT", f"{base}/{new_id()}")
        assert api("DELETE", path).status_code == 204
        api.refused(404, "DELETE", path)
        api.refused(404, "GET", path)

    def test_lists_of_one_application(self, api: Api, zone: Zone) -> None:
        """Its credentials, and the resources it provides."""
        application = zone.make("applications")
        resource = zone.make("resources", application_id=application["id"])
        zone.make("resources")
        credential = zone.password(application["id"])
        base = zone.path(f"/applications/{application['id']}")
        assert [one["id"] for one in api.ok("GET", f"{base}/resources")["items"]] == [resource["id"]]
        listed = api.ok("GET", f"{base}/application-credentials")["items"]
        assert [one["id"] for one in listed] == [credential["id"]]
        api.refused(404, "GET", zone.path(f"/applications/{new_id()}/resources"))

    def test_deleting_takes_credentials_along(self, api: Api, zone: Zone) -> None:
        """A credential cannot outlive its application; a resource it provides can."""
        application = zone.make("applications")
        resource = zone.make("resources", application_id=application["id"])
        credential = zone.password(application["id"])
        api.ok("DELETE", zone.path(f"/applications/{application['id']}"))
        api.refused(404, "GET", zone.path(f"/application-credentials/{credential['id']}"))
        assert "application_id" not in api.ok("GET", zone.path(f"/resources/{resource['id']}"))


class TestApplicationCredentials:
    def test_passwords_are_shown_once(self, api: Api, zone: Zone) -> None:
        """The create answer has the password, nothing else ever does, and only its hash is stored."""
        made = zone.password(zone.make("applications")["id"])
        assert len(made["password"]) == 43
        assert made["identifier"]
        found = api.ok("GET", zone.path(f"/application-credentials/{made['id']}"))
        embedded = {"application": found["application"]}  # which a create does not answer
        assert found == {name: value for name, value in made.items() if name != "password"} | embedded

    def test_public_ones_have_no_secret(self, api: Api, zone: Zone) -> None:
        """A public credential is an identifier alone, and that can change."""
        application = zone.make("applications")
        made = zone.make("application-credentials", type="public", application_id=application["id"])
        assert "password" not in made
        path = zone.path(f"/application-credentials/{made['id']}")
        name = api.named()
        assert api.ok("PATCH", path, {"identifier": name, "type": "public"})["identifier"] == name
        api.refused(400, "PATCH", path, {"type": "password"})
        api.refused(400, "PATCH", path, {"application_id": new_id()})

    def test_identifiers_are_unique_across_types(self, api: Api, zone: Zone) -> None:
        """A client id means one credential."""
        application = zone.make("applications")["id"]
        name = api.named()
        zone.make("application-credentials", type="public", application_id=application, identifier=name)
        api.refused(
            409,
            "POST",
            zone.path("/application-credentials"),
            {"type": "password", "application_id": application, "identifier": name},
        )

    def test_a_passwords_identifier_is_fixed(self, api: Api, zone: Zone) -> None:
        """The update of a password credential takes only its own type."""
        made = zone.password(zone.make("applications")["id"])
        path = zone.path(f"/application-credentials/{made['id']}")
        api.refused(400, "PATCH", path, {"identifier": "x"})
        assert api.ok("PATCH", path, {"type": "password"})["id"] == made["id"]

    @pytest.mark.parametrize("type_", ["nonsense", None])
    def test_other_types_are_refused(self, api: Api, zone: Zone, type_: str | None) -> None:
        """Only the types that are served can be created."""
        body = {"type": type_, "application_id": zone.make("applications")["id"]}
        told = api.refused(400, "POST", zone.path("/application-credentials"), body)
        assert told["details"][0]["field"] == "type"

    @pytest.mark.parametrize("name", ["applicationId", "application_id"])
    def test_selected_by_application(self, api: Api, zone: Zone, name: str) -> None:
        """The filter has two spellings, and with either the list has that application's credentials alone."""
        application = zone.make("applications")["id"]
        made = zone.password(application)
        found = api.ok("GET", zone.path(f"/application-credentials?{name}={application}"))["items"]
        assert [one["id"] for one in found] == [made["id"]]

    def test_two_spellings_of_a_filter_must_agree(self, api: Api, zone: Zone) -> None:
        """`applicationId` and `application_id` with different values are 400."""
        application = zone.make("applications")["id"]
        api.refused(
            400, "GET", zone.path(f"/application-credentials?applicationId={application}&application_id=x")
        )


class TestRoles:
    def test_identifier_is_fixed_and_unique_per_owner(self, api: Api, zone: Zone) -> None:
        """A customer's role may be called like one of the service's, but not like another customer's."""
        made = zone.make("roles", identifier="zone_viewer", description="ours")
        assert made["owner_type"] == "customer"
        api.refused(409, "POST", zone.path("/roles"), {"identifier": "zone_viewer"})
        path = zone.path(f"/roles/{made['id']}")
        api.refused(400, "PATCH", path, {"identifier": "other"})
        assert "description" not in api.ok("PATCH", path, {"description": None})
        found = api.ok("GET", zone.path("/roles?identifier=zone_viewer&filter[owner_type]=customer"))
        assert [one["id"] for one in found["items"]] == [made["id"]]

    @pytest.mark.threat("27l")
    def test_platform_roles_stay(self, api: Api, zone: Zone) -> None:
        """The service's roles are there from the start and cannot be changed."""
        found = api.ok("GET", zone.path("/roles?filter[owner_type]=platform"))["items"]
        assert {one["identifier"] for one in found} == {"zone_manager", "zone_viewer"}
        for role in found:
            api.refused(403, "PATCH", zone.path(f"/roles/{role['id']}"), {"description": "x"})
            api.refused(403, "DELETE", zone.path(f"/roles/{role['id']}"))

    @pytest.mark.parametrize("identifier", ["", "Upper", "a--b", "-a", "a b", "a" * 256])
    def test_identifier_is_a_slug(self, api: Api, zone: Zone, identifier: str) -> None:
        """Lower-case letters and digits, separated by single hyphens or underscores."""
        api.refused(400, "POST", zone.path("/roles"), {"identifier": identifier})

    def test_status_is_201(self, api: Api, zone: Zone) -> None:
        """Roles, groups and policies answer 201."""
        assert api("POST", zone.path("/roles"), {"identifier": api.named()}).status_code == 201
        assert api("POST", zone.path("/groups"), {"name": api.named()}).status_code == 201
        assert api("POST", zone.path("/policies"), {"name": api.named()}).status_code == 201


@pytest.mark.deviation("metadata-uri")
@pytest.mark.parametrize(("collection", "member"), [("applications", "docs_url"), ("resources", "icon_url")])
def test_links_are_absolute_uris(api: Api, zone: Zone, collection: str, member: str) -> None:
    """A page that shows one links to it."""
    made = zone.make(collection, metadata={member: "https://docs.example/a"})
    path = zone.path(f"/{collection}/{made['id']}")
    told = api.refused(400, "PATCH", path, {"metadata": {member: "docs/a"}})
    assert told["details"][0]["field"] == f"metadata.{member}"

"""The roles that people, applications and groups hold."""

import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.domain.identifiers import new_id

VIEWER = {"role_identifier": "zone_viewer", "owner_type": "platform"}


@pytest.mark.parametrize("principal", ["users", "applications", "groups"])
class TestRoleAssignments:
    def test_a_given_role_is_answered_with_its_holder(self, api: Api, zone: Zone, principal: str) -> None:
        """The role by its name and owner, the kind of its holder, and no scope."""
        role = zone.make("roles")
        made = api.ok("POST", self._base(zone, principal), {"role_id": role["id"]}, status=201)
        assert made["role_identifier"] == role["identifier"]
        assert made["role_owner_type"] == "customer"
        assert made["principal_type"] == principal[:-1]
        assert made["scope_id"] is None
        assert made["scope_type"] is None

    def test_a_role_is_given_once(self, api: Api, zone: Zone, principal: str) -> None:
        """By id or by name: what is held already is 409."""
        base, role = self._base(zone, principal), zone.make("roles")
        api.ok("POST", base, {"role_id": role["id"]}, status=201)
        api.refused(409, "POST", base, {"role_identifier": role["identifier"], "owner_type": "customer"})

    def test_a_given_role_is_listed(self, api: Api, zone: Zone, principal: str) -> None:
        """As it was answered when it was given, and counted."""
        base, role = self._base(zone, principal), zone.make("roles")
        made = api.ok("POST", base, {"role_id": role["id"]}, status=201)
        listed = api.ok("GET", f"{base}?filter[id]={made['id']}&expand[]=total_count")
        assert listed["items"] == [made]
        assert listed["pagination"]["total_count"] == 1

    def test_a_role_is_taken_once(self, api: Api, zone: Zone, principal: str) -> None:
        """Taking what is not held any more is 404, and it can be given again, by its name."""
        base, role = self._base(zone, principal), zone.make("roles")
        api.ok("POST", base, {"role_id": role["id"]}, status=201)
        assert api("DELETE", f"{base}/{role['id']}").status_code == 204
        api.refused(404, "DELETE", f"{base}/{role['id']}")
        by_name = {"role_identifier": role["identifier"], "owner_type": "customer"}
        assert api.ok("POST", base, by_name)["role_id"] == role["id"]

    def test_deleting_the_role_ends_them(self, api: Api, zone: Zone, principal: str) -> None:
        """No assignment outlives its role."""
        base, role = self._base(zone, principal), zone.make("roles")
        api.ok("POST", base, {"role_id": role["id"]})
        api.ok("DELETE", zone.path(f"/roles/{role['id']}"))
        assert api.ok("GET", base)["items"] == []

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"role_id": "ID", "role_identifier": "x"},
            {"role_identifier": "x"},
            {"role_id": "ID", "owner_type": "customer"},
            {"role_id": "ID", "scope_id": "x"},
            {"role_id": "ID", "scope_type": "zone"},
            {"role_id": "ID", "scope_type": "zone", "scope_id": "x"},
            {"role_id": "ID", "principal_id": "x"},
        ],
    )
    def test_rules_of_the_body(self, api: Api, zone: Zone, principal: str, body: dict[str, str]) -> None:
        """Exactly one way of naming the role, a scope whole or not at all and only where it may be."""
        role = zone.make("roles")
        body = {name: role["id"] if value == "ID" else value for name, value in body.items()}
        assert api.refused(400, "POST", self._base(zone, principal), body)["code"] == "validation_error"

    @pytest.mark.parametrize("role", ["nowhere", "of another zone", "of the other owner"])
    def test_unknown_roles_are_404(self, api: Api, zone: Zone, principal: str, role: str) -> None:
        """A role that is nowhere, of another zone, or of the other owner."""
        body = {"role_identifier": "zone_manager", "owner_type": "customer"}
        if role != "of the other owner":
            body = {"role_id": new_id() if role == "nowhere" else api.zone().make("roles")["id"]}
        api.refused(404, "POST", self._base(zone, principal), body)

    def test_a_role_for_a_zone_is_held_beside_the_one_without(
        self, api: Api, zone: Zone, principal: str
    ) -> None:
        """A platform role of the organization's home zone can be limited to another zone, once each."""
        base = self._base(self._home(api), principal)
        scoped = {**VIEWER, "scope_type": "zone", "scope_id": zone.id}
        made = api.ok("POST", base, scoped)
        assert made["scope_id"] == zone.id
        assert made["scope_type"] == "zone"
        api.refused(409, "POST", base, scoped)
        api.ok("POST", base, VIEWER)

    def test_a_scope_is_another_zone_of_the_organization(self, api: Api, zone: Zone, principal: str) -> None:
        """400 for the home zone itself, a zone that is not there, and a scope that is no zone."""
        own = self._home(api)
        base = self._base(own, principal)
        api.refused(400, "POST", base, {**VIEWER, "scope_type": "zone", "scope_id": own.id})
        api.refused(400, "POST", base, {**VIEWER, "scope_type": "zone", "scope_id": new_id()})
        api.refused(400, "POST", base, {**VIEWER, "scope_type": "planet", "scope_id": zone.id})

    def test_a_role_of_a_customer_has_no_scope(self, api: Api, zone: Zone, principal: str) -> None:
        """400: only the platform's roles say what they allow in another zone."""
        own = self._home(api)
        body = {"role_id": own.make("roles")["id"], "scope_type": "zone", "scope_id": zone.id}
        api.refused(400, "POST", self._base(own, principal), body)

    def test_a_role_for_a_zone_is_taken_with_its_scope(self, api: Api, zone: Zone, principal: str) -> None:
        """Half a scope is 400, another one 404; the role without a scope stays."""
        base = self._base(self._home(api), principal)
        made = api.ok("POST", base, {**VIEWER, "scope_type": "zone", "scope_id": zone.id})
        api.ok("POST", base, VIEWER)
        path = f"{base}/{made['role_id']}"
        api.refused(400, "DELETE", f"{path}?scope_type=zone")
        api.refused(404, "DELETE", f"{path}?scope_type=zone&scope_id={new_id()}")
        assert api("DELETE", f"{path}?scope_type=zone&scope_id={zone.id}").status_code == 204
        assert len(api.ok("GET", base)["items"]) == 1

    @staticmethod
    def _home(api: Api) -> Zone:
        own = Zone(api, api.ok("GET", "/zones")["items"][0])
        assert own.body["owner_type"] == "platform"
        return own

    @staticmethod
    def _base(zone: Zone, principal: str) -> str:
        made = zone.user().id if principal == "users" else zone.make(principal)["id"]
        return zone.path(f"/{principal}/{made}/roles")

"""The roles that people, applications and groups hold."""

import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.domain.identifiers import new_id


@pytest.mark.parametrize("principal", ["users", "applications", "groups"])
class TestRoleAssignments:
    def test_given_listed_and_taken(self, api: Api, zone: Zone, principal: str) -> None:
        """By id or by name; a second time is 409, taking it twice 404."""
        base = self._base(zone, principal)
        role = zone.make("roles")
        made = api.ok("POST", base, {"role_id": role["id"]}, status=201)
        assert made["role_identifier"] == role["identifier"]
        assert made["role_owner_type"] == "customer"
        assert made["principal_type"] == principal[:-1]
        assert made["scope_id"] is None
        assert made["scope_type"] is None
        by_name = {"role_identifier": role["identifier"], "owner_type": "customer"}
        api.refused(409, "POST", base, by_name)
        listed = api.ok("GET", f"{base}?filter[id]={made['id']}&expand[]=total_count")
        assert listed["items"] == [made]
        assert listed["pagination"]["total_count"] == 1
        assert api("DELETE", f"{base}/{role['id']}").status_code == 204
        api.refused(404, "DELETE", f"{base}/{role['id']}")
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

    def test_unknown_roles_are_404(self, api: Api, zone: Zone, principal: str) -> None:
        """A role that is nowhere, of another zone, or of the other owner."""
        base = self._base(zone, principal)
        foreign = api.zone().make("roles")
        for body in (
            {"role_id": new_id()},
            {"role_id": foreign["id"]},
            {"role_identifier": "zone_manager", "owner_type": "customer"},
        ):
            api.refused(404, "POST", base, body)

    def test_scopes(self, api: Api, zone: Zone, principal: str) -> None:
        """Platform roles of the organization's home zone can be limited to another of its zones."""
        own = Zone(api, api.ok("GET", "/zones")["items"][0])
        assert own.body["owner_type"] == "platform"
        base = self._base(own, principal)
        role = {"role_identifier": "zone_viewer", "owner_type": "platform"}
        scoped = {**role, "scope_type": "zone", "scope_id": zone.id}
        made = api.ok("POST", base, scoped)
        assert made["scope_id"] == zone.id
        assert made["scope_type"] == "zone"
        api.refused(409, "POST", base, scoped)
        api.ok("POST", base, role)
        for wrong in (own.id, new_id()):
            api.refused(400, "POST", base, {**role, "scope_type": "zone", "scope_id": wrong})
        api.refused(400, "POST", base, {**role, "scope_type": "planet", "scope_id": zone.id})
        custom = own.make("roles")
        api.refused(400, "POST", base, {"role_id": custom["id"], "scope_type": "zone", "scope_id": zone.id})
        path = f"{base}/{made['role_id']}"
        api.refused(400, "DELETE", f"{path}?scope_type=zone")
        api.refused(404, "DELETE", f"{path}?scope_type=zone&scope_id={new_id()}")
        assert api("DELETE", f"{path}?scope_type=zone&scope_id={zone.id}").status_code == 204
        assert len(api.ok("GET", base)["items"]) == 1

    @staticmethod
    def _base(zone: Zone, principal: str) -> str:
        made = zone.user().id if principal == "users" else zone.make(principal)["id"]
        return zone.path(f"/{principal}/{made}/roles")

"""Organizations: what callers see of their own."""

import pytest
from tests.runtime.management.conftest import Api

from runtime.domain.identifiers import new_id


class TestOrganizations:
    def test_a_caller_sees_its_own(self, api: Api) -> None:
        """The list is exactly one, which is found by its label as well."""
        page = api.ok("GET", "/organizations")
        (mine,) = page["items"]
        assert mine["id"] == api.organization_id
        assert page["page_info"]["has_next_page"] is False
        assert page["page_info"]["has_prev_page"] is False
        assert "pagination" not in page
        assert api.ok("GET", f"/organizations/{mine['label']}") == mine

    @pytest.mark.parametrize("by", ["id", "label", "nothing"])
    def test_a_caller_does_not_see_another(self, api: Api, other: Api, by: str) -> None:
        """By its id and by its label it is 404, as one that does not exist."""
        theirs = other.ok("GET", "/organizations")["items"][0]
        api.refused(404, "GET", f"/organizations/{new_id() if by == 'nothing' else theirs[by]}")

    def test_change_keeps_the_label(self, other: Api) -> None:
        """The label stands in addresses; only the name changes."""
        path = f"/organizations/{other.organization_id}"
        before = other.ok("GET", path)
        after = other.ok("PATCH", path, {"name": "Renamed"})
        assert after["name"] == "Renamed"
        assert after["label"] == before["label"]
        other.refused(400, "PATCH", path, {"label": "x"})
        other.refused(400, "PATCH", path, {"sso_enabled": True})

    def test_roles_are_those_of_both_levels_or_of_one(self, api: Api) -> None:
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

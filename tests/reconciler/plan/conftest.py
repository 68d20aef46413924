"""One of everything, as manifests."""

import pytest
from tests.reconciler.factories import manifest, zone

from reconciler.kinds import Manifest


@pytest.fixture
def company() -> list[Manifest]:
    """One of everything, with references in both directions."""
    return [
        zone(user_identity_provider="okta", default_resource="calendar-api"),
        manifest(
            "Provider",
            "okta",
            name="Okta",
            identifier="https://okta.example",
            client_secret={"from_env": "OKTA", "version": "3"},
            protocols={"oauth2": {"authorization_parameters": {"prompt": "login", "hd": "acme"}}},
        ),
        manifest(
            "Application",
            "agent",
            name="Agent",
            consent="required",
            dependencies=["calendar-api"],
            protocols={"oauth2": {"redirect_uris": [{"of_zone": "workforce", "member": "redirect_uri"}]}},
        ),
        manifest("Resource", "calendar-api", name="Calendar", application="agent", scopes=["read", "write"]),
        manifest("ApplicationCredential", "agent-key", application="agent", type="password"),
        manifest("Group", "staff", name="Staff", members=["a@example.com", "b@example.com"]),
        manifest("Role", "reader", description="reads"),
        manifest("RoleAssignment", "staff-reads", role="reader", principal={"group": "staff"}),
        manifest(
            "RoleAssignment",
            "staff-views",
            role={"external": "zone_viewer", "owner_type": "platform"},
            principal={"group": "staff"},
        ),
        manifest("Policy", "base", cedar="permit(principal, action, resource);\n"),
        manifest("PolicySet", "main", policies=["base"], active=True),
        manifest("ServiceAccount", "ci", name="ci"),
    ]

"""Plans that make something, and what every action shows."""

import pytest
from tests.reconciler.factories import OWNER, changed, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import World

from reconciler.kinds import Kinds, Manifest
from reconciler.plan import PlanImpossible


class TestCreating:
    def test_makes_everything_at_once(self, world: World, company: list[Manifest]) -> None:
        """A configuration with references in both directions is one changeset on an empty organization."""
        plan = settle(world, company)

        assert plan.summary() == {"create": len(company)}
        assert (
            world.find("Zone", "workforce")["spec"]["user_identity_provider_id"]
            == world.find("Provider", "okta")["id"]
        )

    def test_leaves_nothing_to_do(self, world: World, company: list[Manifest]) -> None:
        """After an apply the next plan is empty."""
        settle(world, company)

        assert plan_for(world, company).empty

    def test_leaves_names_to_the_server_that_it_decides(self, world: World, company: list[Manifest]) -> None:
        """A workload's credential is named after its subject, and no other one is taken for it."""
        key = {"application": "agent", "type": "token", "provider": "okta", "subject": "repo:acme/app"}
        with_token = [*company, manifest("ApplicationCredential", "build", **key)]

        settle(world, with_token)

        spec = world.find("ApplicationCredential", "build")["spec"]
        assert "identifier" not in spec
        assert spec["provider_id"] == world.find("Provider", "okta")["id"]
        assert plan_for(world, with_token).empty

    def test_names_the_manifest_as_reason(self, world: World) -> None:
        """Every action says which file and line it comes from."""
        assert plan_for(world, [zone()]).actions[0].reason == "Zone.yaml:1"

    def test_does_not_depend_on_the_order_of_files(self, world: World, company: list[Manifest]) -> None:
        """The same manifests in another order make the same plan, byte for byte."""
        assert plan_for(world, company).as_json() == plan_for(world, company[::-1]).as_json()

    def test_fills_in_an_address_of_a_zone_that_is_new(self, world: World, company: list[Manifest]) -> None:
        """An address that is known only after the zone exists is filled in by the server."""
        settle(world, company)

        zone_id = world.find("Zone", "workforce")["id"]
        uris = world.find("Application", "agent")["spec"]["protocols"]["oauth2"]["redirect_uris"]
        assert uris == [f"https://id.example/z/{zone_id}/oauth/callback"]

    def test_refuses_a_reference_that_leads_nowhere(self, world: World) -> None:
        """An external reference within an existing zone must be there; the message says where."""
        settle(world, [zone()])
        resource = manifest("Resource", "api", name="API", credential_provider={"external": "nobody"})

        with pytest.raises(PlanImpossible, match=r"Resource.yaml:1: there is no Provider `nobody`"):
            plan_for(world, [zone(), resource])


def test_every_action_shows_a_difference(world: World, company: list[Manifest], kinds: Kinds) -> None:
    """An update without a difference to show would be noise."""
    settle(world, company)
    world.find("Group", "staff")["spec"]["members"] = []
    plan = plan_for(world, changed(company, "Zone", "workforce", description="new"))

    assert len(plan.actions) == 2
    assert all(action.changes for action in plan.actions)
    assert plan.owner == OWNER
    assert kinds.by_name["Zone"].handle == "slug"


def test_a_text_is_compared_as_it_was_written(world: World) -> None:
    """The server has its own layout of policies; the plan's two sides are the files of then and now."""
    wanted = [zone(), manifest("Policy", "p", cedar="permit(\n  principal, action, resource);\n")]
    settle(world, wanted)
    world.find("Policy", "p")["spec"]["cedar"] = "permit (principal, action, resource);"
    after = "permit(\n  principal, action, resource)\nwhen { false };\n"
    (change,) = plan_for(world, [zone(), manifest("Policy", "p", cedar=after)]).actions[0].changes

    assert change.before == "permit(\n  principal, action, resource);\n"
    assert change.after == after


def test_what_somebody_wrote_by_hand_is_shown_as_it_is(world: World) -> None:
    """A text with another meaning than ours is the server's."""
    wanted = [zone(), manifest("Policy", "p", cedar="permit(principal, action, resource);\n")]
    settle(world, wanted)
    world.find("Policy", "p")["spec"]["cedar"] = "forbid (principal, action, resource);"
    (change,) = plan_for(world, wanted).actions[0].changes

    assert change.before == "forbid (principal, action, resource);"

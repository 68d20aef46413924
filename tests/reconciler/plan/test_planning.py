"""What a plan does to a world, case by case."""

from typing import Any

import pytest
from tests.reconciler.factories import OWNER, carry_out, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import World

from reconciler.kinds import Kinds, Manifest
from reconciler.plan import PlanImpossible, check_guards, read_plan
from reconciler.plan.model import Op, PlanUnreadable, State


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


def changed(company: list[Manifest], kind: str, name_: str, /, **spec: Any) -> list[Manifest]:
    """The company with some members of one manifest set, or left out (None)."""
    found = []
    for each in company:
        if (each.kind.name, each.name) == (kind, name_):
            merged = {**each.spec, **spec}
            kept = {member: value for member, value in merged.items() if value is not None}
            each = manifest(kind, name_, lifecycle=dict(each.lifecycle), **kept)
        found.append(each)
    return found


def without(company: list[Manifest], *names: str) -> list[Manifest]:
    """The company without some manifests."""
    return [each for each in company if each.name not in names]


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


class TestComparing:
    def test_a_changed_member_is_pending(self, world: World, company: list[Manifest]) -> None:
        """Git moved on: one member, one update."""
        settle(world, company)
        plan = plan_for(world, changed(company, "Application", "agent", consent="implicit"))

        (action,) = plan.actions
        (change,) = action.changes
        assert (action.op, change.path, change.before, change.after, change.state) == (
            Op.UPDATE,
            "consent",
            "required",
            "implicit",
            State.PENDING,
        )
        assert plan.operations[0]["spec"] == {"consent": "implicit"}

    def test_a_change_on_the_server_is_drift(self, world: World, company: list[Manifest]) -> None:
        """Somebody changed what we applied: git puts it back, and it is called drift."""
        settle(world, company)
        world.find("Application", "agent")["spec"]["name"] = "by hand"
        plan = plan_for(world, company)

        assert plan.only_drift
        assert plan.actions[0].changes[0].applied == "Agent"
        carry_out(world, plan)
        assert world.find("Application", "agent")["spec"]["name"] == "Agent"

    def test_a_change_on_both_sides_is_a_conflict(self, world: World, company: list[Manifest]) -> None:
        """Changed in git and on the server: named member by member, and refused without consent."""
        settle(world, company)
        world.find("Application", "agent")["spec"]["name"] = "by hand"
        plan = plan_for(world, changed(company, "Application", "agent", name="in git"))

        assert plan.count(State.CONFLICT) == 1
        assert [each.code for each in check_guards(plan, {})] == ["conflicts"]
        assert check_guards(plan, {"conflicts": 1}) == []

    def test_what_was_never_written_is_not_touched(self, world: World, company: list[Manifest]) -> None:
        """Members that the manifest leaves out stay the server's."""
        settle(world, company)
        world.find("Application", "agent")["spec"]["description"] = "by hand"
        world.find("Provider", "okta")["spec"]["protocols"]["oauth2"]["scopes_supported"] = ["x"]

        assert plan_for(world, company).empty

    def test_a_member_that_leaves_goes_back_to_its_default(
        self, world: World, company: list[Manifest]
    ) -> None:
        """The record proves that we set it."""
        settle(world, company)
        settle(world, changed(company, "Application", "agent", consent="implicit", description="mine"))
        less = changed(company, "Application", "agent", consent=None)
        settle(world, less)

        spec = world.find("Application", "agent")["spec"]
        assert (spec["consent"], spec.get("description")) == ("required", None)
        assert plan_for(world, less).empty

    def test_an_object_that_leaves_takes_itself_along(self, world: World, company: list[Manifest]) -> None:
        """When nothing is left in an optional object, the object goes too."""
        settle(world, company)
        less = changed(company, "Provider", "okta", protocols=None)
        settle(world, less)

        assert "protocols" not in world.find("Provider", "okta")["spec"]
        assert plan_for(world, less).empty

    def test_an_object_with_members_of_others_stays(self, world: World, company: list[Manifest]) -> None:
        """What others put into an object survives when our members leave it."""
        settle(world, company)
        world.find("Provider", "okta")["spec"]["protocols"]["oauth2"]["scopes_supported"] = ["x"]
        settle(world, changed(company, "Provider", "okta", protocols=None))

        assert world.find("Provider", "okta")["spec"]["protocols"]["oauth2"]["scopes_supported"] == ["x"]

    def test_a_key_that_leaves_a_map_is_removed(self, world: World, company: list[Manifest]) -> None:
        """A map is one member: keys that git no longer has are removed by name."""
        settle(world, company)
        protocols = {"oauth2": {"authorization_parameters": {"prompt": "none"}}}
        settle(world, changed(company, "Provider", "okta", protocols=protocols))

        found = world.find("Provider", "okta")["spec"]["protocols"]["oauth2"]["authorization_parameters"]
        assert found == {"prompt": "none"}

    def test_the_order_of_a_set_means_nothing(self, world: World, company: list[Manifest]) -> None:
        """Sets are compared without their order, lists with it."""
        settle(world, company)
        world.find("Group", "staff")["spec"]["members"].reverse()
        world.find("Resource", "calendar-api")["spec"]["scopes"].reverse()

        assert plan_for(world, company).empty

    def test_the_layout_of_a_policy_means_nothing(self, world: World, company: list[Manifest]) -> None:
        """A server that keeps policies formatted does not cause a difference; another text does."""
        settle(world, company)
        world.find("Policy", "base")["spec"]["cedar"] = "permit (\n  principal,\n  action,\n  resource\n);\n"

        assert plan_for(world, company).empty
        assert not plan_for(
            world, changed(company, "Policy", "base", cedar="forbid(principal, action, resource);")
        ).empty

    def test_an_ignored_member_is_left_alone_once_it_exists(self, world: World) -> None:
        """`lifecycle.ignore` members are written at creation only."""
        role = manifest("Role", "reader", description="one", lifecycle={"ignore": ["description"]})
        settle(world, [zone(), role])
        world.find("Role", "reader")["spec"]["description"] = "by hand"

        assert plan_for(world, [zone(), role]).empty
        settle(world, [zone(), role])
        assert world.find("Role", "reader")["spec"]["description"] == "by hand"

    def test_a_claimed_member_stays_as_it_is(self, world: World, company: list[Manifest]) -> None:
        """A member that git begins to name with the value it has changes the record only."""
        settle(world, company)
        application = changed(company, "Application", "agent", traits=[])
        plan = plan_for(world, application)

        assert [change.state for change in plan.actions[0].changes] == [State.CLAIM]
        settle(world, application)
        assert plan_for(world, application).empty


class TestSecrets:
    def test_a_secret_is_written_when_its_version_changes(
        self, world: World, company: list[Manifest]
    ) -> None:
        """Change is seen by version; the plan holds the reference, never a value."""
        settle(world, company)
        newer = changed(company, "Provider", "okta", client_secret={"from_env": "OKTA", "version": "4"})
        plan = plan_for(world, newer)

        (change,) = plan.actions[0].changes
        assert change.before == {"version": "3"}
        assert plan.operations[0]["spec"] == {
            "client_secret": {"secret": {"from_env": "OKTA", "version": "4"}}
        }
        settle(world, newer)
        assert plan_for(world, newer).empty

    def test_a_kept_secret_is_never_written(self, world: World, company: list[Manifest]) -> None:
        """`{keep: true}` leaves what is there, also when it was ours before."""
        settle(world, company)
        keeping = changed(company, "Provider", "okta", client_secret={"keep": True})

        assert plan_for(world, keeping).empty

    def test_a_secret_that_leaves_is_cleared(self, world: World, company: list[Manifest]) -> None:
        """We set it, so it goes when the manifest no longer has it."""
        settle(world, company)
        less = changed(company, "Provider", "okta", client_secret=None)
        settle(world, less)

        assert world.find("Provider", "okta")["secrets_set"] == []
        assert plan_for(world, less).empty

    def test_a_secret_that_somebody_cleared_is_drift(self, world: World, company: list[Manifest]) -> None:
        """It is written again."""
        settle(world, company)
        world.find("Provider", "okta")["secrets_set"] = []

        assert plan_for(world, company).only_drift


class TestIdentity:
    def test_a_changed_identifier_is_an_update(self, world: World, company: list[Manifest]) -> None:
        """Identity is the manifest's name, kept in the record; the identifier may change."""
        settle(world, company)
        plan = settle(world, changed(company, "Resource", "calendar-api", identifier="https://new.example/"))

        assert plan.summary() == {"update": 1}

    def test_an_entity_without_owner_is_adopted(self, world: World) -> None:
        """It is matched by its handle, changed where it differs, and the plan says so."""
        settle(world, [zone()])
        zone_id = world.find("Zone", "workforce")["id"]
        entity = world.add(
            "Application", {"identifier": "agent", "name": "By hand", "description": "keep"}, zone_id
        )
        wanted = [zone(), manifest("Application", "agent", name="Agent")]
        plan = settle(world, wanted)

        assert plan.summary() == {"adopt": 1}
        assert (entity["id"], entity["spec"]["description"]) == (
            world.find("Application", "agent")["id"],
            "keep",
        )
        assert plan_for(world, wanted).empty

    def test_what_another_owner_manages_is_refused(self, world: World, company: list[Manifest]) -> None:
        """It must be released there first."""
        settle(world, company, owner="other/team")
        plan = plan_for(world, [zone()])

        assert "belongs to the configuration `other/team`" in check_guards(plan, {})[0].message
        assert plan.empty

    def test_a_platform_entity_is_not_adopted(self, world: World) -> None:
        """A role of our own may have the identifier of a platform role."""
        settle(world, [zone()])
        plan = plan_for(world, [zone(), manifest("Role", "zone_viewer", description="ours")])

        assert plan.summary() == {"create": 1}

    def test_a_renamed_manifest_keeps_its_entity(self, world: World, company: list[Manifest]) -> None:
        """`previous_names` turns delete and create into a rename."""
        settle(world, company)
        group = manifest(
            "Group", "people", name="Staff", identifier="staff", members=["a@example.com", "b@example.com"],
            lifecycle={"previous_names": ["staff"]},
        )  # fmt: skip
        before = world.find("Group", "staff")["id"]
        wanted = without(company, "staff", "staff-reads", "staff-views")
        settle(world, without(company, "staff-reads", "staff-views"))
        plan = settle(world, [*wanted, group])

        assert plan.summary() == {"rename": 1}
        assert world.find("Group", "people")["id"] == before
        assert plan_for(world, [*wanted, group]).empty

    def test_a_rename_without_saying_so_is_refused(self, world: World, company: list[Manifest]) -> None:
        """Delete and create of one identifier is offered as a rename."""
        settle(world, company)
        group = manifest("Group", "people", name="Staff", identifier="staff")
        plan = plan_for(world, [*without(company, "staff", "staff-reads", "staff-views"), group])

        assert "previous_names: [staff]" in check_guards(plan, {"deletes": 3})[0].message


class TestReplacing:
    def test_a_fixed_member_means_replacement(self, world: World, company: list[Manifest]) -> None:
        """A role's identifier cannot change; what is given with the old one is given anew."""
        settle(world, company)
        wanted = changed(company, "Role", "reader", identifier="writer")
        plan = settle(world, wanted)

        assert plan.summary() == {"replace": 2}
        assert {action.title for action in plan.actions} == {
            "Role workforce/reader",
            "RoleAssignment workforce/staff-reads",
        }
        assert plan_for(world, wanted).empty

    def test_one_alternative_for_another_means_replacement(
        self, world: World, company: list[Manifest]
    ) -> None:
        """A role given to a group and then to an application instead is a new assignment."""
        settle(world, company)
        wanted = changed(company, "RoleAssignment", "staff-reads", principal={"application": "agent"})
        plan = settle(world, wanted)

        assert plan.summary() == {"replace": 1}
        assert plan_for(world, wanted).empty

    def test_a_protected_entity_is_not_replaced(self, world: World) -> None:
        """Protection is read from the server."""
        settle(world, [zone(), manifest("Role", "reader", lifecycle={"protect": True})])
        plan = plan_for(world, [zone(), manifest("Role", "reader", identifier="writer")])

        assert [each.code for each in check_guards(plan, {})] == ["protected"]


class TestPruning:
    def test_what_left_git_is_deleted_children_first(self, world: World, company: list[Manifest]) -> None:
        """A whole zone that leaves is deleted from the leaves up."""
        settle(world, company)
        plan = settle(world, [zone("other")])

        deleted = [action.kind for action in plan.actions if action.op is Op.DELETE]
        assert (deleted[0], deleted[-1]) == ("PolicySet", "ServiceAccount")
        assert deleted.index("Zone") > deleted.index("Application")
        assert plan_for(world, [zone("other")]).empty

    def test_what_others_made_is_not_deleted(self, world: World, company: list[Manifest]) -> None:
        """Prune touches only what this owner manages."""
        settle(world, company)
        zone_id = world.find("Zone", "workforce")["id"]
        by_hand = world.add("Application", {"identifier": "by-hand", "name": "By hand"}, zone_id)["id"]
        settle(world, without(company, "agent-key"))

        assert by_hand in world.entities

    def test_a_zone_with_objects_of_others_needs_consent(self, world: World, company: list[Manifest]) -> None:
        """Deleting it would delete them too; the consent names how many."""
        settle(world, company)
        world.add("Application", {"identifier": "x", "name": "X"}, world.find("Zone", "workforce")["id"])
        plan = plan_for(world, [zone("other")])

        assert [each.code for each in check_guards(plan, {"deletes": len(company)})] == ["unowned"]
        assert check_guards(plan, {"deletes": len(company), "unowned": 1}) == []

    def test_a_protected_entity_is_not_deleted(self, world: World) -> None:
        """Removing the manifest does not remove the protection."""
        settle(world, [zone(), manifest("Role", "reader", lifecycle={"protect": True})])

        assert [each.code for each in check_guards(plan_for(world, [zone()]), {"deletes": 1})] == [
            "protected"
        ]

    def test_an_empty_source_is_refused(self, world: World, company: list[Manifest]) -> None:
        """A wrong path must not look like a wish to delete everything."""
        settle(world, company)

        assert "empty-source" in [
            each.code for each in check_guards(plan_for(world, []), {"deletes": len(company)})
        ]

    def test_more_deletions_than_the_budget_need_their_count(self, world: World) -> None:
        """Six of ten are more than five and more than a tenth."""
        groups = [manifest("Group", f"g{n}", name=f"G {n}") for n in range(10)]
        settle(world, [zone(), *groups])
        plan = plan_for(world, [zone(), *groups[:4]])

        assert "6 of 10 Group (budget 5)" in check_guards(plan, {})[0].message
        assert check_guards(plan, {"deletes": 6}) == []
        assert check_guards(plan, {"deletes": 7})[0].code == "deletes"
        assert check_guards(plan_for(world, [zone(), *groups[:5]]), {}) == []

    def test_a_zone_is_never_within_the_budget(self, world: World) -> None:
        """With it go users and sessions that no manifest brings back."""
        settle(world, [zone(), zone("other")])
        plan = plan_for(world, [zone("other")])

        assert "1 of 2 Zone (budget 0)" in check_guards(plan, {})[0].message
        assert check_guards(plan, {"deletes": 1}) == []


class TestSavedPlans:
    def test_is_read_as_it_was_written(self, world: World, company: list[Manifest]) -> None:
        """A plan survives being saved."""
        import orjson

        plan = plan_for(world, company)
        again = read_plan(orjson.dumps(plan.as_json()))

        assert again == plan
        assert again.digest == plan.digest

    def test_a_changed_plan_is_refused(self, world: World) -> None:
        """The digest names the plan."""
        import orjson

        content = plan_for(world, [zone()]).as_json()
        changed_plan = orjson.dumps({**content, "owner": "mallory"})

        with pytest.raises(PlanUnreadable, match="changed after it was made"):
            read_plan(changed_plan)

    def test_another_revision_makes_another_plan(self, world: World) -> None:
        """The digest is the idempotency key: the same change at another time is another changeset."""
        first = plan_for(world, [zone()]).digest
        world.revision += 1

        assert plan_for(world, [zone()]).digest != first

    def test_no_secret_is_in_a_plan(
        self, world: World, company: list[Manifest], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A plan needs no secrets, so it cannot hold any."""
        monkeypatch.setenv("OKTA", "s3cr3t-value")

        assert "s3cr3t-value" not in str(plan_for(world, company).as_json())


def test_every_action_shows_a_difference(world: World, company: list[Manifest], kinds: Kinds) -> None:
    """An update without a difference to show would be noise."""
    settle(world, company)
    world.find("Group", "staff")["spec"]["members"] = []
    plan = plan_for(world, changed(company, "Zone", "workforce", description="new"))

    assert len(plan.actions) == 2
    assert all(action.changes for action in plan.actions)
    assert plan.owner == OWNER
    assert kinds.by_name["Zone"].handle == "slug"

"""What differs between git and the server, and whose doing it is."""

from typing import Any

import pytest
from tests.reconciler.factories import AnyWorld, carry_out, changed, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import World

from reconciler.kinds import Manifest
from reconciler.plan import check_guards
from reconciler.plan.model import ChangeState, Op

HARD_TO_LAY_OUT = [
    "// why\r\npermit (\r\n  principal, action, resource\r\n);\r\n",
    "// why  \npermit (principal, action, resource); // why\t",
    "permit (principal, action, resource, // why\n);",
    'permit (principal, action, resource) when { ["a", // why\n "b"].contains("a") };',
    "permit (principal, action, resource); // why\rforbid (principal, action, resource);",
]


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
            ChangeState.PENDING,
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

        assert plan.count(ChangeState.CONFLICT) == 1
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

    @pytest.mark.threat("48k")
    @pytest.mark.parametrize(
        "before",
        [
            "// note\nforbid (principal, action, resource);\n",
            "// note\r\nforbid(principal,action,resource);\r\n",
        ],
    )
    def test_a_rule_put_into_a_comment_is_a_change(self, any_world: AnyWorld, before: str) -> None:
        """Without the line end between them a comment takes in the rule below it."""
        permit = "permit (principal, action, resource);\n"
        settle(any_world, [zone(), manifest("Policy", "p", cedar=permit + before)])
        laid_out = permit + "// note \n\nforbid(principal,\n  action, resource,)\n;"
        assert plan_for(any_world, [zone(), manifest("Policy", "p", cedar=laid_out)]).empty
        commented = [
            zone(),
            manifest("Policy", "p", cedar=permit + "// noteforbid(principal,action,resource);\n"),
        ]
        (change,) = plan_for(any_world, commented).actions[0].changes
        assert (change.path, change.before, change.state) == ("cedar", permit + before, ChangeState.PENDING)
        settle(any_world, commented)
        assert plan_for(any_world, commented).empty

    @pytest.mark.parametrize("text", HARD_TO_LAY_OUT)
    def test_what_the_server_lays_out_otherwise_is_no_difference(
        self, any_world: AnyWorld, text: str
    ) -> None:
        """It moves comments, cuts the space behind them and leaves some out; nobody has changed anything."""
        wanted = [zone(), manifest("Policy", "p", cedar=text)]
        settle(any_world, wanted)
        assert plan_for(any_world, wanted).empty
        other = [zone(), manifest("Policy", "p", cedar=text.replace("why", "because"))]
        (change,) = plan_for(any_world, other).actions[0].changes
        assert (change.before, change.state) == (text, ChangeState.PENDING)
        settle(any_world, other)
        assert plan_for(any_world, other).empty

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

        assert [change.state for change in plan.actions[0].changes] == [ChangeState.CLAIM]
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

    @pytest.mark.parametrize(
        "move",
        [
            {"identifier": "https://okta.other.example"},
            {
                "protocols": {
                    "oauth2": {
                        "authorization_parameters": {"prompt": "login", "hd": "acme"},
                        "token_endpoint": "https://okta.other.example/token",
                    }
                }
            },
        ],
    )
    def test_a_secret_is_given_again_for_another_address(
        self, world: World, company: list[Manifest], move: dict[str, Any]
    ) -> None:
        """The server keeps none for it; the plan shows that it is sent, and only then."""
        settle(world, company)
        assert plan_for(world, company).empty
        renamed = changed(company, "Provider", "okta", name="Another name")
        assert "client_secret" not in plan_for(world, renamed).operations[0]["spec"]

        moved = changed(company, "Provider", "okta", **move)
        plan = plan_for(world, moved)

        secret = {"secret": {"from_env": "OKTA", "version": "3"}}
        assert plan.operations[0]["spec"]["client_secret"] == secret
        assert {change.path for change in plan.actions[0].changes} >= {"client_secret"}
        settle(world, moved)
        assert plan_for(world, moved).empty

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

    @pytest.mark.threat("46a", "46b", "46d", "46i")
    @pytest.mark.parametrize("member", ["issuer", "token_endpoint", "jwks_uri"])
    @pytest.mark.parametrize("version", ["3", "4"])
    def test_a_secret_goes_to_no_address_that_git_does_not_name(
        self, world: World, company: list[Manifest], member: str, version: str
    ) -> None:
        """Somebody clears it on the server and names another address: it is given to one of git alone."""
        settle(world, company)
        okta = world.find("Provider", "okta")
        newer = changed(company, "Provider", "okta", client_secret={"from_env": "OKTA", "version": version})
        okta["secrets_set"] = []
        again = plan_for(world, newer)
        assert "client_secret" in again.operations[0]["spec"]
        assert again.refused == ()

        address = f"https://{member}.other.example"
        okta["spec"]["protocols"]["oauth2"][member] = address
        (told,) = plan_for(world, newer).refused
        assert f"`client_secret` would be sent to the `protocols.oauth2.{member}`" in told

        parameters = {"authorization_parameters": {"prompt": "login", "hd": "acme"}}
        for said in (None, address, "https://known.example"):
            named = {"protocols": {"oauth2": {**parameters, member: said}}}
            plan = plan_for(world, changed(newer, "Provider", "okta", **named))
            assert plan.refused == ()
        named["protocols"]["oauth2"][member] = None
        mended = changed(newer, "Provider", "okta", **named)
        settle(world, mended)
        default = "https://okta.example" if member == "issuer" else None
        assert world.find("Provider", "okta")["spec"]["protocols"]["oauth2"].get(member) == default
        assert plan_for(world, mended).empty

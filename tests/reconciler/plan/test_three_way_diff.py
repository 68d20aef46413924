"""The three-way diff: what differs between git and the server, and which side changed it."""

from typing import Any

import pytest
from tests.reconciler.factories import AnyWorld, carry_out, changed, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import World
from tests.reconciler.plan.values import entity, record

from reconciler.kinds import Entity, InForce, Manifest, load_kinds
from reconciler.plan import FieldChange, check_guards
from reconciler.plan.member_values import as_written, identity, leaves, normalized, same_value, value_at
from reconciler.plan.model import ChangeState, Op
from reconciler.plan.three_way_diff import (
    PROTECT,
    fixed_changes,
    foreign_secret_addresses,
    stored_secrets,
    three_way_diff,
    with_new_ids,
)

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
        refusals = {}
        for said in (address, "https://known.example", None):
            named = {"protocols": {"oauth2": {**parameters, member: said}}}
            refusals[said] = plan_for(world, changed(newer, "Provider", "okta", **named)).refused

        assert refusals == dict.fromkeys(refusals, ())
        named["protocols"]["oauth2"][member] = None
        mended = changed(newer, "Provider", "okta", **named)
        settle(world, mended)
        default = "https://okta.example" if member == "issuer" else None
        assert world.find("Provider", "okta")["spec"]["protocols"]["oauth2"].get(member) == default
        assert plan_for(world, mended).empty


# --- one rule at a time

KINDS = load_kinds().by_name
SECRET = "client_secret"
ISSUER = "protocols.oauth2.issuer"
Told = list[tuple[str, ChangeState | None, Any, Any]]


def diff(kind: str, wanted: dict[str, Any], found: Entity, **more: Any) -> Told:
    """What changes, and why: path, state, before and after."""
    changes = three_way_diff(KINDS[kind], wanted, more.pop("secrets", {}), found, **more)
    return [(each.path, each.state, each.before, each.after) for each in changes]


def group(name: Any, applied: dict[str, Any] | None, **more: Any) -> Entity:
    """A group of that name, and what git has written last."""
    return entity("Group", "g1", {"name": name}, owned=record("g", applied=applied, **more))


class TestOneMember:
    @pytest.mark.parametrize(
        ("base", "there", "wanted", "state"),
        [
            ("a", "a", "a", None),
            ("a", "a", "b", ChangeState.PENDING),
            ("a", "b", "a", ChangeState.DRIFT),
            ("a", "b", "c", ChangeState.CONFLICT),
            ("a", "b", "b", None),
            ("a", None, "a", ChangeState.DRIFT),
            ("a", None, "b", ChangeState.CONFLICT),
            ("a", None, None, None),
            (None, "a", "b", ChangeState.CONFLICT),
            (None, "a", None, ChangeState.DRIFT),
            (None, None, "a", ChangeState.PENDING),
        ],
    )
    def test_three_values_say_why_it_changes(
        self, base: Any, there: Any, wanted: Any, state: ChangeState | None
    ) -> None:
        """What was applied, what is there, and what git says."""
        found = entity(
            "Group", "g1", {"name": there}, owned=record("g", fields=["name"], applied={"name": base})
        )
        told = diff("Group", {"name": wanted}, found)
        assert told == ([("name", state, there, wanted)] if state else [])

    @pytest.mark.parametrize(("there", "state"), [("a", ChangeState.PENDING), ("b", ChangeState.CLAIM)])
    def test_a_member_that_was_not_gits_becomes_it(self, there: str, state: ChangeState) -> None:
        """Nobody has promised that it stays: to write it is no conflict."""
        assert diff("Group", {"name": "b"}, group(there, {"identifier": "x"}), ignores=lambda _: True)[
            -1
        ] == (
            "name",
            state,
            there,
            "b",
        )

    def test_of_what_is_adopted_only_differences_are_told(self) -> None:
        """All of it becomes git's."""
        by_hand = entity("Group", "g1", {"name": "a", "identifier": "x"})
        assert diff("Group", {"name": "a", "identifier": "y"}, by_hand) == [
            ("identifier", ChangeState.PENDING, "x", "y")
        ]

    def test_members_are_told_by_path(self) -> None:
        """Whatever order the manifest has them in."""
        told = diff("Group", {"name": "b", "identifier": "y"}, entity("Group", "g1"))
        assert [each[0] for each in told] == ["identifier", "name"]


class TestMembersThatLeave:
    @pytest.mark.parametrize(
        ("there", "state", "after"),
        [
            (["a@x"], ChangeState.PENDING, []),
            (["b@x"], ChangeState.CONFLICT, []),
            ([], ChangeState.RELEASE, []),
        ],
    )
    def test_goes_back_to_its_default(self, there: Any, state: ChangeState, after: Any) -> None:
        """Unless others have set it, which is a conflict."""
        found = entity("Group", "g1", {"members": there}, owned=record("g", applied={"members": ["a@x"]}))
        assert diff("Group", {}, found) == [("members", state, there, after)]

    @pytest.mark.parametrize(("there", "told"), [(["a@x"], None), (["b@x"], ["a@x"])])
    def test_what_was_applied_is_told_only_where_others_have_changed_it(self, there: Any, told: Any) -> None:
        """As of any other member: a saved plan says no more than that."""
        found = entity("Group", "g1", {"members": there}, owned=record("g", applied={"members": ["a@x"]}))
        (change,) = three_way_diff(KINDS["Group"], {}, {}, found)
        assert change.applied == told

    def test_what_is_ignored_is_let_go(self) -> None:
        """It stays as it is."""
        found = group("a", {"name": "a"})
        assert diff("Group", {}, found, ignores=lambda path: path == "name") == [
            ("name", ChangeState.RELEASE, "a", "a")
        ]

    def test_what_never_changes_is_let_go(self) -> None:
        """It would have to be replaced."""
        found = entity("Role", "r1", {"identifier": "x"}, owned=record("r", applied={"identifier": "x"}))
        assert diff("Role", {}, found) == [("identifier", ChangeState.RELEASE, "x", "x")]

    def test_what_follows_another_member_is_cleared(self) -> None:
        """The server works it out then: null, and not the value that it would be today."""
        spec = {"identifier": "https://a", "protocols": {"oauth2": {"issuer": "https://b"}}}
        applied = {"identifier": "https://a", "protocols": {"oauth2": {"issuer": "https://b"}}}
        found = entity(
            "Provider", "p1", spec, owned=record("p", fields=["identifier", ISSUER], applied=applied)
        )
        assert diff("Provider", {"identifier": "https://a"}, found) == [
            (ISSUER, ChangeState.PENDING, "https://b", None)
        ]

    @pytest.mark.parametrize(
        ("wanted", "there", "state"),
        [
            ({ISSUER: "https://b"}, {"issuer": "https://b"}, ChangeState.RELEASE),
            ({}, {"issuer": "https://b"}, ChangeState.RELEASE),
            ({}, {}, ChangeState.PENDING),
        ],
        ids=["git has something in it", "others have", "nothing is in it"],
    )
    def test_an_object_that_was_only_said_to_be_there(
        self, wanted: Any, there: Any, state: ChangeState
    ) -> None:
        """It stays for what is in it."""
        path = "protocols.oauth2"
        owned = record("p", fields=[path], applied={"protocols": {"oauth2": {}}})
        found = entity("Provider", "p1", {"protocols": {"oauth2": there}}, owned=owned)
        assert (path, state) in [each[:2] for each in diff("Provider", wanted, found)]


class TestProtection:
    @pytest.mark.parametrize("before", [True, False])
    @pytest.mark.parametrize("after", [True, False])
    def test_is_a_change_where_the_record_says_otherwise(self, before: bool, after: bool) -> None:
        """In both directions."""
        told = diff("Group", {"name": "a"}, group("a", {"name": "a"}, protect=before), protect=after)
        assert told == ([(PROTECT, ChangeState.PENDING, before, after)] if before is not after else [])

    def test_of_what_is_adopted_it_is_new(self) -> None:
        """There is no record that could say so."""
        assert diff("Group", {}, entity("Group", "g1"), protect=True) == [
            (PROTECT, ChangeState.PENDING, False, True)
        ]


def secret(version: str | None, *, is_set: bool = True, overwritten: bool = False, **more: Any) -> Entity:
    """A provider whose secret git has given it in that version, or never."""
    versions = {SECRET: version} if version is not None else {}
    return entity(
        "Provider",
        "p1",
        {"identifier": "https://a", **more},
        owned=record(
            "p", fields=["identifier", SECRET], applied={"identifier": "https://a"}, versions=versions
        ),
        secrets_set=frozenset({SECRET} if is_set else ()),
        secrets_overwritten=frozenset({SECRET} if overwritten else ()),
    )


GIVEN = {SECRET: {"from_env": "X", "version": "2"}}
SENT = {"secret": {"from_env": "X", "version": "2"}}


class TestOneSecret:
    def told(self, found: Entity, secrets: Any = GIVEN, **wanted: Any) -> Any:
        """What becomes of the secret: state, before and after; None where it stays."""
        changes = diff("Provider", {"identifier": "https://a", **wanted}, found, secrets=secrets)
        return next((each[1:] for each in changes if each[0] == SECRET), None)

    @pytest.mark.parametrize(
        ("found", "state", "before"),
        [
            (secret("2"), None, None),
            (secret("1"), ChangeState.PENDING, {"version": "1"}),
            (secret(None), ChangeState.PENDING, {"set": True}),
            (secret("2", is_set=False), ChangeState.DRIFT, None),
            (secret("1", is_set=False), ChangeState.PENDING, None),
            (secret(None, is_set=False), ChangeState.PENDING, None),
            (secret("2", overwritten=True), ChangeState.DRIFT, {"version": "2", "overwritten": True}),
            (secret("1", overwritten=True), ChangeState.PENDING, {"version": "1", "overwritten": True}),
            (secret(None, overwritten=True), ChangeState.PENDING, {"set": True}),
        ],
        ids=[
            "given already",
            "another version",
            "set by hand",
            "cleared by hand",
            "cleared, and another version",
            "never given",
            "overwritten by hand",
            "overwritten, and another version",
            "of others",
        ],
    )
    def test_the_version_says_whether_it_is_given(
        self, found: Entity, state: ChangeState | None, before: Any
    ) -> None:
        """Nobody reads a value back; that somebody has put another one there, the server tells."""
        assert self.told(found) == ((state, before, SENT) if state else None)

    def test_what_is_kept_is_never_given(self) -> None:
        """Whatever has become of it."""
        assert self.told(secret("1", overwritten=True), {SECRET: {"keep": True}}) is None

    @pytest.mark.parametrize(
        ("found", "told"),
        [
            (secret("1"), (ChangeState.PENDING, {"version": "1"}, None)),
            (secret("1", is_set=False), (ChangeState.RELEASE, None, None)),
            (secret(None), None),
        ],
        ids=["given", "cleared by hand", "of others"],
    )
    def test_what_leaves_the_manifest_is_cleared(self, found: Entity, told: Any) -> None:
        """If git has given it."""
        assert self.told(found, {}) == told

    @pytest.mark.parametrize("address", [ISSUER, "protocols.oauth2.token_endpoint", "identifier"])
    def test_for_another_address_it_is_given_again(self, address: str) -> None:
        """The server keeps none for where it was not meant to go."""
        bound = KINDS["Provider"].leaf(SECRET).bound_to
        told = self.told(secret("2"), **{address: "https://other"})
        assert (told is not None) is (address in bound)

    def test_those_that_are_there_are_told_by_version(self) -> None:
        """For what goes."""
        assert stored_secrets(secret("3")) == {SECRET: {"version": "3"}}
        assert stored_secrets(secret(None)) == {SECRET: {"set": True}}
        assert stored_secrets(secret("3", overwritten=True)) == {
            SECRET: {"version": "3", "overwritten": True}
        }
        assert stored_secrets(secret("3", is_set=False)) == {}


class TestForeignAddresses:
    TOKEN = "protocols.oauth2.token_endpoint"
    CHANGE = FieldChange(SECRET, None, SENT, ChangeState.PENDING)

    def found(
        self, change: FieldChange = CHANGE, wanted: Any = None, ignores: Any = (), **oauth2: str
    ) -> list[tuple[str, str]]:
        """Where the secret would go."""
        provider = secret("1", protocols={"oauth2": oauth2})
        says = {"identifier": "https://a"} if wanted is None else wanted
        return list(
            foreign_secret_addresses(
                KINDS["Provider"], says, provider, [change], lambda path: path in ignores
            )
        )

    def test_an_address_that_somebody_else_has_set_is_found(self) -> None:
        """The secret would go there."""
        assert self.found(token_endpoint="https://evil") == [(SECRET, self.TOKEN)]

    def test_an_address_of_git_is_none(self) -> None:
        """Named in the manifest, or expressly left to others."""
        given = {"identifier": "https://a", self.TOKEN: "https://a/token"}
        assert self.found(wanted=given, token_endpoint="https://evil") == []
        assert self.found(ignores=[self.TOKEN], token_endpoint="https://evil") == []

    @pytest.mark.parametrize("state", [ChangeState.CLAIM, ChangeState.RELEASE, ChangeState.KEEP])
    def test_a_secret_that_is_not_sent_goes_nowhere(self, state: ChangeState) -> None:
        """Only what is written."""
        change = FieldChange(SECRET, None, None, state)
        assert self.found(change, token_endpoint="https://evil") == []

    @pytest.mark.parametrize(("issuer", "found"), [("https://a", []), ("https://evil", [(SECRET, ISSUER)])])
    def test_an_address_by_default_is_gits_where_git_says_what_it_follows(
        self, issuer: str, found: Any
    ) -> None:
        """An issuer that is the identifier."""
        assert self.found(issuer=issuer) == found

    def test_an_address_by_default_is_others_where_git_does_not(self) -> None:
        """Somebody may have set the identifier."""
        assert (SECRET, ISSUER) in self.found(wanted={}, issuer="https://a")


class TestFixed:
    ROLE = entity(
        "Role", "r1", {"identifier": "x", "description": "d"}, owned=record("r", fields=["identifier"])
    )

    @pytest.mark.parametrize(
        ("wanted", "paths"),
        [
            ({"identifier": "x", "description": "other"}, []),
            ({"identifier": "y"}, ["identifier"]),
            ({}, ["identifier"]),
        ],
        ids=str,
    )
    def test_what_cannot_change_means_replacement(self, wanted: Any, paths: list[str]) -> None:
        """Another value, or none where git had one."""
        assert fixed_changes(KINDS["Role"], wanted, self.ROLE) == paths

    def test_what_was_never_gits_does_not(self) -> None:
        """The server, or somebody, has decided it."""
        assert (
            fixed_changes(KINDS["Role"], {}, entity("Role", "r1", {"identifier": "x"}, owned=record("r")))
            == []
        )

    def test_the_identity_is_what_cannot_change(self) -> None:
        """In any order; without what has no value."""
        kind = KINDS["RoleAssignment"]
        given = {"role_id": "r", "principal.user": "Ann@x.example"}
        assert identity(kind, given) == identity(kind, dict(reversed(given.items())))
        assert identity(kind, given) == identity(kind, {**given, "principal.group_id": None})
        assert identity(kind, given) == identity(kind, {**given, "principal.user": "ann@X.example"})
        assert identity(kind, given) != identity(kind, {**given, "role_id": "s"})


class TestValues:
    @pytest.mark.parametrize(
        ("kind", "path", "one", "other", "same"),
        [
            ("Group", "members", ["a@x", "b@x"], ["b@x", "a@x"], True),
            ("Group", "members", ["A@x"], ["a@X"], True),
            ("Group", "members", ["a@x", "a@x"], ["a@x"], True),
            ("Group", "members", [], None, True),
            ("Group", "members", ["a@x"], None, False),
            ("Group", "name", "A", "a", False),
            ("Application", "consent", None, "required", True),
            ("Application", "consent", None, "implicit", False),
            ("Provider", "protocols.oauth2", {}, {"issuer": "https://a"}, True),
            ("Provider", "protocols.oauth2", None, {}, False),
            ("Provider", "protocols.oauth2.authorization_parameters", {"a": "1"}, {"a": "2"}, False),
        ],
    )
    def test_two_that_mean_the_same(self, kind: str, path: str, one: Any, other: Any, same: bool) -> None:
        """By the schema: sets, addresses, defaults, and objects that are only there."""
        shape = KINDS[kind].leaf(path)
        assert same_value(shape, one, other) is same
        assert same_value(shape, other, one) is same

    @pytest.mark.parametrize("text", [True, False])
    def test_the_layout_counts_only_in_other_members(self, text: bool) -> None:
        """In a policy it means nothing."""
        one, other = "permit(principal,action,resource);", "permit (principal, action, resource);\n"
        assert same_value(KINDS["Policy"].leaf("cedar"), one, other, text=text) is text

    def test_null_is_the_default(self) -> None:
        """Where there is one."""
        assert normalized(KINDS["Application"].leaf("consent"), None) == "required"
        assert normalized(KINDS["Group"].leaf("name"), None) is None

    @pytest.mark.parametrize(
        ("path", "value"),
        [("a", {"b": {"c": 1}}), ("a.b.c", 1), ("a.x", None), ("a.b.c.d", None), ("x", None), ("x.y", None)],
    )
    def test_a_value_is_found_by_its_path(self, path: str, value: Any) -> None:
        """None where there is none."""
        assert value_at({"a": {"b": {"c": 1}}}, path) == value

    @pytest.mark.parametrize(
        ("spec", "paths"),
        [
            ({"name": "a", "metadata": {"icon_url": "i"}}, ["name", "metadata.icon_url"]),
            ({"protocols": {}}, ["protocols"]),
            (
                {"protocols": {"oauth2": {"authorization_parameters": {"a": 1}}}},
                ["protocols.oauth2.authorization_parameters"],
            ),
            ({"unknown": {"a": 1}}, ["unknown"]),
            ({"protocols": None}, ["protocols"]),
        ],
        ids=str,
    )
    def test_members_are_compared_one_by_one(self, spec: Any, paths: list[str]) -> None:
        """Maps, lists, and objects without members as a whole."""
        assert [path for path, _, _ in leaves(KINDS["Provider"].wire, spec)] == paths

    @pytest.mark.parametrize(
        ("value", "found"),
        [
            ("old", {"local_id": "n"}),
            (["old", "b"], [{"local_id": "n"}, "b"]),
            ({"a": {"b": "old"}}, {"a": {"b": {"local_id": "n"}}}),
            (7, 7),
            (None, None),
        ],
        ids=str,
    )
    def test_ids_of_what_is_made_again_become_pointers(self, value: Any, found: Any) -> None:
        """At any depth."""
        assert with_new_ids(value, {"old": {"local_id": "n"}}) == found


class TestTexts:
    WRITTEN, KEPT = "permit(principal,action,resource);", "permit (principal, action, resource);"
    OWNED = entity("Policy", "p1", {"cedar": KEPT}, owned=record("p", applied={"cedar": WRITTEN}))

    def test_a_text_that_the_server_lays_out_is_shown_as_it_was_written(self) -> None:
        """Only in members that are texts."""
        assert as_written(KINDS["Policy"], self.OWNED, "cedar", self.KEPT) == self.WRITTEN
        assert as_written(KINDS["Policy"], self.OWNED, "description", self.KEPT) == self.KEPT

    @pytest.mark.parametrize("value", ["forbid (principal, action, resource);", None])
    def test_what_means_something_else_is_shown_as_it_is(self, value: Any) -> None:
        """Somebody has written it."""
        assert as_written(KINDS["Policy"], self.OWNED, "cedar", value) == value

    def test_what_nobody_wrote_is_shown_as_it_is(self) -> None:
        """There is no text of ours; nor for a kind that nobody knows."""
        assert as_written(KINDS["Policy"], entity("Policy", "p1"), "cedar", self.KEPT) == self.KEPT
        assert as_written(None, self.OWNED, "cedar", self.KEPT) == self.KEPT


class TestInForce:
    """The version that decides may be an older one than what was written last."""

    def told(self, latest: str, deciding: str, base: str, wanted: str) -> list[tuple[Any, Any, Any]]:
        """State, before, and whether that is the latest version: of a policy's description."""
        found = entity(
            "Policy",
            "p1",
            {"description": latest},
            owned=record("p", applied={"description": base}),
            in_force=InForce(1, 2, spec={"description": deciding}),
        )
        changes = three_way_diff(KINDS["Policy"], {"description": wanted}, {}, found)
        return [
            (each.state, each.before, each.in_force and each.in_force.before_is_latest) for each in changes
        ]

    @pytest.mark.parametrize(
        ("latest", "deciding", "base", "wanted", "told"),
        [
            ("a", "a", "a", "a", []),
            ("a", "old", "a", "a", [(ChangeState.DRIFT, "old", False)]),
            ("new", "a", "a", "a", [(ChangeState.DRIFT, "new", True)]),
            ("new", "old", "a", "a", [(ChangeState.DRIFT, "old", False)]),
            ("new", "a", "a", "b", [(ChangeState.CONFLICT, "new", True)]),
            ("a", "old", "a", "b", [(ChangeState.CONFLICT, "old", False)]),
        ],
    )
    def test_git_decides_both(self, latest: str, deciding: str, base: str, wanted: str, told: Any) -> None:
        """What was written last, and what is in force: the one that decides is told before the other."""
        assert self.told(latest, deciding, base, wanted) == told

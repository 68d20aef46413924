"""Plans with creations, and the members that every action has."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from tests.reconciler.factories import OWNER, changed, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import World
from tests.reconciler.plan.values import OTHER, ZONE_ID, a_zone, entity, record, snapshot, tombstone

from reconciler.kinds import Entity, Kinds, Manifest, Snapshot, load_kinds
from reconciler.plan import Action, FieldChange, Plan, PlanImpossible, build_plan
from reconciler.plan.model import ChangeState, Op
from reconciler.plan.unresolved_references import MOST_GUESSES


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


# --- one rule at a time

WORKFORCE = entity(
    "Zone",
    ZONE_ID,
    {"name": "workforce", "slug": "w"},
    owned=record("workforce", applied={"name": "workforce"}),
)
STAFF = manifest("Group", "staff", name="Staff")
AGENT = manifest("Application", "agent", name="Agent")


def built(*manifests: Manifest, found: tuple[Entity, ...] | Snapshot = (), **more: Any) -> Plan:
    """The plan for these manifests and a zone's, against what is there beside it."""
    there = found if isinstance(found, Snapshot) else snapshot(WORKFORCE, *found)
    told = {"owner": OWNER, "tool_version": "test", **more}
    return build_plan([zone(), *manifests], there, load_kinds(), **told)


def done(plan: Plan) -> list[tuple[str, str, str]]:
    """What each operation does to what."""
    return [(each["op"], each["kind"], str(each.get("name") or each.get("id"))) for each in plan.operations]


def owned_group(name: str = "staff", **spec: Any) -> Entity:
    """A group that is as the manifest says, but for these members."""
    values = {"name": "Staff", "identifier": name, **spec}
    applied = {"name": "Staff", "identifier": name}
    return entity("Group", f"id-{name}", values, owned=record(name, applied=applied))


class TestActions:
    def test_what_is_as_git_says_has_none(self) -> None:
        """Nor an operation."""
        made = built(STAFF, found=(owned_group(),))
        assert (made.actions, made.operations, made.empty) == ((), (), True)

    @pytest.mark.parametrize(
        ("found", "lifecycle", "op", "operations"),
        [
            ((), {}, Op.CREATE, ["create"]),
            ((owned_group(members=["a@x.example"]),), {}, None, []),
            ((entity("Group", "g", {"identifier": "staff", "name": "Staff"}),), {}, Op.ADOPT, ["adopt"]),
            (
                (owned_group("crew", identifier="staff"),),
                {"previous_names": ["crew"]},
                Op.RENAME,
                ["rename"],
            ),
            ((owned_group(),), {"release": True}, Op.RELEASE, ["release"]),
            ((), {"release": True}, None, []),
            ((entity("Group", "g", {"identifier": "staff"}),), {"release": True}, None, []),
        ],
        ids=["new", "another member", "nobody's", "renamed", "released", "gone", "released before"],
    )
    def test_what_is_done_with_what_is_there(
        self, found: tuple[Entity, ...], lifecycle: dict[str, Any], op: Op | None, operations: list[str]
    ) -> None:
        """One action for each object."""
        made = built(
            manifest("Group", "staff", name="Staff", identifier="staff", lifecycle=lifecycle), found=found
        )
        assert [each.op for each in made.actions] == ([op] if op is not None else [])
        assert [each["op"] for each in made.operations] == operations

    def test_what_is_released_stays_protected_and_unchanged(self) -> None:
        """Whatever its manifest says besides."""
        made = built(
            manifest("Group", "staff", name="Other", lifecycle={"release": True}), found=(owned_group(),)
        )
        assert made.operations == (
            {"op": "release", "kind": "Group", "id": "id-staff", "zone": {"id": ZONE_ID}},
        )
        assert made.actions[0].changes == ()

    @pytest.mark.parametrize("op", [Op.CREATE, Op.UPDATE])
    def test_protection_is_a_change_that_is_shown(self, op: Op) -> None:
        """Of what is made, and of what is there."""
        found = (owned_group(),) if op is Op.UPDATE else ()
        (action,) = built(
            manifest("Group", "staff", name="Staff", lifecycle={"protect": True}), found=found
        ).actions
        assert action.op is op
        assert "lifecycle.protect" in [each.path for each in action.changes]

    def test_what_left_git_is_deleted_with_its_action(self) -> None:
        """After everything else."""
        made = built(STAFF, found=(owned_group("crew"),))
        assert done(made) == [("create", "Group", "staff"), ("delete", "Group", "id-crew")]
        assert [each.op for each in made.actions] == [Op.CREATE, Op.DELETE]

    @pytest.mark.parametrize("owned", [record("crew", owner=OTHER), None], ids=["another's", "nobody's"])
    def test_what_others_have_is_left_alone(self, owned: Any) -> None:
        """Nobody has said that it should go."""
        assert built(found=(entity("Group", "g", {"identifier": "crew"}, owned=owned),)).empty

    def test_children_go_before_what_they_are_in(self) -> None:
        """By kind, whatever order the server has them in."""
        key = entity("ApplicationCredential", "k", {"application_id": "a"}, owned=record("key"))
        agent = entity("Application", "a", {"identifier": "agent"}, owned=record("agent"))
        assert [kind for _, kind, _ in done(built(found=(agent, key)))] == [
            "ApplicationCredential",
            "Application",
        ]


class TestRefusing:
    @pytest.mark.parametrize("others", [0, 2])
    def test_every_reference_that_leads_nowhere_is_told_at_once(self, others: int) -> None:
        """Sorted, each with its place."""
        lost = [
            manifest("RoleAssignment", f"a{n}", role={"external": f"r{n}"}, principal={"user": "a@x.example"})
            for n in range(others + 1)
        ]
        with pytest.raises(PlanImpossible) as caught:
            built(*lost[::-1])
        told = [str(each) for each in caught.value.problems]
        assert [each.partition(": ")[0] for each in told] == ["RoleAssignment.yaml:1"] * len(lost)
        assert told == sorted(told)

    def test_every_reference_of_a_manifest_is_told_at_its_member(self) -> None:
        """By its path in the manifest; one that is found is none of them."""
        lost = manifest(
            "Application",
            "robot",
            name="Robot",
            dependencies=["here", {"external": "gone"}, {"owner": "nobody", "name": "x"}],
            accountable_group={"external": "left"},
        )
        here = manifest("Resource", "here", name="Here", identifier="https://here.example")
        with pytest.raises(PlanImpossible) as caught:
            built(lost, here)
        assert {each.path for each in caught.value.problems} == {
            ("spec", "dependencies", 1, "external"),
            ("spec", "dependencies", 2, "owner"),
            ("spec", "accountable_group", "external"),
        }

    def test_searches_for_what_was_meant_are_bounded(self) -> None:
        """Each reads all known names; the references beyond the limit are reported without a suggestion."""
        lost = [
            manifest("RoleAssignment", f"a{n}", role={"external": "r"}, principal={"user": "a@x.example"})
            for n in range(MOST_GUESSES + 5)
        ]
        with pytest.raises(PlanImpossible) as caught:
            built(*lost, hint=lambda *_: "; guessed")
        assert Counter("; guessed" in str(each) for each in caught.value.problems) == {
            True: MOST_GUESSES,
            False: 5,
        }

    def test_what_was_meant_is_put_at_the_end(self) -> None:
        """By whoever knows about spelling."""
        lost = manifest("RoleAssignment", "a", role={"external": "veiwer"}, principal={"user": "a@x.example"})
        with pytest.raises(PlanImpossible, match=r"; viewer\?$"):
            built(lost, hint=lambda word, _: "; viewer?" if word == "veiwer" else "")

    def test_what_another_owner_manages_is_refused_and_not_made(self) -> None:
        """The plan says who has it, and does the rest."""
        theirs = entity("Group", "g", {"identifier": "staff"}, owned=record("crew", owner=OTHER))
        made = built(STAFF, AGENT, found=(theirs,))
        assert [f"`{OTHER}`" in each and "`staff`" in each for each in made.refused] == [True]
        assert done(made) == [("create", "Application", "agent")]

    def test_what_nobody_manages_is_not_replaced(self) -> None:
        """It is adopted as it is, or not at all."""
        by_hand = entity(
            "ApplicationCredential", "k", {"identifier": "key", "application_id": "a", "type": "public"}
        )
        agent = entity("Application", "a", {"identifier": "agent", "name": "Agent"}, owned=record("agent"))
        key = manifest("ApplicationCredential", "key", application="agent", type="password")
        made = built(AGENT, key, found=(agent, by_hand))
        assert [("`type`" in each, "key" in each) for each in made.refused] == [(True, True)]
        assert not [each for each in made.actions if each.kind == "ApplicationCredential"]

    def test_a_zone_is_never_replaced(self) -> None:
        """Everything in it would go: should a member of zones ever be fixed, the plan is refused."""
        kind = load_kinds().by_name["Zone"]
        fixed = {**kind.wire.members, "description": replace(kind.wire.members["description"], fixed=True)}
        of_kind = replace(kind, wire=replace(kind.wire, members=fixed), _leaves={})
        values = {"name": "workforce", "description": "before"}
        there = entity("Zone", ZONE_ID, values, owned=record("workforce", applied=values))
        wanted = replace(zone(description="after"), kind=of_kind)
        made = build_plan([wanted], snapshot(there), load_kinds(), owner=OWNER, tool_version="test")
        assert ["`description`" in each for each in made.refused] == [True]
        assert not [each for each in made.operations if each["op"] == "create"]

    def test_a_secret_does_not_follow_an_address_of_others(self) -> None:
        """Somebody has set it on the server, and the manifest is silent about it."""
        applied = {"name": "P", "identifier": "https://idp.example"}
        provider = entity(
            "Provider",
            "p",
            {**applied, "protocols": {"oauth2": {"token_endpoint": "https://evil.example"}}},
            owned=record("p", applied=applied),
        )
        secret = {"from_env": "X", "version": "1"}
        made = built(
            manifest("Provider", "p", name="P", identifier="https://idp.example", client_secret=secret),
            found=(provider,),
        )
        assert ["`protocols.oauth2.token_endpoint`" in each for each in made.refused] == [True]


KEY = manifest("ApplicationCredential", "key", application="agent", type="password")
KEY_SPEC = {"application_id": "a", "type": "password", "identifier": "key"}


def undelivered(**more: Any) -> tuple[Entity, ...]:
    """An application, and its credential whose secret nobody has confirmed."""
    agent = entity(
        "Application",
        "a",
        {"name": "Agent", "identifier": "agent"},
        owned=record("agent", applied={"name": "Agent", "identifier": "agent"}),
    )
    owned = record("key", **{"applied": KEY_SPEC, "undelivered": True, **more})
    return agent, entity("ApplicationCredential", "k", KEY_SPEC, owned=owned)


class TestSecretsThatNeverArrived:
    def test_are_told_beside_a_plan(self) -> None:
        """Nothing is done about them by itself."""
        made = built(AGENT, KEY, found=undelivered())
        assert ([each.title for each in made.undelivered], made.empty) == (
            ["ApplicationCredential workforce/key"],
            True,
        )

    def test_are_made_anew_where_that_is_wanted(self) -> None:
        """Deleted first, and shown once more."""
        asked: list[Action] = []
        made = built(AGENT, KEY, found=undelivered(), renew=lambda each: bool(asked.append(each)) or True)
        assert [(each.name, each.id) for each in asked] == [("key", "k")]
        assert done(made)[0] == ("delete", "ApplicationCredential", "k")
        (action,) = made.actions
        assert (action.op, action.shown_once, action.secret_ends, made.undelivered) == (
            Op.REPLACE,
            True,
            True,
            (),
        )

    @pytest.mark.parametrize(
        ("manifests", "found"),
        [
            ([AGENT, KEY], undelivered(undelivered=False)),
            ([AGENT], undelivered()),
            (
                [
                    AGENT,
                    manifest(
                        "ApplicationCredential",
                        "key",
                        application="agent",
                        type="password",
                        lifecycle={"release": True},
                    ),
                ],
                undelivered(),
            ),
        ],
        ids=["delivered", "goes", "released"],
    )
    def test_nothing_else_is_lost(self, manifests: list[Manifest], found: tuple[Entity, ...]) -> None:
        """Nobody is asked."""
        made = built(*manifests, found=found, renew=lambda _: pytest.fail("nothing is lost"))
        assert made.undelivered == ()

    def test_what_shows_no_secret_has_none_to_lose(self) -> None:
        """Whatever its record says."""
        group = entity(
            "Group",
            "g",
            {"name": "Staff", "identifier": "staff"},
            owned=record("staff", applied={"name": "Staff", "identifier": "staff"}, undelivered=True),
        )
        assert built(STAFF, found=(group,)).undelivered == ()


class TestReplacing:
    GRANT = {"role_id": "r", "principal": {"user": "ann@x.example"}}

    def test_what_makes_way_goes_before_what_takes_its_place(self) -> None:
        """Two grants of the same cannot be there at once."""
        role = entity(
            "Role", "r", {"identifier": "reader"}, owned=record("reader", applied={"identifier": "reader"})
        )
        grant = entity("RoleAssignment", "old", self.GRANT, owned=record("former", applied=self.GRANT))
        made = built(
            manifest("Role", "reader", identifier="reader"),
            manifest("RoleAssignment", "latter", role="reader", principal={"user": "ANN@x.example"}),
            found=(role, grant),
        )
        assert done(made) == [("delete", "RoleAssignment", "old"), ("create", "RoleAssignment", "latter")]

    def test_what_nothing_takes_the_place_of_goes_last(self) -> None:
        """As anything."""
        role = entity(
            "Role", "r", {"identifier": "reader"}, owned=record("reader", applied={"identifier": "reader"})
        )
        grant = entity("RoleAssignment", "old", self.GRANT, owned=record("former", applied=self.GRANT))
        made = built(
            manifest("Role", "reader", identifier="reader"),
            manifest("RoleAssignment", "latter", role="reader", principal={"user": "bob@x.example"}),
            found=(role, grant),
        )
        assert done(made) == [("create", "RoleAssignment", "latter"), ("delete", "RoleAssignment", "old")]

    def test_references_to_what_makes_way_are_taken_out_first(self) -> None:
        """And put back in the same changeset: the resource keeps all else."""
        agent = entity(
            "Application",
            "a",
            {"name": "Agent", "identifier": "agent"},
            owned=record("agent", applied={"name": "Agent", "identifier": "agent"}),
        )
        role = entity("Role", "r", {"identifier": "x"}, owned=record("reader", applied={"identifier": "x"}))
        grant = entity("RoleAssignment", "g", self.GRANT, owned=record("grant", applied=self.GRANT))
        made = built(
            AGENT,
            manifest("Role", "reader", identifier="y"),
            manifest("RoleAssignment", "grant", role="reader", principal={"user": "ann@x.example"}),
            found=(agent, role, grant),
        )
        assert [each[:2] for each in done(made)] == [
            ("delete", "RoleAssignment"),
            ("delete", "Role"),
            ("create", "Role"),
            ("create", "RoleAssignment"),
        ]


class TestDeletedByOthers:
    def test_a_reference_to_what_is_made_again_is_drift_of_nobody(self) -> None:
        """What others have deleted took the reference with it: git puts both back."""
        payroll = manifest(
            "Resource", "payroll", name="P", identifier="https://p.example", application="agent"
        )
        applied = {"name": "P", "identifier": "https://p.example", "application_id": "a0"}
        there = entity(
            "Resource",
            "r",
            {"name": "P", "identifier": "https://p.example"},
            owned=record("payroll", applied=applied),
        )
        gone = snapshot(WORKFORCE, there, tombstones=[tombstone("Application", "a0", "agent")])
        made = built(AGENT, payroll, found=gone)
        again, lost = made.actions
        assert (again.op, again.deleted, made.only_drift) == (Op.CREATE, True, True)
        assert [(each.path, each.state) for each in lost.changes] == [("application_id", ChangeState.DRIFT)]

    @pytest.mark.parametrize(
        ("active", "applied", "drift"),
        [(False, True, True), (False, False, False), (True, True, False)],
        ids=["others have let another decide", "git says so only now", "it decides"],
    )
    def test_a_set_that_others_have_put_out_of_force_is_drift(
        self, active: bool, applied: bool, drift: bool
    ) -> None:
        """The plan says that it decides again, and that this is nobody's wish in git."""
        first = entity(
            "PolicySet", "s0", {"name": "first", "active": not active, "policies": []}, owner_type="platform"
        )
        spec = {"name": "main", "active": active, "policies": []}
        ours = entity("PolicySet", "s1", spec, owned=record("main", applied={**spec, "active": applied}))
        made = built(manifest("PolicySet", "main", policies=[]), found=(first, ours))
        assert [each.drift for each in made.deciding] == ([] if active else [drift])


class TestSurroundings:
    def test_the_plan_says_what_it_was_made_from(self) -> None:
        """Revision, organization, owner, and how many there are."""
        made = build_plan(
            [zone(), STAFF],
            snapshot(WORKFORCE, owned_group("crew"), owned_group(), revision=7),
            load_kinds(),
            owner=OWNER,
            tool_version="1.2",
            server="https://id.example",
            source={"commit": "abc"},
            budgets={"Group": 3},
        )
        assert (made.base_revision, made.organization_id, made.owner) == (7, "org1", OWNER)
        assert (made.tool_version, made.server, made.source) == (
            "1.2",
            "https://id.example",
            {"commit": "abc"},
        )
        assert (made.owned, made.manifest_count, made.budgets) == ({"Group": 2, "Zone": 1}, 2, {"Group": 3})

    @pytest.mark.parametrize("owner", [OTHER, None])
    def test_a_zone_of_others_is_looked_at_too(self, owner: str | None) -> None:
        """What nobody manages in it is told by the name that its owner has for it."""
        there = snapshot(a_zone(owner=owner), entity("Group", "g", {"identifier": "by-hand"}))
        name = "workforce" if owner is not None else "workforce-slug"
        made = build_plan(
            [manifest("Group", "staff", name, name="Staff")],
            there,
            load_kinds(),
            owner=OWNER,
            tool_version="t",
        )
        assert [each.title for each in made.unmanaged] == [f"Group {name}/by-hand"]

    def test_what_follows_an_unlinked_reference_is_shown(self) -> None:
        """Changes that git does not say itself are in the action, sorted with the others."""
        issuer = "protocols.oauth2.issuer"
        applied = {"name": "P", "identifier": "https://a", "protocols": {"oauth2": {"issuer": "https://a"}}}
        provider = entity(
            "Provider",
            "p",
            applied,
            owned=record("p", fields=["name", "identifier", issuer], applied=applied),
        )
        made = built(
            manifest(
                "Provider",
                "p",
                name="P",
                identifier="https://b",
                protocols={"oauth2": {"issuer": "https://a"}},
            ),
            found=(provider,),
        )
        assert made.actions[0].changes == (
            FieldChange("identifier", "https://a", "https://b", ChangeState.PENDING),
            FieldChange(issuer, "https://a", "https://a", ChangeState.KEEP),
        )

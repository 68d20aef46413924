"""The predicted policy impact of plans: widened access, and what active policies no longer forbid."""

from dataclasses import replace
from typing import Any

import click
import orjson
import pytest
from tests.reconciler.factories import OWNER, AnyWorld, changed, manifest, plan_for, settle, without, zone
from tests.reconciler.plan.values import ZONE_ID, entity

from reconciler.kinds import Entity, Manifest, load_kinds
from reconciler.plan import Plan, saved_plan_discrepancies
from reconciler.plan.policy_impact import PolicyImpact
from reconciler.plan.policy_preview import PolicyPreview
from reconciler.plan.saved_plan import read_plan
from reconciler.report.plans import summary_line
from reconciler.report.policy_impact import impact_lines
from reconciler.terminal import rendered

pytestmark = pytest.mark.long

PERMIT = "permit (principal, action, resource);\n"


def company(cedar: str, **members: Any) -> list[Manifest]:
    """A zone in which that text decides, among others; members of the groups, by name."""
    groups = {"leavers": ["ann@x.example", "bob@x.example"], "staff": ["cy@x.example"], **members}
    return [
        zone(),
        *(manifest("Group", name, name=name, members=each) for name, each in groups.items()),
        manifest("Role", "auditor"),
        manifest("Application", "agent", name="Agent"),
        manifest("Resource", "payroll", name="Payroll", identifier="https://payroll.example"),
        manifest("RoleAssignment", "staff-audits", role="auditor", principal={"group": "staff"}),
        manifest("RoleAssignment", "agent-audits", role="auditor", principal={"application": "agent"}),
        manifest("Policy", "guard", cedar=PERMIT + cedar),
        manifest("Policy", "aside", cedar='forbid (principal in Group::"leavers", action, resource);\n'),
        manifest("PolicySet", "main", policies=["guard"]),
    ]


def told(plan: Plan) -> list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    """What is widened: the name, how the policy goes by it, and who leaves or joins."""
    return [(each.name, each.rule, each.loses, each.gains) for each in plan.widened]


LEAVERS, AUDITOR = 'Group::"leavers"', 'Role::"auditor"'
BOTH = ("ann@x.example", "bob@x.example")
FORBID = 'forbid (principal in Group::"leavers", action, resource);\n'
UNLESS = 'permit (principal, action, resource) unless { principal in Group::"leavers" };\n'
EXCEPT = 'forbid (principal, action, resource) unless { principal in Group::"leavers" };\n'
IF = 'forbid (principal, action, resource) when { if principal in Group::"leavers" then true else false };\n'


WHEN = "forbid (principal, action, resource) when { context has acr };\n"
# A rule, with less that it applies to, and with more.
REWRITTEN = [
    (
        FORBID,
        FORBID.replace("leavers", "staff"),
        FORBID.replace('principal in Group::"leavers"', "principal"),
    ),
    (FORBID, FORBID.replace("resource)", 'resource == Resource::"https://payroll.example")'), FORBID + WHEN),
    (
        WHEN,
        WHEN.replace("acr }", 'acr && context.acr == "x" }'),
        WHEN.replace(" when { context has acr }", ""),
    ),
    (
        WHEN,
        WHEN.replace(";", " unless { context has chain_depth };"),
        WHEN.replace("when { context has acr }", ""),
    ),
]


class TestGroups:
    @pytest.mark.threat("48h")
    @pytest.mark.parametrize(
        ("cedar", "rule"), [(FORBID, "forbid"), (UNLESS, "permit unless"), (IF, "forbid if")]
    )
    def test_an_emptied_group_that_a_policy_in_force_goes_by(
        self, any_world: AnyWorld, cedar: str, rule: str
    ) -> None:
        """Nothing is told while all stay; emptied, the plan says who is let go, and after that nothing."""
        before = company(cedar)
        settle(any_world, before)
        untouched = plan_for(any_world, changed(before, "Group", "leavers", name="Left"))
        assert len(untouched.actions) == 1
        assert not untouched.widened

        wanted = company(cedar, leavers=[])
        plan = plan_for(any_world, wanted)
        assert told(plan) == [(LEAVERS, rule, BOTH, ())]
        (found,) = plan.widened
        assert (found.zone, found.policy, found.place) == ("workforce", "guard", "line 2 of its text")
        assert found.empty
        settle(any_world, wanted)
        assert plan_for(any_world, wanted).empty

    def test_one_of_two_members(self, any_world: AnyWorld) -> None:
        """Only who leaves; a letter's case means nothing, and who comes is told by the list alone."""
        settle(any_world, company(FORBID))
        plan = plan_for(any_world, company(FORBID, leavers=["ANN@x.example", "dee@x.example"]))
        assert told(plan) == [(LEAVERS, "forbid", ("bob@x.example",), ())]
        assert not plan.widened[0].empty

    def test_whoever_joins_those_that_a_forbid_excepts(self, any_world: AnyWorld) -> None:
        """What `unless` takes out of a `forbid` widens with its members, and narrows when they leave."""
        settle(any_world, company(EXCEPT))
        joins = plan_for(any_world, company(EXCEPT, leavers=[*BOTH, "dee@x.example"]))
        assert told(joins) == [(LEAVERS, "forbid unless", (), ("dee@x.example",))]
        assert not plan_for(any_world, company(EXCEPT, leavers=[])).widened

    def test_a_text_that_goes_by_it_no_longer_shows_that_itself(self, any_world: AnyWorld) -> None:
        """The text is a change of its own; nor is a rule told that was not there before."""
        settle(any_world, company(FORBID))
        assert not plan_for(any_world, company("", leavers=[])).widened
        settle(any_world, company(""))
        assert not plan_for(any_world, company(FORBID, leavers=[])).widened

    def test_a_policy_that_does_not_decide_holds_nothing_back(self, any_world: AnyWorld) -> None:
        """A policy that is in no set that decides."""
        settle(any_world, company(""))
        assert not plan_for(any_world, company("", leavers=[])).widened

    def test_two_that_exchange_their_names(self, any_world: AnyWorld) -> None:
        """The policy means the other group from then on: whom the former had is let go."""
        settle(any_world, company(FORBID))
        swapped = [
            manifest("Group", new, lifecycle={"previous_names": [old]}, name=old, members=members)
            for new, old, members in (
                ("leavers", "staff", ["cy@x.example"]),
                ("staff", "leavers", list(BOTH)),
            )
        ]
        plan = plan_for(any_world, [*without(company(FORBID), "leavers", "staff"), *swapped])
        assert told(plan) == [(LEAVERS, "forbid", BOTH, ())]


PAYROLL = 'Resource::"https://payroll.example"'
BENEATH = "https://payroll.example/salaries"


def prefix_company(how: str) -> list[Manifest]:
    """A company whose payroll is a prefix that a `forbid` names, or the exception of a `permit`."""
    cedar = {
        "forbid": f"forbid (principal, action, resource == {PAYROLL});\n",
        "permit unless": f"permit (principal, action, resource) unless {{ resource == {PAYROLL} }};\n",
    }[how]
    return changed(company(cedar), "Resource", "payroll", prefix=True)


def other_resource(identifier: str, **spec: Any) -> Manifest:
    """Another resource than payroll."""
    return manifest("Resource", "other", name="Other", identifier=identifier, **spec)


def losses(any_world: AnyWorld, how: str, wanted: list[Manifest]) -> list[tuple[str, ...]]:
    """The addresses that the rule loses by a plan; it loses them for no other reason."""
    plan = plan_for(any_world, wanted)
    assert {(each.name, each.rule) for each in plan.widened} <= {(PAYROLL, how)}
    assert not any(each.gone or each.gains or each.empty for each in plan.widened)
    return [each.loses for each in plan.widened]


class TestOtherNames:
    ROLE = 'forbid (principal in Role::"auditor", action, resource);\n'

    @pytest.mark.threat("48h")
    def test_who_has_a_role_no_longer(self, any_world: AnyWorld) -> None:
        """By an assignment that goes, for all who had it by a group; or by a group that is emptied."""
        settle(any_world, company(self.ROLE))
        gone = plan_for(any_world, without(company(self.ROLE), "staff-audits", "agent-audits"))
        assert told(gone) == [(AUDITOR, "forbid", ("Application/agent", "Group/staff", "cy@x.example"), ())]
        emptied = plan_for(any_world, company(self.ROLE, staff=[]))
        assert told(emptied) == [(AUDITOR, "forbid", ("cy@x.example",), ())]

    def test_who_has_it_otherwise_still_has_it(self, any_world: AnyWorld) -> None:
        """One assignment in place of another."""
        settle(any_world, company(self.ROLE))
        moved = changed(company(self.ROLE), "Group", "leavers", members=["ann@x.example", "cy@x.example"])
        moved.append(manifest("RoleAssignment", "too", role="auditor", principal={"group": "leavers"}))
        settle(any_world, moved)
        plan = plan_for(any_world, without(moved, "staff-audits"))
        assert told(plan) == [(AUDITOR, "forbid", ("Group/staff",), ())]

    @pytest.mark.threat("48h")
    @pytest.mark.parametrize("renamed", [True, False])
    def test_a_resource_that_is_called_otherwise_or_gone(self, any_world: AnyWorld, renamed: bool) -> None:
        """The policy says that the name may be absent, so the server takes that; the plan tells it."""
        name = 'Resource::"https://payroll.example"'
        before = changed(
            company(f"forbid (principal, action, resource == {name});\n"),
            "Policy",
            "guard",
            absent_names=[name],
        )
        settle(any_world, before)
        wanted = without(before, "payroll")
        if renamed:
            wanted = changed(before, "Resource", "payroll", identifier="https://pay.example")
        (found,) = plan_for(any_world, wanted).widened
        assert (found.name, found.gone, found.now) == (name, True, "https://pay.example" if renamed else None)
        settle(any_world, wanted)

    @pytest.mark.threat("48i")
    @pytest.mark.parametrize("how", ["forbid", "permit unless"])
    @pytest.mark.parametrize(
        ("identifier", "spec", "lost"),
        [
            ("https://payroll.examples/a", {"prefix": True}, []),
            (BENEATH, {}, [(BENEATH,)]),
            ("https://PAYROLL.example:443/x?y", {}, [("https://PAYROLL.example:443/x?y",)]),
        ],
        ids=["not-beneath", "beneath", "beneath-written-otherwise"],
    )
    def test_a_new_resource_takes_its_address_from_the_prefix_above(
        self,
        any_world: AnyWorld,
        how: str,
        identifier: str,
        spec: dict[str, Any],
        lost: list[tuple[str, ...]],
    ) -> None:
        """A rule that names the prefix does not apply to the resource beneath it any more."""
        before = prefix_company(how)
        settle(any_world, before)
        assert losses(any_world, how, [*before, other_resource(identifier, **spec)]) == lost

    @pytest.mark.threat("48i")
    @pytest.mark.parametrize("how", ["forbid", "permit unless"])
    def test_a_resource_that_is_no_prefix_any_more_loses_all_beneath_it(
        self, any_world: AnyWorld, how: str
    ) -> None:
        """A rule that names it applies to its own address alone."""
        before = prefix_company(how)
        settle(any_world, before)
        wanted = changed(before, "Resource", "payroll", prefix=False)
        assert losses(any_world, how, wanted) == [("https://payroll.example/*",)]

    @pytest.mark.threat("48i")
    @pytest.mark.parametrize("how", ["forbid", "permit unless"])
    @pytest.mark.parametrize(
        ("identifier", "lost"),
        [("https://other.example", [(BENEATH, f"{BENEATH}/*")]), (BENEATH, [(f"{BENEATH}/*",)])],
        ids=["renamed", "the-same-address"],
    )
    def test_a_resource_that_becomes_a_prefix_takes_what_is_beneath_it(
        self, any_world: AnyWorld, how: str, identifier: str, lost: list[tuple[str, ...]]
    ) -> None:
        """With its own address, where it is renamed to lie beneath the prefix above."""
        before = prefix_company(how)
        settle(any_world, [*before, other_resource(identifier)])
        assert losses(any_world, how, [*before, other_resource(BENEATH, prefix=True)]) == lost

    @pytest.mark.threat("48i")
    @pytest.mark.parametrize("how", ["forbid", "permit unless"])
    def test_a_resource_that_is_deleted_gives_its_address_back(self, any_world: AnyWorld, how: str) -> None:
        """The rule applies to it again: nothing is widened."""
        before = prefix_company(how)
        settle(any_world, [*before, other_resource(BENEATH)])
        assert losses(any_world, how, before) == []

    @pytest.mark.threat("48l")
    def test_what_was_beneath_before_it_was_a_prefix(self, any_world: AnyWorld) -> None:
        """Another team's, made earlier, stays its own: told with the prefix, and by a saved plan, too."""
        theirs = [
            manifest("Resource", name, name="R", identifier=identifier, **spec)
            for name, identifier, spec in (
                ("salaries", "https://PAYROLL.example/salaries", {}),
                ("bonus", "https://payroll.example/bonus", {"prefix": True}),
                ("mine", "https://payroll.example/bonus/mine", {}),
                ("beside", "https://payroll.examples/a", {}),
            )
        ]
        settle(any_world, company(FORBID))
        settle(any_world, theirs, "others", zones={"workforce": OWNER})
        assert not plan_for(any_world, changed(company(FORBID), "Resource", "payroll", name="P")).exempt
        wanted = changed(company(FORBID), "Resource", "payroll", prefix=True)
        plan = plan_for(any_world, wanted)
        (found,) = plan.exempt
        assert (found.zone, found.prefix) == ("workforce", "https://payroll.example")
        assert found.resources == ("Resource/bonus of others", "Resource/salaries of others")
        saved = read_plan(orjson.dumps(plan.as_json()))
        assert saved.exempt == plan.exempt
        silent = read_plan(orjson.dumps(replace(plan, exempt=(), _digest=[]).as_json()))
        assert list(saved_plan_discrepancies(silent, any_world.snapshot()))
        told = "".join(map(rendered, impact_lines(plan)))
        assert (
            "do not apply to these existing resources:    Resource/bonus of others, Resource/sal"
            in click.unstyle(told)
        )
        settle(any_world, wanted)
        assert plan_for(any_world, wanted).empty

    @pytest.mark.threat("48i")
    def test_what_a_prefix_that_a_forbid_excepts_gets_back(self, any_world: AnyWorld) -> None:
        """Nothing while the narrower one is there; without it, its requests are those of the prefix."""
        payroll = 'Resource::"https://payroll.example"'
        cedar = f"forbid (principal, action, resource) unless {{ resource == {payroll} }};\n"
        before = changed(company(cedar), "Resource", "payroll", prefix=True)
        beneath = "https://payroll.example/salaries"
        settle(any_world, [*before, manifest("Resource", "other", name="Other", identifier=beneath)])
        assert told(plan_for(any_world, before)) == [(payroll, "forbid unless", (), (beneath,))]

    def test_an_application_that_is_replaced_is_what_it_was(self, any_world: AnyWorld) -> None:
        """What only changes otherwise is named as before."""
        cedar = 'forbid (principal, action, resource) when { context.application == Application::"agent" };\n'
        settle(any_world, company(cedar))
        plan = plan_for(any_world, changed(company(cedar), "Application", "agent", description="Other"))
        assert len(plan.actions) == 1
        assert not plan.widened


class TestDeciding:
    @pytest.mark.parametrize("how", ["deleted", "deactivated"])
    def test_the_first_policies_decide_again(self, any_world: AnyWorld, how: str) -> None:
        """Said with what they are, and with what forbids no longer."""
        before = company(FORBID)
        settle(any_world, before)
        assert not plan_for(any_world, changed(before, "Zone", "workforce", description="x")).deciding
        wanted = (
            without(before, "main")
            if how == "deleted"
            else changed(before, "PolicySet", "main", active=False)
        )
        plan = plan_for(any_world, wanted)
        (found,) = plan.deciding
        assert (found.zone, found.before, found.forbids) == ("workforce", "PolicySet/main", ("Policy/guard",))
        assert found.after == "PolicySet/default-zone-policies"
        assert "An application uses what a user granted it" in found.first
        settle(any_world, wanted)
        assert plan_for(any_world, wanted).empty

    def test_another_set_takes_over(self, any_world: AnyWorld) -> None:
        """Which one; what is in both is in force as before."""
        before = company(FORBID)
        settle(any_world, before)
        other = manifest("PolicySet", "other", policies=["guard"])
        (found,) = plan_for(any_world, [*changed(before, "PolicySet", "main", active=False), other]).deciding
        assert (found.before, found.after, found.forbids) == ("PolicySet/main", "PolicySet/other", ())

    def test_the_first_policies_decide_no_longer(self, any_world: AnyWorld) -> None:
        """A first set ends what the zone began with. In a zone that is made with it nothing was decided."""
        settle(any_world, [zone()])
        (found,) = plan_for(any_world, company(FORBID)).deciding
        assert (found.before, found.after) == ("PolicySet/default-zone-policies", "PolicySet/main")
        assert "An application uses what a user granted it" in found.first_ended
        assert not found.drift
        assert found.forbids == found.forbids_again == found.first == ()
        settle(any_world, company(FORBID))
        new = zone("brand-new")
        texts = [
            manifest("Policy", "guard", "brand-new", cedar=PERMIT),
            manifest("PolicySet", "main", "brand-new", policies=["guard"]),
        ]
        assert not plan_for(any_world, [*company(FORBID), new, *texts]).deciding

    @pytest.mark.parametrize("deleted", [True, False])
    def test_a_policy_that_forbids_is_taken_out(self, any_world: AnyWorld, deleted: bool) -> None:
        """Out of the set that decides, whether it stays in git or not; one that permits is not told."""
        rest = [manifest("Policy", "grants", cedar=PERMIT), manifest("Policy", "more", cedar=PERMIT)]
        before = changed([*company(FORBID), *rest], "PolicySet", "main", policies=["grants", "guard", "more"])
        settle(any_world, before)
        fewer = changed(before, "PolicySet", "main", policies=["grants", "guard"])
        assert not plan_for(any_world, fewer).deciding  # of what permits, one goes
        wanted = changed(before, "PolicySet", "main", policies=["grants", "more"])
        plan = plan_for(any_world, without(wanted, "guard") if deleted else wanted)
        (found,) = plan.deciding
        assert (found.before, found.after) == ("PolicySet/main", "PolicySet/main")
        assert (found.forbids, found.forbids_less) == (("Policy/guard",), ())
        settle(any_world, wanted)
        assert plan_for(any_world, wanted).empty

    def test_a_text_gains_a_forbid(self, any_world: AnyWorld) -> None:
        """Nothing is forbidden less for it."""
        settle(any_world, company(FORBID + EXCEPT))
        assert not plan_for(any_world, company(FORBID + EXCEPT + IF)).deciding

    @pytest.mark.parametrize("less", [EXCEPT, FORBID + IF], ids=["one-of-two", "one-for-another"])
    def test_a_text_loses_a_forbid(self, any_world: AnyWorld, less: str) -> None:
        """One of two, or one for another: what is there may be narrower than what is gone."""
        settle(any_world, company(FORBID + EXCEPT))
        (found,) = plan_for(any_world, company(less)).deciding
        assert (found.forbids, found.forbids_less) == ((), ("Policy/guard",))
        assert found.permits == found.permits_more == ()

    @pytest.mark.threat("48j")
    @pytest.mark.parametrize(("rule", "narrower", "wider"), REWRITTEN)
    def test_a_forbid_is_written_otherwise(
        self, any_world: AnyWorld, rule: str, narrower: str, wider: str
    ) -> None:
        """Told where it may apply to less; not where it asks for less, or is only laid out otherwise."""
        settle(any_world, company(rule))
        laid_out = rule.replace(" ", "\n  ").replace(";", " // x\n;")
        assert not plan_for(any_world, company(laid_out)).deciding
        assert not plan_for(any_world, company(wider)).deciding
        assert not plan_for(any_world, company(narrower + wider)).deciding
        plan = plan_for(any_world, company(narrower))
        (found,) = plan.deciding
        assert (found.before, found.after) == ("PolicySet/main", "PolicySet/main")
        assert (found.forbids, found.forbids_less) == ((), ("Policy/guard",))
        assert summary_line(plan).endswith("1 to update; less may be forbidden")
        settle(any_world, company(narrower))
        assert plan_for(any_world, company(narrower)).empty

    @pytest.mark.threat("48j")
    @pytest.mark.parametrize(("rule", "narrower", "wider"), REWRITTEN)
    def test_a_permit_is_written_otherwise(
        self, any_world: AnyWorld, rule: str, narrower: str, wider: str
    ) -> None:
        """The other way round: told where it may apply to more, and where one is added."""
        rule, narrower, wider = (each.replace("forbid", "permit") for each in (rule, narrower, wider))
        rest = [each for each in company("") if each.name != "guard"]

        def permitting(cedar: str) -> list[Manifest]:
            return [*rest, manifest("Policy", "guard", cedar=cedar)]

        settle(any_world, permitting(rule))
        if len(narrower) > len(rule):  # not another group, but a condition more
            assert not plan_for(any_world, permitting(narrower)).deciding
        plans = [plan_for(any_world, permitting(more)) for more in (wider, rule + wider, rule + UNLESS)]
        assert [[(each.permits, each.permits_more) for each in plan.deciding] for plan in plans] == [
            [((), ("Policy/guard",))]
        ] * 3
        told = "1 to update; more may be permitted"
        assert [summary_line(plan)[-len(told) :] for plan in plans] == [told] * 3

    @pytest.mark.threat("48j")
    def test_a_policy_that_permits_comes_into_force(self, any_world: AnyWorld) -> None:
        """Its text was there before, and shows nowhere in the plan; one that only forbids is not told."""
        before = company(FORBID)
        settle(any_world, before)
        forbidding = changed(before, "PolicySet", "main", policies=["guard", "aside"])
        assert not plan_for(any_world, forbidding).deciding
        more = manifest("Policy", "more", cedar=PERMIT)
        settle(any_world, [*before, more])
        plan = plan_for(any_world, changed([*before, more], "PolicySet", "main", policies=["guard", "more"]))
        (found,) = plan.deciding
        assert (found.permits, found.permits_more) == (("Policy/more",), ())


class TestSavedPlans:
    """What a plan says of policy decisions is part of the file that it is saved to."""

    def test_say_that_git_s_set_decides_no_longer(self, any_world: AnyWorld) -> None:
        """Whoever a `forbid` names leaves a text that decides no longer: only the set is told."""
        settle(any_world, company(FORBID))
        plan = plan_for(any_world, without(company(FORBID, leavers=[]), "main"))
        assert not plan.widened
        assert read_plan(orjson.dumps(plan.as_json())).deciding == plan.deciding

    def test_say_which_default_policies_end(self, any_world: AnyWorld) -> None:
        """The policies that a zone begins with, where git's first set takes their place."""
        settle(any_world, without(company(FORBID), "main"))
        plan = plan_for(any_world, company(FORBID))
        assert plan.deciding[0].first_ended
        assert read_plan(orjson.dumps(plan.as_json())).deciding == plan.deciding

    def test_say_that_a_policy_forbids_less(self, any_world: AnyWorld) -> None:
        """Its text has lost a `forbid`."""
        settle(any_world, company(FORBID))
        plan = plan_for(any_world, company(""))
        assert plan.deciding[0].forbids_less
        assert read_plan(orjson.dumps(plan.as_json())).deciding == plan.deciding

    def test_say_who_leaves_a_forbid_and_the_digest_covers_it(self, any_world: AnyWorld) -> None:
        """A plan that does not say it has another digest."""
        settle(any_world, company(FORBID))
        plan = plan_for(any_world, company(FORBID, leavers=[]))
        assert read_plan(orjson.dumps(plan.as_json())).widened == plan.widened
        assert replace(plan, widened=(), _digest=[]).digest != plan.digest


POLICY_SET = entity("PolicySet", "s1", {"name": "main", "active": True, "policies": ["p1"]})


class TestOneZone:
    """The preview of a changeset that empties the group `leavers`, from a snapshot without a server."""

    def impact(
        self, cedar: str, *, file: str | None = None, policy_set: Entity | None = POLICY_SET
    ) -> PolicyImpact:
        """The impact where *cedar* is the text of the policy `p1`, and *file* the file that git has it in."""
        group = entity("Group", "g1", {"identifier": "leavers", "members": ["ann@x.example"]})
        policy = entity("Policy", "p1", {"name": "guard", "cedar": cedar})
        sets = [policy_set] if policy_set is not None else []
        preview = PolicyPreview(
            load_kinds(),
            in_zone={ZONE_ID: [group, policy, *sets]},
            names=lambda _zone_id: "workforce",
            same={},
            written={"p1": (cedar, file)},
            displaced=frozenset(),
            label=lambda key: f"Policy/{key}",
        )
        patch: Any = {
            "op": "update",
            "kind": "Group",
            "id": "g1",
            "zone": {"id": ZONE_ID},
            "spec": {"members": []},
        }
        return preview.of([patch])

    def test_the_place_of_a_name_is_its_file_line_and_column(self) -> None:
        """Lines and columns count from 1, in the text that git has."""
        (found,) = self.impact(f"{PERMIT}  {FORBID}", file="guard.cedar").widened
        assert found.place == f"guard.cedar:2:{3 + FORBID.index(LEAVERS)}"

    def test_a_permit_with_an_uncertain_condition_may_widen(self) -> None:
        """Inside `if` it is unknown whether the rule applies to members or to everybody else."""
        (found,) = self.impact(IF.replace("forbid", "permit")).widened
        assert (found.name, found.rule) == (LEAVERS, "permit if")

    def test_a_permit_for_the_group_does_not_widen(self) -> None:
        """Members who leave lose what it permits."""
        assert self.impact(FORBID.replace("forbid", "permit")).widened == ()

    def test_without_a_visible_policy_set_there_is_no_impact(self) -> None:
        """Some callers may read groups and no policy sets."""
        assert self.impact(FORBID, policy_set=None) == PolicyImpact((), (), ())

    def test_an_inactive_policy_set_has_no_impact(self) -> None:
        """Its policies are not evaluated."""
        inactive = replace(POLICY_SET, spec={**POLICY_SET.spec, "active": False})
        assert self.impact(FORBID, policy_set=inactive) == PolicyImpact((), (), ())

    def test_a_policy_that_the_snapshot_lacks_is_skipped(self) -> None:
        """The caller may not read it; the other policies of the set are compared."""
        more = replace(POLICY_SET, spec={**POLICY_SET.spec, "policies": ["hidden", "p1"]})
        (found,) = self.impact(FORBID, policy_set=more).widened
        assert found.policy == "p1"

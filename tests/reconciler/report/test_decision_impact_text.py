"""Recorded decisions that a plan would change, as people read them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import click
import pytest
from tests.reconciler.plan.values import NOW, action, decision_impact, plan

from reconciler.plan import ChangedDecisions, ChangedRequest, NamedRule, ZoneDecisionImpact
from reconciler.plan.model import Op
from reconciler.report.decision_impact import decision_impact_lines, decision_impact_summary
from reconciler.report.plans import plan_lines
from reconciler.terminal import rendered

EXAMPLE = ZoneDecisionImpact.read(decision_impact(), {"z1": "acme"}, NOW)
NOTHING = replace(EXAMPLE, loses=ChangedDecisions(), not_replayed={}, unrecorded=(), recorded=99_210)
FAITHFUL = replace(NOTHING, reproduced=99_210)
REQUEST = EXAMPLE.loses.examples[0]
PERMIT, FORBID = NamedRule("default-user-grants", "0"), NamedRule("payments", "only-finance")


def text(*found: ZoneDecisionImpact) -> list[str]:
    """The lines as they are printed on a terminal, without their styles."""
    return [click.unstyle(rendered(line)) for line in decision_impact_lines(found)]


def example(*, gained: bool = False, **members: Any) -> str:
    """The line of one request with these members."""
    request: ChangedRequest = replace(REQUEST, **members)
    changed = ChangedDecisions(request.decisions, 1, 1, 1, (request,))
    return text(replace(EXAMPLE, **{"gains" if gained else "loses": changed, **_other(gained)}))[1].strip()


def _other(gained: bool) -> dict[str, ChangedDecisions]:
    return {"loses" if gained else "gains": ChangedDecisions()}


def last_line(**members: Any) -> str:
    """The line that tells how faithful the replay was."""
    return text(replace(EXAMPLE, **members))[-1].strip()


def gaining(decisions: int, zone: str = "acme") -> ZoneDecisionImpact:
    """A zone in which so many requests would be allowed that were refused."""
    return replace(FAITHFUL, zone=zone, gains=ChangedDecisions(decisions, 1, 1, 1))


def losing(decisions: int, zone: str = "acme") -> ZoneDecisionImpact:
    """A zone in which so many requests would be refused."""
    return replace(FAITHFUL, zone=zone, loses=ChangedDecisions(decisions, 1, 1, 1))


class TestOrder:
    def test_what_would_be_refused_comes_first(self) -> None:
        """In any zone, and where most is refused before where less is; what is allowed comes after it."""
        lines = text(gaining(9, "a"), losing(1, "b"), FAITHFUL, losing(2, "c"))
        heads = [line.partition(" in zone ")[::2] for line in lines if line.startswith("!")]

        assert [(head.rpartition(" ")[2], zone[0]) for head, zone in heads] == [
            ("refused", "c"),
            ("refused", "b"),
            ("allowed", "a"),
        ]
        assert [line.split()[0] for line in lines[3:]] == ["replayed"] * 3 + ["no"]

    def test_it_stands_above_the_actions(self) -> None:
        """And the last line of the plan says it, too."""
        made = plan(action(Op.UPDATE), operations=[{}])
        lines = [click.unstyle(rendered(line)) for line in plan_lines(made, decisions=[EXAMPLE])]

        assert lines[: len(text(EXAMPLE))] == text(EXAMPLE)
        assert "1 manifest: 1 to update; 42 recorded requests would be refused" in lines

    def test_a_plan_without_an_answer_is_shown_as_ever(self) -> None:
        """An older server, or a caller who may not read decisions."""
        made = plan(action(Op.UPDATE), operations=[{}])
        assert list(plan_lines(made, decisions=None)) == list(plan_lines(made, decisions=[]))


class TestHead:
    @pytest.mark.parametrize(
        ("changed", "told"),
        [
            ((42, 3, 1, 2), "42 of 99,210 recorded decisions, of 3 users, 1 application and 2 resources"),
            ((1, 1, 1, 1), "1 of 99,210 recorded decisions, of 1 user, 1 application and 1 resource"),
            ((1200, 0, 2, 1), "1,200 of 99,210 recorded decisions, of 2 applications and 1 resource"),
        ],
        ids=str,
    )
    def test_it_counts_whom_it_concerns(self, changed: Sequence[int], told: str) -> None:
        """Tokens of an application's own are of no user."""
        first = text(replace(EXAMPLE, loses=ChangedDecisions(*changed)))[0]
        assert first == f"! requests of the last 30 days would be refused in zone acme: {told}"

    def test_of_what_is_gained_it_says_that_it_was_refused(self) -> None:
        """Nobody asks for what they have."""
        head = "! requests of the last 30 days that were refused would be allowed in zone acme: "
        assert text(gaining(1))[0].startswith(head)

    @pytest.mark.parametrize(
        ("period", "told"),
        [
            (timedelta(days=30, seconds=4), "30 days"),
            (timedelta(days=30) - timedelta(seconds=4), "30 days"),
            (timedelta(days=2), "2 days"),
            (timedelta(hours=47), "47 hours"),
            (timedelta(minutes=70), "hour"),
            (timedelta(seconds=-3), "hour"),
        ],
        ids=str,
    )
    def test_the_period_is_that_of_the_answer(self, period: timedelta, told: str) -> None:
        """Clocks that differ by seconds change nothing."""
        assert f" of the last {told} would be" in text(replace(EXAMPLE, period=period))[0]


class TestExamples:
    @pytest.mark.parametrize(
        ("members", "told"),
        [
            ({}, "ada@acme.example by billing-agent through chat for https://api.example: "),
            ({"user_email": None}, "ada by billing-agent through chat for https://api.example: "),
            ({"actors": ("billing-agent",)}, "ada@acme.example by billing-agent for https://api.example"),
            ({"actors": ()}, "ada@acme.example by billing-agent for https://api.example"),
            ({"actors": ("billing-agent", "b", "a")}, "by billing-agent through a and b for"),
            (
                {"user": None, "user_email": None, "actors": ("billing-agent",)},
                "billing-agent on its own behalf for https://api.example: ",
            ),
            ({"scopes": ("write",)}, "for https://api.example (scope write): 30 times"),
            ({"scopes": ("read", "write", "pay")}, " (scopes read, write and pay): "),
            ({"application": "Billing agent"}, 'by "Billing agent" through chat for'),
            ({"user_email": ""}, "ada by billing-agent"),
        ],
        ids=str,
    )
    def test_who_asks_for_what(self, members: dict[str, Any], told: str) -> None:
        """User, application, the applications before it, resource and scopes; several words are quoted."""
        assert told in example(**members)

    @pytest.mark.parametrize(
        ("members", "told"),
        [
            ({}, ": 30 times, last on 2026-11-20, "),
            ({"decisions": 1}, ": once, on 2026-11-20, "),
            ({"decisions": 1200}, ": 1,200 times, last on 2026-11-20, "),
            ({"last_at": "2026-11-20T23:30:00-02:00"}, "last on 2026-11-21, "),
        ],
        ids=str,
    )
    def test_how_often_and_when(self, members: dict[str, Any], told: str) -> None:
        """The day in UTC, as everywhere."""
        assert told in example(**members)

    @pytest.mark.parametrize(
        ("gained", "before", "after", "told"),
        [
            (False, [PERMIT], [FORBID], "2026-11-20, refused by payments (only-finance)"),
            (False, [PERMIT], [], "2026-11-20, no longer allowed by default-user-grants (rule 1)"),
            (False, [], [], "last on 2026-11-20"),
            (
                False,
                [],
                [FORBID, PERMIT],
                "2026-11-20, refused by payments (only-finance) and default-user-grants (rule 1)",
            ),
            (True, [], [PERMIT], "2026-11-20, allowed by default-user-grants (rule 1)"),
            (
                True,
                [FORBID],
                [PERMIT],
                "allowed by default-user-grants (rule 1), no longer refused by payments (only-finance)",
            ),
        ],
        ids=str,
    )
    def test_which_rules_decide(
        self, before: Sequence[NamedRule], after: Sequence[NamedRule], told: str, *, gained: bool
    ) -> None:
        """Those that decide afterwards; what is permitted by none any more says what permits it now."""
        assert example(gained=gained, before=tuple(before), after=tuple(after)).endswith(told)

    @pytest.mark.parametrize(
        ("refused_by", "reason"),
        [
            ("dependency", "because the application does not declare the resource as a dependency"),
            ("user", "because the user is gone or may not act"),
            ("application", "because the application is gone or may not act"),
            ("resource", "because the resource is gone"),
            ("scope", "because the resource does not offer it"),
            ("other", "because of another reason (other)"),
        ],
    )
    def test_what_refuses_it_besides_policies(self, refused_by: str, reason: str) -> None:
        """No rule is blamed for it."""
        assert example(refused_by=refused_by).endswith(f", refused {reason}")
        gained = example(gained=True, refused_by=refused_by, before=(), after=(PERMIT,))
        assert gained.endswith(f", allowed by default-user-grants (rule 1), refused so far {reason}")

    @pytest.mark.parametrize(
        ("refused_by", "after", "told"),
        [
            ("policy", (FORBID,), "refused by payments (only-finance)"),
            ("policy", (), "no longer allowed by default-user-grants (rule 1)"),
            ("scope", (), "refused because the resource does not offer it"),
        ],
    )
    def test_what_refuses_scopes(self, refused_by: str, after: tuple[NamedRule, ...], told: str) -> None:
        """As of a whole request: a rule that forbids them, or the resource."""
        line = example(scopes=("write",), refused_by=refused_by, after=after)
        assert "(scope write)" in line
        assert line.endswith(told)

    def test_the_rest_is_counted(self) -> None:
        """The server names some of them."""
        assert text(EXAMPLE)[3] == "      ... and 2 more decisions"
        whole = replace(EXAMPLE.loses, decisions=40)
        assert not [line for line in text(replace(EXAMPLE, loses=whole)) if "more" in line]

    def test_nothing_acts_upon_the_terminal(self) -> None:
        """A server may send any name; none looks like another part of the line."""
        hostile = "\x1b[2Jada by admin\u202e\n"
        rules = (NamedRule(hostile, hostile),)
        line = example(user=hostile, user_email=None, resource=hostile, scopes=(hostile,), after=rules)

        assert line.isprintable()
        assert line.startswith('"\\u001b[2Jada by admin\\u202e\\n" by billing-agent')


class TestFaithfulness:
    @pytest.mark.parametrize(
        ("members", "told"),
        [
            ({}, "replayed 99,210 of 100,000 decisions in zone acme; left out: "),
            (
                {"not_replayed": {"gone": 700}},
                "; left out: 700 whose user, application or resource is gone; the present policies",
            ),
            (
                {"not_replayed": {"gone": 0, "too_many": 90}},
                "; left out: 90 beyond what one dry run replays; the",
            ),
            ({"not_replayed": {"other": 5}}, "; left out: 5 for another reason (other); "),
            ({"not_replayed": {}}, "in zone acme; the present policies decide"),
            ({}, "; the present policies decide 99.9 % of the replayed ones as was recorded"),
            ({"reproduced": 99_209}, "decide 99.9 % of the replayed ones"),
            ({"reproduced": 49_605}, "decide 50.0 % of the replayed ones"),
            ({"reproduced": 99_210}, "decide all of the replayed ones"),
            (
                {"unrecorded": ("acr",)},
                "; rules look at `acr`, which decisions do not record and the replay assumes",
            ),
            ({"unrecorded": ("acr", "scopes")}, "; rules look at `acr` and `scopes`, which decisions do"),
        ],
        ids=str,
    )
    def test_what_the_counts_rest_on(self, members: dict[str, Any], told: str) -> None:
        """What was left out, whether the replay agrees with the record, and what it assumes."""
        assert told in last_line(**members)

    def test_what_no_rule_looks_at_is_not_told(self) -> None:
        assert "rules look at" not in last_line(unrecorded=())


class TestNoChange:
    @pytest.mark.parametrize(
        ("found", "told"),
        [
            (FAITHFUL, "99,210 replayed"),
            (
                NOTHING,
                "99,210 replayed; the present policies decide 99.9 % of the replayed ones as was recorded",
            ),
            (
                replace(FAITHFUL, recorded=99_211, not_replayed={"gone": 1}),
                "99,210 of 99,211 replayed; left out: 1 whose user, application or resource is gone",
            ),
            (
                replace(FAITHFUL, unrecorded=("acr",)),
                "99,210 replayed; rules look at `acr`, which decisions do not record and the replay assumes",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_is_one_quiet_line(self, found: ZoneDecisionImpact, told: str) -> None:
        """With what makes it less certain, where there is something."""
        assert text(found) == [
            f"no recorded decision of the last 30 days changes in zone acme: {told}",
        ]

    def test_a_zone_without_recorded_decisions_is_not_told_of(self) -> None:
        """Nobody asked for anything there."""
        assert text(replace(FAITHFUL, recorded=0, replayed=0, reproduced=0)) == []


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([], ""),
        ([FAITHFUL], ""),
        ([losing(42)], "; 42 recorded requests would be refused"),
        ([losing(1), losing(41, "other")], "; 42 recorded requests would be refused"),
        ([gaining(1)], "; 1 refused request would be allowed"),
        (
            [gaining(1200), losing(1)],
            "; 1 recorded request would be refused; 1,200 refused requests would be allowed",
        ),
    ],
    ids=["none", "no change", "refused", "two zones", "allowed", "both"],
)
def test_the_summary_counts_requests_of_all_zones(found: Sequence[ZoneDecisionImpact], told: str) -> None:
    """What is refused first."""
    assert decision_impact_summary(found) == told

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
REPLAYED = "replayed 99,210 of 100,000 recorded requests in zone acme"
PERMIT, FORBID = NamedRule("default-user-grants", "0"), NamedRule("payments", "only-finance")


def text(*found: ZoneDecisionImpact) -> list[str]:
    """The lines as they are printed on a terminal, without their styles."""
    return [click.unstyle(rendered(line)) for line in decision_impact_lines(found)]


def example(*, gained: bool = False, **members: Any) -> str:
    """The line of one request with these members."""
    return example_lines(gained=gained, **members)[0]


def why(*, gained: bool = False, **members: Any) -> str:
    """The line below it, with what decides."""
    return example_lines(gained=gained, **members)[1]


def example_lines(*, gained: bool = False, **members: Any) -> list[str]:
    """All lines of one request with these members."""
    request: ChangedRequest = replace(REQUEST, **members)
    changed = ChangedDecisions(request.decisions, 1, 1, 1, (request,))
    lines = text(replace(NOTHING, **{"gains" if gained else "loses": changed, **_other(gained)}))
    return [line.strip() for line in lines[1:-1]]


def _other(gained: bool) -> dict[str, ChangedDecisions]:
    return {"loses" if gained else "gains": ChangedDecisions()}


def last_lines(**members: Any) -> list[str]:
    """The lines that tell how faithful the replay was."""
    lines = [line.strip() for line in text(replace(EXAMPLE, **members))]
    return lines[next(index for index, line in enumerate(lines) if line.startswith("replayed ")) :]


def gaining(decisions: int, zone: str = "acme", of_scopes: int = 0) -> ZoneDecisionImpact:
    """A zone in which so many requests would be allowed, or some of them get more scopes."""
    return replace(FAITHFUL, zone=zone, gains=ChangedDecisions(decisions, 1, 1, 1, of_scopes=of_scopes))


def losing(decisions: int, zone: str = "acme", of_scopes: int = 0) -> ZoneDecisionImpact:
    """A zone in which so many requests would be refused, or some of them get fewer scopes."""
    return replace(FAITHFUL, zone=zone, loses=ChangedDecisions(decisions, 1, 1, 1, of_scopes=of_scopes))


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
        summary = "30 recorded requests would be refused; 12 recorded requests would get fewer scopes"
        assert f"1 manifest: 1 to update; {summary}" in lines

    def test_a_plan_without_an_answer_is_shown_as_ever(self) -> None:
        """An older server, or a caller who may not read decisions."""
        made = plan(action(Op.UPDATE), operations=[{}])
        assert list(plan_lines(made, decisions=None)) == list(plan_lines(made, decisions=[]))


class TestHead:
    @pytest.mark.parametrize(
        ("changed", "told"),
        [
            ((42, 3, 1, 2), "42 of 99,210 recorded requests, of 3 users, 1 application and 2 resources"),
            ((1, 1, 1, 1), "1 of 99,210 recorded requests, of 1 user, 1 application and 1 resource"),
            ((1200, 0, 2, 1), "1,200 of 99,210 recorded requests, of 2 applications and 1 resource"),
        ],
        ids=str,
    )
    def test_it_counts_whom_it_concerns(self, changed: Sequence[int], told: str) -> None:
        """Tokens of an application's own are of no user."""
        first = text(replace(EXAMPLE, loses=ChangedDecisions(*changed)))[0]
        assert first == f"! requests of the last 30 days would be refused in zone acme: {told}"

    @pytest.mark.parametrize(
        ("found", "told"),
        [
            (losing(42), "would be refused"),
            (losing(42, of_scopes=12), "would be refused, or get fewer scopes"),
            (losing(42, of_scopes=42), "would get fewer scopes"),
            (gaining(42), "would be allowed"),
            (gaining(42, of_scopes=12), "would be allowed, or get more scopes"),
            (gaining(42, of_scopes=42), "would get more scopes"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_scopes_are_told_from_whole_requests(self, found: ZoneDecisionImpact, told: str) -> None:
        """Who only loses scopes is not refused."""
        assert text(found)[0].startswith(f"! requests of the last 30 days {told} in zone acme: 42 of ")

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

    @pytest.mark.parametrize(
        ("zone", "told"),
        [
            ("acme-1", "acme-1"),
            ("a: 0 of 9 recorded requests", '"a: 0 of 9 recorded requests"'),
            ("acme\u2800", '"acme\u2800"'),
            ("", '""'),
        ],
        ids=ascii,
    )
    def test_a_zone_whose_name_looks_like_prose_is_quoted(self, zone: str, told: str) -> None:
        """In the head, and below."""
        lines = text(losing(1, zone))
        assert f" in zone {told}: 1 of " in lines[0]
        assert f" in zone {told}; the present" in lines[1]
        assert f" in zone {told}: 99,210 replayed" in text(replace(FAITHFUL, zone=zone))[0]


class TestExamples:
    def test_lines_that_read_the_same_are_one(self) -> None:
        """A sign-in and the exchange after it are two decisions for one user, application and resource."""
        code = replace(REQUEST, decisions=1, last_at="2026-01-02T08:00:00Z")
        exchange = replace(REQUEST, decisions=2, last_at="2026-01-03T08:00:00Z")
        other = replace(code, application="other", decisions=2)
        lines = text(replace(NOTHING, loses=ChangedDecisions(5, 1, 2, 1, (other, exchange, code))))
        told = [line.strip() for line in lines if line.startswith("      ") and " times" in line]

        assert [line.partition(": ")[2] for line in told] == [
            "3 times, last on 2026-01-03",
            "2 times, last on 2026-01-02",
        ]
        assert not any("more request" in line for line in lines)

    @pytest.mark.parametrize(
        ("members", "told"),
        [
            ({}, "billing-agent for ada@acme.example at https://api.example through chat: "),
            ({"user_email": None}, "billing-agent for ada at https://api.example through chat: "),
            ({"actors": ("billing-agent",)}, "billing-agent for ada@acme.example at https://api.example: "),
            ({"actors": ()}, "billing-agent for ada@acme.example at https://api.example: "),
            ({"actors": ("billing-agent", "b", "a")}, "at https://api.example through a and b: "),
            (
                {"user": None, "user_email": None, "actors": ("billing-agent",)},
                "billing-agent for itself at https://api.example: ",
            ),
            ({"scopes": ("write",)}, "at https://api.example through chat (scope write): 30 times"),
            ({"scopes": ("read", "write", "pay")}, " (scopes read, write and pay): "),
            ({"application": "Billing agent"}, '"Billing agent" for ada@acme.example at'),
            ({"application": "agent\u2800for\u2800bob"}, '"agent\u2800for\u2800bob" for ada@acme.example at'),
            ({"resource": "\u3164"}, ' at "\u3164" through chat'),
            ({"user_email": "ada\u3164"}, ' for "ada\u3164" at'),
            ({"user_email": ""}, "billing-agent for ada at"),
        ],
        ids=ascii,
    )
    def test_who_asks_for_what(self, members: dict[str, Any], told: str) -> None:
        """Application, user, resource, the applications before it and scopes; odd names are quoted."""
        assert told in example(**members)

    @pytest.mark.parametrize(
        ("members", "told"),
        [
            ({}, ": 30 times, last on 2026-11-20"),
            ({"decisions": 1}, ": once, on 2026-11-20"),
            ({"decisions": 1200}, ": 1,200 times, last on 2026-11-20"),
            ({"last_at": "2026-11-20T23:30:00-02:00"}, "last on 2026-11-21"),
        ],
        ids=str,
    )
    def test_how_often_and_when(self, members: dict[str, Any], told: str) -> None:
        """The day in UTC, as everywhere."""
        assert example(**members).endswith(told)

    @pytest.mark.parametrize(
        ("gained", "before", "after", "told"),
        [
            (False, [PERMIT], [FORBID], "refused by payments (only-finance)"),
            (False, [PERMIT], [], "no longer allowed by default-user-grants (rule 1)"),
            (
                False,
                [],
                [FORBID, PERMIT],
                "refused by payments (only-finance) and default-user-grants (rule 1)",
            ),
            (True, [], [PERMIT], "allowed by default-user-grants (rule 1)"),
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
        assert why(gained=gained, before=tuple(before), after=tuple(after)) == told

    def test_where_no_rule_decides_there_is_no_line_for_it(self) -> None:
        """Neither now nor afterwards."""
        assert len(example_lines(before=(), after=())) == 1

    @pytest.mark.parametrize(
        ("rule", "told"),
        [
            ("0", "rule 1"),
            ("41", "rule 42"),
            ("9" * 5000, "9" * 5000),
            ("٣", '"٣"'),
            ("rule 1", '"rule 1"'),
            ("", '""'),
        ],
        ids=lambda value: ascii(value)[:20],
    )
    def test_a_rule_without_an_id_is_told_by_its_place(self, rule: str, told: str) -> None:
        """Which has a few ASCII digits; no `@id` is mistaken for one, and none ends the command."""
        assert why(after=(NamedRule("payments", rule),)) == f"refused by payments ({told})"

    @pytest.mark.parametrize(
        ("refused_by", "reason"),
        [
            ("dependency", "because the application does not declare the resource as a dependency"),
            ("user", "because the user is gone or may not act"),
            ("application", "because the application is gone or may not act"),
            ("resource", "because the resource is gone"),
            ("scope", "because the resource does not offer the scope"),
            ("other", "because of another reason (other)"),
        ],
    )
    def test_what_refuses_it_besides_policies(self, refused_by: str, reason: str) -> None:
        """No rule is blamed for it."""
        assert why(refused_by=refused_by) == f"refused {reason}"
        gained = why(gained=True, refused_by=refused_by, before=(), after=(PERMIT,))
        assert gained == f"allowed by default-user-grants (rule 1), refused so far {reason}"

    @pytest.mark.parametrize(
        ("refused_by", "after", "told"),
        [
            ("policy", (FORBID,), "refused by payments (only-finance)"),
            ("policy", (), "no longer allowed by default-user-grants (rule 1)"),
            ("scope", (), "refused because the resource does not offer the scope"),
        ],
    )
    def test_what_refuses_scopes(self, refused_by: str, after: tuple[NamedRule, ...], told: str) -> None:
        """As of a whole request: a rule that forbids them, or the resource."""
        first, second = example_lines(scopes=("write",), refused_by=refused_by, after=after)
        assert "(scope write)" in first
        assert second == told

    def test_the_rest_is_counted(self) -> None:
        """The server names some of them."""
        assert text(EXAMPLE)[5] == "      ... and 2 more requests"
        whole = replace(EXAMPLE.loses, decisions=40)
        assert not [line for line in text(replace(EXAMPLE, loses=whole)) if "more" in line]

    def test_without_examples_the_head_counts_them(self) -> None:
        """`--no-request-examples`: nobody is named, and nothing is said of a rest."""
        head, *rest = text(EXAMPLE.without_examples())
        assert "42 of 99,210 recorded requests, of 3 users" in head
        assert rest == [f"    {line}" for line in last_lines()]

    def test_nothing_acts_upon_the_terminal(self) -> None:
        """A server may send any name; none looks like another part of the line."""
        hostile = "\x1b[2Jada at admin\u202e\n"
        rules = (NamedRule(hostile, hostile),)
        lines = example_lines(
            application=hostile,
            user=hostile,
            user_email=None,
            resource=hostile,
            scopes=(hostile,),
            after=rules,
        )

        assert all(line.isprintable() for line in lines)
        assert lines[0].startswith('"\\u001b[2Jada at admin\\u202e\\n" for "')


class TestFaithfulness:
    def test_each_fact_has_a_line(self) -> None:
        """How much was replayed, what was left out, and what is assumed."""
        left_out = "700 whose user, application or resource is gone and 90 for which the dry run had no time"
        assert last_lines() == [
            f"{REPLAYED}; the present policies decide 99.9 % of them as recorded",
            f"left out: {left_out}",
            "assumed, since records do not have it: no `acr` and all scopes of the resource",
        ]

    @pytest.mark.parametrize(
        ("members", "told"),
        [
            ({"not_replayed": {"gone": 700}}, "left out: 700 whose user, application or resource is gone"),
            ({"not_replayed": {"gone": 0, "too_many": 90}}, "left out: 90 for which the dry run had no time"),
            (
                {"not_replayed": {"unavailable": 4}},
                "left out: 4 of a zone whose encryption key is not available",
            ),
            ({"not_replayed": {"other": 5}}, "left out: 5 for another reason (other)"),
            (
                {"not_replayed": {}, "complete": False, "period": timedelta(days=12)},
                "left out: all from before the last 12 days",
            ),
            (
                {"not_replayed": {"too_many": 7}, "complete": False, "period": timedelta(hours=3)},
                "left out: 7 for which the dry run had no time and all from before the last 3 hours",
            ),
        ],
        ids=str,
    )
    def test_what_was_left_out(self, members: dict[str, Any], told: str) -> None:
        """Each reason with its number, and that older ones were not looked at."""
        assert last_lines(**members)[1] == told

    @pytest.mark.parametrize(
        ("reproduced", "told"), [(99_209, "99.9 %"), (49_605, "50.0 %"), (0, "0.0 %"), (99_210, "all")]
    )
    def test_whether_the_replay_agrees_with_the_record(self, reproduced: int, told: str) -> None:
        """All of them is said only where it is so."""
        assert last_lines(reproduced=reproduced)[0].endswith(
            f"; the present policies decide {told} of them as recorded"
        )

    @pytest.mark.parametrize(
        ("unrecorded", "told"),
        [
            (("acr",), "no `acr`"),
            (
                ("authenticated_at", "now", "scopes"),
                "a sign-in at the time of the request, the present time and all scopes of the resource",
            ),
            (("mood now",), '"mood now"'),
        ],
        ids=str,
    )
    def test_what_it_assumes(self, unrecorded: tuple[str, ...], told: str) -> None:
        """In words."""
        assert last_lines(unrecorded=unrecorded)[-1] == f"assumed, since records do not have it: {told}"

    def test_what_does_not_apply_has_no_line(self) -> None:
        """Nothing was left out, and no rule looks at what records do not have."""
        assert len(last_lines(unrecorded=(), not_replayed={})) == 1


class TestNoChange:
    @pytest.mark.parametrize(
        ("found", "told"),
        [
            (FAITHFUL, "99,210 replayed"),
            (NOTHING, "99,210 replayed; the present policies decide 99.9 % of them as recorded"),
            (
                replace(FAITHFUL, recorded=99_211, not_replayed={"gone": 1}),
                "99,210 of 99,211 replayed; left out: 1 whose user, application or resource is gone",
            ),
            (
                replace(FAITHFUL, unrecorded=("acr",)),
                "99,210 replayed; assumed, since records do not have it: no `acr`",
            ),
            (
                replace(FAITHFUL, complete=False),
                "99,210 replayed; left out: all from before the last 30 days",
            ),
            (
                replace(FAITHFUL, recorded=3, replayed=0, reproduced=0, not_replayed={"gone": 3}),
                "0 of 3 replayed; left out: 3 whose user, application or resource is gone",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_is_one_quiet_line(self, found: ZoneDecisionImpact, told: str) -> None:
        """With what makes it less certain, where there is something."""
        assert text(found) == [
            f"no recorded request of the last 30 days is decided differently in zone acme: {told}",
        ]

    def test_a_zone_without_recorded_decisions_is_not_told_of(self) -> None:
        """Nobody asked for anything there."""
        assert text(replace(FAITHFUL, recorded=0, replayed=0, reproduced=0)) == []

    @pytest.mark.parametrize(
        ("members", "told"),
        [
            ({"complete": False}, ": the dry run did not get to its records; the plan may refuse requests"),
            (
                {"recorded": 5, "not_replayed": {"unavailable": 5}},
                "; left out: 5 of a zone whose encryption key is not available; the plan may refuse requests",
            ),
            (
                {"recorded": 5, "not_replayed": {"too_many": 5}},
                "; left out: 5 for which the dry run had no time; the plan may refuse requests",
            ),
        ],
        ids=str,
    )
    def test_a_zone_of_which_nothing_was_replayed_is_warned_of(
        self, members: dict[str, Any], told: str
    ) -> None:
        """It is another thing than that nothing changes."""
        nothing = {"recorded": 0, "replayed": 0, "reproduced": 0}
        found = replace(FAITHFUL, **{**nothing, **members})
        assert text(found) == [f"! no recorded request of zone acme is replayed{told}"]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([], ""),
        ([FAITHFUL], ""),
        ([losing(42)], "; 42 recorded requests would be refused"),
        ([losing(1), losing(41, "other")], "; 42 recorded requests would be refused"),
        ([losing(42, of_scopes=42)], "; 42 recorded requests would get fewer scopes"),
        (
            [losing(42, of_scopes=41)],
            "; 1 recorded request would be refused; 41 recorded requests would get fewer scopes",
        ),
        ([gaining(1)], "; 1 refused request would be allowed"),
        ([gaining(42, of_scopes=42)], "; 42 recorded requests would get more scopes"),
        (
            [gaining(42, of_scopes=1)],
            "; 41 refused requests would be allowed; 1 recorded request would get more scopes",
        ),
        (
            [gaining(1200), losing(1)],
            "; 1 recorded request would be refused; 1,200 refused requests would be allowed",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_summary_counts_requests_of_all_zones(found: Sequence[ZoneDecisionImpact], told: str) -> None:
    """What is refused first."""
    assert decision_impact_summary(found) == told

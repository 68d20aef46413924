"""The impact of a changeset on recorded decisions, as a dry run tells it."""

import asyncio
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest
from tests.runtime.issuing.test_user_policies import own
from tests.runtime.replay.conftest import PERMIT, World
from tests.support.applying import app, create, on, ref, update

from runtime.adapters import cedar
from runtime.domain.errors import Unavailable
from runtime.domain.identifiers import new_id
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.domain.oauth.exchange_steps import Step
from runtime.domain.policy.defaults import all_defaults
from runtime.services import replay_turns
from runtime.services.decision_log import Decision
from runtime.services.issuing import policy_decision
from runtime.services.replay import decision_impact, zone_records, zone_users
from runtime.services.replay.decision_impact import DecisionReplay
from runtime.storage.sql import recorded_decisions

NOTHING = {"decisions": 0, "of_scopes": 0, "users": 0, "applications": 0, "resources": 0, "examples": []}
NO_PAYROLL = '@id("no-payroll") forbid (principal in Group::"staff", action, resource == Resource::"https://payroll.test");'
NOTHING_AT_PAYROLL = 'forbid (principal, action, resource == Resource::"https://payroll.test");'
OWN = "forbid (principal, action, resource);"  # of a user
NO_WRITING = (
    '@id("no-writing") forbid (principal, action, resource) when { context.scopes.contains("write") };'
)


async def recorded(world: World, number: int = 1, **more: Any) -> None:
    """So many records of an exchange: ada's, by the agent, for payroll."""
    services = world.company.services
    for _ in range(number):
        decision = Decision(
            world.zone.organization_id,
            world.zone.id,
            services.clock() - more.get("ago", timedelta(0)),
            new_id(),
            event=more.get("event", DecisionEvent.TOKEN_EXCHANGE),
            user_id=more.get("user_id", world.people["ada"].user.id),
            application_id=more.get("application_id", world.apps["agent"].id),
            credential_id=more.get("credential_id", world.apps["agent"].credential_id),
            resource_id=world.git.id("Resource", more.get("resource", "payroll")),
            actors=more.get("actors", ("agent",)),
            step=more.get("step"),
        )
        if more.get("refused"):
            decision.refuse(policy_decision.denied())
        else:
            decision.issue()
            decision.step = more.get("step")
        services.decisions.record(decision)
    await services.decisions.flush()


async def test_tells_who_would_be_refused_and_why(world: World) -> None:
    """By user, application and resource, with the rules that decide now and then."""
    staff = world.git.id("Group", "staff")
    await world.git.apply(update("Group", staff, "staff", world.zone.id, members=["ada@acme.example"]))
    for _ in range(3):
        await world.ask("ada", "agent", "payroll")
    await world.ask_all()

    (impact,) = await world.tried(*world.policies("strict", PERMIT, NO_PAYROLL))

    assert impact["zone_id"] == world.zone.id
    assert impact["gains"] == NOTHING
    assert impact["not_replayed"] == {}
    assert impact["unrecorded"] == []
    assert impact["recorded"] == impact["replayed"] == impact["reproduced"] == 15
    examples = impact["loses"].pop("examples")
    counts = {"decisions": 5, "of_scopes": 0, "users": 1, "applications": 2, "resources": 1}
    assert impact["loses"] == counts
    first = examples[0]
    assert first.pop("last_at")
    assert first == {
        "user": "ada@acme.example",
        "user_email": "ada@acme.example",
        "application": "agent",
        "resource": "https://payroll.test",
        "actors": ["agent"],
        "decisions": 4,
        "refused_by": "policy",
        "before": [{"policy": "default-user-grants", "rule": "default-user-grants"}],
        "after": [{"policy": "strict-1", "rule": "no-payroll"}],
    }
    assert [each["decisions"] for each in examples] == [4, 1]


async def test_tells_who_would_be_allowed(world: World) -> None:
    """Of requests that policies have refused."""
    await world.git.apply(
        *world.policies("closed", 'permit (principal in Group::"staff", action, resource);')
    )
    assert await world.ask("bob", "agent", "payroll") is None
    assert await world.ask(None, "batch", "calendar") is None

    (impact,) = await world.tried(*world.policies("open", f'@id("all") {PERMIT}'))

    assert impact["loses"] == NOTHING
    assert (impact["recorded"], impact["reproduced"]) == (2, 2)
    found = {(each.get("user"), each["application"]): each for each in impact["gains"]["examples"]}
    assert found.keys() == {("bob@acme.example", "agent"), (None, "batch")}
    of_bob = found["bob@acme.example", "agent"]
    assert (of_bob["before"], of_bob["after"]) == ([], [{"policy": "open-0", "rule": "all"}])
    assert of_bob["refused_by"] == "policy"


async def test_tells_of_scopes(world: World) -> None:
    """Where a token is still issued, with fewer of them."""
    await world.ask("ada", "agent", "payroll")

    (impact,) = await world.tried(*world.policies("reading", PERMIT, NO_WRITING))

    (lost,) = impact["loses"]["examples"]
    assert (impact["loses"]["decisions"], impact["loses"]["of_scopes"]) == (1, 1)
    assert (lost["scopes"], lost["refused_by"]) == (["write"], "policy")
    assert lost["after"] == [{"policy": "reading-1", "rule": "no-writing"}]
    assert impact["unrecorded"] == ["scopes"]


async def test_counts_what_was_allowed_as_lost_and_what_was_refused_as_gained(world: World) -> None:
    """As recorded: what was refused already is not lost, whatever a replay makes of it today."""
    await recorded(world, 3)
    await recorded(world, 5, refused=True, step=Step.POLICY)

    (impact,) = await world.tried(*world.policies("strict", PERMIT, NOTHING_AT_PAYROLL))
    assert impact["loses"]["decisions"] == 3

    await world.git.apply(*world.policies("strict", PERMIT, NOTHING_AT_PAYROLL))
    (impact,) = await world.tried(*world.policies("open", PERMIT))
    assert impact["gains"]["decisions"] == 5


async def test_names_what_refuses_the_scopes_that_are_allowed_now(world: World) -> None:
    """A rule about other scopes does not refuse them."""
    await world.git.apply(*world.policies("reading", PERMIT, NO_WRITING))
    await world.ask("ada", "agent", "payroll")
    by_role = 'permit (principal in Role::"auditor", action, resource);'

    (impact,) = await world.tried(*world.policies("audit", by_role, NO_WRITING))

    (lost,) = impact["loses"]["examples"]
    assert "scopes" not in lost
    assert (lost["before"], lost["after"]) == ([{"policy": "reading-0", "rule": "0"}], [])


async def test_tells_of_scopes_that_a_resource_offers_no_more(world: World) -> None:
    """No policy refuses them."""
    await world.ask("ada", "agent", "payroll")
    payroll = world.git.id("Resource", "payroll")

    (impact,) = await world.tried(update("Resource", payroll, "payroll", world.zone.id, scopes=["read"]))

    (lost,) = impact["loses"]["examples"]
    assert (lost["scopes"], lost["refused_by"], lost["after"]) == (["write"], "scope", [])


@pytest.mark.parametrize(
    ("refused_by", "change"),
    [
        (
            "dependency",
            lambda world, agent: update("Application", agent, "agent", world.zone.id, dependencies=[]),
        ),
        ("application", lambda world, agent: on("delete", "Application", agent)),
        ("resource", lambda world, _: on("delete", "Resource", world.git.id("Resource", "payroll"))),
    ],
)
async def test_tells_of_what_refuses_before_policies(world: World, refused_by: str, change: Any) -> None:
    """A missing dependency, and whoever is gone; no rule decides then."""
    await world.ask("ada", "agent", "payroll")

    (impact,) = await world.tried(change(world, world.apps["agent"].id))

    (lost,) = impact["loses"]["examples"]
    assert (lost["refused_by"], lost["after"]) == (refused_by, [])


async def test_tells_of_chains(world: World) -> None:
    """The actors of a chain are those of the record, the asking application first."""
    await recorded(world, actors=("agent", "batch"))
    await recorded(world)
    deep = '@id("deep") forbid (principal, action, resource) when { context.chain_depth > 1 };'

    (impact,) = await world.tried(*world.policies("flat", PERMIT, deep))

    (lost,) = impact["loses"]["examples"]
    assert (lost["actors"], lost["after"][0]["rule"]) == (["agent", "batch"], "deep")


async def test_replays_chains_that_an_application_began(world: World) -> None:
    """With the authority of the first application."""
    await recorded(world, user_id=None, actors=("agent", "batch"))
    await recorded(world, user_id=None, event=DecisionEvent.CLIENT_CREDENTIALS)
    batch = '@id("of-batch") forbid (principal == Application::"batch", action, resource);'

    (impact,) = await world.tried(*world.policies("no-batch", PERMIT, batch))

    (lost,) = impact["loses"]["examples"]
    assert lost["actors"] == ["agent", "batch"]
    assert "user" not in lost
    assert impact["replayed"] == 2


async def test_says_how_faithful_it_is(world: World) -> None:
    """What is decided otherwise today, who is gone, and what rules look at that is not recorded."""
    await world.git.apply(app("old", world.zone.id))
    await recorded(world, 2)
    await recorded(world, 3, refused=True, step=Step.POLICY)  # as the default policies do not
    await recorded(world, 5, application_id=world.git.id("Application", "old"))  # which has no credential
    strong = f"{PERMIT} forbid (principal, action, resource) unless {{ context has acr && context.now > 1 }};"

    (impact,) = await world.tried(*world.policies("strong", strong))

    assert (impact["recorded"], impact["replayed"], impact["reproduced"]) == (10, 5, 2)
    assert impact["not_replayed"] == {"gone": 5}
    assert impact["unrecorded"] == ["acr", "now"]


async def test_another_credential_stands_for_one_that_is_gone(world: World) -> None:
    """Secrets are rotated; rules seldom look at them."""
    await recorded(world, credential_id=new_id())

    (impact,) = await world.tried(*world.policies("strict", PERMIT))

    assert impact["replayed"] == 1


async def test_looks_at_what_policies_decided_within_thirty_days(world: World) -> None:
    """Other refusals, other events and older records are not replayed."""
    await recorded(world, 2)
    await recorded(world, refused=True, step=Step.DEPENDENCY)
    await recorded(world, event=DecisionEvent.CONNECT)
    await recorded(world, ago=timedelta(days=31))

    (impact,) = await world.tried(*world.policies("strict", PERMIT))

    assert impact["recorded"] == 2


async def test_users_own_policies_count(world: World) -> None:
    """They refuse what the zone's policies allow, now and afterwards."""
    await own(world.scene, world.apps["agent"], world.people["ada"], OWN)
    await recorded(world)
    await recorded(world, user_id=world.people["bob"].user.id)

    (impact,) = await world.tried(*world.policies("strict", PERMIT, NOTHING_AT_PAYROLL))

    assert (impact["replayed"], impact["reproduced"]) == (2, 1)
    assert [each["user"] for each in impact["loses"]["examples"]] == ["bob@acme.example"]


async def test_says_nothing_of_what_decides_nothing(world: World) -> None:
    """A changeset that writes to nothing that decisions are made from, and one for a new zone."""
    await world.ask_all()

    assert await world.tried(create("Zone", "other", name="Other")) == []
    assert await world.tried(update("Zone", world.zone.id, "acme", None, description="x")) == []
    assert await world.tried(create("ServiceAccount", "deployer", name="deployer")) == []


async def test_says_nothing_of_zones_without_records(world: World) -> None:
    """Nobody has asked for anything."""
    assert await world.tried(*world.policies("strict", PERMIT)) == []


async def test_nothing_changes_where_rules_say_the_same(world: World) -> None:
    """Other policies with the rules of the present ones decide alike."""
    await world.git.apply(*world.policies("first", PERMIT, NO_PAYROLL))
    await world.ask_all()

    (impact,) = await world.tried(*world.policies("second", NO_PAYROLL, PERMIT))

    assert (impact["loses"], impact["gains"]) == (NOTHING, NOTHING)
    assert impact["replayed"] == impact["recorded"]


async def test_a_deleted_zone_has_no_impact(world: World) -> None:
    """All of it goes, which the deletion says itself."""
    await world.ask_all()

    group = world.git.id("Group", "staff")
    assert await world.tried(on("delete", "Group", group), on("delete", "Zone", world.zone.id)) == []


FORBID = "forbid (principal, action, resource)"


async def counted_questions(monkeypatch: pytest.MonkeyPatch, world: World, *texts: str) -> int:
    """How often the engine is asked in a dry run that lets policies of these texts decide."""
    asked: list[Any] = []
    real = cedar.decide

    def decide(*arguments: Any) -> Any:
        asked.append(arguments)
        return real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(cedar, "decide", decide)
        await world.tried(*world.policies(f"set-{new_id()[:6]}", *texts))
    return len(asked)


@pytest.mark.parametrize(
    ("rule", "questions"),
    [
        # For everybody of the same groups and roles: for both requests before, and whether the rule applies.
        ('forbid (principal in Group::"staff", action, resource);', 3),
        # Besides, for whom a rule names: whether it applies, and for both requests.
        ('forbid (principal == User::"u3@acme.example", action, resource);', 6),
        # Where rules may tell any from others, whether they apply to each, and the requests of those.
        (f'{FORBID} when {{ principal has email && principal.email like "u1*" }};', 14),
        (f'{FORBID} when {{ principal has email && principal.email like "u*" }};', 32),
        # Where rules look at more than the user, for each and each request.
        (f"{FORBID} when {{ principal has email && context.chain_depth == 1 }};", 22),
        # Rules about another resource change nothing: what was decided before stands.
        ('forbid (principal, action, resource == Resource::"https://calendar.test");', 2),
    ],
)
async def test_the_engine_is_asked_once_for_users_whom_no_rule_tells_apart(
    world: World, monkeypatch: pytest.MonkeyPatch, rule: str, questions: int
) -> None:
    """However many there are; and anew only where a rule applies that was not there."""
    for number in range(10):
        user = await world.company.user(world.zone, f"u{number}@acme.example")
        for actors in (("agent",), ("agent", "portal")):
            await recorded(world, user_id=user.id, actors=actors)

    defaults = [each.text for each in all_defaults()]
    assert await counted_questions(monkeypatch, world, *defaults, rule) == questions


async def test_stops_in_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What there is no time for is counted; a plan never fails for it."""
    await world.ask_all()
    operations = world.policies("strict", PERMIT, NO_PAYROLL)
    (whole,) = await world.tried(*operations)
    assert whole["not_replayed"] == {}

    monkeypatch.setattr(decision_impact, "SECONDS", 0.0)
    (impact,) = await world.tried(*operations)

    assert impact["replayed"] < 2
    assert impact["not_replayed"] == {"too_many": impact["recorded"] - impact["replayed"]}


def looking_at(world: World, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let a dry run replay no more."""
    monkeypatch.setitem(world.company.services.settings.__dict__, "replayed_decisions", number)


async def test_looks_at_the_newest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within what one dry run may look at, and says since when that is."""
    await recorded(world, 3, ago=timedelta(hours=2), resource="calendar")
    await recorded(world, 2, ago=timedelta(hours=1))
    operations = world.policies("strict", PERMIT, NOTHING_AT_PAYROLL)
    (whole,) = await world.tried(*operations)
    assert (whole["recorded"], whole["complete"]) == (5, True)

    looking_at(world, monkeypatch, 2)
    (impact,) = await world.tried(*operations)
    assert (impact["recorded"], impact["loses"]["decisions"], impact["complete"]) == (2, 2, False)
    assert impact["since"] > whole["since"]


async def test_records_of_another_sort_hide_nothing_unsaid(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who floods a zone's records cannot make a plan look as if nobody had asked for anything."""
    await recorded(world, 2, ago=timedelta(hours=1))
    operations = world.policies("strict", PERMIT, NOTHING_AT_PAYROLL)
    looking_at(world, monkeypatch, 2)
    (impact,) = await world.tried(*operations)
    assert impact["loses"]["decisions"] == 2

    await recorded(world, 6, event=DecisionEvent.CONNECT)
    (impact,) = await world.tried(*operations)

    assert (impact["recorded"], impact["complete"]) == (0, False)


async def test_zones_for_which_there_is_no_room_are_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those in which policies change come first."""
    await world.ask_all()
    operations = world.policies("strict", PERMIT, NOTHING_AT_PAYROLL)
    others = [f"other-{number}" for number in range(4)]
    await world.git.apply(*(create("Zone", each, name=each) for each in others))
    monkeypatch.setattr(zone_records, "MOST_ZONES", 1)

    found = await world.tried(
        *(create("Group", each, world.git.id("Zone", each), name="G") for each in others), *operations
    )

    told = {each["zone_id"]: (each["recorded"], each["complete"]) for each in found}
    assert told.pop(world.zone.id) == (12, True)
    assert list(told.values()) == [(0, False)] * 4


async def test_an_organization_replays_for_one_plan_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait; one that has waited too long replays nothing, and says so."""
    await world.ask_all()
    operations = world.policies("strict", PERMIT, NO_PAYROLL)
    inside = most = 0
    real = DecisionReplay.decide_before

    async def counted(replay: DecisionReplay, conn: Any) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        try:
            await real(replay, conn)
        finally:
            inside -= 1

    monkeypatch.setattr(DecisionReplay, "decide_before", counted)
    together = await asyncio.gather(*(world.tried(*operations) for _ in range(3)))
    assert [(each["complete"], each["replayed"]) for (each,) in together] == [(True, 12)] * 3
    assert most == 1

    monkeypatch.setattr(replay_turns, "WAIT_SECONDS", 0.0)
    async with world.company.services.replay_turns.turn(world.company.organization_id):
        (without,) = await world.tried(*operations)
    assert (without["recorded"], without["complete"]) == (0, False)


@pytest.mark.parametrize("failure", [Unavailable("the database does not answer"), TimeoutError()])
async def test_records_that_cannot_be_read_fail_no_plan(
    world: World, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    """What was read until then, which is the newest, is replayed."""
    await recorded(world, 1, ago=timedelta(hours=2))
    await recorded(world, 1, ago=timedelta(hours=1))
    operations = world.policies("strict", PERMIT, NOTHING_AT_PAYROLL)
    read = recorded_decisions.decisions
    monkeypatch.setattr(recorded_decisions, "_AT_A_TIME", 1)
    (whole,) = await world.tried(*operations)
    assert (whole["recorded"], whole["complete"]) == (2, True)

    async def failing(*arguments: Any, **more: Any) -> Any:
        async with aclosing(read(*arguments, **more)) as found:
            async for rows in found:
                yield rows
                raise failure

    monkeypatch.setattr(recorded_decisions, "decisions", failing)
    (impact,) = await world.tried(*operations)
    assert (impact["recorded"], impact["loses"]["decisions"], impact["complete"]) == (1, 1, False)
    assert impact["since"] > whole["since"]

    async def no_edge(*_arguments: Any, **_more: Any) -> Any:
        raise failure

    monkeypatch.setattr(recorded_decisions, "time_of", no_edge)
    (impact,) = await world.tried(*operations)
    assert (impact["recorded"], impact["complete"]) == (0, False)


async def test_each_zone_has_a_share(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few decisions an operator lets a dry run replay."""
    await recorded(world, 3)
    others = [f"other-{number}" for number in range(3)]
    await world.git.apply(*(create("Zone", each, name=each) for each in others))
    looking_at(world, monkeypatch, 2)

    found = await world.tried(
        *(create("Group", each, world.git.id("Zone", each), name="G") for each in others),
        *world.policies("strict", PERMIT, NOTHING_AT_PAYROLL),
    )

    assert [(each["recorded"], each["complete"]) for each in found] == [(1, False)]


async def test_a_deleted_group_is_nobodys(world: World) -> None:
    """Its members are none of it any more, and what its role permitted is refused."""
    staff, auditor = world.git.id("Group", "staff"), world.git.id("Role", "auditor")
    by_role = 'permit (principal in Role::"auditor", action, resource);'
    await world.git.apply(
        update("Group", staff, "staff", world.zone.id, members=["ada@acme.example"]),
        create("RoleAssignment", "audits", world.zone.id, role_id=auditor, principal={"group_id": staff}),
        *world.policies("closed", by_role),
    )
    assert await world.ask("ada", "agent", "payroll") == {"read", "write"}

    (impact,) = await world.tried(on("delete", "Group", staff))

    assert [each["user"] for each in impact["loses"]["examples"]] == ["ada@acme.example"]


async def test_an_operator_can_leave_it_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the setting."""
    await world.ask_all()
    operations = world.policies("strict", PERMIT)
    assert await world.tried(*operations)
    looking_at(world, monkeypatch, 0)
    assert await world.tried(*operations) == []


async def test_users_of_very_many_groups_are_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine reads all of them for each request: whoever only tries that out could stop a process."""
    await world.ask_all()
    members = ["ada@acme.example"]
    operations = [
        create("Group", f"g{each}", world.zone.id, name=f"G{each}", members=members) for each in range(5)
    ]
    (impact,) = await world.tried(*operations)
    assert impact["not_replayed"] == {}

    monkeypatch.setattr(zone_users, "MOST_ENTITIES", 4)
    (impact,) = await world.tried(*operations)

    assert impact["not_replayed"] == {"too_many": 4}


def counted_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each statement reads that is about users and groups, from now on."""
    numbers: list[int] = []

    def counting(read: Any) -> Any:
        async def counted(*arguments: Any) -> Any:
            rows = await read(*arguments)
            numbers.append(len(rows))
            return rows

        return counted

    for name in ("groups", "roles_of_groups", "memberships", "roles_of_users", "users"):
        monkeypatch.setattr(recorded_decisions, name, counting(getattr(recorded_decisions, name)))
    return numbers


async def test_no_statement_reads_what_multiplies(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever only tries out groups and roles chooses how many there are of each."""
    rows = counted_rows(monkeypatch)
    people = [await world.company.user(world.zone, f"u{number}@acme.example") for number in range(150)]
    for person in people:
        await recorded(world, user_id=person.id)
    emails = [str(person.email) for person in people]
    groups = [
        create("Group", f"g{number}", world.zone.id, name=f"G{number}", members=emails)
        for number in range(40)
    ]
    roles = [create("Role", f"r{number}", world.zone.id, identifier=f"r{number}") for number in range(40)]
    granted = [
        create(
            "RoleAssignment",
            f"a{group}-{role}",
            world.zone.id,
            role_id=ref("Role", f"r{role}"),
            principal={"group_id": ref("Group", f"g{group}")},
        )
        for group in range(40)
        for role in range(20)
    ]

    (impact,) = await world.tried(*groups, *roles, *granted)

    assert impact["replayed"] == 150
    assert 4_000 <= max(rows) < 10_000  # each user's groups times their roles would be 120,000


async def test_puts_no_tried_policies_into_the_cache(world: World) -> None:
    """What others go by stays, and what is only tried is not kept."""
    await world.ask_all()
    zones = world.company.services.zones
    before = dict(zones._policies._compiled)

    assert await world.tried(*world.policies("strict", PERMIT, NO_PAYROLL))

    assert dict(zones._policies._compiled).keys() == before.keys()
    assert await world.ask("ada", "agent", "payroll") == {"read", "write"}

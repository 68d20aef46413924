"""The decision impact of a plan: read from the server's answer, and written as JSON."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.reconciler.plan.values import NOW, decision_impact

from reconciler.plan import ChangedDecisions, ChangedRequest, NamedRule, ZoneDecisionImpact

ANSWER = decision_impact()


def read(**members: Any) -> ZoneDecisionImpact:
    """The example of an answer with other members."""
    return ZoneDecisionImpact.read({**ANSWER, **members}, {"z1": "acme"}, NOW)


def read_example(**members: Any) -> ChangedRequest:
    """The example of a request with other members; those that are None are left out."""
    merged = {**ANSWER["loses"]["examples"][0], **members}
    return ChangedRequest.read({name: value for name, value in merged.items() if value is not None})


class TestReading:
    def test_an_answer_is_read_whole(self) -> None:
        """With the zone's name for people, and how long before now the first decision may be."""
        whole = ChangedRequest(
            application="billing-agent",
            resource="https://api.example",
            decisions=30,
            last_at="2026-11-20T08:00:00Z",
            user="ada",
            user_email="ada@acme.example",
            actors=("billing-agent", "chat"),
            refused_by="policy",
            before=(NamedRule("default-user-grants", "0"),),
            after=(NamedRule("payments", "only-finance"),),
        )
        in_part = ChangedRequest(
            application="billing-agent",
            resource="https://ledger.example",
            decisions=10,
            last_at="2026-11-27T16:00:00Z",
            user="bob",
            user_email="bob@acme.example",
            actors=("billing-agent",),
            scopes=("write",),
            refused_by="policy",
            before=(NamedRule("default-user-grants", "0"),),
            after=(NamedRule("ledger", "no-writing"),),
        )
        assert read() == ZoneDecisionImpact(
            zone_id="z1",
            zone="acme",
            since="2026-10-29T12:00:00Z",
            period=timedelta(days=30),
            recorded=100_000,
            replayed=99_210,
            reproduced=99_100,
            not_replayed={"gone": 700, "too_many": 90},
            unrecorded=("acr", "scopes"),
            loses=ChangedDecisions(42, 3, 1, 2, (whole, in_part), of_scopes=12),
        )

    def test_an_unknown_zone_is_shown_by_its_id(self) -> None:
        """The snapshot of a plan need not have it."""
        assert read(zone_id="z2").zone == "z2"

    @pytest.mark.parametrize(
        ("name", "empty"),
        [
            ("not_replayed", {}),
            ("unrecorded", ()),
            ("loses", ChangedDecisions()),
            ("gains", ChangedDecisions()),
        ],
    )
    def test_what_is_absent_is_empty(self, name: str, empty: object) -> None:
        """As null is."""
        content = {member: value for member, value in ANSWER.items() if member != name}
        absent = ZoneDecisionImpact.read(content, {"z1": "acme"}, NOW)
        assert absent == read(**{name: None})
        assert getattr(absent, name) == empty

    def test_an_answer_without_complete_is_whole(self) -> None:
        """As one that says so; only false is otherwise."""
        assert read(complete=None).complete
        assert not read(complete=False).complete

    @pytest.mark.parametrize("of_scopes", [None, 0, 12, 42])
    def test_the_rest_is_refused_as_a_whole(self, of_scopes: int | None) -> None:
        """Where the answer does not tell, all are."""
        found = read(loses={**ANSWER["loses"], "of_scopes": of_scopes}).loses
        assert (found.of_scopes, found.whole) == (of_scopes or 0, 42 - (of_scopes or 0))

    @pytest.mark.parametrize(
        "name", ["user", "user_email", "scopes", "actors", "refused_by", "before", "after"]
    )
    def test_what_an_example_need_not_have(self, name: str) -> None:
        """A token of the application's own has no user, for instance."""
        assert not getattr(read_example(**{name: None}), name)

    def test_members_of_later_servers_are_ignored(self) -> None:
        """Also in an example."""
        assert read(more=1) == read()
        assert read_example(more=1) == read_example()

    @pytest.mark.parametrize(
        "members",
        [
            {"zone_id": None},
            {"since": "yesterday"},
            {"recorded": "many"},
            {"replayed": True},
            {"reproduced": -1},
            {"not_replayed": ["gone"]},
            {"not_replayed": {"gone": None}},
            {"unrecorded": [7]},
            {"loses": {}},
            {"loses": {**ANSWER["loses"], "of_scopes": -1}},
            {"loses": {**ANSWER["loses"], "examples": ["ada"]}},
        ],
        ids=str,
    )
    def test_what_would_be_shown_wrongly_is_not_read(self, members: dict[str, Any]) -> None:
        """Counts are counts, times are times, and names are texts."""
        with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
            read(**members)

    @pytest.mark.parametrize("name", ["application", "resource", "decisions", "last_at"])
    def test_an_example_says_what_it_is_about(self, name: str) -> None:
        """Which request, how often, and when."""
        with pytest.raises(KeyError):
            read_example(**{name: None})


class TestAsJson:
    def test_it_is_what_the_server_answers_and_the_name_of_the_zone(self) -> None:
        """For programs, nothing is left out of it."""
        assert read().as_json() == {"zone": "acme", **ANSWER}

    def test_a_token_of_the_applications_own_has_no_user(self) -> None:
        """Which is said; what else does not apply is left out."""
        document = read_example(user=None, user_email=None, refused_by=None).as_json()
        assert document["user"] is None
        assert {"user_email", "scopes", "refused_by"}.isdisjoint(document)

    def test_it_is_read_as_it_was_written(self) -> None:
        """Whoever reads JSON can read the other half as well."""
        assert ZoneDecisionImpact.read(read().as_json(), {"z1": "acme"}, NOW) == read()


def test_without_examples_only_counts_are_left() -> None:
    """Of both sides; nobody is named in what is printed of it."""
    found = read(gains=ANSWER["loses"]).without_examples()

    assert found.loses == found.gains == ChangedDecisions(42, 3, 1, 2, of_scopes=12)
    assert found.as_json()["loses"] == {**ANSWER["loses"], "examples": []}


@pytest.mark.parametrize(
    ("loses", "gains", "changes"),
    [(0, 0, False), (1, 0, True), (0, 1, True)],
)
def test_is_true_where_a_decision_changes(loses: int, gains: int, *, changes: bool) -> None:
    """In one direction or the other."""
    found = read(loses=changed(loses), gains=changed(gains))
    assert bool(found) is changes


def changed(decisions: int) -> dict[str, Any]:
    """So many decisions of one user."""
    return {"decisions": decisions, "users": 1, "applications": 1, "resources": 1}


def test_the_period_is_that_before_the_dry_run() -> None:
    """Whatever zone the time is written in."""
    now = datetime(2026, 11, 1, 12, tzinfo=UTC)
    content = {**ANSWER, "since": "2026-11-01T11:00:00+02:00"}
    assert ZoneDecisionImpact.read(content, {}, now).period == timedelta(hours=3)

"""Decision records over HTTP: what became of token requests, found by request id and in every selection."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import httpx
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from tests.runtime.management.conftest import Api, Zone, query
from tests.support.factories import operator

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.role import User
from runtime.domain.oauth.decision_events import FORMER_EVENTS, DecisionEvent, DecisionOutcome
from runtime.services.container import Services
from runtime.services.management.access import permissions
from runtime.services.management.changesets.concurrency_limits import (
    EXPLANATIONS_OF_ORGANIZATION,
    explanation_slot,
)
from runtime.storage.sql import token_events
from runtime.storage.sql.token_events import TokenEvent


@dataclass
class Decided:
    """A zone with an application that was refused twice and got a token once.

    Attributes:
        requests: the request ids of the answers, the oldest first: an unknown resource, one that is not
            declared, and what was issued.
    """

    zone: Zone
    application: dict[str, Any]
    resource: dict[str, Any]
    secret: str
    requests: list[str]

    @property
    def question(self) -> dict[str, str]:
        """Whether the application would get a token of its own: it would."""
        return {"application": self.application["identifier"], "resource": self.resource["identifier"]}

    def list(self, api: Api | None = None, **asked: Any) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.page(api, **asked)["items"]
        return items

    def page(self, api: Api | None = None, **asked: Any) -> dict[str, Any]:
        asking = api or self.zone.api
        flush(asking)
        told: dict[str, Any] = asking.ok("GET", self.zone.path(f"/decisions?{query(**asked)}"))
        return told


def flush(api: Api) -> None:
    async def write(services: Services) -> None:
        await services.decisions.flush()

    api.server.call(write)


@pytest.fixture(scope="module")
def decided(api: Api) -> Decided:
    zone = api.zone()
    resource = zone.make("resources")
    other = zone.make("resources")
    application = zone.make("applications", dependencies=[{"id": resource["id"]}])
    made = zone.password(application["id"])
    address = zone.body["protocols"]["oauth2"]["token_endpoint"]
    requests = []
    for wanted in ("https://unknown.example", other["identifier"], resource["identifier"]):
        form = {"grant_type": "client_credentials", "resource": wanted}
        answer = httpx.post(
            address, data=form, auth=(made["identifier"], made["password"]), timeout=30, trust_env=False
        )
        requests.append(answer.headers["X-Request-ID"])
    flush(api)
    return Decided(zone, application, resource, made["password"], requests)


def test_a_refusal_is_found_by_the_request_id_of_its_answer(decided: Decided) -> None:
    """The header of the refused answer leads to its record: whose request, which code, and why."""
    (found,) = decided.list(**{"filter[request_id]": decided.requests[1]})

    assert found["request_id"] == decided.requests[1]
    assert (found["event"], found["outcome"]) == ("client_credentials", "refused")
    assert (found["error"], found["reason"]) == ("invalid_target", "not a declared dependency")
    assert (found["application_id"], found["application"]) == (
        decided.application["id"],
        decided.application["identifier"],
    )
    assert found["user_id"] is None
    assert found["requests"] == 1


def test_an_issued_token_is_found_with_the_policy_that_permitted_it(decided: Decided) -> None:
    """The rule is named with its policy, though no configuration manages the policies of a new zone."""
    (found,) = decided.list(**{"filter[request_id]": decided.requests[2]})

    assert (found["outcome"], found["error"], found["resource"]) == (
        "issued",
        None,
        decided.resource["identifier"],
    )
    (policy,) = found["policies"]
    assert policy["policy"] == "default-app-direct-access"
    assert policy["version"] == 1
    assert "source" not in policy


def test_the_newest_comes_first(decided: Decided) -> None:
    """Without a filter everything is listed, the last request before the first."""
    assert [each["request_id"] for each in decided.list()] == decided.requests[::-1]


def test_pages_lead_forwards_and_back(decided: Decided) -> None:
    """A page ends where the next begins, by cursors that stay good while records are added."""
    first = decided.page(limit=2)
    second = decided.page(limit=2, after=first["page_info"]["end_cursor"])
    back = decided.page(limit=2, before=second["page_info"]["start_cursor"])

    assert [each["request_id"] for each in first["items"] + second["items"]] == decided.requests[::-1]
    assert (first["page_info"]["has_next_page"], second["page_info"]["has_next_page"]) == (True, False)
    assert back["items"] == first["items"]


@pytest.mark.parametrize(
    ("name", "count"),
    [("request_id", 1), ("application_id", 3), ("resource_id", 1), ("event", 3), ("outcome", 2)],
)
def test_a_filter_leaves_the_records_with_its_value(decided: Decided, name: str, count: int) -> None:
    """Each filter selects by one member; a value that no record has selects nothing."""
    values = {
        "request_id": decided.requests[0],
        "application_id": decided.application["id"],
        "resource_id": decided.resource["id"],
        "event": "client_credentials",
        "outcome": "refused",
    }

    found = decided.list(**{f"filter[{name}]": values[name]})

    assert [each[name] for each in found] == [values[name]] * count
    others = {"event": "token_exchange", "outcome": "ended"}
    assert decided.list(**{f"filter[{name}]": others.get(name, "nothing")}) == []


@pytest.mark.parametrize(("kind", "count"), [("application", 3), ("resource", 1)])
def test_a_name_selects_as_the_id_does(decided: Decided, kind: str, count: int) -> None:
    """An identifier, or the id; a name of nothing is refused, and not taken for good news."""
    made = {"application": decided.application, "resource": decided.resource}[kind]
    by_id = decided.list(**{f"filter[{kind}_id]": made["id"]})
    assert len(by_id) == count

    assert decided.list(**{f"filter[{kind}]": made["identifier"]}) == by_id
    assert decided.list(**{f"filter[{kind}]": made["id"]}) == by_id
    path = decided.zone.path("/decisions?" + query(**{f"filter[{kind}]": "nothing-of-that-name"}))
    refused = decided.zone.api.refused(400, "GET", path)
    assert refused["message"] == f"`filter[{kind}]`: there is no {kind} `nothing-of-that-name` in the zone"


def test_names_of_events_have_one_separator() -> None:
    """And none is another one with another separator."""
    names = [each.value for each in DecisionEvent]
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []
    assert {former.replace("-", "_") for former in FORMER_EVENTS} - {"sign_out"} <= set(names)


@pytest.mark.parametrize("former", FORMER_EVENTS)
def test_a_record_of_an_earlier_release_is_found_by_the_name_of_today(api: Api, former: str) -> None:
    """And shown with it; what has another name is not found with it."""
    now, zone = FORMER_EVENTS[former], api.zone()

    async def store(services: Services) -> None:
        rows = [
            TokenEvent(
                id=new_id(),
                organization_id=api.organization_id,
                zone_id=zone.id,
                at=services.clock(),
                event=name,
                outcome=DecisionOutcome.ENDED,
            )
            for name in (former, now, DecisionEvent.TOKEN)
        ]
        async with services.database.transaction() as conn:
            await token_events.add(conn, rows)

    api.server.call(store)

    found = api.ok("GET", zone.path(f"/decisions?{query(**{'filter[event]': now})}"))["items"]
    assert [each["event"] for each in found] == [now, now]
    assert len(api.ok("GET", zone.path("/decisions"))["items"]) == 3


@pytest.mark.parametrize(("name", "known"), [("event", DecisionEvent), ("outcome", DecisionOutcome)])
def test_an_unknown_event_or_outcome_is_refused_with_the_known_ones(
    decided: Decided, name: str, known: type[StrEnum]
) -> None:
    """A misspelt one selected nothing, as if nothing had happened; each known one is taken."""
    path = decided.zone.path("/decisions?")
    assert not [
        each
        for each in known
        if not decided.zone.api.ok("GET", path + query(**{f"filter[{name}]": each.value}))
    ]

    refused = decided.zone.api.refused(400, "GET", path + query(**{f"filter[{name}]": "refuzed"}))

    assert f"`filter[{name}]`: must be one of " in refused["message"]
    assert all(f"`{each.value}`" in refused["message"] for each in known)


def test_a_span_has_its_first_moment_and_not_its_last(decided: Decided) -> None:
    """`since` counts the record of that very moment, `until` does not."""
    newest, middle, oldest = decided.list()

    assert decided.list(since=middle["at"]) == [newest, middle]
    assert decided.list(until=middle["at"]) == [oldest]


def test_a_span_may_begin_and_end_with_time_itself(decided: Decided) -> None:
    """The first and the last moment that a parameter can say are times as others are."""
    everything = decided.list()

    assert decided.list(since="0001-01-01T00:00:00Z") == everything
    assert decided.list(until="9999-12-30T23:59:59Z") == decided.list(until="9999-12-31T23:59:59Z")
    assert decided.list(until="9999-12-31T23:59:59Z") == everything
    assert decided.list(until="0001-01-01T00:00:00Z") == []


def test_no_record_holds_a_secret(decided: Decided) -> None:
    """The client's password is in no record."""
    assert decided.secret not in str(decided.list())


def test_another_organization_finds_nothing_at_this_address(decided: Decided, other: Api) -> None:
    """The zone does not exist for it, whatever it asks about."""
    other.refused(404, "GET", decided.zone.path(f"/decisions?filter[request_id]={decided.requests[0]}"))


def test_who_may_only_read_reads_records(decided: Decided, viewer: Api) -> None:
    """Records are for every role that sees the zone: the list of sessions tells as much."""
    assert len(decided.list(viewer)) == 3


def test_a_key_bound_to_another_zone_does_not_see_the_records(decided: Decided, api: Api) -> None:
    """A credential that is bound to zones reads the decisions of these alone."""
    _, bound = api.key("org_member", zones=[api.zone().id])

    bound.refused(404, "GET", decided.zone.path("/decisions"))


def test_who_may_only_read_has_exchanges_explained(
    decided: Decided, viewer: Api, request: pytest.FixtureRequest
) -> None:
    """By the permission to retrieve explanations, as everybody else; without that one it is 404."""
    path = decided.zone.path("/explain")
    told = viewer.ok("POST", path, decided.question)
    assert told["allowed"]
    assert told["hops"] == decided.zone.api.ok("POST", path, decided.question)["hops"]

    request.getfixturevalue("without_explanations")

    refused = viewer.refused(404, "POST", path, decided.question)
    assert refused["message"] == "`explanations` is not visible to the caller"
    assert viewer.ok("GET", decided.zone.path("/decisions"))["items"]


def test_a_key_bound_to_another_zone_explains_nothing_here(decided: Decided, api: Api) -> None:
    """A key bound to this zone gets the answer; for the other one there is no such zone."""
    path = decided.zone.path("/explain")
    _, here = api.key("org_member", zones=[decided.zone.id])
    _, elsewhere = api.key("org_member", zones=[api.zone().id])
    assert here.ok("POST", path, decided.question)["allowed"]

    assert _says_no_more_than_of_no_zone(elsewhere, decided)


def test_a_member_of_another_organization_explains_nothing_here(
    decided: Decided, api: Api, other: Api
) -> None:
    """A member of this organization gets the answer; for one of another there is no such zone."""
    path = decided.zone.path("/explain")
    assert api.with_role("org_member").ok("POST", path, decided.question)["allowed"]

    assert _says_no_more_than_of_no_zone(other.with_role("org_member"), decided)


def _says_no_more_than_of_no_zone(api: Api, decided: Decided) -> bool:
    """Whether a question about the zone is refused as one about a zone that does not exist."""
    answers = []
    for zone_id in (decided.zone.id, new_id()):
        told = api.refused(404, "POST", f"/zones/{zone_id}/explain", decided.question)
        answers.append((told["code"], told["message"].replace(zone_id, "ID")))
    return answers[0] == answers[1]


@pytest.mark.parametrize("asked", ["since=yesterday", "limit=0", "filter[color]=red", "after=nothing"])
def test_a_parameter_that_means_nothing_is_refused(decided: Decided, api: Api, asked: str) -> None:
    """As in every other list: 400 that names the parameter."""
    told = api.refused(400, "GET", decided.zone.path(f"/decisions?{asked}"))

    assert told["details"][0]["field"] == asked.partition("=")[0]


@pytest.mark.threat("41e", "41i")
def test_an_explanation_beyond_the_slots_is_refused(decided: Decided) -> None:
    """With 429 and when to come back; it is answered before, and once a slot is free again."""
    api = decided.zone.api
    asked = {
        "application": decided.application["identifier"],
        "resource": decided.resource["identifier"],
        "user": "nobody@acme.example",
    }
    path = decided.zone.path("/explain")
    assert api("POST", path, asked).status_code == 200
    with ExitStack() as under_way:
        for number in range(EXPLANATIONS_OF_ORGANIZATION):
            other = replace(operator(api.organization_id), id=f"other-{number}")
            under_way.enter_context(explanation_slot(api.server.services, other))
        refused = api("POST", path, asked)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limit_exceeded")
    assert int(refused.headers["retry-after"]) > 0
    assert api("POST", path, asked).status_code == 200


@pytest.fixture
def of_users(api: Api) -> tuple[Zone, list[User]]:
    """A zone with a record of each of five users, of whom the last one is deleted."""
    zone = api.zone()
    users = [zone.user(f"user-{number}@acme.example") for number in range(5)]

    async def add(services: Services) -> None:
        now = services.clock()
        events = [
            TokenEvent(new_id(), each.organization_id, zone.id, now, "token", "issued", user_id=each.id)
            for each in users
        ]
        async with services.database.transaction() as conn:
            await token_events.add(conn, events)

    api.server.call(add)
    api.ok("DELETE", zone.path(f"/users/{users[-1].id}"))
    return zone, users


def test_a_record_has_the_address_of_its_user(api: Api, of_users: tuple[Zone, list[User]]) -> None:
    """Beside the identifier and the id; of a user who is deleted, the id alone."""
    zone, users = of_users

    told = api.ok("GET", zone.path("/decisions"))["items"]

    found = {each["user_id"]: (each["user"], each["user_email"]) for each in told}
    *there, gone = users
    assert found == {each.id: (each.identifier, each.email) for each in there} | {gone.id: (None, None)}
    (selected,) = api.ok("GET", zone.path("/decisions?" + query(**{"filter[user]": there[0].email})))["items"]
    assert selected["user_id"] == there[0].id


def test_addresses_are_for_those_who_may_read_users(
    api: Api, of_users: tuple[Zone, list[User]], without_users: None
) -> None:
    """Who lists decisions, and may not read users, sees identifiers alone."""
    zone, users = of_users

    told = api.ok("GET", zone.path("/decisions"))["items"]

    assert {each["user_email"] for each in told} == {None}
    assert {each["user"] for each in told} == {each.identifier for each in users[:-1]} | {None}


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_only_who_may_read_users_selects_by_their_address(
    api: Api, of_users: tuple[Zone, list[User]], request: pytest.FixtureRequest, known: bool
) -> None:
    """Otherwise the answer would tell whether somebody has that address."""
    zone, users = of_users
    by_id = zone.path("/decisions?" + query(**{"filter[user_id]": users[0].id}))
    by_address = "/decisions?" + query(**{"filter[user]": users[0].email if known else "eve@acme.example"})
    assert api.ok("GET", zone.path("/decisions?" + query(**{"filter[user]": users[0].email})))["items"]
    request.getfixturevalue("without_users")

    assert api.ok("GET", by_id)["items"]
    assert api.refused(404, "GET", zone.path(by_address))["message"] == "`users` is not visible to the caller"


@pytest.fixture
def without_users(of_users: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No role may read users."""
    with _nobody_may(monkeypatch, "users"):
        yield


@pytest.fixture
def without_explanations(decided: Decided, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No role may have exchanges explained."""
    with _nobody_may(monkeypatch, "explanations"):
        yield


@contextmanager
def _nobody_may(monkeypatch: pytest.MonkeyPatch, operations: str) -> Iterator[None]:
    """Within the block no role has a permission for these."""
    with monkeypatch.context() as patched:
        patched.setitem(permissions.TABLE, operations, {})
        _forget_roles()
        yield
    _forget_roles()


def _forget_roles() -> None:
    for each in (permissions._verbs, permissions.sees, permissions.allows):
        each.cache_clear()


def test_users_are_read_at_once(api: Api, of_users: tuple[Zone, list[User]]) -> None:
    """As many statements for a page of five records as for a page of one."""
    zone, _ = of_users
    counts = [_statements(api, zone.path(f"/decisions?limit={limit}")) for limit in (1, 5)]

    assert counts[0] == counts[1] > 0


def _statements(api: Api, path: str) -> int:
    """How many statements the server sends for a request that has been made before."""
    api.ok("GET", path)
    seen: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        api.ok("GET", path)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    return sum("FROM users" in each or "FROM token_events" in each for each in seen)


def test_pages_without_a_find_lead_to_what_is_found(
    decided: Decided, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By cursors, forwards and back: what a filter selects is searched for in parts."""
    monkeypatch.setattr(token_events, "SEARCHED", 1)
    wanted = {"filter[resource_id]": decided.resource["id"], "until": decided.list()[0]["at"]}
    oldest = {"filter[outcome]": "issued", "since": decided.list()[1]["at"]}

    def pages(wanted: dict[str, str]) -> list[dict[str, Any]]:
        found = [decided.page(**wanted)]
        while (info := found[-1]["page_info"])["has_next_page"]:
            found.append(decided.page(**wanted, after=info["end_cursor"]))
        return found

    assert [page["items"] for page in pages(wanted)] == [[], []]
    last = pages(oldest)[-1]
    back = decided.page(**oldest, before=last["page_info"]["start_cursor"])
    assert [each["request_id"] for each in back["items"]] == [decided.requests[2]]

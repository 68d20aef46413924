"""Whatever hands do to managed objects, in any order: each edit shows in `drift`, and an apply ends it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.reconciler.real.company import Company
from tests.reconciler.real.test_drift import (
    adds_a_member,
    drops_the_dependency,
    gives_the_role,
    lets_a_list_by_hand_decide,
    lets_a_text_by_hand_decide,
    makes_a_credential,
    overwrites_the_secret,
    takes_the_role_away,
)

TEXT = st.text("xyz ", min_size=1, max_size=8).map(lambda text: f"hand {text}".strip())


@dataclass(frozen=True)
class Hand:
    """One edit.

    Attributes:
        of: what it touches; no two edits of one example touch the same.
        shows: where in the drift it has to be: the list, the kind, the name, and the member if it is one.
    """

    of: frozenset[str]
    do: Callable[[Company], Any]
    shows: tuple[str, str, str, str | None]


def edit(of: str, do: Callable[[Company], Any], *shows: str) -> st.SearchStrategy[Hand]:
    """One edit that is always the same."""
    where, kind, name, *member = shows
    return st.just(Hand(frozenset(of.split()), do, (where, kind, name, member[0] if member else None)))


def write(of: str, kind: str, name: str, collection: str, member: str, values: Any, **at: str) -> Any:
    """An edit that gives a member one of these values."""

    def made(value: Any) -> Hand:
        def do(company: Company) -> None:
            company.send_json("PATCH", company.path(collection, **at), {member: value})

        return Hand(frozenset({of}), do, ("drift", kind, name, member))

    return values.map(made)


def delete(of: str, kind: str, name: str, collection: str, **at: str) -> st.SearchStrategy[Hand]:
    """An edit that deletes."""
    return edit(
        of, lambda company: company.send("DELETE", company.path(collection, **at)), "deleted", kind, name
    )


PAYROLL = {"identifier": "https://payroll.example"}
CORP = {"identifier": "https://corp.example"}
SCOPES = st.lists(st.sampled_from(["read", "all", "admin"]), unique=True, max_size=3)
EDITS: tuple[st.SearchStrategy[Hand], ...] = (
    write("staff-name", "Group", "staff", "groups", "name", TEXT, identifier="staff"),
    write("agent-name", "Application", "agent", "applications", "name", TEXT, identifier="agent"),
    write("agent-about", "Application", "agent", "applications", "description", TEXT, identifier="agent"),
    write("scopes", "Resource", "payroll", "resources", "scopes", SCOPES, **PAYROLL),
    write("corp", "Provider", "corp", "providers", "name", TEXT, **CORP),
    write(
        "auditor",
        "Role",
        "auditor",
        "roles",
        "description",
        TEXT,
        identifier="auditor",
        owner_type="customer",
    ),
    edit("staff-members", adds_a_member, "drift", "Group", "staff", "members"),
    edit("corp", overwrites_the_secret, "drift", "Provider", "corp", "client_secret"),
    edit("dependencies", drops_the_dependency, "drift", "Application", "agent", "dependencies"),
    edit("policies", lets_a_text_by_hand_decide, "drift", "Policy", "reading", "cedar"),
    edit("policies", lets_a_list_by_hand_decide, "drift", "PolicySet", "main", "policies"),
    edit("grant", takes_the_role_away, "deleted", "RoleAssignment", "staff-audits"),
    edit("contractors", gives_the_role, "attached", "RoleAssignment", "Role/auditor -> Group/contractors"),
    edit("mine", makes_a_credential, "attached", "ApplicationCredential", "mine"),
    delete("contractors", "Group", "contractors", "groups", identifier="contractors"),
    delete("corp", "Provider", "corp", "providers", **CORP),
    delete("scopes dependencies", "Resource", "payroll", "resources", **PAYROLL),
    delete(
        "agent", "ApplicationCredential", "agent-public", "application-credentials", identifier="agent-public"
    ),
)


@st.composite
def hands(draw: st.DrawFn) -> list[Hand]:
    """Some edits of different things, in any order."""
    found: list[Hand] = []
    touched: set[str] = set()
    for one in draw(st.lists(st.one_of(*EDITS), min_size=1, max_size=6)):
        if touched.isdisjoint(one.of):
            touched |= one.of
            found.append(one)
    return found


def is_shown(told: Mapping[str, Any], shows: tuple[str, str, str, str | None]) -> bool:
    """Tell whether the drift has that."""
    where, kind, name, member = shows
    for each in told[where]:
        if (each["kind"], each["name"]) == (kind, name):
            return member is None or member in {change["field"] for change in each["changes"]}
    return False


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(done=hands())
def test_each_edit_of_a_managed_thing_shows(new_company: Callable[[], Company], done: list[Hand]) -> None:
    """However many there are: each is in the drift, with who did it; one apply undoes what it can."""
    company = new_company()
    for one in done:
        one.do(company)
    told = company.drift_json()
    hidden = [one.shows for one in done if not is_shown(told, one.shows)]
    assert not hidden, told
    assert all(each["write"]["actor"] for each in [*told["drift"], *told["deleted"], *told["attached"]])

    company.apply("--consent", "deletes=0")
    left = company.drift_json()
    assert (left["drift"], left["deleted"]) == ([], [])
    assert [each["name"] for each in left["attached"]] == [each["name"] for each in told["attached"]]

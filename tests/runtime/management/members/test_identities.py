"""The list of identities: users and invitations together."""

import pytest
from sqlalchemy import event
from tests.runtime.management.conftest import Api, caller, query
from tests.runtime.management.members.inviting import accept, expire, token_of

from runtime.services.container import Services
from runtime.services.management.organizations import organizations


@pytest.fixture
def mine(api: Api) -> Api:
    """An organization without anybody."""
    made, key = api.server.call(
        lambda services: organizations.create_organization(services, api.named("identities"))
    )
    return caller(api.server, key, made.id)


def listed(api: Api, **asked: str) -> dict:  # type: ignore[type-arg]
    return api.ok("GET", f"/organizations/{api.organization_id}/identities?{query(**asked)}")  # type: ignore[no-any-return]


def test_users_and_invitations_are_told_alike(mine: Api) -> None:
    """Each with its kind, its source and where it stands, the four states of an invitation among them."""
    person = mine.person("org_viewer")
    emails = {state: f"{state}@acme.example" for state in ("pending", "revoked", "expired", "accepted")}
    invited = {state: mine.invite(email, "org_admin") for state, email in emails.items()}
    mine.ok("DELETE", f"/organizations/{mine.organization_id}/invitations/{invited['revoked']['id']}")
    expire(mine, invited["expired"]["id"])
    accepted = accept(mine, token_of(mine, emails["accepted"])).json()["user_id"]

    page = listed(mine)
    told = {one["id"]: one for one in page["items"]}
    issuer = mine.home_zone().body["protocols"]["oauth2"]["issuer"]
    assert {state: told[one["id"]]["status"] for state, one in invited.items()} == {
        state: state for state in invited
    }
    pending = invited["pending"]
    assert told[pending["id"]] == {
        "id": pending["id"],
        "created_at": pending["created_at"],
        "email": emails["pending"],
        "role": "org_admin",
        "source": issuer,
        "status": "pending",
        "type": "invitation",
        "updated_at": pending["updated_at"],
    }
    user = told[person.id]
    assert (user["type"], user["status"], user["source"]) == ("user", "active", issuer)
    assert (user["email"], user["role"]) == (person.email, "org_viewer")
    assert told[accepted]["type"] == "user"
    assert len(told) == 6
    assert page["pagination"] == {"after_cursor": None, "before_cursor": None}
    assert (page["page_info"]["has_next_page"], page["page_info"]["has_prev_page"]) == (False, False)


@pytest.fixture
def guests(mine: Api) -> list[str]:
    """Seven invitations, three of them of administrators, and two administrators: the ids of these."""
    for number in range(7):
        mine.invite(f"Guest_{number}@acme.example", "org_admin" if number % 2 else "org_viewer")
    return [mine.person("org_admin").id for _ in range(2)]


@pytest.mark.threat("30f")
def test_a_search_finds_part_of_an_address(mine: Api, guests: list[str]) -> None:
    """In any case, and no character stands for others."""
    assert [one["email"] for one in listed(mine, **{"query[email]": "guest_3"})["items"]] == [
        "Guest_3@acme.example"
    ]
    assert listed(mine, **{"query[email]": "%"})["items"] == []
    assert len(listed(mine, **{"query[email]": "_"})["items"]) == 7


def test_a_role_selects_users_and_invitations(mine: Api, guests: list[str]) -> None:
    """Both are counted."""
    admins = listed(mine, role="org_admin", **{"expand[]": "total_count"})
    assert {one["type"] for one in admins["items"]} == {"user", "invitation"}
    assert admins["pagination"]["total_count"] == len(admins["items"]) == 5


def test_pages_have_everybody_once_whoever_comes_or_goes(mine: Api, guests: list[str]) -> None:
    """Forwards, while one who has been seen goes and one is new; and backwards from the end."""
    everybody = [one["id"] for one in listed(mine)["items"]]
    seen, after = [], {}
    while True:
        page = listed(mine, limit="2", **after)
        seen += [one["id"] for one in page["items"]]
        if len(seen) == 4:  # one that has been seen goes, one is new
            mine.ok("DELETE", f"/organizations/{mine.organization_id}/users/{guests[0]}")
            mine.invite("late@acme.example")
        if page["pagination"]["after_cursor"] is None:
            break
        after = {"after": page["pagination"]["after_cursor"]}
    gone, late = everybody.index(guests[0]), seen[-1]
    assert seen == [*everybody[:gone], *everybody[gone + 1 :], late]

    back, before = [], {"before": page["page_info"]["start_cursor"]}
    while before["before"] is not None:
        page = listed(mine, limit="2", **before)
        back = [one["id"] for one in page["items"]] + back
        before = {"before": page["pagination"]["before_cursor"]}
    assert back == seen[: len(back)]
    assert len(back) >= len(seen) - 2


@pytest.mark.parametrize("wrong", ["role=owner", "after=x", "limit=0", "after=a&before=b"])
def test_what_selects_nothing_known_is_refused(mine: Api, wrong: str) -> None:
    """An unknown role, a cursor of nobody's, no limit, and two directions are 400."""
    mine.refused(400, "GET", f"/organizations/{mine.organization_id}/identities?{wrong}")


def test_a_cursor_of_another_selection_is_refused(mine: Api, guests: list[str]) -> None:
    """A cursor is bound to the filters it was made with."""
    path = f"/organizations/{mine.organization_id}/identities"
    cursor = listed(mine, limit="1")["pagination"]["after_cursor"]
    mine.ok("GET", f"{path}?after={cursor}")
    mine.refused(400, "GET", f"{path}?after={cursor}&role=org_admin")


def test_permissions_are_those_of_what_is_listed(mine: Api) -> None:
    """Of users and of invitations each their own; whoever sees neither sees no list."""
    mine.person()
    mine.invite("ada@acme.example")
    page = mine.with_role("org_member").ok(
        "GET", f"/organizations/{mine.organization_id}/identities?expand=permissions"
    )
    told = {one["type"]: one["permissions"] for one in page["items"]}
    assert told["user"]["organization_users"]["update"] is False
    assert told["invitation"]["invitations"]["list"] is True
    assert "organizations" in page["permissions"]
    mine.with_role("zone_viewer").refused(404, "GET", f"/organizations/{mine.organization_id}/identities")


def test_the_number_of_statements_does_not_grow(mine: Api) -> None:
    """One union, however many there are."""
    counted: list[str] = []

    def count(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        counted.append(statement)

    async def engine(services: Services) -> object:
        return services.database.engine.sync_engine

    watched = mine.server.call(engine)
    numbers = []
    for _ in range(2):
        for _ in range(4):
            mine.invite()
        event.listen(watched, "before_cursor_execute", count)
        listed(mine, **{"expand[]": "permissions"})
        event.remove(watched, "before_cursor_execute", count)
        numbers.append(len([one for one in counted if "organization_users" in one and "UNION" in one]))
        counted.clear()
    assert numbers[0] == numbers[1] == 1

"""Invitations: made by administrators, carried by mail, accepted once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest
from sqlalchemy import text
from tests.runtime.management.conftest import Api
from tests.runtime.management.members.inviting import accept, address, expire, path, stranger, token_of
from tests.runtime.management.signing_in import Someone, someone
from tests.support.mail import delivered

from runtime.services import rate_limits
from runtime.services.container import Services


def test_an_invitation_goes_by_mail(api: Api) -> None:
    """What the interface shows has no token; the mail has it, in the two addresses that lead on."""
    email = address("Ada")
    made = api.ok("POST", path(api), {"email": email, "role": "org_viewer"}, status=201)

    assert made.keys() == {
        "id",
        "created_at",
        "created_by",
        "email",
        "expires_at",
        "organization_id",
        "role",
        "status",
        "updated_at",
    }
    assert (made["email"], made["role"], made["status"]) == (email, "org_viewer", "pending")
    assert made in api.ok("GET", path(api, "?limit=100"))["items"]

    sent = delivered(api.server, email)
    organization = api.ok("GET", f"/organizations/{api.organization_id}")
    assert organization["name"] in sent["Subject"]
    issuer = api.home_zone().body["protocols"]["oauth2"]["issuer"]
    token = token_of(api, email)
    assert f"{issuer}/oauth/sign-up?invitation={token}" in sent.get_content()

    preview = stranger(api, "GET", f"/{token}").json()
    assert preview == {
        "created_by_name": "first key",
        "email": email,
        "expires_at": made["expires_at"],
        "organization_name": organization["name"],
        "role": "org_viewer",
        "status": "pending",
    }


@pytest.mark.threat("27n")
@pytest.mark.parametrize("role", ["org_member", "org_viewer", "service_account"])
def test_only_administrators_invite(api: Api, role: str) -> None:
    """The others are refused, whatever role they would invite somebody with."""
    body = {"email": address(), "role": "org_viewer"}
    api.with_role(role).refused(403, "POST", path(api), body)
    api.ok("POST", path(api), body, status=201)


@pytest.mark.threat("27n")
@pytest.mark.parametrize(
    ("member", "value"),
    [("role", "owner"), ("email", "nobody"), ("email", "a..b@x..y"), ("status", "accepted")],
)
def test_an_invitation_has_a_role_and_an_address(api: Api, member: str, value: str) -> None:
    """What is none of either, and a member that is not the inviter's to say, is 400."""
    body = {"email": address(), "role": "org_viewer"}
    api.refused(400, "POST", path(api), {**body, member: value})


def test_one_invitation_an_address(api: Api) -> None:
    """In whatever case it is written, for who is invited and who is a user; a deleted one is no hindrance."""
    email = address()
    first = api.invite(email)
    api.refused(409, "POST", path(api), {"email": email.upper(), "role": "org_admin"})
    api.ok("DELETE", path(api, f"/{first['id']}"), status=204)
    api.ok("DELETE", path(api, f"/{first['id']}"), status=204)
    second = api.invite(email.upper())
    stands = {one["id"]: one["status"] for one in api.ok("GET", path(api, "?limit=100"))["items"]}
    assert (stands[first["id"]], stands[second["id"]]) == ("revoked", "pending")

    expire(api, second["id"])
    third = api.invite(email)
    stands = {one["id"]: one["status"] for one in api.ok("GET", path(api, "?limit=100"))["items"]}
    assert (stands[second["id"]], stands[third["id"]]) == ("expired", "pending")

    person = api.person()
    api.refused(409, "POST", path(api), {"email": str(person.email).upper(), "role": "org_viewer"})


@dataclass
class Accepted:
    """An invitation that was accepted with the token in its mail, and what the answer said."""

    invitation: dict[str, Any]
    token: str
    told: dict[str, Any]


@pytest.fixture
def accepted(api: Api) -> Accepted:
    email = address()
    made = api.invite(email, "org_viewer")
    token = token_of(api, email)
    done = accept(api, token)
    assert done.status_code == 200, done.text
    return Accepted(made, token, done.json())


def test_who_reads_the_mail_is_a_user(api: Api, accepted: Accepted) -> None:
    """The answer names the organization and the user, who is listed with the role of the invitation."""
    organization = api.ok("GET", f"/organizations/{api.organization_id}")
    user_id = accepted.told["user_id"]
    assert accepted.told == {
        "organization_id": organization["id"],
        "organization_name": organization["name"],
        "success": True,
        "user_id": user_id,
    }
    person = api.ok("GET", f"/organizations/{api.organization_id}/users/{user_id}")
    email = accepted.invitation["email"]
    assert (person["email"], person["role"], person["status"]) == (email, "org_viewer", "active")


def test_an_invitation_is_accepted_once(api: Api, accepted: Accepted) -> None:
    """Its holder sees that it was; accepting again, and inviting who is a user now, is 409."""
    assert stranger(api, "GET", f"/{accepted.token}").json()["status"] == "accepted"
    assert accept(api, accepted.token).status_code == 409
    body = {"email": accepted.invitation["email"], "role": "org_viewer"}
    api.refused(409, "POST", path(api), body)


def test_the_audit_trail_says_who_accepted_an_invitation(api: Api, accepted: Accepted) -> None:
    """The actor is the user that the invitation made."""
    trail = f"/organizations/{api.organization_id}/audit-events"
    events = api.ok("GET", f"{trail}?filter[entity_id]={accepted.invitation['id']}")["items"]
    assert [event["action"] for event in events] == ["invitations.accept", "invitations.create"]
    assert events[0]["actor"] == {"type": "user", "id": accepted.told["user_id"]}
    assert (events[0]["before"]["status"], events[0]["after"]["status"]) == ("pending", "accepted")


def test_deleting_an_accepted_invitation_leaves_the_user(api: Api, accepted: Accepted) -> None:
    """It is revoked then, a second time as well; whom it made a user stays one."""
    for _ in range(2):
        api.ok("DELETE", path(api, f"/{accepted.invitation['id']}"))
        assert stranger(api, "GET", f"/{accepted.token}").json()["status"] == "revoked"
    api.ok("GET", f"/organizations/{api.organization_id}/users/{accepted.told['user_id']}")


@pytest.mark.parametrize("ended", ["expired", "revoked"])
def test_what_has_ended_is_not_accepted(api: Api, ended: str) -> None:
    """Its holder still sees what has become of it."""
    email, good = address(), address()
    made, _ = api.invite(email), api.invite(good)
    if ended == "expired":
        expire(api, made["id"])
    else:
        api.ok("DELETE", path(api, f"/{made['id']}"))

    assert accept(api, token_of(api, good)).status_code == 200
    assert accept(api, token_of(api, email)).status_code == 409
    assert stranger(api, "GET", f"/{token_of(api, email)}").json()["status"] == ended


@pytest.mark.threat("3d")
def test_of_many_who_accept_one_succeeds(api: Api) -> None:
    email = address()
    api.invite(email)
    token = token_of(api, email)
    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(pool.map(lambda _: accept(api, token).status_code, range(8)))

    assert statuses == [200] + [409] * 7
    people = api.ok("GET", f"/organizations/{api.organization_id}/users?limit=100")["items"]
    assert [one["email"] for one in people].count(email) == 1


@pytest.mark.threat("26k")
def test_unknown_tokens_are_alike(api: Api) -> None:
    """Of any form: nothing tells whether one was close; a deleted one is 404 only once its row is gone."""
    email = address()
    api.invite(email)
    token = token_of(api, email)
    assert stranger(api, "GET", f"/{token}").status_code == 200
    answers = set()
    for wrong in (token[:-1] + ("A" if token[-1] != "A" else "B"), "x", "0" * 43, "%00", "a" * 3000):
        for method, rest in (("GET", ""), ("POST", "/accept")):
            response = stranger(api, method, f"/{wrong}{rest}")
            answers.add((response.status_code, response.json()["message"]))
    assert answers == {(404, "there is no such invitation")}


def test_names_do_not_write_the_mail(api: Api) -> None:
    """A name is one line of what a reader sees, and short: no second paragraph, and the mail arrives."""
    organization = f"/organizations/{api.organization_id}"
    name = api.ok("GET", organization)["name"]
    api.ok("PATCH", organization, {"name": f"Acme\u2028\u2028Pay here:\u202e {'now ' * 50}"})
    email = address()
    api.invite(email)
    api.ok("PATCH", organization, {"name": name})
    sent = delivered(api.server, email)
    assert token_of(api, email)
    assert sent["Subject"].startswith("Invitation to Acme Pay here: now now")
    assert len(sent["Subject"]) < 100
    first, *_ = sent.get_content().splitlines()
    assert '"Acme Pay here: now' in first
    assert first.endswith('…" as a member.')


@pytest.mark.threat("31s")
@pytest.mark.usefixtures("one_window")
def test_mail_to_strangers_is_counted(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleting and inviting again is no way to fill somebody's mailbox, nor is asking for many."""
    email = address()
    for _ in range(rate_limits.INVITATIONS_TO_ADDRESS.amount):
        api.ok("DELETE", path(api, f"/{api.invite(email)['id']}"))
    told = api.refused(429, "POST", path(api), {"email": email.upper(), "role": "org_viewer"})
    assert told["code"] == "rate_limit_exceeded"
    api.invite()
    monkeypatch.setattr(rate_limits, "INVITATIONS", replace(rate_limits.INVITATIONS, amount=1))
    api.refused(429, "POST", path(api), {"email": address(), "role": "org_viewer"})


@pytest.mark.threat("32a", "32b", "32e")
def test_the_token_is_in_the_mail_alone(api: Api, capfd: pytest.CaptureFixture[str]) -> None:
    """Not in answers, not in the audit trail, not in clear in the database, not in what is logged."""
    email = address()
    made = api.invite(email)
    token = token_of(api, email)
    accept(api, token)

    async def everything(services: Services) -> str:
        async with services.database.reading() as conn:
            names = (
                "SELECT name FROM sqlite_master WHERE type = 'table'"
                if services.database.dialect == "sqlite"
                else "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            )
            tables = list(await conn.scalars(text(names)))
            rows: list[Any] = []
            for table in tables:
                rows += (await conn.execute(text(f'SELECT * FROM "{table}"'))).all()
        return repr(rows)

    stored = api.server.call(everything)
    assert made["id"] in stored
    assert token not in stored
    captured = capfd.readouterr()
    assert token not in captured.out + captured.err


def _demote(api: Api, inviter: Someone) -> None:
    api.ok("PATCH", inviter.path, {"role": "org_viewer"})


def _disable(api: Api, inviter: Someone) -> None:
    api.ok("PATCH", inviter.path, {"status": "disabled"})


def _disable_at_home(api: Api, inviter: Someone) -> None:
    api.ok("PATCH", api.home_zone().path(f"/users/{inviter.user.zone_user_id}"), {"status": "disabled"})


def _remove(api: Api, inviter: Someone) -> None:
    api.ok("DELETE", inviter.path)


@pytest.mark.threat("27n")
@pytest.mark.parametrize("end", [_demote, _disable, _disable_at_home, _remove])
def test_an_invitation_lasts_no_longer_than_its_inviters_power(
    api: Api, end: Callable[[Api, Someone], None]
) -> None:
    """Who is about to be removed cannot stay by an invitation to themselves, nor by one of their key."""
    inviter = someone(api, "org_admin")
    theirs = inviter.calling()
    _, key = theirs.key()
    assert accept(api, token_of(api, theirs.invite(role="org_admin")["email"])).status_code == 200
    assert accept(api, token_of(api, key.invite(role="org_admin")["email"])).status_code == 200
    made = [theirs.invite(role="org_admin"), key.invite(role="org_admin")]

    end(api, inviter)

    listed = {one["id"]: one["status"] for one in api.ok("GET", path(api, "?limit=100"))["items"]}
    tokens = [token_of(api, one["email"]) for one in made]
    assert {stranger(api, "GET", f"/{token}").json()["status"] for token in tokens} == {"revoked"}
    assert {accept(api, token).status_code for token in tokens} == {409}
    assert {listed[one["id"]] for one in made} == {"revoked"}
    # Nor do they stand in the way of the next one.
    assert api.invite(made[0]["email"])["status"] == "pending"


@pytest.mark.threat("27n")
def test_an_invitation_goes_with_the_key_that_sent_it(api: Api) -> None:
    key_id, key = api.key()
    assert accept(api, token_of(api, key.invite()["email"])).status_code == 200
    made = key.invite()

    api.ok("DELETE", f"/organizations/{api.organization_id}/api-keys/{key_id}")

    assert accept(api, token_of(api, made["email"])).status_code == 409

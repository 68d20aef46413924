"""Objects in a snapshot that no manifest can describe: secrets, members, credentials."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.contract.changes import SnapshotEnd
from runtime.services.management.snapshots import undescribable

CANARY = "canary-of-a-secret-value"


def last_line(api: Api, asked: str = "") -> dict[str, Any]:
    """The end of a snapshot, as the contract has it."""
    answer = api("GET", f"/organizations/{api.organization_id}/snapshot{asked}")
    assert answer.status_code == 200, answer.text
    assert CANARY not in answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    SnapshotEnd.model_validate(lines[-1])
    assert lines[-1]["count"] == len(lines) - 2
    found: dict[str, Any] = lines[-1]
    return found


def told(line: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Id -> what the last line tells of it."""
    return {each["id"]: each for each in line.get("undescribable", ())}


@dataclass(frozen=True)
class Filled:
    """A zone with one of each."""

    zone: Zone
    application: str
    secret: str
    member: str
    person_id: str
    email: str
    account: str
    credential: str


def fill(api: Api) -> Filled:
    """A new zone, with a secret, a member and, beside it, a service account's credential."""
    zone, person = api.zone(), api.person()
    application = zone.make("applications")["id"]
    secret = zone.secret(application, name="upstream", data={"type": "token", "token": CANARY})["id"]
    body = {"organization_user_id": person.id, "role": "zone_manager"}
    member = api.ok("POST", zone.path("/members"), body)["id"]
    accounts = f"/organizations/{api.organization_id}/service-accounts"
    account = api.ok("POST", accounts, {"name": api.named("ci")})["id"]
    credential = api.ok("POST", f"{accounts}/{account}/credentials", {"name": "by hand"})["id"]
    return Filled(zone, application, secret, member, person.id, str(person.email), account, credential)


@pytest.fixture(scope="module")
def filled(api: Api) -> Filled:
    """One for tests that only look at it."""
    return fill(api)


def test_each_is_told_with_who_wrote_it(api: Api, filled: Filled) -> None:
    """Kind, name, zone, what it is of; and the last write, which looking at a secret is not."""
    api.ok("GET", filled.zone.path(f"/secrets/{filled.secret}"))
    found = told(last_line(api, f"?zone={filled.zone.id}"))
    seen = [found[each] for each in (filled.secret, filled.member, filled.credential)]
    changes = [each.pop("last_change") for each in seen]
    assert {(each["action"].rpartition(".")[2], each["actor"]["type"]) for each in changes} == {
        ("create", "api_key")
    }
    here = {"zone_id": filled.zone.id, "zone": filled.zone.body["slug"]}
    nowhere = {"zone_id": None, "zone": None}
    assert seen == [
        {"kind": "Secret", "id": filled.secret, "name": "upstream", "of": filled.application, **here},
        {"kind": "ZoneMember", "id": filled.member, "name": filled.email, "role": "zone_manager", **here},
        {
            "kind": "ServiceAccountCredential",
            "id": filled.credential,
            "name": "by hand",
            "of": filled.account,
            **nowhere,
        },
    ]


def test_only_of_the_zones_that_are_asked_for(api: Api, filled: Filled) -> None:
    """A zone has its own; another organization has none of it."""
    assert {filled.secret, filled.member} <= told(last_line(api, f"?zone={filled.zone.id}")).keys()
    elsewhere = told(last_line(api, f"?zone={api.zone().id}"))
    assert not {filled.secret, filled.member} & elsewhere.keys()


def test_credentials_of_accounts_that_the_owner_manages(api: Api, filled: Filled) -> None:
    """Of another owner's, and of those that nobody manages, it is told nothing."""
    applied = api.apply()
    path = f"/organizations/{api.organization_id}"
    owner = api.ok("GET", f"{path}/changesets/{applied['id']}")["owner"]
    account = applied["operations"][0]["id"]
    made = api.ok("POST", f"{path}/service-accounts/{account}/credentials", {"name": "by hand"})["id"]
    kind = "ServiceAccountCredential"
    mine = [each["id"] for each in last_line(api, f"?owner={owner}")["undescribable"] if each["kind"] == kind]
    assert mine == [made]
    assert not [each for each in last_line(api, "?owner=nobody")["undescribable"] if each["kind"] == kind]
    assert {made, filled.credential} <= told(last_line(api)).keys()


@pytest.mark.parametrize(
    ("role", "hidden", "writers"),
    [
        ("org_admin", set(), True),
        ("org_member", set(), False),
        ("org_viewer", set(), False),
        ("zone_manager", {"ServiceAccountCredential"}, False),
        ("zone_viewer", {"ServiceAccountCredential"}, False),
        ("service_account", set(), True),
    ],
)
def test_nothing_of_what_the_role_may_not_list(
    api: Api, filled: Filled, role: str, hidden: set[str], writers: bool
) -> None:
    """Neither kinds, nor addresses of people, nor who wrote."""
    asked = f"?zone={filled.zone.id}"
    everything = {each["kind"] for each in last_line(api, asked)["undescribable"]}
    seen = last_line(api.with_role(role), asked)["undescribable"]
    assert everything - {each["kind"] for each in seen} == hidden
    assert all("last_change" in each for each in seen) is writers
    assert any("last_change" in each for each in seen) is writers
    (member,) = [each for each in seen if each["kind"] == "ZoneMember"]
    assert member["name"] == (filled.person_id if hidden else filled.email)


def test_a_credential_bound_to_a_zone_hears_of_no_other(api: Api, filled: Filled) -> None:
    """Not of the organization's, either."""
    other = fill(api)
    _, bound = api.key("org_viewer", zones=[filled.zone.id])
    assert told(last_line(bound)).keys() == {filled.secret, filled.member}
    assert {other.secret, other.member, other.credential} <= told(last_line(api)).keys()


def test_every_write_makes_another_snapshot(api: Api) -> None:
    """Who keeps an older one is sent the whole again."""
    filled = fill(api)
    path = f"/organizations/{api.organization_id}/snapshot?zone={filled.zone.id}"
    etag = api("GET", path).headers["etag"]
    assert api("GET", path, headers={"If-None-Match": etag}).status_code == 304
    api.ok("DELETE", filled.zone.path(f"/secrets/{filled.secret}"))
    assert filled.secret not in told(last_line(api, f"?zone={filled.zone.id}"))
    assert api("GET", path, headers={"If-None-Match": etag}).status_code == 200


def test_of_too_many_the_first_of_each_zone(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full zone leaves room for another, and the line says of which kinds there is more."""
    full, other = fill(api), fill(api)
    for n in range(3):
        full.zone.secret(full.application, name=f"more {n}")
    asked = f"?zone={full.zone.id}&zone={other.zone.id}"
    whole = last_line(api, asked)
    assert "undescribable_truncated" not in whole
    assert len([each for each in whole["undescribable"] if each["kind"] == "Secret"]) == 5
    monkeypatch.setattr(undescribable, "AT_MOST", 2)
    cut = last_line(api, asked)
    assert "Secret" in cut["undescribable_truncated"]
    assert "ZoneMember" not in cut["undescribable_truncated"]
    assert {each["id"] for each in cut["undescribable"] if each["kind"] == "Secret"} == {
        full.secret,
        other.secret,
    }

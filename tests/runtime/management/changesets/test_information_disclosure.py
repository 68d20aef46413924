"""Refusals of changesets disclose nothing that their sender could not read anyway."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from sqlalchemy import event
from tests.runtime.management.changesets.test_changesets_http import changeset
from tests.runtime.management.conftest import Api
from tests.support.applying import adopt, app, create, on, update

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import Verb
from runtime.services.management.access.permissions import ROLES, TABLE

OWNER = "acme/identity"
BLIND = [role for role in ROLES if not TABLE["service_accounts"][role]]
APPLYING = [role for role in ROLES if Verb.CREATE in TABLE["changesets"][role]]


def send(api: Api, sender: Api, *operations: Any, dry_run: bool = True, **more: Any) -> httpx.Response:
    return post(sender, {**changeset(api, *operations), **more}, dry_run=dry_run)


def post(sender: Api, body: Any, *, dry_run: bool = True) -> httpx.Response:
    query = "?dry_run=true" if dry_run else ""
    return sender("POST", f"/organizations/{sender.organization_id}/changesets{query}", body)


def told(response: httpx.Response, names: Mapping[str, str]) -> tuple[int, str]:
    """What an answer says; *names* are those that its request made up, and what to read in their place."""
    told = {name: value for name, value in response.json().items() if name not in ("request_id", "timestamp")}
    text = json.dumps(told, sort_keys=True)
    for value, name in names.items():
        text = text.replace(value, name)
    return response.status_code, text


@dataclass(frozen=True)
class Accounts:
    """Service accounts, by what is known of them; `nowhere` is the id and the name of none."""

    ids: dict[str, str]
    base: int  # the revision before any of them


@pytest.fixture(scope="module")
def senders(api: Api) -> dict[str, Api]:
    return {role: api.with_role(role) for role in ROLES}


@pytest.fixture(scope="module")
def accounts(api: Api) -> Accounts:
    base = changeset(api)["base_revision"]
    made = {name: f"{name}-{new_id()[:6]}" for name in ("own", "foreign", "protected", "free")}
    ids: dict[str, str] = {}
    for name, called in made.items():
        step = create("ServiceAccount", called, name=called)
        owner = "somebody/else" if name == "foreign" else OWNER
        if name == "free":
            path = f"/organizations/{api.organization_id}/service-accounts"
            ids[called] = api.ok("POST", path, {"name": called})["id"]
            continue
        response = send(api, api, {**step, "protect": name == "protected"}, dry_run=False, owner=owner)
        assert response.status_code == 200, response.text
        ids[called] = response.json()["operations"][0]["id"]
    return Accounts(ids, base)


Make = Callable[[str, str], dict[str, Any]]
OPERATIONS: dict[str, Make] = {
    "create": lambda _, name: create("ServiceAccount", name, name=name),
    "update": lambda id_, name: update("ServiceAccount", id_, name, name="other"),
    "adopt": lambda id_, name: adopt("ServiceAccount", id_, name, name="other"),
    "rename": lambda id_, name: on("rename", "ServiceAccount", id_, name=f"{name}-2"),
    "release": lambda id_, name: on("release", "ServiceAccount", id_),
    "delete": lambda id_, name: on("delete", "ServiceAccount", id_),
}


@pytest.mark.threat("42a", "42b", "42c", "42f")
@pytest.mark.parametrize("stale", [False, True], ids=["fresh", "stale"])
@pytest.mark.parametrize("dry_run", [True, False], ids=["dry-run", "apply"])
@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("role", BLIND)
def test_what_is_not_seen_is_not_there(
    api: Api, senders: dict[str, Api], accounts: Accounts, role: str, op: str, dry_run: bool, stale: bool
) -> None:
    """Whoever owns it, whatever it is called, protected or changed since: as if there were no such thing."""
    more = {"base_revision": accounts.base} if stale else {}

    def answer(sender: Api, id_: str, name: str) -> tuple[int, str]:
        response = send(api, sender, OPERATIONS[op](id_, name), dry_run=dry_run, **more)
        return told(response, {id_: "ID", name: "NAME"})

    absent = answer(senders[role], new_id(), "nobody")
    assert {answer(senders[role], id_, name) for name, id_ in accounts.ids.items()} == {absent}
    assert absent[0] in (403, 404)
    # Those who see them are told more.
    if dry_run:
        seen = {answer(api, id_, name) for name, id_ in accounts.ids.items()}
        assert answer(api, new_id(), "nobody") not in seen
        assert len(seen) > 1 or stale or op == "create"  # of a name that is taken no more is said


@pytest.mark.threat("42d")
@pytest.mark.parametrize("op", OPERATIONS)
def test_nothing_is_looked_up_of_what_is_not_seen(
    api: Api, senders: dict[str, Api], accounts: Accounts, op: str
) -> None:
    """So the time that a refusal takes depends on nothing that is there: no statement is sent."""
    counted: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if "service_accounts" in statement or "ownerships" in statement:
            counted.append(statement)

    database = api.server.services.database
    engines = [database.engine.sync_engine, database._dry_runs._engine.sync_engine]
    name, id_ = next(iter(accounts.ids.items()))
    body, counts = changeset(api, OPERATIONS[op](id_, name)), []
    for sender in (senders[BLIND[0]], api):
        for engine in engines:
            event.listen(engine, "before_cursor_execute", note)
        try:
            post(sender, body)
        finally:
            for engine in engines:
                event.remove(engine, "before_cursor_execute", note)
        counts.append(len(counted))
        counted.clear()
    assert counts[0] == 0 < counts[1]


@pytest.mark.threat("42b")
@pytest.mark.parametrize("role", ROLES)
def test_who_changed_it_is_told_to_readers_of_the_audit_log(
    api: Api, senders: dict[str, Api], role: str
) -> None:
    """A base that is no longer true is a 412 for all; actor, time and action stand in the audit log."""
    zone = api.zone()
    made = zone.make("applications")
    taken = on("adopt", "Application", made["id"], name="agent", spec={}, zone={"id": zone.id})
    assert send(api, api, taken, dry_run=False).status_code == 200
    base = changeset(api)["base_revision"]
    step = update("Application", made["id"], "agent", zone.id, description="y")
    sender = senders[role]
    assert send(api, sender, step).status_code == 200

    actor = api.with_role("org_admin")
    actor.ok("PATCH", zone.path(f"/applications/{made['id']}"), {"description": "x"})
    answers = [send(api, sender, step, base_revision=base)]
    removal = on("delete", "Zone", zone.id)
    owned = on("adopt", "Zone", zone.id, name=zone.id, spec={})
    assert send(api, api, owned, dry_run=False).status_code == 200
    answers.append(send(api, sender, removal, base_revision=base))
    if role in APPLYING:
        answers.append(send(api, sender, step, base_revision=base, dry_run=False))
    for answer in answers:
        assert answer.status_code == 412, answer.text
        messages = [answer.json()["message"], *(one["message"] for one in answer.json()["details"])]
        if TABLE["audit_events"][role]:
            assert all("was changed by api_key" in one for one in messages)
        else:
            assert all(one.endswith("has changed") for one in messages)
            assert not [
                secret
                for secret in ("api_key", "applications.update", "zones.adopt", "2026-", "changeset `")
                if secret in " ".join(messages)
            ]
    assert answers[0].json()["details"][0]["field"] == "operations[0]"


@pytest.mark.threat("42a", "42b", "42c", "42f")
def test_other_organizations_names_are_free(api: Api, other: Api) -> None:
    """Owner, plan, names and identifiers of another organization are as free as if it were not there."""
    name, digest = f"zone-{new_id()[:6]}", f"sha256:{new_id()}"
    place = {"local_id": "z"}
    steps = [
        {**create("Zone", name, name=name), "local_id": "z"},
        app("agent", place),
        create("ServiceAccount", name, name=name),
    ]
    first = send(api, api, *steps, dry_run=False, plan_digest=digest)
    assert first.status_code == 200
    assert send(api, api, *steps[:-1], dry_run=False, plan_digest=digest).status_code == 409

    theirs = first.json()["operations"]
    for done, make in (
        (theirs[0], lambda id_: on("delete", "Zone", id_)),
        (theirs[1], lambda id_: update("Application", id_, "agent", theirs[0]["id"], name="x")),
        (theirs[1], lambda id_: adopt("Application", id_, "agent", None, name="x")),
        (theirs[2], lambda id_: on("release", "ServiceAccount", id_)),
    ):
        assert send(api, api, make(done["id"])).status_code in (200, 409)
        strange, unknown = (
            told(send(other, other, make(id_), base_revision=0), {id_: "ID"})
            for id_ in (done["id"], new_id())
        )
        assert strange == unknown
        assert strange[0] == 404
    assert send(other, other, *steps, dry_run=False, plan_digest=digest).status_code == 200


@pytest.mark.parametrize("where", ["ServiceAccount", "Zone"])
def test_pointers_into_no_zone(api: Api, where: str) -> None:
    """A pointer to what is in a zone stands in a zone: anywhere else it is a mistake, not a failure."""
    pointer = {"external": "service-sts", "kind": "Provider"}
    response = send(api, api, create(where, "x", name=pointer))
    assert response.status_code == 400
    assert "no zone" in response.json()["message"]

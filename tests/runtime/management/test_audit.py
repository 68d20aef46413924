"""The audit trail: who reads it, in which order and selection, and what proving it finds."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.runtime.management.conftest import Api, Zone, caller, query

from runtime.domain.errors import NotFound
from runtime.services import retention
from runtime.services.container import Services
from runtime.services.management import audit
from runtime.services.management.audit import ChainVerification
from runtime.services.management.audit_chain import record_hash
from runtime.services.management.organizations import organizations
from runtime.storage.sql import audit as audit_storage
from runtime.storage.sql import organization_revision
from runtime.storage.sql.audit import AuditAnchor
from runtime.storage.sql.organization_tables import GUARDS


def trail(api: Api) -> str:
    return f"/organizations/{api.organization_id}/audit-events"


def events(api: Api, asked: str = "", **filters: Any) -> list[dict[str, Any]]:
    selected = query(**{f"filter[{name}]": value for name, value in filters.items()})
    items: list[dict[str, Any]] = api.ok("GET", f"{trail(api)}?limit=100&{selected}&{asked}")["items"]
    return items


@pytest.fixture(scope="module")
def changed(api: Api) -> Zone:
    """A zone of its own in which an application was made, renamed, and given a password."""
    zone = api.zone()
    made = zone.make("applications", name="Before")
    api.ok("PATCH", zone.path(f"/applications/{made['id']}"), {"name": "After"})
    zone.body["application_id"] = made["id"]
    zone.body["password"] = zone.password(made["id"])["password"]
    return zone


class TestList:
    def test_tells_who_changed_what(self, api: Api, changed: Zone) -> None:
        """A record has the actor, the operation, and the entity before and after."""
        newest, oldest = events(api, entity_id=changed.body["application_id"])

        assert (newest["action"], oldest["action"]) == ("applications.update", "applications.create")
        assert newest["kind"] == "Application"
        assert newest["zone_id"] == changed.id
        assert newest["actor"] == {"type": "api_key", "id": api.server.api_key.split("_")[1]}
        assert (newest["before"]["name"], newest["after"]["name"]) == ("Before", "After")
        assert oldest["before"] is None
        assert newest["changeset_id"] is None
        assert newest["request_id"]

    def test_a_record_proves_itself(self, api: Api, changed: Zone) -> None:
        """What is told of a record is all that its hash is over: a reader can check it alone."""
        record = events(api, entity_id=changed.body["application_id"])[0]
        actor = record.pop("actor")

        assert record_hash({**record, "actor_type": actor["type"], "actor_id": actor["id"]}) == record["hash"]

    def test_newest_first_without_a_gap(self, api: Api, changed: Zone) -> None:
        """The sequence numbers go down by one, and every record follows from the next in the list."""
        found = events(api)

        assert [one["sequence"] for one in found] == [found[0]["sequence"] - n for n in range(len(found))]
        assert not [
            (newer, older) for newer, older in pairwise(found) if newer["previous_hash"] != older["hash"]
        ]

    def test_forwards_and_back(self, api: Api, changed: Zone) -> None:
        """Pages do not overlap, their ends are told, and new records do not shift them."""
        asked = f"{trail(api)}?limit=2&{query(**{'filter[zone_id]': changed.id})}"
        everything = events(api, zone_id=changed.id)
        first = api.ok("GET", asked)
        changed.make("roles")
        second = api.ok("GET", f"{asked}&after={first['page_info']['end_cursor']}")
        back = api.ok("GET", f"{asked}&before={second['page_info']['start_cursor']}")

        assert first["items"] + second["items"] == everything[:4]
        assert first["page_info"]["has_next_page"] is True
        assert first["page_info"]["has_prev_page"] is False
        assert second["page_info"]["has_prev_page"] is True
        assert back["items"] == first["items"]
        assert back["page_info"]["has_prev_page"] is True

    def test_a_cursor_of_another_selection_is_refused(self, api: Api, changed: Zone) -> None:
        """Cursors are bound to what was asked."""
        cursor = api.ok("GET", f"{trail(api)}?limit=1")["page_info"]["end_cursor"]
        api.ok("GET", f"{trail(api)}?limit=1&after={cursor}")
        told = api.refused(400, "GET", f"{trail(api)}?filter[kind]=Zone&after={cursor}")
        assert told["details"][0]["field"] == "after"

    @pytest.mark.parametrize("name", ["kind", "entity_id", "zone_id", "actor_id", "action", "changeset_id"])
    def test_a_filter_selects(self, api: Api, changed: Zone, name: str) -> None:
        """Each filter leaves exactly the records that have the value, and nothing when none has."""
        key = {"actor_id": api.server.api_key.split("_")[1], "changeset_id": "none", "kind": "Application"}
        known = {"zone_id": changed.id, "entity_id": changed.id, "action": "zones.create", **key}
        found = events(api, **{name: known[name]})

        values = {one["actor"]["id"] if name == "actor_id" else one[name] for one in found}
        assert values == ({known[name]} if name != "changeset_id" else set())
        assert events(api, **{name: "nothing"}) == []

    def test_a_repeated_filter_means_or_and_two_filters_mean_and(self, api: Api, changed: Zone) -> None:
        """Values of one filter widen, another filter narrows."""
        both = events(api, "filter[kind]=Application&filter[kind]=Zone", zone_id=changed.id)

        assert {one["kind"] for one in both} == {"Application", "Zone"}

    def test_since_counts_and_until_does_not(self, api: Api, changed: Zone) -> None:
        """A span has its first moment and not its last, in any offset."""
        newest, oldest = events(api, entity_id=changed.body["application_id"])
        within = query(since=oldest["at"], until=newest["at"])
        shifted = query(since=newest["at"].replace("Z", "-00:00"))

        application = changed.body["application_id"]
        assert events(api, within, entity_id=application) == [oldest]
        assert events(api, shifted, entity_id=application) == [newest]

    @pytest.mark.parametrize(
        "time",
        [
            "",
            "now",
            "1700000000",
            "2026-01-31",
            "2026-01-31T08:00:00",
            "2026-02-30T08:00:00Z",
            "0001-01-01T00:00:00+23:59",
            "9999-12-31T23:59:59-23:59",
        ],
    )
    @pytest.mark.parametrize("name", ["since", "until"])
    def test_what_is_no_time_is_refused(self, api: Api, name: str, time: str) -> None:
        """Only RFC 3339 times with their offset, and only those that a calendar has."""
        told = api.refused(400, "GET", f"{trail(api)}?{query(**{name: time})}")
        assert told["details"][0]["field"] == name

    def test_an_unknown_filter_is_refused(self, api: Api) -> None:
        """A selection that is not made would show more than was asked for."""
        api.ok("GET", f"{trail(api)}?filter[entity_id]=x")
        told = api.refused(400, "GET", f"{trail(api)}?filter[request_id]=x")
        assert "filter[request_id]" in told["message"]

    def test_holds_no_secret(self, api: Api, changed: Zone) -> None:
        """What was shown once to the one who made it is not here for those who read afterwards."""
        found = events(api, zone_id=changed.id)

        assert "application_credentials.create" in {one["action"] for one in found}
        assert changed.body["password"] not in str(found)

    @pytest.mark.parametrize("role", ["org_member", "org_viewer", "zone_manager", "zone_viewer"])
    def test_is_not_there_for_others(self, api: Api, role: str) -> None:
        """Administrators and service accounts read it; for anybody else there is no such thing."""
        api.ok("GET", trail(api))
        api.with_role("service_account").ok("GET", trail(api))
        api.with_role(role).refused(404, "GET", trail(api))

    @pytest.mark.threat("26i")
    def test_shows_ones_own(self, api: Api, other: Api, changed: Zone) -> None:
        """No filter reaches into another organization's trail."""
        theirs = other.zone()
        assert events(other, zone_id=theirs.id)
        assert events(api, zone_id=theirs.id) == []
        assert events(other, entity_id=changed.body["application_id"]) == []


@pytest.fixture
def company(api: Api) -> Api:
    """A new organization with a history of its own."""
    made, key = api.server.call(lambda services: organizations.create_organization(services, api.named()))
    company = caller(api.server, key, made.id)
    company.zone()
    return company


def verify(api: Api, organization: str | None = None) -> list[ChainVerification]:
    async def prove(services: Services) -> list[ChainVerification]:
        return [verdict async for verdict in audit.verify(services, organization or api.organization_id)]

    return api.server.call(prove)


def tamper(api: Api, statement: str, **values: Any) -> None:
    """Change the database as somebody would who owns it: the guards are dropped first."""

    async def work(services: Services) -> None:
        sqlite = services.database.dialect == "sqlite"
        before = [f"DROP TRIGGER audit_events_no_{verb}" for verb in ("update", "delete")]
        after = list(GUARDS["sqlite"])
        if not sqlite:
            before = ["ALTER TABLE audit_events DISABLE TRIGGER USER"]
            after = ["ALTER TABLE audit_events ENABLE TRIGGER USER"]
        async with services.database.transaction() as conn:
            for one in before:
                await conn.execute(text(one))
            done = await conn.execute(text(statement), {"org": api.organization_id, **values})
            assert done.rowcount
            for one in after:
                await conn.execute(text(one))

    api.server.call(work)


_RECORD = "WHERE organization_id = :org AND sequence = 3"
_COPY = (
    "INSERT INTO audit_events SELECT organization_id, {sequence}, id, at, actor_type, actor_id, action, kind,"
    f' entity_id, zone_id, changeset_id, request_id, "before", "after", previous_hash, hash'
    f" FROM audit_events {_RECORD}"
)
_TAMPERED: dict[str, tuple[str, Callable[[int], int], str]] = {
    "the action": (
        f"UPDATE audit_events SET action = 'x' {_RECORD}",
        lambda last: 3,
        "does not match its hash",
    ),
    "the actor": (
        f"UPDATE audit_events SET actor_id = 'x' {_RECORD}",
        lambda last: 3,
        "does not match its hash",
    ),
    "what was written": (
        f"""UPDATE audit_events SET "after" = '{{"name":"x"}}' {_RECORD}""",
        lambda last: 3,
        "does not match its hash",
    ),
    "the hash": (f"UPDATE audit_events SET hash = 'x' {_RECORD}", lambda last: 3, "does not match its hash"),
    "the link": (f"UPDATE audit_events SET previous_hash = 'x' {_RECORD}", lambda last: 3, "follow"),
    "a record gone": (f"DELETE FROM audit_events {_RECORD}", lambda last: 3, "missing"),
    "the first gone": (
        "DELETE FROM audit_events WHERE organization_id = :org AND sequence = 1",
        lambda last: 1,
        "missing",
    ),
    "the end gone": (
        "DELETE FROM audit_events WHERE organization_id = :org AND sequence >= 3",
        lambda last: 3,
        "the head has a higher sequence number",
    ),
    "everything gone": (
        "DELETE FROM audit_events WHERE organization_id = :org",
        lambda last: 1,
        "the head has a higher sequence number",
    ),
    "a record far behind": (_COPY.format(sequence=5000), lambda last: last + 1, "missing"),
    "a record in front": (_COPY.format(sequence=0), lambda last: 0, "sequence number below 1"),
    "the head's number": (
        "UPDATE organization_heads SET audit_sequence = 2 WHERE organization_id = :org",
        lambda last: 3,
        "higher sequence number than the head",
    ),
    "the head's hash": (
        "UPDATE organization_heads SET audit_hash = 'x' WHERE organization_id = :org",
        lambda last: last,
        "does not match the hash of the last record",
    ),
    "the head gone": (
        "DELETE FROM organization_heads WHERE organization_id = :org",
        lambda last: last,
        "the audit chain has no head",
    ),
}


class TestVerify:
    def test_what_was_only_appended_holds(self, company: Api) -> None:
        """The verdict has the number of records and the hash of the last."""
        newest = events(company)[0]
        assert verify(company) == [
            ChainVerification(company.organization_id, newest["sequence"], newest["hash"]),
        ]

    @pytest.mark.parametrize("what", _TAMPERED)
    def test_tells_where_the_chain_is_broken(self, company: Api, what: str) -> None:
        """Whatever is altered, taken away or put in: the first sequence number that does not hold is told."""
        statement, place, reason = _TAMPERED[what]
        (before,) = verify(company)
        assert before.broken_at is None
        last = before.records

        tamper(company, statement)

        (verdict,) = verify(company)
        assert verdict.broken_at == place(last)
        assert reason in verdict.reason

    @pytest.mark.parametrize(
        ("column", "value"), [("at", "yesterday"), ('"after"', "{")], ids=["time", "JSON"]
    )
    def test_a_record_that_is_no_record_is_broken(self, company: Api, column: str, value: str) -> None:
        """What cannot even be read is told like anything else that does not hold."""
        if company.server.services.database.dialect != "sqlite":
            pytest.skip("PostgreSQL keeps only what is a time or JSON in such columns")
        assert verify(company)[0].broken_at is None
        tamper(company, f"UPDATE audit_events SET {column} = :value {_RECORD}", value=value)
        (verdict,) = verify(company)
        assert (verdict.broken_at, verdict.reason) == (3, "the record cannot be read")

    def test_reads_in_batches(self, company: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        """The chain is followed across the seams of what is read at once."""
        (whole,) = verify(company)
        monkeypatch.setattr(audit, "_BATCH", 2)
        assert verify(company) == [whole]
        tamper(company, f"UPDATE audit_events SET action = 'x' {_RECORD}")
        assert verify(company)[0].broken_at == 3

    def test_each_organization_has_its_own_chain(self, company: Api) -> None:
        """Without a name all are proven; one that is broken leaves the verdict on the others as it was."""

        async def prove(services: Services) -> dict[str, ChainVerification]:
            return {verdict.organization_id: verdict async for verdict in audit.verify(services)}

        (mine,) = verify(company)
        assert company.server.call(prove)[company.organization_id] == mine
        tamper(company, f"UPDATE audit_events SET action = 'x' {_RECORD}")
        verdicts = company.server.call(prove)
        assert verdicts[company.organization_id].broken_at == 3
        assert verdicts[company.server.organization_id].broken_at is None

    def test_takes_an_id_or_a_label(self, company: Api) -> None:
        """An organization is named as elsewhere; one that is not is refused."""
        label = company.ok("GET", f"/organizations/{company.organization_id}")["label"]
        assert verify(company, label) == verify(company)
        with pytest.raises(NotFound):
            verify(company, "nowhere")

    def test_an_organization_without_records_holds(self) -> None:
        """Nothing is the beginning of every chain."""
        assert audit._wrong_end(
            audit.AuditExtent(None, None, (0, organization_revision.GENESIS)),
            0,
            organization_revision.GENESIS,
        ) == (
            None,
            "",
        )


def prune(api: Api, *, days: int = 2) -> None:
    """Run the retention job as if it were that many days later, with a trail that is kept for a day."""

    async def work(services: Services) -> None:
        later = services.clock() + timedelta(days=days)
        kept = services.settings.model_copy(
            update={**dict.fromkeys(retention.SETTINGS.values(), 0), retention.AUDIT_SETTING: 1}
        )
        await retention.run(replace(services, settings=kept, clock=lambda: later))

    api.server.call(work)


_OF_NEXT = "FROM audit_events WHERE organization_id = :org AND sequence = audit_anchors.sequence + 1"
_SHORTENED = {
    "another hash": ("UPDATE audit_anchors SET hash = 'x' WHERE organization_id = :org", "follow from"),
    "no anchor": ("DELETE FROM audit_anchors WHERE organization_id = :org", "missing"),
    "a later one": (
        f"""UPDATE audit_anchors SET hash = (SELECT hash {_OF_NEXT}), sequence = sequence + 1
        WHERE organization_id = :org""",
        "does not record that it was pruned",
    ),
}


class TestPrune:
    def test_a_pruned_trail_holds(self, company: Api) -> None:
        """It begins with the record of its pruning, and goes on from the hash of the last one pruned."""
        whole = events(company)
        prune(company)

        (pruning,) = events(company)
        last = {"pruned_through": whole[0]["sequence"], "hash": whole[0]["hash"]}
        assert (pruning["action"], pruning["after"]) == ("audit_events.prune", last)
        assert pruning["actor"] == {"type": "system", "id": "zoned"}
        assert pruning["previous_hash"] == whole[0]["hash"]
        kept = ChainVerification(
            company.organization_id, pruning["sequence"], pruning["hash"], pruned=whole[0]["sequence"]
        )
        assert verify(company) == [kept]
        company.zone()
        assert verify(company)[0].broken_at is None

    def test_what_is_of_a_day_that_is_kept_stays(self, company: Api) -> None:
        """Nothing goes, and nothing is recorded."""
        whole = events(company)
        prune(company, days=0)
        assert events(company) == whole

    def test_a_trail_of_nothing_but_its_prunings_is_left_alone(self, company: Api) -> None:
        """Otherwise one would follow the other for ever; a later change is pruned with them."""
        prune(company)
        (pruning,) = events(company)
        prune(company, days=9)
        assert events(company) == [pruning]

        company.zone()
        prune(company, days=9)
        assert [each["action"] for each in events(company)] == ["audit_events.prune"]
        assert verify(company)[0].broken_at is None

    def test_a_trail_that_does_not_hold_is_evidence(self, company: Api) -> None:
        """It is left as it is, and those of others are pruned."""
        tamper(company, f"UPDATE audit_events SET action = 'x' {_RECORD}")
        broken = events(company)
        made, key = company.server.call(lambda services: organizations.create_organization(services, "Fine"))
        fine = caller(company.server, key, made.id)
        prune(company)
        assert events(company) == broken
        assert [each["action"] for each in events(fine)] == ["audit_events.prune"]

    def test_a_deleted_organization_s_trail_is_pruned_as_well(self, company: Api) -> None:
        """Its records are kept no longer than those of others."""
        tamper(company, "DELETE FROM organizations WHERE id = :org")
        prune(company)
        (verdict,) = verify(company)
        assert verdict.broken_at is None
        assert verdict.records - verdict.pruned == 1

    @pytest.mark.parametrize("beyond", [0, 1])
    def test_nothing_behind_the_anchor_can_be_deleted(self, company: Api, beyond: int) -> None:
        """The database refuses it, also to a service that has been taken over."""

        async def delete(services: Services) -> int:
            async with services.database.transaction() as conn:
                await audit_storage.move_anchor(
                    conn, company.organization_id, AuditAnchor(2, "x"), now=services.clock()
                )
                done = await conn.execute(
                    text("DELETE FROM audit_events WHERE organization_id = :org AND sequence = :place"),
                    {"org": company.organization_id, "place": 2 + beyond},
                )
                return done.rowcount

        if beyond:
            with pytest.raises(Exception, match="append-only"):
                company.server.call(delete)
        else:
            assert company.server.call(delete) == 1

    @pytest.mark.parametrize("what", _SHORTENED)
    def test_a_trail_cannot_be_shortened_without_a_trace(self, company: Api, what: str) -> None:
        """An anchor counts only where the trail itself records it."""
        prune(company)
        company.zone()
        assert verify(company)[0].broken_at is None
        statement, told = _SHORTENED[what]
        tamper(company, statement)
        (verdict,) = verify(company)
        assert verdict.broken_at is not None
        assert told in verdict.reason

    def test_records_that_are_yet_to_be_deleted_do_not_break_it(
        self, company: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run that ends between the anchor and the deletion is finished by the next one."""
        count = len(events(company))

        async def interrupted(conn: AsyncConnection, *, limit: int) -> int:
            return 0

        with monkeypatch.context() as patch:
            patch.setattr(audit_storage, "forget_pruned", interrupted)
            prune(company)
        assert len(events(company)) == count + 1
        assert verify(company)[0].broken_at is None

        company.server.call(retention.run)
        assert len(events(company)) == 1
        assert verify(company)[0].broken_at is None

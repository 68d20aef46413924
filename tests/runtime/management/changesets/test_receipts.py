"""Receipts of changesets, and the answer that is repeated to whoever sends one again."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from tests.support.applying import OWNER, Git, app
from tests.support.factories import found_company

from runtime.domain.errors import Conflict, NotFound
from runtime.services.management.audit_chain import record_hash
from runtime.services.management.changesets import receipts
from runtime.services.management.listing import ListQuery
from runtime.services.management.unit_of_work import audit_writer
from runtime.storage.sql import organization_revision


async def test_sent_again_is_answered_again(git: Git, zone: str) -> None:
    """The same body under the same digest is answered with the first result, and nothing happens."""
    changeset = await git.body(app("agent", zone))
    first, again = await git.send(changeset), await git.send(changeset)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.answer == first.answer
    assert len(await git.rows("changesets")) == 2  # the zone's, and this one


async def test_other_body_under_the_same_digest(git: Git, zone: str) -> None:
    """A digest stands for one body."""
    await git.send(await git.body(app("agent", zone), plan_digest="sha256:same"))
    with pytest.raises(Conflict, match="another body"):
        await git.send(await git.body(app("other", zone), plan_digest="sha256:same"))


async def test_sent_at_the_same_time(git: Git, zone: str) -> None:
    """Of two equal changesets at once one is applied, and both get its answer."""
    changeset = await git.body(app("agent", zone))
    outcomes = await asyncio.gather(git.send(changeset), git.send(changeset))
    assert sorted(outcome.replayed for outcome in outcomes) == [False, True]
    assert outcomes[0].answer == outcomes[1].answer


@dataclass(frozen=True)
class Kept:
    """A changeset that was applied: the revision before it, the answer to it, and its receipt."""

    git: Git
    base: int
    answer: Mapping[str, Any]
    receipt: Any


@pytest.fixture
async def kept(git: Git, zone: str) -> Kept:
    base = await git.revision()
    answer = await git.apply(app("a", zone), app("b", zone), source={"commit": "abc"})
    company = git.company
    receipt = await receipts.retrieve(
        company.services, company.caller, company.organization_id, answer["id"], request_id="r"
    )
    return Kept(git, base, answer, receipt)


class TestReceipts:
    def test_a_receipt_has_the_revisions_before_and_after(self, kept: Kept) -> None:
        """A changeset makes one revision, however many operations it has."""
        assert kept.receipt.base_revision == kept.base
        assert kept.receipt.revision == kept.base + 1 == kept.answer["revision"]
        assert kept.receipt.operations == 2

    def test_a_receipt_says_who_applied_what(self, kept: Kept) -> None:
        """The owner, the source that the changeset named, and the caller."""
        assert kept.receipt.owner == OWNER
        assert kept.receipt.source.commit == "abc"
        assert kept.receipt.created_by == kept.git.company.caller.id

    def test_a_receipt_has_the_range_of_audit_records(self, kept: Kept) -> None:
        """The same that the answer had."""
        assert kept.receipt.audit is not None
        assert kept.receipt.audit.model_dump() == kept.answer["audit"]


@pytest.mark.parametrize("together", [1, 2, 1000])
async def test_audit_records_belong_to_the_changeset(
    git: Git, zone: str, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """One record an operation, in a chain that can be checked, however many are written at once."""
    monkeypatch.setattr(audit_writer, "_BATCH", together)
    answer = await git.apply(*(app(name, zone) for name in "abc"))
    async with git.company.services.database.reading() as conn:
        records = await organization_revision.audit_range(
            conn, git.company.organization_id, **answer["audit"]
        )
    assert [record["action"] for record in records] == ["applications.create"] * 3
    assert [record["entity_id"] for record in records] == [git.id("Application", name) for name in "abc"]
    assert not [
        (before, after)
        for before, after in pairwise(records)
        if (after["previous_hash"], after["sequence"]) != (before["hash"], before["sequence"] + 1)
    ]
    assert {record["changeset_id"] for record in records} == {answer["id"]}
    assert not [
        record
        for record in records
        if record_hash({k: v for k, v in record.items() if k != "hash"}) != record["hash"]
    ]


async def test_history_is_newest_first(git: Git, zone: str) -> None:
    """History comes in pages, in both directions."""
    ids = [(await git.apply(app(f"a{n}", zone)))["id"] for n in range(4)]
    ids = [(await git.rows("changesets"))[0]["id"], *ids]  # the zone's own comes first
    newest = ids[::-1]
    company, places = git.company, []

    async def page(**query: Any) -> tuple[list[str], bool, bool]:
        listed = await receipts.history(
            company.services,
            company.caller,
            company.organization_id,
            ListQuery(limit=2, **query),
            request_id="r",
        )
        places.append(listed.edges)
        return [item.id for item in listed.items], listed.has_next, listed.has_previous

    assert await page() == (newest[:2], True, False)
    assert await page(after=places[-1][1]) == (newest[2:4], True, True)
    assert await page(after=places[-1][1]) == (newest[4:], False, True)
    assert await page(before=places[-1][0]) == (newest[2:4], True, True)
    assert await page(before=places[-1][0]) == (newest[:2], True, False)


async def test_receipts_stay_in_the_organization(git: Git, zone: str) -> None:
    """Another organization's changeset is not there."""
    answer = await git.apply(app("a", zone))
    other = await found_company(git.company.services, "Other")
    with pytest.raises(NotFound):
        await receipts.retrieve(
            other.services, other.caller, other.organization_id, answer["id"], request_id="r"
        )
    with pytest.raises(NotFound):
        await receipts.retrieve(
            other.services, other.caller, git.company.organization_id, answer["id"], request_id="r"
        )

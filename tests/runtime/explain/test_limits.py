"""What an explanation takes: a slot of its caller, and few queries, however many credentials there are."""

from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update
from tests.runtime.explain.test_agreement import SITUATIONS, Case, case
from tests.support.oauth_site import CALLBACK

from runtime.domain.errors import RateLimited, TooLarge
from runtime.domain.kinds import APPLICATION_CREDENTIAL
from runtime.domain.kinds.application import Application
from runtime.services.client_types import Client
from runtime.services.explain import participants
from runtime.services.management.access.caller import Caller
from runtime.services.management.changesets import concurrency_limits
from runtime.services.management.changesets.concurrency_limits import (
    EXPLANATIONS,
    EXPLANATIONS_OF_CALLER,
    EXPLANATIONS_OF_ORGANIZATION,
    explanation_slot,
)
from runtime.services.time_slices import TimeSlice
from runtime.services.zones.clients import ClientCache
from runtime.storage.sql.tables import TABLES

__all__ = ["case"]


def _others(caller: Caller, count: int, **changed: str) -> list[Caller]:
    """Other callers of the organization, or of another one."""
    return [replace(caller, id=f"other-{number}", **changed) for number in range(count)]


def _elsewhere(caller: Caller) -> list[Caller]:
    """So many callers of other organizations that together they have every slot of the process."""
    return [
        replace(caller, id=f"{place}-{number}", organization_id=f"elsewhere-{place}")
        for place in range(EXPLANATIONS // EXPLANATIONS_OF_ORGANIZATION)
        for number in range(EXPLANATIONS_OF_ORGANIZATION)
    ]


@pytest.mark.threat("41e", "41i")
@pytest.mark.parametrize("whose", ["caller", "organization", "process"])
async def test_explanations_at_once_are_limited(case: Case, whose: str) -> None:
    """One more is refused while so many are under way, and is answered when they have ended."""
    own = case.scene.company.caller
    holders = {
        "caller": [own] * EXPLANATIONS_OF_CALLER,
        "organization": _others(own, EXPLANATIONS_OF_ORGANIZATION),
        "process": _elsewhere(own),
    }[whose]
    assert (await case.explained()).allowed
    with ExitStack() as under_way:
        for each in holders[1:]:
            under_way.enter_context(explanation_slot(case.scene.services, each))
        assert (await case.explained()).allowed
        with explanation_slot(case.scene.services, holders[0]), pytest.raises(RateLimited):
            await case.explained()
    assert (await case.explained()).allowed


@pytest.mark.threat("41e")
async def test_a_caller_takes_no_slot_of_another(case: Case) -> None:
    """Who has all of theirs is refused; somebody else of the organization is not."""
    (other,) = _others(case.scene.company.caller, 1)
    with ExitStack() as under_way:
        for _ in range(EXPLANATIONS_OF_CALLER):
            under_way.enter_context(explanation_slot(case.scene.services, other))
        with pytest.raises(RateLimited), explanation_slot(case.scene.services, other):
            pass
        assert (await case.explained()).allowed


@pytest.mark.threat("41e")
async def test_public_credentials_are_not_looked_up(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """They prove nothing: the one confidential credential is looked up, by the id that it goes by."""
    agent = await case.scene.company.app(
        case.scene.zone, "many", public=True, dependencies=[case.api], redirect_uris=[CALLBACK]
    )
    for _ in range(5):
        await case.scene.company.credential(case.scene.zone, agent.application, public=True)
    case.asking = await case.scene.company.credential(case.scene.zone, agent.application)
    asked = _lookups(monkeypatch)

    assert (await case.explained()).allowed

    assert set(asked) == {case.asking.client_id}


@pytest.mark.threat("41e")
async def test_each_party_of_a_chain_is_found_once(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The application between two hops is one hop's receiver and the next one's client."""
    case.asking, case.via = case.gateway, (case.agent,)
    found: list[str] = []
    find = participants._client

    async def counting(services: Any, zone: Any, application: Application, now: Any) -> object:
        found.append(application.identifier)
        return await find(services, zone, application, now)

    monkeypatch.setattr(participants, "_client", counting)

    assert (await case.explained()).allowed

    assert found == ["agent", "gateway"]


async def test_an_expired_credential_is_none(case: Case) -> None:
    """Nobody proves anything with it: the exchange refuses the client, and so does the explanation."""
    assert (await case.explained()).allowed
    await _expire(case, case.agent.credential_id)

    explained = await case.explained()

    assert not explained.allowed
    assert explained.hops[0].steps[0].outcome == "refused"


async def test_the_successor_of_an_expired_secret_counts(case: Case) -> None:
    """It has the same client id, and another credential."""
    await case.scene.company.create(
        APPLICATION_CREDENTIAL,
        case.scene.zone.id,
        application_id=case.agent.id,
        type="password",
        identifier=case.agent.client_id,
    )
    await _expire(case, case.agent.credential_id)

    assert (await case.explained()).allowed


async def _expire(case: Case, credential_id: str) -> None:
    table, services = TABLES[APPLICATION_CREDENTIAL.name], case.scene.services
    past = services.clock() - timedelta(seconds=1)
    async with services.epochs.transaction() as (conn, _):
        await conn.execute(update(table).where(table.c.id == credential_id).values(expires_at=past))


def _lookups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The client ids that are looked up from now on."""
    asked: list[str] = []
    get = ClientCache.get

    async def counting(cache: ClientCache, client_id: str) -> Client | None:
        asked.append(client_id)
        return await get(cache, client_id)

    monkeypatch.setattr(ClientCache, "get", counting)
    return asked


@pytest.mark.threat("41e", "41i")
async def test_an_explanation_takes_no_longer_than_it_may(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes longer is refused with what to ask for less of; the slot and the snapshot are free again."""
    assert (await case.explained()).allowed
    with monkeypatch.context() as patched:
        patched.setattr(concurrency_limits, "EXPLANATION_SECONDS", 0.0)
        for _ in range(EXPLANATIONS_OF_CALLER + 1):
            with pytest.raises(TooLarge, match="takes longer than 0 seconds; ask with fewer applications"):
                await case.explained()
    assert (await case.explained()).allowed


@pytest.mark.threat("41e", "41l")
@pytest.mark.parametrize(("situation", "asked"), [("allowed", 0), ("one scope forbidden", 2)])
async def test_scopes_that_are_tried_one_by_one_let_others_in_between(
    case: Case, monkeypatch: pytest.MonkeyPatch, situation: str, asked: int
) -> None:
    """Each of a hundred scopes may take a whole policy set; scopes that are allowed together are one step."""
    steps = []

    async def count(self: TimeSlice) -> None:
        steps.append(self)

    await SITUATIONS[situation][0](case)
    monkeypatch.setattr(TimeSlice, "yield_if_due", count)
    await case.explained()
    assert len(steps) == asked

"""An upstream token is refreshed by one refresher, whoever asks for it; and what ends it ends it for all."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update
from tests.runtime.vault.conftest import TOKENS, Account, account_at
from tests.support.logs import logged_lines
from tests.support.rewired import run_job, with_new_zones
from tests.support.rotating_provider import INVALID_GRANT, RotatingProvider, rotating_provider
from tests.support.scene import Scene
from tests.support.scripted_provider import Received, Scripted
from tests.support.waiting import until

from runtime.adapters.upstream_oauth.client import UpstreamOAuthClient
from runtime.domain.errors import AccessDenied, InvalidGrant, OAuthError, UpstreamUnavailable
from runtime.domain.kinds import DELEGATED_GRANT, PROVIDER, USER
from runtime.services.container import Services
from runtime.services.upstream_refreshes import UpstreamRefreshes
from runtime.services.vault import credential_cache, refresh, refresh_ahead
from runtime.services.vault.upstream_tokens import refresh_after
from runtime.storage.sql import vault_tokens as vault_rows
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.tables import TABLES, vault_tokens
from runtime.storage.sql.vault_tokens import VaultPlace, VaultRecord

EXPIRING = replace(TOKENS, refresh_token="rt-0")


@pytest.fixture
def idp() -> Iterator[RotatingProvider]:
    """The provider."""
    with rotating_provider() as running:
        yield running


@pytest.fixture
async def connected(own_scene: Scene, idp: RotatingProvider) -> Account:
    """Ann's account at the provider, its access token just over."""
    account = await account_at(own_scene, idp.server.url, **idp.settings)
    await account.connect(EXPIRING)
    await expire(account)
    return account


async def expire(account: Account, left: timedelta = timedelta(seconds=-1), **columns: Any) -> None:
    """Let the access token end in a moment that far ahead, and be worth refreshing now."""
    now = account.scene.services.clock()
    async with account.scene.services.database.transaction() as conn:
        await conn.execute(
            update(vault_tokens)
            .where(vault_tokens.c.zone_id == account.scene.zone.id)
            .values({"expires_at": now + left, "refresh_at": now - timedelta(seconds=1)} | columns)
        )
    place = VaultPlace(account.scene.zone.id, account.ann.user.id, account.resource.id, account.provider.id)
    await account.scene.services.state.delete(credential_cache.entry_key(place))  # over by then, too


def another_process(account: Account) -> Services:
    """Services over the same storage that share nothing else with those of the scene."""
    services = with_new_zones(account.scene.services)
    return replace(
        services,
        upstream_oauth=UpstreamOAuthClient(services.upstream_outbound, clock=services.clock),
        upstream_refreshes=UpstreamRefreshes(services.database, services.clock),
    )


async def exchanges(account: Account, count: int, *at: Services) -> list[Any]:
    """What so many exchanges at once are answered with, at each of the services."""
    token = await account.scene.company.token(account.scene.zone, account.agent, account.ann)
    return await asyncio.gather(
        *(
            account.scene.exchange(account.agent, token, account.resource, services=services)
            for services in at or (account.scene.services,)
            for _ in range(count)
        ),
        return_exceptions=True,
    )


async def test_an_expired_token_is_refreshed(connected: Account, idp: RotatingProvider) -> None:
    """The exchange hands out the new one, for as long as the provider says."""
    answer = await connected.exchange()

    assert answer["access_token"] == "at-1"
    assert 3590 <= answer["expires_in"] <= 3600
    (grant,) = await connected.rows("delegated_grants")
    assert grant["refreshed_at"] is not None
    assert grant["status"] == "active"


async def test_a_grant_tells_of_the_connection_that_it_has_now(
    connected: Account, idp: RotatingProvider
) -> None:
    """Connected again, nothing has been refreshed yet; revoked, there is no refresh token."""
    await connected.exchange()
    (grant,) = await connected.rows("delegated_grants")
    assert grant["refreshed_at"] is not None
    assert grant["refresh_token_set"]

    await connected.connect()
    (grant,) = await connected.rows("delegated_grants")
    assert (grant["refreshed_at"], grant["refresh_token_set"]) == (None, True)

    zone_id = connected.scene.zone.id
    await connected.scene.company.update(DELEGATED_GRANT, zone_id, grant["id"], status="revoked")
    (grant,) = await connected.rows("delegated_grants")
    assert (grant["status"], grant["refresh_token_set"]) == ("revoked", False)


async def test_a_refreshed_token_is_handed_out_without_another_refresh(
    connected: Account, idp: RotatingProvider
) -> None:
    """Until it is time again."""
    await connected.exchange()

    assert (await connected.exchange())["access_token"] == "at-1"
    assert idp.refreshes == 1


async def test_the_rotated_refresh_token_is_used_next(connected: Account, idp: RotatingProvider) -> None:
    """The provider would revoke the account if the former one came again."""
    await connected.exchange()
    await expire(connected)

    assert (await connected.exchange())["access_token"] == "at-2"
    assert idp.current == "rt-2"


@pytest.mark.threat("20a")
async def test_a_hundred_exchanges_at_once_make_one_refresh(
    connected: Account, idp: RotatingProvider
) -> None:
    """In two processes over one database: the provider sees one request, and everybody gets its answer."""
    idp.delay_seconds = 0.2

    answers = await exchanges(connected, 50, connected.scene.services, another_process(connected))

    assert {answer["access_token"] for answer in answers} == {"at-1"}
    assert idp.refreshes == 1


async def test_a_token_that_is_still_valid_is_handed_out_while_it_is_refreshed(
    connected: Account, idp: RotatingProvider
) -> None:
    """Nobody waits for the provider before they have to."""
    idp.delay_seconds = 0.5
    await expire(connected, timedelta(minutes=5))

    assert (await connected.exchange())["access_token"] == TOKENS.access_token

    await connected.scene.services.upstream_refreshes.close()
    assert (await connected.exchange())["access_token"] == "at-1"


async def test_a_refresh_survives_the_request_that_began_it(
    connected: Account, idp: RotatingProvider
) -> None:
    """A client that hangs up loses no token that the provider has rotated."""
    idp.delay_seconds = 0.3
    request = asyncio.create_task(connected.exchange())
    await asyncio.to_thread(idp.asked.wait, 10)

    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request

    await connected.scene.services.upstream_refreshes.close()
    idp.delay_seconds = 0.0
    assert (await connected.exchange())["access_token"] == "at-1"
    assert idp.refreshes == 1


async def test_an_answer_that_comes_too_late_for_a_request_is_kept(
    connected: Account, idp: RotatingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who began the refresh is told to ask again; what the provider sends in place of the token counts."""
    monkeypatch.setattr(refresh, "HOLDER_WAIT_SECONDS", 0.1)
    idp.delay_seconds = 1.0

    (refusal,) = await exchanges(connected, 1)

    assert isinstance(refusal, UpstreamUnavailable)
    await connected.scene.services.upstream_refreshes.close()
    assert (await connected.exchange())["access_token"] == "at-1"
    assert idp.refreshes == 1


@pytest.mark.parametrize(
    ("answer", "events"),
    [
        (
            Scripted(status=500),
            [("a provider issues no tokens now: they are refreshed once it does", "unavailable", 500)],
        ),
        (
            Scripted({"error": "invalid_client"}, 401),
            [("a provider refuses to refresh tokens: check its settings", "invalid_client", 401)],
        ),
        (
            INVALID_GRANT,
            [
                ("a provider has refused a refresh token", "invalid_grant", 400),
                (
                    "an upstream grant is dead: its user has to connect the account again",
                    "invalid_grant",
                    None,
                ),
            ],
        ),
    ],
    ids=["fails", "refuses the zone", "refuses the account"],
)
async def test_what_a_provider_does_to_many_accounts_is_one_line(
    connected: Account, idp: RotatingProvider, answer: Scripted, events: list[tuple[str, str, int | None]]
) -> None:
    """It says which provider, what it has answered, and what becomes of it or has to be done."""
    others = [
        await connected.scene.company.person(connected.scene.zone, f"{name}@acme.test")
        for name in ("bob", "cid")
    ]
    for person in others:
        await connected.connect(EXPIRING, person=person)
    await expire(connected)
    idp.answer = answer

    with logged_lines() as lines:
        for person in (connected.ann, *others):
            with suppress(OAuthError, UpstreamUnavailable):
                await connected.exchange(person=person)

    assert idp.refreshes >= 3
    told = [line for line in lines if line["event"] != "request refused"]  # those are of each request
    assert [(line["event"], line["reason"], line.get("status")) for line in told] == events
    assert {(line["provider"], line["provider_id"], line["zone_id"]) for line in told} == {
        (idp.server.url, connected.provider.id, connected.scene.zone.id)
    }


@pytest.mark.threat("20b", "20c")
async def test_a_dead_grant_is_asked_about_twice_and_no_more(
    connected: Account, idp: RotatingProvider
) -> None:
    """However many exchanges come: each is told where the user can connect again."""
    idp.answer = INVALID_GRANT

    refusals = await exchanges(connected, 20) + await exchanges(connected, 20, another_process(connected))

    assert {type(refusal) for refusal in refusals} == {AccessDenied}
    assert all("error_uri" in refusal.members for refusal in refusals)
    assert idp.refreshes == 2


async def test_a_dead_grant_has_no_refresh_token(connected: Account, idp: RotatingProvider) -> None:
    """Administrators see of a grant whether it lives on: one refusal is not the end, the second is."""
    (grant,) = await connected.rows("delegated_grants")
    assert grant["refresh_token_set"]
    idp.answer = INVALID_GRANT

    with pytest.raises(AccessDenied):
        await connected.exchange()

    (grant,) = await connected.rows("delegated_grants")
    assert grant["status"] == "active"  # the user has taken nothing back
    assert not grant["refresh_token_set"]
    await connected.connect()
    (grant,) = await connected.rows("delegated_grants")
    assert grant["refresh_token_set"]


async def test_connecting_again_revives_a_dead_grant(connected: Account, idp: RotatingProvider) -> None:
    """The user's own word brings another credential."""
    idp.answer = INVALID_GRANT
    with pytest.raises(AccessDenied):
        await connected.exchange()

    await connected.connect()

    assert (await connected.exchange())["access_token"] == TOKENS.access_token


@pytest.mark.threat("20d", "20e", "20f")
@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (Scripted(status=503), 5),
        (Scripted(status=503, headers={"retry-after": "17"}), 17),
        (Scripted(status=429, headers={"retry-after": "100000"}), 60),
        (Scripted({"error": "invalid_client"}, 401), 30),
        (Scripted(b"<html>", 200), 30),
    ],
    ids=["down", "down for a while", "too many", "our own fault", "nonsense"],
)
async def test_a_provider_that_fails_is_said_to(
    connected: Account, idp: RotatingProvider, answer: Scripted, seconds: int
) -> None:
    """503 with the time to wait, within a bound; the grant lives, and the provider is asked once."""
    idp.answer = answer

    refusals = await exchanges(connected, 20)

    assert {type(refusal) for refusal in refusals} == {UpstreamUnavailable}
    assert all(seconds - 2 <= refusal.retry_after_seconds <= seconds for refusal in refusals)
    assert {refusal.status for refusal in refusals} == {503}
    assert idp.refreshes == 1
    (grant,) = await connected.rows("delegated_grants")
    assert grant["status"] == "active"


@pytest.mark.threat("20d", "20f")
async def test_who_asks_during_the_pause_is_told_what_is_left_of_it(
    connected: Account, idp: RotatingProvider
) -> None:
    """Later, and in another process: the provider's time to wait, and not that of who waits for a refresh."""
    idp.answer = Scripted(status=429, headers={"retry-after": "60"})

    refusals = await exchanges(connected, 1)
    refusals += await exchanges(connected, 1) + await exchanges(connected, 1, another_process(connected))

    assert {type(refusal) for refusal in refusals} == {UpstreamUnavailable}
    assert all(10 < refusal.retry_after_seconds <= 60 for refusal in refusals)
    assert idp.refreshes == 1


async def test_after_the_pause_the_provider_is_asked_again(connected: Account, idp: RotatingProvider) -> None:
    """A provider that is back brings the next token."""
    idp.answer = Scripted(status=503)
    await exchanges(connected, 1)
    idp.answer = None
    await expire(connected, lease_until=connected.scene.services.clock() - timedelta(seconds=1))

    assert (await connected.exchange())["access_token"] == "at-2"


async def test_while_a_provider_fails_the_valid_token_is_handed_out(
    connected: Account, idp: RotatingProvider
) -> None:
    """Until it is over."""
    idp.answer = Scripted(status=503)
    await expire(connected, timedelta(seconds=20))

    assert (await connected.exchange())["access_token"] == TOKENS.access_token
    assert (await connected.exchange())["access_token"] == TOKENS.access_token
    assert idp.refreshes == 1


async def test_an_open_circuit_is_answered_503(connected: Account, idp: RotatingProvider) -> None:
    """Without another request to a provider that keeps failing."""
    services = connected.scene.services
    for _ in range(5):
        permit = services.upstream_oauth._breakers.admit(connected.scene.zone.id, connected.provider.id)
        assert not isinstance(permit, float)
        services.upstream_oauth._breakers.failed(connected.scene.zone.id, connected.provider.id, permit, None)

    (refusal,) = await exchanges(connected, 1)

    assert isinstance(refusal, UpstreamUnavailable)
    assert idp.refreshes == 0


async def test_a_lease_whose_holder_died_is_taken_over_when_it_is_over(
    connected: Account, idp: RotatingProvider
) -> None:
    """Before that it is waited for in vain, and whoever asks is told what is left of it, in every process."""
    now = connected.scene.services.clock()
    await expire(connected, lease_owner="gone", lease_until=now + timedelta(seconds=600))
    refusals = await exchanges(connected, 2, connected.scene.services, another_process(connected))
    assert {type(refusal) for refusal in refusals} == {UpstreamUnavailable}
    assert all(60 < refusal.retry_after_seconds <= 600 - refresh.WAIT_SECONDS + 1 for refusal in refusals)

    await expire(connected, lease_owner="gone", lease_until=now - timedelta(seconds=1))

    assert (await connected.exchange())["access_token"] == "at-1"


async def test_a_token_that_a_dead_process_has_lost_makes_a_dead_grant(
    connected: Account, idp: RotatingProvider
) -> None:
    """The provider has rotated, nobody has stored it: two refusals, and the user is asked."""
    idp.current = "rt-that-was-lost"

    (refusal,) = await exchanges(connected, 1)

    assert isinstance(refusal, AccessDenied)
    assert idp.refreshes == 2
    (row,) = await connected.rows("vault_tokens")
    assert row["state"] == "dead"


async def test_a_database_that_is_away_for_a_moment_loses_no_rotated_token(
    connected: Account, idp: RotatingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the provider has issued is stored when the database answers again."""
    stored, failures = refresh._replace, [OSError(), OSError()]

    async def unsteady(*arguments: Any) -> bool:
        if failures:
            raise failures.pop()
        return await stored(*arguments)

    monkeypatch.setattr(refresh, "_replace", unsteady)

    assert (await connected.exchange())["access_token"] == "at-1"


async def test_a_grant_that_is_revoked_meanwhile_stays_revoked(
    connected: Account, idp: RotatingProvider
) -> None:
    """What the refresh brings is kept nowhere."""
    idp.delay_seconds = 0.5
    request = asyncio.create_task(connected.exchange())
    await asyncio.to_thread(idp.asked.wait, 10)
    (grant,) = await connected.rows("delegated_grants")
    await connected.scene.company.update(
        DELEGATED_GRANT, connected.scene.zone.id, grant["id"], status="revoked"
    )

    with pytest.raises(AccessDenied):
        await request
    assert await connected.rows("vault_tokens") == []


@pytest.mark.threat("18m")
async def test_a_user_who_is_disabled_during_a_refresh_gets_no_token(
    connected: Account, idp: RotatingProvider
) -> None:
    """The provider took its time, and the user has ended since: what was concluded before does not count."""
    idp.delay_seconds = 0.5
    request = asyncio.create_task(connected.exchange())
    await asyncio.to_thread(idp.asked.wait, 10)
    await connected.scene.company.update(
        USER, connected.scene.zone.id, connected.ann.user.id, status="disabled"
    )

    with pytest.raises(InvalidGrant):
        await request


@pytest.mark.threat("16h")
@pytest.mark.parametrize(
    ("scopes", "outcome"), [(["read"], "at-again"), (["read", "write"], "refused")], ids=["same", "more"]
)
async def test_tokens_of_more_scopes_that_arrive_during_a_refresh_are_decided_anew(
    connected: Account, idp: RotatingProvider, scopes: list[str], outcome: str
) -> None:
    """Ann lets one application read, and connects the account for more while that application waits."""
    await connected.connect(replace(EXPIRING, scopes=frozenset({"read"})), ["read"])
    await expire(connected)
    await connected.agree(ClientRef(application_id=connected.shy.id), ["read"])
    idp.delay_seconds = 0.5
    request = asyncio.create_task(connected.exchange(connected.shy))
    await asyncio.to_thread(idp.asked.wait, 10)
    await connected.connect(replace(TOKENS, access_token="at-again", scopes=frozenset(scopes)), scopes)

    if outcome == "refused":
        with pytest.raises(AccessDenied):
            await request
    else:
        assert (await request)["access_token"] == outcome


async def test_an_account_that_is_connected_meanwhile_wins(connected: Account, idp: RotatingProvider) -> None:
    """The refresh of the former tokens does not overwrite it."""
    idp.delay_seconds = 0.5
    request = asyncio.create_task(connected.exchange())
    await asyncio.to_thread(idp.asked.wait, 10)
    await connected.connect(replace(TOKENS, access_token="at-again"))

    assert (await request)["access_token"] == "at-again"
    assert (await connected.exchange())["access_token"] == "at-again"


@pytest.mark.parametrize(
    ("scope", "granted"), [("read", "read"), ("read write admin", "read write")], ids=["fewer", "more"]
)
async def test_a_refresh_narrows_the_grant_and_never_widens_it(
    connected: Account, idp: RotatingProvider, scope: str, granted: str
) -> None:
    """What the provider takes away is gone; what it adds was not authorized."""
    tokens = {"access_token": "at", "refresh_token": "rt", "expires_in": 3600, "scope": scope}
    idp.answer = Scripted(tokens)
    ((_, before),) = await users_of(connected)

    assert (await connected.exchange())["scope"] == granted
    assert (await connected.exchange())["scope"] == granted
    assert " ".join((await connected.rows("delegated_grants"))[0]["scopes"]) == granted
    ((_, after),) = await users_of(connected)
    assert (after > before) == (granted == "read"), "what is cached of a grant that has changed counts still"


async def users_of(account: Account) -> list[tuple[str, int]]:
    """The zone's users, each with the epoch under which everything of theirs is cached."""
    return [(row["id"], row["epoch"]) for row in await account.rows("users")]


async def test_what_was_refreshed_meanwhile_is_not_refreshed_again(
    connected: Account, idp: RotatingProvider
) -> None:
    """Who has read the former token, and asks for what another process has just done, gets the new row."""
    assert (await connected.exchange())["access_token"] == "at-1"
    services, zone_id = connected.scene.services, connected.scene.zone.id
    place = VaultPlace(zone_id, connected.ann.user.id, connected.resource.id, connected.provider.id)

    found = await refresh.refresh(services, await services.zones.get(zone_id), place)

    assert isinstance(found, VaultRecord)
    assert found.version == 2
    assert idp.refreshes == 1


@pytest.mark.threat("46h")
async def test_a_refresh_token_goes_to_no_address_that_came_into_the_row_otherwise(
    connected: Account, idp: RotatingProvider
) -> None:
    """A row of the database that was changed by hand: nothing is sent, and the user is asked."""
    oauth2 = {"issuer": idp.server.url, "token_endpoint": f"{idp.server.url}/elsewhere"}
    elsewhere, rows = {"oauth2": oauth2}, TABLES["Provider"]
    async with connected.scene.services.database.transaction() as conn:
        await conn.execute(update(rows).where(rows.c.id == connected.provider.id).values(protocols=elsewhere))

    with pytest.raises(AccessDenied):
        await connected.exchange()

    assert idp.server.received == []


@pytest.mark.threat("46h")
@pytest.mark.parametrize(
    "change", [{"client_id": "another", "client_secret": "another"}, {"type": "gone"}], ids=["client", "gone"]
)
async def test_a_changed_provider_is_sent_no_former_refresh_token(
    connected: Account, idp: RotatingProvider, change: dict[str, str]
) -> None:
    """Its grants have ended with what they were issued to."""
    company, zone_id = connected.scene.company, connected.scene.zone.id
    if "type" in change:
        await company.update(PROVIDER, zone_id, connected.provider.id, client_secret=None)
        await company.update(PROVIDER, zone_id, connected.provider.id, identifier="https://gone.test")
    else:
        await company.update(PROVIDER, zone_id, connected.provider.id, **change)

    with pytest.raises(OAuthError):
        await connected.exchange()

    assert idp.refreshes == 0


@pytest.mark.parametrize(
    ("lifetime", "after"), [(36_000, 28_800), (3600, 2880), (200, 140), (100, 50), (60, 30), (1, 1)]
)
def test_when_a_token_is_worth_refreshing(lifetime: int, after: int) -> None:
    """With a fifth of its life left, or a minute; never in the first half of it."""
    assert refresh_after(lifetime) == after


async def used(account: Account) -> None:
    """Return when it is stored that the token was handed out."""
    await account.exchange()

    async def is_stored() -> bool:
        return (await account.rows("vault_tokens"))[0]["used_at"] is not None

    await until(is_stored)


async def test_a_token_in_use_is_refreshed_ahead(connected: Account, idp: RotatingProvider) -> None:
    """By a job, with nobody waiting."""
    await connected.exchange()
    await used(connected)
    await expire(connected, timedelta(minutes=5))

    await run_job(connected.scene.services, refresh_ahead.JOB)

    (row,) = await connected.rows("vault_tokens")
    assert row["version"] == 3
    assert (await connected.exchange())["access_token"] == "at-2"


@pytest.mark.parametrize(
    "columns",
    [
        {"used_at": None},
        {"used_at": timedelta(hours=-2)},
        {"refresh_at": timedelta(minutes=1)},
        {"expires_at": timedelta(minutes=-1)},
        {"state": "dead"},
        {"lease_until": timedelta(minutes=1)},
    ],
    ids=lambda columns: f"{next(iter(columns))}",
)
async def test_what_the_job_leaves_alone(
    connected: Account, idp: RotatingProvider, columns: dict[str, Any]
) -> None:
    """A token that nobody uses, that is not due, that is over or dead, or that somebody refreshes."""
    now = connected.scene.services.clock()
    wanted = {"used_at": timedelta(minutes=-1), "expires_at": timedelta(minutes=5)} | columns
    at = {name: now + value if isinstance(value, timedelta) else value for name, value in wanted.items()}
    await expire(connected)
    async with connected.scene.services.database.transaction() as conn:
        await conn.execute(
            update(vault_tokens).where(vault_tokens.c.zone_id == connected.scene.zone.id).values(**at)
        )

    await run_job(connected.scene.services, refresh_ahead.JOB)

    assert idp.refreshes == 0


@pytest.mark.parametrize(
    ("due_in", "used_ago", "is_forgotten"),
    [(-1, 61, True), (-1, 59, False), (1, 61, False)],
    ids=["unused", "in use", "not due yet"],
)
async def test_the_job_forgets_uses(
    connected: Account, idp: RotatingProvider, due_in: int, used_ago: int, is_forgotten: bool
) -> None:
    """Of what is due and nobody has used for an hour, so that it is not looked at again and again."""
    now = connected.scene.services.clock()
    await expire(
        connected,
        timedelta(minutes=5),
        refresh_at=now + timedelta(minutes=due_in),
        used_at=now - timedelta(minutes=used_ago),
        lease_until=now + timedelta(minutes=1),
    )

    await run_job(connected.scene.services, refresh_ahead.JOB)

    (row,) = await connected.rows("vault_tokens")
    assert (row["used_at"] is None) == is_forgotten


async def test_the_job_forgets_more_uses_than_one_statement(
    connected: Account, idp: RotatingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on until none is left."""
    monkeypatch.setattr(refresh_ahead, "_FORGOTTEN_AT_ONCE", 1)
    for name in ("bob", "cid"):
        await connected.connect(
            person=await connected.scene.company.person(connected.scene.zone, f"{name}@acme.test")
        )
    await expire(connected, used_at=connected.scene.services.clock() - timedelta(hours=2))

    await run_job(connected.scene.services, refresh_ahead.JOB)

    assert [row["used_at"] for row in await connected.rows("vault_tokens")] == [None] * 3


async def test_the_job_refreshes_nothing_for_a_disabled_user(
    connected: Account, idp: RotatingProvider
) -> None:
    """Nobody acts for them, so no token is needed."""
    await used_and_due(connected)
    await connected.scene.company.update(
        USER, connected.scene.zone.id, connected.ann.user.id, status="disabled"
    )

    await run_job(connected.scene.services, refresh_ahead.JOB)

    assert idp.refreshes == 0


async def test_the_job_is_not_stopped_by_a_provider_that_fails(
    connected: Account, idp: RotatingProvider
) -> None:
    """What cannot be refreshed now is tried again."""
    await used_and_due(connected)
    idp.answer = Scripted(status=500)

    assert await run_job(connected.scene.services, refresh_ahead.JOB) == 0

    assert idp.refreshes == 1


async def used_and_due(account: Account) -> None:
    """Let the token be what the job is for."""
    now = account.scene.services.clock()
    await expire(account, timedelta(minutes=5), used_at=now)


async def another_zone(connected: Account, idp: RotatingProvider) -> Account:
    """Ann's account and Bob's at a provider, in another zone of the organization."""
    company = connected.scene.company
    account = await account_at(Scene(company, await company.zone()), idp.server.url, **idp.settings)
    await account.connect(EXPIRING)
    await account.connect(EXPIRING, person=await company.person(account.scene.zone, "bob@acme.test"))
    return account


async def test_zones_take_turns_in_what_is_due(connected: Account, idp: RotatingProvider) -> None:
    """However many older tokens another zone has."""
    company, zone = connected.scene.company, connected.scene.zone
    for name in ("bob", "cid"):
        await connected.connect(EXPIRING, person=await company.person(zone, f"{name}@acme.test"))
    other = await another_zone(connected, idp)
    await used_and_due(connected)
    await used_and_due(other)

    now = connected.scene.services.clock()
    async with connected.scene.services.database.querying() as conn:
        places = await vault_rows.due(conn, now=now, used_since=now - refresh_ahead.IN_USE, limit=1_000)

    ids = {zone.id: "first", other.scene.zone.id: "other"}
    found = [ids[each.zone_id] for each in places if each.zone_id in ids]
    assert found == ["first", "other", "first", "other", "first"]


async def test_a_slow_provider_of_one_zone_holds_up_no_other(
    connected: Account, idp: RotatingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tokens of the other zone are refreshed while it does not answer, and its own once it does."""
    monkeypatch.setattr(refresh_ahead, "AT_A_TIME", 2)
    monkeypatch.setattr(refresh_ahead, "OF_A_ZONE", 1)
    idp.answer = Scripted({"access_token": "at-new", "token_type": "Bearer", "expires_in": 3600})
    may_answer, answer = threading.Event(), idp.server.script

    def answer_late(received: Received) -> Scripted:
        may_answer.wait(15)
        return answer(received)

    async def versions(account: Account) -> list[int]:
        return [row["version"] for row in await account.rows("vault_tokens")]

    company, zone = connected.scene.company, connected.scene.zone
    await connected.connect(EXPIRING, person=await company.person(zone, "bob@acme.test"))
    await used_and_due(connected)
    idp.server.script = answer_late
    with rotating_provider() as quick:
        quick.answer = idp.answer
        other = await another_zone(connected, quick)
        await used_and_due(other)
        running = asyncio.create_task(run_job(connected.scene.services, refresh_ahead.JOB))

        async def is_refreshed() -> bool:
            return await versions(other) == [2, 2]

        await until(is_refreshed, seconds=10)
        assert await versions(connected) == [1, 1]
        may_answer.set()
        await running
    assert await versions(connected) == [2, 2]


async def test_what_has_not_begun_in_time_is_for_the_next_run(
    connected: Account, idp: RotatingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks again who is due, so that nobody waits for all of a long run."""
    await used_and_due(connected)
    with monkeypatch.context() as late:
        late.setattr(refresh_ahead, "_BEGIN_SECONDS", 0)
        assert await run_job(connected.scene.services, refresh_ahead.JOB) == 0
    assert idp.refreshes == 0

    assert await run_job(connected.scene.services, refresh_ahead.JOB) == 1
    assert idp.refreshes == 1

"""Two secrets of one client id: both authenticate, one until it expires, and each is recorded by itself."""

from dataclasses import replace
from datetime import timedelta
from json import loads
from typing import Any

import pytest
from sqlalchemy import select
from tests.support.factories import App
from tests.support.scene import Scene, claims_of

from runtime.domain.errors import InvalidClient, InvalidGrant, TooManyRequests
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION_CREDENTIAL, RESOURCE
from runtime.domain.kinds.resource import Resource
from runtime.services.clients.last_used import LAST_USED
from runtime.services.container import Services
from runtime.services.management.kind_handlers import CREATES
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.rate_limits import MAX_SECRET_GUESSES
from runtime.services.revocation_list import Revocations, digest
from runtime.storage.sql import deletion_effects, revocations
from runtime.storage.sql import entities as storage
from runtime.storage.sql.tables import METADATA

FORM = [("grant_type", "client_credentials")]


async def second_secret(scene: Scene, app: App, **members: Any) -> App:
    """Another password credential of the application, with the client id that it has."""
    body = {"application_id": app.id, "type": "password", "identifier": app.client_id, **members}
    async with unit_of_work(scene.services, scene.company.caller, new_id()) as unit:
        create = CREATES[APPLICATION_CREDENTIAL.name]
        made = await create(unit, APPLICATION_CREDENTIAL, {"zone_id": scene.zone.id}, body)
        secret = unit.shown_once[made.id]["password"]
    return replace(app, secret=secret, credential_id=made.id)


@pytest.fixture
async def old(scene: Scene) -> App:
    """An application with a secret."""
    return await scene.company.app(scene.zone, f"rotated-{new_id()[:6]}")


@pytest.fixture
async def new(scene: Scene, old: App) -> App:
    """The same application with its second secret."""
    return await second_secret(scene, old)


async def authenticates(scene: Scene, app: App, **more: Any) -> bool:
    """Whether the token endpoint takes the application's secret."""
    try:
        await scene.post([*FORM, *app.form.items()], **more)
    except InvalidClient:
        return False
    return True


async def expire(scene: Scene, app: App, after: timedelta) -> Services:
    """Let its credential expire after that time; the services as they are at that instant."""
    end = scene.services.clock() + after
    await scene.company.update(APPLICATION_CREDENTIAL, scene.zone.id, app.credential_id, expires_at=end)
    return replace(scene.services, clock=lambda: end)


async def test_both_secrets_authenticate_as_one_client(scene: Scene, old: App, new: App) -> None:
    """Either gets tokens with the same client id."""
    answers = [await scene.post([*FORM, *app.form.items()]) for app in (old, new)]

    assert {claims_of(answer["access_token"])["client_id"] for answer in answers} == {old.client_id}


async def test_any_other_secret_is_refused(scene: Scene, old: App, new: App) -> None:
    """Neither a wrong one nor none, and not one of another application."""
    other = await scene.company.app(scene.zone, "not-rotated")

    assert not [
        secret
        for secret in ("wrong", None, other.secret)
        if await authenticates(scene, replace(new, secret=secret))
    ]


async def test_a_secret_stops_at_the_instant_at_which_it_expires(scene: Scene, old: App, new: App) -> None:
    """A client that is cached since before is compared with the clock, not read again."""
    at_the_end = await expire(scene, old, timedelta(hours=1))
    now = at_the_end.clock()
    before = replace(scene.services, clock=lambda: now - timedelta(microseconds=1))

    assert await authenticates(scene, old, services=before)
    assert not await authenticates(scene, old, services=at_the_end)
    assert await authenticates(scene, new, services=at_the_end)


async def test_an_expired_secret_works_again_when_its_end_is_put_off(scene: Scene, old: App) -> None:
    """Where the old secret turns out to be needed, a later end brings it back."""
    at_the_end = await expire(scene, old, timedelta(hours=1))
    assert not await authenticates(scene, old, services=at_the_end)

    await scene.company.update(APPLICATION_CREDENTIAL, scene.zone.id, old.credential_id, expires_at=None)
    assert await authenticates(scene, old, services=at_the_end)


async def test_a_withdrawn_secret_stops_at_once_and_the_other_goes_on(
    scene: Scene, old: App, new: App
) -> None:
    """Deleting a credential that is in use refuses its secret at the next request."""
    assert await authenticates(scene, old)

    await scene.company.delete(APPLICATION_CREDENTIAL, scene.zone.id, old.credential_id)
    assert not await authenticates(scene, old)
    assert await authenticates(scene, new)


async def ends_of(scene: Scene, client_id: str) -> list[int]:
    """The `issued_until` of a client id's entries, as a process reads the list that has read none before."""
    zone = await scene.services.zones.get(scene.zone.id)
    fresh = Revocations(scene.services.database, scene.services.clock)
    found = loads((await fresh.since(zone, None)).revocations)
    return [each["issued_until"] for each in found if each.get("client_id#S256") == digest(client_id)]


async def listed(scene: Scene, token: str) -> bool:
    """Whether the revocation list has a token, as a server reads it that verifies offline."""
    told = claims_of(token)
    return any(told["iat"] <= until for until in await ends_of(scene, told["client_id"]))


async def accepted(scene: Scene, app: App, token: str, resource: Resource) -> bool:
    """Whether the zone takes a token of the application's own for an exchange."""
    try:
        await scene.exchange(app, token, resource)
    except InvalidGrant:
        return False
    return True


@pytest.mark.threat("47d")
async def test_the_list_and_the_zone_say_the_same_of_a_token_of_the_last_second(scene: Scene) -> None:
    """Issued just before its secret was deleted, it ends in both; the other secret's next one in neither."""
    resource = await scene.company.resource(scene.zone, f"https://{new_id()}.example")
    old = await scene.company.app(scene.zone, f"rotated-{new_id()[:6]}", dependencies=[resource])
    new = await second_secret(scene, old)

    async def issued(app: App) -> str:
        answer = await scene.post([*FORM, ("resource", resource.identifier), *app.form.items()])
        return str(answer["access_token"])

    before = await issued(old)
    assert (await accepted(scene, new, before, resource), await listed(scene, before)) == (True, False)

    await scene.company.delete(APPLICATION_CREDENTIAL, scene.zone.id, old.credential_id)
    after = await issued(new)

    assert (await accepted(scene, new, before, resource), await listed(scene, before)) == (False, True)
    assert (await accepted(scene, new, after, resource), await listed(scene, after)) == (True, False)


@pytest.mark.parametrize("ahead_seconds", [-60, -3, 0, 3, 7])
async def test_an_instant_is_judged_alike_by_the_list_and_the_zone(
    scene: Scene, old: App, ahead_seconds: int
) -> None:
    """Also of a token that another node has stamped by a clock that is ahead, or that is older."""
    await scene.company.delete(APPLICATION_CREDENTIAL, scene.zone.id, old.credential_id)
    zone = await scene.services.zones.get(scene.zone.id)
    (until,) = await ends_of(scene, old.client_id)
    issued_at = until - 6 + ahead_seconds

    refused = await zone.withdrawals.is_withdrawn(("client_id", old.client_id), issued_at=issued_at)

    assert refused == (issued_at <= until)
    assert refused == (ahead_seconds <= 6)


async def test_after_the_first_is_deleted_there_may_be_another(scene: Scene, old: App, new: App) -> None:
    """Rotations follow one another: the place of the deleted one is free."""
    await scene.company.delete(APPLICATION_CREDENTIAL, scene.zone.id, old.credential_id)
    third = await second_secret(scene, new)
    await scene.company.delete(APPLICATION_CREDENTIAL, scene.zone.id, new.credential_id)
    fourth = await second_secret(scene, third)

    assert [await authenticates(scene, app) for app in (old, new, third, fourth)] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.threat("25a")
async def test_two_secrets_allow_no_more_guesses_than_one(scene: Scene, old: App, new: App) -> None:
    """A request is one guess, however many secrets it is compared with."""
    now = scene.services.clock()
    services = replace(scene.services, clock=lambda: now)
    for _ in range(MAX_SECRET_GUESSES):
        with pytest.raises(InvalidClient):
            await scene.post(
                [*FORM, *replace(new, secret="wrong").form.items()],
                address="203.0.113.77",
                services=services,
            )

    with pytest.raises(TooManyRequests):
        await scene.post([*FORM, *new.form.items()], address="203.0.113.77", services=services)


async def test_an_expired_secret_is_no_guess(scene: Scene, old: App, new: App) -> None:
    """Instances that still have it do not block those behind the same address that have the new one."""
    at_the_end = await expire(scene, old, timedelta(hours=1))
    assert all(
        [
            not await authenticates(scene, old, address="203.0.113.78", services=at_the_end)
            for _ in range(2 * MAX_SECRET_GUESSES)
        ]
    )

    assert await authenticates(scene, new, address="203.0.113.78", services=at_the_end)


async def test_an_expired_secret_is_answered_like_a_wrong_one(scene: Scene, old: App, new: App) -> None:
    """Only the log names the credential and its end."""
    at_the_end = await expire(scene, old, timedelta(hours=1))
    refusals = []
    for app in (old, replace(old, secret="wrong")):
        with pytest.raises(InvalidClient) as refusal:
            await scene.post([*FORM, *app.form.items()], services=at_the_end)
        refusals.append(refusal.value)
    expired, wrong = refusals

    assert (expired.detail, expired.basic, expired.status) == (wrong.detail, wrong.basic, wrong.status)
    assert old.credential_id in expired.internal
    assert "expired at" in expired.internal


async def revocations_of(scene: Scene, client_id: str) -> int:
    """How many entries of the zone's revocation list are about tokens of that client id."""
    now = scene.services.clock()
    async with scene.services.database.reading() as conn:
        found = await revocations.since(conn, scene.zone.id, now - timedelta(days=400), now=now)
    return sum(entry.claims == {"client_id": client_id} for _, entry in found)


async def test_a_withdrawn_secret_revokes_what_the_client_id_was_issued(
    scene: Scene, old: App, new: App
) -> None:
    """Tokens do not tell one secret from the other: all until now end, and are asked for again."""
    await scene.company.delete(APPLICATION_CREDENTIAL, scene.zone.id, old.credential_id)

    assert await revocations_of(scene, old.client_id) == 1


async def test_deleting_what_expired_lately_revokes_what_it_may_have_been_issued(
    scene: Scene, old: App, new: App
) -> None:
    """Its tokens outlive it: a secret that turns out to be stolen is withdrawn with them."""
    await expire_in_the_past(scene, old, timedelta(hours=23))
    await scene.company.delete(APPLICATION_CREDENTIAL, scene.zone.id, old.credential_id)

    assert await revocations_of(scene, old.client_id) == 1


async def test_deleting_what_expired_revokes_tokens_of_a_resource_whose_lifetime_was_shortened(
    scene: Scene, old: App, new: App
) -> None:
    """What the resource says by now is not what it said when the tokens were issued."""
    zone_id, thirty_days = scene.zone.id, 2_592_000
    long = await scene.company.resource(
        scene.zone, "https://long.example", credential_lifetime_seconds=thirty_days
    )
    await expire_in_the_past(scene, old, timedelta(hours=25))
    await scene.company.update(RESOURCE, zone_id, long.id, credential_lifetime_seconds=600)
    await scene.company.delete(APPLICATION_CREDENTIAL, zone_id, old.credential_id)

    assert await revocations_of(scene, old.client_id) == 1


async def test_deleting_what_expired_long_ago_revokes_nothing(own_scene: Scene) -> None:
    """Whatever it was issued has expired, for any lifetime of the zone: tokens of the other secret stay."""
    old = await own_scene.company.app(own_scene.zone, "rotated")
    await second_secret(own_scene, old)
    await expire_in_the_past(own_scene, old, timedelta(days=1, minutes=2))
    await own_scene.company.delete(APPLICATION_CREDENTIAL, own_scene.zone.id, old.credential_id)

    assert await revocations_of(own_scene, old.client_id) == 0


@pytest.mark.parametrize("end", ["shortened", "removed", "deleted"])
async def test_a_revocation_lasts_as_long_as_tokens_of_former_lifetimes(own_scene: Scene, end: str) -> None:
    """A day where no resource ever had a longer lifetime; else until the last token of that has expired."""
    company, zone, day = own_scene.company, own_scene.zone, timedelta(days=1)
    old, other = [await company.app(zone, name) for name in ("old", "other")]
    assert await forgotten_after(own_scene, old) == day
    long = await company.resource(zone, "https://long.example", credential_lifetime_seconds=2_592_000)
    if end == "deleted":
        await company.delete(RESOURCE, zone.id, long.id)
    else:
        await company.update(
            RESOURCE, zone.id, long.id, credential_lifetime_seconds=600 if end == "shortened" else None
        )
    assert 30 * day < await forgotten_after(own_scene, other) <= 30 * day + timedelta(minutes=2)


async def test_a_lifetime_that_grows_is_no_former_one(own_scene: Scene) -> None:
    """What the resource says by now is the longest that there was."""
    company, zone = own_scene.company, own_scene.zone
    long = await company.resource(zone, "https://long.example", credential_lifetime_seconds=600)
    await company.update(RESOURCE, zone.id, long.id, credential_lifetime_seconds=172_800)
    assert await forgotten_after(own_scene, await company.app(zone, "old")) == timedelta(days=2)


async def forgotten_after(scene: Scene, app: App) -> timedelta:
    """How long the revocation of its client id is kept, once its credential is deleted."""
    await scene.company.delete(APPLICATION_CREDENTIAL, scene.zone.id, app.credential_id)
    table = METADATA.tables["revocations"]
    async with scene.services.database.reading() as conn:
        found = await conn.execute(select(table).where(table.c.zone_id == scene.zone.id).order_by(table.c.at))
    row = [each for each in found if each.claims == {"client_id": app.client_id}][-1]
    kept: timedelta = row.forget_at - row.at
    return kept


async def expire_in_the_past(scene: Scene, app: App, ago: timedelta) -> None:
    """As if its credential had expired so long ago."""
    table = METADATA.tables["application_credentials"]
    ended = table.update().where(table.c.id == app.credential_id)
    async with scene.services.database.transaction() as conn:
        await conn.execute(ended.values(expires_at=scene.services.clock() - ago))


async def last_used(scene: Scene, app: App) -> Any:
    """`last_used_at` of its credential, once all is written."""
    await LAST_USED.written()
    within = {"zone_id": scene.zone.id}
    async with scene.services.database.reading() as conn:
        found = await storage.get(conn, APPLICATION_CREDENTIAL, app.credential_id, within=within)
    return found.last_used_at


async def test_each_credential_says_when_it_was_last_used(scene: Scene, old: App, new: App) -> None:
    """So an operator sees when nothing uses the old secret any more."""
    before = scene.services.clock()
    assert await authenticates(scene, new)

    assert await last_used(scene, old) is None
    assert await last_used(scene, new) >= before


async def test_a_refused_secret_is_no_use_of_its_credential(scene: Scene, old: App, new: App) -> None:
    """Neither a wrong secret nor an expired one counts."""
    at_the_end = await expire(scene, old, timedelta(hours=1))
    await authenticates(scene, replace(new, secret="wrong"))
    await authenticates(scene, old, services=at_the_end)

    assert [await last_used(scene, app) for app in (old, new)] == [None, None]


async def test_use_is_recorded_once_a_minute(scene: Scene, old: App) -> None:
    """A second use within the minute is not written; one after it is."""
    now = scene.services.clock()
    for seconds in (0, 59, 61):
        at = now + timedelta(seconds=seconds)
        await authenticates(scene, old, services=replace(scene.services, clock=lambda at=at: at))
        last = await last_used(scene, old)
        assert last == (now if seconds < 60 else at)


async def test_decisions_name_the_credential_that_authenticated(scene: Scene, old: App, new: App) -> None:
    """Token events tell the two secrets of a client apart."""
    for app in (old, new):
        await authenticates(scene, app)
    await scene.services.decisions.flush()
    events = METADATA.tables["token_events"]
    async with scene.services.database.reading() as conn:
        rows = await conn.execute(select(events.c.credential_id).where(events.c.application_id == old.id))

    assert sorted(row[0] for row in rows) == sorted([old.credential_id, new.credential_id])


async def test_an_expired_credential_is_not_in_use(scene: Scene, old: App, new: App) -> None:
    """Deleting it locks nobody out, however lately it was used."""
    for app in (old, new):
        await authenticates(scene, app)
    await scene.services.decisions.flush()
    await expire_in_the_past(scene, old, timedelta(minutes=1))
    zone, ids = scene.zone, [old.credential_id, new.credential_id]
    async with scene.services.database.reading() as conn:
        used = await deletion_effects.used(
            conn,
            APPLICATION_CREDENTIAL,
            zone.organization_id,
            zone.id,
            ids,
            now=scene.services.clock(),
        )

    assert used == {new.credential_id}

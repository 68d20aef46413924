"""Rotates a zone's signing keys: by command, or when a key is due."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import cast

from runtime.adapters.keys.signing import Algorithm, SigningKey
from runtime.domain.errors import NotFound
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ZONE
from runtime.logs import throttled_warnings
from runtime.services import zone_keys
from runtime.services.container import Services
from runtime.services.data_keys import DataKeyUnavailable
from runtime.services.jobs.turns import Turns, in_turn
from runtime.services.management.access.caller import SERVICE, Actor
from runtime.services.management.unit_of_work import unit_of_work
from runtime.storage.sql import zone_data as storage

JOB = "keys"
SIGNING_KEY = "SigningKey"  # what the audit trail calls one
_MAX_FORGOTTEN = 1_000  # in one run
_MAX_ROTATIONS = 300  # in one run: making an RSA key takes a noticeable fraction of a second
_MAX_WAITING = 3_000  # looked at for that: an organization that is passed over can have many


async def rotate(
    services: Services,
    zone_id: str,
    algorithm: Algorithm = zone_keys.DEFAULT_ALGORITHM,
    *,
    at_once: bool = False,
    by: Actor = SERVICE,
) -> str:
    """Make the next signing key of a zone; its kid.

    Args:
        at_once: sign with it from now on, because the present key may be known to others: every other key
            of the algorithm is taken out of the JWK set, and no token it signed is accepted any more.
    Raises: NotFound.
    """
    kid = await _rotate(services, zone_id, algorithm, at_once=at_once, due=None, by=by)
    if kid is None:
        raise RuntimeError("a rotation that is not tied to a date takes place")
    return kid


async def rotate_due(services: Services) -> int:
    """Rotate every key that has signed for its time, and forget keys that nobody needs; how many those were.

    A next key is published that much earlier that it signs when the present one's time is up. At most a
    few hundred a run: the rest is due at the next.

    Raises: Unavailable, in the end, where organizations were passed over.
    """
    now = services.clock()
    with in_turn(services, JOB) as turns:
        done = await _forget(services, turns, now - timedelta(days=1))
        if services.settings.key_rotation_days:
            due = now - timedelta(days=services.settings.key_rotation_days) + zone_keys.PUBLISHED_BEFORE
            done += await _rotate_all(services, turns, due)
    return done


async def use_algorithm(
    services: Services, zone_id: str, algorithm: Algorithm, *, by: Actor = SERVICE
) -> None:
    """Sign the zone's access tokens with that algorithm from now on. Raises NotFound."""
    async with unit_of_work(services, by.within(await _organization(services, zone_id)), new_id()) as unit:
        await unit.lock_organization()
        found = await storage.zone(unit.conn, zone_id)
        if found is None:
            raise NotFound(f"there is no zone `{zone_id}`")
        before = found[1].access_token_algorithm
        if before == algorithm:
            return
        await storage.use_algorithm(unit.conn, zone_id, algorithm)
        old, new = ({"access_token_algorithm": each} for each in (before, algorithm))
        await unit.record("zones.use_algorithm", ZONE.name, zone_id, zone_id, before=old, after=new)


async def _rotate_all(services: Services, turns: Turns, due: datetime) -> int:
    """Rotate keys whose newest signs since before that; how many."""
    async with services.database.querying() as conn:
        waiting = await storage.keys_due(conn, due, limit=_MAX_WAITING)
    tried: list[bool] = []
    for zone_id, algorithm in waiting:
        with suppress(NotFound):  # the zone is gone meanwhile
            organization_id = await _organization(services, zone_id)
            work = partial(_rotate_due, services, zone_id, cast(Algorithm, algorithm), due)
            if (rotated := await turns.take(organization_id, work)) is not None:
                tried.append(rotated)
        if len(tried) == _MAX_ROTATIONS:
            break
    return sum(tried)


async def _rotate_due(services: Services, zone_id: str, algorithm: Algorithm, due: datetime) -> bool:
    """Rotate a key that signs since before that; False where a newer one does, or its data key is away."""
    try:
        kid = await _rotate(services, zone_id, algorithm, at_once=False, due=due, by=SERVICE)
    except DataKeyUnavailable as failure:
        throttled_warnings.warn(
            "a signing key is not rotated", reason=failure.detail, about=zone_id, zone_id=zone_id
        )
        return False
    return kid is not None


async def _forget(services: Services, turns: Turns, removed_before: datetime) -> int:
    """Forget keys that were taken out of the set before that; how many those were."""
    async with services.database.querying() as conn:
        waiting = await storage.forgettable_keys(conn, removed_before, limit=_MAX_FORGOTTEN)
    done, by_zone = 0, groupby(sorted(waiting), key=itemgetter(0))
    for zone_id, keys_there in by_zone:
        kids = [kid for _, kid in keys_there]
        with suppress(NotFound):  # the zone is gone meanwhile, and its keys with it
            organization_id = await _organization(services, zone_id)
            work = partial(_forget_in, services, organization_id, zone_id, kids)
            done += await turns.take(organization_id, work) or 0
    return done


async def _forget_in(services: Services, organization_id: str, zone_id: str, kids: list[str]) -> int:
    async with unit_of_work(services, SERVICE.within(organization_id), new_id()) as unit:
        unit.epochs.keeps_zones = True  # verifiers have not been told of these keys for long
        await unit.lock_organization()
        for kid in kids:
            if (algorithm := await storage.forget_key(unit.conn, zone_id, kid)) is not None:
                told = {"algorithm": algorithm}
                await unit.record("keys.forget", SIGNING_KEY, kid, zone_id, before=told, after=None)
    return unit.audit.count


async def _rotate(
    services: Services, zone_id: str, algorithm: Algorithm, *, at_once: bool, due: datetime | None, by: Actor
) -> str | None:
    """Make the next signing key; its kid.

    Args:
        due: only when the newest key signs since before that; None is returned when one is newer by now.
    """
    organization_id = await _organization(services, zone_id)
    key = await asyncio.to_thread(SigningKey.generate, algorithm)
    async with unit_of_work(services, by.within(organization_id), new_id(), zone_ids=[zone_id]) as unit:
        await unit.lock_organization()
        newest = await storage.newest_activation(unit.conn, zone_id, algorithm) if due else None
        if due is not None and newest is not None and newest > due:
            return None
        sealer = await zone_keys.sealer(services.data_keys, unit.conn, zone_id)
        await zone_keys.add_next(unit.conn, zone_id, sealer, key, now=unit.now, at_once=at_once)
        told = {"algorithm": algorithm, "at_once": at_once}
        await unit.record("keys.rotate", SIGNING_KEY, key.kid, zone_id, before=None, after=told)
    return key.kid


async def _organization(services: Services, zone_id: str) -> str:
    async with services.database.querying() as conn:
        return await storage.organization_of_zone(conn, zone_id)

"""Signing keys of new zones: made while nobody waits for it."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.support.applying import Git, create

from runtime.adapters.keys.signing import Algorithm, SigningKey
from runtime.domain.identifiers import new_id
from runtime.services import zone_keys
from runtime.services.management.unit_of_work import unit_of_work


@pytest.mark.threat("41l")
async def test_others_write_while_the_keys_of_new_zones_are_made(
    git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each key takes long to make: the organization's other writers do not wait for sixty of them."""
    others: list[int] = []
    services, caller, make = git.company.services, git.company.caller, zone_keys.make

    async def while_another_writes(
        algorithms: Sequence[Algorithm] = zone_keys.ALGORITHMS,
    ) -> dict[Algorithm, SigningKey]:
        if tuple(algorithms) == zone_keys.ALGORITHMS:  # for zones that stay
            async with asyncio.timeout(5), unit_of_work(services, caller, new_id()) as unit:
                others.append(await unit.next_revision())
        return await make(algorithms)

    first = create("Zone", "first", name="First")
    await git.apply(first)
    base = await git.revision()
    monkeypatch.setattr(zone_keys, "make", while_another_writes)
    made = [create("Zone", name, name=name) for name in ("second", "third")]
    answer = await git.apply(*made)

    assert others == [base + 1, base + 2]
    zones = [await services.zones.get(done["id"]) for done in answer["operations"]]
    assert [{jwk["alg"] for jwk in zone.jwks} for zone in zones] == [{"RS256", "ES256"}] * 2
    assert len({jwk["kid"] for zone in zones for jwk in zone.jwks}) == 4

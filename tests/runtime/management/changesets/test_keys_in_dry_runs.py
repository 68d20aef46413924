"""Encryption keys of zones in dry runs: tried before one of the few connections for these is taken."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.applying import Git, create, update
from tests.support.waiting import until

from runtime.adapters.keys.key_encryption import KeyEncryption
from runtime.adapters.keys.wrapping import KeyRefused, KeyUnreachable
from runtime.domain.errors import ManagementError, Unavailable, ValidationFailed
from runtime.storage.sql.database import DRY_RUNS

GOOD, OTHER = "arn:aws:kms:eu-west-1:123456789012:key/good", "arn:aws:kms:eu-west-1:123456789012:key/other"

WRONG = update("Zone", "0" * 26, "nothing", name="Nothing")


@dataclass
class KeyService:
    """A service that zones' own keys are at, in place of AWS.

    Attributes:
        answers: cleared while it gives no answer.
        failure: what it answers, once it does.
        asked: ARN -> how often.
        waiting: how many wait for an answer.
    """

    answers: asyncio.Event = field(default_factory=asyncio.Event)
    failure: Exception | None = None
    asked: Counter[str] = field(default_factory=Counter)
    waiting: int = 0

    async def all_wait(self) -> bool:
        """Whether one more waits than there are connections for dry runs."""
        return self.waiting == DRY_RUNS + 1


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> KeyService:
    found, wrap_with_own = KeyService(), KeyEncryption.wrap
    found.answers.set()

    async def wrap(keys: KeyEncryption, data_key: bytes, binding: Any, *, arn: str | None = None) -> bytes:
        if arn is not None:
            found.asked[arn] += 1
            found.waiting += 1
            await found.answers.wait()
            found.waiting -= 1
            if found.failure is not None:
                raise found.failure
        return await wrap_with_own(keys, data_key, binding)

    monkeypatch.setattr(KeyEncryption, "wrap", wrap)
    return found


def key(arn: str | None) -> dict[str, Any] | None:
    return None if arn is None else {"type": "cloud", "arn": arn}


async def tried(git: Git, *operations: dict[str, Any]) -> dict[str, Any]:
    return await git.apply(*operations, dry_run=True)


@pytest.mark.threat("41e", "41l")
async def test_who_waits_for_a_key_service_keeps_no_dry_run_waiting(
    git: Git, zone: str, service: KeyService
) -> None:
    """As many wait as there are connections for dry runs, and another one is answered meanwhile."""
    given = update("Zone", zone, "acme", encryption_key=key(GOOD))
    assert (await tried(git, given))["operations"]
    service.answers.clear()
    waiting = [asyncio.create_task(tried(git, given)) for _ in range(DRY_RUNS)]
    waiting.append(
        asyncio.create_task(tried(git, create("Zone", "new", name="New", encryption_key=key(GOOD))))
    )
    await until(service.all_wait)

    async with asyncio.timeout(10):
        await tried(git, update("Zone", zone, "acme", name="Renamed"))

    assert not any(each.done() for each in waiting)
    service.answers.set()
    assert all(each["operations"] for each in await asyncio.gather(*waiting))


async def test_a_key_is_asked_once_for_all_zones_that_are_given_it(
    git: Git, zone: str, service: KeyService
) -> None:
    """Of zones that there are; where a dry run has problems, it is done again without asking."""
    await git.apply(create("Zone", "second", name="Second"))
    given = [
        update("Zone", zone, "acme", encryption_key=key(GOOD)),
        update("Zone", git.id("Zone", "second"), "second", encryption_key=key(GOOD)),
    ]
    with pytest.raises(ManagementError):
        await tried(git, *given, WRONG)

    assert service.asked == {GOOD: 1}


async def test_a_key_that_a_zone_has_is_not_asked(git: Git, zone: str, service: KeyService) -> None:
    """It is used every day."""
    await git.apply(update("Zone", zone, "acme", encryption_key=key(GOOD)))
    service.asked.clear()

    await tried(git, update("Zone", zone, "acme", name="Renamed", encryption_key=key(GOOD)))

    assert not service.asked


@pytest.mark.parametrize("is_new", [False, True])
async def test_a_refused_key_is_a_problem_of_its_operation(
    git: Git, zone: str, service: KeyService, is_new: bool
) -> None:
    """Beside the problems of other operations."""
    service.failure = KeyRefused("is disabled")
    given = (
        create("Zone", "new", name="New", encryption_key=key(OTHER))
        if is_new
        else update("Zone", zone, "acme", encryption_key=key(OTHER))
    )

    with pytest.raises(ValidationFailed) as refused:
        await tried(git, given, WRONG)

    assert refused.value.problems[0].field == "operations[0].spec.encryption_key.arn"


async def test_a_key_service_that_does_not_answer_is_not_the_callers_mistake(
    git: Git, zone: str, service: KeyService
) -> None:
    service.failure = KeyUnreachable("no route")

    with pytest.raises(Unavailable, match="the encryption key cannot be tried"):
        await tried(git, update("Zone", zone, "acme", encryption_key=key(OTHER)))


@pytest.mark.threat("41e")
@pytest.mark.parametrize("arn", [None, GOOD])
async def test_data_keys_of_zones_that_are_only_tried_are_not_kept(
    git: Git, zone: str, service: KeyService, arn: str | None
) -> None:
    """A reader who tries a thousand zones puts nobody's data key out of the cache."""
    data_keys = git.company.services.data_keys
    spec = {} if arn is None else {"encryption_key": key(arn)}
    before = set(data_keys._held)

    answer = await tried(git, *(create("Zone", f"new-{n}", name=f"New {n}", **spec) for n in range(3)))

    assert len(answer["operations"]) == 3
    assert set(data_keys._held) == before
    assert service.asked == ({} if arn is None else {arn: 1})

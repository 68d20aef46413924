"""Users' passwords."""

import asyncio

import pytest
from argon2 import PasswordHasher

from runtime.adapters.passwords import Passwords, PasswordsBusy

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


async def test_recognises_the_password():
    """The hashed password is recognised, another is not."""
    passwords = Passwords(hasher=CHEAP)
    hashed = await passwords.hash("correct horse", tenant="one")

    assert hashed.startswith("$argon2id$")
    assert await passwords.verify(hashed, "correct horse", tenant="one")
    assert not await passwords.verify(hashed, "battery staple", tenant="one")


@pytest.mark.threat("25h")
async def test_an_unknown_user_costs_a_verification_too():
    """Without a hash one is verified all the same; the answer is no, even for the dummy's own password."""
    verified = []

    class Counting(PasswordHasher):
        def verify(self, hash, password):  # noqa: A002
            verified.append(password)
            return super().verify(hash, password)

    passwords = Passwords(hasher=Counting(time_cost=1, memory_cost=8, parallelism=1))

    assert not await passwords.verify(None, "no user has this password", tenant="one")
    assert len(verified) == 1


async def test_a_broken_hash_matches_nothing():
    """A row that holds something else is a refusal, not a failure."""
    assert not await Passwords(hasher=CHEAP).verify("not a hash", "x", tenant="one")


async def test_too_long_a_password_is_refused():
    """Hashing cost is bounded, and two long passwords with one beginning are not the same."""
    passwords = Passwords(hasher=CHEAP)
    hashed = await passwords.hash("a" * 1024, tenant="one")

    with pytest.raises(ValueError, match="1024"):
        await passwords.hash("a" * 1025, tenant="one")
    assert not await passwords.verify(hashed, "a" * 1025, tenant="one")


async def test_weaker_parameters_ask_for_a_new_hash():
    """A hash made with yesterday's parameters is replaced at the next sign-in."""
    hashed = await Passwords(hasher=CHEAP).hash("x", tenant="one")

    assert not Passwords(hasher=CHEAP).needs_rehash(hashed)
    assert Passwords(hasher=PasswordHasher(time_cost=2, memory_cost=8, parallelism=1)).needs_rehash(hashed)


async def test_a_queue_that_grows_too_long_is_refused():
    """Beyond the bound a caller is told at once instead of waiting for minutes."""
    passwords = Passwords(hasher=CHEAP, workers=1, max_waiting=2)

    outcomes = await asyncio.gather(
        *(passwords.hash("x", tenant="one") for _ in range(4)), return_exceptions=True
    )

    assert sum(isinstance(outcome, PasswordsBusy) for outcome in outcomes) == 2


@pytest.mark.threat("41l")
async def test_one_tenant_waits_for_little_of_another():
    """Whose sign-ins are flooded, or cost what its imported hashes cost; and the queue of each is its own."""
    passwords = Passwords(hasher=CHEAP, workers=1, max_waiting=20)
    done: list[str] = []

    async def sign_in(tenant: str) -> None:
        await passwords.hash("x", tenant=tenant)
        done.append(tenant)

    many = [asyncio.create_task(sign_in("flooded")) for _ in range(20)]
    await asyncio.sleep(0)
    with pytest.raises(PasswordsBusy):
        await sign_in("flooded")
    await sign_in("other")

    assert done[-1] == "other"
    assert len(done) <= 3
    await asyncio.gather(*many)
    assert len(done) == 21
    many.clear()
    assert dict(passwords._threads._queues) == {}

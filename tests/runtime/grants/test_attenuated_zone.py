"""Random steps against a real zone: nothing that it issues widens, and nothing that has ended comes back.

`tests/support/attenuated_zone.py` is the state machine, over SQLite in this process.
"""

from dataclasses import replace
from typing import Any

import pytest
from tests.support import attenuated_zone as machine

from runtime.domain.oauth import attenuation
from runtime.services.authority import subject_tokens
from runtime.services.grants import token_exchange

STEPS = 3_000


@pytest.mark.threat("16f", "18f")
def test_a_zone_never_issues_more_than_there_is_to_give() -> None:
    """Thousands of sign-ins, exchanges, refreshes, consents, revocations and changes of configuration."""
    tally = machine.run(STEPS)

    assert tally.steps >= STEPS
    assert tally.seen["issued"] > STEPS / 10


async def _of_anybody(zone: Any, client: Any, subject: Any, *, jkt: str | None) -> Any:
    return await subject_tokens.check_chain(zone, subject)


def _not_revoked(zone: Any, token_id: str) -> None:
    """Whatever the zone has heard of the token."""


def _wider(parent: Any, target: Any, requested: Any, **more: Any) -> Any:
    return _ATTENUATE(replace(parent, audience="https://elsewhere.test"), target, requested, **more)


_ATTENUATE = attenuation.attenuate


@pytest.mark.parametrize(
    ("place", "name", "mutant"),
    [
        (token_exchange, "check_provenance", _of_anybody),
        (token_exchange, "require_not_denied", _not_revoked),
        (attenuation, "attenuate", _wider),
    ],
    ids=["no provenance", "no revocation", "no scopes of the parent"],
)
def test_the_machine_finds_a_rule_that_is_left_out(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, mutant: Any
) -> None:
    """The walk is no proof unless it fails for a service that has lost one of its checks."""
    monkeypatch.setattr(place, name, mutant)

    with pytest.raises(AssertionError):
        machine.run(20 * STEPS)

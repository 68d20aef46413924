"""Random steps against a real zone: nothing that it issues widens, and nothing that has ended comes back.

`tests/support/attenuated_zone.py` is the state machine, over SQLite in this process. It proves the audience:
a token is for the resource that was requested, the application depends on that, and a token is exchanged by
whom it was issued to or whom it is for. Scopes, actors, expiry and key are also proved by
`test_delegation_chains.py`, over the pure core and in more steps.
"""

from typing import Any

import pytest
from tests.support import attenuated_zone as machine
from tests.support.attenuation import SCOPES

from runtime.domain.oauth import attenuation
from runtime.domain.oauth.attenuation import UpstreamScopes
from runtime.services.authority import active, subject_tokens
from runtime.services.connect import requests
from runtime.services.grants import token_exchange
from runtime.services.issuing import target_checks
from runtime.services.management.people import users
from runtime.services.zones.accountability import AccountabilityRule
from runtime.storage.sql import vault_tokens

pytestmark = pytest.mark.long

STEPS = 1_000
FEWEST = {
    "sign_in": 20,
    "exchange": 200,
    "hand_out": 100,
    "refresh": 50,
    "say": 20,
    "change": 20,
    "end": 20,
    "age": 20,
    "switch": 50,
    "issued": 100,
    "connected": 5,
    "handed out": 20,
    "refreshed elsewhere": 5,
}


@pytest.mark.threat("16f", "18f")
def test_a_zone_never_issues_more_than_there_is_to_give() -> None:
    """Thousands of sign-ins, exchanges, refreshes, connections, consents, revocations and changes."""
    tally = machine.run(STEPS, fewest=FEWEST)

    assert tally.steps >= STEPS
    assert not tally.below(FEWEST), tally


async def _of_anybody(zone: Any, client: Any, subject: Any, *, jkt: str | None) -> Any:
    return await subject_tokens.check_chain(zone, subject)


def _not_revoked(zone: Any, token_id: str) -> None:
    """Whatever the zone has heard of the token."""


def _wider(parent: Any, target: Any, requested: Any, **more: Any) -> Any:
    return _ATTENUATE(parent._replace(audience="https://elsewhere.test"), target, requested, **more)


def _for_what_the_parent_is_for(parent: Any, *rest: Any, **more: Any) -> Any:
    return _ATTENUATE(parent, *rest, **more)._replace(audience=parent.audience)


async def _always(*_: Any) -> bool:
    return True


async def _unchecked(*_: Any) -> None:
    """Whatever has ended, or has to end."""


def _no_matter(user: Any) -> None:
    """Whether a user is active."""


def _whatever_it_says(asked: frozenset[str], answered: frozenset[str]) -> UpstreamScopes:
    return _LIMIT_UPSTREAM(asked | answered, answered)


async def _all_of_it(*args: Any, scopes: Any, **more: Any) -> Any:
    return await _REPLACE(*args, scopes=frozenset(SCOPES), **more)


_ATTENUATE, _LIMIT_UPSTREAM = attenuation.attenuate, attenuation.limit_upstream
_REPLACE = vault_tokens.replace


@pytest.mark.parametrize(
    "changes",
    [
        [(token_exchange, "check_provenance", _of_anybody)],
        [(token_exchange, "require_not_denied", _not_revoked)],
        [(target_checks, "require_dependency", _unchecked)],
        [(attenuation, "attenuate", _for_what_the_parent_is_for)],
        [(attenuation, "attenuate", _wider)],
        [(AccountabilityRule, "is_active", _always)],
        [
            (users, "_end_sessions", _unchecked),
            (active, "require_user_active", _no_matter),
        ],
        [(requests, "check_again", _unchecked)],
        [(vault_tokens, "replace", _all_of_it)],
        [(attenuation, "limit_upstream", _whatever_it_says)],
    ],
    ids=[
        "no provenance",
        "no revocation",
        "dependency (audience) not checked",
        "audience of the parent",
        "no scopes of the parent",
        "nobody accountable",
        "disabled users",
        "no check after the provider has answered",
        "whatever a refresh brings",
        "whatever the provider grants",
    ],
)
def test_the_machine_finds_a_rule_that_is_left_out(
    monkeypatch: pytest.MonkeyPatch, changes: list[tuple[Any, str, Any]]
) -> None:
    """The walk is no proof unless it fails for a service that has lost one of its checks."""
    for place, name, mutant in changes:
        monkeypatch.setattr(place, name, mutant)

    with pytest.raises(AssertionError):
        machine.run(60 * STEPS)

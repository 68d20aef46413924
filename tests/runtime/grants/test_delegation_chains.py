"""No chain of exchanges ever gains authority: random steps over the pure core, and each attack by itself.

`tests/support/attenuation.py` is the state machine. It proves scopes, actors, expiry and key, and takes
audiences as they are requested: which of them an application may have a token for is proved by the machine of
`test_attenuated_zone.py`, over a real zone. `tests/end_to_end/test_chains.py` sends chains to a server.
"""

from datetime import timedelta

import pytest
from tests.support import attenuation as machine
from tests.support.factories import App
from tests.support.scene import Scene

from runtime.domain import delegated_grants
from runtime.domain.delegated_grants import Cause, Transition
from runtime.domain.errors import InvalidScope, InvalidTarget
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import GrantStatus
from runtime.domain.oauth import attenuation
from runtime.domain.oauth.attenuation import Delegation, TokenLimits, UpstreamScopes
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE

SCOPES = ["read", "write", "admin", "call"]
STEPS = 100_000


FEWEST = {
    "sign_in": 2_000,
    "exchange": 20_000,
    "refresh": 2_000,
    "own_token": 2_000,
    "connect": 2_000,
    "upstream_refresh": 2_000,
    "hand_out": 2_000,
    "change": 2_000,
    "wait": 2_000,
    "revoke": 2_000,
    "issued": 20_000,
    "scopes refused": 2_000,
    "too long a chain": 1_000,
    "without the key": 2_000,
    "connected": 2_000,
    "refreshed elsewhere": 1_000,
    "refreshed too late": 500,
    "handed out": 500,
    "not whole": 500,
}


@pytest.mark.threat("16f")
def test_nothing_that_is_issued_ever_widens() -> None:
    """A hundred thousand steps: scopes, actors, expiry and key stay within what they come from."""
    tally = machine.run(STEPS)

    assert tally.steps >= STEPS
    assert not tally.below(FEWEST), tally


def _without_the_parents_scopes(
    parent: Delegation, target: TokenLimits, *rest: object, **more: object
) -> Delegation:
    return _ATTENUATE(parent._replace(audience="https://elsewhere.test"), target, *rest, **more)  # type: ignore[arg-type]


def _without_the_parents_end(parent: Delegation, *rest: object, **more: object) -> Delegation:
    later = parent._replace(expires_at=parent.expires_at + timedelta(days=1))
    return _ATTENUATE(later, *rest, **more)  # type: ignore[arg-type]


def _without_the_chain(parent: Delegation, *rest: object, **more: object) -> Delegation:
    return _ATTENUATE(parent._replace(actors=()), *rest, **more)  # type: ignore[arg-type]


def _bound_to_no_key(*parts: object, **more: object) -> Delegation:
    return _ATTENUATE(*parts, **more)._replace(jkt=None)  # type: ignore[arg-type]


def _more_than_was_agreed_to(asked: frozenset[str], answered: frozenset[str]) -> UpstreamScopes:
    return _LIMIT_UPSTREAM(asked | answered, answered)


def _more_than_was_granted(asked: frozenset[str], answered: frozenset[str]) -> UpstreamScopes:
    return _LIMIT_UPSTREAM(asked, asked | answered)


def _all_that_is_offered(
    requested: frozenset[str], connected: frozenset[str], offered: frozenset[str]
) -> frozenset[str]:
    return offered


_ATTENUATE, _LIMIT_UPSTREAM = attenuation.attenuate, attenuation.limit_upstream
_REVIVING = {
    **delegated_grants.TRANSITIONS,
    Cause.REFRESH: Transition(frozenset(GrantStatus), GrantStatus.ACTIVE),
}


@pytest.mark.parametrize(
    ("place", "name", "mutant"),
    [
        pytest.param(attenuation, "attenuate", _without_the_parents_scopes, id="without the parent's scopes"),
        pytest.param(attenuation, "attenuate", _without_the_parents_end, id="without the parent's end"),
        pytest.param(attenuation, "attenuate", _without_the_chain, id="without the chain"),
        pytest.param(attenuation, "attenuate", _bound_to_no_key, id="bound to no key"),
        pytest.param(attenuation, "limit_upstream", _more_than_was_agreed_to, id="more than was agreed to"),
        pytest.param(attenuation, "limit_upstream", _more_than_was_granted, id="more than was granted"),
        pytest.param(attenuation, "connection_scopes", _all_that_is_offered, id="all that is offered"),
        pytest.param(delegated_grants, "TRANSITIONS", _REVIVING, id="a refresh revives"),
    ],
)
def test_the_machine_finds_what_widens(
    monkeypatch: pytest.MonkeyPatch, place: object, name: str, mutant: object
) -> None:
    """The walk is no proof unless it fails for each rule that is left out."""
    monkeypatch.setattr(place, name, mutant)

    with pytest.raises(AssertionError):
        machine.run(STEPS, shrink=False)


@pytest.fixture(scope="module")
async def estate(scene: Scene) -> tuple[list[App], list[Resource]]:
    """Three applications in a ring, each the provider of a resource that the one before depends on."""
    company, zone = scene.company, scene.zone
    resources: list[Resource] = []
    apps: list[App] = []
    for number in range(3):
        app = await company.app(zone, f"ring{number}", dependencies=resources)
        apps.append(app)
        resources.append(
            await company.resource(
                zone, f"https://ring{number}.test", scopes=SCOPES[: number + 1], application_id=app.id
            )
        )
    return apps, resources


@pytest.mark.threat("16a", "16b", "16c", "16d")
async def test_growth_is_refused_with_the_right_code(
    scene: Scene, estate: tuple[list[App], list[Resource]]
) -> None:
    """Extra scopes, foreign audiences, two resources, and a resource that nobody declared."""
    apps, resources = estate
    ann = await scene.company.person(scene.zone, "growth@acme.test")
    asker, target = apps[2], resources[1]
    token = await scene.company.token(scene.zone, asker, ann)
    assert await scene.exchange(asker, token, target, "read")

    with pytest.raises(InvalidScope):
        await scene.exchange(asker, token, target, "read admin")
    with pytest.raises(InvalidTarget):
        await scene.exchange(asker, token, target, "read", audience="https://api.internal/admin")
    with pytest.raises(InvalidTarget):
        await scene.exchange(asker, token, "https://api.internal/admin", "read")
    with pytest.raises(InvalidTarget):
        await scene.exchange(apps[0], await scene.company.token(scene.zone, apps[0], ann), target, "read")
    form = {
        "grant_type": GRANT_TYPE,
        "subject_token": token,
        "subject_token_type": ACCESS_TOKEN,
        **asker.form,
    }
    one, two = (
        [*form.items(), *(("resource", each.identifier) for each in some)]
        for some in ([target], resources[:2])
    )
    assert await scene.post(one)
    with pytest.raises(InvalidTarget):
        await scene.post(two)

"""No chain of exchanges ever gains authority: random chains on a pure model, and each attack by itself.

The model composes the very functions that the pipeline composes; what it leaves out is storage, signatures
and policy, none of which can add a scope. `tests/end_to_end/test_chains.py` sends chains to a server.
"""

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.factories import App
from tests.support.scene import Scene

from runtime.domain.errors import InvalidScope, InvalidTarget, OAuthError
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.claims import MAX_CHAIN_DEPTH
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE, MAX_TIMES_IN_CHAIN, extend_chain
from runtime.domain.oauth.resources import ResourceIndex
from runtime.domain.oauth.scopes import Limits, narrow

SCOPES = ["read", "write", "admin", "call"]
CHAINS_PER_EXAMPLE = 100
EXAMPLES = 1_000


@dataclass(frozen=True)
class ModelResource:
    identifier: str
    scopes: frozenset[str]
    provider: str


@dataclass(frozen=True)
class ModelToken:
    """What matters of a token: whose hands it may be used in, for what, and who acted."""

    client: str
    audience: str
    scopes: frozenset[str]
    actors: tuple[str, ...]


@dataclass
class Model:
    """A zone reduced to what decides about authority."""

    resources: list[ModelResource]
    dependencies: dict[str, set[str]]
    consents: dict[tuple[str, str], frozenset[str]]
    index: ResourceIndex[ModelResource] = field(init=False)

    def __post_init__(self) -> None:
        self.index = ResourceIndex((each.identifier, False, each) for each in self.resources)

    def exchange(
        self, app: str, token: ModelToken, requested: list[str], scopes: frozenset[str] | None
    ) -> ModelToken:
        """One exchange. Raises OAuthError, or PermissionError for what provenance and consent refuse."""
        provided = {each.identifier for each in self.resources if each.provider == app}
        if token.client != app and token.audience not in provided:
            raise PermissionError("provenance")
        if len(requested) != 1 or (target := self.index.find(requested[0])) is None:
            raise InvalidTarget("")
        if target.identifier not in self.dependencies.get(app, set()):
            raise InvalidTarget("")
        narrowed = narrow(
            scopes,
            Limits(
                resource=target.scopes,
                grant=self.consents.get((app, target.identifier)),
                subject=token.scopes if token.audience == target.identifier else None,
                ceiling=target.scopes,
            ),
        )
        if narrowed.refused:
            raise InvalidScope("")
        return ModelToken(app, target.identifier, narrowed.issued, extend_chain(token.actors, app))


def random_model(random: Random) -> Model:
    apps = [f"app{number}" for number in range(random.randint(2, 6))]
    resources = [
        ModelResource(
            f"https://r{number}.test{random.choice(['', '/v1', '/v1/'])}",
            frozenset(random.sample(SCOPES, random.randint(0, len(SCOPES)))),
            random.choice(apps),
        )
        for number in range(random.randint(1, 6))
    ]
    identifiers = [each.identifier for each in resources]
    dependencies = {app: set(random.sample(identifiers, random.randint(0, len(resources)))) for app in apps}
    consents = {
        (app, each.identifier): frozenset(random.sample(SCOPES, random.randint(0, len(SCOPES))))
        for app in apps
        for each in resources
        if random.random() < 0.4
    }
    return Model(resources, dependencies, consents)


def holders(model: Model, token: ModelToken) -> list[str]:
    """Who may present the token."""
    return [token.client, *(each.provider for each in model.resources if each.identifier == token.audience)]


def random_target(random: Random, model: Model, app: str) -> list[str]:
    """A target as an attacker would write it: mostly plausible, sometimes grown, foreign or doubled."""
    declared = sorted(model.dependencies[app]) if random.random() < 0.7 else []
    one = random.choice(declared or [each.identifier for each in model.resources])
    if random.random() < 0.6:
        return [one]
    return random.choice(
        [
            [one],
            [one],
            [one + "/"],
            [one.upper()],
            [one + "/../admin"],
            ["https://api.internal/admin"],
            [one, random.choice(model.resources).identifier],
            [],
        ]
    )


def walk(random: Random) -> int:
    """One random chain of up to eight exchanges, each checked; how many were issued."""
    model = random_model(random)
    apps = list(model.dependencies)
    user_app = random.choice(apps)
    token = ModelToken(user_app, "https://issuer.test", frozenset({"openid"}), ())
    issued = 0
    for _ in range(8):
        app = random.choice(holders(model, token) if random.random() < 0.7 else apps)
        requested = random_target(random, model, app)
        asked = None if random.random() < 0.5 else frozenset(random.sample([*SCOPES, "root"], 1))
        try:
            new = model.exchange(app, token, requested, asked)
        except (OAuthError, PermissionError):
            continue
        check(model, app, token, new, asked)
        issued += 1
        if random.random() < 0.8:
            token = new
    return issued


def check(model: Model, app: str, token: ModelToken, new: ModelToken, asked: frozenset[str] | None) -> None:
    """What must hold of everything that is ever issued."""
    target = next(each for each in model.resources if each.identifier == new.audience)
    assert new.audience in model.dependencies[app]
    assert new.client == app
    assert new.scopes <= target.scopes
    assert asked is None or new.scopes <= asked
    assert new.scopes <= model.consents.get((app, target.identifier), new.scopes)
    if token.audience == new.audience:
        assert new.scopes <= token.scopes
    assert new.actors[0] == app
    assert new.actors[1:] == token.actors
    assert len(new.actors) <= MAX_CHAIN_DEPTH
    assert all(new.actors.count(actor) <= MAX_TIMES_IN_CHAIN for actor in new.actors)
    app_may_hold = token.client == app or any(
        each.provider == app and each.identifier == token.audience for each in model.resources
    )
    assert app_may_hold


@pytest.mark.threat("16f")
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False, note_method_calls=False))
def test_authority_never_grows(random: Random) -> None:
    """A hundred thousand chains: audience, scopes and actors stay within what each hop may have."""
    seed = random.getrandbits(64)
    chains = Random(seed)
    for _ in range(CHAINS_PER_EXAMPLE):
        walk(chains)


def test_the_model_issues_something() -> None:
    """The walk is no proof when every request is refused; a good part of them is not."""
    random = Random(7)
    issued = [walk(random) for _ in range(500)]

    assert sum(issued) > 300
    assert max(issued) >= 4


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

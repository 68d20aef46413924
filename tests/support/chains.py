"""Chains of token exchanges as an attacker asks for them, sent to a server, and what each may come to.

What may be issued is worked out here from what was set up, with none of the service's own functions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import cycle
from random import Random
from typing import Any
from urllib.parse import urlencode

import httpx
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.soak.wire import FORM, Answer, Wire, request
from tests.support.factories import App, Company, Person, company_of
from tests.support.scene import claims_of
from tests.support.server import Server

from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone
from runtime.services import epochs
from runtime.storage.sql import consents
from runtime.storage.sql.client_refs import ClientRef

LONGEST = 8  # exchanges in a chain
SCOPES = ("read", "write", "admin", "call")
BEYOND = "root"  # a scope that no resource has
_TYPE = "urn:ietf:params:oauth:token-type:access_token"
_DEEPEST, _MOST_OF_ONE = 8, 2  # actors in a chain, and how often one may be in it
_LIFETIME_SECONDS = 3600

# What is asked for beside a target, or in its place.
TRICKS = (
    "",
    "unknown",
    "below",
    "two resources",
    "another's audience",
    "an audience outside",
    "a refresh token",
)


@dataclass(frozen=True)
class Step:
    """One exchange as it is asked for; numbers choose among what there is."""

    presenter: int
    may_present: bool  # chosen among those who may present the token, not among all
    target: int
    is_declared: bool  # chosen among what the presenter declares, not among all
    trick: str
    scopes: tuple[str, ...] | None
    goes_on: bool  # what is issued is the next subject token


@dataclass(frozen=True)
class Held:
    """A token as it is known to have been issued."""

    token: str
    client: str
    audience: str
    scopes: frozenset[str]
    actors: tuple[str, ...]


@dataclass
class Estate:
    """A zone with applications and resources, and everything that decides about authority in it.

    Attributes:
        providers: resource -> the application that provides it.
        declared: application -> the resources it declares.
        consents: application that asks for consent -> resource -> what the person agreed to.
    """

    server: Server
    zone: Zone
    person: Person
    apps: dict[str, App]
    resources: dict[str, Resource]
    providers: dict[str, str]
    declared: dict[str, list[str]]
    consents: dict[str, dict[str, frozenset[str]]]
    subjects: dict[str, str] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"{self.zone.protocols.oauth2.issuer}/oauth/token"

    def presenters(self, held: Held) -> list[str]:
        """Who may present a token: its client, and who provides what it is for."""
        provider = self.providers.get(held.audience)
        return [held.client, *([provider] if provider and provider != held.client else [])]

    def allowed(self, presenter: str, target: str, held: Held) -> frozenset[str]:
        """The scopes that may be issued at most."""
        scopes = frozenset(self.resources[target].scopes or ())
        if presenter in self.consents:
            scopes &= self.consents[presenter].get(target, frozenset())
        return scopes & held.scopes if held.audience == target else scopes


def estates(server: Server, random: Random, count: int) -> list[Estate]:
    """So many zones, each set up by chance."""
    company = company_of(server)
    return [server.call(lambda _: _estate(server, company, random)) for _ in range(count)]


async def _estate(server: Server, company: Company, random: Random) -> Estate:
    zone = await company.zone("Chains")
    names = [f"app{number}" for number in range(random.randint(2, 5))]
    asking = {name for name in names if random.random() < 0.3}
    apps = {
        name: await company.app(zone, name, consent="required" if name in asking else "implicit")
        for name in names
    }
    resources, providers = {}, {}
    for number in range(random.randint(2, 5)):
        identifier, provider = f"https://r{number}.test/v1", random.choice(names)
        scopes = random.sample(SCOPES, random.randint(0, len(SCOPES)))
        resources[identifier] = await company.resource(
            zone, identifier, scopes=scopes, application_id=apps[provider].id
        )
        providers[identifier] = provider
    declared = {
        name: random.sample(sorted(resources), random.randint(1, len(resources) - 1)) for name in names
    }
    person = await company.person(zone, "chain@acme.test")
    made = Estate(server, zone, person, apps, resources, providers, declared, {name: {} for name in asking})
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, trust_env=False) as http:
        for name, targets in declared.items():
            for each in targets:
                path = f"/zones/{zone.id}/applications/{apps[name].id}/dependencies/{resources[each].id}"
                (await http.put(path)).raise_for_status()
    for name in asking:
        for each in random.sample(declared[name], random.randint(0, len(declared[name]))):
            agreed = frozenset(random.sample(SCOPES, random.randint(1, len(SCOPES))))
            await _agree(company, made, name, each, agreed)
    for name, app in apps.items():
        made.subjects[name] = await company.token(zone, app, person, lifetime=timedelta(hours=8))
    return made


async def _agree(company: Company, made: Estate, name: str, target: str, scopes: frozenset[str]) -> None:
    """Keep what the person agrees to, as the consent page does."""
    services, user_id = company.services, made.person.user.id
    async with services.database.transaction() as conn:
        await consents.record(
            conn,
            [consents.ConsentRecord(made.resources[target].id, scopes, "app.example")],
            zone_id=made.zone.id,
            user_id=user_id,
            client_ref=ClientRef(application_id=made.apps[name].id),
            now=services.clock(),
        )
        moved = await epochs.bump_user(conn, made.zone.id, user_id)
    await services.epochs.publish(moved)
    made.consents[name][target] = scopes


STEPS = st.builds(
    Step,
    presenter=st.integers(0, 20),
    may_present=st.sampled_from([True, True, True, False]),
    target=st.integers(0, 20),
    is_declared=st.sampled_from([True, True, True, False]),
    trick=st.sampled_from([*[""] * 10, *TRICKS]),
    scopes=st.none() | st.lists(st.sampled_from([*SCOPES, BEYOND]), min_size=1, max_size=3).map(tuple),
    goes_on=st.sampled_from([True, True, True, True, False]),
)


@dataclass
class Tally:
    """How much a run has shown: chains walked, exchanges asked for, tokens issued, refusals by their code."""

    chains: int = 0
    issued: int = 0
    deepest: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        codes = ", ".join(f"{count:,} {code}" for code, count in sorted(self.refused.items()))
        return (
            f"{self.chains:,} chains, {self.issued:,} tokens issued ({self.deepest} actors at most), {codes}"
        )


def walk(
    made: list[Estate],
    *,
    examples: int,
    chance: int,
    until: Callable[[], bool] = lambda: False,
    urls: Sequence[str] = (),
) -> Tally:
    """Walk so many generated chains over these zones. Raises AssertionError for what must not be.

    Args:
        chance: what repeats a run.
        until: no more are walked once it says so.
        urls: of the nodes that exchanges are sent to in turn; by default the zones' server alone.
    """
    tally, wires = Tally(), zip(*(_wires(url) for url in urls or [made[0].server.url]), strict=True)

    @seed(chance)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, len(made) - 1), st.integers(0, 20), st.lists(STEPS, min_size=1, max_size=LONGEST))
    def chains(which: int, first: int, steps: list[Step]) -> None:
        if not until():
            _chain(cycle(next(wires)), made[which], first, steps, tally)

    chains()
    return tally


def _wires(url: str) -> Iterator[Wire]:
    """A connection for each chain, from many addresses in turn: none is slowed for its many requests."""
    number = 0
    while True:
        with Wire(url, f"127.16.{number // 250 % 250}.{number % 250 + 1}") as wire:
            for _ in range(20):
                yield wire
        number += 1


def _chain(wires: Iterator[Wire], estate: Estate, first: int, steps: list[Step], tally: Tally) -> None:
    client = _pick(sorted(estate.apps), first)
    held = Held(
        estate.subjects[client], client, estate.zone.protocols.oauth2.issuer, frozenset({"openid"}), ()
    )
    for step in steps:
        presenter = _pick(
            estate.presenters(held) if step.may_present else sorted(estate.apps), step.presenter
        )
        target = _pick(
            estate.declared[presenter] if step.is_declared else sorted(estate.resources), step.target
        )
        asked = _asked(estate, held, presenter, target, step)
        answer = next(wires).send(request("POST", estate.endpoint, urlencode(asked).encode(), FORM))
        wrong = _wrong(estate, held, presenter, target, step)
        told = f"{presenter} asks for {target} {step}, holding {held}: {answer}; wrong is {sorted(wrong)}"
        if wrong:
            assert answer.status == 400, told
            assert answer.json["error"] in wrong, told
            assert "access_token" not in answer.json, told
            tally.refused[answer.json["error"]] = tally.refused.get(answer.json["error"], 0) + 1
            continue
        assert answer.status == 200, told
        issued = _checked(estate, held, presenter, target, step, answer, told)
        tally.issued, tally.deepest = tally.issued + 1, max(tally.deepest, len(issued.actors))
        held = issued if step.goes_on else held
    tally.chains += 1


def _asked(estate: Estate, held: Held, presenter: str, target: str, step: Step) -> list[tuple[str, str]]:
    """The form of one exchange."""
    others = [each for each in sorted(estate.resources) if each != target]
    resource = {"unknown": "https://api.internal/admin", "below": f"{target}/admin"}.get(step.trick, target)
    form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", held.token),
        ("subject_token_type", _TYPE),
        ("resource", resource),
        *estate.apps[presenter].form.items(),
    ]
    if step.scopes is not None:
        form.append(("scope", " ".join(step.scopes)))
    extra = {
        "two resources": ("resource", _pick(others, step.target)),
        "another's audience": ("audience", _pick(others, step.target)),
        "an audience outside": ("audience", "https://api.internal/admin"),
        "a refresh token": ("requested_token_type", "urn:ietf:params:oauth:token-type:refresh_token"),
    }
    return [*form, extra[step.trick]] if step.trick in extra else form


def _wrong(estate: Estate, held: Held, presenter: str, target: str, step: Step) -> set[str]:
    """The codes that one of these exchanges may be refused with; none when it has to succeed."""
    wrong = set()
    if presenter not in estate.presenters(held):
        wrong.add("invalid_grant")
    if step.trick == "a refresh token":
        wrong.add("invalid_request")
    elif step.trick:
        wrong.add("invalid_target")
    if target not in estate.declared[presenter]:
        wrong.add("invalid_target")
    if presenter in estate.consents and target not in estate.consents[presenter]:
        wrong.add("access_denied")
    if step.scopes is not None and not set(step.scopes) <= estate.allowed(presenter, target, held):
        wrong.add("invalid_scope")
    if len(held.actors) >= _DEEPEST or held.actors.count(presenter) >= _MOST_OF_ONE:
        wrong.add("invalid_request")
    return wrong


def _checked(
    estate: Estate, held: Held, presenter: str, target: str, step: Step, answer: Answer, told: str
) -> Held:
    """The token that was issued, which is exactly what was asked for and may be had."""
    claims: dict[str, Any] = claims_of(answer.json["access_token"])
    expected = estate.allowed(presenter, target, held) if step.scopes is None else frozenset(step.scopes)
    actors, act = [], claims.get("act")
    while act:
        actors.append(act["sub"])
        act = act.get("act")
    assert frozenset(str(claims.get("scope", "")).split()) == expected, told
    assert frozenset(answer.json.get("scope", "").split()) == expected, told
    assert claims["aud"] == target, told
    assert claims["sub"] == estate.person.user.identifier, told
    assert claims["client_id"] == estate.apps[presenter].client_id, told
    assert tuple(actors) == (presenter, *held.actors), told
    assert claims["sid"] == estate.person.session_id, told
    assert claims["exp"] <= claims["iat"] + _LIFETIME_SECONDS, told
    return Held(answer.json["access_token"], presenter, target, expected, tuple(actors))


def _pick(among: list[str], number: int) -> str:
    return among[number % len(among)]

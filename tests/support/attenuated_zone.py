"""The attenuation machine over a real zone: its token endpoint, its database and its management services.

As `tests.support.attenuation`, but whatever is issued comes from the service. Beside what never widens, the
machine knows what has ended (sessions, tokens, grants, the user's word), and that none of it comes back.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from tests.runtime.tokens.conftest import ask, granted
from tests.support.attenuation import KEYS, SCOPES, Dice, Tally
from tests.support.factories import App, Person, found_company, opened_parts
from tests.support.possession import Holder
from tests.support.scene import Scene, acting, claims_of
from tests.support.server import migrated

from runtime.domain.errors import OAuthError
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import DELEGATED_GRANT, RESOURCE
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.resources import RequestedResource
from runtime.services import epochs
from runtime.services.authority import session_revocation
from runtime.services.decision_log import Decision
from runtime.services.grants import refresh_token_rotation
from runtime.services.issuing.token_responses import UserAuthorization
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.management.zones import applications
from runtime.services.tokens import revocation
from runtime.storage.sql import consents, refresh_families, session_users
from runtime.storage.sql.consents import ConsentRecord

_T = TypeVar("_T")
_Scopes = frozenset[str]
NAMES = ("app0", "app1", "asking")  # the last one has to ask the user
_DICE_BYTES, _STEPS_PER_DRAW, _DRAWS_PER_RUN, _KEPT = 10, 10, 20, 10
_DEEPEST, _MOST_OF_ONE = 8, 2


@dataclass
class Issued:
    """A token of the zone, and what is known of where it comes from."""

    text: str
    client: str
    session_id: str
    parent: "Issued | None" = None
    is_revoked: bool = False
    claims: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.claims = claims_of(self.text)

    @property
    def scopes(self) -> _Scopes:
        return frozenset(str(self.claims.get("scope", "")).split())

    @property
    def jkt(self) -> str | None:
        jkt: str | None = self.claims.get("cnf", {}).get("jkt")
        return jkt


@dataclass
class Stage:
    """A zone with three applications, each the provider of a resource, and the loop that it runs on."""

    runner: asyncio.Runner
    scene: Scene
    apps: dict[str, App]
    resources: dict[str, Resource]
    providers: dict[str, str]
    keys: dict[str, Holder]

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self.runner.run(work)


async def _stage(runner: asyncio.Runner, stack: AsyncExitStack, directory: Path) -> Stage:
    database = directory / "zonewright.db"
    await asyncio.to_thread(shutil.copy, migrated(), database)
    services = await stack.enter_async_context(
        opened_parts(data_dir=directory, database_url=f"sqlite+aiosqlite:///{database}", redis_url=None)
    )
    company = await found_company(services)
    zone = await company.zone()
    apps = {
        name: await company.app(zone, name, consent="required" if name == "asking" else "implicit")
        for name in NAMES
    }
    resources = {
        f"https://r{number}.test": await company.resource(
            zone, f"https://r{number}.test", scopes=SCOPES, application_id=apps[NAMES[number]].id
        )
        for number in range(len(NAMES))
    }
    providers = dict(zip(resources, NAMES, strict=True))
    keys = {name: Holder() for name in KEYS if name}
    return Stage(runner, Scene(company, zone), apps, resources, providers, keys)


class AttenuatedZone(RuleBasedStateMachine):
    """Sign-ins, exchanges, refreshes, consents, revocations and changes of configuration, at random."""

    stage: ClassVar[Stage]
    tally: ClassVar[Tally] = Tally()

    def __init__(self) -> None:
        super().__init__()
        self.scopes = dict.fromkeys(self.stage.resources, frozenset(SCOPES))
        self.declared = {name: set(self.stage.resources) for name in NAMES}
        self.words: dict[str, _Scopes] = {}  # resource -> what `asking` may do there
        self.ended_grants: set[str] = set()
        self.grants: dict[str, str] = {}
        self.revoked: set[str] = set()  # sessions
        self.tokens: list[Issued] = []
        self.families: list[tuple[str, str, str, dict[str, _Scopes]]] = []
        self.person: Person = self.stage.run(self._begin())

    async def _begin(self) -> Person:
        """A user of this run alone, in a zone that is as it was."""
        for identifier in self.scopes:
            await self._set_scopes(identifier)
        for name in NAMES:
            await self._set_dependencies(name)
        scene = self.stage.scene
        person = await scene.company.person(scene.zone, f"{new_id()}@acme.test")
        asking = await self._client("asking")
        await scene.company.agree(scene.zone, asking.client_ref, person.user, "openid")
        return person

    @rule(thrown=st.binary(min_size=_DICE_BYTES * _STEPS_PER_DRAW, max_size=_DICE_BYTES * _STEPS_PER_DRAW))
    def walk(self, thrown: bytes) -> None:
        """Several steps; more than every other one is an exchange."""
        steps = (
            self.sign_in,
            *[self.exchange] * 9,
            self.refresh,
            self.refresh,
            self.say,
            self.change,
            self.end,
        )
        for start in range(0, len(thrown), _DICE_BYTES):
            dice = Dice(thrown[start : start + _DICE_BYTES])
            self.stage.run(dice.one(steps)(dice))
            self.tally.steps += 1

    async def sign_in(self, dice: Dice) -> None:
        """A session with a token for the zone, and a refresh token for some of the resources."""
        scene, name = self.stage.scene, dice.one(NAMES)
        person = await scene.company.signed_in(scene.zone, self.person.user)
        token = await scene.company.token(scene.zone, self.stage.apps[name], person)
        self._keep(Issued(token, name, person.session_id))
        authorized = {each: dice.some(SCOPES) for each in self.scopes}
        zone = await scene.services.zones.get(scene.zone.id)
        async with scene.services.database.transaction() as conn:
            found = await session_users.by_session(conn, person.session_id, zone_id=zone.id)
            assert found is not None
            resources = tuple(
                RequestedResource(id=self.stage.resources[each].id, identifier=each, scopes=scopes)
                for each, scopes in authorized.items()
            )
            authority = UserAuthorization(*found, await self._client(name), frozenset({"openid"}), resources)
            text, family = refresh_token_rotation.new_family(
                scene.services, zone, authority, new_id(), scene.services.clock()
            )
            await refresh_families.add(conn, family)
        self.families = [(text, name, person.session_id, authorized), *self.families][:3]

    async def refresh(self, dice: Dice) -> None:
        """A token for one resource, from a refresh token, with fewer scopes or all."""
        if not self.families:
            return
        number = dice.number(len(self.families))
        text, name, session_id, authorized = self.families[number]
        target, asked, key = dice.one(sorted(self.scopes)), dice.asked(), dice.one(KEYS)
        form = [("grant_type", "refresh_token"), ("refresh_token", text), ("resource", target)]
        form += [
            *self.stage.apps[name].form.items(),
            *([("scope", " ".join(sorted(asked)))] if asked else []),
        ]
        try:
            answer = await self.stage.scene.post(form, proof=self._proof(key))
        except OAuthError as refusal:
            self._count(f"refresh: {refusal.code}")
            return
        self.families[number] = (answer["refresh_token"], name, session_id, authorized)
        issued = Issued(answer["access_token"], name, session_id)
        assert session_id not in self.revoked
        assert issued.scopes <= authorized[target] | {"openid"}
        assert asked is None or not asked or issued.scopes <= asked
        if issued.claims["aud"] == target:
            self._check(issued, key)
        self._keep(issued)

    async def exchange(self, dice: Dice) -> None:
        """Somebody presents a token and asks for any resource, with any scopes and any key."""
        if not self.tokens:
            return
        parent = dice.one(self.tokens)
        sender = parent.client if dice.number(3) == 0 else dice.one(NAMES)
        target, asked, key = dice.one(sorted(self.scopes)), dice.asked(), dice.one(KEYS)
        scope = None if asked is None else " ".join(sorted(asked))
        wrong = self._wrong(parent, sender, target, asked or None, key)
        app = self.stage.apps[sender]
        try:
            answer = await self.stage.scene.exchange(app, parent.text, target, scope, proof=self._proof(key))
        except OAuthError as refusal:
            self._count(refusal.code)
            if not wrong and not self._may_have_ended(parent):
                raise AssertionError(f"refused: {refusal.code}, {refusal.internal}") from refusal
            return
        issued = Issued(answer["access_token"], sender, parent.session_id, parent)
        assert not wrong, (wrong, issued.claims, parent.claims)
        assert issued.claims["aud"] == target
        assert not asked or issued.scopes == asked
        assert acting(issued.claims)[0] == sender
        self._check(issued, key)
        self._keep(issued)

    async def say(self, dice: Dice) -> None:
        """The user lets the asking application do something at a resource, or authorizes a grant anew."""
        scene, target = self.stage.scene, dice.one(sorted(self.scopes))
        if dice.number(2):
            self.words[target] = dice.some(SCOPES)
            await self._record(target, self.words[target])
        else:
            self.grants[target] = await granted(scene, self.person, self.stage.resources[target])
            self.ended_grants.discard(target)

    async def change(self, dice: Dice) -> None:
        """A resource has other scopes, or an application declares others."""
        target, name = dice.one(sorted(self.scopes)), dice.one(NAMES)
        if dice.number(2):
            self.scopes[target] = dice.some(SCOPES)
            await self._set_scopes(target)
        else:
            self.declared[name] ^= {target}
            await self._set_dependencies(name)

    async def end(self, dice: Dice) -> None:
        """A session, a token or a grant is revoked."""
        scene, what = self.stage.scene, dice.number(3)
        target = dice.one(sorted(self.scopes))
        if what == 0 and self.families:
            _, _, session_id, _ = dice.one(self.families)
            await session_revocation.end(scene.services, scene.zone.id, session_id=session_id)
            self.revoked.add(session_id)
        elif what == 1 and target in self.grants and target not in self.ended_grants:
            await scene.company.update(DELEGATED_GRANT, scene.zone.id, self.grants[target], status="revoked")
            self.ended_grants.add(target)
            self.words.pop(target, None)
        elif what == 2 and (exchanged := [each for each in self.tokens if "act" in each.claims]):
            await self._revoke(dice.one(exchanged))

    async def _revoke(self, token: Issued) -> None:
        scene = self.stage.scene
        now, zone = scene.services.clock(), await scene.services.zones.get(scene.zone.id)
        decision = Decision(zone.organization_id, zone.id, now, "test-request")
        client = await self._client(token.client)
        await revocation.revoke(scene.services, zone, client, token.text, now, decision)
        for each in self.tokens:  # the cache may have handed out the same one twice
            each.is_revoked |= each.claims["jti"] == token.claims["jti"]

    def _wrong(
        self, parent: Issued, sender: str, target: str, asked: _Scopes | None, key: str | None
    ) -> list[str]:
        """Why nothing may be issued; nothing when it may."""
        acted = self._acted(parent, sender)
        provided = self.stage.providers.get(parent.claims["aud"]) == sender
        allowed = self._allowed(sender, target, parent)
        reasons = {
            "revoked session": parent.session_id in self.revoked,
            "revoked token": parent.is_revoked,
            "not theirs": sender != parent.client and not provided,
            "without the key": sender == parent.client and parent.jkt not in (None, self._jkt(key)),
            "not declared": target not in self.declared[sender],
            "no word": sender == "asking" and target not in self.words,
            "revoked grant": target in self.ended_grants,
            "scopes": asked is not None and bool(asked - allowed),
            "chain": len(acted) >= _DEEPEST or acted.count(sender) >= _MOST_OF_ONE,
        }
        return [reason for reason, holds in reasons.items() if holds]

    def _may_have_ended(self, parent: Issued) -> bool:
        """Whether what the subject token itself rests on may be gone: the user's word, a grant, a scope."""
        line: list[Issued] = [parent]
        while (above := line[-1].parent) is not None:
            line.append(above)
        names = {each.client for each in line} | set(acting(parent.claims))
        return "asking" in names or any(each.claims["aud"] in self.ended_grants for each in line)

    def _acted(self, parent: Issued, sender: str) -> tuple[str, ...]:
        return acting(parent.claims) or (() if sender == parent.client else (parent.client,))

    def _allowed(self, name: str, target: str, parent: Issued | None) -> _Scopes:
        within = self.scopes[target]
        if name == "asking":
            within &= self.words.get(target, frozenset())
        if parent is not None and parent.claims["aud"] == target:
            within &= parent.scopes
        return within

    def _check(self, issued: Issued, key: str | None) -> None:
        """What must hold of everything that the zone issues for a resource."""
        claims, parent = issued.claims, issued.parent
        assert issued.scopes <= self._allowed(issued.client, claims["aud"], parent)
        assert claims["aud"] in self.declared[issued.client]
        assert claims["aud"] not in self.ended_grants
        assert claims["sub"] == self.person.user.identifier
        assert claims["sid"] == issued.session_id
        assert issued.jkt == self._jkt(key)
        while parent is not None:
            assert claims["exp"] <= parent.claims["exp"]
            assert parent.claims["sub"] == claims["sub"]
            parent = parent.parent
        if issued.parent is not None:
            assert acting(claims) == (issued.client, *self._acted(issued.parent, issued.client))

    async def _client(self, name: str) -> Any:
        zone = await self.stage.scene.services.zones.get(self.stage.scene.zone.id)
        found = await zone.clients.get(self.stage.apps[name].client_id)
        assert found is not None
        return found

    async def _record(self, target: str, scopes: _Scopes) -> None:
        """Keep what the user agrees to, as the consent page does."""
        scene, user_id = self.stage.scene, self.person.user.id
        client = await self._client("asking")
        async with scene.services.epochs.transaction() as (conn, bumped):
            bumped.update(await epochs.bump_user(conn, scene.zone.id, user_id))
            await consents.record(
                conn,
                [ConsentRecord(self.stage.resources[target].id, scopes, "app.example")],
                zone_id=scene.zone.id,
                user_id=user_id,
                client_ref=client.client_ref,
                now=scene.services.clock(),
            )

    async def _set_scopes(self, target: str) -> None:
        scene = self.stage.scene
        scopes = sorted(self.scopes[target])
        await scene.company.update(RESOURCE, scene.zone.id, self.stage.resources[target].id, scopes=scopes)

    async def _set_dependencies(self, name: str) -> None:
        company = self.stage.scene.company
        async with unit_of_work(company.services, company.caller, new_id()) as unit:
            ids = [self.stage.resources[each].id for each in self.declared[name]]
            await applications.set_dependencies(unit, self.stage.apps[name].application, ids)

    def _jkt(self, key: str | None) -> str | None:
        return self.stage.keys[key].jkt if key else None

    def _proof(self, key: str | None) -> str | None:
        endpoint = str(self.stage.scene.zone.protocols.oauth2.token_endpoint)
        return self.stage.keys[key].proof(endpoint) if key else None

    def _keep(self, issued: Issued) -> None:
        self.tokens = [issued, *self.tokens][:_KEPT]
        self._count("issued")

    def _count(self, what: str) -> None:
        self.tally.seen[what] += 1

    def teardown(self) -> None:
        """Nothing that has been revoked is active, for those who may ask."""
        for token in self.tokens:
            if token.is_revoked or token.session_id in self.revoked:
                provider = self.stage.providers.get(token.claims["aud"])
                if provider is not None:
                    told = self.stage.run(ask(self.stage.scene, self.stage.apps[provider], token.text))
                    assert told == {"active": False}


def run(steps: int) -> Tally:
    """Take at least so many random steps in a new zone. Raises AssertionError for what must not be."""
    AttenuatedZone.tally = Tally()
    with (
        asyncio.Runner() as runner,
        tempfile.TemporaryDirectory(prefix="zonewright-attenuation-") as directory,
    ):
        stack = AsyncExitStack()
        try:
            AttenuatedZone.stage = runner.run(_stage(runner, stack, Path(directory)))
            while (left := steps - AttenuatedZone.tally.steps) > 0:
                run_state_machine_as_test(
                    AttenuatedZone,
                    settings=settings(
                        max_examples=-(-left // (_DRAWS_PER_RUN * _STEPS_PER_DRAW)),
                        stateful_step_count=_DRAWS_PER_RUN,
                        phases=(Phase.generate,),  # the zone cannot be put back for a shorter run
                        deadline=None,
                        database=None,
                        suppress_health_check=list(HealthCheck),
                    ),
                )
        finally:
            runner.run(stack.aclose())
    return AttenuatedZone.tally

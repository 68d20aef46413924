"""The attenuation machine over a real zone: its token endpoint, its database and its management services.

As `tests.support.attenuation`, but whatever is issued comes from the service. Beside what never widens, the
machine knows what has ended (sessions, tokens, grants, the user's word, an application with who is
accountable for it), and that none of it comes back. One resource has its tokens from an outside provider,
over HTTP: the user connects an account there by the link of a refused exchange, and the provider grants what
it likes.
"""

import asyncio
import random
import secrets
import shutil
import tempfile
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from sqlalchemy import select, update
from tests.runtime.tokens.conftest import ask, granted
from tests.support.attenuated_accounts import UpstreamAccounts, connect, upstream_accounts
from tests.support.attenuation import BEYOND, KEYS, SCOPES, Dice, Tally
from tests.support.factories import App, Person, found_company, opened_parts
from tests.support.jumping_clock import jumping
from tests.support.possession import Holder
from tests.support.scene import Scene, acting, claims_of
from tests.support.server import migrated

from runtime.domain.errors import OAuthError, ServiceError
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import DELEGATED_GRANT, PROVIDER, RESOURCE, USER
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.domain.oauth.resources import RequestedResource
from runtime.services import epochs
from runtime.services.authority import session_revocation
from runtime.services.clock import issued_until
from runtime.services.decision_log import Decision
from runtime.services.grants import refresh_token_rotation
from runtime.services.issuing.token_responses import UserAuthorization
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.management.zones import applications
from runtime.services.tokens import revocation
from runtime.services.vault import credential_cache
from runtime.services.zone_settings import set_zone_setting
from runtime.storage.sql import consents, refresh_families, session_users
from runtime.storage.sql.consents import ConsentRecord
from runtime.storage.sql.tables import METADATA, vault_tokens
from runtime.storage.sql.vault_tokens import VaultPlace

_T = TypeVar("_T")
_Scopes = frozenset[str]
NAMES = ("app0", "app1", "asking")  # the last one has to ask the user
ENDING = "app1"  # ends with who is accountable for it
ELSEWHERE = "https://tracker.test"  # the resource whose tokens an outside provider issues
_DICE_BYTES, _STEPS_PER_USER, _KEPT = 16, 200, 10
_DEEPEST, _MOST_OF_ONE = 8, 2


@dataclass
class Issued:
    """A token of the zone, and what is known of where it comes from."""

    text: str
    client: str
    session_id: str
    parent: "Issued | None" = None
    is_revoked: bool = False  # by itself, or with an application or a grant that it went through
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
    """A zone with three applications, each the provider of a resource, and the loop that it runs on.

    Attributes:
        resources: those three, and the one elsewhere.
        providers: resource -> the application that provides it.
        owner: who is accountable for one of the applications.
        upstream: the outside provider, which is the zone's provider of that id.
        ended_at: the second in which that application ended last: what was issued in it to, or through, the
            application is refused for good, since times in tokens are whole seconds.
    """

    runner: asyncio.Runner
    scene: Scene
    apps: dict[str, App]
    resources: dict[str, Resource]
    providers: dict[str, str]
    keys: dict[str, Holder]
    owner: User
    upstream: UpstreamAccounts
    upstream_id: str
    ended_at: int = 0

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self.runner.run(work)


async def _stage(runner: asyncio.Runner, stack: AsyncExitStack, directory: Path) -> Stage:
    database = directory / "zonewright.db"
    await asyncio.to_thread(shutil.copy, migrated(), database)
    services = await stack.enter_async_context(
        opened_parts(data_dir=directory, database_url=f"sqlite+aiosqlite:///{database}", redis_url=None)
    )
    stack.enter_context(jumping(services))
    company = await found_company(services)
    zone = await company.zone()
    await set_zone_setting(services, zone.id, "require-active-accountable", "on")
    owner = await company.user(zone, "owner@acme.test")
    apps = {
        name: await company.app(
            zone,
            name,
            consent="required" if name == "asking" else "implicit",
            accountable_user_id=owner.id if name == ENDING else None,
        )
        for name in NAMES
    }
    upstream = stack.enter_context(upstream_accounts())
    provider = await company.create(PROVIDER, zone.id, **upstream.settings)
    resources = {
        f"https://r{number}.test": await company.resource(
            zone, f"https://r{number}.test", scopes=SCOPES, application_id=apps[NAMES[number]].id
        )
        for number in range(len(NAMES))
    }
    providers = dict(zip(resources, NAMES, strict=True))
    resources[ELSEWHERE] = await company.resource(
        zone, ELSEWHERE, scopes=SCOPES, credential_provider_id=provider.id
    )
    keys = {name: Holder() for name in KEYS if name}
    scene = Scene(company, zone)
    return Stage(runner, scene, apps, resources, providers, keys, owner, upstream, provider.id)


class AttenuatedZone:
    """Sign-ins, exchanges, refreshes, connections, consents, revocations and changes, at random."""

    stage: ClassVar[Stage]
    tally: ClassVar[Tally] = Tally()

    def __init__(self) -> None:
        self.scopes = dict.fromkeys(self.stage.resources, frozenset(SCOPES))
        self.declared = {name: set(self.stage.resources) for name in NAMES}
        self.words: dict[str, _Scopes] = {}  # resource -> what `asking` may do there
        self.ended_grants: set[str] = set()
        self.grants: dict[str, str] = {}
        self.sessions: set[str] = set()
        self.revoked: set[str] = set()  # sessions
        self.account: tuple[str, _Scopes] | None = None  # elsewhere: the token, and what it is connected for
        self.is_disabled = False
        self.is_suspended = False
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

    def walk(self, chance: random.Random) -> None:
        """Several steps; more than every other one is an exchange."""
        steps = (
            self.sign_in,
            *[self.exchange] * 7,
            *[self.hand_out] * 4,
            self.refresh,
            self.refresh,
            self.say,
            self.change,
            self.end,
            self.age,
            self.switch,
        )
        for _ in range(_STEPS_PER_USER):
            dice = Dice(chance.randbytes(_DICE_BYTES))
            is_over = self.is_disabled or self.is_suspended
            step = self.switch if is_over and dice.number(3) == 0 else dice.one(steps)
            self.tally.taken[step.__name__] += self.stage.run(step(dice))

    async def sign_in(self, dice: Dice) -> bool:
        """A session with a token for the zone, and a refresh token for some of the resources."""
        scene, name = self.stage.scene, dice.one(NAMES)
        if self.is_disabled or self._is_ended(name):
            return False
        person = await scene.company.signed_in(scene.zone, self.person.user)
        self.sessions.add(person.session_id)
        token = await scene.company.token(scene.zone, self.stage.apps[name], person)
        self._keep(Issued(token, name, person.session_id))
        authorized = {each: dice.some(SCOPES) for each in self.stage.providers}
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
        return True

    async def refresh(self, dice: Dice) -> bool:
        """A token for one resource, from a refresh token, with fewer scopes or all."""
        if not self.families:
            return False
        number = dice.number(len(self.families))
        text, name, session_id, authorized = self.families[number]
        target, asked, key = dice.one(sorted(authorized)), dice.asked(), dice.one(KEYS)
        form = [("grant_type", "refresh_token"), ("refresh_token", text), ("resource", target)]
        form += [
            *self.stage.apps[name].form.items(),
            *([("scope", " ".join(sorted(asked)))] if asked else []),
        ]
        try:
            answer = await self.stage.scene.post(form, proof=self._proof(key), address=self._address())
        except OAuthError as refusal:
            self._count(f"refresh: {refusal.code}")
            return True
        self.families[number] = (answer["refresh_token"], name, session_id, authorized)
        issued = Issued(answer["access_token"], name, session_id)
        assert session_id not in self.revoked
        assert not self.is_disabled
        assert not self._is_ended(name)
        assert issued.scopes <= authorized[target] | {"openid"}
        assert asked is None or not asked or issued.scopes <= asked
        if issued.claims["aud"] == target:
            self._check(issued, key)
        self._keep(issued)
        return True

    async def exchange(self, dice: Dice, presented: Issued | None = None, sender: str = "") -> bool:
        """Somebody presents a token and asks for any resource, with any scopes and any key."""
        if not self.tokens:
            return False
        parent, sender = self._presented(dice, presented, sender)
        target, asked, key = self._target(dice, parent), dice.asked(), dice.one(KEYS)
        scope = None if asked is None else " ".join(sorted(asked))
        wrong = self._wrong(parent, sender, target, asked or None, key)
        try:
            answer = await self._asked(sender, parent, target, scope, key)
        except OAuthError as refusal:
            self._count(refusal.code)
            if not wrong and not self._may_have_ended(parent):
                raise AssertionError(f"refused: {refusal.code}, {refusal.internal}") from refusal
            return True
        issued = Issued(answer["access_token"], sender, parent.session_id, parent)
        assert not wrong, (wrong, issued.claims, parent.claims)
        assert issued.claims["aud"] == target
        assert not asked or issued.scopes == asked
        assert acting(issued.claims)[0] == sender
        self._check(issued, key)
        self._keep(issued)
        return True

    async def _asked(
        self, sender: str, parent: Issued, target: str, scope: str | None, key: str | None
    ) -> dict[str, Any]:
        """The answer to an exchange."""
        app, proof = self.stage.apps[sender], self._proof(key)
        address = self._address()
        return await self.stage.scene.exchange(app, parent.text, target, scope, proof=proof, address=address)

    def _address(self) -> str:
        """Where a request comes from: nobody has to wait for having been refused too often."""
        return f"198.51.{self.tally.steps // 250 % 250}.{self.tally.steps % 250}"

    def _presented(self, dice: Dice, parent: Issued | None = None, sender: str = "") -> tuple[Issued, str]:
        """A token, and the application that presents it."""
        live = [each for each in self.tokens if not self._is_revoked(each)]
        among = live if live and dice.number(4) else self.tokens
        parent = parent or next((each for each in among if each.client == sender), dice.one(among))
        return parent, sender or parent.client if dice.number(2) == 0 else dice.one(NAMES)

    def _is_revoked(self, token: Issued) -> bool:
        return token.is_revoked or token.session_id in self.revoked

    def _target(self, dice: Dice, parent: Issued) -> str:
        """A resource whose tokens the zone issues, often the one that the token is for."""
        audience, targets = parent.claims["aud"], self.stage.providers
        return audience if audience in targets and dice.number(3) == 0 else dice.one(sorted(targets))

    async def hand_out(self, dice: Dice) -> bool:
        """Somebody asks for the token of the account elsewhere, and has the user connect it when refused."""
        if not self.tokens:
            return False
        (parent, sender), key = self._presented(dice), dice.one(KEYS)
        asked = dice.asked() if dice.number(4) == 0 else None
        scope = None if asked is None else " ".join(sorted(asked))
        try:
            answer = await self._asked(sender, parent, ELSEWHERE, scope, key)
        except OAuthError as refusal:
            self._count(f"elsewhere: {refusal.code}")
            self._hear_of_refresh()
            wrong = self._wrong_elsewhere(parent, sender, asked or None, key)
            if not wrong and not self._may_have_ended(parent):
                raise AssertionError(f"refused: {refusal.code}, {refusal.internal}") from refusal
            if "link=" in refusal.members.get("error_uri", "") and dice.number(4):
                await self._connect(dice, refusal.members["error_uri"], parent, sender)
            return True
        self._hear_of_refresh()
        wrong = self._wrong_elsewhere(parent, sender, asked or None, key)
        assert not wrong, (wrong, answer, parent.claims)
        assert self.account is not None
        assert (answer["access_token"], frozenset(answer.get("scope", "").split())) == self.account
        assert answer["expires_in"] <= parent.claims["exp"] - parent.claims["iat"]
        self._count("handed out")
        return True

    def _hear_of_refresh(self) -> None:
        """The provider may have issued another token meanwhile, which is worth no more than the former."""
        if self.account is not None and (refreshed := self.stage.upstream.refreshed):
            self.account = refreshed, self.account[1] & self.stage.upstream.grants
            self.stage.upstream.refreshed = ""
            self._count("refreshed elsewhere")

    async def _connect(self, dice: Dice, link: str, parent: Issued, sender: str) -> None:
        """The user opens a link and agrees to what the page says, while other things happen or not."""
        scene, upstream = self.stage.scene, self.stage.upstream
        upstream.grants = self._granted(dice)
        away, redeemed = dice.number(4) == 0, dice.number(2) == 0

        async def happen(does: bool) -> None:
            if does:
                await self._interrupt(dice, parent, sender)

        before, words = upstream.newest, self.words.get(ELSEWHERE, frozenset())
        try:
            agreed = await connect(
                scene,
                self.person.user,
                link,
                upstream,
                allowed=dice.number(8) > 0,
                while_away=lambda: happen(away),
                while_redeemed=lambda: happen(redeemed),
            )
        except ServiceError as refusal:
            self._count(f"connect: {refusal.code}")
            return
        if agreed is None:
            return
        ended = {
            "revoked session": parent.session_id in self.revoked,
            "disabled user": self.is_disabled,
            "ended application": self._is_ended(sender),
            "not declared": ELSEWHERE not in self.declared[sender],
        }
        assert True not in ended.values(), ended
        granted = agreed
        if upstream.newest != before:
            granted = agreed & upstream.grants
            self.account = upstream.newest, granted
            self.grants[ELSEWHERE] = await self._grant_elsewhere()
            self.ended_grants.discard(ELSEWHERE)
            words = self.words.get(ELSEWHERE, frozenset())
        if sender == "asking":
            self.words[ELSEWHERE] = words | granted
        self._count("connected" if upstream.newest != before else "consented")

    async def _interrupt(self, dice: Dice, parent: Issued, sender: str) -> None:
        """What a connection rests on ends, or anything at all happens."""
        what = dice.number(4)
        if what == 0:
            await self._end_session(parent.session_id)
        elif what == 1:
            await self._declare(sender, ELSEWHERE)
        elif what == 2 and sender == ENDING and not self.is_suspended:
            await self._suspend(True)
        else:
            await dice.one((self.change, self.end, self.switch))(dice)

    async def _grant_elsewhere(self) -> str:
        grants = METADATA.tables["delegated_grants"]
        of_user = (grants.c.user_id == self.person.user.id) & (
            grants.c.resource_id == self.stage.resources[ELSEWHERE].id
        )
        async with self.stage.scene.services.database.reading() as conn:
            return str(await conn.scalar(select(grants.c.id).where(of_user)))

    def _granted(self, dice: Dice) -> _Scopes:
        """What the provider grants, whatever it is asked for: often much, sometimes more than anything."""
        few = dice.some(SCOPES) if dice.number(4) == 0 else frozenset(SCOPES)
        return few | (frozenset() if dice.number(4) else frozenset({BEYOND}))

    async def age(self, dice: Dice) -> bool:
        """The token elsewhere is over: whoever gets it next has it refreshed, for other scopes perhaps."""
        services, user_id = self.stage.scene.services, self.person.user.id
        resource_id = self.stage.resources[ELSEWHERE].id
        self.stage.upstream.grants = self._granted(dice)
        now, zone_id = services.clock(), self.stage.scene.zone.id
        over = {"expires_at": now - timedelta(seconds=1), "refresh_at": now - timedelta(seconds=1)}
        async with services.database.transaction() as conn:
            aged = await conn.execute(
                update(vault_tokens)
                .where(
                    vault_tokens.c.zone_id == zone_id, vault_tokens.c.grant_id == self.grants.get(ELSEWHERE)
                )
                .values(over)
            )
        place = VaultPlace(zone_id, user_id, resource_id, self.stage.upstream_id)
        await services.state.delete(credential_cache.entry_key(place))
        return await self.hand_out(dice) and aged.rowcount > 0

    async def switch(self, dice: Dice) -> bool:
        """The user, or who is accountable for an application, is disabled or enabled."""
        if self.is_disabled or dice.number(3) == 0:
            self.is_disabled = not self.is_disabled
            await self._set_status(self.person.user, is_active=not self.is_disabled)
            if self.is_disabled:
                self.revoked |= self.sessions
                self.tokens = self.tokens[:2]  # that these are worth nothing is told by two
                await self.exchange(dice)
            else:
                for _ in range(3):
                    await self.sign_in(dice)
        else:
            await self._suspend(not self.is_suspended)
            await self.exchange(dice, sender=ENDING)
        return True

    async def _suspend(self, is_suspended: bool) -> None:
        """Let the application end, with all that was issued to it or through it; or be there again."""
        self.is_suspended = is_suspended
        await self._set_status(self.stage.owner, is_active=not is_suspended)
        if is_suspended:
            self.stage.ended_at = issued_until(self.stage.scene.services.clock())
            for each in self.tokens:
                each.is_revoked |= ENDING in (each.client, *acting(each.claims))

    async def _set_status(self, user: User, *, is_active: bool) -> None:
        scene, status = self.stage.scene, "active" if is_active else "disabled"
        await scene.company.update(USER, scene.zone.id, user.id, status=status)

    def _is_ended(self, name: str) -> bool:
        """Whether an application is what a deleted one is."""
        return name == ENDING and self.is_suspended

    async def say(self, dice: Dice) -> bool:
        """The user lets the asking application do something at a resource, or authorizes a grant anew."""
        scene, target = self.stage.scene, dice.one(sorted(self.scopes))
        if dice.number(2) or target == ELSEWHERE:
            self.words[target] = dice.some(SCOPES)
            await self._record(target, self.words[target])
        else:
            self.grants[target] = await granted(scene, self.person, self.stage.resources[target])
            self.ended_grants.discard(target)
        return True

    async def change(self, dice: Dice) -> bool:
        """A resource has other scopes, or an application declares others."""
        target, name = dice.one(sorted(self.scopes)), dice.one(NAMES)
        if dice.number(2):
            self.scopes[target] = dice.some(SCOPES)
            await self._set_scopes(target)
        else:
            await self._declare(name, target)
        return True

    async def _declare(self, name: str, target: str) -> None:
        """An application has a dependency that it had not, or the other way round."""
        self.declared[name] ^= {target}
        await self._set_dependencies(name)

    async def end(self, dice: Dice) -> bool:
        """A session, a token or a grant is revoked."""
        scene, what = self.stage.scene, dice.number(3)
        target = dice.one(sorted(self.scopes))
        if what == 0 and self.families:
            _, _, session_id, _ = dice.one(self.families)
            await self._end_session(session_id)
        elif what == 1 and target in self.grants and target not in self.ended_grants:
            await scene.company.update(DELEGATED_GRANT, scene.zone.id, self.grants[target], status="revoked")
            self.ended_grants.add(target)
            self.words.pop(target, None)
            for each in self.tokens:  # for good, whatever the user allows afterwards
                through = self.stage.providers.get(target) in acting(each.claims)
                each.is_revoked |= through or each.claims["aud"] == target
            if target == ELSEWHERE:
                self.account = None
        elif what == 2 and (exchanged := [each for each in self.tokens if self._can_be_revoked(each)]):
            await self._revoke(revoked := dice.one(exchanged))
            await self.exchange(dice, revoked)
        else:
            return False
        return True

    async def _end_session(self, session_id: str) -> None:
        scene = self.stage.scene
        await session_revocation.end(scene.services, scene.zone, session_id=session_id)
        self.revoked.add(session_id)

    def _can_be_revoked(self, token: Issued) -> bool:
        return "act" in token.claims and not self._is_ended(token.client)

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
            "disabled user": self.is_disabled,
            "ended application": self._is_ended(sender),
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

    def _wrong_elsewhere(
        self, parent: Issued, sender: str, asked: _Scopes | None, key: str | None
    ) -> list[str]:
        """Why the token elsewhere may not be handed out, which is whole or not at all."""
        token, worth = self.account or ("", frozenset())
        words = self.words.get(ELSEWHERE, frozenset())
        reasons = {
            "no account": not token,
            "a scope that the resource has lost": not worth <= self.scopes[ELSEWHERE],
            "no word for all of it": sender == "asking" and not worth <= words,
            "other scopes": asked is not None and asked != worth,
        }
        wrong = self._wrong(parent, sender, ELSEWHERE, None, key)
        return wrong + [reason for reason, holds in reasons.items() if holds]

    def _may_have_ended(self, parent: Issued) -> bool:
        """Whether what the subject token itself rests on may be gone: the user's word, a grant, a scope."""
        line: list[Issued] = [parent]
        while (above := line[-1].parent) is not None:
            line.append(above)
        names = {each.client for each in line} | set(acting(parent.claims))
        if ENDING in names and line[-1].claims["iat"] <= self.stage.ended_at:
            return True
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
        now = int(self.stage.scene.services.clock().timestamp())
        return self.stage.keys[key].proof(endpoint, iat=now) if key else None

    def _keep(self, issued: Issued) -> None:
        self.tokens = [issued, *self.tokens][:_KEPT]
        self._count("issued")

    def _count(self, what: str) -> None:
        self.tally.seen[what] += 1

    def finish(self) -> None:
        """Nothing that has been revoked is active, for those who may ask."""
        if self.is_suspended:
            self.stage.run(self._suspend(False))
        for token in self.tokens:
            if self._is_revoked(token):
                provider = self.stage.providers.get(token.claims["aud"])
                if provider is not None:
                    told = self.stage.run(ask(self.stage.scene, self.stage.apps[provider], token.text))
                    assert told == {"active": False}


def run(steps: int, seed: int | None = None, *, fewest: Mapping[str, int] | None = None) -> Tally:
    """Take at least so many random steps in a new zone.

    Args:
        fewest: go on, for three times as many steps at most, until there are so many of each kind.
        seed: of a run that is to be repeated: a failure names its own. The zone cannot be put back, so that
            nothing shorter would be found by trying.
    Raises: AssertionError for what must not be.
    """
    seed = secrets.randbits(32) if seed is None else seed
    chance, AttenuatedZone.tally = random.Random(seed), Tally()
    with (
        asyncio.Runner() as runner,
        tempfile.TemporaryDirectory(prefix="zonewright-attenuation-") as directory,
    ):
        stack = AsyncExitStack()
        try:
            AttenuatedZone.stage = runner.run(_stage(runner, stack, Path(directory)))
            while (tally := AttenuatedZone.tally).steps < steps or (
                tally.below(fewest or {}) and tally.steps < 3 * steps
            ):
                user = AttenuatedZone()
                user.walk(chance)
                user.finish()
        except Exception as failure:
            failure.add_note(f"after {AttenuatedZone.tally.steps} steps with seed {seed}")
            raise
        finally:
            runner.run(stack.aclose())
    return AttenuatedZone.tally

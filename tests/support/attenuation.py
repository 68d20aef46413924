"""A zone reduced to what decides about authority, driven at random: nothing that is issued ever widens.

The machine composes the functions of `runtime.domain.oauth.attenuation` as the grant types do. Its rules take
any step that an attacker, a user or an administrator may take; what is issued is held against every token,
session and word of the user that it comes from, with none of the service's own functions.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import ClassVar, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from runtime.domain.errors import InvalidRequest, InvalidScope
from runtime.domain.oauth import attenuation
from runtime.domain.oauth.attenuation import Delegation, TokenLimits
from runtime.domain.oauth.claims import ChainActor

_T = TypeVar("_T")
_Scopes = frozenset[str]
SCOPES = ("read", "write", "admin", "call")
BEYOND = "root"  # a scope that no resource has
APPS = ("app0", "app1", "app2", "app3")
KEYS = (None, None, "key0", "key1")
DRAWS_PER_RUN = 20
_DEEPEST, _MOST_OF_ONE = 8, 2
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
_KEPT = 12  # tokens that are remembered at a time

# One draw is several steps, so that a hundred thousand take seconds; zeros are the simplest ones.
_DICE_BYTES, _STEPS_PER_DRAW = 10, 20


class Dice:
    """A step's choices, one after the other, out of a few random bytes."""

    def __init__(self, thrown: bytes) -> None:
        self._left = int.from_bytes(thrown, "little")

    def number(self, below: int) -> int:
        self._left, chosen = divmod(self._left, below)
        return chosen

    def one(self, among: Sequence[_T]) -> _T:
        return among[self.number(len(among))]

    def some(self, among: Sequence[str]) -> _Scopes:
        return frozenset(each for each in among if self.number(2))

    def asked(self) -> _Scopes | None:
        """Scopes as they are asked for: none in particular, a few, seldom one that nobody has."""
        if self.number(2):
            return None
        return self.some(SCOPES) | (frozenset() if self.number(8) else frozenset({BEYOND}))


@dataclass
class Place:
    """A resource: the application that provides it, its scopes and the lifetime of its tokens."""

    identifier: str
    provider: str
    scopes: _Scopes
    lifetime_seconds: int


@dataclass
class Root:
    """A sign-in: when it ends, and whether it has been revoked. What is the client's own has no end."""

    ends: datetime | None
    is_revoked: bool = False


@dataclass(frozen=True)
class Token:
    """A token as it is known to have been issued, and what it was made from."""

    delegation: Delegation
    client: str
    root: Root
    parent: "Token | None" = None

    @property
    def line(self) -> "list[Token]":
        """The token and everything that it was made from, in order."""
        return [self, *(self.parent.line if self.parent else [])]


@dataclass
class Tally:
    """How much a run has shown."""

    steps: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        seen = ", ".join(f"{count:,} {what}" for what, count in self.seen.most_common())
        return f"{self.steps:,} steps: {seen}"


class Attenuation(RuleBasedStateMachine):
    """Sign-ins, exchanges, refreshes and own tokens, while words, scopes and dependencies change."""

    tally: ClassVar[Tally] = Tally()

    def __init__(self) -> None:
        super().__init__()
        self.now = _BEGINNING
        self.places = [
            Place(
                f"https://r{number}.test",
                APPS[number % 3],
                frozenset(SCOPES[: number + 1]),
                600 * (number + 1),
            )
            for number in range(4)
        ]
        self.declared = {app: {place.identifier for place in self.places} for app in APPS}
        self.words: dict[tuple[str, str], _Scopes] = {}  # what the user has said, where an app has to ask
        self.roots: list[Root] = []
        self.tokens: list[Token] = []
        self.families: list[tuple[str, Root, dict[str, _Scopes]]] = []

    def _count(self, what: str) -> None:
        self.tally.seen[what] += 1

    def _target(
        self, app: str, place: Place, *ends: datetime | None, within: _Scopes | None = None
    ) -> TokenLimits:
        word = self.words.get((app, place.identifier))
        allowed = word if within is None else within if word is None else within & word
        return TokenLimits(place.identifier, place.scopes, place.lifetime_seconds, allowed, ends)

    def _keep(self, token: Token) -> None:
        self._check(token)
        self.tokens = [token, *self.tokens][:_KEPT]
        self._count("issued")

    @rule(thrown=st.binary(min_size=_DICE_BYTES * _STEPS_PER_DRAW, max_size=_DICE_BYTES * _STEPS_PER_DRAW))
    def walk(self, thrown: bytes) -> None:
        """Several steps; every other one is an exchange."""
        steps = (self.sign_in, *[self.exchange] * 7, self.refresh, self.own_token, self.change, self.end)
        for start in range(0, len(thrown), _DICE_BYTES):
            dice = Dice(thrown[start : start + _DICE_BYTES])
            dice.one(steps)(dice)
            self.tally.steps += 1

    def sign_in(self, dice: Dice) -> None:
        """A session, a refresh token for what was authorized in it, and the first token."""
        app, root = dice.one(APPS), Root(self.now + timedelta(minutes=dice.one((5, 60, 600))))
        authorized = {place.identifier: dice.some(sorted(place.scopes)) for place in self.places}
        self.roots = [root, *self.roots][:4]
        self.families = [(app, root, authorized), *self.families][:4]
        self._from_family(self.families[0], dice)

    def refresh(self, dice: Dice) -> None:
        """A token for one of the resources that were authorized, with fewer scopes or all."""
        if self.families:
            self._from_family(dice.one(self.families), dice)

    def _from_family(self, family: tuple[str, Root, dict[str, _Scopes]], dice: Dice) -> None:
        app, root, authorized = family
        place, key, asked = dice.one(self.places), dice.one(KEYS), dice.asked()
        if not self._is_active(root):
            return
        within = authorized[place.identifier]
        target = self._target(app, place, root.ends, within=within)
        try:
            issued = attenuation.originate(target, asked, jkt=key, now=self.now)
        except InvalidScope:
            assert asked is not None
            assert asked - self._allowed(app, place, within)
            self._count("scopes refused")
            return
        assert issued.scopes == (self._allowed(app, place, within) if asked is None else asked)
        self._keep(Token(issued, app, root))

    def own_token(self, dice: Dice) -> None:
        """Client credentials: the application for itself, without a user."""
        app, place, key, asked = dice.one(APPS), dice.one(self.places), dice.one(KEYS), dice.asked()
        target = TokenLimits(place.identifier, place.scopes, place.lifetime_seconds)
        try:
            issued = attenuation.originate(target, asked, jkt=key, now=self.now)
        except InvalidScope:
            assert asked is not None
            assert asked - place.scopes
            self._count("scopes refused")
            return
        self._keep(Token(issued, app, Root(None)))

    def exchange(self, dice: Dice) -> None:
        """Somebody presents a token and asks for any resource, with any scopes and any key."""
        if not self.tokens:
            return
        parent = dice.one(self.tokens)
        sender = parent.client if dice.number(3) == 0 else dice.one(APPS)
        place, key, asked = dice.one(self.places), dice.one(KEYS), dice.asked()
        held = parent.delegation
        if held.expires_at <= self.now or not self._is_active(parent.root):
            self._count("ended")
            return
        provided = [each.identifier for each in self.places if each.provider == sender]
        if sender != parent.client and held.audience not in provided:
            self._count("not theirs")
            return
        if sender == parent.client and not attenuation.is_held_with(held.jkt, key):
            assert held.jkt is not None
            assert key != held.jkt
            self._count("without the key")
            return
        if place.identifier not in self.declared[sender]:
            self._count("not declared")
            return
        target = self._target(sender, place, parent.root.ends)
        acted = held.actors or (() if sender == parent.client else (ChainActor(parent.client),))
        try:
            issued = attenuation.attenuate(
                Delegation(held.audience, held.scopes, acted, held.expires_at, held.jkt),
                target,
                asked,
                actor=ChainActor(sender),
                jkt=key,
                now=self.now,
            )
        except InvalidScope:
            assert asked is not None
            assert asked - self._allowed(
                sender, place, held.scopes if place.identifier == held.audience else None
            )
            self._count("scopes refused")
            return
        except InvalidRequest:
            names = [actor.subject for actor in acted]
            assert len(names) >= _DEEPEST or names.count(sender) >= _MOST_OF_ONE
            self._count("too long a chain")
            return
        assert issued.actors == (ChainActor(sender), *acted)
        self._keep(Token(issued, sender, parent.root, parent))

    def change(self, dice: Dice) -> None:
        """The user says something else, a resource has other scopes, a dependency comes or goes."""
        what, app, place = dice.number(4), dice.one(APPS), dice.one(self.places)
        if what == 0:
            self.words[(app, place.identifier)] = dice.some(SCOPES)
        elif what == 1:
            self.words.pop((app, place.identifier), None)
        elif what == 2:
            place.scopes, place.lifetime_seconds = dice.some(SCOPES), dice.one((60, 600, 7200))
        else:
            self.declared[app] ^= {place.identifier}

    def end(self, dice: Dice) -> None:
        """Time passes; sometimes a session is revoked."""
        self.now += timedelta(seconds=dice.one((0, 1, 30, 600)))
        if self.roots and dice.number(3) == 0:
            dice.one(self.roots).is_revoked = True

    def _is_active(self, root: Root) -> bool:
        return not root.is_revoked and (root.ends is None or root.ends > self.now)

    def _allowed(self, app: str, place: Place, within: _Scopes | None) -> _Scopes:
        """The most that may be issued: the resource's scopes, the user's word, and what it is made from."""
        word = self.words.get((app, place.identifier))
        return frozenset(
            scope
            for scope in place.scopes
            if (word is None or scope in word) and (within is None or scope in within)
        )

    def _check(self, token: Token) -> None:
        """What must hold of everything that is ever issued, against all that it comes from."""
        made = token.delegation
        place = next(each for each in self.places if each.identifier == made.audience)
        assert made.scopes <= place.scopes
        assert (
            made.scopes <= self.words.get((token.client, place.identifier), made.scopes)
            or not token.root.ends
        )
        assert made.expires_at <= self.now + timedelta(seconds=place.lifetime_seconds)
        assert token.root.ends is None or made.expires_at <= token.root.ends
        assert self._is_active(token.root)
        names = [actor.subject for actor in made.actors]
        assert len(names) <= _DEEPEST
        assert all(names.count(name) <= _MOST_OF_ONE for name in names)
        if token.parent is not None:
            self._check_line(token, names)

    def _check_line(self, token: Token, names: list[str]) -> None:
        made, ancestors = token.delegation, token.line[1:]
        assert all(made.expires_at <= each.delegation.expires_at for each in ancestors)
        assert names[0] == token.client
        parent = ancestors[0]
        assert tuple(names[1:])[: len(parent.delegation.actors)] == tuple(
            actor.subject for actor in parent.delegation.actors
        )
        assert len(names) > len(parent.delegation.actors)
        for each in ancestors:  # as long as the chain stays at one resource, it only narrows
            if each.delegation.audience != made.audience:
                break
            assert made.scopes <= each.delegation.scopes
        for child, above in zip(token.line, ancestors, strict=False):  # a key is kept while its holder is
            if child.client != above.client or above.delegation.jkt is None:
                break
            assert child.delegation.jkt == above.delegation.jkt


def run(steps: int, *, shrink: bool = True) -> Tally:
    """Take at least so many random steps. Raises AssertionError for a token that is wider than it may be.

    Args:
        shrink: look for the fewest steps that show it, which takes a minute.
    """
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    Attenuation.tally = Tally()
    while (left := steps - Attenuation.tally.steps) > 0:
        run_state_machine_as_test(
            Attenuation,
            settings=settings(
                max_examples=-(-left // (DRAWS_PER_RUN * _STEPS_PER_DRAW)),
                stateful_step_count=DRAWS_PER_RUN,
                phases=phases,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    return Attenuation.tally

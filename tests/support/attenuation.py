"""A zone reduced to what decides about authority, driven at random: nothing that is issued ever widens.

The machine composes the functions of `runtime.domain.oauth.attenuation` as the grant types, connect links and
refreshes at an outside provider do. Its rules take any step that an attacker, a user, an administrator or the
provider may take; what is issued or handed out is held against every token, session, account and word of the
user that it comes from, with none of the service's own functions.

What ends a request before those functions are asked (a token that has ended, somebody else's, a resource that
was not declared) is no step here: `tests.support.attenuated_zone` takes those, and so proves the audience.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import ClassVar, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from runtime.domain import delegated_grants
from runtime.domain.delegated_grants import Cause
from runtime.domain.errors import InvalidRequest, InvalidScope
from runtime.domain.kinds.values import GrantStatus
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
class Account:
    """The user's account at an outside provider, since they connected it last.

    Attributes:
        line: what its tokens were good for, from the connection to the last refresh.
        ends: None where the provider does not say.
    """

    line: list[_Scopes]
    ends: datetime | None
    is_revoked: bool = False

    @property
    def scopes(self) -> _Scopes:
        return self.line[-1]

    def status(self, now: datetime) -> GrantStatus:
        """That of the user's grant."""
        if self.is_revoked:
            return GrantStatus.REVOKED
        return GrantStatus.EXPIRED if self.ends is not None and self.ends <= now else GrantStatus.ACTIVE


@dataclass
class Tally:
    """How much a run has shown.

    Attributes:
        taken: how many steps of each kind; one that found nothing to do is none.
        seen: what came of them.
    """

    taken: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    @property
    def steps(self) -> int:
        return self.taken.total()

    def below(self, fewest: Mapping[str, int]) -> dict[str, int]:
        """The kinds of steps, and what came of them, that are too few to prove anything."""
        all_of_it = self.taken + self.seen
        return {what: all_of_it[what] for what, least in fewest.items() if all_of_it[what] < least}

    def __str__(self) -> str:
        taken, seen = (
            ", ".join(f"{count:,} {what}" for what, count in counted.most_common())
            for counted in (self.taken, self.seen)
        )
        return f"{self.steps:,} steps ({taken}): {seen}"


class Attenuation(RuleBasedStateMachine):
    """Sign-ins, exchanges, refreshes, connections and revocations, while words and scopes change."""

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
        self.elsewhere = Place("https://tracker.test", "", frozenset(SCOPES), 3600)
        self.account: Account | None = None
        self.agreed: dict[str, _Scopes] = {}  # what the user lets each application have elsewhere
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
        steps = (
            self.sign_in,
            *[self.exchange] * 9,
            self.refresh,
            self.own_token,
            self.connect,
            self.connect,
            self.upstream_refresh,
            *[self.hand_out] * 4,
            self.change,
            self.wait,
            self.revoke,
        )
        for start in range(0, len(thrown), _DICE_BYTES):
            dice = Dice(thrown[start : start + _DICE_BYTES])
            step = dice.one(steps)
            self.tally.taken[step.__name__] += step(dice)

    def sign_in(self, dice: Dice) -> bool:
        """A session, a refresh token for what was authorized in it, and the first token."""
        app, root = dice.one(APPS), Root(self.now + timedelta(minutes=dice.one((5, 60, 600))))
        authorized = {place.identifier: dice.some(sorted(place.scopes)) for place in self.places}
        self.roots = [root, *self.roots][:4]
        self.families = [(app, root, authorized), *self.families][:4]
        self._from_family(self.families[0], dice)
        return True

    def refresh(self, dice: Dice) -> bool:
        """A token for one of the resources that were authorized, with fewer scopes or all."""
        active = [family for family in self.families if self._is_active(family[1])]
        if active:
            self._from_family(dice.one(active), dice)
        return bool(active)

    def _from_family(self, family: tuple[str, Root, dict[str, _Scopes]], dice: Dice) -> None:
        app, root, authorized = family
        place, key, asked = dice.one(self.places), dice.one(KEYS), dice.asked()
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

    def own_token(self, dice: Dice) -> bool:
        """Client credentials: the application for itself, without a user."""
        app, place, key, asked = dice.one(APPS), dice.one(self.places), dice.one(KEYS), dice.asked()
        target = TokenLimits(place.identifier, place.scopes, place.lifetime_seconds)
        try:
            issued = attenuation.originate(target, asked, jkt=key, now=self.now)
        except InvalidScope:
            assert asked is not None
            assert asked - place.scopes
            self._count("scopes refused")
            return True
        self._keep(Token(issued, app, Root(None)))
        return True

    def exchange(self, dice: Dice) -> bool:
        """Who may present a token does, and asks for a resource with any scopes and any key."""
        parent, sender = self._presented(dice)
        declared = [each for each in self.places if each.identifier in self.declared[sender]]
        if parent is None or not declared:
            return False
        place, key, asked = dice.one(declared), dice.one(KEYS), dice.asked()
        held = parent.delegation
        issued = self._attenuated(parent, sender, self._target(sender, place, parent.root.ends), asked, key)
        if isinstance(issued, InvalidScope):
            assert asked is not None
            within = held.scopes if place.identifier == held.audience else None
            assert asked - self._allowed(sender, place, within)
        elif issued is not None:
            self._keep(Token(issued, sender, parent.root, parent))
        return True

    def _presented(self, dice: Dice) -> tuple[Token | None, str]:
        """A token that has not ended, and its client or the provider of what it is for."""
        live = [
            each
            for each in self.tokens
            if each.delegation.expires_at > self.now and self._is_active(each.root)
        ]
        if not live:
            return None, APPS[0]
        parent = dice.one(live)
        audience = parent.delegation.audience
        senders = [parent.client, *(each.provider for each in self.places if each.identifier == audience)]
        return parent, dice.one(senders)

    def _attenuated(
        self, parent: Token, sender: str, target: TokenLimits, asked: _Scopes | None, key: str | None
    ) -> Delegation | InvalidScope | None:
        """What an exchange comes to; None where it is refused for another reason than its scopes."""
        held = parent.delegation
        if sender == parent.client and not attenuation.is_held_with(held.jkt, key):
            assert held.jkt is not None
            assert key != held.jkt
            self._count("without the key")
            return None
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
        except InvalidScope as refusal:
            self._count("scopes refused")
            return refusal
        except InvalidRequest:
            names = [actor.subject for actor in acted]
            assert len(names) >= _DEEPEST or names.count(sender) >= _MOST_OF_ONE
            self._count("too long a chain")
            return None
        assert issued.actors == (ChainActor(sender), *acted)
        return issued

    def connect(self, dice: Dice) -> bool:
        """A user whose session is active connects their account elsewhere, and agrees to what is asked for.

        The provider grants what it likes: less, or more.
        """
        if not any(self._is_active(root) for root in self.roots):
            return False
        app, offered, before = dice.one(APPS), self.elsewhere.scopes, self.account
        requested = offered if (named := dice.asked()) is None else named & offered
        is_active = before is not None and before.status(self.now) is GrantStatus.ACTIVE
        connected = before.scopes & offered if before is not None and is_active else frozenset()
        asked = attenuation.connection_scopes(requested, connected, offered)
        assert asked == {each for each in offered if each in requested or each in connected}
        answered = self._answered(dice)
        granted = attenuation.limit_upstream(asked, answered).granted
        assert granted == {each for each in asked if each in answered}
        if asked and not granted:
            self._count("nothing granted")
            return True
        self.account = Account([granted], self._upstream_end(dice))
        self.agreed[app] = self.agreed.get(app, frozenset()) | granted
        self._count("connected")
        return True

    def upstream_refresh(self, dice: Dice) -> bool:
        """The provider answers a refresh, for an account that may have been revoked meanwhile."""
        if self.account is None:
            return False
        account, answered = self.account, self._answered(dice)
        if account.status(self.now) not in delegated_grants.TRANSITIONS[Cause.REFRESH].sources:
            self._count("refreshed too late")
            return True
        assert account.status(self.now) is GrantStatus.ACTIVE
        account.line.append(attenuation.limit_upstream(account.scopes, answered).granted)
        account.ends = self._upstream_end(dice)
        assert all(later <= former for former, later in pairwise(account.line))
        assert account.scopes <= answered
        self._count("refreshed elsewhere")
        return True

    def hand_out(self, dice: Dice) -> bool:
        """Who may present a token asks for the one elsewhere, which is handed out whole or not at all."""
        parent, sender = self._presented(dice)
        account = self.account
        if parent is None or parent.root.ends is None or account is None:
            return False
        if account.status(self.now) is not GrantStatus.ACTIVE:
            return False
        there, agreed = self.elsewhere, self.agreed.get(sender, frozenset())
        ends = (parent.root.ends, account.ends)
        limits = TokenLimits(
            there.identifier, there.scopes, there.lifetime_seconds, agreed & account.scopes, ends
        )
        asked = None if dice.number(4) else dice.asked()
        issued = self._attenuated(parent, sender, limits, asked, dice.one(KEYS))
        if not isinstance(issued, Delegation):
            return True
        if issued.scopes != account.scopes:
            self._count("not whole")
            return True
        assert issued.scopes <= agreed
        assert issued.scopes <= there.scopes
        assert all(issued.scopes <= former for former in account.line)
        assert not [end for end in (*ends, parent.delegation.expires_at) if end and issued.expires_at > end]
        self._count("handed out")
        return True

    def _answered(self, dice: Dice) -> _Scopes:
        """What the provider grants, whatever it is asked for: often much, sometimes more than anything."""
        few = dice.some(SCOPES) if dice.number(2) else frozenset(SCOPES)
        return few | (frozenset() if dice.number(4) else frozenset({BEYOND}))

    def _upstream_end(self, dice: Dice) -> datetime | None:
        lifetime = dice.one((None, 60, 6000))
        return None if lifetime is None else self.now + timedelta(seconds=lifetime)

    def change(self, dice: Dice) -> bool:
        """The user says something else, a resource has other scopes, a dependency comes or goes."""
        what, app, place = dice.number(6), dice.one(APPS), dice.one(self.places)
        if what == 0:
            self.words[(app, place.identifier)] = dice.some(SCOPES)
        elif what == 1:
            return self.words.pop((app, place.identifier), None) is not None
        elif what == 2:
            place.scopes, place.lifetime_seconds = dice.some(SCOPES), dice.one((60, 600, 7200))
        elif what == 3:
            self.declared[app] ^= {place.identifier}
        elif what == 4:
            self.agreed[app] = dice.some(SCOPES)
        else:
            self.elsewhere.scopes = dice.some(SCOPES) if dice.number(2) else frozenset(SCOPES)
        return True

    def wait(self, dice: Dice) -> bool:
        """Time passes."""
        self.now += timedelta(seconds=dice.one((1, 30, 600)))
        return True

    def revoke(self, dice: Dice) -> bool:
        """A session, or the grant for the account elsewhere and with it what everybody may do there."""
        if dice.number(2):
            active = [root for root in self.roots if not root.is_revoked]
            if active:
                dice.one(active).is_revoked = True
            return bool(active)
        if self.account is None or self.account.is_revoked:
            return False
        self.account.is_revoked, self.agreed = True, {}
        return True

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

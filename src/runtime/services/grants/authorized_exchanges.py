"""Targets that every rule has allowed, remembered for as long as none of the rules can say anything else.

An entry belongs to one subject token, one client and one target, and to what the answers were read from: by
its tags to what was looked up in the zone, and to the session and the user at their epochs. Whatever changes
an answer changes one of these tags or epochs, or is an instant that the entry does not outlive: the end of a
session or of a grant, and of the period for which a policy decision holds.

Each request is still asked what no entry can tell: who sends it, whether the subject token, the session and
the user stand, whether an epoch has moved, which of the scopes it may have, and how long a token may last
from now on.
"""

from datetime import datetime
from typing import NamedTuple

from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.attenuation import Delegation, TokenLimits
from runtime.services import cache_sizes
from runtime.services.authority.consents import Allowance
from runtime.services.client_types import ApplicationClient
from runtime.services.issuing import policy_decision
from runtime.services.vault.credentials import KeptCredential
from runtime.services.zones import ChangeHistory, SessionRoot, Tagged, TaggedCache, ZoneCache


class AllowedTarget(NamedTuple):
    """A resource that an application may have something for, whatever scopes it asks for.

    Attributes:
        limits: what limits a token for the resource, its end included.
        allowance: what the user has said about it, which `limits` has in it.
        credential: from the vault, in place of a token of the zone.
        permitted_by: names of the policy rules that permit it with any scopes; None where policies look at
            them.
    """

    resource: Resource
    limits: TokenLimits
    allowance: Allowance
    credential: KeptCredential | None
    permitted_by: tuple[str, ...] | None = None


class AuthorizedExchange(NamedTuple):
    """What an application may have.

    Attributes:
        plan: what the token would say.
        credential: from the vault, in place of a token of the zone.
        permitted_by: names of the policy rules that permit it with any scopes; None where policies look at
            them.
        left_out: scopes that policies leave out, of those that were left to them.
        forbidding: names of the policy rules that forbid some of these.
        unpermitted: those of them that no rule permits.
    """

    resource: Resource
    plan: Delegation
    credential: KeptCredential | None
    permitted_by: tuple[str, ...] | None = None
    left_out: frozenset[str] = frozenset()
    forbidding: tuple[str, ...] = ()
    unpermitted: frozenset[str] = frozenset()


class KnownTarget(NamedTuple):
    """An allowed target, with the very client and root that the rules were asked about."""

    allowed: AllowedTarget
    client: ApplicationClient
    root: SessionRoot | None
    until: float


class AllowedTargetCache(ZoneCache):
    """The targets that were allowed in a zone."""

    outlives_changes = True

    def __init__(self, history: ChangeHistory) -> None:
        self._entries: TaggedCache[KnownTarget] = TaggedCache(cache_sizes.ALLOWED_TARGETS, history)

    def find(
        self,
        key: str,
        client: ApplicationClient,
        root: SessionRoot | None,
        wanted: frozenset[str] | None,
        now: datetime,
    ) -> Tagged[KnownTarget] | None:
        """What was allowed to that client under that root; None when the rules have to be asked.

        Args:
            key: stands for everything else that the request says, but for the scopes.
            wanted: these; before the user is asked for more, the database is.
        """
        entry = self._entries.entry(key)
        if entry is None:
            return None
        found = entry.value
        if found.client is not client or found.root is not root:
            return None
        if now.timestamp() >= found.until or not found.allowed.allowance.covers(wanted or frozenset()):
            return None
        return entry

    def store(
        self,
        key: str,
        allowed: AllowedTarget,
        client: ApplicationClient,
        root: SessionRoot | None,
        now: datetime,
        tags: frozenset[str],
        as_of: int,
    ) -> None:
        """Remember what the rules have just allowed.

        Args:
            tags: of all that they were asked of.
            as_of: the epoch of the zone before any of that was looked up.

        A credential of the vault is read anew each time, and so is what a user's own policies say.
        """
        if allowed.credential is not None or (root is not None and root.principal.own_policies):
            return
        known = KnownTarget(allowed, client, root, allowed_until(root, now))
        self._entries.keep(key, known, tags, as_of=as_of)


def allowed_until(root: SessionRoot | None, now: datetime) -> float:
    """The first instant, in seconds since 1970, at which a rule may answer differently by itself."""
    ends = [policy_decision.valid_until(now)]
    if root is not None:
        given = (root.session.expires_at, *(grant.expires_at for grant in root.delegated))
        ends += [end.timestamp() for end in given if end is not None]
    return min(ends)

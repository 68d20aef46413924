"""Exchanges that every rule has allowed, remembered for as long as none of the rules can say anything else.

An entry belongs to one subject token, one client and one target, and to what the answers were read from: the
zone at its epoch, whose cache this is, and the session and the user at theirs. Whatever changes an answer
moves one of these epochs, or is an instant that the entry does not outlive: the end of a session or of a
grant, and of the period for which a policy decision holds.

Each request is still asked what no entry can tell: who sends it, whether the subject token, the session and
the user stand, whether an epoch has moved, and how long a token may last from now on.
"""

from datetime import datetime
from typing import NamedTuple

from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.attenuation import Delegation, Target
from runtime.services import cache_sizes
from runtime.services.bounded_cache import BoundedCache
from runtime.services.client_types import ApplicationClient
from runtime.services.issuing import policy_decision
from runtime.services.vault.credentials import KeptCredential
from runtime.services.zones import SessionRoot, ZoneCache


class AuthorizedExchange(NamedTuple):
    """What an application may have.

    Attributes:
        target: what limits a token for the resource, its end included.
        plan: what the token would say.
        credential: from the vault, in place of a token of the zone.
        determining: names of the policy rules that decided.
        left_out: scopes that policies leave out, of those that were left to them.
        forbidding: names of the policy rules that forbid some of these.
        unpermitted: those of them that no rule permits.
    """

    resource: Resource
    target: Target
    plan: Delegation
    credential: KeptCredential | None
    determining: tuple[str, ...]
    left_out: frozenset[str] = frozenset()
    forbidding: tuple[str, ...] = ()
    unpermitted: frozenset[str] = frozenset()


class _Entry(NamedTuple):
    """An allowed exchange, with the very client and root that the rules were asked about."""

    authorized: AuthorizedExchange
    client: ApplicationClient
    root: SessionRoot | None
    until: float


class AuthorizedExchangeCache(ZoneCache):
    """The exchanges that were allowed in a zone at one epoch."""

    def __init__(self) -> None:
        self._entries: BoundedCache[_Entry] = BoundedCache(cache_sizes.AUTHORIZED_EXCHANGES)

    def find(
        self, key: str, client: ApplicationClient, root: SessionRoot | None, now: datetime
    ) -> AuthorizedExchange | None:
        """What was allowed to that client under that root; None when the rules have to be asked.

        Args:
            key: stands for everything else that the request says.
        """
        found = self._entries.get(key)
        if found is None or found.client is not client or found.root is not root:
            return None
        return found.authorized if now.timestamp() < found.until else None

    def store(
        self,
        key: str,
        authorized: AuthorizedExchange,
        client: ApplicationClient,
        root: SessionRoot | None,
        now: datetime,
    ) -> None:
        """Remember what the rules have just allowed.

        A credential of the vault is read anew each time, and so is what a user's own policies say.
        """
        if authorized.credential is not None or (root is not None and root.principal.own_policies):
            return
        self._entries[key] = _Entry(authorized, client, root, _until(root, now))


def _until(root: SessionRoot | None, now: datetime) -> float:
    """The first instant, in seconds since 1970, at which a rule may answer differently by itself."""
    ends = [policy_decision.valid_until(now)]
    if root is not None:
        given = (root.session.expires_at, *(grant.expires_at for grant in root.delegated))
        ends += [end.timestamp() for end in given if end is not None]
    return min(ends)

"""Exchange requests that were answered before: the same bytes prove and ask for the same once more.

An application sends the same request each time that it has to call a resource for a user, or one that
differs in its scopes alone. Who sent it, for which chain and which resource, is known then.

An entry counts until something changes of the zone that it rests on, which its tags tell, and ends before any
of that can end by itself. Each request is still asked what no entry can tell: whether its sender is blocked,
whether the zone, the session and the user stand, which tokens were revoked, and which of the scopes it may
have.

Only a client secret proves the same twice: requests with an assertion or a DPoP proof, which count once, are
not remembered, nor are those for a credential of the vault. Nobody finds a secret here: entries go by the
digest of what was sent and of a key that this process has made up.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from runtime.domain.kinds.application import PasswordCredential
from runtime.domain.oauth.attenuation import Delegation
from runtime.domain.oauth.forms import Form, without_parameter
from runtime.services import cache_sizes
from runtime.services.client_types import ApplicationClient
from runtime.services.decision_log import Decision
from runtime.services.grants.authorized_exchanges import AllowedTarget, allowed_until
from runtime.services.grants.exchanged_tokens import TokenSeries
from runtime.services.grants.verified_chains import VerifiedChain
from runtime.services.issuing import token_cache
from runtime.services.issuing.token_cache import CachedToken
from runtime.services.zones import ChangeHistory, SessionRoot, TaggedCache, ZoneCache

_KEY = secrets.token_bytes(32)


class SentRequest(NamedTuple):
    """A token request as it came.

    Attributes:
        digest: of all of it but its scopes.
        scope: these, as they are encoded; None without that parameter.
    """

    digest: str
    scope: bytes | None


def sent_request(body: bytes, content_type: str | None, authorization: str | None) -> SentRequest | None:
    """What a request is known by; None for one that is never remembered."""
    parts = without_parameter(body, b"scope")
    if parts is None:
        return None
    rest, scope = parts
    headers = f"{content_type}\0{authorization}\0".encode("utf-8", "surrogatepass")
    return SentRequest(sha256(b"%b%b%b" % (_KEY, headers, rest)).hexdigest(), scope)


def may_be_remembered(sent: SentRequest, form: Form) -> bool:
    """Tell whether the form holds nothing that counts once, and its scopes where `sent_request` has them."""
    values = form.values
    return "client_assertion" not in values and (sent.scope is None) == ("scope" not in values)


class IssuedToken(NamedTuple):
    """The token that a request was answered with last.

    Attributes:
        scope: those that it asked for, as `SentRequest` has them.
        until: when a new one is due, in seconds since 1970.
        actors, determining: for the decision record.
    """

    token: CachedToken
    scope: bytes | None
    until: float
    actors: tuple[str, ...]
    determining: tuple[str, ...]


@dataclass(slots=True)
class KnownExchange:
    """What a request has proved, and what it was answered with.

    Attributes:
        root: of the chain; the very one that was asked about.
        series: of the tokens that it is answered with.
        until: in seconds since 1970.
        changed_at: the zone's epoch at the last change of anything that this rests on.
    """

    client: ApplicationClient
    chain: VerifiedChain
    root: SessionRoot
    allowed: AllowedTarget
    series: TokenSeries
    until: float
    issued: IssuedToken | None = None
    changed_at: int = 0

    def issued_for(self, scope: bytes | None, now: float) -> IssuedToken | None:
        """The token that it was answered with, if the same scopes are asked for and it is not due yet."""
        issued = self.issued
        return issued if issued is not None and issued.scope == scope and now < issued.until else None

    def remember(self, token: CachedToken, plan: Delegation, scope: bytes | None, decision: Decision) -> None:
        """Keep the token of an answer, issued under that plan, and what its record says."""
        until = token_cache.reissued_at(token, plan, decision.at)
        self.issued = IssuedToken(token, scope, until, decision.actors, decision.determining)


class KnownExchanges(ZoneCache):
    """The exchange requests that were answered in a zone."""

    outlives_changes = True

    def __init__(self, history: ChangeHistory) -> None:
        self._entries: TaggedCache[KnownExchange] = TaggedCache(cache_sizes.KNOWN_EXCHANGES, history)

    def find(self, sent: SentRequest, now: float) -> KnownExchange | None:
        """What is known of that request; None when it has to be read."""
        entry = self._entries.entry(sent.digest)
        if entry is None or now >= entry.value.until:
            return None
        entry.value.changed_at = entry.changed_at
        return entry.value

    def store(
        self,
        sent: SentRequest,
        client: ApplicationClient,
        chain: VerifiedChain,
        allowed: AllowedTarget,
        series: TokenSeries,
        now: datetime,
        tags: frozenset[str],
        as_of: int,
    ) -> KnownExchange | None:
        """Remember a request whose every rule has just been asked; None where it is not.

        Args:
            tags: of all that they were asked of.
            as_of: the epoch of the zone before any of that was looked up.

        What a user's own policies say is asked each time, and so is who an application without a user is.
        """
        root, credential = chain.root, client.credential
        if root is None or root.principal.own_policies or allowed.credential is not None:
            return None
        if not isinstance(credential, PasswordCredential):
            return None
        ends = [allowed_until(root, now), float(chain.subject.expires_at)]
        if credential.expires_at is not None:
            ends.append(credential.expires_at.timestamp())
        known = KnownExchange(client, chain, root, allowed, series, min(ends))
        self._entries.keep(sent.digest, known, tags, as_of=as_of)
        return known

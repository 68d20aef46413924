"""Subject tokens of a token exchange: verified, with the session and the user that they act for.

Every refusal here has one text; which of the checks it was, only the record says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from runtime.adapters.keys.signing import InvalidJwt, MalformedJwt, verify
from runtime.domain.errors import InvalidGrant, InvalidRequest, InvalidScope
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.user_agent import UserAgent
from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.attenuation import is_held_with
from runtime.domain.oauth.claims import ACCESS_TOKEN_TYPE, ChainActor, actors_of, names_of
from runtime.domain.oauth.entity_profiles import EntityProfile
from runtime.domain.oauth.exchange import ACTOR_REFUSED, SUBJECT_REFUSED, check_may_act
from runtime.domain.oauth.revocable_names import TokenNames, name_of
from runtime.domain.oauth.scopes import SIGN_IN_SCOPES
from runtime.domain.zone_addresses import in_words_of
from runtime.services import cache_sizes
from runtime.services.authority import active, consents
from runtime.services.authority.active import NotActive
from runtime.services.bounded_cache import BoundedCache
from runtime.services.client_types import ApplicationClient, Client, UserAgentClient
from runtime.services.container import Services
from runtime.services.zones import CachedZone, ChangeHistory, SessionRoot, ZoneCache
from runtime.services.zones.withdrawals import issued_until_in_session

MAX_TOKEN_CHARS = 16_384
_REQUIRED = ("sub", "aud", "client_id", "jti")
_APPLICATION_PROFILES = (EntityProfile.SERVICE, EntityProfile.AI_AGENT)


@dataclass(frozen=True, slots=True)
class SubjectToken:
    """What a subject token says, once its signature, class, issuer and times were found to be in order.

    Attributes:
        session_id: the root session; None when an application acts on its own behalf.
        application_session_id: the session of that application then; None in tokens of earlier releases.
        actors: everyone who acted so far, the latest first; without an exchange nobody.
        expires_at, issued_at: seconds since 1970; the former is checked again at each use.
        jkt: thumbprint of the key that it is bound to; None for who bears it.
    """

    digest: str
    token_id: str
    sub: str
    audience: str
    client_id: str
    scopes: frozenset[str]
    session_id: str | None
    actors: tuple[ChainActor, ...]
    may_act: object
    expires_at: int
    issued_at: int
    jkt: str | None = None
    application_session_id: str | None = None


@dataclass(frozen=True, slots=True)
class VerifiedAccessToken:
    """An access token whose signature, class and issuer were found to be in order, and all that it says."""

    subject: SubjectToken
    claims: Mapping[str, object]


class ExpiredToken(InvalidGrant):
    """An access token of the zone that is over. To its sender it is refused as any other.

    Attributes:
        subject: what it says, for the record.
    """

    def __init__(self, subject: SubjectToken) -> None:
        ended = datetime.fromtimestamp(subject.expires_at, UTC)
        of_session = f" (session `{subject.session_id}`)" if subject.session_id else ""
        why = f"the token expired at {ended:%Y-%m-%d %H:%M:%S}Z{of_session}"
        super().__init__(SUBJECT_REFUSED, internal=why)
        self.subject = subject


class VerifiedTokenCache(ZoneCache):
    """Access tokens of a zone whose signature was verified, by digest."""

    outlives_changes = True  # a token is verified with the zone's keys alone

    def __init__(self, history: ChangeHistory) -> None:
        self.tokens: BoundedCache[VerifiedAccessToken] = BoundedCache(cache_sizes.VERIFIED_TOKENS)


def verify_subject_token(zone: CachedZone, token: str, now: datetime) -> SubjectToken:
    """The subject of a token. Raises: InvalidRequest when it is not a compact JWS; InvalidGrant."""
    try:
        return verify_access_token(zone, token, now).subject
    except MalformedJwt as failure:
        raise InvalidRequest("`subject_token` is not a compact JWS", internal=str(failure)) from None


def verify_access_token(zone: CachedZone, token: str, now: datetime) -> VerifiedAccessToken:
    """An access token of the zone, from its signature or from having seen that very token before.

    Every endpoint that takes one asks here. Whether what it rests on still stands is not asked.
    Raises: MalformedJwt when it is not a compact JWS; ExpiredToken; InvalidGrant.
    """
    if len(token) > MAX_TOKEN_CHARS:
        raise MalformedJwt("longer than any token of a zone")
    digest = sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
    cache = zone.cache_of(VerifiedTokenCache).tokens
    if (found := cache.get(digest)) is None:
        claims = _claims(zone, token, now)
        found = VerifiedAccessToken(subject_of(digest, _in_words_of(zone, claims)), claims)
        if found.subject.expires_at > now.timestamp():
            cache[digest] = found
    if found.subject.expires_at <= now.timestamp():
        raise ExpiredToken(found.subject)
    return found


def _claims(zone: CachedZone, token: str, now: datetime) -> dict[str, Any]:
    """What a token says that the zone has signed, also when it is over. Raises MalformedJwt, InvalidGrant."""
    try:
        return verify(
            token,
            zone.keys,
            typ=ACCESS_TOKEN_TYPE,
            issuer=zone.issuers,
            audience=None,
            now=now,
            allow_expired=True,
        )
    except MalformedJwt:
        raise
    except InvalidJwt as failure:
        raise refused(str(failure)) from None


def _in_words_of(zone: CachedZone, claims: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a token says, as the zone would say it at the address of the request."""
    if len(zone.issuers) == 1:
        return claims
    return in_words_of(zone.issuer, zone.issuers - {zone.issuer}, claims)


def subject_of(digest: str, claims: Mapping[str, Any]) -> SubjectToken:
    """What the claims of a verified access token come to. Raises InvalidGrant when one is amiss."""
    if not all(isinstance(claims.get(name), str) for name in _REQUIRED):
        raise refused("a claim is missing")
    session_id = claims.get("sid")
    if not isinstance(session_id, str | None):
        raise refused("`sid` is not a string")
    is_own = claims.get("sub_profile") in _APPLICATION_PROFILES
    try:
        return SubjectToken(
            digest=digest,
            token_id=claims["jti"],
            sub=claims["sub"],
            audience=claims["aud"],
            client_id=claims["client_id"],
            scopes=scope_strings.parse(claims.get("scope", "")),
            session_id=None if is_own else session_id,
            application_session_id=session_id if is_own else None,
            actors=actors_of(claims),
            may_act=claims.get("may_act"),
            expires_at=int(claims["exp"]),
            issued_at=int(claims["iat"]),
            jkt=confirmation_thumbprint(claims.get("cnf")),
        )
    except (ValueError, InvalidScope, TypeError) as failure:
        raise refused(str(failure)) from None


def confirmation_thumbprint(cnf: object) -> str | None:
    """The key of a confirmation. Raises ValueError for one that is not understood, which is never ignored."""
    if cnf is None:
        return None
    if not isinstance(cnf, dict) or cnf.keys() != {"jkt"} or not isinstance(cnf["jkt"], str):
        raise ValueError("an unknown member of `cnf`")
    return cnf["jkt"]


def require_not_denied(zone: CachedZone, token_id: str) -> None:
    """Check that this very token has not been revoked. Raises InvalidGrant."""
    if token_id in zone.denied:
        raise refused("the token has been revoked")


def require_root(root: SessionRoot | None, subject: SubjectToken, now: datetime) -> SessionRoot:
    """The sign-in behind a token, while it stands and is that of the token's `sub`. Raises InvalidGrant."""
    if root is None:
        raise refused("the session no longer exists")
    try:
        active.require_active(root.session, root.principal.user, now)
    except NotActive as failure:
        raise refused(str(failure)) from None
    if root.principal.user.identifier != subject.sub:
        raise refused("the session is another user's")
    return root


async def require_own_application(zone: CachedZone, subject: SubjectToken, now: datetime) -> Application:
    """The application whose own token starts the chain, while its session stands.

    Raises: InvalidGrant when either is gone, or another.
    """
    found = await zone.applications.by_identifier(subject.sub)
    if found is None or not await zone.applications.is_principal(found):
        raise refused("its application was deleted, is suspended, or has the identifier of a user")
    own = name_of({"client_id": subject.client_id, "sub": subject.sub})
    if await zone.withdrawals.is_withdrawn(own, issued_at=subject.issued_at):
        raise refused("the identifier was another application's when the token was issued")
    await _require_application_session(zone, subject, now)
    return found


async def _require_application_session(zone: CachedZone, subject: SubjectToken, now: datetime) -> None:
    """Check the session of an application's own token. Raises InvalidGrant when it has ended."""
    if subject.application_session_id is None:
        return
    try:
        active.require_session_active(
            await zone.application_sessions.get(subject.application_session_id), now
        )
    except NotActive as failure:
        raise refused(str(failure)) from None


async def check_provenance(
    zone: CachedZone, client: ApplicationClient, subject: SubjectToken, *, jkt: str | None
) -> Client:
    """The client that a token was issued to, once this application may present it.

    It was issued to the application itself, or for a resource that it provides.

    Who holds a token that is bound to a key must have the key; who provides the resource was shown the
    proof when the token came.

    Args:
        jkt: thumbprint of the key that the sender has proved to have.

    Raises: InvalidGrant. Spec: zone interface, section 3, provenance rule.
    """
    issued_to = await check_chain(zone, subject)
    if issued_to.client_ref == client.client_ref:
        if not is_held_with(subject.jkt, jkt):
            raise refused("bound to a key, and sent without a DPoP proof of it")
        return issued_to
    if not await provides(zone, client, subject):
        raise refused(
            f"it was issued to `{issued_to.identifier}` for `{subject.audience}`; the application can"
            " exchange a token that was issued to itself, or for a resource that it provides"
        )
    return issued_to


async def provides(zone: CachedZone, client: Client, subject: SubjectToken) -> bool:
    """Tell whether a token is for a resource that the client provides: the one of exactly that identifier."""
    resource = await _audience(zone, subject)
    return (
        resource is not None
        and isinstance(client, ApplicationClient)
        and resource.application_id == client.application.id
    )


async def _audience(zone: CachedZone, subject: SubjectToken) -> Resource | None:
    """The resource that a token is for; None when it is gone. One with a longer name is another."""
    resource = await zone.resources.resolve(subject.audience)
    return resource if resource is not None and resource.identifier == subject.audience else None


async def require_sign_in_consent(
    services: Services, zone: CachedZone, subject: SubjectToken, issued_to: Client, root: SessionRoot
) -> None:
    """Check that the user lets a client know what its sign-in scopes tell, still. Raises InvalidGrant."""
    told = subject.scopes & SIGN_IN_SCOPES
    if not await consents.covers_sign_in(services, zone, issued_to, root.principal.user, told):
        raise refused("the user has withdrawn consent to the sign-in scopes")


async def require_audience_consent(
    services: Services,
    zone: CachedZone,
    subject: SubjectToken,
    issued_to: Client,
    root: SessionRoot,
    now: datetime,
) -> None:
    """Check what a token for a resource itself rests on: that the user still lets its client use that.

    A token whose consent or grant has ended is worth nothing, wherever it is shown: whoever could exchange it
    still would have more than its user allows. Raises InvalidGrant.
    """
    if subject.audience == zone.issuer:
        return
    resource = await _audience(zone, subject)
    if resource is None:
        raise refused("the resource of its audience no longer exists")
    allowance = await consents.find_allowance(
        services, zone, issued_to, root, resource, wanted=subject.scopes, now=now
    )
    if allowance is None or not allowance.covers(subject.scopes):
        raise refused("the user has withdrawn consent to the resource")


def require_not_taken_back(zone: CachedZone, root: SessionRoot, subject: SubjectToken) -> None:
    """Check that the user has not taken back since what a token rests on, whatever they allow again now.

    Raises: InvalidGrant.
    """
    names = names_of_token(zone, subject).in_session()
    if subject.issued_at <= issued_until_in_session(root.withdrawn, names):
        raise refused(
            "the user has taken back what the token rests on since it was issued;"
            " exchange a token issued after that"
        )


def names_of_token(zone: CachedZone, subject: SubjectToken) -> TokenNames:
    """What entries of the revocation list can call a token by."""
    return TokenNames(
        subject.client_id,
        None if subject.audience == zone.issuer else subject.audience,
        names_of(subject.actors),
        own=subject.sub if subject.session_id is None else None,
    )


async def check_chain(zone: CachedZone, subject: SubjectToken) -> Client:
    """The client that a token was issued to, when everybody who acted is still there, and what it is for.

    Raises: InvalidGrant.
    """
    if subject.audience != zone.issuer and await _has_gone(zone, subject, "aud", subject.audience):
        raise refused("the identifier was another resource's when the token was issued")
    found = await zone.clients.find(subject.client_id)
    if found is not None and not found.is_active:
        raise refused(f"it was issued to a client that may not act: {found.why_inactive}")
    if found is None or await _has_gone(zone, subject, "client_id", subject.client_id):
        raise refused(
            "the client id that it was issued to was revoked: its credential or its application was deleted,"
            " changed, or suspended for a time; exchange a token issued after that"
        )
    for actor in subject.actors:
        name = actor.subject
        if await find_actor(zone, name) is None or await _has_gone(zone, subject, "actor", name):
            raise refused(
                f"the application `{name}` in the actor chain, or its credential, was deleted or suspended;"
                " exchange a token issued after that"
            )
    return found.client


async def find_actor(zone: CachedZone, actor: str) -> Application | UserAgent | None:
    """Who is called so in a chain: an application, or a client that a user signed in to; None once gone."""
    if (application := await zone.applications.by_identifier(actor)) is not None:
        return application
    client = await zone.clients.get(actor)
    return client.user_agent if isinstance(client, UserAgentClient) else None


async def prior_actors(zone: CachedZone, client: Client, subject: SubjectToken) -> tuple[ChainActor, ...]:
    """Everyone who acted for the principal before this client, the latest first.

    Whoever hands over a token of its own has acted, too, though no exchange has written that into the token:
    else a client could keep out of the chain, and from policies about it, by not exchanging its token.
    """
    if subject.actors:
        return subject.actors
    issued_to = await zone.clients.get(subject.client_id)
    if issued_to is None or issued_to.client_ref == client.client_ref:
        return ()
    return (as_actor(zone, issued_to),)


def as_actor(zone: CachedZone, client: Client) -> ChainActor:
    """The level of `act` that says that a client acts."""
    return ChainActor(client.identifier, zone.issuer, client.client_id, client.profile)


async def _has_gone(zone: CachedZone, subject: SubjectToken, claim: str, name: str) -> bool:
    """Tell whether who had that name when the token was issued went since: one who has it now is another."""
    return await zone.withdrawals.is_withdrawn((claim, name), issued_at=subject.issued_at)


async def check_actor(
    zone: CachedZone,
    client: ApplicationClient,
    subject: SubjectToken,
    actor_token: str | None,
    now: datetime,
    *,
    jkt: str | None,
) -> None:
    """Check who acts: the authenticated application. `may_act` binds it; an actor token may only confirm it.

    An actor token is the application's own token; there is no other kind of actor below an application.

    Args:
        jkt: thumbprint of the key that the sender has proved to have.

    Raises: InvalidRequest when it is no compact JWS; InvalidGrant.
    Spec: zone interface, section 6, rules 5 and 6.
    """
    check_may_act(
        subject.may_act,
        actor=client.application.identifier,
        client_id=client.client_id,
        issuer=zone.issuer,
    )
    if actor_token is None:
        return
    try:
        await _check_actor_token(zone, client, actor_token, now, jkt=jkt)
    except MalformedJwt as failure:
        raise InvalidRequest("`actor_token` is not a compact JWS", internal=str(failure)) from None
    except InvalidGrant as failure:
        raise InvalidGrant(ACTOR_REFUSED, internal=f"actor token: {failure.internal}") from None


async def _check_actor_token(
    zone: CachedZone, client: ApplicationClient, actor_token: str, now: datetime, *, jkt: str | None
) -> None:
    """Check that an actor token is the application's own, and stands. Raises MalformedJwt, InvalidGrant."""
    actor = verify_access_token(zone, actor_token, now).subject
    own = (actor.client_id, actor.sub) == (client.client_id, client.application.identifier)
    if not own or actor.session_id is not None or actor.actors:
        raise refused("it is not the application's own")
    if not is_held_with(actor.jkt, jkt):
        raise refused("bound to a key, and sent without a DPoP proof of it")
    require_not_denied(zone, actor.token_id)
    await _require_application_session(zone, actor, now)
    await check_chain(zone, actor)


def refused(internal: str) -> InvalidGrant:
    """The one refusal of a subject token; *internal* is for the record."""
    return InvalidGrant(SUBJECT_REFUSED, internal=internal)

"""Client assertions (RFC 7523): JWTs signed with the client's own key, or issued by an identity provider.

Who signed with their own key says so: then `iss` and `sub` are both the client id. Anything else is a
workload's token. Claims are looked at before the signature, so that what could not be accepted anyway makes
this service fetch nothing; nothing counts before the signature is verified.

Spec: RFC 7523 section 3; RFC 7521 section 4.2; zone interface, section 4.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from runtime.adapters.keys.jose import CompactJws, InvalidJwt, check_class, parse
from runtime.adapters.outbound import OutboundFailed, OutboundRefused
from runtime.domain.errors import InvalidClient, InvalidRequest, TooManyRequests
from runtime.domain.oauth import assertions as rules
from runtime.domain.oauth.sent_values import unknown_client_id
from runtime.services import rate_limits
from runtime.services.client_types import Client, is_known
from runtime.services.clients import private_key_jwt, workload_identity
from runtime.services.clients.audiences import accepted_audiences
from runtime.services.clients.client_revalidation import revalidated_client
from runtime.services.clients.jwt_replay import is_first_use
from runtime.services.container import Services
from runtime.services.zones import CachedZone
from runtime.services.zones.clients import FoundClient

_TYPES = ("JWT", "client-authentication+jwt")  # one may be named; no other class of token will do


@dataclass(frozen=True, slots=True)
class ClientAssertion:
    """An assertion as it arrived, nothing of it verified.

    Attributes:
        client_id: what the form says besides.
    """

    jws: CompactJws
    unverified_issuer: str
    unverified_subject: str
    client_id: str | None

    @property
    def claimed(self) -> str:
        """Whom it claims to come from, for counting failures."""
        issuer, subject = self.unverified_issuer, self.unverified_subject
        return issuer if issuer == subject else f"{issuer} {subject}"


def read(form: Mapping[str, str]) -> ClientAssertion:
    """The assertion in a form. Raises InvalidRequest when half of it is missing; InvalidClient."""
    if "client_assertion" not in form or "client_assertion_type" not in form:
        raise InvalidRequest("send both `client_assertion` and `client_assertion_type`, or neither")
    if form["client_assertion_type"] != rules.CLIENT_ASSERTION_TYPE:
        raise InvalidClient(internal="`client_assertion_type` is not supported")
    try:
        jws = parse(form["client_assertion"])
        issuer, subject = rules.named(jws.unverified_claims, "iss"), rules.named(jws.unverified_claims, "sub")
    except (InvalidJwt, rules.InvalidAssertion) as failure:
        raise InvalidClient(internal=str(failure)) from None
    return ClientAssertion(jws, issuer, subject, form.get("client_id"))


async def client_of(
    services: Services, zone: CachedZone, assertion: ClientAssertion, now: datetime, *, sender: str
) -> Client:
    """The client that the assertion speaks for.

    Args:
        sender: the place that it comes from.

    Raises: InvalidClient; TooManyRequests; Unavailable when the shared state cannot tell whether it was used
        before, or when a provider's keys cannot be had for now.
    """
    if assertion.unverified_issuer != assertion.unverified_subject:
        return await workload_identity.workload_of(
            services,
            zone,
            assertion.jws,
            issuer=assertion.unverified_issuer,
            subject=assertion.unverified_subject,
            client_id=assertion.client_id,
            now=now,
        )
    found = await zone.clients.find(assertion.unverified_issuer)
    try:
        return await _with_own_key(services, zone, found, assertion, now, sender)
    except InvalidClient as refusal:
        refusal.application_id = found.client.client_ref.application_id if found is not None else None
        raise


async def _with_own_key(
    services: Services,
    zone: CachedZone,
    found: FoundClient | None,
    assertion: ClientAssertion,
    now: datetime,
    sender: str,
) -> Client:
    """The client, which signed with a key of its own. Raises as above."""
    if found is None:
        raise InvalidClient(internal=unknown_client_id(assertion.unverified_issuer))
    if not found.is_active:  # and no key is fetched for it
        raise InvalidClient(internal=found.why_inactive)
    client = await revalidated_client(zone, found.client)
    if client is None or assertion.client_id not in (None, client.client_id):
        raise InvalidClient(internal="no client of the zone any more, or another than the form names")
    try:
        ends = _check(zone, assertion.jws, now)
        await private_key_jwt.check_signature(services, zone, client, assertion.jws)
    except (InvalidJwt, rules.InvalidAssertion, OutboundRefused, OutboundFailed) as failure:
        raise InvalidClient(internal=str(failure)) from None
    if not is_known(client) and (
        wait := services.rate_limiter.hit_local(rate_limits.CLIENT_ASSERTIONS, zone.id, sender)
    ):
        raise TooManyRequests("too many client assertions; try again in a minute", retry_after_seconds=wait)
    claims = assertion.jws.unverified_claims  # verified by now
    if not await is_first_use(
        services,
        f"assertion:{zone.id}",
        client.client_id,
        rules.token_id(claims),
        made_at=rules.made_at(claims, ends=ends, max_ahead_seconds=rules.MAX_AHEAD_SECONDS),
        ttl_seconds=int(ends - now.timestamp()) + 1,
    ):
        raise InvalidClient(internal="the assertion was used before")
    return client


def _check(zone: CachedZone, jws: CompactJws, now: datetime) -> float:
    """Check all that the assertion says but who it is; its end. Raises InvalidAssertion; InvalidToken."""
    check_class(jws, _TYPES)
    rules.check_audience(jws.unverified_claims, accepted_audiences(zone))
    rules.token_id(jws.unverified_claims)
    return rules.check_times(jws.unverified_claims, now=now, max_ahead_seconds=rules.MAX_AHEAD_SECONDS)

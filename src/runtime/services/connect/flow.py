"""The connect flow: from an opened connect link to the page or the redirect that it ends with."""

import json
from dataclasses import asdict, dataclass
from hashlib import sha256

from pydantic import SecretStr

from runtime.domain.errors import AccessDenied, ConsentDenied
from runtime.services import epochs
from runtime.services.authority import browser_sessions, connect_links
from runtime.services.authority.browser_sessions import Browser, SignedInUser
from runtime.services.authorization import consent_decision
from runtime.services.authorization.consent_prompt import ConsentPrompt, prompt_of, prompted_resource
from runtime.services.authorization.next_step import NextStep
from runtime.services.connect import outcomes, policies, requests, upstream
from runtime.services.connect.needs import Need, Requirement, find_requirement
from runtime.services.connect.outcomes import Connected, ConnectOutcome
from runtime.services.connect.requests import CheckedLink, ConnectRequest, ValidLink
from runtime.services.container import Services
from runtime.services.vault import static_credentials
from runtime.services.zones import CachedZone


class SignInNeeded(Exception):
    """Nobody is signed in in this browser: who does so comes back."""


@dataclass(frozen=True, slots=True)
class ConnectPrompt:
    """What the connect page shows.

    Attributes:
        provider: name of the outside provider, where an account there is connected.
        digest: of all that the user agrees to, which the form sends back.
        handle: what the form's token is for.
    """

    consent: ConsentPrompt
    email: str
    need: Need
    provider: str | None
    digest: str
    handle: str


async def open_link(
    services: Services, zone: CachedZone, request: ConnectRequest, browser: Browser
) -> ConnectPrompt | Connected:
    """The question of a link; or that there is none, since everything is authorized.

    Raises: SignInNeeded; WrongUser; BadLink; PolicyDenied.
    """
    asked = await _checked(services, zone, request, browser)
    await requests.require_unused(services, zone, asked.link)
    required = await policies.permitted(services, zone, asked, await find_requirement(services, zone, asked))
    if required is None:
        raise policies.page()
    if required.need is Need.NOTHING:
        return outcomes.connected(zone, asked, required.scopes)
    return _prompt(asked, required)


async def describe_link(services: Services, zone: CachedZone, request: ConnectRequest) -> ConsentPrompt:
    """Who asks, and for what, for somebody who is about to sign in; not who that is expected to be.

    What the application could do afterwards may be more, and depends on what the user has connected before:
    that is for the user to see.

    Raises: BadLink, so that nobody signs in for a link that has ended.
    """
    link = connect_links.open_link(zone, request.link, services.clock())
    valid = await requests.validate(services, zone, link, request.returns_to)
    await requests.require_unused(services, zone, link)
    return _consent(valid, valid.scopes)


async def decide(
    services: Services,
    zone: CachedZone,
    request: ConnectRequest,
    browser: Browser,
    *,
    allowed: bool,
    credential: str,
    shown: str,
) -> ConnectOutcome | ConnectPrompt:
    """Take the user's decision, which counts once; or the question again, where it is another one by now.

    Args:
        credential: the key that was pasted, where one is needed.
        shown: the digest of the page that the user has answered.
    Raises: SignInNeeded; WrongUser; BadLink; InvalidRequest for what is no key, with the link unused;
        AccessDenied where the user said no, and PolicyDenied where policies do, and the application has
        named no place to hear of it.
    """
    asked = await _checked(services, zone, request, browser)
    if not allowed:
        await requests.use(services, zone, asked.link)
        page = ConsentDenied(
            f"you did not let {asked.client.name} use {asked.resource.name} in your name; nothing was"
            " authorized, and you can close this page"
        )
        return outcomes.refused(zone, asked, AccessDenied("the user denied the request"), page=page)
    required = await policies.permitted(services, zone, asked, await find_requirement(services, zone, asked))
    if required is None:
        return policies.refused(zone, asked)
    if required.need is not Need.NOTHING and (question := _prompt(asked, required)).digest != shown:
        await requests.require_unused(services, zone, asked.link)
        return question
    if required.need is Need.ACCOUNT and asked.provider is not None:
        location = await upstream.start_connection(services, zone, asked, asked.provider, required.scopes)
        return NextStep(location)
    key = static_credentials.check(credential) if required.need is Need.KEY else None
    await requests.use(services, zone, asked.link)
    if required.need is not Need.NOTHING:
        await _store(services, zone, asked, required.scopes, key)
    return outcomes.finished(asked, outcomes.connected(zone, asked, required.scopes))


async def handle_of(
    services: Services, zone: CachedZone, request: ConnectRequest, browser: Browser, shown: str
) -> str:
    """What the form's token is for, on the page with that digest. Raises: SignInNeeded; BadLink."""
    link = connect_links.open_link(zone, request.link, services.clock())
    return _handle(link, await _signed_in(services, zone, browser), shown)


async def _checked(
    services: Services, zone: CachedZone, request: ConnectRequest, browser: Browser
) -> CheckedLink:
    """The link, before anybody is asked to sign in for what is none."""
    link = connect_links.open_link(zone, request.link, services.clock())
    signed_in = await _signed_in(services, zone, browser)
    return await requests.check(services, zone, link, signed_in, request.returns_to)


async def _signed_in(services: Services, zone: CachedZone, browser: Browser) -> SignedInUser:
    signed_in = await browser_sessions.current(services, zone, browser.session)
    if signed_in is None:
        raise SignInNeeded
    return signed_in


def _handle(link: connect_links.ConnectLink, signed_in: SignedInUser, digest: str) -> str:
    return f"{link.id} {signed_in.session.id} {digest}"


def _digest(asked: CheckedLink, required: Requirement, consent: ConsentPrompt) -> str:
    """What the user agrees to: all that the page says, and the rows that it says it of."""
    provider = asked.provider
    agreed = (
        required.need,
        sorted(required.scopes),
        asked.client.client_id,
        asked.client.client_ref.id,
        asked.resource.id,
        asked.resource.identifier,
        (provider.id, provider.revision) if provider is not None else None,
        asdict(consent),
    )
    return sha256(json.dumps(agreed).encode()).hexdigest()


def _consent(valid: ValidLink, scopes: frozenset[str]) -> ConsentPrompt:
    resource = prompted_resource(valid.resource, scopes)
    return prompt_of(valid.client, valid.returns_to.redirect_uri, (), (resource,))


def _prompt(asked: CheckedLink, required: Requirement) -> ConnectPrompt:
    is_elsewhere = required.need is Need.ACCOUNT and asked.provider is not None
    consent = _consent(asked, required.scopes)
    digest = _digest(asked, required, consent)
    return ConnectPrompt(
        consent=consent,
        email=str(asked.signed_in.user.email),
        need=required.need,
        provider=asked.provider.name if is_elsewhere and asked.provider else None,
        digest=digest,
        handle=_handle(asked.link, asked.signed_in, digest),
    )


async def _store(
    services: Services, zone: CachedZone, asked: CheckedLink, scopes: frozenset[str], key: SecretStr | None
) -> None:
    """Keep that the user lets the application use the resource, and the key that they have pasted for it."""
    endpoint, user_id = asked.returns_to.endpoint(zone.issuer), asked.link.user_id
    host = endpoint.redirect_host if endpoint is not None else None
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        bumped.update(await epochs.bump_user(conn, zone.id, user_id))
        wanted, now = {asked.resource.id: scopes}, services.clock()
        await requests.check_again(conn, zone, asked, now)
        if key is not None:
            await static_credentials.put(
                conn, zone, user_id, asked.resource.id, key, shown=asked.resource.identifier, now=now
            )
        await consent_decision.record_consents(conn, zone, asked.client, user_id, wanted, host, now=now)

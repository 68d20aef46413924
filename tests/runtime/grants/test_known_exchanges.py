"""Exchange requests that are sent once more: answered as before, and refused where a new one would be."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from tests.support.factories import App, Person
from tests.support.possession import Holder
from tests.support.scene import Scene, claims_of

from runtime.domain.errors import (
    InvalidClient,
    InvalidDpopProof,
    InvalidGrant,
    InvalidRequest,
    InvalidScope,
    TooManyRequests,
)
from runtime.domain.kinds.application import PasswordCredential
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.attenuation import TokenLimits
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.domain.oauth.forms import CONTENT_TYPE, parse_form
from runtime.services import epochs
from runtime.services.authority.consents import Allowance
from runtime.services.client_types import ApplicationClient
from runtime.services.grants import repeated_exchanges
from runtime.services.grants.authorized_exchanges import AllowedTarget
from runtime.services.grants.exchanged_tokens import TokenSeries
from runtime.services.grants.known_exchanges import (
    KnownExchange,
    KnownExchanges,
    SentRequest,
    may_be_remembered,
    sent_request,
)
from runtime.services.grants.token_endpoint import respond
from runtime.services.grants.verified_chains import VerifiedChain, authority_of
from runtime.services.issuing import policy_decision
from runtime.services.rate_limits import MAX_SECRET_GUESSES
from runtime.services.zones import ChangeHistory

PERIOD_BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = timedelta(seconds=policy_decision.valid_until(PERIOD_BEGINS) - PERIOD_BEGINS.timestamp())
SOON = timedelta(seconds=5)
READ = frozenset({"read"})
SENT = SentRequest("digest", b"read")


def form_of(agent: App, subject: str, api: Resource, **more: str) -> list[tuple[str, str]]:
    """An exchange."""
    return [
        ("grant_type", GRANT_TYPE),
        ("subject_token", subject),
        ("subject_token_type", ACCESS_TOKEN),
        ("resource", api.identifier),
        *agent.form.items(),
        *more.items(),
    ]


async def known(scene: Scene, form: list[tuple[str, str]]) -> KnownExchange | None:
    """What the zone knows of a request."""
    zone = await scene.services.zones.get(scene.zone.id)
    sent = sent_request(urlencode(form).encode(), CONTENT_TYPE, None)
    return zone.cache_of(KnownExchanges).find(sent, scene.services.clock().timestamp()) if sent else None


async def revoke(scene: Scene, token: str) -> None:
    """Revoke a token as its endpoint does."""
    claims, now = claims_of(token), scene.services.clock()
    async with scene.services.epochs.transaction() as (conn, bumped):
        expires_at = datetime.fromtimestamp(claims["exp"], UTC)
        token_id = claims["jti"]
        bumped |= await epochs.revoke_token(conn, scene.zone.id, token_id, now=now, expires_at=expires_at)


class TestByWhat:
    """What two requests have in common."""

    @pytest.mark.parametrize(
        ("body", "same"),
        [
            (b"a=1&scope=read&b=2", True),
            (b"scope=read&a=1&b=2", True),
            (b"a=1&b=2&scope=read+write", True),
            (b"a=1&b=2", True),
            (b"a=1&b=3&scope=read", False),
            (b"b=2&a=1&scope=read", False),
            (b"a=1&b=2&%73cope=read", False),
            (b"a=1&b=2&myscope=read", False),
        ],
    )
    def test_a_request_is_known_by_everything_but_its_scopes(self, body: bytes, *, same: bool) -> None:
        """Wherever they stand; under any other spelling the parameter is part of the rest."""
        first, other = (sent_request(each, CONTENT_TYPE, None) for each in (b"a=1&b=2&scope=read", body))

        assert first is not None
        assert other is not None
        assert (other.digest == first.digest) is same

    def test_scopes_that_are_sent_twice_are_never_remembered(self) -> None:
        """Such a request is refused when it is read."""
        assert sent_request(b"scope=read&a=1", CONTENT_TYPE, None)
        assert sent_request(b"scope=read&a=1&scope=read", CONTENT_TYPE, None) is None

    @pytest.mark.parametrize(
        "headers", [("text/plain", None), (CONTENT_TYPE, "Basic eDp5"), (None, None), (CONTENT_TYPE, "")]
    )
    def test_headers_that_count_are_part_of_it(self, headers: tuple[str | None, str | None]) -> None:
        """The content type, and who the header says it is."""
        first, other = sent_request(b"a=1", CONTENT_TYPE, None), sent_request(b"a=1", *headers)

        assert first
        assert other
        assert first.digest != other.digest

    @pytest.mark.parametrize(
        ("body", "may"),
        [
            (b"a=1&scope=read", True),
            (b"a=1", True),
            (b"a=1&%73cope=read", False),
            (b"a=1&scope=", False),
            (b"a=1&client_assertion=e.e.e", False),
        ],
    )
    def test_what_counts_once_is_never_remembered(self, body: bytes, *, may: bool) -> None:
        """An assertion is used up; and scopes have to be where a next request's are looked for."""
        sent = sent_request(body, CONTENT_TYPE, None)

        assert sent is not None
        assert may_be_remembered(sent, parse_form(body)) is may


@dataclass(frozen=True)
class Answered:
    """What an exchange went on from, at the beginning of a period."""

    client: ApplicationClient
    chain: VerifiedChain
    target: AllowedTarget

    def until(self) -> float | None:
        """When the memory of it ends, in seconds after the beginning; None where there is none."""
        stored = KnownExchanges(ChangeHistory(7)).store(
            SENT, self.client, self.chain, self.target, TokenSeries(""), PERIOD_BEGINS, frozenset(), 7
        )
        return stored.until - PERIOD_BEGINS.timestamp() if stored is not None else None


@pytest.fixture
async def answered(scene: Scene, agent: App, api: Resource, subject: str) -> Answered:
    await scene.exchange(agent, subject, api, "read")
    found = await known(scene, form_of(agent, subject, api, scope="read"))
    assert found is not None
    limits = TokenLimits(api.identifier, READ, 3600, allowed=READ)
    day = PERIOD_BEGINS + timedelta(days=1)
    root = replace(found.root, session=replace(found.root.session, expires_at=day))
    subject_token = replace(found.chain.subject, expires_at=int(day.timestamp()))
    chain = replace(found.chain, subject=subject_token, root=root)
    return Answered(found.client, chain, AllowedTarget(api, limits, Allowance(READ), None, ("rule",)))


class TestUntilWhen:
    """Nothing that an entry rests on may end by itself before the entry does."""

    def test_it_ends_with_the_period_for_which_policies_are_asked(self, answered: Answered) -> None:
        """They may read the time."""
        assert answered.until() == PERIOD.total_seconds()

    def test_it_ends_with_the_subject_token(self, answered: Answered) -> None:
        """From then on the same request is refused."""
        ends = int((PERIOD_BEGINS + SOON).timestamp())
        chain = replace(answered.chain, subject=replace(answered.chain.subject, expires_at=ends))

        assert replace(answered, chain=chain).until() == SOON.total_seconds()

    def test_it_ends_with_the_session(self, answered: Answered) -> None:
        """It need not be ended by anybody."""
        root = answered.chain.root
        assert root is not None
        session = replace(root.session, expires_at=PERIOD_BEGINS + SOON)
        chain = replace(answered.chain, root=replace(root, session=session))

        assert replace(answered, chain=chain).until() == SOON.total_seconds()

    def test_it_ends_with_the_secret(self, answered: Answered) -> None:
        """A secret is retired by its date."""
        credential = answered.client.credential
        assert isinstance(credential, PasswordCredential)
        ending = credential.model_copy(update={"expires_at": PERIOD_BEGINS + SOON})

        client = replace(answered.client, credential=ending)
        assert replace(answered, client=client).until() == SOON.total_seconds()

    def test_what_users_own_policies_say_is_asked_each_time(self, answered: Answered) -> None:
        """They are held elsewhere."""
        root = answered.chain.root
        assert root is not None
        own = replace(root, principal=replace(root.principal, own_policies="any"))

        assert answered.until() is not None
        assert replace(answered, chain=replace(answered.chain, root=own)).until() is None

    def test_an_application_without_a_user_is_looked_at_each_time(self, answered: Answered) -> None:
        """So is its session."""
        assert replace(answered, chain=replace(answered.chain, root=None)).until() is None


class TestOnceMore:
    """The same request, or nearly the same one, after it was answered."""

    async def test_it_gets_the_same_token(
        self, scene: Scene, agent: App, api: Resource, subject: str
    ) -> None:
        """As one that is read gets the token that was issued before."""
        first, second, third = [await scene.exchange(agent, subject, api, "read") for _ in range(3)]

        assert first["access_token"] == second["access_token"] == third["access_token"]
        assert {**first, "expires_in": 0} == {**third, "expires_in": 0}

    async def test_other_scopes_get_a_token_of_their_own(self, scene: Scene, ann: Person) -> None:
        """And those of the resource that it does not have are refused, however often."""
        api = await scene.company.resource(scene.zone, "https://more.test", scopes=["read", "write"])
        agent = await scene.company.app(scene.zone, "more", dependencies=[api])
        subject = await scene.company.token(scene.zone, agent, ann)

        asked = ["read", "write", "read", "write read"]
        told = [await scene.exchange(agent, subject, api, scope) for scope in asked]
        assert [set(each["scope"].split()) for each in told] == [set(each.split()) for each in asked]
        assert [claims_of(each["access_token"])["scope"] for each in told] == [each["scope"] for each in told]
        for wrong in ("erase", "read  write", "read erase"):
            with pytest.raises(InvalidScope):
                await scene.exchange(agent, subject, api, wrong)
        assert (await scene.exchange(agent, subject, api))["scope"] == "read write"

    async def test_with_another_secret_it_is_refused(
        self, scene: Scene, agent: App, api: Resource, subject: str
    ) -> None:
        """What was proved was proved by these bytes."""
        assert await scene.exchange(agent, subject, api, "read")
        with pytest.raises(InvalidClient):
            await scene.exchange(agent, subject, api, "read", client_secret="guess")
        form = [each for each in form_of(agent, subject, api, scope="read") if each[0] != "client_secret"]
        with pytest.raises(InvalidClient):
            await scene.post(form)

    @pytest.mark.usefixtures("one_window")
    async def test_from_an_address_that_guessed_too_often_it_waits(self, scene: Scene, ann: Person) -> None:
        """As a request that is read does; and works from another one."""
        api = await scene.company.resource(scene.zone, "https://guessed.test", scopes=["read"])
        agent = await scene.company.app(scene.zone, "guessed", dependencies=[api])
        subject = await scene.company.token(scene.zone, agent, ann)
        address = "198.51.100.77"
        assert await scene.exchange(agent, subject, api, "read", address=address)

        for _ in range(MAX_SECRET_GUESSES):
            with pytest.raises(InvalidClient):
                await scene.exchange(agent, subject, api, address=address, client_secret="guess")
        with pytest.raises(TooManyRequests):
            await scene.exchange(agent, subject, api, "read", address=address)
        assert await scene.exchange(agent, subject, api, "read")

    async def test_with_a_proof_of_a_key_it_is_read(
        self, scene: Scene, agent: App, api: Resource, subject: str
    ) -> None:
        """A proof counts once, and what it is sent with is bound to its key."""
        plain = await scene.exchange(agent, subject, api, "read")
        proof = Holder().proof(str(scene.zone.protocols.oauth2.token_endpoint))
        bound = await scene.exchange(agent, subject, api, "read", proof=proof)

        assert (plain["token_type"], bound["token_type"]) == ("Bearer", "DPoP")
        with pytest.raises(InvalidDpopProof):
            await scene.exchange(agent, subject, api, "read", proof=proof)
        assert (await scene.exchange(agent, subject, api, "read"))["token_type"] == "Bearer"

    async def test_with_a_parameter_twice_it_is_refused(
        self, scene: Scene, agent: App, api: Resource, subject: str
    ) -> None:
        """Also when the second one is spelt in another way."""
        form = form_of(agent, subject, api, scope="read")
        assert await scene.post(form)

        async def send(body: bytes) -> None:
            sender = {"authorization": None, "address": "192.0.2.1", "request_id": "test-request"}
            await respond(scene.services, scene.zone.id, body, content_type=CONTENT_TYPE, **sender)

        body = urlencode(form).encode()
        await send(body)
        for twice in (b"&scope=read", b"&%73cope=read", b"&scop%65="):
            with pytest.raises(InvalidRequest, match="sent twice"):
                await send(body + twice)

    async def test_after_its_token_was_revoked_it_gets_another(
        self, scene: Scene, agent: App, api: Resource, subject: str
    ) -> None:
        """A token that was handed out is not handed out after its revocation."""
        form = form_of(agent, subject, api, scope="read")
        first = await scene.exchange(agent, subject, api, "read")
        found = await known(scene, form)
        assert found is not None
        assert found.issued is not None
        assert found.issued.token.token == first["access_token"]
        await revoke(scene, first["access_token"])

        assert (await scene.exchange(agent, subject, api, "read"))["access_token"] != first["access_token"]

    async def test_after_its_subject_token_was_revoked_it_is_refused(
        self, scene: Scene, agent: App, api: Resource, subject: str
    ) -> None:
        """Nothing is made of a token any more once it was revoked."""
        assert await scene.exchange(agent, subject, api, "read")
        await revoke(scene, subject)

        with pytest.raises(InvalidGrant):
            await scene.exchange(agent, subject, api, "read")


@pytest.mark.parametrize("looks_again", [True, False])
async def test_the_second_look_is_what_refuses_a_known_request(
    scene: Scene, agent: App, api: Resource, monkeypatch: pytest.MonkeyPatch, *, looks_again: bool
) -> None:
    """After its subject token was revoked: without that look the memory would answer."""
    dora = await scene.company.person(scene.zone, f"dora-{looks_again}@acme.test".lower())
    subject = await scene.company.token(scene.zone, agent, dora)
    assert await scene.exchange(agent, subject, api, "read")
    assert await known(scene, form_of(agent, subject, api, scope="read"))
    if not looks_again:
        monkeypatch.setattr(repeated_exchanges, "_rests_on_the_same", lambda *_: True)
    await revoke(scene, subject)

    expected = pytest.raises(InvalidGrant) if looks_again else nullcontext()
    with expected:
        await scene.exchange(agent, subject, api, "read")


async def test_the_authority_of_a_known_chain_is_that_of_its_root(
    scene: Scene, agent: App, api: Resource, subject: str
) -> None:
    """What policies are asked about is what a request that is read would ask them about."""
    await scene.exchange(agent, subject, api, "read")
    found = await known(scene, form_of(agent, subject, api))
    assert found is not None

    zone = await scene.services.zones.get(scene.zone.id)
    now = scene.services.clock()
    assert await authority_of(zone, found.chain.subject, found.root, now) == (
        found.root,
        found.chain.authority,
    )

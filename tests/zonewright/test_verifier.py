"""Access tokens at a resource server that verifies them with the library."""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from datetime import timedelta

import httpx
import jwt
import pytest
from tests.support.possession import Holder
from tests.support.waiting import repeat
from tests.zonewright.conftest import CALENDAR, SCOPES, TOOLS, Site

from runtime.adapters.keys.signing import SigningKey
from runtime.services.management.zones import key_rotation
from zonewright import (
    AccessToken,
    ChainActor,
    DpopRefused,
    MissingToken,
    ScopeRequired,
    TokenRefused,
    Verifier,
    ZoneUnreachable,
)

HERE = {"method": "GET", "url": TOOLS}


def recoded(token: str, *, header: dict[str, object] | None = None, **claims: object) -> str:
    """The token with other members, and the signature that it had."""
    head, body, signature = token.split(".")
    changed = [
        urlsafe_b64encode(json.dumps({**json.loads(urlsafe_b64decode(part + "==")), **changes}).encode())
        .rstrip(b"=")
        .decode()
        for part, changes in ((head, header or {}), (body, claims))
    ]
    return ".".join([*changed, signature])


def forged(site: Site, algorithm: str, key: object) -> str:
    """A token with the zone's claims and another signature."""
    token = site.token()
    claims = jwt.decode(token, options={"verify_signature": False})
    header = jwt.get_unverified_header(token)
    return jwt.encode(claims, key, algorithm=algorithm, headers={"typ": "at+jwt", "kid": header["kid"]})  # type: ignore[arg-type]


async def test_a_token_says_whom_it_is_about_and_what_it_allows(site: Site, verifier: Verifier) -> None:
    """Subject, client, scopes and session are those that the zone issued the token with."""
    token = await verifier.verify(site.token())
    assert (token.subject, token.client_id, token.scopes, token.session_id) == (
        "ada@acme.test",
        site.agent.client_id,
        frozenset(SCOPES),
        site.ada.session_id,
    )


async def test_the_chain_of_an_exchanged_token_is_listed_from_the_caller_on(site: Site) -> None:
    """The application that calls comes first, the one the user signed in to last."""
    answer = site.post(
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": site.token(),
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "resource": CALENDAR,
            **site.tool_server.form,
        }
    )
    verifier = Verifier(site.issuer, CALENDAR)
    token = await verifier.verify(answer.json()["access_token"])
    assert [actor.subject for actor in token.actors] == ["tool-server", "agent"]
    await verifier.aclose()


async def test_a_verified_token_can_be_exchanged_on(site: Site, verifier: Verifier) -> None:
    """It has the token that came with the request, and shows it in no log."""
    raw = site.token()
    verified = await verifier.authenticate(f"Bearer {raw}", method="GET", url=TOOLS)
    assert verified.raw == raw
    assert "ada@acme.test" in repr(verified)
    assert raw not in repr(verified)


def token_with(**claims: object) -> AccessToken:
    """A verified token with these claims, and those that every one has."""
    told = {"iss": "https://zone.test", "sub": "ada", "aud": TOOLS, "client_id": "agent", "jti": "1"}
    return AccessToken.from_claims({**told, "iat": 1, "exp": 2, **claims}, raw="eyJ")


async def test_each_actor_says_whose_name_it_has_and_what_it_is(site: Site) -> None:
    """Issuer, client id and profile of an actor are those that the zone wrote into `act`."""
    token = site.post(
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": site.token(),
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "resource": CALENDAR,
            **site.tool_server.form,
        }
    ).json()["access_token"]
    verifier = Verifier(site.issuer, CALENDAR)
    outermost = (await verifier.verify(token)).actors[0]
    assert outermost == ChainActor("tool-server", site.issuer, site.tool_server.client_id, "service")
    await verifier.aclose()


async def test_the_profile_of_the_subject_is_read(site: Site, verifier: Verifier) -> None:
    """A user's token says so."""
    assert (await verifier.verify(site.token())).subject_profile == "user"


def test_a_chain_of_an_older_zone_has_names_alone() -> None:
    """Nothing is made up for the members that are not there."""
    token = token_with(act={"sub": "tools", "act": {"sub": "agent"}})
    assert (token.actors, token.subject_profile) == ((ChainActor("tools"), ChainActor("agent")), None)


@pytest.mark.parametrize(
    ("profile", "is_agent"),
    [("ai_agent", True), ("service ai_agent", True), ("service", False), (None, False)],
)
def test_an_agent_is_told_by_its_profile(profile: str | None, is_agent: bool) -> None:
    """`sub_profile` is a list of words; an actor without one is not known to be an agent."""
    assert ChainActor("tools", profile=profile).is_ai_agent is is_agent


@pytest.mark.parametrize("name", ["iss", "client_id", "sub_profile"])
def test_a_member_of_act_that_is_no_text_is_refused(name: str) -> None:
    """A server would otherwise decide on what the zone cannot have written."""
    with pytest.raises(TokenRefused, match=name):
        token_with(act={"sub": "tools", name: 1})


async def verified_until_refused(verifier: Verifier, token: str) -> None:
    """Verify a token again and again, for ten seconds at most."""
    await repeat(lambda: verifier.verify(token), seconds=10)


REFUSED: dict[str, Callable[[Site], str]] = {
    "for another resource": lambda site: site.token(audience=CALENDAR),
    "for the zone itself": lambda site: site.token(audience=site.issuer),
    "expired": lambda site: site.token(now=site.company.services.clock() - timedelta(hours=2)),
    "with another subject": lambda site: recoded(site.token(), sub="eve@acme.test"),
    "of another type": lambda site: recoded(site.token(), header={"typ": "JWT"}),
    "with a critical extension": lambda site: recoded(site.token(), header={"crit": ["exp"]}),
    "without a key id": lambda site: recoded(site.token(), header={"kid": None}),
    "with an unknown key id": lambda site: recoded(site.token(), header={"kid": "none-such"}),
    "unsigned": lambda site: forged(site, "none", None),
    "signed with a shared secret": lambda site: forged(site, "HS256", "x" * 32),
    "signed with a key of its own": lambda site: forged(
        site, "ES256", SigningKey.generate("ES256").private_key
    ),
    "no JWT": lambda _site: "opaque",
    "endless": lambda _site: "a." * 20_000,
}


@pytest.mark.parametrize("made", REFUSED.values(), ids=REFUSED)
async def test_a_token_is_refused(site: Site, verifier: Verifier, made: Callable[[Site], str]) -> None:
    """While one of the same zone and resource, made just before, is accepted."""
    assert await verifier.verify(site.token())
    with pytest.raises(TokenRefused):
        await verifier.verify(made(site))


async def test_a_revoked_token_is_refused_within_seconds(site: Site, verifier: Verifier) -> None:
    """Ending the session revokes its tokens, and nobody else's."""
    bob = site.person("bob")
    token, other = site.token(person=bob), site.token()
    assert await verifier.verify(token)
    site.end_session(bob)
    with pytest.raises(TokenRefused, match="revoked"):
        await verified_until_refused(verifier, token)
    assert await verifier.verify(other)


async def test_without_the_revocation_list_a_token_counts_until_it_expires(site: Site) -> None:
    """That is what `revocations=False` says."""
    carol = site.person("carol")
    token = site.token(person=carol)
    site.end_session(carol)
    verifier = Verifier(site.issuer, TOOLS, revocations=False)
    assert await verifier.verify(token)
    await verifier.aclose()


async def test_a_key_that_is_new_is_fetched_when_a_token_names_it(site: Site) -> None:
    """A rotation needs no restart of resource servers, once the pause for unknown keys is over."""
    from zonewright import keys  # its clock is set forward

    verifier = Verifier(site.issuer, TOOLS)
    await verifier.verify(site.token())
    site.server.call(lambda services: key_rotation.rotate(services, site.zone.id, "RS256", at_once=True))
    token = site.token()
    with pytest.raises(TokenRefused, match="not in the zone's JWK set"):
        await verifier.verify(token)
    verifier._keys._clock = lambda: keys.monotonic() + 31
    assert await verifier.verify(token)
    await verifier.aclose()


async def test_made_up_key_ids_cause_one_fetch_in_half_a_minute(site: Site) -> None:
    """A stranger cannot make a resource server ask the zone for its keys again and again."""
    asked: list[str] = []

    async def note(request: httpx.Request) -> None:
        asked.append(request.url.path)

    async with httpx.AsyncClient(event_hooks={"request": [note]}, trust_env=False) as http:
        verifier = Verifier(site.issuer, TOOLS, revocations=False, http=http)
        assert await verifier.verify(site.token())
        for number in range(20):
            with pytest.raises(TokenRefused):
                await verifier.verify(recoded(site.token(), header={"kid": f"made-up-{number}"}))
    assert sum("jwks" in path for path in asked) == 1


async def test_nothing_is_said_of_a_token_while_the_zone_cannot_be_reached() -> None:
    """The caller hears 503, not 401: the token may be valid."""
    verifier = Verifier("http://127.0.0.1:9", TOOLS)
    token = jwt.encode({"sub": "x"}, "x" * 32, headers={"typ": "at+jwt", "kid": "k"})
    with pytest.raises(ZoneUnreachable):
        await verifier.verify(token)
    await verifier.aclose()


async def test_the_metadata_of_another_issuer_is_not_used(site: Site) -> None:
    """An address that leads to a zone under another name is refused (RFC 8414 section 3.3)."""
    verifier = Verifier(site.issuer.replace("127.0.0.1", "localhost"), TOOLS)
    with pytest.raises(ZoneUnreachable, match=f"has the issuer `{re.escape(site.issuer)}`"):
        await verifier.verify(site.token())
    await verifier.aclose()


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer  ", "Basic YTpi", "Token x"])
async def test_a_request_without_an_access_token(verifier: Verifier, authorization: str | None) -> None:
    """Its challenge names no error (RFC 6750 section 3.1)."""
    with pytest.raises(MissingToken) as caught:
        await verifier.authenticate(authorization, **HERE)
    assert "error" not in verifier.challenge(caught.value)


def test_the_challenge_names_the_metadata_and_the_scopes_that_are_needed(verifier: Verifier) -> None:
    """So that a client knows where to get a token, and for what: every request needs `notes.read`, too."""
    assert verifier.challenge(ScopeRequired(["notes.write"])) == (
        'Bearer error="insufficient_scope",'
        ' error_description="the request needs the scopes `notes.read notes.write`",'
        ' scope="notes.read notes.write",'
        ' resource_metadata="https://tools.test/.well-known/oauth-protected-resource/mcp"'
    )


@pytest.mark.parametrize(
    ("base", "required", "named"),
    [
        ([], ["a"], "a"),
        (["a"], ["a"], "a"),
        (["a", "b"], ["c", "b"], "a b c"),
    ],
)
def test_a_challenge_names_each_scope_once(base: list[str], required: list[str], named: str) -> None:
    """Those of every request first."""
    challenge = Verifier("https://zone.test", TOOLS, scopes=base).challenge(ScopeRequired(required))
    assert f' scope="{named}",' in challenge


@pytest.mark.parametrize(
    ("base", "further", "offered"),
    [
        (["a"], [], ["a"]),
        (["a"], ["b", "a"], ["a", "b"]),
        ([], ["b"], ["b"]),
        ([], [], None),
    ],
)
def test_the_metadata_offers_the_scopes_of_every_request_and_those_declared_beside(
    base: list[str], further: list[str], offered: list[str] | None
) -> None:
    """`scopes_supported` (RFC 9728 section 2). A request is asked for those alone that it needs."""
    verifier = Verifier("https://zone.test", TOOLS, scopes=base, scopes_supported=further)
    assert verifier.metadata.get("scopes_supported") == offered
    named = f' scope="{" ".join(base)}",' if base else None
    challenge = verifier.challenge(MissingToken("the request has no access token"))
    assert named in challenge if named else " scope=" not in challenge


class TestTokensBoundToAKey:
    """Spec: RFC 9449 section 7.1."""

    @pytest.fixture
    def holder(self) -> Holder:
        return Holder()

    @pytest.fixture
    def token(self, site: Site, holder: Holder) -> str:
        proof = holder.proof(f"{site.issuer}/oauth/token")
        form = {"grant_type": "client_credentials", "resource": TOOLS, **site.agent.form}
        answer = site.post(form, DPoP=proof)
        assert answer.json()["token_type"] == "DPoP", answer.text
        return str(answer.json()["access_token"])

    def proof(self, holder: Holder, token: str, **changes: object) -> str:
        made = {"method": "GET", "uri": TOOLS, **changes}
        return holder.proof(made.pop("uri"), made.pop("method"), access_token=token, **made)  # type: ignore[arg-type]

    async def test_a_proof_of_the_key_opens_the_request(
        self, verifier: Verifier, holder: Holder, token: str
    ) -> None:
        """Once: the same proof again is refused."""
        proof = self.proof(holder, token)
        found = await verifier.authenticate(f"DPoP {token}", proofs=[proof], **HERE)
        assert found.jkt == holder.jkt
        with pytest.raises(DpopRefused, match="used before"):
            await verifier.authenticate(f"DPoP {token}", proofs=[proof], **HERE)

    @pytest.mark.parametrize(
        "changes",
        [
            {"method": "POST"},
            {"uri": "https://tools.test/other"},
            {"uri": "https://tools.test.evil.test/mcp"},
            {"iat": 1_000_000_000},
            {"ath": "another"},
            {"jti": None},
            {"jti": "x" * 256},
            {"header": {"typ": "JWT"}},
            {"header": {"crit": ["exp"]}},
        ],
        ids=str,
    )
    async def test_a_proof_of_something_else_is_refused(
        self, verifier: Verifier, holder: Holder, token: str, changes: dict[str, object]
    ) -> None:
        """A proof counts for one method, address and token, and was made just now."""
        good = self.proof(holder, token)
        assert await verifier.authenticate(f"DPoP {token}", proofs=[good], **HERE)
        with pytest.raises(DpopRefused):
            await verifier.authenticate(
                f"DPoP {token}", proofs=[self.proof(holder, token, **changes)], **HERE
            )

    @pytest.mark.threat("31z")
    async def test_a_proof_by_another_key_is_refused(
        self, verifier: Verifier, holder: Holder, token: str
    ) -> None:
        """Whoever has stolen the token alone has nothing."""
        assert await verifier.authenticate(f"DPoP {token}", proofs=[self.proof(holder, token)], **HERE)
        stranger = self.proof(Holder(), token)
        unsigned = f"{stranger.rpartition('.')[0]}.{'A' * 86}"
        for proof in (stranger, unsigned):  # nothing is computed with a key that is not the token's
            with pytest.raises(DpopRefused, match="another key"):
                await verifier.authenticate(f"DPoP {token}", proofs=[proof], **HERE)

    @pytest.mark.parametrize("count", [0, 2])
    async def test_a_request_has_exactly_one_proof(
        self, verifier: Verifier, holder: Holder, token: str, count: int
    ) -> None:
        """None, or two that readers may choose between, is refused."""
        proofs = [self.proof(holder, token) for _ in range(count)]
        with pytest.raises(DpopRefused) as caught:
            await verifier.authenticate(f"DPoP {token}", proofs=proofs, **HERE)
        assert verifier.challenge(caught.value).startswith('DPoP error="invalid_dpop_proof"')

    async def test_it_is_worth_nothing_as_a_bearer_token(self, verifier: Verifier, token: str) -> None:
        """Neither by header nor where a framework hands over the token alone."""
        with pytest.raises(TokenRefused):
            await verifier.authenticate(f"Bearer {token}", **HERE)
        with pytest.raises(TokenRefused):
            await verifier.verify(token)

    async def test_a_bearer_token_is_not_sent_as_a_bound_one(self, site: Site, verifier: Verifier) -> None:
        """Else a proof would seem to protect it."""
        assert await verifier.authenticate(f"Bearer {site.token()}", **HERE)
        with pytest.raises(TokenRefused, match="not bound"):
            await verifier.authenticate(f"DPoP {site.token()}", **HERE)

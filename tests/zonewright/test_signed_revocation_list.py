"""The revocation list of a zone through a proxy: what was changed, or is another list, is refused."""

import json
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import httpx
import jwt
import pytest
from tests.zonewright.conftest import TOOLS, Site
from tests.zonewright.test_verifier import recoded

from runtime.adapters.keys.signing import SigningKey
from runtime.services.container import Services
from runtime.services.revocation_list import SIGNED_WITH, TYPE, Revocations
from zonewright import TokenRefused, Verifier, ZoneMisconfigured, fetching

MEDIA_TYPE = f"application/{TYPE}"


class Proxy(httpx.AsyncBaseTransport):
    """Stands between a resource server and the zone, and answers for its revocation list if told to.

    Attributes:
        answer: makes the list of the one that the zone has just answered with.
    """

    def __init__(self) -> None:
        self.answer: Callable[[str], str] = lambda honest: honest
        self.asked: list[httpx.Request] = []
        self._zone = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._zone.handle_async_request(request)
        if not request.url.path.endswith("/revocations"):
            return answer
        self.asked.append(request)
        honest = (await answer.aread()).decode()
        return httpx.Response(200, text=self.answer(honest), headers={"Content-Type": MEDIA_TYPE})


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    made = Proxy()
    yield made
    await made.aclose()


def behind(proxy: Proxy, site: Site) -> Verifier:
    """A resource server that has read nothing yet, and asks for the list with every request."""
    return Verifier(
        site.issuer, TOOLS, revocations_max_age_seconds=0, http=httpx.AsyncClient(transport=proxy)
    )


def list_of(
    site: Site, *, seconds_ago: float = 0, zone_id: str | None = None, since: str | None = None
) -> str:
    """A list that a zone has signed, this one or another."""

    async def sign(services: Services) -> str:
        zone = await services.zones.get(zone_id or site.zone.id)
        then = Revocations(services.database, lambda: services.clock() - timedelta(seconds=seconds_ago))
        return (await then.signed_since(zone, since)).decode()

    return site.server.call(sign)


def signed(site: Site, jws: str, *, typ: str = TYPE, key: SigningKey | None = None, **changes: object) -> str:
    """The claims of a list with some others, signed by the zone or by *key*."""

    async def sign(services: Services) -> str:
        zone = await services.zones.get(site.zone.id)
        return (key or zone.signing(SIGNED_WITH)).sign(claims_of(jws) | changes, typ=typ)

    return site.server.call(sign)


def claims_of(jws: str) -> dict[str, object]:
    claims: dict[str, object] = jwt.decode(jws, options={"verify_signature": False})
    return claims


def other_zones_list(site: Site) -> str:
    return list_of(site, zone_id=site.run(lambda company: company.zone("Elsewhere")).id)


def plain(jws: str) -> str:
    """The list as JSON, as the zone serves it to callers who do not ask for a signed one."""
    claims = claims_of(jws)
    return json.dumps({"issuer": claims["iss"], **claims})


def unsigned(jws: str) -> str:
    return jwt.encode(claims_of(jws), None, "none", headers=jwt.get_unverified_header(jws) | {"alg": "none"})


FORGED: dict[str, tuple[str, Callable[[Site, str], str]]] = {
    "without an entry": ("Signature verification failed", lambda _, jws: recoded(jws, revocations=[])),
    "that expires later": ("Signature verification failed", lambda _, jws: recoded(jws, exp=2**33)),
    "as JSON": ("Invalid header", lambda _, jws: plain(jws)),
    "unsigned": ("another algorithm", lambda _, jws: unsigned(jws)),
    "signed by a stranger": (
        "not in the zone's JWK set",
        lambda site, jws: signed(site, jws, key=SigningKey.generate("ES256")),
    ),
    "of another zone": ("not in the zone's JWK set", lambda site, _: other_zones_list(site)),
    "with another issuer": ("Invalid issuer", lambda site, jws: signed(site, jws, iss="https://other.test")),
    "signed as an access token": ("its `typ` is not", lambda site, jws: signed(site, jws, typ="at+jwt")),
    "that is an access token": ("its `typ` is not", lambda site, _: site.token()),
    "of a minute ago": ("expired", lambda site, _: list_of(site, seconds_ago=60)),
    "of tomorrow": ("not yet valid", lambda site, _: list_of(site, seconds_ago=-86_400)),
    "of a later cursor": ("begins later", lambda site, _: list_of(site, since="99999999999")),
    "without an end": ('missing the "exp" claim', lambda site, jws: signed(site, recoded(jws, exp=None))),
}  # fmt: skip


@pytest.mark.threat("18n")
@pytest.mark.parametrize(("says", "forged"), FORGED.values(), ids=FORGED)
async def test_a_list_is_refused(
    site: Site,
    proxy: Proxy,
    caplog: pytest.LogCaptureFixture,
    says: str,
    forged: Callable[[Site, str], str],
) -> None:
    """A resource server that has no other accepts no token, and its log says what is wrong with the list."""
    honest, deceived = behind(proxy, site), behind(proxy, site)
    assert await honest.verify(site.token())
    proxy.answer = lambda jws: forged_list
    forged_list = forged(site, list_of(site))
    with pytest.raises(ZoneMisconfigured, match=says):
        await deceived.verify(site.token())
    ((name, level, text),) = caplog.record_tuples
    assert (name, level, says in text) == ("zonewright", logging.ERROR, True)


@pytest.mark.threat("18n")
async def test_a_revoked_token_stays_refused_when_the_proxy_takes_its_entry_out(
    site: Site, proxy: Proxy
) -> None:
    """From the next list, which is refused: the one before is used until it expires, and then none."""
    verifier, person = behind(proxy, site), site.person("grace")
    token, other = site.token(person=person), site.token()
    assert await verifier.verify(token)
    site.end_session(person)
    revoked = list_of(site)
    assert person.session_id in str(claims_of(revoked))
    proxy.answer = lambda _: revoked
    with pytest.raises(TokenRefused, match="revoked"):
        await verifier.verify(token)
    proxy.answer = lambda jws: recoded(jws, revocations=[])
    with pytest.raises(TokenRefused, match="revoked"):
        await verifier.verify(token)
    assert await verifier.verify(other)
    verifier._revocations._expires_at -= 60  # type: ignore[union-attr]
    with pytest.raises(ZoneMisconfigured):
        await verifier.verify(other)


@pytest.mark.threat("18n")
async def test_a_list_from_before_does_not_follow_a_newer_one(
    site: Site, proxy: Proxy, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it has not expired: a proxy that has kept it withholds nothing with it."""
    monkeypatch.setattr(fetching, "PAUSE_SECONDS", 0)
    old, verifier = list_of(site, seconds_ago=20), behind(proxy, site)
    proxy.answer = lambda _: old
    assert await verifier.verify(site.token())
    proxy.answer = lambda honest: honest
    assert await verifier.verify(site.token())
    assert caplog.record_tuples == []
    expires_at = verifier._revocations._expires_at  # type: ignore[union-attr]
    proxy.answer = lambda _: old
    assert await verifier.verify(site.token())
    assert "it is older than the list before" in caplog.text
    assert verifier._revocations._expires_at == expires_at  # type: ignore[union-attr]


async def test_the_next_list_is_asked_for_from_the_cursor_on(site: Site, proxy: Proxy) -> None:
    """Signed both times; and the second one says where it begins, which is not after the cursor."""
    lists: list[dict[str, object]] = []

    def noted(jws: str) -> str:
        lists.append(claims_of(jws))
        return jws

    proxy.answer, verifier = noted, behind(proxy, site)
    assert await verifier.verify(site.token())
    assert await verifier.verify(site.token())
    first, second = proxy.asked
    assert [each.headers["accept"] for each in (first, second)] == [MEDIA_TYPE] * 2
    assert (first.url.params.get("since"), second.url.params["since"]) == (None, lists[0]["next"])
    assert "since" not in lists[0]
    assert int(str(lists[1]["since"])) <= int(second.url.params["since"])


async def test_a_list_is_no_access_token(site: Site, verifier: Verifier) -> None:
    """Though the same keys sign both."""
    assert await verifier.verify(site.token())
    with pytest.raises(TokenRefused, match="its `typ` is not `at\\+jwt`"):
        await verifier.verify(signed(site, site.token()))

"""Matching entries of the revocation list with tokens, and behaviour while it cannot be fetched.

The lists are signed by a key of the test. `test_signed_revocation_list` has those of a zone, and forgeries.
"""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from time import time
from typing import Any

import httpx
import pytest

from runtime.adapters.keys.signing import SigningKey
from zonewright import AccessToken, ZoneMisconfigured, ZoneUnreachable
from zonewright.keys import ZoneKeys
from zonewright.metadata import ZoneMetadata
from zonewright.revocations import RevocationList

ISSUER, KEY = "https://zone.test", SigningKey.generate("ES256")
CLAIMS = {
    "iss": "https://zone.test",
    "sub": "ada",
    "aud": "https://api.test",
    "client_id": "agent",
    "jti": "t1",
    "sid": "s1",
    "iat": 1000,
    "exp": 5000,
    "act": {"sub": "tools", "act": {"sub": "agent"}},
}
TOKEN = AccessToken.from_claims(CLAIMS, raw="eyJ")


def digest(value: str) -> str:
    return urlsafe_b64encode(sha256(value.encode()).digest()).rstrip(b"=").decode()


def listing(*entries: Mapping[str, Any], cursor: str = "1") -> dict[str, Any]:
    return {"next": cursor, "revocations": list(entries)}


class Zone:
    """Answers with one list after the other, signed: which cursors it is asked for is noted."""

    def __init__(self, *answers: dict[str, Any] | int) -> None:
        self.answers, self.asked, self.now = list(answers), list[str | None](), 0.0
        self.metadata = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/jwks"}
        self.paths: set[str] = set()

    def list(self) -> RevocationList:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        keys = ZoneKeys(http, ZoneMetadata(http, ISSUER))
        return RevocationList(http, ISSUER, keys, max_age_seconds=1, clock=lambda: self.now)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/.well-known/oauth-authorization-server":
            return httpx.Response(200, json=self.metadata)
        if request.url.path == "/jwks":
            return httpx.Response(200, json={"keys": [KEY.public_jwk]})
        self.paths.add(request.url.path)
        self.asked.append(request.url.params.get("since"))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return (
            httpx.Response(answer)
            if isinstance(answer, int)
            else httpx.Response(200, text=self._signed(answer))
        )

    def _signed(self, claims: dict[str, Any]) -> str:
        issued_at = int(time())
        times = {"iss": ISSUER, "iat": issued_at, "exp": issued_at + 30}
        return KEY.sign({**times, **claims}, typ="revocation-list+jwt")


@pytest.mark.parametrize(
    "entry",
    [
        {"jti": "t1"},
        {"sid": "s1"},
        {"sid": "s1", "aud#S256": digest("https://api.test"), "issued_until": 1000},
        {"client_id#S256": digest("agent"), "issued_until": 1000},
        {"actor#S256": digest("tools")},
        {"actor#S256": digest("agent")},
        {"sub#S256": digest("ada"), "actor#S256": digest("agent"), "issued_until": 4000},
    ],
    ids=str,
)
async def test_an_entry_fits(entry: dict[str, Any]) -> None:
    """Every claim it names is the token's, hashed or not, and the token was issued in its time."""
    assert await Zone(listing(entry)).list().is_revoked(TOKEN)


@pytest.mark.parametrize(
    "entry",
    [
        {"jti": "t2"},
        {"sid": "s1", "aud#S256": digest("https://other.test")},
        {"sid": "s1", "issued_until": 999},
        {"actor#S256": digest("ada")},
        {"acr": "gold"},
        {"sid#S256": "s1"},
    ],
    ids=str,
)
async def test_an_entry_does_not_fit(entry: dict[str, Any]) -> None:
    """One claim that is another's, or that the token has not, is enough."""
    assert not await Zone(listing(entry)).list().is_revoked(TOKEN)


@pytest.mark.parametrize(
    ("published", "path"),
    [(None, "/.well-known/revocations"), (f"{ISSUER}/lists/revoked", "/lists/revoked")],
    ids=["default", "published"],
)
async def test_the_list_is_where_the_metadata_says(published: str | None, path: str) -> None:
    """A zone whose metadata does not say has it at the address that every zone has."""
    zone = Zone(listing({"jti": "t1"}))
    zone.metadata |= {} if published is None else {"revocations_uri": published}

    assert await zone.list().is_revoked(TOKEN)

    assert zone.paths == {path}


async def test_a_list_at_another_origin_is_not_read() -> None:
    """Whoever could change the metadata alone would be asked who is revoked."""
    zone = Zone(listing({"jti": "t1"}))
    zone.metadata["revocations_uri"] = "https://elsewhere.test/revocations"

    with pytest.raises(ZoneMisconfigured, match="`revocations_uri`"):
        await zone.list().is_revoked(TOKEN)

    assert zone.asked == []


async def test_what_is_new_is_fetched_from_the_last_cursor_on() -> None:
    """And what was listed before still counts."""
    zone = Zone(listing({"jti": "t1"}, cursor="7"), listing({"jti": "t9"}, cursor="8"))
    revoked = zone.list()
    assert await revoked.is_revoked(TOKEN)
    zone.now = 2
    assert await revoked.is_revoked(TOKEN)
    assert zone.asked == [None, "7"]


async def test_the_whole_list_is_fetched_again_now_and_then() -> None:
    """So that what has expired is forgotten."""
    zone = Zone(listing({"jti": "t1"}, cursor="7"), listing(cursor="8"))
    revoked = zone.list()
    assert await revoked.is_revoked(TOKEN)
    zone.now = 601
    assert not await revoked.is_revoked(TOKEN)
    assert zone.asked == [None, None]


async def test_a_short_outage_is_bridged() -> None:
    """With the list of before, for half a minute."""
    zone = Zone(listing({"jti": "t1"}), 503)
    revoked = zone.list()
    assert await revoked.is_revoked(TOKEN)
    zone.now = 20
    assert await revoked.is_revoked(TOKEN)


@pytest.mark.threat("35i")
async def test_those_who_wait_share_a_failure() -> None:
    """While the zone fails nobody waits for a fetch of their own; after a second somebody tries again."""
    zone = Zone(listing({"jti": "t1"}), 503, 503, listing({"jti": "t1"}))
    revoked = zone.list()
    assert await asyncio.gather(*(revoked.is_revoked(TOKEN) for _ in range(50))) == [True] * 50
    zone.now = 20
    assert await asyncio.gather(*(revoked.is_revoked(TOKEN) for _ in range(50))) == [True] * 50
    assert len(zone.asked) == 2
    zone.now = 40
    waiting = (revoked.is_revoked(TOKEN) for _ in range(50))
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in answers] == [ZoneUnreachable] * 50
    assert len(zone.asked) == 3
    zone.now = 41
    assert await revoked.is_revoked(TOKEN)
    assert len(zone.asked) == 4


async def test_a_long_outage_is_no_answer() -> None:
    """Whether a token was revoked meanwhile is not known, so nothing is accepted."""
    zone = Zone(listing(), 503)
    revoked = zone.list()
    assert not await revoked.is_revoked(TOKEN)
    zone.now = 31
    with pytest.raises(ZoneUnreachable):
        await revoked.is_revoked(TOKEN)


@pytest.mark.parametrize(
    "answer",
    [
        404,
        {"next": "1"},
        {"revocations": []},
        {"next": "1", "revocations": {}},
        {"next": "soon", "revocations": []},
        {"next": 1, "revocations": []},
        {"next": "1", "revocations": [], "since": "soon"},
        listing({}),
        listing({"sid": "s1", "issued_until": "soon"}),
    ],
    ids=str,
)
async def test_what_is_no_list_of_the_zone_is_no_answer(answer: dict[str, Any] | int) -> None:
    """An entry that cannot be read may be about any token."""
    assert not await Zone(listing()).list().is_revoked(TOKEN)
    with pytest.raises(ZoneUnreachable):
        await Zone(answer).list().is_revoked(TOKEN)

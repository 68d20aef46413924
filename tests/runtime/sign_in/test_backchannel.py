"""What a provider says server to server: a session there is over, so it is over here."""

from typing import Any

import httpx
import pytest
from sqlalchemy import select
from tests.runtime.sign_in.support import Browser, Chain, Client, Site, chained, claims

from runtime.domain.oauth.logout import LOGOUT_EVENT
from runtime.storage.sql.tables import METADATA

_sessions = METADATA.tables["sessions"]


class Provider:
    """The home zone, as it tells the product zone that who holds these tokens has left."""

    def __init__(self, site: Site, chain: Chain, tokens: dict[str, Any]) -> None:
        self.site, self.chain = site, chain
        self.known = self._known(claims(tokens["id_token"])["sid"])
        self.number = 0

    def _known(self, session_id: str) -> Any:
        async def read() -> Any:
            parent = select(_sessions.c.parent_id).where(_sessions.c.id == session_id).scalar_subquery()
            async with self.site.parts.database.reading() as conn:
                found = await conn.execute(
                    select(_sessions.c.provider_subject, _sessions.c.provider_session).where(
                        _sessions.c.zone_id == self.chain.product.id, _sessions.c.id == parent
                    )
                )
                return found.one()

        return self.site.run(read())

    def token(self, typ: str = "logout+jwt", *, zone_id: str | None = None, **changes: Any) -> str:
        """A logout token, right unless changed; a change of None leaves a claim out."""
        self.number += 1
        now = int(self.site.parts.clock().timestamp())
        said = {
            "iss": str(self.chain.home.protocols.oauth2.issuer),
            "aud": self.chain.door.client_id,
            "iat": now,
            "exp": now + 120,
            "jti": f"token-{self.number}",
            "sid": self.known.provider_session,
            "sub": self.known.provider_subject,
            "events": {LOGOUT_EVENT: {}},
        } | changes

        async def sign() -> str:
            view = await self.site.parts.zones.view(zone_id or self.chain.home.id)
            return view.signing("RS256").sign({k: v for k, v in said.items() if v is not None}, typ=typ)

        return self.site.run(sign())

    def send(self, token: str | None) -> int:
        """The status of the product zone's answer."""
        issuer = self.chain.product.protocols.oauth2.issuer
        answer = httpx.post(f"{issuer}/openid/backchannel", data={"logout_token": token} if token else {})
        assert answer.headers["cache-control"] == "no-store"
        return answer.status_code


def alive(client: Client, tokens: dict[str, Any]) -> bool:
    """Whether a session's access token is good."""
    return client.userinfo(tokens["access_token"]).status_code == 200


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
@pytest.mark.parametrize("left_out", [(), ("sid",), ("sub",)])
def test_ends_the_sessions_that_are_meant(site: Site, left_out: tuple[str, ...]) -> None:
    """By `sid` that browser's; by `sub` alone all of that user; nobody else's, and a token counts once."""
    chain = chained(site)
    client = site.app(chain.product)
    site.user(chain.home, "grace@acme.example")
    first, second = client.sign_in(Browser()), client.sign_in(Browser())
    graces_browser = Browser()
    place = graces_browser.open(client.url())
    grace = client.redeem(graces_browser.sign_in(place, "grace@acme.example").code).json()
    provider = Provider(site, chain, first)
    token = provider.token(**dict.fromkeys(left_out))

    assert provider.send(token) == 200

    assert not alive(client, first)
    assert client.refresh(first["refresh_token"]).status_code == 400
    assert alive(client, second) is ("sid" not in left_out)
    assert alive(client, grace)
    assert provider.send(token) == 400


@pytest.mark.threat(13)
@pytest.mark.standard("OpenID Connect Back-Channel Logout")
def test_anything_else_is_refused_and_ends_nothing(site: Site) -> None:
    """Other classes of token, signers, audiences and times; and a logout token opens nothing."""
    chain = chained(site)
    client = site.app(chain.product)
    tokens = client.sign_in(Browser())
    provider = Provider(site, chain, tokens)
    now = int(site.parts.clock().timestamp())

    for attack in (
        {"typ": "JWT"},
        {"typ": "at+jwt"},
        {"zone_id": chain.product.id},
        {"iss": str(chain.product.protocols.oauth2.issuer)},
        {"aud": "somebody else"},
        {"aud": None},
        {"nonce": "n"},
        {"events": None},
        {"events": {"http://schemas.openid.net/event/other": {}}},
        {"events": [LOGOUT_EVENT]},
        {"jti": None},
        {"sid": None, "sub": None},
        {"sid": ["x"]},
        {"exp": None},
        {"exp": now - 3600, "iat": now - 3700},
        {"exp": now + 90_000},
        {"iat": now + 600},
    ):
        assert provider.send(provider.token(**attack)) == 400, attack  # type: ignore[arg-type]
    for text in (None, "x", tokens["id_token"], tokens["access_token"]):
        assert provider.send(text) == 400
    assert alive(client, tokens)

    right = provider.token()
    assert client.userinfo(right).status_code == 401
    assert provider.send(right) == 200
    assert not alive(client, tokens)


def test_a_zone_of_its_own_listens_to_nobody(site: Site) -> None:
    """Without a provider there is nobody who could say so."""
    chain = chained(site)
    provider = Provider(site, chain, site.app(chain.product).sign_in(Browser()))
    issuer = chain.home.protocols.oauth2.issuer

    answer = httpx.post(f"{issuer}/openid/backchannel", data={"logout_token": provider.token()})

    assert answer.status_code == 400
    assert claims(provider.token())["sid"]

"""An application that exchanges tokens with the library."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import cast
from uuid import uuid4

import httpx
import pytest
from tests.support.factories import App, Company
from tests.zonewright.conftest import CALENDAR, TOOLS, Site

from runtime.domain.kinds import PROVIDER, SECRET
from runtime.domain.kinds.secret import Secret
from runtime.services import epochs
from runtime.storage.sql import consents, entities
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.consents import ConsentRecord
from zonewright import ExchangeClient, ExchangeRefused, UserAuthorizationRequired, Verifier, ZoneUnreachable


class Client(ExchangeClient):
    """One that notes what it sends, and whose clock can be set."""

    def __init__(self, site: Site, app: App) -> None:
        self.sent: list[str] = []
        self.now = 0.0

        async def note(request: httpx.Request) -> None:
            self.sent.append(request.url.path.rpartition("/")[2])

        async def note_answer(answer: httpx.Response) -> None:
            self.request_ids.append(answer.headers["X-Request-ID"])

        self.request_ids: list[str] = []
        hooks = {"request": [note], "response": [note_answer]}
        self.http = httpx.AsyncClient(event_hooks=hooks, trust_env=False)
        super().__init__(
            site.issuer,
            app.client_id,
            client_secret=app.secret,
            http=self.http,
            clock=lambda: self.now,
        )


@pytest.fixture
async def client(site: Site) -> AsyncIterator[Client]:
    made = Client(site, site.tool_server)
    yield made
    await made.aclose()
    await made.http.aclose()


@dataclass
class Vault:
    """An application that asks for a key which an administrator has stored."""

    site: Site
    app: App
    resource: str
    secret_id: str

    def subject(self) -> str:
        """A token of the application, for the resource."""
        facts = {"audience": self.resource, "scopes": ["read"]}
        return self.site.run(lambda company: company.token(self.site.zone, self.app, self.site.ada, **facts))

    def change(self, key: str) -> None:
        """Store another key in its place."""
        data = {"type": "token", "token": key}
        self.site.run(lambda company: company.update(SECRET, self.site.zone.id, self.secret_id, data=data))

    def withdraw(self) -> None:
        """Delete the key."""
        self.site.run(lambda company: company.delete(SECRET, self.site.zone.id, self.secret_id))


def vault_with(site: Site, key: str) -> Vault:
    """A new resource of the vault, with a key that is shared by its users."""

    async def making(company: Company) -> Vault:
        async with company.services.database.querying() as conn:
            vault = await entities.find_by(
                conn, PROVIDER, "type", "service-vault", within={"zone_id": site.zone.id}
            )
        assert vault is not None
        name = f"tracker-{uuid4().hex}"
        kept = await company.resource(
            site.zone, f"https://{name}.test", scopes=["read"], credential_provider_id=vault.id
        )
        app = await company.app(site.zone, name, dependencies=[kept])
        body = {"name": "key", "entity_id": kept.id, "data": {"type": "token", "token": key}}
        secret = cast(Secret, await company.create(SECRET, site.zone.id, **body))
        return Vault(site, app, str(kept.identifier), secret.id)

    return site.run(making)


async def test_the_token_of_a_request_becomes_one_for_the_next_resource(site: Site, client: Client) -> None:
    """Which verifies there, for the same user."""
    token = await client.exchange(site.token(), CALENDAR, scopes=["events.read"])
    verifier = Verifier(site.issuer, CALENDAR)
    verified = await verifier.verify(token.access_token)
    assert (verified.subject, verified.scopes, token.scopes) == (
        "ada@acme.test",
        {"events.read"},
        {"events.read"},
    )
    await verifier.aclose()


async def test_the_same_exchange_is_answered_from_the_cache(site: Site, client: Client) -> None:
    """Until the token is about to expire."""
    subject = site.token()
    first = await client.exchange(subject, CALENDAR)
    assert await client.exchange(subject, CALENDAR) == first
    client.now = first.expires_at - 29
    assert (await client.exchange(subject, CALENDAR)).expires_at > first.expires_at
    assert client.sent.count("token") == 2


@pytest.mark.parametrize("kind", ["opaque", "token of another client"])
async def test_a_stored_key_is_not_cached(site: Site, kind: str) -> None:
    """A key that was changed or withdrawn is not handed out any more, though it had an hour left."""
    vault = vault_with(site, first := "sk-first-5Zr" if kind == "opaque" else site.token())
    client, subject = Client(site, vault.app), vault.subject()
    held = await client.exchange(subject, vault.resource)
    assert (held.access_token, held.expires_at > 60) == (first, True)

    vault.change("sk-second-9Qp")
    assert (await client.exchange(subject, vault.resource)).access_token == "sk-second-9Qp"
    vault.withdraw()
    with pytest.raises(UserAuthorizationRequired):
        await client.exchange(subject, vault.resource)
    await client.aclose()
    await client.http.aclose()


async def test_what_was_cached_can_be_forgotten(site: Site, client: Client) -> None:
    """After a resource has refused a token."""
    subject = site.token()
    await client.exchange(subject, CALENDAR)
    client.forget()
    await client.exchange(subject, CALENDAR)
    assert client.sent.count("token") == 2


async def test_one_token_or_one_resource_can_be_forgotten(site: Site, client: Client) -> None:
    """What is cached of others stays."""
    mine, other = site.token(), site.token()
    for subject in (mine, other):
        await client.exchange(subject, CALENDAR)
    sent = client.sent.count("token")

    client.forget(mine, TOOLS)
    client.forget(other, CALENDAR)
    await client.exchange(mine, CALENDAR)
    assert client.sent.count("token") == sent
    await client.exchange(other, CALENDAR)
    assert client.sent.count("token") == sent + 1


async def test_what_is_forgotten_on_its_way_is_not_cached(site: Site, client: Client) -> None:
    """An exchange that began before gives its answer to who asked then, and to nobody later."""
    subject = site.token()
    begun = asyncio.create_task(client.exchange(subject, CALENDAR))
    await asyncio.sleep(0)
    client.forget(subject)
    assert await begun
    assert await client.exchange(subject, CALENDAR)
    assert client.sent.count("token") == 2


async def test_many_who_ask_for_the_same_send_one_request(site: Site, client: Client) -> None:
    """And all get its answer."""
    subject = site.token()
    tokens = await asyncio.gather(*(client.exchange(subject, CALENDAR) for _ in range(50)))
    assert (len({each.access_token for each in tokens}), client.sent.count("token")) == (1, 1)


async def test_tokens_of_different_users_are_kept_apart(site: Site, client: Client) -> None:
    """One user's exchange is never another's answer."""
    tokens = [
        await client.exchange(subject, CALENDAR)
        for subject in (site.token(), site.token(person=site.person("dan")))
    ]
    assert len({each.access_token for each in tokens}) == 2


async def test_a_refusal_has_the_codes_of_the_answer(site: Site, client: Client) -> None:
    """`invalid_target` for a resource that the application does not declare."""
    assert await client.exchange(site.token(), CALENDAR)
    with pytest.raises(ExchangeRefused) as caught:
        await client.exchange(site.token(), "https://unknown.test")
    assert (caught.value.error, caught.value.reason) == ("invalid_target", None)


async def test_a_refusal_has_the_request_id(site: Site, client: Client) -> None:
    """By which an administrator finds the record of the decision."""
    assert await client.exchange(site.token(), CALENDAR)
    with pytest.raises(ExchangeRefused) as caught:
        await client.exchange(site.token(), "https://unknown.test")
    assert caught.value.request_id == client.request_ids[-1]
    assert len(set(client.request_ids)) == len(client.request_ids)


async def test_a_missing_authorization_comes_with_the_link_for_the_user(site: Site) -> None:
    """`access_denied`, `user_authorization_required` and an `error_uri` of the zone."""

    async def asking(company):  # type: ignore[no-untyped-def]
        mail = await company.resource(site.zone, "https://mail.test", scopes=["mail.read"])
        return await company.app(site.zone, "asking", consent="required", dependencies=[mail])

    app = site.run(asking)
    subject = site.run(lambda company: company.token(site.zone, app, site.ada, audience="https://mail.test"))
    client = ExchangeClient(site.issuer, app.client_id, client_secret=app.secret)
    with pytest.raises(UserAuthorizationRequired) as caught:
        await client.exchange(subject, "https://mail.test")
    assert caught.value.error_uri.startswith(site.issuer)
    await client.aclose()


async def test_scopes_beyond_the_consent_come_with_the_link_for_the_user(site: Site) -> None:
    """`invalid_scope` is the code, and the rest is as for a missing authorization."""

    async def narrow(company):  # type: ignore[no-untyped-def]
        notes = await company.resource(site.zone, "https://notes.test", scopes=["read", "write"])
        app = await company.app(site.zone, "narrow", consent="required", dependencies=[notes])
        given = [ConsentRecord(notes.id, frozenset({"read"}), "app.example")]
        async with company.services.epochs.transaction() as (conn, bumped):
            bumped.update(await epochs.bump_user(conn, site.zone.id, site.ada.user.id))
            await consents.record(
                conn,
                given,
                zone_id=site.zone.id,
                user_id=site.ada.user.id,
                client_ref=ClientRef(application_id=app.id),
                now=company.services.clock(),
            )
        return app

    app = site.run(narrow)
    subject = site.run(lambda company: company.token(site.zone, app, site.ada))
    client = ExchangeClient(site.issuer, app.client_id, client_secret=app.secret)
    assert (await client.exchange(subject, "https://notes.test", scopes=["read"])).access_token
    with pytest.raises(UserAuthorizationRequired) as caught:
        await client.exchange(subject, "https://notes.test", scopes=["read", "write"])
    assert (caught.value.error, caught.value.reason) == ("invalid_scope", "user_authorization_required")
    assert caught.value.error_uri.startswith(site.issuer)
    await client.aclose()


async def test_a_zone_that_is_away_is_no_refusal(site: Site) -> None:
    """It may be asked again."""
    client = ExchangeClient("http://127.0.0.1:9", "app", client_secret="secret")
    with pytest.raises(ZoneUnreachable):
        await client.exchange(site.token(), CALENDAR)
    await client.aclose()


@pytest.mark.parametrize(
    "given", [{}, {"client_secret": "a", "client_assertion": lambda: "b"}], ids=["none", "two"]
)
def test_a_client_has_one_way_to_authenticate(given: dict[str, str]) -> None:
    """Two mechanisms in one request would be refused."""
    with pytest.raises(ValueError, match="either"):
        ExchangeClient("https://zone.test", "app", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [("7", 7), ("9" * 5_000, 3_600), ("soon", None), ("²", None), ("", None)],
    ids=["number", "long", "word", "superscript", "empty"],
)
async def test_when_to_retry_is_bounded(sent: str, seconds: int | None) -> None:
    """However long the number is; what is no number is left out."""
    issuer = "https://zone.test"

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"issuer": issuer, "token_endpoint": f"{issuer}/oauth/token"})
        return httpx.Response(503, headers={"retry-after": sent.encode()}, json={})

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    client = ExchangeClient(issuer, "agent", client_secret="s", http=http)
    with pytest.raises(ZoneUnreachable) as refusal:
        await client.exchange("token", "https://api.test")
    assert refusal.value.retry_after_seconds == seconds

"""Floods of requests without a token, 1,500 with fresh values: little stays, others notice nothing.

The addresses are those of docs/limits.md, so a new one is asked, too; what a request to it is like stands
here.
"""

import gc
import json
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from sqlalchemy import func, select
from tests.soak.wire import FORM, JSON, Wire, request
from tests.support.factories import company_of
from tests.support.oauth_site import CALLBACK, PASSWORD, Answer, Browser, Client, Page, Site, assert_page
from tests.support.possession import Holder
from tests.support.remembered import remembered
from tests.support.server import serve
from tests.support.throttling import keep_one_window

from runtime.domain.kinds.zone import Zone
from runtime.quotas.endpoints import ENDPOINTS
from runtime.services import rate_limits
from runtime.services.clients.authentication_throttling import BUCKETS
from runtime.services.container import Services
from runtime.storage.sql.tables import METADATA
from runtime.storage.state.memory import InProcessState

pytestmark = pytest.mark.long

TIMES = 1_500
_COUNTS = 5  # of a flood from one address


@dataclass(frozen=True)
class World:
    """A zone that is flooded, a tenant next to it, and a client of each."""

    site: Site
    public: Client
    neighbour: Client
    neighbours_tokens: dict[str, Any]

    @property
    def issuer(self) -> str:
        """The address of the zone that is flooded."""
        return self.public.issuer

    def neighbour_is_served(self) -> None:
        """The neighbour's user is known, signs in silently, and gets tokens."""
        assert self.neighbour.userinfo(self.neighbours_tokens["access_token"]).status_code == 200
        tokens = self.neighbour.sign_in(Browser())
        assert self.neighbour.userinfo(tokens["access_token"]).status_code == 200

    def rows(self) -> Counter[str]:
        """How many rows each table has."""

        async def count() -> Counter[str]:
            await self.site.services.decisions.flush()
            async with self.site.services.database.reading() as conn:
                tables = METADATA.tables.values()
                return Counter(
                    {each.name: await conn.scalar(select(func.count()).select_from(each)) for each in tables}
                )

        return self.site.run(count())

    def entries(self) -> int:
        """How many entries the short-lived state has."""
        state = self.site.services.state
        assert isinstance(state, InProcessState)
        return len(state)

    def held(self) -> Counter[str]:
        """How much the process remembers, by place."""
        found = remembered(self.site.services).items()
        return Counter({place: sum(map(len, containers)) for place, containers in found})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch, serve(tmp_path_factory.mktemp("flooded")) as server:
        keep_one_window(patch)
        site = Site(server, company_of(server))
        zone, next_door = site.zone("Flooded"), site.zone("Next door")
        site.user(next_door)
        neighbour = site.app(next_door, "neighbour")
        yield World(site, site.app(zone, "spa", public=True), neighbour, neighbour.sign_in(Browser()))


@dataclass(frozen=True)
class Flood:
    """A request with something fresh in it, and what so many of them may leave.

    Attributes:
        made: from the world and a number.
        entries: of short-lived state, at most.
        rows: by table, at most.
        waits: whether 429 is heard in the end.
    """

    made: Callable[[World, int], bytes]
    entries: int = 0
    rows: tuple[tuple[str, int], ...] = ()
    waits: bool = False


def _get(path: str, **query: str) -> Callable[[World, int], bytes]:
    """A GET with the number in its query, and in its path where that has `{}`."""

    def made(world: World, number: int) -> bytes:
        at = path.replace("{issuer}", world.issuer) if "{issuer}" in path else world.site.server.url + path
        told = {name: value.replace("{}", str(number)) for name, value in query.items()}
        # The management API refuses parameters that it does not know before it looks at anything else.
        told = told if "{}" in path else {"fresh": str(number), **told}
        return request("GET", f"{at.replace('{}', f'{number:026}')}?{urlencode(told)}".removesuffix("?"))

    return made


def _post(path: str, **form: str) -> Callable[[World, int], bytes]:
    """A form with the number in it."""

    def made(world: World, number: int) -> bytes:
        at = path.replace("{issuer}", world.issuer) if "{issuer}" in path else world.site.server.url + path
        told = {name: value.replace("{}", str(number)) for name, value in form.items()}
        body = urlencode({"fresh": "x" * 100 + str(number), **told}).encode()
        return request("POST", at.replace("{}", f"{number:026}"), body, FORM)

    return made


def _authorize(world: World, number: int) -> bytes:
    return request("GET", world.public.url(state=f"{number}", nonce=f"{number}".ljust(1000, "x")))


def _authorize_by_form(world: World, number: int) -> bytes:
    address, _, query = world.public.url(state=f"{number}").partition("?")
    return request("POST", address, query.encode(), FORM)


def _push(world: World, number: int) -> bytes:
    _, _, query = world.public.url(state=f"{number}").partition("?")
    return request("POST", f"{world.issuer}/oauth/par", query.encode(), FORM)


def _register(world: World, number: int) -> bytes:
    body = {"client_name": f"client {number}", "redirect_uris": [CALLBACK]}
    return request("POST", f"{world.issuer}/oauth/register", json.dumps(body).encode(), JSON)


def _unknown_grant_type(world: World, number: int) -> bytes:
    form = {"grant_type": f"urn:fresh:{number}".ljust(20_000, "x"), "client_id": world.public.app.client_id}
    return request("POST", f"{world.issuer}/oauth/token", urlencode(form).encode(), FORM)


def _revoke_unknown(world: World, number: int) -> bytes:
    form = {"token": f"unknown-{number}", "client_id": world.public.app.client_id}
    return request("POST", f"{world.issuer}/oauth/revoke", urlencode(form).encode(), FORM)


_GUESSES = BUCKETS + _COUNTS
_REFUSED_ROWS = (("token_events", 60 + 3),)  # of one address, and what was only counted
_SIGN_INS = 600 + _COUNTS
_AUTHORIZE, _TOKEN = "{issuer}/oauth/authorize", "{issuer}/oauth/token"
_SECRET = {"client_id": "nobody-{}", "client_secret": "guess-{}"}


def _rows_of(path: str) -> tuple[tuple[str, int], ...]:
    """The rows that a refusal at an address may leave, as docs/limits.md has it."""
    limited = {name for each in ENDPOINTS if each.path == path for name in each.limited}
    return _REFUSED_ROWS if "recorded-refusals" in limited else ()


FLOODS: dict[tuple[str, str], tuple[Flood, ...]] = {
    ("GET", _AUTHORIZE): (
        Flood(_authorize, entries=_SIGN_INS, rows=_REFUSED_ROWS, waits=True),
        Flood(_get(_AUTHORIZE, client_id="nobody-{}"), entries=_COUNTS, rows=_REFUSED_ROWS, waits=True),
    ),
    ("POST", _AUTHORIZE): (Flood(_authorize_by_form, entries=_SIGN_INS, rows=_REFUSED_ROWS, waits=True),),
    ("POST", _TOKEN): (
        Flood(_unknown_grant_type, entries=_COUNTS, rows=_REFUSED_ROWS, waits=True),
        Flood(
            _post(_TOKEN, grant_type="authorization_code", code="{}", **_SECRET),
            entries=_GUESSES,
            rows=_REFUSED_ROWS,
            waits=True,
        ),
    ),
    ("POST", "{issuer}/oauth/revoke"): (
        Flood(_revoke_unknown, rows=_REFUSED_ROWS),
        Flood(
            _post("{issuer}/oauth/revoke", token="{}", **_SECRET),
            entries=_GUESSES,
            rows=_REFUSED_ROWS,
            waits=True,
        ),
    ),
    ("POST", "{issuer}/oauth/introspect"): (
        Flood(
            _post("{issuer}/oauth/introspect", token="{}", **_SECRET),
            entries=_GUESSES,
            rows=_REFUSED_ROWS,
            waits=True,
        ),
    ),
    ("POST", "{issuer}/oauth/par"): (
        Flood(_push, entries=_SIGN_INS, rows=_REFUSED_ROWS, waits=True),
        Flood(_post("{issuer}/oauth/par", **_SECRET), entries=_GUESSES, rows=_REFUSED_ROWS, waits=True),
    ),
    ("POST", "{issuer}/oauth/register"): (
        Flood(
            _register,
            entries=_COUNTS,
            rows=(("user_agents", rate_limits.REGISTRATIONS.amount), *_REFUSED_ROWS),
            waits=True,
        ),
    ),
    ("GET", "{issuer}/account"): (
        Flood(_get("{issuer}/account"), entries=1_200 + _COUNTS, rows=_REFUSED_ROWS, waits=True),
    ),
    ("POST", "{issuer}/account"): (
        Flood(_post("{issuer}/account"), entries=1_200 + _COUNTS, rows=_REFUSED_ROWS, waits=True),
    ),
    ("POST", "/service-account-token"): (
        Flood(
            _post("/service-account-token", grant_type="client_credentials", **_SECRET),
            entries=_GUESSES,
            waits=True,
        ),
    ),
    ("GET", "/invitations/{token}"): (Flood(_get("/invitations/{}"), entries=_COUNTS, waits=True),),
    ("POST", "/invitations/{token}/accept"): (
        Flood(_post("/invitations/{}/accept"), entries=_COUNTS, waits=True),
    ),
    ("GET", "/.well-known/oauth-protected-resource/organizations/{organization_id}"): (
        Flood(_get("/.well-known/oauth-protected-resource/organizations/{}")),
    ),
    **{
        ("GET", path): (
            Flood(_get(path, request="{}", state="{}", code="{}", since="{}"), rows=_rows_of(path)),
        )
        for path in (
            *(f"{{issuer}}/oauth/{page}" for page in ("callback", "sign-in", "sign-up", "consent")),
            *(f"{{issuer}}/oauth/{page}" for page in ("forgot-password", "reset-password")),
            *(f"{{issuer}}/oauth/{page}" for page in ("sign-out", "signed-out", "connect", "style.css")),
            *("{issuer}/openid/logout", "{issuer}/openid/logout/callback", "{issuer}/openid/userinfo"),
            "{issuer}/.well-known/oauth-authorization-server",
            "{issuer}/.well-known/openid-configuration",
            "{issuer}/.well-known/oauth-protected-resource",
            "{issuer}/.well-known/jwks.json",
            "{issuer}/.well-known/revocations",
            "/.well-known/oauth-protected-resource",
            *("/openapi.json", "/docs", "/docs/docs.css", "/healthz", "/readyz", "/metrics"),
        )
    },
    **{
        ("POST", path): (
            Flood(
                _post(path, request="{}", form_token="{}", state="{}", logout_token="{}"), rows=_rows_of(path)
            ),
        )
        for path in (
            *(
                f"{{issuer}}/oauth/{page}"
                for page in (
                    *("sign-in", "sign-up", "consent", "connect", "sign-out"),
                    *("forgot-password", "reset-password"),
                )
            ),
            *("{issuer}/openid/logout", "{issuer}/openid/userinfo", "{issuer}/openid/backchannel"),
        )
    },
}
ALL = [
    pytest.param(*where, flood, id=f"{where[0]} {where[1]} {number}")
    for where, floods in FLOODS.items()
    for number, flood in enumerate(floods)
]


def test_every_address_is_flooded() -> None:
    """All that docs/limits.md lists, which is all that is served without a token."""
    assert FLOODS.keys() == {(method, each.path) for each in ENDPOINTS for method in each.methods}
    known = {(method, each.path): each.limited for each in ENDPOINTS for method in each.methods}
    assert {where for where, floods in FLOODS.items() if any(flood.entries for flood in floods)} <= {
        where for where, limited in known.items() if limited
    }


@pytest.mark.threat("41a", "41b", "41c", "41d", "41i", "41j", "41k")
@pytest.mark.parametrize(("method", "path", "flood"), ALL)
def test_a_flood_leaves_little(world: World, method: str, path: str, flood: Flood) -> None:
    """Rows, short-lived state and memory have a bound, and whoever comes to a limit hears of it."""
    times = TIMES if flood.entries or flood.rows else 300
    # A sender of its own, who has the whole of what one address may do.
    number = ALL.index(next(each for each in ALL if each.values == (method, path, flood))) + 1
    with Wire(world.site.server.url, f"127.41.0.{number}") as wire:
        world.neighbour_is_served()
        first = wire.send(flood.made(world, 0))
        assert first.status < 500
        assert first.status != 429
        rows, entries, held = world.rows(), world.entries(), world.held()

        statuses = Counter(wire.send(flood.made(world, number)).status for number in range(1, times))

    assert not [status for status in statuses if status >= 500], statuses
    assert (429 in statuses) is flood.waits, statuses
    assert world.entries() - entries <= flood.entries
    more = world.rows() - rows
    assert more.keys() <= dict(flood.rows).keys(), more
    assert all(more[table] <= most for table, most in flood.rows), more
    grown = {place: count for place, count in (world.held() - held).items() if count > 60}
    assert not [place for place in grown if not place.startswith("runtime.storage.state.")], grown
    world.neighbour_is_served()


@pytest.mark.threat("41j")
def test_pages_leave_nothing_and_forms_little(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whoever has begun one sign-in looks at its page as often as they like, and sends so many forms.

    Each page has a form of its own that works once, whichever of them is sent.
    """
    settings: dict[str, Any] = {"sign_ins_a_minute": 3, "proxies": 1}
    with pytest.MonkeyPatch.context() as patch, serve(tmp_path_factory.mktemp("pages"), **settings) as server:
        keep_one_window(patch)
        site = Site(server, company_of(server))
        zone = site.zone()
        site.user(zone)
        client, browser = site.app(zone), Browser()
        page = browser.open(client.url())
        assert isinstance(page, Page)
        state = site.services.state
        assert isinstance(state, InProcessState)
        before = len(state)

        address = str(page.response.url)
        pages = [Page(browser.http.get(address)) for _ in range(TIMES)]

        assert len({each.fields["form_token"] for each in pages}) == TIMES
        assert len(state) == before
        sent = [browser.post(each, email="", password="").status_code for each in pages[:14]]
        assert sent[:3] == [400] * 3
        assert set(sent[3:]) == {429}
        assert len(state) - before <= 12 + 5
        elsewhere = {"X-Forwarded-For": "198.51.100.1"}
        assert browser.post(pages[-2], headers=elsewhere, email="ada@acme.example").status_code == 400
        assert browser.post(pages[-2], headers=elsewhere, email="ada@acme.example").status_code == 403
        assert isinstance(browser.open(address), Page)


@pytest.mark.threat("41g")
def test_filters_of_readers_leave_nothing(world: World) -> None:
    """Fresh values, names and cursors, by somebody who may read: no row, nothing remembered."""
    server = world.site.server
    path = f"{server.url}/zones/{world.public.zone.id}/applications"
    with httpx.Client(headers=server.headers) as reader:
        assert [each["identifier"] for each in reader.get(path).json()["items"]] == ["spa"]
        rows, entries, held = world.rows(), world.entries(), world.held()
        statuses = {
            reader.get(path, params=query).status_code
            for number in range(TIMES // 3)
            for query in (
                {"query[name]": f"{number}".ljust(2_000, "x")},
                {"query[identifier]": f"spa-{number}", "limit": "1", "expand[]": "total_count"},
                {"query[]": f"spa{number}", "after": f"{number}"},
            )
        }
        assert statuses <= {200, 400}
        assert [each["identifier"] for each in reader.get(path).json()["items"]] == ["spa"]

    assert (world.rows(), world.entries()) == (rows, entries)
    assert not {place: count for place, count in (world.held() - held).items() if count > 60}


@pytest.mark.threat("41h", "41j")
def test_what_is_long_is_not_remembered(world: World) -> None:
    """Ten megabytes of names that nobody has heard of, measured: the process is as large as before."""

    def made(number: int) -> bytes:
        names = ("grant_type", "client_id", "resource", "audience", "requested_token_type", "scope")
        form = {name: f"urn:{name}:{number}:".ljust(3_500, "x") for name in names}
        return request("POST", f"{world.issuer}/oauth/token", urlencode(form).encode(), FORM)

    with Wire(world.issuer, "127.41.1.1") as wire:
        assert {wire.send(made(number)).status for number in range(100)} == {401}
        world.neighbour_is_served()
        tracemalloc.start()
        try:
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            for number in range(TIMES // 3):
                wire.send(made(number))
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert after - before < 1_000_000
    world.neighbour_is_served()


@pytest.mark.threat("41l")
def test_other_tenants_wait_no_longer(world: World) -> None:
    """A neighbour's request after one that is refused is as much work as after one that is served, in turns.

    What is counted are the calls that the server's event loop makes until the neighbour has its answer.
    """
    headers = {"Authorization": f"Bearer {world.neighbours_tokens['access_token']}"}
    address = f"{world.neighbour.issuer}/openid/userinfo"
    plain = request("GET", f"{world.issuer}/.well-known/openid-configuration")
    after: dict[str, list[int]] = {"served": [], "refused": []}
    server, calls = world.site.server, 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    async def counting(_services: Services) -> None:
        sys.setprofile(count)

    async def counted(_services: Services) -> None:
        sys.setprofile(None)

    with Wire(world.issuer, "127.42.0.1") as wire, httpx.Client(headers=headers) as neighbour:
        for number in range(100):
            for kind, work in after.items():
                told = wire.send(plain if kind == "served" else _unknown_grant_type(world, number))
                assert (told.status == 200) is (kind == "served")
                calls = 0
                server.call(counting)
                assert neighbour.get(address).status_code == 200
                server.call(counted)
                work.append(calls)

    served, refused = (median(work[50:]) for work in after.values())
    assert refused < 1.5 * served, (refused, served)


class TestMeters:
    """What each process counts by itself, because it would cost more to ask than to do."""

    def test_proofs_of_who_proves_nothing_else(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each is remembered, so one address has so many; an application with a secret is not counted."""
        monkeypatch.setattr(rate_limits, "DPOP_PROOFS", replace(rate_limits.DPOP_PROOFS, amount=3))
        site, zone = world.site, world.public.zone
        holder, known = Holder(), site.app(zone, "back-end")

        def ask(client: Client) -> httpx.Response:
            form = {"grant_type": "authorization_code", "code": "x", "redirect_uri": CALLBACK}
            headers = {"DPoP": holder.proof(f"{world.issuer}/oauth/token")}
            data = {**form, **client.app.form}
            return httpx.post(f"{world.issuer}/oauth/token", data=data, headers=headers)

        before = world.entries()
        told = [ask(world.public) for _ in range(6)]

        assert [each.json()["error"] for each in told] == ["invalid_grant"] * 3 + [
            "temporarily_unavailable"
        ] * 3
        assert told[-1].status_code == 429
        assert 0 < int(told[-1].headers["retry-after"]) <= 61
        assert world.entries() - before == 3 + 1  # the refusals are counted besides
        assert {ask(known).json()["error"] for _ in range(6)} == {"invalid_grant"}

    def test_a_proof_of_another_key_is_not_remembered(self, world: World) -> None:
        """Who has somebody's bound token without its key leaves nothing; its owner's proof works once."""
        tool = world.site.app(world.neighbour.zone, "tool", public=True)
        owner, thief, browser = Holder(), Holder(), Browser()
        place = browser.open(tool.url())
        code = place.code if isinstance(place, Answer) else browser.sign_in(place).code
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, **tool.app.form}
        token = httpx.post(
            f"{tool.issuer}/oauth/token",
            data={**form, "code_verifier": tool.verifier},
            headers={"DPoP": owner.proof(f"{tool.issuer}/oauth/token")},
        ).json()["access_token"]
        address = f"{tool.issuer}/openid/userinfo"

        def ask(holder: Holder) -> int:
            proof = holder.proof(address, "GET", access_token=token)
            return httpx.get(address, headers={"Authorization": f"DPoP {token}", "DPoP": proof}).status_code

        assert ask(owner) == 200
        before = world.entries()
        assert [ask(thief) for _ in range(20)] == [401] * 20
        assert world.entries() == before
        assert ask(owner) == 200
        assert world.entries() == before + 1

    def test_codes_of_a_browser(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who is signed in has so many in a minute; another browser of the same user goes on."""
        few = replace(rate_limits.AUTHORIZATION_CODES, amount=3)
        monkeypatch.setattr(rate_limits, "AUTHORIZATION_CODES", few)
        client, browser, other = world.neighbour, Browser(), Browser()
        client.sign_in(browser)
        client.sign_in(other)
        answers = [browser.http.get(client.url(prompt="none")) for _ in range(4)]

        assert [each.status_code for each in answers] == [303, 303, 429, 429]
        assert Answer(answers[0].headers["location"]).code
        assert_page(answers[-1], 429)
        assert Answer(other.http.get(client.url(prompt="none")).headers["location"]).code


class TestDays:
    """What stays for long has a bound for a day and a zone."""

    @pytest.mark.threat("41d")
    def test_clients_that_are_new(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """One that was there registers as ever; the next new one waits, at this zone alone."""
        monkeypatch.setattr(rate_limits, "NEW_CLIENTS", replace(rate_limits.NEW_CLIENTS, amount=2))
        zone, other = world.site.zone("Busy"), world.site.zone("Calm")

        def register(zone: Zone, name: str) -> int:
            body = {"client_name": name, "redirect_uris": [CALLBACK]}
            return httpx.post(f"{zone.protocols.oauth2.issuer}/oauth/register", json=body).status_code

        assert [register(zone, name) for name in ("one", "two", "three", "one")] == [201, 201, 429, 201]
        assert register(other, "three") == 201

    @pytest.mark.threat("41d")
    def test_the_next_user_who_registers_waits(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """The next one waits and leaves nothing; who has registered signs in."""
        monkeypatch.setattr(rate_limits, "SIGN_UPS", replace(rate_limits.SIGN_UPS, amount=1))
        client = world.site.app(world.site.zone(requires_invitation=False))

        def sign_up(email: str) -> httpx.Response:
            browser = Browser()
            page = browser.open(client.url())
            assert isinstance(page, Page)
            address = page.action.replace("sign-in", "sign-up") + f"?request={page.fields['request']}"
            form = browser.open(address)
            assert isinstance(form, Page)
            return browser.post(form, email=email, password=PASSWORD)

        assert sign_up("one@acme.example").status_code == 303
        before = world.rows()["users"]
        refused = sign_up("two@acme.example")
        assert_page(refused, 429)
        assert int(refused.headers["retry-after"]) > 0
        assert world.rows()["users"] == before
        browser = Browser()
        assert browser.sign_in(browser.open(client.url()), "one@acme.example").code

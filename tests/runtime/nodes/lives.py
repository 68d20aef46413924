"""Sessions and tokens at two nodes, all that ends them, and each question that must be refused then."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import cast

import httpx
from tests.runtime.nodes.conftest import Nodes
from tests.support.factories import App, company_of, operator
from tests.support.server import Server

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ORGANIZATION, PROVIDER, ZONE
from runtime.domain.kinds.organization import Organization
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import OrganizationRole
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.services.account import withdrawal
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.container import Services
from runtime.services.management.members import organization_users
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.zone_settings import set_zone_setting
from runtime.storage.sql import consents, entities, sessions, zone_data
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.consents import SIGN_IN, ConsentRecord


class Shop:
    """A zone with an API that asks a store behind it, and the organization's home zone."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes, self.company = nodes, company_of(nodes.first)
        nodes.first.call(lambda _: self._begin())

    async def _begin(self) -> None:
        company, url = self.company, self.nodes.first.url
        self.zone = await company.zone()
        self.store = await company.resource(self.zone, "https://store.example")
        self.provider = await company.app(self.zone, "api-server", dependencies=[self.store])
        self.api = await company.resource(self.zone, "https://api.example", application_id=self.provider.id)
        async with company.services.database.reading() as conn:
            found = await entities.get(conn, ORGANIZATION, company.organization_id, within={})
            home_zone = await entities.get(conn, ZONE, str(cast(Organization, found).zone_id), within={})
            (self.management,) = await zone_data.resources_named(conn, home_zone.id, exact={url}, prefixes=())
            within = {"zone_id": self.zone.id}
            token_service = await entities.find_by(conn, PROVIDER, "type", "service-sts", within=within)
        await set_zone_setting(company.services, self.zone.id, "require-active-accountable", "on")
        self.home_zone = cast(Zone, home_zone)
        self.token_service_id = cast(Provider, token_service).id


class Life:
    """A customer who has signed in to an application, and a member who has to a console, with tokens."""

    def __init__(self, shop: Shop, *, begins_at: Server | None = None, ends_at: Server | None = None) -> None:
        """Args:
        begins_at, ends_at: the nodes at which tokens are issued, and things are ended; the first.
        """
        self.shop, self.nodes, self.name = shop, shop.nodes, new_id()[:12]
        self.begins_at, self.ends_at = begins_at or self.nodes.first, ends_at or self.nodes.first
        self.issuer = str(shop.zone.protocols.oauth2.issuer)
        self.begins_at.call(self._begin)
        answer = self._exchange(self.begins_at, self.app, self.token, shop.api)
        assert answer.status_code == 200, answer.text
        self.exchanged = str(answer.json()["access_token"])

    async def _begin(self, services: Services) -> None:
        shop, company = self.shop, replace(self.shop.company, services=services)
        self.customer = await company.person(shop.zone, f"{self.name}@customer.example")
        self.accountable = await company.user(shop.zone, f"{self.name}@accountable.example")
        self.app = await company.app(
            shop.zone,
            self.name,
            consent="required",
            dependencies=[shop.api],
            accountable_user_id=self.accountable.id,
        )
        given = [
            ConsentRecord(SIGN_IN, frozenset({"openid"}), "app.example"),
            ConsentRecord(shop.api.id, frozenset(), "app.example"),
        ]
        async with company.services.database.transaction() as conn:
            await consents.record(
                conn,
                given,
                zone_id=shop.zone.id,
                user_id=self.customer.user.id,
                client_ref=ClientRef(application_id=self.app.id),
                now=company.services.clock(),
            )
            self.grant_id, _ = await consents.grant(
                conn,
                organization_id=shop.zone.organization_id,
                zone_id=shop.zone.id,
                user_id=self.customer.user.id,
                resource_id=shop.api.id,
                provider_id=shop.token_service_id,
                scopes=[],
                now=company.services.clock(),
            )
        self.token = await company.token(shop.zone, self.app, self.customer)
        self.member = await company.person(shop.home_zone, f"{self.name}@member.example")
        self.console = await company.app(shop.home_zone, self.name, dependencies=[shop.management])
        async with unit_of_work(company.services, operator(company.organization_id), new_id()) as unit:
            await organization_users.add_home_user(unit, self.member.user, OrganizationRole("org_member"))
        self.member_token = await company.token(
            shop.home_zone, self.console, self.member, audience=shop.management.identifier, scopes=()
        )

    def asked(self, node: Server) -> dict[str, Callable[[], bool]]:
        """Whatever can be asked of a node; each tells whether it was granted."""
        shop, nodes = self.shop, self.nodes

        def granted(answer: httpx.Response) -> bool:
            assert answer.status_code in (200, 400, 401, 503), answer.text
            return answer.status_code == 200

        def bearer(token: str) -> dict[str, str]:
            return {"Authorization": f"Bearer {token}"}

        def introspected() -> bool:
            address = nodes.at(node, f"{self.issuer}/oauth/introspect")
            form = {"token": self.exchanged, **shop.provider.form}
            answer = httpx.post(address, data=form, trust_env=False)
            return granted(answer) and bool(answer.json()["active"])

        userinfo = nodes.at(node, f"{self.issuer}/openid/userinfo")
        return {
            "exchange": lambda: granted(self._exchange(node, self.app, self.token, shop.api)),
            "further exchange": lambda: granted(
                self._exchange(node, shop.provider, self.exchanged, shop.store)
            ),
            "introspection": introspected,
            "userinfo": lambda: granted(httpx.get(userinfo, headers=bearer(self.token), trust_env=False)),
            "management API": lambda: granted(
                httpx.get(f"{node.url}/zones", headers=bearer(self.member_token), trust_env=False)
            ),
        }

    def _exchange(self, node: Server, app: App, token: str, resource: Resource) -> httpx.Response:
        form = {
            "grant_type": GRANT_TYPE,
            "subject_token": token,
            "subject_token_type": ACCESS_TOKEN,
            "resource": resource.identifier,
            **app.form,
        }
        address = self.nodes.at(node, f"{self.issuer}/oauth/token")
        return httpx.post(address, data=form, trust_env=False)

    def _manage(self, method: str, path: str, body: dict[str, str] | None = None) -> httpx.Response:
        answer = httpx.request(
            method,
            f"{self.ends_at.url}{path}",
            json=body,
            headers=self.nodes.first.headers,
            trust_env=False,
        )
        assert answer.is_success, answer.text
        return answer

    def end_sessions(self) -> None:
        for person in (self.customer, self.member):
            path = f"/zones/{person.user.zone_id}/sessions/{person.session_id}"
            self._manage("PATCH", path, {"status": "revoked"})

    def disable_users(self) -> None:
        for person in (self.customer, self.member):
            path = f"/zones/{person.user.zone_id}/users/{person.user.id}"
            self._manage("PATCH", path, {"status": "disabled"})

    def revoke_token(self) -> None:
        form = {"token": self.exchanged, **self.app.form}
        address = self.nodes.at(self.ends_at, f"{self.issuer}/oauth/revoke")
        answer = httpx.post(address, data=form, trust_env=False)
        assert answer.status_code == 200, answer.text

    def withdraw_consent(self) -> None:
        path = f"/zones/{self.shop.zone.id}/delegated-grants/{self.grant_id}"
        self._manage("PATCH", path, {"status": "revoked"})

    def take_everything_back(self) -> None:
        """As the customer does on the account page."""

        async def take_back(services: Services) -> None:
            zone = await services.zones.get(self.shop.zone.id)
            async with services.database.reading() as conn:
                session = await sessions.find(conn, self.customer.session_id, zone_id=zone.id)
            assert session is not None
            signed_in = SignedInUser(session, self.customer.user)
            await withdrawal.application(services, zone, signed_in, self.app.id)

        self.ends_at.call(take_back)

    def delete_application(self) -> None:
        self._manage("DELETE", f"/zones/{self.shop.zone.id}/applications/{self.app.id}")

    def disable_accountable_user(self) -> None:
        self._set_accountable_user("disabled")

    def enable_accountable_user(self) -> None:
        self._set_accountable_user("active")

    def _set_accountable_user(self, status: str) -> None:
        path = f"/zones/{self.shop.zone.id}/users/{self.accountable.id}"
        self._manage("PATCH", path, {"status": status})

    def remove_dependencies(self) -> None:
        shop = self.shop
        for zone, app, resource in (
            (shop.zone, self.app, shop.api),
            (shop.home_zone, self.console, shop.management),
        ):
            path = f"/zones/{zone.id}/applications/{app.id}/dependencies/{resource.id}"
            self._manage("DELETE", path)


OF_THE_ZONE = frozenset({"exchange", "further exchange", "introspection", "userinfo"})
ALL = OF_THE_ZONE | {"management API"}
# What ends, and what must be refused from then on.
ENDS: Mapping[Callable[[Life], None], frozenset[str]] = {
    Life.end_sessions: ALL,
    Life.disable_users: ALL,
    Life.revoke_token: frozenset({"further exchange", "introspection"}),
    Life.take_everything_back: OF_THE_ZONE,
    Life.delete_application: OF_THE_ZONE,
    Life.disable_accountable_user: OF_THE_ZONE,
    Life.withdraw_consent: frozenset({"exchange", "introspection"}),
    Life.remove_dependencies: frozenset({"exchange", "management API"}),
}

Lives = Mapping[Callable[[Life], None], Life]


def answers(lives: Lives, nodes: Nodes) -> dict[tuple[str, str, str], bool]:
    """What is granted now: (what ends, node, what is asked) -> whether, all of it asked at once."""
    asked = {
        (end.__name__, node.url, name): ask
        for end, life in lives.items()
        for node in nodes.both
        for name, ask in life.asked(node).items()
    }
    with ThreadPoolExecutor(16) as pool:
        return dict(zip(asked, pool.map(lambda ask: ask(), asked.values()), strict=True))


def wrongly_granted(found: Mapping[tuple[str, str, str], bool]) -> list[tuple[str, str, str]]:
    """What is granted although what it rests on has ended."""
    granted = [each for each, is_granted in found.items() if is_granted]
    return [each for each in granted if each[2] in ENDS[getattr(Life, each[0])]]

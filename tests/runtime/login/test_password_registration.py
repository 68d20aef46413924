"""Passwords of new users: who may register, and what waits for a verified address."""

import pytest
from sqlalchemy import select
from tests.support.oauth_site import PASSWORD, Answer, Browser, Page, Site, assert_page

from runtime.domain.errors import Conflict, ValidationFailed
from runtime.services.authority import users
from runtime.storage.sql.tables import METADATA

STORAGE = ("embedded", "servers")


class TestRegistration:
    """People who make their own account."""

    def test_registering_signs_in_with_an_unverified_address(self, site: Site, browser: Browser) -> None:
        """Registering signs in; the address stays unverified."""
        zone = site.zone(requires_invitation=False)
        client = site.app(zone)
        page = browser.open(client.url())
        assert isinstance(page, Page)
        assert "Create an account" in page.text

        form = browser.open(page.action.replace("sign-in", "sign-up") + f"?request={page.fields['request']}")
        assert isinstance(form, Page)
        assert form.unlabelled == set()
        answer = browser.send(form, email="new@acme.example", password=PASSWORD)

        assert isinstance(answer, Answer)
        tokens = client.redeem(answer.code).json()
        assert client.userinfo(tokens["access_token"]).json()["email_verified"] is False

    def test_policies_know_only_verified_addresses(self, site: Site, browser: Browser) -> None:
        """Whoever registers with somebody's address does not get what is theirs."""
        zone = site.zone(requires_invitation=False)
        pay = site.run(site.company.resource(zone, "https://pay.example", scopes=["pay"]))
        client = site.app(zone, dependencies=[pay])
        people = '["ada@acme.example", "ceo@acme.example"].contains(principal.email)'
        rule = f"permit (principal is User, action, resource) when {{ principal has email && {people} }};"
        site.run(site.company.policies(zone, rule))
        site.user(zone)
        asked = client.url(resources=[pay.identifier], scope="openid pay")
        assert client.redeem(browser.sign_in(browser.open(asked)).code).status_code == 200

        stranger = Browser()
        page = stranger.open(asked)
        assert isinstance(page, Page)
        form = stranger.open(page.action.replace("sign-in", "sign-up") + f"?request={page.fields['request']}")
        assert isinstance(form, Page)
        answer = stranger.send(form, email="ceo@acme.example", password=PASSWORD)

        assert isinstance(answer, Answer)
        refused = client.redeem(answer.code)
        assert (refused.status_code, refused.json()["reason"]) == (400, "policy_denied")

    @pytest.mark.parametrize(
        ("email", "password", "said"),
        [
            ("new@acme.example", "short", "fewer than 12"),
            ("no address", PASSWORD, "not an e-mail address"),
            ("ada@acme.example", PASSWORD, "cannot be registered"),
        ],
    )
    def test_a_refused_field_is_named_on_the_page(
        self, site: Site, browser: Browser, email: str, password: str, said: str
    ) -> None:
        """The page comes back and names the field."""
        zone = site.zone(requires_invitation=False)
        site.user(zone)
        page = browser.open(site.app(zone).url())
        assert isinstance(page, Page)
        form = browser.open(page.action.replace("sign-in", "sign-up") + f"?request={page.fields['request']}")
        assert isinstance(form, Page)

        back = browser.send(form, email=email, password=password)

        assert isinstance(back, Page)
        assert_page(back.response, 400)
        assert said in back.text

    def test_without_self_registration_the_page_says_why(self, site: Site, browser: Browser) -> None:
        """The default: the sign-in page offers nothing, and the address of the other page says why."""
        zone = site.zone()
        page = browser.open(site.app(zone).url())
        assert isinstance(page, Page)
        assert "Create an account" not in page.text

        address = page.action.replace("sign-in", "sign-up") + f"?request={page.fields['request']}"
        refused = browser.http.get(address)

        assert_page(refused, 403)
        assert "invitation" in refused.text
        assert_page(browser.http.post(address, data=page.fields), 403)


class TestUsers:
    """Users made by those who run the service."""

    @pytest.mark.parametrize(
        ("email", "password"), [("ada", PASSWORD), ("a@b@c", PASSWORD), ("ada@acme.example", "elevenchars")]
    )
    def test_refuses_what_will_not_do(self, site: Site, email: str, password: str) -> None:
        """And makes nobody."""
        zone = site.zone()

        with pytest.raises(ValidationFailed):
            site.run(users.create_local_user(site.services, zone.id, email, password, verified=True))

    def test_one_user_for_an_address(self, site: Site) -> None:
        """However it is written."""
        zone = site.zone()
        site.user(zone)

        with pytest.raises(Conflict):
            site.user(zone, "ADA@ACME.example")

    @pytest.mark.parametrize(("verified", "members"), [(True, 1), (False, 0)])
    def test_pending_memberships_wait_for_a_verified_address(
        self, site: Site, verified: bool, members: int
    ) -> None:
        """Whoever only claims an address joins nothing."""
        zone = site.zone()
        group = site.run(site.company.group(zone, "engineering"))
        invitees = METADATA.tables["group_invitees"]

        async def invite() -> None:
            async with site.services.database.transaction() as conn:
                await conn.execute(
                    invitees.insert().values(
                        zone_id=zone.id,
                        group_id=group.id,
                        email="ada@acme.example",
                        created_at=site.services.clock(),
                    )
                )

        async def count() -> tuple[int, int]:
            async with site.services.database.reading() as conn:
                pending = await conn.execute(select(invitees).where(invitees.c.group_id == group.id))
                joined = METADATA.tables["group_members"]
                found = await conn.execute(select(joined).where(joined.c.group_id == group.id))
                return len(found.all()), len(pending.all())

        site.run(invite())
        user = site.user(zone, "Ada@acme.example", verified=verified)

        assert site.run(count()) == (members, 1 - members)
        assert user.email_verified is verified

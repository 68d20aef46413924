"""Account linking: which user a provider's sign-in ends at, and who is told that the user has changed."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert
from tests.runtime.authority.admitting import (
    ISSUER,
    FederatedZone,
    connect,
    connected_home,
    federated_zone,
    home_of,
    member,
    verified,
)
from tests.support.factories import Company, found_company
from tests.support.state_doubles import with_state

from runtime.domain.errors import SignInRefused
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.values import OrganizationRole
from runtime.services import epochs
from runtime.services.authority import admission
from runtime.services.authority.admission import JoiningAccount, ManagementToken, checks
from runtime.services.container import Services
from runtime.services.management.members import organization_users
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.zones.session_roots import SessionRootCache
from runtime.storage.sql import users as storage
from runtime.storage.sql.tables import METADATA

ADA = "ada@acme.example"
NOT_VERIFIED = [
    False,
    None,
    "false",
    "False",
    "True",
    "yes",
    "",
    "1",
    0,
    1,
    2,
    1.0,
    [True],
    ["true"],
    {"true": True},
]


@pytest.fixture
async def process(services: Services) -> AsyncIterator[Services]:
    """Another process over the same database and the same short-lived state."""
    made = with_state(services, services.state)
    yield made
    await made.epochs.close()


async def held(process: Services, zone_id: str, session_id: str) -> SessionRootCache:
    """The cache of a process that has read a session's user, and goes on trusting what it has read."""
    roots = (await process.zones.get(zone_id)).session_roots
    root = await roots.read(session_id)
    assert root is not None
    of_session, of_user = root.epochs
    await process.epochs.remember(
        {epochs.session_key(session_id): of_session, epochs.user_key(root.principal.user.id): of_user}
    )
    assert await roots.get(session_id) is root, "otherwise nothing is cached"
    return roots


async def acting_elsewhere(services: Services) -> tuple[FederatedZone, str]:
    """A connected home zone, and a verified address there whose account another organization knows.

    That organization knows it by its password; the connection was made afterwards.
    """
    company, away = await found_company(services, "home"), await found_company(services, "away")
    home = await home_of(company)
    ada = await company.user(home, ADA)
    await member(company, ada)
    token = ManagementToken(ada.id, home.id, str(home.protocols.oauth2.issuer), None, by_platform=True)
    async with unit_of_work(services, away.caller, new_id()) as unit:
        joining = JoiningAccount(token, home, ada, None)
        await organization_users.add_external_account(unit, OrganizationRole.MEMBER, joining)
    return await connect(company, ISSUER), ada.id


async def test_first_sign_ins_of_one_subject_at_once_end_at_one_user(company: Company) -> None:
    """Whoever waits for the zone's lock looks again behind it, and finds the user made meanwhile."""
    site = await federated_zone(company)

    users: dict[str, set[str]] = {}
    for subject in ("ada", "bob", "eve"):
        claims = verified(f"{subject}@acme.example")
        found = await asyncio.gather(*(site.sign_in(subject, claims) for _ in range(4)))
        users[subject] = {each.id for each in found}

    assert [len(ids) for ids in users.values()] == [1, 1, 1]

    assert len(await site.users()) == 3


async def test_a_verified_address_links_the_local_user_who_has_it(services: Services) -> None:
    """In an organization's home zone, the one local user with the address is the provider's from then on."""
    home = await connected_home(services)
    ada = await home.company.user(home.zone, ADA)

    assert (await home.sign_in("ada", verified(ADA.upper()))).id == ada.id

    (user,) = await home.users()
    assert (user.issuer, user.subject) == (ISSUER, "ada")


async def test_an_address_of_several_local_users_links_none_of_them(services: Services) -> None:
    """Which of them signs in cannot be told, so somebody new is made."""
    home = await connected_home(services)
    twins = [checks.new_user(home.zone, ADA, services.clock(), verified=True) for _ in range(2)]
    async with services.database.transaction() as conn:
        for twin in twins:
            await storage.add(conn, twin)

    await home.sign_in("ada", verified(ADA))

    bound = [each for each in await home.users() if each.subject == "ada"]
    assert len(bound) == 1
    assert bound[0].id not in {each.id for each in twins}


async def test_an_account_that_acts_elsewhere_is_not_linked_before_it_is_refused(services: Services) -> None:
    """The refusal comes before any write: also in the transaction it is raised in, nothing is bound."""
    home, ada_id = await acting_elsewhere(services)
    by = home.says("ada", verified(ADA))

    async with services.database.transaction() as conn:
        with pytest.raises(SignInRefused, match="acts for other organizations"):
            await admission.admit(conn, home.zone, by, now=services.clock())
        bound = await storage.find_by_subject(conn, zone_id=home.zone.id, issuer=ISSUER, subject="ada")
        unbound = await storage.get(conn, ada_id, zone_id=home.zone.id)

    assert (bound, unbound.issuer) == (None, None)


@pytest.mark.parametrize("said", [True, "true"])
async def test_an_address_is_verified_by_true(company: Company, said: object) -> None:
    """The boolean, and the text that some providers send in its place, mean a verified address."""
    site = await federated_zone(company)

    user = await site.sign_in("ada", {"email": ADA, "email_verified": said})

    assert user.email_verified is True


@pytest.mark.parametrize("said", NOT_VERIFIED, ids=repr)
async def test_an_address_is_not_verified_by_another_value(company: Company, said: object) -> None:
    """What is merely truthy verifies nothing: `"false"` as text is the commonest. Spec: OIDC Core 5.1."""
    site = await federated_zone(company)

    user = await site.sign_in("ada", {"email": ADA, "email_verified": said})

    assert user.email_verified is False


@pytest.mark.parametrize("said", ["false", 1], ids=repr)
async def test_another_value_links_no_local_user(services: Services, said: object) -> None:
    """A local user with a verified address stays theirs alone."""
    home = await connected_home(services)
    ada = await home.company.user(home.zone, ADA)

    signed_in = await home.sign_in("ada", {"email": ADA, "email_verified": said})

    assert signed_in.id != ada.id


class TestAnotherProcess:
    """A process that has cached the user reads them again at its next use, whoever signed them in."""

    async def test_reads_a_linked_user_again(self, services: Services, process: Services) -> None:
        """Linking alone changes the user: the provider says nothing new about them."""
        home = await connected_home(services)
        ada = await home.company.person(home.zone, ADA)
        roots = await held(process, home.zone.id, ada.session_id)

        await home.sign_in("ada", verified(ADA))

        root = await roots.get(ada.session_id)
        assert root is not None
        assert (root.principal.user.issuer, root.principal.user.subject) == (ISSUER, "ada")

    async def test_reads_a_user_with_another_address_again(self, company: Company, process: Services) -> None:
        """Policies are asked with the address that the provider says now."""
        site = await federated_zone(company)
        ada = await company.signed_in(site.zone, await site.sign_in("ada", verified(ADA)))
        roots = await held(process, site.zone.id, ada.session_id)

        await site.sign_in("ada", verified("lovelace@acme.example"))

        root = await roots.get(ada.session_id)
        assert root is not None
        assert root.principal.policy_user.email == "lovelace@acme.example"

    async def test_reads_a_user_who_has_joined_a_group_again(
        self, company: Company, process: Services
    ) -> None:
        """A membership that waited for the address counts, though the address is the same as before."""
        site = await federated_zone(company)
        group = await company.group(site.zone, "engineering")
        ada = await company.signed_in(site.zone, await site.sign_in("ada", verified(ADA)))
        invitees = METADATA.tables["group_invitees"]
        waiting = {"zone_id": site.zone.id, "group_id": group.id, "email": ADA}
        async with company.services.database.transaction() as conn:
            await conn.execute(insert(invitees).values(**waiting, created_at=company.services.clock()))
        roots = await held(process, site.zone.id, ada.session_id)

        await site.sign_in("ada", verified(ADA))

        root = await roots.get(ada.session_id)
        assert root is not None
        assert [each.identifier for each in root.principal.groups] == [group.identifier]

    async def test_keeps_a_user_of_whom_nothing_is_new(self, company: Company, process: Services) -> None:
        """A sign-in alone costs no process its cache."""
        site = await federated_zone(company)
        ada = await company.signed_in(site.zone, await site.sign_in("ada", verified(ADA)))
        roots = await held(process, site.zone.id, ada.session_id)
        root = await roots.get(ada.session_id)

        await site.sign_in("ada", verified(ADA))

        assert await roots.get(ada.session_id) is root

"""What a management write does to exchanges that are warm: nothing, unless they depend on what it changes."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import delete, event, update
from tests.support.factories import App, Company, Person
from tests.support.scene import Scene, acting, claims_of
from tests.support.state_doubles import with_state
from tests.support.waiting import let_elapse

from runtime.domain.errors import ManagementError, NotFound, OAuthError
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    GROUP,
    POLICY,
    POLICY_SET,
    PROVIDER,
    RESOURCE,
    ROLE,
    SECRET,
    SESSION,
    USER,
    ZONE,
    Kind,
)
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import Group
from runtime.services import epochs
from runtime.services.container import Services
from runtime.services.management.kind_handlers import DELETES
from runtime.services.management.people import assignments, groups, sessions
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.management.zones import applications
from runtime.storage.sql.tables import METADATA
from runtime.storage.state.memory import InProcessState

pytestmark = pytest.mark.long

SCOPES = ["read", "write"]
PERMIT_STAFF = 'permit (principal, action, resource) when { principal in Group::"staff" };'


@dataclass
class Shop:
    """A zone in which one exchange is warm, and things that it has nothing to do with."""

    scene: Scene
    api: Resource
    agent: App
    ann: Person
    subject: str
    staff: Group
    other: App
    other_api: Resource
    bob: Person
    made: list[Any] = field(default_factory=list)

    @property
    def company(self) -> Company:
        return self.scene.company

    async def answer(self, services: Services | None = None, scope: str | None = None) -> object:
        """What an exchange comes to: what its token says and not when, or why there is none."""
        try:
            told = await self.scene.exchange(self.agent, self.subject, self.api, scope, services=services)
        except OAuthError as refused:
            return refused.code
        claims = claims_of(told["access_token"])
        return claims["aud"], claims["sub"], claims["client_id"], claims.get("scope"), acting(claims)

    async def token(self, services: Services | None = None) -> str:
        token: str = (
            await self.scene.exchange(self.agent, self.subject, self.api, "read", services=services)
        )["access_token"]
        return token

    async def dependency(self, app: App, resource_id: str, *, add: bool = True) -> None:
        """Declare a dependency, or withdraw it."""
        parents = {"zone_id": self.scene.zone.id}
        async with unit_of_work(self.scene.services, self.company.caller, new_id()) as unit:
            if add:
                await applications.add_dependency(unit, parents, app.id, resource_id, [])
            else:
                await applications.remove_dependency(unit, parents, app.id, resource_id)

    async def member(self, user_id: str, *, add: bool = True) -> None:
        """Make somebody one of the staff, or end that."""
        parents = {"zone_id": self.scene.zone.id}
        async with unit_of_work(self.scene.services, self.company.caller, new_id()) as unit:
            do = groups.add_member if add else groups.remove_member
            await do(unit, parents, self.staff.id, user_id)

    async def members(self, *emails: str) -> None:
        """Name all members by their addresses, as a manifest does."""
        async with unit_of_work(self.scene.services, self.company.caller, new_id()) as unit:
            await groups.set_members(unit, self.staff, emails)

    async def made_and_deleted(self, kind: Kind, **body: Any) -> None:
        """Something of that kind, which goes at once."""
        made = await self.company.create(kind, self.scene.zone.id, **body)
        await self.company.delete(kind, self.scene.zone.id, made.id)

    async def described_provider(self) -> None:
        """Tell people something else of a provider."""
        zone_id = self.scene.zone.id
        made = await self.company.create(PROVIDER, zone_id, identifier="https://login.test", name="Login")
        await self.company.update(PROVIDER, zone_id, made.id, description=new_id())

    async def role(self, holder: assignments.PrincipalKind, principal_id: str) -> None:
        """Give somebody a new role."""
        parents = {"zone_id": self.scene.zone.id}
        role = await self.company.create(ROLE, self.scene.zone.id, identifier=f"role-{new_id()[:8]}")
        async with unit_of_work(self.scene.services, self.company.caller, new_id()) as unit:
            await assignments.assign(unit, holder, parents, principal_id, {"role_id": role.id})


@pytest.fixture
async def shop(own_scene: Scene) -> Shop:
    scene, company, zone = own_scene, own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test/v1", scopes=SCOPES)
    other_api = await company.resource(zone, "https://other.test", scopes=SCOPES)
    agent = await company.app(zone, "agent", dependencies=[api])
    other = await company.app(zone, "other", dependencies=[other_api])
    ann = await company.person(zone, "ann@acme.test")
    bob = await company.person(zone, "bob@acme.test")
    staff = await company.group(zone, "staff", [ann.user])
    await company.policies(zone, PERMIT_STAFF)
    subject = await company.token(zone, agent, ann)
    return Shop(scene, api, agent, ann, subject, staff, other, other_api, bob)


@pytest.fixture
async def elsewhere(shop: Shop) -> AsyncIterator[Services]:
    """Another worker over the same database and the same short-lived state."""
    made = with_state(shop.scene.services, shop.scene.services.state)
    yield made
    await made.epochs.close()


@contextmanager
def statements(services: Services) -> Iterator[list[str]]:
    """What is asked of the database meanwhile, without records and without what is read all the time."""
    seen: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith(("SELECT", "UPDATE", "INSERT")) and not any(
            name in statement for name in ("token_events", "epoch_changes", "last_used_at")
        ):
            seen.append(statement)

    engine = services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)


Write = Callable[[Shop], Awaitable[object]]

UNRELATED: dict[str, Write] = {
    "new application": lambda it: it.company.create(
        APPLICATION, it.scene.zone.id, identifier=new_id(), name="new"
    ),
    "changed application": lambda it: it.company.update(
        APPLICATION, it.scene.zone.id, it.other.id, traits=["mcp-server"]
    ),
    "new credential": lambda it: it.company.credential(it.scene.zone, it.other.application),
    "another one of the same application": lambda it: it.company.credential(
        it.scene.zone, it.agent.application
    ),
    "new resource": lambda it: it.company.resource(it.scene.zone, f"https://{new_id()}.test"),
    "new resource below": lambda it: it.company.resource(it.scene.zone, "https://api.test/v1/below"),
    "changed resource": lambda it: it.company.update(
        RESOURCE, it.scene.zone.id, it.other_api.id, scopes=["read"], credential_lifetime_seconds=60
    ),
    "dependency": lambda it: it.dependency(it.other, it.api.id),
    "new group": lambda it: it.company.group(it.scene.zone, new_id()),
    "new member": lambda it: it.company.group(it.scene.zone, new_id(), [it.bob.user]),
    "member of the same group": lambda it: it.member(it.bob.user.id),
    "changed user": lambda it: it.company.update(USER, it.scene.zone.id, it.bob.user.id, email="b@acme.test"),
    "disabled user": lambda it: it.company.update(USER, it.scene.zone.id, it.bob.user.id, status="disabled"),
    "role of an application": lambda it: it.role(assignments.APPLICATIONS, it.other.id),
    "role of a user": lambda it: it.role(assignments.USERS, it.bob.user.id),
    "renamed application": lambda it: it.company.update(
        APPLICATION, it.scene.zone.id, it.other.id, identifier=new_id()
    ),
    "renamed resource": lambda it: it.company.update(
        RESOURCE, it.scene.zone.id, it.other_api.id, identifier=f"https://{new_id()}.test"
    ),
    "deleted application": lambda it: it.company.delete(APPLICATION, it.scene.zone.id, it.other.id),
    "deleted credential": lambda it: it.company.delete(
        APPLICATION_CREDENTIAL, it.scene.zone.id, it.other.credential_id
    ),
    "deleted resource": lambda it: it.company.delete(RESOURCE, it.scene.zone.id, it.other_api.id),
    "deleted user": lambda it: it.company.delete(USER, it.scene.zone.id, it.bob.user.id),
    "deleted group": lambda it: it.made_and_deleted(GROUP, name=new_id()),
    "deleted role": lambda it: it.made_and_deleted(ROLE, identifier="nobodys"),
    "described provider": lambda it: it.described_provider(),
    "secret": lambda it: it.company.create(
        SECRET,
        it.scene.zone.id,
        entity_id=it.other_api.id,
        name="key",
        data={"type": "token", "token": "a-key-of-the-other-api"},
    ),
    "described resource": lambda it: it.company.update(
        RESOURCE, it.scene.zone.id, it.api.id, description=new_id()
    ),
    "described application": lambda it: it.company.update(
        APPLICATION, it.scene.zone.id, it.agent.id, description=new_id()
    ),
}
# These are read again, since people are shown the description; the token is the same.
_READ_AGAIN = {"described resource", "described application"}


@pytest.mark.parametrize("write", UNRELATED)
async def test_unrelated_writes_leave_exchanges_warm(shop: Shop, elsewhere: Services, write: str) -> None:
    """The token that was issued before is given out again, by the worker that wrote and by the other one."""
    token = await shop.token()
    assert {await shop.token(services) for services in (None, elsewhere) for _ in range(2)} == {token}
    await shop.scene.services.decisions.flush()

    await UNRELATED[write](shop)

    for services in (shop.scene.services, elsewhere):
        with statements(services) as asked:
            assert await shop.token(services) == token
        # The zone's epochs, and what the change was about.
        assert write in _READ_AGAIN or [each for each in asked if "zone_" not in each] == []
        with statements(services) as asked:
            assert await shop.token(services) == token
        assert asked == []


async def test_drafts_of_policies_move_no_epoch(shop: Shop) -> None:
    """A policy decides nothing until its set is activated."""
    zone_id, state = shop.scene.zone.id, shop.scene.services.state
    token = await shop.token()
    before = await state.get(epochs.zone_key(zone_id))
    await shop.company.create(POLICY, zone_id, name="draft")
    await shop.company.create(POLICY_SET, zone_id, name="draft")

    assert await state.get(epochs.zone_key(zone_id)) == before
    assert await shop.token() == token


async def _rename_policy_subject(it: Shop) -> object:
    return await it.company.policies(it.scene.zone, "forbid (principal, action, resource);")


RELATED: dict[str, Write] = {
    "dependency withdrawn": lambda it: it.dependency(it.agent, it.api.id, add=False),
    "scopes": lambda it: it.company.update(RESOURCE, it.scene.zone.id, it.api.id, scopes=["write"]),
    "resource renamed": lambda it: it.company.update(
        RESOURCE, it.scene.zone.id, it.api.id, identifier="https://moved.test"
    ),
    "resource deleted": lambda it: it.company.delete(RESOURCE, it.scene.zone.id, it.api.id),
    "application renamed": lambda it: it.company.update(
        APPLICATION, it.scene.zone.id, it.agent.id, identifier="renamed"
    ),
    "consent required": lambda it: it.company.update(
        APPLICATION, it.scene.zone.id, it.agent.id, consent="required"
    ),
    "credential deleted": lambda it: it.company.delete(
        APPLICATION_CREDENTIAL, it.scene.zone.id, it.agent.credential_id
    ),
    "member removed": lambda it: it.member(it.ann.user.id, add=False),
    "members named": lambda it: it.members("bob@acme.test"),
    "group renamed": lambda it: it.company.update(
        GROUP, it.scene.zone.id, it.staff.id, identifier="former-staff"
    ),
    "group deleted": lambda it: it.company.delete(GROUP, it.scene.zone.id, it.staff.id),
    "application deleted": lambda it: it.company.delete(APPLICATION, it.scene.zone.id, it.agent.id),
    "user deleted": lambda it: it.company.delete(USER, it.scene.zone.id, it.ann.user.id),
    "user disabled": lambda it: it.company.update(USER, it.scene.zone.id, it.ann.user.id, status="disabled"),
    "policy activated": _rename_policy_subject,
}


@pytest.mark.threat("18o", "35a")
@pytest.mark.parametrize("write", RELATED)
async def test_related_writes_are_decided_anew_at_once(shop: Shop, elsewhere: Services, write: str) -> None:
    """By the worker that wrote, and by the other one: beside any number of unrelated writes."""
    before = await shop.answer(scope="read")
    assert isinstance(before, tuple)
    assert await shop.answer(elsewhere, scope="read") == before
    await UNRELATED["new resource"](shop)
    assert await shop.answer(elsewhere, scope="read") == before

    await RELATED[write](shop)
    await UNRELATED["new resource"](shop)

    found = [await shop.answer(services, scope="read") for services in (None, elsewhere)]
    assert before not in found
    assert found[0] == found[1]


async def test_a_new_resource_takes_over_what_it_is_the_longer_prefix_of(shop: Shop) -> None:
    """What is asked for means another resource from then on, which the agent may not request."""
    company, zone = shop.company, shop.scene.zone
    everything = await company.resource(zone, "https://all.test/", scopes=SCOPES, prefix=True)
    await shop.dependency(shop.agent, everything.id)
    long_path = "https://all.test/" + "/".join("x" * 40)
    asked = ("https://all.test/part/1", long_path)
    found = [await shop.scene.exchange(shop.agent, shop.subject, each) for each in asked]
    assert [claims_of(each["access_token"])["aud"] for each in found] == [everything.identifier] * 2

    await company.resource(zone, "https://all.test/part", scopes=SCOPES, prefix=True)
    with pytest.raises(OAuthError):
        await shop.scene.exchange(shop.agent, shop.subject, asked[0])
    assert await shop.scene.exchange(shop.agent, shop.subject, asked[1])

    await company.resource(zone, "https://all.test/x/x", scopes=SCOPES, prefix=True)
    with pytest.raises(OAuthError):
        await shop.scene.exchange(shop.agent, shop.subject, asked[1])


async def test_a_change_that_does_not_say_what_it_is_about_is_one_of_everything(
    shop: Shop, elsewhere: Services
) -> None:
    """An older release raises the epoch of a zone, and says no more."""
    assert isinstance(await shop.answer(elsewhere), tuple)
    internals, dependencies = METADATA.tables["zone_internals"], METADATA.tables["application_dependencies"]
    zone_id = shop.scene.zone.id
    async with shop.scene.services.epochs.transaction() as (conn, bumped):
        await conn.execute(delete(dependencies).where(dependencies.c.zone_id == zone_id))
        epoch = await conn.scalar(
            update(internals)
            .where(internals.c.zone_id == zone_id)
            .values(epoch=internals.c.epoch + 1)
            .returning(internals.c.epoch)
        )
        bumped[epochs.zone_key(zone_id)] = int(epoch or 0)
    await UNRELATED["new resource"](shop)

    assert await shop.answer(elsewhere) == "invalid_target"
    assert await shop.answer() == "invalid_target"


async def test_changes_that_were_pruned_are_of_everything(shop: Shop, elsewhere: Services) -> None:
    """Whoever has not read them reads the zone again."""
    changes = METADATA.tables["zone_changes"]
    assert isinstance(await shop.answer(elsewhere), tuple)
    await shop.dependency(shop.agent, shop.api.id, add=False)
    async with shop.scene.services.database.transaction() as conn:
        gone = await conn.execute(delete(changes).where(changes.c.zone_id == shop.scene.zone.id))
    assert gone.rowcount > 0

    assert await shop.answer(elsewhere) == "invalid_target"


async def test_unpublished_changes_count_within_a_second(shop: Shop) -> None:
    """A worker whose state is told nothing reads the epoch in the database, and what changed."""
    process = with_state(shop.scene.services, InProcessState())
    assert isinstance(await shop.answer(process), tuple)
    await shop.dependency(shop.agent, shop.api.id, add=False)
    await let_elapse(epochs.RECENT_SECONDS)

    assert await shop.answer(process) == "invalid_target"
    await process.epochs.close()


async def test_sessions_of_applications_end_alone(shop: Shop) -> None:
    """An application's own tokens rest on its session: ending one leaves the others' warm."""
    await shop.company.policies(shop.scene.zone, "permit (principal, action, resource);")
    form = [("grant_type", "client_credentials"), ("resource", shop.other_api.identifier)]
    told = await shop.scene.post([*form, *shop.other.form.items()])
    session_id = claims_of(told["access_token"])["sid"]
    exchange = {**dict(form), "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange"}
    exchange |= {"subject_token": told["access_token"], **shop.other.form}
    exchange["subject_token_type"] = "urn:ietf:params:oauth:token-type:access_token"
    token = await shop.token()

    async def own() -> object:
        try:
            return bool(await shop.scene.post(list(exchange.items())))
        except OAuthError as refused:
            return refused.code

    before = [await own() for _ in range(2)]
    async with unit_of_work(shop.scene.services, shop.company.caller, new_id()) as unit:
        parents = {"zone_id": shop.scene.zone.id}
        await sessions.revoke(unit, SESSION, parents, session_id, {"status": "revoked"})

    assert (before, await own(), await shop.token()) == ([True, True], "invalid_grant", token)


async def test_a_zone_that_goes_is_gone_whatever_went_before_in_it(shop: Shop) -> None:
    """In one transaction with an application of it, which evicts little: before any callback runs."""
    services, zone_id = shop.scene.services, shop.scene.zone.id
    assert isinstance(await shop.answer(), tuple)
    found: list[object] = []

    async def look() -> None:
        try:
            found.append(await services.zones.get(zone_id))
        except NotFound as gone:
            found.append(type(gone))

    async with unit_of_work(services, shop.company.caller, new_id()) as unit:
        unit.after_commit(look)
        await DELETES[APPLICATION.name](unit, APPLICATION, {"zone_id": zone_id}, shop.other.id)
        await DELETES[ZONE.name](unit, ZONE, {}, zone_id)

    assert found == [NotFound]


class Anything:
    """Management writes at random, of all sorts, in a zone whose exchange is asked after each."""

    def __init__(self, shop: Shop, seed: int) -> None:
        self._shop, self._chance = shop, random.Random(seed)
        self.done: list[str] = []

    async def write(self) -> None:
        """One of the writes; those that cannot be done now are as good as none."""
        shop, chance = self._shop, self._chance
        zone_id, company = shop.scene.zone.id, shop.company
        writes: dict[str, Callable[[], Awaitable[object]]] = {
            "depend": lambda: shop.dependency(shop.agent, shop.api.id, add=chance.random() < 0.7),
            "scopes": lambda: company.update(
                RESOURCE, zone_id, shop.api.id, scopes=chance.sample(SCOPES, chance.randint(1, 2))
            ),
            "consent": lambda: company.update(
                APPLICATION, zone_id, shop.agent.id, consent=chance.choice(["implicit"] * 3 + ["required"])
            ),
            "traits": lambda: company.update(
                APPLICATION, zone_id, shop.agent.id, traits=chance.choice([[], ["mcp-server"]])
            ),
            "name": lambda: company.update(APPLICATION, zone_id, shop.agent.id, identifier=new_id()),
            "describe": lambda: company.update(RESOURCE, zone_id, shop.api.id, description=new_id()),
            "join": lambda: shop.member(shop.ann.user.id),
            "leave": lambda: shop.member(shop.ann.user.id, add=False),
            "members": lambda: shop.members(*chance.sample(["ann@acme.test", "bob@acme.test"], 1)),
            "group": lambda: company.update(
                GROUP, zone_id, shop.staff.id, identifier=chance.choice(["staff", "staff", "former"])
            ),
            "below": lambda: company.resource(
                shop.scene.zone, f"https://api.test/{chance.choice(['v1', 'v2'])}/{new_id()}"
            ),
            "provide": lambda: company.update(
                RESOURCE,
                zone_id,
                shop.api.id,
                application_id=chance.choice([None, shop.other.id, shop.agent.id]),
            ),
            "provider traits": lambda: company.update(
                APPLICATION, zone_id, shop.other.id, traits=chance.choice([[], ["mcp-server"]])
            ),
            "policies": lambda: company.policies(
                shop.scene.zone, chance.choice([PERMIT_STAFF, PERMIT_STAFF, _PERMIT_PROVIDED])
            ),
            **{name: lambda name=name: UNRELATED[name](shop) for name in ("new application", "new resource")},
        }
        chosen = chance.choice(sorted(writes))
        try:
            await writes[chosen]()
        except ManagementError as refused:
            chosen = f"{chosen} (refused: {refused})"
        self.done.append(chosen)


_PERMIT_PROVIDED = """
permit (principal, action, resource)
  when { resource has provider && resource.provider.traits.contains("mcp-server") };
"""


@pytest.mark.parametrize("seed", range(3))
async def test_what_is_cached_is_what_is_read_anew(shop: Shop, elsewhere: Services, seed: int) -> None:
    """After whatever writes, two workers that have the zone cached answer as one that has nothing of it."""
    anything = Anything(shop, seed)
    answers = set()
    for _ in range(40):
        for _ in range(anything._chance.randint(1, 3)):
            await anything.write()
        scope = anything._chance.choice([None, "read", "write"])
        fresh = with_state(shop.scene.services, InProcessState())
        expected = await shop.answer(fresh, scope)
        await fresh.epochs.close()
        found = [await shop.answer(services, scope) for services in (None, elsewhere, None)]
        assert found == [expected] * 3, anything.done
        answers.add(expected if isinstance(expected, str) else "token")
    assert "token" in answers
    assert len(answers) > 1

"""What is remembered of the target of an exchange: for whom, for which scopes, and until when."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from tests.support.factories import App, Person
from tests.support.scene import Scene, claims_of

from runtime.domain.errors import AccessDenied, InvalidScope
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.attenuation import TokenLimits
from runtime.services.authority.consents import Allowance
from runtime.services.client_types import ApplicationClient
from runtime.services.grants.authorized_exchanges import AllowedTarget, AllowedTargetCache
from runtime.services.issuing import policy_decision
from runtime.services.zones import ChangeHistory, SessionRoot
from runtime.storage.sql.session_roots import DelegatedGrantRecord
from runtime.storage.sql.tables import token_events

PERIOD_BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = timedelta(seconds=policy_decision.valid_until(PERIOD_BEGINS) - PERIOD_BEGINS.timestamp())
ALMOST, LATER = timedelta(seconds=4), timedelta(seconds=6)
READ, READ_AND_WRITE = frozenset({"read"}), frozenset({"read", "write"})


@dataclass(frozen=True)
class Allowed:
    """A target that was allowed at the beginning of a period, with whom it was allowed to."""

    target: AllowedTarget
    client: ApplicationClient
    root: SessionRoot
    history: ChangeHistory = field(default_factory=lambda: ChangeHistory(7))

    def cache(self, root: SessionRoot | None = None) -> AllowedTargetCache:
        """A cache that remembers it, under that root."""
        cache = AllowedTargetCache(self.history)
        tags, as_of = frozenset({"tag"}), self.history.epoch
        cache.store("question", self.target, self.client, root or self.root, PERIOD_BEGINS, tags, as_of)
        return cache

    def ending(self, **ends: timedelta) -> SessionRoot:
        """The root with a grant, or a session, that ends so long after the beginning."""
        root = self.root
        if "session" in ends:
            root = replace(root, session=replace(root.session, expires_at=PERIOD_BEGINS + ends["session"]))
        if "grant" in ends:
            ends_at = PERIOD_BEGINS + ends["grant"]
            given = DelegatedGrantRecord("any", "any", frozenset(), "active", ends_at)
            root = replace(root, delegated=(given,))
        return root


@pytest.fixture
async def allowed(scene: Scene, agent: App, api: Resource, ann: Person) -> Allowed:
    subject = await scene.company.token(scene.zone, agent, ann)
    zone = await scene.services.zones.get(scene.zone.id)
    client = await zone.clients.get(agent.client_id)
    root = await zone.session_roots.read(claims_of(subject)["sid"])
    assert isinstance(client, ApplicationClient)
    assert root is not None
    root = replace(root, session=replace(root.session, expires_at=PERIOD_BEGINS + timedelta(days=1)))
    limits = TokenLimits(api.identifier, READ_AND_WRITE, 3600, allowed=READ)
    return Allowed(AllowedTarget(api, limits, Allowance(READ), None, ("rule",)), client, root)


async def test_it_is_found_for_the_client_and_the_root_that_it_was_allowed_to(allowed: Allowed) -> None:
    """Under the same client and root the rules need not be asked again."""
    found = allowed.cache().find("question", allowed.client, allowed.root, READ, PERIOD_BEGINS + ALMOST)

    assert found is not None
    assert found.value.allowed is allowed.target


async def test_it_holds_until_something_changes_that_it_was_concluded_from(allowed: Allowed) -> None:
    """And tells when that was for the last time: a token from before is not given out again."""
    cache = allowed.cache()
    asked = ("question", allowed.client, allowed.root, READ, PERIOD_BEGINS)

    allowed.history.add(8, {"another tag"})
    found = cache.find(*asked)
    assert found is not None
    assert (found.value.allowed, found.changed_at) == (allowed.target, 7)
    allowed.history.add(9, {"tag"})
    assert cache.find(*asked) is None


async def test_the_database_is_asked_before_scopes_are_refused(allowed: Allowed) -> None:
    """The user may have consented to more since: within what is known nothing has to be asked."""
    cache = allowed.cache()

    assert cache.find("question", allowed.client, allowed.root, None, PERIOD_BEGINS)
    assert cache.find("question", allowed.client, allowed.root, READ_AND_WRITE, PERIOD_BEGINS) is None


async def test_a_root_that_was_read_anew_is_another(allowed: Allowed) -> None:
    """A session or user whose epoch has moved is read anew, and the rules are asked about that."""
    again = replace(allowed.root)

    assert allowed.cache().find("question", allowed.client, again, READ, PERIOD_BEGINS) is None


async def test_another_credential_of_the_client_is_another(allowed: Allowed) -> None:
    """Policies know the credential that a client has proved itself by."""
    other = replace(allowed.client)

    assert allowed.cache().find("question", other, allowed.root, READ, PERIOD_BEGINS) is None


async def test_it_holds_no_longer_than_a_policy_decision(allowed: Allowed) -> None:
    """Policies may read the time, so they are asked again in the next period."""
    cache = allowed.cache()

    assert cache.find("question", allowed.client, allowed.root, READ, PERIOD_BEGINS + PERIOD - ALMOST)
    assert cache.find("question", allowed.client, allowed.root, READ, PERIOD_BEGINS + PERIOD) is None


@pytest.mark.parametrize("what", ["session", "grant"])
async def test_it_does_not_outlive_what_it_rests_on(allowed: Allowed, what: str) -> None:
    """The end of the session, or of a grant of the user, is an end of what was concluded from it."""
    root = allowed.ending(**{what: (ALMOST + LATER) / 2})
    cache = allowed.cache(root)

    assert cache.find("question", allowed.client, root, READ, PERIOD_BEGINS + ALMOST)
    assert cache.find("question", allowed.client, root, READ, PERIOD_BEGINS + LATER) is None


async def test_what_a_users_own_policies_allow_is_asked_each_time(allowed: Allowed) -> None:
    """They are held elsewhere, and a set that is gone denies."""
    own = replace(allowed.root, principal=replace(allowed.root.principal, own_policies="any"))

    assert allowed.cache(own).find("question", allowed.client, own, READ, PERIOD_BEGINS) is None


async def test_the_record_of_a_remembered_exchange_says_as_much(scene: Scene, ann: Person) -> None:
    """Resource, actors and rules stand in the record of every token, asked or remembered."""
    api = await scene.company.resource(scene.zone, "https://twice.test")
    agent = await scene.company.app(scene.zone, "twice", dependencies=[api])
    subject = await scene.company.token(scene.zone, agent, ann)
    for _ in range(2):
        await scene.exchange(agent, subject, api)
    await scene.services.decisions.flush()

    columns = token_events.c
    told = [columns.outcome, columns.resource_id, columns.user_id, columns.actors, columns.determining]
    async with scene.services.database.reading() as conn:
        rows = (await conn.execute(select(*told).where(columns.resource_id == api.id))).all()
    first, second = rows
    assert first == second
    assert (first.outcome, first.actors) == ("issued", ["twice"])
    assert first.determining


async def test_a_remembered_exchange_gives_no_longer_token_than_a_new_one(
    scene: Scene, agent: App, api: Resource, ann: Person
) -> None:
    """The end of the subject token bounds what is made of it, whenever that is."""
    subject = await scene.company.token(scene.zone, agent, ann)
    ends = [
        claims_of((await scene.exchange(agent, subject, api, "read"))["access_token"])["exp"]
        for _ in range(2)
    ]

    assert max(ends) <= claims_of(subject)["exp"]


async def test_policies_that_look_at_scopes_are_asked_about_those_of_each_request(own_scene: Scene) -> None:
    """What they say of some scopes tells nothing of others, whatever was allowed before."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://scoped.test", scopes=["read", "write"])
    app = await company.app(zone, "scoped", dependencies=[api])
    subject = await company.token(zone, app, await company.person(zone, "eve@acme.test"))
    no_writing = (
        '@id("no-write") forbid (principal, action, resource) when { context.scopes.contains("write") };'
    )
    await company.policies(zone, '@id("all") permit (principal, action, resource);', no_writing)

    assert (await own_scene.exchange(app, subject, api, "read"))["scope"] == "read"
    with pytest.raises(AccessDenied):
        await own_scene.exchange(app, subject, api, "write")


async def test_each_request_for_a_remembered_target_is_held_to_its_scopes(scene: Scene, ann: Person) -> None:
    """Other scopes of the resource are issued as asked for; those that it has not are refused each time."""
    api = await scene.company.resource(scene.zone, "https://held.test", scopes=["read", "write"])
    agent = await scene.company.app(scene.zone, "held", dependencies=[api])
    subject = await scene.company.token(scene.zone, agent, ann)

    asked = ["read", "write", "read write"]
    assert [(await scene.exchange(agent, subject, api, scope))["scope"] for scope in asked] == asked
    for _ in range(2):
        with pytest.raises(InvalidScope):
            await scene.exchange(agent, subject, api, "read erase")

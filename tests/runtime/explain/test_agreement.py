"""An explanation and a real exchange come to the same, in every situation: both ask the same rules."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from sqlalchemy import select, update
from tests.support.factories import App, Person
from tests.support.oauth_site import CALLBACK
from tests.support.scene import Scene

from runtime.contract.decisions import ExplainBody, Explanation
from runtime.domain.errors import OAuthError
from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, GROUP, PROVIDER, RESOURCE, USER
from runtime.domain.kinds.resource import Resource
from runtime.services import epochs
from runtime.services.explain import explanations
from runtime.services.zone_settings import set_zone_setting
from runtime.storage.sql import consents
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.consents import ConsentRecord
from runtime.storage.sql.tables import METADATA, TABLES, token_events

PERMIT = "permit(principal, action, resource);"


@dataclass
class Case:
    """A zone in which everything is in order, until a situation changes that.

    Attributes:
        agent: the application that asks; `gateway` provides a resource that it may pass a token to.
        scopes: those that are asked for; None for all.
        via: applications that the token comes through.
    """

    scene: Scene
    api: Resource
    door: Resource
    agent: App
    gateway: App
    ann: Person
    target: str = "https://api.test"
    scopes: tuple[str, ...] | None = None
    asking: App = field(init=False)
    via: tuple[App, ...] = ()

    def __post_init__(self) -> None:
        self.asking = self.agent

    async def consent(self, *scopes: str) -> None:
        """Let the user agree to what the agent asks of the resource."""
        company, zone = self.scene.company, self.scene.zone
        async with company.services.epochs.transaction() as (conn, bumped):
            bumped.update(await epochs.bump_user(conn, zone.id, self.ann.user.id))
            await consents.record(
                conn,
                [ConsentRecord(self.api.id, frozenset(scopes), "app.example")],
                zone_id=zone.id,
                user_id=self.ann.user.id,
                client_ref=ClientRef(application_id=self.agent.id),
                now=company.services.clock(),
            )

    async def change(self, kind: object, entity_id: str, **patch: object) -> None:
        await self.scene.company.update(kind, self.scene.zone.id, entity_id, **patch)  # type: ignore[arg-type]

    async def explained(self) -> Explanation:
        asked = ExplainBody(
            application=self.asking.application.identifier,
            resource=self.target,
            user=self.ann.user.identifier,
            scopes=None if self.scopes is None else list(self.scopes),
            via=[each.application.identifier for each in self.via],
        )
        return await explanations.explain(
            self.scene.services, self.scene.company.caller, self.scene.zone, asked
        )

    async def exchanged(self) -> tuple[str | None, str]:
        """The error and the granted scopes of the real exchanges, hop by hop, up to the first error."""
        hops = [*self.via, self.asking]
        targets = [*(self.door.identifier for _ in self.via), self.target]
        token, scope = await self.scene.company.token(self.scene.zone, hops[0], self.ann), ""
        for place, (app, target) in enumerate(zip(hops, targets, strict=True)):
            wanted = None if self.scopes is None or place < len(hops) - 1 else " ".join(self.scopes)
            try:
                answer = await self.scene.exchange(app, token, target, wanted)
            except OAuthError as refusal:
                return refusal.code, ""
            token, scope = answer["access_token"], answer.get("scope", "")
        return None, scope


@pytest.fixture
async def case(own_scene: Scene) -> Case:
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test", scopes=("read", "write"))
    gateway = await company.app(zone, "gateway", dependencies=[api])
    door = await company.resource(zone, "https://door.test", application_id=gateway.id)
    agent = await company.app(zone, "agent", dependencies=[api, door], redirect_uris=[CALLBACK])
    return Case(own_scene, api, door, agent, gateway, await company.person(zone, "ann@acme.test"))


async def _nothing(case: Case) -> None:
    """Everything is in order."""


async def _fewer_scopes(case: Case) -> None:
    case.scopes = ("read",)


async def _unknown_scope(case: Case) -> None:
    case.scopes = ("read", "erase")


async def _unknown_resource(case: Case) -> None:
    case.target = "https://elsewhere.test"


async def _undeclared(case: Case) -> None:
    other = await case.scene.company.resource(case.scene.zone, "https://other.test")
    case.target = other.identifier


async def _no_consent(case: Case) -> None:
    await case.change(APPLICATION, case.agent.id, consent="required")


async def _consent(case: Case) -> None:
    await _no_consent(case)
    await case.consent("read", "write")


async def _consent_to_less(case: Case) -> None:
    await _no_consent(case)
    await case.consent("read")


async def _consent_to_less_than_asked(case: Case) -> None:
    await _consent_to_less(case)
    case.scopes = ("write",)


async def _forbidden(case: Case) -> None:
    await case.scene.company.policies(
        case.scene.zone,
        PERMIT,
        '@id("never") forbid(principal, action, resource == Resource::"https://api.test");',
    )


async def _one_scope_forbidden(case: Case) -> None:
    forbids = 'forbid(principal, action, resource) when { context.scopes.contains("write") };'
    await case.scene.company.policies(case.scene.zone, PERMIT, f'@id("no-writing") {forbids}')


async def _nothing_permits(case: Case) -> None:
    nobody = 'permit(principal == User::"nobody", action, resource);'
    await case.scene.company.policies(case.scene.zone, nobody)


async def _disabled(case: Case) -> None:
    await case.change(USER, case.ann.user.id, status="disabled")


async def _outside_account(case: Case) -> None:
    provider = await case.scene.company.create(
        PROVIDER, case.scene.zone.id, identifier="https://outside.test", name="Outside", type="external"
    )
    await case.change(RESOURCE, case.api.id, credential_provider_id=provider.id)


async def _empty_vault(case: Case) -> None:
    vault = await case.scene.company.create(
        PROVIDER, case.scene.zone.id, identifier="https://vault.test", name="Vault", type="service-vault"
    )
    await case.change(RESOURCE, case.api.id, credential_provider_id=vault.id)


async def _through_a_gateway(case: Case) -> None:
    case.asking, case.via = case.gateway, (case.agent,)


async def _through_a_gateway_undeclared(case: Case) -> None:
    other = await case.scene.company.app(case.scene.zone, "other", redirect_uris=[CALLBACK])
    case.asking, case.via = case.gateway, (other,)


async def _through_a_gateway_without_consent(case: Case) -> None:
    await _through_a_gateway(case)
    await case.change(APPLICATION, case.agent.id, consent="required")


async def _through_a_gateway_that_policy_forbids(case: Case) -> None:
    await _through_a_gateway(case)
    await case.scene.company.policies(
        case.scene.zone,
        PERMIT,
        '@id("no-chains") forbid(principal, action, resource) when { context.chain_depth > 1 };',
    )


async def _public(case: Case) -> None:
    case.asking = await case.scene.company.app(case.scene.zone, "spa", public=True, dependencies=[case.api])


async def _accountable_user_is_disabled(case: Case) -> None:
    olga = await case.scene.company.person(case.scene.zone, "olga@acme.test")
    await case.change(APPLICATION, case.agent.id, accountable_user_id=olga.user.id)
    await set_zone_setting(case.scene.services, case.scene.zone.id, "require-active-accountable", "on")
    assert (await case.explained()).allowed
    await case.change(USER, olga.user.id, status="disabled")


SITUATIONS: dict[str, tuple[Callable[[Case], Awaitable[None]], str | None]] = {
    "allowed": (_nothing, None),
    "fewer scopes": (_fewer_scopes, None),
    "consent given": (_consent, None),
    "consent to less": (_consent_to_less, None),
    "one scope forbidden": (_one_scope_forbidden, None),
    "through a gateway": (_through_a_gateway, None),
    "public client": (_public, "client"),
    "suspended": (_accountable_user_is_disabled, "client"),
    "user disabled": (_disabled, "session"),
    "unknown resource": (_unknown_resource, "resource"),
    "undeclared": (_undeclared, "dependency"),
    "through a gateway, undeclared": (_through_a_gateway_undeclared, "dependency"),
    "no consent": (_no_consent, "consent"),
    "through a gateway, no consent": (_through_a_gateway_without_consent, "consent"),
    "no account elsewhere": (_outside_account, "consent"),
    "nothing in the vault": (_empty_vault, "consent"),
    "unknown scope": (_unknown_scope, "scopes"),
    "consent to less than asked": (_consent_to_less_than_asked, "scopes"),
    "policy forbids": (_forbidden, "policy"),
    "no policy permits": (_nothing_permits, "policy"),
    "policy forbids chains": (_through_a_gateway_that_policy_forbids, "policy"),
}


@pytest.mark.parametrize("situation", SITUATIONS)
async def test_an_explanation_is_what_the_exchange_comes_to(case: Case, situation: str) -> None:
    """Allowed or not, the error code and the scopes; the step is the one that the situation is about."""
    arrange, refused_at = SITUATIONS[situation]
    await arrange(case)

    explained = await case.explained()
    error, scope = await case.exchanged()

    last = explained.hops[-1]
    assert (last.error, " ".join(last.scopes)) == (error, scope)
    assert explained.allowed == (error is None) == (refused_at is None)
    refused = [step.name for step in last.steps if step.outcome == "refused"]
    assert refused == ([refused_at] if refused_at else [])
    assert bool(last.remedies) == (error is not None)


async def test_the_deciding_rules_are_those_of_the_record(case: Case) -> None:
    """What the exchange records of the policies is what the explanation tells."""
    await _forbidden(case)

    explained = await case.explained()
    await case.exchanged()

    await case.scene.services.decisions.flush()
    async with case.scene.services.database.reading() as conn:
        recorded = await conn.execute(
            select(token_events)
            .where(token_events.c.zone_id == case.scene.zone.id)
            .order_by(token_events.c.at)
        )
    row = recorded.all()[-1]
    (policy,) = explained.hops[-1].policies
    assert row.determining == [f"{policy.policy_version_id}#never"]
    assert (row.step, row.reason) == (11, f"{explained.hops[-1].error}: policy_denied")


@pytest.mark.parametrize("situation", SITUATIONS)
async def test_an_explanation_stores_nothing(case: Case, situation: str) -> None:
    """Every table has the rows that it had before, and the short-lived state too."""
    await SITUATIONS[situation][0](case)
    await case.scene.services.decisions.flush()
    before = await _rows(case)

    await case.explained()

    await case.scene.services.decisions.flush()
    assert await _rows(case) == before


async def _rows(case: Case) -> dict[str, list[object]]:
    async with case.scene.services.database.reading() as conn:
        return {
            name: sorted(map(repr, (await conn.execute(select(table))).all()))
            for name, table in METADATA.tables.items()
            if name not in ("epoch_changes", "jobs")
        }


async def test_an_active_session_is_gone_by(case: Case) -> None:
    """The user's session at the application counts; without one a session that begins now is assumed."""
    assert (await case.explained()).session is None

    steps = {step.name: step.outcome for step in (await case.explained()).hops[0].steps}
    assert steps["session"] == "assumed"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"application": "nobody"}, "create the application `nobody`, or correct the name"),
        ({"user": "eve@acme.test"}, "`eve@acme.test` has to sign in to the zone once"),
        ({"via": ["agent"], "application": "agent"}, "set `application` of a resource to `agent`"),
    ],
)
async def test_what_is_not_there_is_a_refused_step_with_a_remedy(
    case: Case, asked: dict[str, object], said: str
) -> None:
    """An unknown application or user is no failure of the question: it is its answer."""
    body = {"application": "agent", "user": "ann@acme.test", "resource": "https://api.test", **asked}

    explained = await explanations.explain(
        case.scene.services,
        case.scene.company.caller,
        case.scene.zone,
        ExplainBody.model_validate(body),
    )

    assert not explained.allowed
    assert explained.hops[-1].remedies[0].startswith(said)


@pytest.mark.parametrize("who", ["disabled", "gone", "not here yet", "empty group", "group gone"])
async def test_a_suspended_application_is_told_with_who_is_accountable(case: Case, who: str) -> None:
    """The step `client`, why nobody active is accountable, and what would make it work again."""
    company, zone = case.scene.company, case.scene.zone
    olga = await company.person(zone, "olga@acme.test")
    team = await company.create(GROUP, zone.id, name="Team", identifier="team")
    await set_zone_setting(case.scene.services, zone.id, "require-active-accountable", "on")
    member = "accountable_group_id" if "group" in who else "accountable_user_id"
    named = {"not here yet": "pia@acme.test", "empty group": team.id, "group gone": team.id}
    await _make_accountable(case, case.agent, **{member: named.get(who, olga.user.id)})
    if who == "disabled":
        await case.change(USER, olga.user.id, status="disabled")
    elif who == "gone":
        await company.delete(USER, zone.id, olga.user.id)
    elif who == "group gone":
        await company.delete(GROUP, zone.id, team.id)
    why, remedy = {
        "disabled": ("user `olga@acme.test` is disabled", "enable user `olga@acme.test`, or make"),
        "gone": (f"user `{olga.user.id}` is not there", "make an active user"),
        "not here yet": ("user `pia@acme.test` is not there, or has not verified", "make an active user"),
        "empty group": ("group `team` has no active member", "add an active user to group `team`, or make"),
        "group gone": (f"group `{team.id}` is not there", "make an active user"),
    }[who]

    (hop,) = (await case.explained()).hops

    assert (hop.error, hop.steps[0].name, hop.steps[0].outcome) == ("invalid_client", "client", "refused")
    begin = f"the application is suspended, because nobody active is accountable for `agent`: {why}"
    assert str(hop.reason).startswith(begin)
    assert hop.remedies[0].startswith(remedy)


async def _make_accountable(case: Case, app: App, **named: str) -> None:
    """Name a user, who need not be there, or a group: an explanation reads what the database has."""
    table = TABLES[APPLICATION.name]
    async with case.scene.services.database.transaction() as conn:
        await conn.execute(update(table).where(table.c.id == app.id).values(**named))


async def test_a_suspended_application_further_on_is_told_too(case: Case) -> None:
    """The one that a token would go to: the hop before it is refused, and names it."""
    await _through_a_gateway(case)
    await set_zone_setting(case.scene.services, case.scene.zone.id, "require-active-accountable", "on")
    assert (await case.explained()).allowed
    await _make_accountable(case, case.gateway, accountable_user_id="nobody@acme.test")

    told = await case.explained()

    assert not told.allowed
    assert "accountable for `gateway`" in told.hops[-1].remedies[0]


async def test_an_application_without_a_credential_cannot_ask(case: Case) -> None:
    """It has nothing to prove itself with."""
    await case.scene.company.delete(APPLICATION_CREDENTIAL, case.scene.zone.id, case.agent.credential_id)

    explained = await case.explained()

    assert explained.hops[0].steps[0].outcome == "refused"
    assert "ApplicationCredential" in explained.hops[0].remedies[0]


@pytest.mark.parametrize(
    ("situation", "said"),
    [
        ("undeclared", "add `https://other.test` to the dependencies of `agent`"),
        ("no consent", "the user has to consent to `agent` for `https://api.test`"),
        ("unknown scope", "request only scopes that `https://api.test` has (`read write`)"),
        ("consent to less than asked", "the user has to consent to `agent` for all requested scopes"),
        ("no policy permits", "add a policy to the active policy set that permits `agent`"),
    ],
)
async def test_the_remedy_names_what_is_missing(case: Case, situation: str, said: str) -> None:
    """In plain words, with the names of the case."""
    await SITUATIONS[situation][0](case)

    assert (await case.explained()).hops[-1].remedies[0].startswith(said)


async def test_the_rule_that_forbids_is_named(case: Case) -> None:
    """With the policy that it is in."""
    await _forbidden(case)

    (told,) = (await case.explained()).hops[-1].remedies
    assert told.startswith("policy `policy ")
    assert "rule `never`, forbids it" in told

"""The remedies of an explanation: what is missing and nothing else, in each state of an authorization."""

from dataclasses import replace

import pytest
from sqlalchemy import update
from tests.runtime.explain.test_agreement import PERMIT, Case, case
from tests.runtime.vault.conftest import TOKENS, Account, Desk, account, desk
from tests.runtime.vault.test_shared_credentials import SHARED, share
from tests.support.factories import App
from tests.support.scene import Scene

from runtime.contract.decisions import ExplainBody, ExplainedHop, Explanation
from runtime.domain.errors import OAuthError, ValidationFailed
from runtime.domain.kinds import DELEGATED_GRANT, PROVIDER, RESOURCE, USER, ZONE, Verb
from runtime.services.explain import explanations
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.tables import vault_tokens

__all__ = ["account", "case", "desk"]

CONSENT = "the user has to consent to"
STORE = "the user has to store a key for"
NO_WRITING = (
    '@id("no-writing") forbid(principal, action, resource) when { context.scopes.contains("write") };'
)
PERMIT_NO_ERASING = (
    '@id("no-erasing") permit(principal, action, resource) unless { context.scopes.contains("erase") };'
)
CONNECT = "the user has to connect an account at"


async def explained(scene: Scene, app: App, resource: str, user: str | None, **more: object) -> Explanation:
    body = {"application": app.application.identifier, "resource": resource, "user": user, **more}
    asked = ExplainBody.model_validate(body)
    return await explanations.explain(scene.services, scene.company.caller, scene.zone, asked)


async def last_hop(place: Account | Desk, app: App, **more: object) -> ExplainedHop:
    """The exchange of an application for the resource, which is refused in earnest too."""
    scope = " ".join(more["scopes"]) if "scopes" in more else None  # type: ignore[arg-type]
    with pytest.raises(OAuthError) as refusal:
        await place.exchange(app, scope)
    told = await explained(place.scene, app, place.resource.identifier, place.ann.user.identifier, **more)
    assert told.hops[-1].error == refusal.value.code
    return told.hops[-1]


def begins(hop: ExplainedHop, *expected: str) -> bool:
    """Whether these are the remedies, each by its beginning, and there are no others."""
    assert len(hop.remedies) == len(expected), hop.remedies
    pairs = zip(hop.remedies, expected, strict=True)
    return all(remedy.startswith(beginning) for remedy, beginning in pairs)


async def test_without_key_and_consent_both_are_missing(desk: Desk) -> None:
    """An application that asks for consent needs two things of the user."""
    assert begins(await last_hop(desk, desk.shy), CONSENT, STORE)


async def test_with_a_stored_key_only_consent_is_missing(desk: Desk) -> None:
    """Nobody is told to store what is there."""
    await desk.store()

    assert begins(await last_hop(desk, desk.shy), CONSENT)


async def test_with_implicit_consent_only_the_key_is_missing(desk: Desk) -> None:
    """Nobody is told to consent who is not asked."""
    assert begins(await last_hop(desk, desk.agent), STORE)


async def test_with_implicit_consent_only_the_account_is_missing(account: Account) -> None:
    """The same of an account at an outside provider."""
    assert begins(await last_hop(account, account.agent), CONNECT)


async def test_a_consent_to_less_than_the_key_is_worth_names_both(desk: Desk) -> None:
    """A key is not handed out in part."""
    await desk.store()
    await desk.agree(ClientRef(application_id=desk.shy.id), ("read",))

    hop = await last_hop(desk, desk.shy)

    assert begins(hop, "the user has consented to `read`, and the credential")
    assert "has the scopes `read write`" in hop.remedies[0]


async def test_fewer_scopes_than_the_key_has_are_named_as_that(desk: Desk) -> None:
    """The scopes are the resource's, and the consent is there: what is in the way is the key."""
    await desk.store()

    assert begins(await last_hop(desk, desk.agent, scopes=["read"]), "request all scopes that the credential")


async def test_a_dead_account_has_to_be_connected_again(account: Account) -> None:
    """It is there, so it is not told to be missing."""
    await account.connect()
    async with account.scene.services.database.transaction() as conn:
        mine = vault_tokens.c.zone_id == account.scene.zone.id
        await conn.execute(update(vault_tokens).where(mine).values(state="dead"))

    assert begins(
        await last_hop(account, account.agent), "the account at `https://idp.test` has no valid tokens"
    )


async def test_an_account_for_fewer_scopes_names_both(account: Account) -> None:
    """What it was connected for, and what is requested beyond."""
    await account.connect(replace(TOKENS, scopes=frozenset({"read"})), requested=("read",))

    hop = await last_hop(account, account.agent, scopes=["read", "write"])

    assert begins(hop, "the account at `https://idp.test` is connected for `read`")
    assert "again for `write`" in hop.remedies[0]


async def test_a_scope_that_the_resource_has_lost_is_named(account: Account) -> None:
    """The account can still do what the resource does not offer any more."""
    await account.connect()
    company, zone = account.scene.company, account.scene.zone
    await company.update(RESOURCE, zone.id, account.resource.id, scopes=["read"])

    assert begins(
        await last_hop(account, account.agent), "the user's credential has the scope `write`, which"
    )


async def test_a_grant_that_was_revoked_is_told_as_that(account: Account) -> None:
    """Consent is there, or not asked for: the user has taken the resource back."""
    grant_id = await account.connect()
    company, zone = account.scene.company, account.scene.zone
    await company.update(DELEGATED_GRANT, zone.id, grant_id, status="revoked")

    hop = await last_hop(account, account.agent)

    revoked = "the user's grant for `https://tracker.test` was revoked or has expired"
    assert begins(hop, revoked, CONNECT)


async def test_a_disabled_user_is_named(case: Case) -> None:
    """Who has to be enabled."""
    await case.change(USER, case.ann.user.id, status="disabled")

    assert begins((await case.explained()).hops[-1], "enable user `ann@acme.test`")


async def test_a_session_that_has_ended_says_that_the_user_has_to_sign_in(case: Case) -> None:
    """The rest is explained as if they had."""
    (step,) = [each for each in (await case.explained()).hops[0].steps if each.name == "session"]

    assert (step.outcome, str(step.detail).endswith("the user has to sign in there")) == ("assumed", True)


async def test_where_users_cannot_sign_in_no_session_is_assumed(case: Case) -> None:
    """Their token comes through others, which policies may look at: these have to be named."""
    await case.scene.company.policies(
        case.scene.zone, PERMIT, "forbid(principal, action, resource) when { context.chain_depth > 1 };"
    )
    whom = case.ann.user.identifier
    through = await explained(case.scene, case.gateway, case.target, whom, via=["agent"])
    assert [step.name for step in through.hops[-1].steps if step.outcome == "refused"] == ["policy"]

    direct = await explained(case.scene, case.gateway, case.target, whom)

    (hop,) = direct.hops
    assert (direct.allowed, hop.reason) == (
        False,
        "users cannot sign in to `gateway`: it has no redirect URI",
    )
    assert [step.name for step in hop.steps if step.outcome == "refused"] == ["session"]
    assert begins(hop, "name the applications through which a user's token comes to `gateway` (`via`)")


async def test_who_has_an_assertion_of_the_identity_provider_needs_no_redirect_uri(case: Case) -> None:
    """In such a zone an application can get a user's token without a redirect (RFC 7523)."""
    provider = await case.scene.company.create(
        PROVIDER, case.scene.zone.id, name="Staff", identifier="https://idp.test", type="external"
    )
    identity_provider = {"user_identity_provider_id": provider.id}
    await case.scene.company.run(ZONE, Verb.UPDATE, {}, case.scene.zone.id, identity_provider)

    told = await explained(case.scene, case.gateway, case.target, case.ann.user.identifier)

    assert told.allowed


async def test_applications_in_the_wrong_order_are_told(case: Case) -> None:
    """The token goes from the agent to the gateway: the remedy is no change of the configuration."""
    right = await explained(case.scene, case.gateway, case.target, case.ann.user.identifier, via=["agent"])
    assert right.allowed

    wrong = await explained(case.scene, case.agent, case.target, case.ann.user.identifier, via=["gateway"])

    assert not wrong.allowed
    assert begins(wrong.hops[-1], "`agent` depends on a resource of `gateway`, and not the other way round")


async def test_scopes_that_policies_leave_out_are_told_with_the_rule(case: Case) -> None:
    """The exchange succeeds with the rest, as a real one does."""
    whole = (await case.explained()).hops[-1]
    assert (whole.scopes, whole.left_out, whole.left_out_by) == (["read", "write"], [], [])
    await case.scene.company.policies(case.scene.zone, PERMIT, NO_WRITING)

    hop = (await case.explained()).hops[-1]

    assert await case.exchanged() == (None, "read")
    assert (hop.allowed, hop.scopes, hop.left_out) == (True, ["read"], ["write"])
    assert ([each.rule for each in hop.left_out_by], hop.unpermitted) == (["no-writing"], [])


async def test_scopes_that_no_rule_permits_are_told_from_forbidden_ones(case: Case) -> None:
    """No rule can be named for them, so they are named themselves."""
    company, zone = case.scene.company, case.scene.zone
    scopes = ["read", "write", "erase"]
    await company.update(RESOURCE, zone.id, case.api.id, scopes=scopes)
    await company.policies(zone, PERMIT_NO_ERASING, NO_WRITING)

    hop = (await case.explained()).hops[-1]

    assert (hop.scopes, hop.left_out) == (["read"], ["erase", "write"])
    assert ([each.rule for each in hop.left_out_by], hop.unpermitted) == (["no-writing"], ["erase"])


async def test_a_policy_that_forbids_part_of_a_key_is_named(desk: Desk) -> None:
    """A key is not handed out in part, so what forbids a scope of it forbids it."""
    await desk.store()
    assert await desk.exchange()
    await desk.scene.company.policies(desk.scene.zone, PERMIT, NO_WRITING)

    hop = await last_hop(desk, desk.agent)

    assert [each.rule for each in hop.policies] == ["no-writing"]
    assert "rule `no-writing`, forbids it" in hop.remedies[0]


async def test_a_rule_without_a_name_is_counted_from_one(desk: Desk) -> None:
    """As people count, and as `zonectl` does beside it."""
    await desk.store()
    without_name = NO_WRITING.partition("forbid")
    await desk.scene.company.policies(desk.scene.zone, PERMIT, "".join(without_name[1:]))

    hop = await last_hop(desk, desk.agent)

    assert [each.rule for each in hop.policies] == ["0"]
    assert "rule 1, forbids it" in hop.remedies[0]


async def own(case: Case, **more: object) -> tuple[Explanation, str | None]:
    """The explanation of a token of the agent's own, and the error of a real request."""
    form = [("grant_type", "client_credentials"), ("resource", case.target), *case.agent.form.items()]
    if "scopes" in more:
        form.append(("scope", " ".join(more["scopes"])))  # type: ignore[arg-type]
    error, granted = None, ""
    try:
        granted = (await case.scene.post(form)).get("scope", "")
    except OAuthError as refusal:
        error = refusal.code
    told = await explained(case.scene, case.agent, case.target, None, **more)
    assert (told.hops[-1].error, " ".join(told.hops[-1].scopes)) == (error, granted)
    return told, error


async def test_a_token_of_the_applications_own_is_explained(case: Case) -> None:
    """No user, so no session and no chain: the steps are those of client credentials."""
    told, error = await own(case)

    assert (told.allowed, told.user, told.session, error) == (True, None, None, None)
    steps = [each.name for each in told.hops[0].steps]
    assert steps == ["client", "resource", "dependency", "consent", "scopes", "policy"]


async def test_an_own_token_with_an_unknown_scope_is_refused_without_a_word_of_users(case: Case) -> None:
    """The remedy speaks of the resource."""
    told, error = await own(case, scopes=["erase"])

    assert error == "invalid_scope"
    assert begins(told.hops[0], "request only scopes that `https://api.test` has (`read write`)")
    assert "user" not in told.hops[0].remedies[0]


async def test_an_own_token_for_users_credentials_names_the_exchange(desk: Desk) -> None:
    """What a user has stored is not handed out to who asks without one."""
    told = await explained(desk.scene, desk.agent, desk.resource.identifier, None)

    assert (told.allowed, told.hops[0].error) == (False, "access_denied")
    assert "exchange a token of a user for it" in told.hops[0].remedies[0]


async def test_an_own_token_gets_the_key_that_is_stored_for_all_users(desk: Desk) -> None:
    """The secret is named, and what is said to do is what works."""
    told = await explained(desk.scene, desk.agent, desk.resource.identifier, None)
    assert begins(
        told.hops[0], "`https://tickets.test` takes a stored key", "an administrator stores a secret"
    )
    await share(desk)

    told = await explained(desk.scene, desk.agent, desk.resource.identifier, None)

    does = "exchange a token that `agent` gets on its own behalf (client credentials without `resource`)"
    assert begins(told.hops[0], does, "`https://tickets.test` takes a stored key or a connected account")
    assert "the secret `key` is handed out" in told.hops[0].remedies[0]
    form = [("grant_type", "client_credentials"), *desk.agent.form.items()]
    own_token = (await desk.scene.post(form))["access_token"]
    answer = await desk.scene.exchange(desk.agent, own_token, desk.resource)
    assert answer["access_token"] == SHARED


async def test_an_own_token_gets_nothing_of_an_account(account: Account) -> None:
    """Nobody's account is handed out without its user, whatever an administrator stores."""
    told = await explained(account.scene, account.agent, account.resource.identifier, None)

    assert begins(told.hops[0], "`https://tracker.test` takes a stored key or a connected account")


async def test_a_chain_needs_a_user(case: Case) -> None:
    """An application's own token comes through no other application."""
    with pytest.raises(ValidationFailed, match="`via`: needs `user`"):
        await explained(case.scene, case.gateway, case.target, None, via=["agent"])

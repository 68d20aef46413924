"""Further refusals: what an explanation says of the steps behind the one that refuses."""

import pytest
from tests.runtime.explain.test_agreement import (
    PERMIT,
    SITUATIONS,
    Case,
    case,
)
from tests.runtime.explain.test_remedies import explained
from tests.runtime.vault.conftest import Desk, desk
from tests.support.oauth_site import CALLBACK

from runtime.contract.decisions import ExplainedHop
from runtime.domain.kinds import APPLICATION, USER

__all__ = ["case", "desk"]

FORBID = '@id("never") forbid(principal, action, resource == Resource::"https://api.test");'
NO_WRITING = (
    '@id("no-writing") forbid(principal, action, resource) when { context.scopes.contains("write") };'
)


async def forbid(case: Case, *policies: str) -> None:
    await case.scene.company.policies(case.scene.zone, *(policies or (PERMIT, FORBID)))


def outcomes(hop: ExplainedHop) -> dict[str, str]:
    return {step.name: step.outcome for step in hop.steps if step.outcome not in ("passed", "assumed")}


async def last(case: Case) -> ExplainedHop:
    return (await case.explained()).hops[-1]


async def test_missing_consent_does_not_hide_that_a_policy_forbids_it(case: Case) -> None:
    """Both are told, each with its remedy; the outcome is that of the policy, as in a real exchange."""
    await SITUATIONS["no consent"][0](case)
    before = await last(case)
    await forbid(case)

    hop = await last(case)

    assert outcomes(before) == {"consent": "refused", "scopes": "not_reached", "policy": "not_reached"}
    assert outcomes(hop) == {"consent": "refused", "scopes": "not_reached", "policy": "also_refused"}
    assert (hop.error, hop.reason) == ("access_denied", "policy_denied")
    assert [step.detail for step in hop.steps if step.name == "consent"] == [before.reason]
    assert (await case.exchanged())[0] == hop.error
    assert [each.rule for each in hop.policies] == ["never"]
    assert hop.remedies[:-1] == before.remedies
    assert "rule `never`, forbids it" in hop.remedies[-1]
    (policy,) = [step for step in hop.steps if step.name == "policy"]
    assert policy.detail == "policy_denied"


async def test_what_mends_all_that_is_told_mends_the_exchange(case: Case) -> None:
    """Nothing is left that was not told: dependency, consent and policy at once."""
    other = await case.scene.company.resource(case.scene.zone, "https://other.test", scopes=("read",))
    case.target = other.identifier
    await case.change(APPLICATION, case.agent.id, consent="required")
    await forbid(case, PERMIT, FORBID.replace("api.test", "other.test"))

    hop = await last(case)
    assert outcomes(hop) == {
        "dependency": "refused",
        "consent": "also_refused",
        "scopes": "not_reached",
        "policy": "also_refused",
    }

    case.asking = await case.scene.company.app(
        case.scene.zone, "mended", dependencies=[other], redirect_uris=[CALLBACK]
    )
    assert outcomes(await last(case)) == {"policy": "refused"}
    await forbid(case, PERMIT)
    assert (await last(case)).allowed


async def test_refused_scopes_do_not_hide_a_policy_that_no_scopes_pass(case: Case) -> None:
    """Policies are asked about all that the resource has; a rule about some scopes is nothing to tell."""
    case.scopes = ("read", "erase")
    await forbid(case, PERMIT, NO_WRITING)
    assert outcomes(await last(case)) == {"scopes": "refused", "policy": "not_reached"}

    await forbid(case)

    assert outcomes(await last(case)) == {"scopes": "refused", "policy": "also_refused"}


async def test_missing_consent_does_not_hide_unknown_scopes_and_policy(case: Case) -> None:
    """Nobody is asked for consent to a scope that there is not; all three are told."""
    await SITUATIONS["no consent"][0](case)
    await forbid(case)
    case.scopes = ("erase",)

    hop = await last(case)

    assert outcomes(hop) == {"consent": "also_refused", "scopes": "refused", "policy": "also_refused"}
    assert len(hop.remedies) == 3


async def test_a_policy_is_asked_about_the_requested_scopes(case: Case) -> None:
    """One that forbids just these would refuse the exchange; for others it says nothing."""
    await SITUATIONS["no consent"][0](case)
    await forbid(case, PERMIT, NO_WRITING)
    case.scopes = ("read",)
    assert outcomes(await last(case))["policy"] == "not_reached"

    case.scopes = ("write",)

    assert outcomes(await last(case))["policy"] == "also_refused"


async def test_a_disabled_user_does_not_hide_what_needs_no_session(case: Case) -> None:
    """Dependency and consent; policies need who is signed in."""
    other = await case.scene.company.resource(case.scene.zone, "https://other.test")
    case.target = other.identifier
    await case.change(APPLICATION, case.agent.id, consent="required")
    await forbid(case, PERMIT, FORBID.replace("api.test", "other.test"))
    await case.change(USER, case.ann.user.id, status="disabled")

    assert outcomes(await last(case)) == {
        "session": "refused",
        "chain": "not_reached",
        "resource": "not_reached",
        "dependency": "also_refused",
        "consent": "also_refused",
        "scopes": "not_reached",
        "policy": "not_reached",
    }


async def test_an_unknown_resource_is_told_behind_an_ended_session(case: Case) -> None:
    """Nothing behind it can be asked."""
    case.target = "https://elsewhere.test"
    await case.change(USER, case.ann.user.id, status="disabled")

    told = outcomes(await last(case))

    assert (told["session"], told["resource"], told["policy"]) == ("refused", "also_refused", "not_reached")


@pytest.mark.parametrize("policies", [(PERMIT,), (PERMIT, FORBID)], ids=["permitted", "forbidden"])
async def test_an_own_token_is_asked_likewise(case: Case, policies: tuple[str, ...]) -> None:
    """Without a user: the dependency is missing, and a policy forbids it."""
    app = await case.scene.company.app(case.scene.zone, "lone")
    await forbid(case, *policies)

    told = await explained(case.scene, app, "https://api.test", None)

    policy = "also_refused" if FORBID in policies else "not_reached"
    assert outcomes(told.hops[0]) == {
        "dependency": "refused",
        "consent": "not_reached",
        "scopes": "not_reached",
        "policy": policy,
    }


async def test_a_missing_key_does_not_hide_a_policy(desk: Desk) -> None:
    """Of a resource whose keys users store: nobody stores one in vain."""

    async def told() -> dict[str, str]:
        of = desk.scene, desk.agent, desk.resource.identifier, desk.ann.user.identifier
        return outcomes((await explained(*of)).hops[-1])

    assert await told() == {"consent": "refused", "scopes": "not_reached", "policy": "not_reached"}
    await desk.scene.company.policies(desk.scene.zone, PERMIT, "forbid(principal, action, resource);")
    assert await told() == {"consent": "refused", "scopes": "not_reached", "policy": "also_refused"}


@pytest.mark.parametrize("situation", ["allowed", "no consent", "unknown scope", "policy forbids"])
async def test_actors_are_the_same_whichever_step_refuses(case: Case, situation: str) -> None:
    """The application itself first, and before it who passed the token on."""
    await SITUATIONS[situation][0](case)
    (hop,) = (await case.explained()).hops
    assert hop.actors == ["agent"]


@pytest.mark.parametrize("scopes", [None, ("erase",)], ids=["allowed", "refused"])
async def test_actors_of_a_chain_are_those_of_the_token(case: Case, scopes: tuple[str, ...] | None) -> None:
    """The last application first."""
    await SITUATIONS["through a gateway"][0](case)
    case.scopes = scopes

    told = await case.explained()

    assert told.allowed == (scopes is None)
    assert [hop.actors for hop in told.hops] == [["agent"], ["gateway", "agent"]]
